"""Gradients of bilinear sampling, without atomics on numbers: points are ordered by the cell that they are
in, and every pixel of dx adds up those of the four cells around it."""
from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import SpatialSamplerBwd
from ...steps import Launch
from ..engine import Config, Knob, memory_us
from .view import MOST, SpatialEngine, are_channels_inner, items

MOST_CELLS, LEAST_CELLS = 1024, 32               # of a warp that orders points
WARPS = 16                                       # of these for each SM


class SpatialSamplerBwdGather(SpatialEngine):
    """Three launches: dgrid and the cell of each point; the order; dx. Sums follow the numbers of the points,
    so that two runs have equal bits, and each is rounded once."""
    index, takes, kernel = 363, core(SpatialSamplerBwd), "spatial_sampler_bwd_gather"
    knobs = (Knob("threads_per_point", (1, 32)),)  # threads that share the channels of a point

    def limits(self, p):
        if p.x.n >= 65536:
            yield f"x must have fewer than 65536 images; got {p.x.n}"
        if p.grid.count and 32 * p.grid.count // 2 >= MOST:
            yield f"grid must have fewer than 2^26 points; got {p.grid.count // 2}"
        if not p.grid.count and p.x.count:
            yield f"grid must have points; got dims {p.grid.dims}"

    def configs(self, p, dev):
        points = p.grid.count // 2
        is_team = are_channels_inner(p.x) or points < dev.sms * 512
        yield from (Config(threads_per_point=team) for team in ((32, 1) if is_team else (1, 32)))

    def cost(self, p, dev, config):
        orders = 8 * p.grid.count // 2 * ceil_div(self.cells(p.x), self.band(p, dev))
        share = 0.3 if config == self.best(p, dev) else 0.1
        return 2 * dev.launch_us + memory_us(p, dev, 1.5, share) + orders / 4e6

    @staticmethod
    def cells(x) -> int:
        """Of an image: the first row and column of pixels have points above and to the left."""
        return (x.dims[2] + 1) * (x.dims[3] + 1)

    def band(self, p, dev) -> int:
        """Cells of a warp: enough warps for the device, as each walks all points of its image."""
        wanted = self.cells(p.x) * p.x.n // (dev.sms * WARPS)
        return min(max(wanted, LEAST_CELLS), MOST_CELLS)

    def plan(self, p, dev, config):
        if not p.grid.count:
            return []
        n, h, w, _ = p.grid.dims
        dtype, cells, wide = p.x.dtype, self.cells(p.x), 8 if p.x.dtype.name == "f64" else 4
        area = dict(cells=p.scratch(4 * n * h * w), fractions=p.scratch(2 * wide * n * h * w),
                    starts=p.scratch(4 * n * (cells + 1)), order=p.scratch(4 * n * h * w))
        pick = lambda *names: {name: area[name] for name in names}
        steps = [Launch(f"spatial_sampler_bwd_points_{dtype}_{config.threads_per_point}", dict(
            pick("cells", "fractions"), **{o: p.ptr(o) for o in ("x", "dy", "grid", "dgrid")},
            alpha_dgrid=p.scalar("alpha_dgrid"), beta_dgrid=p.scalar("beta_dgrid"), points=n * h * w,
            channels=p.x.c, w=w, h=h, width=p.x.dims[3], height=p.x.dims[2], x_strides=p.x.strides,
            dy_strides=p.dy.strides))]
        if not p.dx.count:
            return steps
        steps.append(Launch("spatial_sampler_bwd_bins", dict(
            pick("cells", "starts", "order"), images=n, points=h * w, kinds=cells, band=self.band(p, dev))))
        return [*steps, Launch(f"{self.kernel}_{dtype}", dict(
            pick("fractions", "starts", "order"), dy=p.ptr("dy"), dx=p.ptr("dx"), alpha=p.scalar("alpha"),
            beta=p.scalar("beta"), **items(p.dx), w=w, points=h * w, width=p.x.dims[3], height=p.x.dims[2],
            dy_strides=p.dy.strides, dx_strides=p.dx.strides))]
