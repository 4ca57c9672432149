"""Engines of scaled dot product attention."""
