"""Local response normalization."""
