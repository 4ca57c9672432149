"""Pointwise operations."""
