"""The host side of the tile programs (kernels_src/tile)."""
