"""Dropout, its gradient, its factors alone, and the states of its generator."""
from __future__ import annotations

from math import prod
from typing import ClassVar

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import DropoutBwd, DropoutFactors, DropoutFwd, DropoutStates, philox
from ...steps import Launch, Pointer
from ..cast import number_as
from ..engine import Engine, moved_us, no_variant, numbers, wrong_device

BLOCKS_PER_SM = 32                               # of a launch; measured on an H200: 4 are up to 3 % slower


def thresholds(p: float) -> dict:
    """What the kernels compare halves of random numbers with."""
    upper = min(philox.threshold(p) >> 16, 2 ** 16 - 1)
    return dict(upper=upper, lower=philox.threshold(p) - (upper << 16))


def blocks(count: int, each: int, dev) -> int:
    """Blocks that walk ``count`` elements in steps of ``each``: not too many, as each is counted."""
    return min(ceil_div(count, each), dev.sms * BLOCKS_PER_SM)


def walk(name: str, d) -> dict:
    """Dims and strides of a tensor for lib/walk.cuh: merged, innermost first."""
    dims, strides = [], []
    for size, stride in zip(reversed(d.dims), reversed(d.strides)):
        if dims and stride == dims[-1] * strides[-1]:
            dims[-1] *= size
        elif size > 1:
            dims.append(size)
            strides.append(stride)
    fill = lambda values, filler: (*values, *(filler,) * (8 - len(values)))
    return {f"{name}_dims": fill(dims, 1), f"{name}_strides": fill(strides, 0)}


def factors(y: Pointer, dtype, count: int, p: float, states: Pointer, dev) -> list:
    """The steps that write ``count`` factors, 0 or 1 / (1 - p), of a type to ``y`` (aligned to an element)
    from the next draw of the generator at ``states`` (ops.philox.STATES), which moves on.
    As ``ops.philox.factors``, bit for bit; none for no elements, which are no draw."""
    if not count:
        return []
    args = dict(y=y, states=states, count=count, **thresholds(p), factor=philox.factor(p))
    return [Launch(f"dropout_factors_{dtype}", args, dict(blocks=blocks(count, 2048, dev)))]


class DropoutEngine(Engine):
    """``x`` and ``y``: the operands that are read and written. An engine adds ``limits`` and
    ``more`` arguments."""
    x: ClassVar[str]
    y: ClassVar[str]
    kernel: ClassVar[str]
    share: ClassVar[float] = 0.85

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from no_variant(p, f"dropout/{self.kernel}.cu", self.x, self.y)
        data = p.operands[self.x]
        if p.op.math not in ("f32", data.dtype.compute):
            yield f"compute must be {data.dtype.compute} for {data.dtype} data; got {p.op.compute}"
        yield from self.limits(p)

    def cost(self, p, dev, config):
        return moved_us(p.op.moved_bytes(**p.operands), dev, self.share)

    def plan(self, p, dev, config):
        count = p.operands[self.x].count
        if not count:
            return []
        pointers = {name: p.ptr(name) for name in p.op.operands()}
        drawn = thresholds(p.op.p) if "states" in pointers else {}
        args = dict(pointers, **drawn, factor=philox.factor(p.op.p), **self.more(p))
        return [Launch(f"{self.kernel}_{p.operands[self.x].dtype}", args, self.extra(count, dev))]

    def extra(self, count, dev) -> dict:
        """What the grid needs beside the arguments."""
        return {}


class VectorDropout(DropoutEngine):
    """Packed tensors at multiples of 16 bytes."""

    def limits(self, p):
        for name in (self.x, self.y):
            d = p.operands[name]
            if not d.is_packed():
                yield f"{name} must be packed, the last dim innermost; got dims {d.dims}, strides {d.strides}"
            if d.alignment < 16:
                yield f"{name} must be aligned to 16 bytes; got {d.alignment}"

    def more(self, p) -> dict:
        return dict(count=p.operands[self.x].count)


class NhwcDropout(DropoutEngine):
    """Both tensors NHWC, channels and positions in whole octets."""
    share = 0.6

    def limits(self, p):
        for name in (self.x, self.y):
            d = p.operands[name]
            if d.rank < 3 or not d.is_packed("nhwc"):
                yield (f"{name} must be packed with the channels innermost; got dims {d.dims}, "
                       f"strides {d.strides}")
            elif d.c % 8 or prod(d.spatial) % 8:
                yield f"{name} must have a multiple of 8 channels and of 8 positions; got dims {d.dims}"
            if d.alignment < 16:
                yield f"{name} must be aligned to 16 bytes; got {d.alignment}"
        if p.operands[self.x].dims != p.operands[self.y].dims:
            yield f"{self.y} must have dims {p.operands[self.x].dims}; got {p.operands[self.y].dims}"
        if p.operands[self.x].count >= 2 ** 37:
            yield f"{self.x} must have fewer than 2^37 elements; got {p.operands[self.x].count}"

    def more(self, p) -> dict:
        d = p.operands[self.x]
        return dict(groups=d.c // 8, octets=prod(d.spatial) // 8, **self.shares(d.c // 8, d.count // 64))

    def shares(self, groups: int, patches: int) -> dict:
        """How threads share patches of eight channels by eight positions."""
        return dict(items=patches)


class StridedDropout(DropoutEngine):
    """Any dims and strides."""
    share = 0.2

    def limits(self, p):
        if p.operands[self.x].count >= 2 ** 31:
            yield f"{self.x} must have fewer than 2^31 elements; got {p.operands[self.x].count}"

    def more(self, p) -> dict:
        x, y = p.operands[self.x], p.operands[self.y]
        return dict(count=x.count, **walk(self.x, x), **walk(self.y, y))


class DropoutFwdVector(VectorDropout):
    """x and y packed, in any dims."""
    index, takes, kernel = 350, core(DropoutFwd), "dropout_fwd_vector"
    x, y = "x", "y"

    def extra(self, count, dev):
        return dict(blocks=blocks(count, 4096, dev))


class DropoutFwdNhwc(NhwcDropout):
    """Eight channels at eight positions a thread; a block's mask is gathered before it is written."""
    index, takes, kernel = 356, core(DropoutFwd), "dropout_fwd_nhwc"
    x, y = "x", "y"

    def shares(self, groups, patches):
        lanes = max([n for n in (1, 2, 4, 8) if 3 * ceil_div(groups, n) * n <= 4 * groups])
        return dict(rows=patches // groups, lanes_log2=lanes.bit_length() - 1, tiles=ceil_div(groups, lanes))

    def extra(self, count, dev):
        return dict(blocks=blocks(count, 16384, dev))


class DropoutFwdAny(StridedDropout):
    """Eight elements a thread, one after the other."""
    index, takes, kernel = 351, core(DropoutFwd), "dropout_fwd_any"
    x, y = "x", "y"


class DropoutBwdVector(VectorDropout):
    """dy and dx packed, in any dims."""
    index, takes, kernel = 352, core(DropoutBwd), "dropout_bwd_vector"
    x, y = "dy", "dx"


class DropoutBwdNhwc(NhwcDropout):
    """Eight channels at eight positions a thread."""
    index, takes, kernel = 357, core(DropoutBwd), "dropout_bwd_nhwc"
    x, y = "dy", "dx"


class DropoutBwdAny(StridedDropout):
    """An element a thread."""
    index, takes, kernel = 353, core(DropoutBwd), "dropout_bwd_any"
    x, y = "dy", "dx"


class DropoutFactorsVector(Engine):
    """Eight neighbours a thread."""
    index, takes = 354, core(DropoutFactors)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from no_variant(p, "dropout/dropout_factors.cu", "y")

    def cost(self, p, dev, config):
        return moved_us(p.op.moved_bytes(**p.operands), dev, 0.8)

    def plan(self, p, dev, config):
        return factors(p.ptr("y"), p.y.dtype, p.y.count, p.op.p, p.ptr("states"), dev)


class DropoutStatesSet(Engine):
    """One small launch. The seed may lie in memory."""
    index, takes = 355, core(DropoutStates)
    understands = numbers("i64", "i32", "i8", "u8")

    def refuse(self, p, dev):
        yield from wrong_device(dev)

    def plan(self, p, dev, config):
        steps = []
        args = dict(states=p.ptr("states"), seed=number_as(p, "seed", "i64", steps))
        return [*steps, Launch("dropout_states", args)]
