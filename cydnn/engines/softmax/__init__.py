"""Softmax and its gradient."""
