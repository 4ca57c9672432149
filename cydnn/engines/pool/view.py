"""What the pooling engines share: the geometry as the kernels take it, and the reasons they share."""
from __future__ import annotations

from math import prod

from ..engine import Engine, Match, wrong_device, wrong_types
from ...steps import Launch

MOST = 2 ** 31                                   # items of one launch: kernels count them in 32 bits
STATE = {("max", "ignore"): "max", ("max", "propagate"): "max_nan"}


def state(op) -> str:
    """The kernels' word for how a window is reduced: max, max_nan or avg."""
    return STATE.get((op.mode, op.nan), "avg")


def full(op, rank: int) -> int:
    """What averages divide by when padding counts, else 0."""
    return prod(op.geometry(rank)[0]) if op.mode == "avg_include_padding" else 0


def inner_first(values, fill: int) -> tuple:
    """Values of one to three spatial dims as w h d."""
    return (*reversed(values), *(fill,) * (3 - len(values)))


def at_least_1(values) -> tuple:
    return tuple(max(v, 1) for v in values)


def three(p: Match, sizes, outs) -> dict:
    """Kernel arguments that describe up to three spatial dims, w h d."""
    window, pad, stride = p.op.geometry(len(sizes) + 2)
    return dict(sizes=inner_first(sizes, 1), outs=inner_first(outs, 1), window=inner_first(window, 1), pad=inner_first(pad, 0),
                stride=inner_first(stride, 1))


def strides_of(d, *, channel: bool) -> tuple:
    """Strides w h d (c) n."""
    return (*inner_first(d.strides[2:], 0), *((d.strides[1],) if channel else ()), d.strides[0])


def two(p: Match, d) -> tuple:
    """(window, pad, stride) as (h, w) pairs; a single spatial dim is w with h = 1."""
    return tuple((fill, *v) if len(v) == 1 else tuple(v) for v, fill in zip(p.op.geometry(d.rank), (1, 0, 1)))


def square(p: Match) -> int:
    """The kernels' word for a window: 3 for 3 x 3, 0 for any other."""
    return 3 if two(p, p.dx)[0] == (3, 3) else 0


def plane(d) -> tuple:
    """((h, w), (stride of h, stride of w)) of a tensor with one or two spatial dims."""
    return ((1, *d.dims[2:]), (0, *d.strides[2:])) if d.rank == 3 else (d.dims[2:], d.strides[2:])


def wrong_operands(p: Match, dev, types=("f64", "f32", "f16", "bf16")):
    """The reasons every pooling engine shares."""
    yield from wrong_device(dev)
    yield from wrong_types(p, *types)
    if p.op.compute not in ("f32", p.operands["x"].dtype.compute):
        yield f"compute must be {p.operands['x'].dtype.compute} for {p.operands['x'].dtype} data; got {p.op.compute}"


def too_many(what: str, count: int):
    if count >= MOST:
        yield f"{what} must be fewer than {MOST}; got {count}"


def no_mode(p: Match, is_max: bool):
    if (p.op.mode == "max") != is_max:
        yield f"mode must be {'max' if is_max else 'avg_include_padding or avg_exclude_padding'}; got {p.op.mode}"


def no_rank(p: Match, most: int):
    if p.x.rank > most:
        yield f"x must have at most {most - 2} spatial dims; got {p.x.rank - 2}"


def no_channel_vectors(p: Match, *names):
    """Why 16-byte vectors of channels do not work."""
    for name in names:
        d = p.operands[name]
        width = 16 // d.dtype.bytes
        if d.c % width or d.strides[1] != 1:
            yield f"channels of {name} must be neighbours and a multiple of {width} (16 bytes); got c={d.c}, stride {d.strides[1]}"
        elif any(s % width for i, (s, n) in enumerate(zip(d.strides, d.dims)) if i != 1 and n > 1):
            yield f"strides of {name} must be multiples of {width}; got {d.strides}"
        if d.alignment < 16:
            yield f"{name} must be aligned to 16 bytes; got {d.alignment}"
        if not d.count:
            yield f"{name} must have elements; got dims {d.dims}"


def no_square_window(p: Match):
    """Why the kernels for K x K windows of stride 2 do not fit."""
    if p.x.rank != 4:
        yield f"x must have 2 spatial dims; got {p.x.rank - 2}"
        return
    window, _, stride = p.op.geometry(4)
    if window not in ((2, 2), (3, 3)) or stride != (2, 2):
        yield f"window must be (2, 2) or (3, 3) with stride (2, 2); got {window} with {stride}"


def overlapping(p: Match):
    """Why the windows of an average do not cover each cell at most once."""
    window, _, stride = p.op.geometry(p.x.rank)
    if any(k > s and out > 1 for k, s, out in zip(window, stride, p.dy.spatial)):
        yield f"windows must not overlap; got window {window}, stride {stride}"


def ceil_div(n: int, d: int) -> int:
    return -(-n // d)


def log2_ceil(n: int) -> int:
    return max(n - 1, 0).bit_length()


def moved_us(p: Match, dev, names, efficiency: float) -> float:
    """Microseconds to move the named operands once, plus a launch."""
    return 2.5 + sum(p.operands[n].count * p.operands[n].dtype.bytes for n in names) / (dev.bandwidth_gbs * efficiency) * 1e-3


def touching(tile: int, window: int, stride: int, out: int) -> int:
    """The most windows of one dim that can touch ``tile`` neighbouring cells."""
    return max(min((tile + window - 2) // stride + 1, out), 1)

class PoolingEngine(Engine):
    """What all have. ``moves``: the operands of the launch, the written one last; ``share``: of the device's bandwidth that it reaches;
    ``is_max``: the mode it takes, None for any. An engine adds ``limits`` (what else it refuses), ``kernel`` (its name) and ``args`` (those beside
    pointers and blend)."""
    types, moves, share, is_max = ("f32", "f16", "bf16"), ("x", "y"), 0.8, None

    def refuse(self, p, dev):
        yield from wrong_operands(p, dev, self.types)
        if self.is_max is not None:
            yield from no_mode(p, self.is_max)
        yield from self.limits(p, dev)

    def cost(self, p, dev):
        return moved_us(p, dev, self.moves, self.share)

    def plan(self, p, dev):
        if not p.operands[self.moves[-1]].count:
            return []
        args = dict(**{name: p.ptr(name) for name in self.moves}, alpha=p.scalar("alpha"), beta=p.scalar("beta"), **self.args(p, dev))
        return [Launch(self.kernel(p), args, self.extra(p, args))]

    def extra(self, p, args) -> dict:
        """What the grid needs beside the arguments."""
        return {}
