"""The spatial transformer: grids from affine maps, bilinear sampling, and their gradients."""
from __future__ import annotations

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import SpatialGridBwd, SpatialGridFwd, SpatialSamplerBwd, SpatialSamplerFwd
from ...steps import Launch
from ..engine import Config, Engine, Knob, memory_us, no_variant, wrong_device

CHANNELS = 4                                     # of a thread, at most
MOST = 2 ** 31                                   # items of one launch


def are_channels_inner(d) -> bool:
    """Channels lie closer than pixels."""
    return d.c > 1 and d.strides[1] < min((s for s, n in zip(d.strides[2:], d.spatial) if n > 1),
                                          default=d.strides[1] + 1)


def items(d) -> dict:
    """A thread for each pixel of a tensor and up to four of its channels."""
    places, chunks = d.n * d.dims[2] * d.dims[3], max(ceil_div(d.c, CHANNELS), 1)
    inner = are_channels_inner(d)
    return dict(items=places * chunks, inner=chunks if inner else places, channels_inner=int(inner),
                channels=d.c, chunks=chunks)


class SpatialEngine(Engine):
    """The base of all, with common refusals: devices, types, more items than a launch has."""
    kernel: str

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        wrong = [*no_variant(p, f"spatial/{self.kernel}.cu")]
        yield from wrong
        first = next(iter(p.operands.values()))
        if not wrong and p.op.math not in ("f32", first.dtype.compute):
            yield f"compute must be {first.dtype.compute} for {first.dtype} data; got {p.op.compute}"
        for name, d in p.operands.items():
            if d.count >= MOST:
                yield f"{name} must have fewer than 2^31 elements; got {d.count}"
        yield from self.limits(p)

    def limits(self, p):
        return iter(())


class SpatialGridFwdAny(SpatialEngine):
    """A point a thread."""
    index, takes, kernel = 360, core(SpatialGridFwd), "spatial_grid_fwd_any"

    def plan(self, p, dev, config):
        _, h, w, _ = p.grid.dims
        points = p.grid.count // 2
        args = dict(theta=p.ptr("theta"), grid=p.ptr("grid"), points=points, w=w, h=h)
        return [Launch(f"{self.kernel}_{p.grid.dtype}", args)] if points else []


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
