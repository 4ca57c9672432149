"""Resampling of images."""
