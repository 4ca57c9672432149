"""Reduction over dims."""
