"""Batch normalization."""
