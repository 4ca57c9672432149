"""Caches in pages."""
