"""The windows of images as columns of a matrix."""
