"""Convolution in three directions, and the bias gradient."""
