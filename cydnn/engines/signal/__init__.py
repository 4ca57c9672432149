"""Flags that say that a tensor is there."""
