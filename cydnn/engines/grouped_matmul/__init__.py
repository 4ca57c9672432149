"""Products of groups of rows."""
