"""Dropout: forward, backward, factors alone, and the states of its generator."""
