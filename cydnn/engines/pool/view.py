"""Geometry of pooling as the kernels take it, common refusals, and the base of the engines."""
from __future__ import annotations

from math import prod
from typing import ClassVar, Iterator

from ...graph import Match
from ...steps import Launch
from ..engine import Engine, no_elements, no_variant, wrong_device

MOST = 2 ** 31                                   # items of one launch: kernels count them in 32 bits
SMEM = 40 << 10                                  # for the codes of winners
RAMP_US = 0.5                                    # until all blocks are at work
STATE = {("max", "ignore"): "max", ("max", "propagate"): "max_nan"}


# ---- The geometry ----

def state(op) -> str:
    """The kernels' word for how a window is reduced: max, max_nan or avg."""
    return STATE.get((op.mode, op.nan), "avg")


def nan_wins(op) -> int:
    return int(op.nan == "propagate")


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
    return dict(sizes=inner_first(sizes, 1), outs=inner_first(outs, 1), window=inner_first(window, 1),
                pad=inner_first(pad, 0), stride=inner_first(stride, 1))


def strides_of(d, *, channel: bool) -> tuple:
    """Strides w h d (c) n."""
    return (*inner_first(d.strides[2:], 0), *((d.strides[1],) if channel else ()), d.strides[0])


def lanes(d) -> dict:
    """Digits of a thread's number over tensor ``d``: channels innermost when their stride is the smallest."""
    nearest = min((s for s, n in zip(d.strides[2:], d.spatial) if n > 1), default=d.strides[1] + 1)
    inner = int(d.c > 1 and d.strides[1] < nearest)
    spatial = inner_first(d.spatial, 1)
    return dict(channels_inner=inner, digits=at_least_1((d.c, *spatial) if inner else (*spatial, d.c)))


def two(p: Match, d) -> tuple:
    """(window, pad, stride) as (h, w) pairs; a single spatial dim is w with h = 1."""
    return tuple((fill, *v) if len(v) == 1 else tuple(v) for v, fill in zip(p.op.geometry(d.rank), (1, 0, 1)))


def square(p: Match) -> int:
    """The kernels' word for a window: 3 for 3 x 3, 0 for any other."""
    return 3 if two(p, p.dx)[0] == (3, 3) else 0


def plane(d) -> tuple:
    """((h, w), (stride of h, stride of w)) of a tensor with one or two spatial dims."""
    return ((1, *d.dims[2:]), (0, *d.strides[2:])) if d.rank == 3 else (d.dims[2:], d.strides[2:])


def vectors(d) -> int:
    """16-byte vectors of a pixel's channels."""
    return d.dtype.bytes_of(d.c) // 16


def items_of(d) -> int:
    """16-byte vectors of channels in all."""
    return d.count // d.c * vectors(d)


def log2_ceil(n: int) -> int:
    return max(n - 1, 0).bit_length()


def touching(tile: int, window: int, stride: int, out: int) -> int:
    """The most windows of one dim that can touch ``tile`` neighbouring cells."""
    return max(min((tile + window - 2) // stride + 1, out), 1)


# ---- Reasons ----

def too_many(what: str, count: int):
    if count >= MOST:
        yield f"{what} must be fewer than {MOST}; got {count}"


def no_mode(p: Match, is_max: bool):
    if (p.op.mode == "max") != is_max:
        modes = "max" if is_max else "avg_include_padding or avg_exclude_padding"
        yield f"mode must be {modes}; got {p.op.mode}"


def no_rank(p: Match, most: int):
    if p.x.rank > most:
        yield f"x must have at most {most - 2} spatial dims; got {p.x.rank - 2}"


def unaligned(name: str, d):
    if d.alignment < 16:
        yield f"{name} must be aligned to 16 bytes; got {d.alignment}"


def no_channel_vectors(p: Match, *names):
    """Why 16-byte vectors of channels do not work."""
    for name in names:
        d, width = p.operands[name], 128 // p.operands[name].dtype.bits
        if d.c % width or d.strides[1] != 1:
            yield (f"channels of {name} must be neighbours and a multiple of {width} (16 bytes); "
                   f"got c={d.c}, stride {d.strides[1]}")
        elif any(s % width for i, (s, n) in enumerate(zip(d.strides, d.dims)) if i != 1 and n > 1):
            yield f"strides of {name} must be multiples of {width}; got {d.strides}"
        yield from unaligned(name, d)
        yield from no_elements({name: d})


def no_rows(p: Match, *names):
    """Why neighbours along w are not neighbours in memory."""
    for name in names:
        d = p.operands[name]
        if d.dims[-1] > 1 and d.strides[-1] != 1:
            yield f"w of {name} must be innermost; got stride {d.strides[-1]}"
        yield from no_elements({name: d})


def no_row_vectors(p: Match, name: str):
    """Why 16-byte vectors of a row do not work."""
    d, width = p.operands[name], 128 // p.operands[name].dtype.bits
    if d.dims[-1] % width or any(s % width for s, n in zip(d.strides[:-1], d.dims) if n > 1):
        yield (f"w and strides of {name} must be multiples of {width} (16 bytes); "
               f"got dims {d.dims}, strides {d.strides}")
    yield from unaligned(name, d)


def no_square_window(p: Match):
    """Why the kernels for K x K windows of stride 2 do not fit."""
    if p.x.rank != 4:
        yield f"x must have 2 spatial dims; got {p.x.rank - 2}"
        return
    window, _, stride = p.op.geometry(4)
    if window not in ((2, 2), (3, 3)) or stride != (2, 2):
        yield f"window must be (2, 2) or (3, 3) with stride (2, 2); got {window} with {stride}"


def no_whole_planes(p: Match, x: str, y: str):
    """Why one window is not one run of memory."""
    window, pad, _ = p.op.geometry(p.x.rank)
    if window != p.x.spatial or any(pad):
        yield ("window must be the whole of x without padding; "
               f"got window {window}, pad {pad}, x {p.x.spatial}")
    for name in (x, y):
        d = p.operands[name]
        if not d.is_packed("nchw"):
            yield f"{name} must be packed, w innermost; got strides {d.strides}"
        yield from no_elements({name: d})


def no_room(p: Match, tile_of):
    """Why the codes of the winners that ``tile_of`` a match needs do not fit (it gives None then)."""
    if p.x.rank <= 4 and p.dx.count and p.dy.count:
        window = two(p, p.x)[0]
        if window[0] * window[1] >= 65535 or tile_of(p) is None:
            yield f"winners of the windows over one cell must fit in {SMEM} bytes; got window {window}"


# ---- The base of the engines ----

class PoolingEngine(Engine):
    """The base of all. ``kernel``: its name, to which the type and a variant are added; ``moves``: the
    operands of the launch, the written one last; ``is_max``: the mode it takes, None for any."""
    kernel: ClassVar[str] = ""
    moves: ClassVar[tuple] = ("x", "y")
    is_max: ClassVar[bool | None] = None

    def shared_reasons(self, p, dev) -> Iterator[str]:
        yield from wrong_device(dev)
        yield from no_variant(p, f"pool/{self.kernel}.cu")
        if p.op.math not in ("f32", p.x.dtype.compute):
            yield f"compute must be {p.x.dtype.compute} for {p.x.dtype} data; got {p.op.compute}"
        if self.is_max is not None:
            yield from no_mode(p, self.is_max)

    def moved_us(self, p, dev, share: float) -> float:
        """Microseconds of a launch that reaches this share of the device's bandwidth."""
        moved = sum(p.operands[name].dtype.bytes_of(p.operands[name].count) for name in self.moves)
        return dev.launch_us + RAMP_US + moved / (dev.bandwidth_gbs * share) * 1e-3

    def launches(self, p, args: dict, *variant, **extra) -> list:
        """The launch; ``args``: beside pointers and blend, ``extra``: what the grid needs beside them."""
        args = dict({name: p.ptr(name) for name in self.moves}, **args, alpha=p.scalar("alpha"),
                    beta=p.scalar("beta"))
        return [Launch("_".join(map(str, (self.kernel, p.x.dtype, *variant))), args, extra)]
