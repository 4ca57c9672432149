"""The v5 tensor operations: copies between layouts, add, op, set, scale."""
