"""Rotary embedding."""
