"""Bilinear sampling on any strides."""
from ...graph import core
from ...ops import SpatialSamplerFwd
from ...steps import Launch
from ..engine import memory_us
from .view import SpatialEngine, items


class SpatialSamplerFwdAny(SpatialEngine):
    """A point and four channels a thread; threads follow each other along channels where these lie closer
    than pixels in y."""
    index, takes, kernel = 362, core(SpatialSamplerFwd), "spatial_sampler_fwd_any"

    def cost(self, p, dev, config):
        return memory_us(p, dev, efficiency=0.4)

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        pointers = {name: p.ptr(name) for name in p.op.operands()}
        args = dict(pointers, alpha=p.scalar("alpha"), beta=p.scalar("beta"), **items(p.y), w=p.y.dims[3],
                    h=p.y.dims[2], width=p.x.dims[3], height=p.x.dims[2], x_strides=p.x.strides,
                    y_strides=p.y.strides)
        return [Launch(f"{self.kernel}_{p.y.dtype}", args)]
