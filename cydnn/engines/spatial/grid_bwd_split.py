"""Gradients of the affine maps: sums over parts of the points, then over the parts."""
from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import SpatialGridBwd
from ...steps import Launch
from ..engine import Config, Knob, memory_us
from .view import SpatialEngine

POINTS = 2048                                    # of a part, at least: eight of each thread
MOST_SPLITS = 1024


class SpatialGridBwdSplit(SpatialEngine):
    """One launch where the images fill the device, else two; every sum in a fixed order."""
    index, takes, kernel = 361, core(SpatialGridBwd), "spatial_grid_bwd_split"
    knobs = (Knob("splits", lo=1, hi=MOST_SPLITS),)

    def limits(self, p):
        if p.dgrid.n >= 65536:
            yield f"dgrid must have fewer than 65536 images; got {p.dgrid.n}"
        if not p.dgrid.count and p.dgrid.n:
            yield f"dgrid must have points; got dims {p.dgrid.dims}"

    def configs(self, p, dev):
        parts = min(ceil_div(p.dgrid.dims[1] * p.dgrid.dims[2], POINTS), MOST_SPLITS)
        wanted = max(min(parts, ceil_div(4 * dev.sms, max(p.dgrid.n, 1))), 1)
        yield from (Config(splits=splits) for splits in dict.fromkeys((wanted, max(parts, 1), 1)))

    def cost(self, p, dev, config):
        blocks = max(p.dgrid.n * config.splits, 1)
        starved = max(dev.sms / blocks, 1.0)
        return memory_us(p, dev, efficiency=0.6 / starved) + (dev.launch_us if config.splits > 1 else 0)

    def plan(self, p, dev, config):
        n, h, w, _ = p.dgrid.dims
        if not n:
            return []
        part = p.scratch(n * config.splits * 6 * (8 if p.dgrid.dtype.name == "f64" else 4))
        shared = dict(part=part, dtheta=p.ptr("dtheta"), images=n, splits=config.splits)
        args = dict(shared, dgrid=p.ptr("dgrid"), points=h * w, w=w, h=h)
        last = [Launch(f"spatial_grid_bwd_sum_{p.dgrid.dtype}", shared)] if config.splits > 1 else []
        return [Launch(f"{self.kernel}_{p.dgrid.dtype}", args), *last]
