"""Local response normalization and its gradient."""
from __future__ import annotations

from math import isfinite, log2, prod
from typing import ClassVar

from ...graph import Match, core, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import LrnBwd, LrnFwd
from ...steps import Launch
from ...tensor import TensorDesc, collapse
from ..engine import Engine, no_variant, wrong_device

MOST = 2 ** 31                                   # items of one launch: kernels count them in 32 bits
WINDOWS = (5, 9, 16)                             # the kernels' axis: cells of a window at most
CHANNEL = 1
ROOM, LEAST = 64, 96                             # exponents: of a lift at most; of 1 / scale that has none


@once_per_match
def kept(p: Match) -> tuple:
    """(sizes, [strides of each operand]) of the dims beside the channels, merged, innermost first."""
    axes = [a for a in range(p.x.rank) if a != CHANNEL]
    return collapse(*(TensorDesc(d.dtype, [d.dims[a] for a in axes], [d.strides[a] for a in axes])
                      for d in p.descs))


def width(window: int) -> int:
    """The kernels' word for a window."""
    return next(w for w in WINDOWS if window <= w)


def place(sizes, strides, names) -> dict:
    """Digits of a position, and the strides of the operands."""
    fill = (0,) * (4 - len(sizes))
    return dict(dims=len(sizes), digits=(*(max(n, 1) for n in sizes), 1, 1, 1)[:3],
                **{f"{name}_strides": (*s, *fill) for name, s in zip(names, strides)})


def quarters(power: float) -> int:
    """Of a power that kernels make of square roots, how many quarters it is; of others 0."""
    return {0.5: 2, 0.75: 3, 1.0: 4}.get(power, 0)


def lift(op, scale: float) -> float:
    """What the terms dy * x * s^-(power+1) of a gradient are multiplied by, and ``slope`` is divided by: a
    power of two. Of large x they are too small for f32 where the gradient, x times their sum, is not. There
    is room for dy below 2^64 beside the largest x * s^-(power+1) and x^2 * s^-(power+1), those where
    scale * x^2 is about the offset; a scale that is very small leaves less, for ``slope`` is divided."""
    if min(op.offset, scale) <= 0 or not isfinite(op.offset * scale * op.power):
        return 1.0
    squared = log2(op.offset) - log2(scale)
    most = max(squared / 2, squared) - (op.power + 1) * log2(op.offset)
    return 2.0 ** int(max(0.0, min(ROOM - max(0.0, most), LEAST + log2(scale))))


def gradient(op, scale: float) -> dict:
    """What kernels of gradients take besides. ``scale``: of the sum of squares, as kernels take it."""
    by = lift(op, scale)
    return dict(slope=2 * op.power * scale / by, lift=by)


def numbers(p: Match) -> dict:
    """The numbers of the op as kernels take them, and those of the blend."""
    scale = p.op.scale / p.op.window
    return dict(window=p.op.window, scale=scale, power=p.op.power, quarters=quarters(p.op.power),
                offset=p.op.offset, **(gradient(p.op, scale) if "dy" in p.operands else {}),
                alpha=p.scalar("alpha"), beta=p.scalar("beta"))


class LrnEngine(Engine):
    """The base of all. ``kernel``: its name, to which type and window are added. An engine adds ``limits``
    (what else it refuses), ``share`` (of the device's bandwidth) and ``launch``."""
    kernel: ClassVar[str] = ""

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from no_variant(p, f"lrn/{self.kernel}.cu")
        if p.op.math not in ("f32", p.x.dtype.compute):
            yield f"compute must be {p.x.dtype.compute} for {p.x.dtype} data; got {p.op.compute}"
        if p.x.count >= MOST:
            yield f"elements of x must be fewer than 2^31; got {p.x.count}"
        yield from self.limits(p, dev)

    def limits(self, p, dev):
        raise NotImplementedError

    def share(self, p) -> float:
        raise NotImplementedError

    def cost(self, p, dev, config):
        return dev.launch_us + p.region.traffic_bytes / (dev.bandwidth_gbs * self.share(p)) * 1e-3

    def plan(self, p, dev, config):
        return [self.launch(p, dev)] if p.x.count else []

    def launch(self, p, dev) -> Launch:
        raise NotImplementedError

    def name_of(self, p, *more) -> str:
        return "_".join((self.kernel, str(p.x.dtype), f"w{width(p.op.window)}", *more))


class LrnStrided(LrnEngine):
    """A thread walks the channels of a position; lanes along the innermost of the other dims."""
    LANES, STRIP = 128, 16                       # threads of a block; channels that chunks are multiples of
    BLOCKS_PER_SM = 16                           # that are wanted, while chunks stay long
    LEAST = 2                                    # of these in a chunk

    def limits(self, p, dev):
        return iter(())

    most: ClassVar[int] = 4                      # bytes of a thread's access
    most_of_small: ClassVar[int] = 4             # with windows of at most 5


    @classmethod
    def vector(cls, p) -> int:
        """Positions of a thread: as many as lie side by side, whole and aligned, everywhere."""
        sizes, strides = kept(p)
        most = cls.most_of_small if p.op.window <= WINDOWS[0] else cls.most
        vec = max(most // p.x.dtype.bytes, 1)
        while vec > 1 and not cls._fits(p, vec, sizes, strides):
            vec //= 2
        return vec

    @staticmethod
    def _fits(p, vec, sizes, strides) -> bool:
        side_by_side = all(s[0] == 1 and not any(t % vec for t in s[1:]) for s in strides)
        channels = not any(d.strides[CHANNEL] % vec for d in p.descs if d.c > 1)
        aligned = all(d.alignment >= vec * d.dtype.bytes for d in p.descs)
        return sizes[0] % vec == 0 and side_by_side and channels and aligned

    def share(self, p):
        _, strides = kept(p)
        return 0.85 if all(s[0] == 1 for s in strides) else 0.15

    def launch(self, p, dev):
        vec = self.vector(p)
        sizes, strides = kept(p)
        if vec > 1:
            sizes, strides = (sizes[0] // vec, *sizes[1:]), [(vec, *s[1:]) for s in strides]
        positions, steps = prod(sizes), ceil_div(p.x.c, self.STRIP)
        wanted = ceil_div(self.BLOCKS_PER_SM * dev.sms, ceil_div(positions, self.LANES))
        each = max(ceil_div(steps, wanted), min(self.LEAST, steps))
        channel = {f"{name}_channel": d.strides[CHANNEL] for name, d in zip(p.operands, p.descs)}
        near = all(d.strides[CHANNEL] < MOST // self.STRIP for d in p.descs)
        args = dict({name: p.ptr(name) for name in p.operands}, positions=positions, channels=p.x.c,
                    is_near=int(near), per=each * self.STRIP, chunks=ceil_div(steps, each), **channel,
                    **place(sizes, strides, p.operands), **numbers(p))
        return Launch(self.name_of(p, f"v{vec}"), args)


class LrnChannels(LrnEngine):
    """Channels innermost, in vectors of 16 bytes. An engine adds ``worth``, its share of the bandwidth."""
    worth: ClassVar[float] = 0.85

    def limits(self, p, dev):
        for name, d in p.operands.items():
            many = 128 // d.dtype.bits
            if d.c % many or d.strides[CHANNEL] != 1:
                yield (f"channels of {name} must be neighbours and a multiple of {many} (16 bytes); "
                       f"got c={d.c}, stride {d.strides[CHANNEL]}")
            elif any(s % many for a, (s, n) in enumerate(zip(d.strides, d.dims)) if a != CHANNEL and n > 1):
                yield f"strides of {name} must be multiples of {many}; got {d.strides}"
            if d.alignment < 16:
                yield f"{name} must be aligned to 16 bytes; got {d.alignment}"

    def share(self, p):
        return self.worth

    def launch(self, p, dev):
        vectors = p.x.dtype.bytes_of(p.x.c) // 16
        sizes, strides = kept(p)
        args = dict({name: p.ptr(name) for name in p.operands}, items=prod(sizes) * vectors, vectors=vectors,
                    **place(sizes, strides, p.operands), **numbers(p))
        return Launch(self.name_of(p), args)


class LrnFwdChannels(LrnChannels):
    """Channels innermost, any window: a thread makes 16 bytes of channels."""
    index, takes, kernel = 331, core(LrnFwd), "lrn_fwd_channels"


class LrnFwdStrided(LrnStrided):
    """Any strides, any window: a thread walks the channels of one or two positions."""
    index, takes, kernel = 330, core(LrnFwd), "lrn_fwd_strided"
    most_of_small = 8


class LrnBwdChannels(LrnChannels):
    """Channels innermost, any window: a thread makes 16 bytes of channels."""
    index, takes, kernel = 336, core(LrnBwd), "lrn_bwd_channels"


class LrnBwdStrided(LrnStrided):
    """Any strides, any window: a thread walks the channels of one or two positions."""
    index, takes, kernel = 335, core(LrnBwd), "lrn_bwd_strided"
