"""Grids from affine maps."""
from ...graph import core
from ...ops import SpatialGridFwd
from ...steps import Launch
from .view import SpatialEngine


class SpatialGridFwdAny(SpatialEngine):
    """A point a thread."""
    index, takes, kernel = 360, core(SpatialGridFwd), "spatial_grid_fwd_any"

    def plan(self, p, dev, config):
        _, h, w, _ = p.grid.dims
        points = p.grid.count // 2
        args = dict(theta=p.ptr("theta"), grid=p.ptr("grid"), points=points, w=w, h=h)
        return [Launch(f"{self.kernel}_{p.grid.dtype}", args)] if points else []
