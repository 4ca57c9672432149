"""The spatial transformer: grids and bilinear sampling."""
