"""Resampling of images: maxima and averages of windows, linear interpolation, the nearest cell; and back.

A window begins ``o * stride - pre_pad`` cells behind the first, where strides and paddings may be fractions:
whole numbers of 1 / ``denominator``.
"""
from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from ..dtypes import BY_NAME
from .attribute import choice, integer, ints
from .op import Op
from .pooling import PoolingBwd, PoolingFwd

MODES = dict(max="RESAMPLE_MAXPOOL", avg_include_padding="RESAMPLE_AVGPOOL",
             avg_exclude_padding="RESAMPLE_AVGPOOL_EXCLUDE_PADDING", bilinear="RESAMPLE_BILINEAR",
             nearest="RESAMPLE_NEAREST")
PADS = dict(zero="ZERO_PAD", neg_inf="NEG_INF_PAD", edge="EDGE_VAL_PAD")
NAN = dict(ignore="NOT_PROPAGATE_NAN", propagate="PROPAGATE_NAN")    # words of an API


@dataclass(frozen=True)
class Resample(Op):
    """What both directions share. Outside of the image lie zeros, the cell at its edge (``padding`` edge), or
    what never wins a maximum (neg_inf).

    max, averages  the window's cells from the one that it begins in; an average without padding divides by
                   the cells that are inside, and is 0 where there are none
    bilinear       windows of two cells: between the neighbours of the window's middle, whose distances are
                   the weights
    nearest        windows of one cell: the one that it begins in
    """
    mode: str = choice(*MODES, api="RESAMPLE_MODE", members=MODES, is_required=True,
                       doc="what a window gives")
    window: tuple = ints(2, lo=1, api="RESAMPLE_WINDOW_DIMS", unit="1", doc="cells of a window")
    pre_pad: tuple = ints(0, lo=0, api="RESAMPLE_PRE_PADDINGS", unit="denominator",
                          doc="padding in front of the image")
    post_pad: tuple = ints(0, lo=0, api="RESAMPLE_POST_PADDINGS", unit="denominator",
                           doc="padding behind the image")
    stride: tuple = ints(1, lo=1, api="RESAMPLE_STRIDES", unit="denominator", doc="from a window to the next")
    denominator: int = integer(1, lo=1, doc="of the fractions that paddings and strides are")
    padding: str = choice(*PADS, api="RESAMPLE_PADDING_MODE", members=PADS, doc="what lies outside")
    nan: str = choice(*NAN, api="RESAMPLE_NAN_PROPAGATION", members=NAN,
                      doc="max only: ignore skips NaN, propagate lets it win")

    def geometry(self, rank):
        """(window, pre_pad, post_pad, stride), one entry for each spatial dim, in cells the first, else in
        units."""
        return tuple(self.spread(f, rank - 2) for f in ("window", "pre_pad", "post_pad", "stride"))

    def out_dims(self, dims) -> tuple:
        units = self.denominator
        return (*dims[:2], *((units * (i - w) + a + b) // s + 1
                             for i, w, a, b, s in zip(dims[2:], *self.geometry(len(dims)))))

    def rules(self, dims, name):
        yield 3 <= len(dims) <= 5, f"{name} must have 1 to 3 spatial dims; got rank {len(dims)}"
        yield min(dims[2:]) >= 1, f"{name} must have cells; got dims {dims}"
        window, out = self.geometry(len(dims))[0], self.out_dims(dims)
        yield (min(out[2:]) >= 1, f"window must fit into the padded {name}; got output {out[2:]} for {name} "
                                  f"{dims[2:]}, window {self.window}")
        need = dict(bilinear=2, nearest=1).get(self.mode)
        yield need is None or set(window) <= {need}, f"window must be {need} for {self.mode}; got {window}"
        yield (self.padding != "neg_inf" or self.mode == "max",
               f"padding must be zero or edge for {self.mode}; got {self.padding}")

    def _begins(self, size, axis, rank):
        """(first cells, shares of the next ones) of the windows of one dim, by the numerators."""
        _, pre, _, stride = (numbers[axis] for numbers in self.geometry(rank))
        units = 2 * self.denominator
        at = 2 * (np.arange(size) * stride - pre) + (self.denominator if self.mode == "bilinear" else 0)
        return at // units, at % units / units

    def taps(self, dims, out):
        """For each cell of a window, in row-major order: (index of the cells of x, whether they are inside,
        their weights), to be broadcast over ``out``."""
        rank = len(dims)
        window = self.geometry(rank)[0]
        begins = [self._begins(size, axis, rank) for axis, size in enumerate(out[2:])]
        shape = lambda v, axis: v.reshape([-1 if a == axis else 1 for a in range(rank - 2)])
        for tap in product(*map(range, window)):
            index, inside, weight = [], True, 1.0
            for axis, (t, size, (first, share)) in enumerate(zip(tap, dims[2:], begins)):
                cell = first + t
                index.append(shape(np.clip(cell, 0, max(size - 1, 0)), axis))
                inside = inside & shape((0 <= cell) & (cell < size), axis)
                weight = weight * shape(share if t else 1 - share, axis)
            yield tuple(index), inside, weight if self.mode == "bilinear" else 1.0

    def winners(self, x, out):
        """(maximum, number of the winning tap or -1) of every window: the first largest in row-major
        order."""
        best, winner = np.full(out, -np.inf), np.full(out, -1)
        for number, (index, inside, _) in enumerate(self.taps(x.shape, out)):
            value = x[(slice(None), slice(None), *index)]
            value = np.where(inside | (self.padding == "edge"), value, 0.0)
            valid = np.broadcast_to(inside | (self.padding != "neg_inf"), value.shape)
            if self.nan == "propagate":
                better = valid & ~np.isnan(best) & (np.isnan(value) | (value > best) | (winner < 0))
            else:
                better = valid & ~np.isnan(value) & ((value > best) | (winner < 0))
            best, winner = np.where(better, value, best), np.where(better, number, winner)
        return best, winner

    def divisor(self, dims, out):
        """What the sum of a window's cells is divided by."""
        if self.mode == "avg_exclude_padding":
            return np.maximum(sum(np.broadcast_to(inside, out[2:]).astype(float)
                                  for _, inside, _ in self.taps(dims, out)), 1.0)
        return float(prod(self.geometry(len(dims))[0])) if self.mode == "avg_include_padding" else 1.0

    def counts(self, inside):
        """Which cells of a sum are not 0."""
        return inside | (self.padding == "edge" and self.mode != "avg_exclude_padding")

    def as_pooling(self, op, dims):
        """The pooling that it is; None where it is none: of whole numbers, the same padding on both sides,
        and no window without a cell, which gives something else there."""
        rank = len(dims)
        window, pre, _, stride = self.geometry(rank)
        units, sides = self.denominator, "neg_inf" if self.mode == "max" else "zero"
        if self.mode in ("bilinear", "nearest") or self.padding != sides or any(
                n % units for n in (*pre, *stride)):
            return None
        made = op(mode=self.mode, window=window, pre_pad=[n // units for n in pre], nan=self.nan,
                  stride=[n // units for n in stride], compute=self.compute)
        return made if made.out_dims(dims) == self.out_dims(dims) else None

    def magnitude(self, arrays, scalars, results):
        if self.mode == "max" and "dx" not in results:
            return {name: np.abs(value) for name, value in results.items() if value is not None}
        keep = ("x", "index") if "dx" in results else ("index",)
        spread = {n: a if n in keep else np.abs(a) for n, a in arrays.items() if a is not None}
        return self.evaluate(spread, scalars)


@dataclass(frozen=True)
class ResampleFwd(Resample, reads="x", writes="y index?"):
    """y = what the windows of x give. x (n, c, spatial…) of one to three spatial dims, y (n, c, out…);
    out = (i + pre_pad + post_pad - window) // stride + 1.

    index  whole numbers of y's dims, of maxima only: the row-major number of the first largest cell in its
           window, 0 where there is none
    A maximum of nothing is the lowest finite value of y's type.
    Spec: graph API, ResampleFwd.
    """
    api = "RESAMPLE_FWD"
    api_names = dict(x="OPERATION_RESAMPLE_FWD_XDESC", y="OPERATION_RESAMPLE_FWD_YDESC",
                     index="OPERATION_RESAMPLE_FWD_IDXDESC", alpha="OPERATION_RESAMPLE_FWD_ALPHA",
                     beta="OPERATION_RESAMPLE_FWD_BETA", compute="RESAMPLE_COMP_TYPE")
    asked = frozenset(["index"])
    fixed = frozenset(["index"])
    blends = dict(y=("alpha", "beta"))

    def check(self, x):
        return self.rules(x.dims, "x")

    def infer(self, x):
        return dict(y=x.like(self.out_dims(x.dims)))

    def infer_asked(self, x):
        return dict(index=self.infer(x)["y"].replace(dtype=BY_NAME["i32"]))

    def check_outputs(self, x, y, index):
        yield from index_rules(self, index, y)

    def reference(self, x, shapes):
        out = shapes["y"]
        if self.mode == "max":
            best, winner = self.winners(x, out)
            return dict(y=np.where(winner < 0, -np.finfo(np.float64).max, best),
                        index=np.maximum(winner, 0) if "index" in shapes else None)
        cells = lambda index: x[(slice(None), slice(None), *index)]
        total = sum(np.where(self.counts(inside), cells(index) * weight, 0.0)
                    for index, inside, weight in self.taps(x.shape, out))
        return dict(y=total / self.divisor(x.shape, out))

    def lower(self, descs, absent=()):
        pooling = self.as_pooling(PoolingFwd, descs["x"].dims)
        return None if pooling is None or "index" not in absent else (
            [(pooling, dict(x="x", y="y"), dict(alpha="alpha", beta="beta"))], {})

    def has_nothing(self, rank):
        return self.mode == "max" and (self.nan == "ignore" or self.padding == "neg_inf")

    def terms(self, x, y, index=None):
        return 1 if self.mode == "max" else prod(self.geometry(x.rank)[0])


def index_rules(op, index, y):
    """What an index tensor must be beside the tensor ``y`` of its dims."""
    if index is None:
        return
    most = prod(op.geometry(y.rank)[0]) - 1
    yield op.mode == "max", f"index must be absent but for max; got it for {op.mode}"
    yield index.dims == y.dims, f"index must have dims {y.dims}; got {index.dims}"
    kinds = "i8 u8 i32 i64"
    yield index.dtype.name in kinds.split(), f"index must be one of {kinds}; got {index.dtype}"
    yield most <= index.dtype.highest, f"index must hold {most}, the last of a window; got {index.dtype}"


@dataclass(frozen=True)
class ResampleBwd(Resample, reads="dy x? y? index?", writes="dx", gradient_of=ResampleFwd):
    """dx = dy spread over the windows as they were read: to the cell that ``index`` or x says for maxima, by
    the same weights for the rest; what was padding gets nothing, the edge gets what was read of it.

    dy (n, c, out…), dx (n, c, spatial…), which must be given where x is not; y is not read.
    Spec: graph API, ResampleBwd.
    """
    api = "RESAMPLE_BWD"
    api_names = dict(dy="OPERATION_RESAMPLE_BWD_DYDESC", x="OPERATION_RESAMPLE_BWD_XDESC",
                     y="OPERATION_RESAMPLE_BWD_YDESC", index="OPERATION_RESAMPLE_BWD_IDXDESC",
                     dx="OPERATION_RESAMPLE_BWD_DXDESC", alpha="OPERATION_RESAMPLE_BWD_ALPHA",
                     beta="OPERATION_RESAMPLE_BWD_BETA", compute="RESAMPLE_COMP_TYPE")
    fixed = frozenset(["index"])
    unread = frozenset({"y"})

    def check(self, dy, x, y, index):
        yield (self.mode != "max" or x is not None or index is not None,
               "index must be given for max, or x; got neither")
        yield from index_rules(self, index, dy)
        yield y is None or y.dims == dy.dims, f"y must have dims {dy.dims} like dy; got {y and y.dims}"
        if x is not None:
            yield from self._fits(x, "x", dy)

    def _fits(self, d, name, dy):
        yield from self.rules(d.dims, name)
        out = self.out_dims(d.dims)
        yield dy.dims == out, f"dy must have dims {out}; got {dy.dims}"

    def infer(self, dy, x, y, index):
        return dict(dx=x) if x is not None else {}

    def check_outputs(self, dy, x, y, index, dx):
        yield dx is not None, "dx must be given where x is not"
        yield from self._fits(dx, "dx", dy)

    def free_dims(self, words, options):
        self._hold(self.rules(words[0], "x"))
        return dict(x=words[0], dx=words[0], dy=self.out_dims(words[0]))

    def admit(self, name, values):
        if name != "index":
            return values
        cells = prod(self.window) if isinstance(self.window, tuple) else self.window
        return np.floor(np.abs(values) * 9973) % cells

    def reference(self, dy, x, y, index, shapes):
        dx, out = np.zeros(shapes["dx"]), dy.shape
        if self.mode == "max":
            winner = index if index is not None else self.winners(x, out)[1]
        share = dy / self.divisor(dx.shape, out)
        lead = [np.arange(n).reshape([-1 if a == axis else 1 for a in range(len(out))])
                for axis, n in enumerate(out[:2])]
        for number, (cells, inside, weight) in enumerate(self.taps(dx.shape, out)):
            if self.mode == "max":
                inside, weight = inside | (self.padding == "edge"), winner == number
                value = np.where(inside & weight, dy, 0.0)
            else:
                value = np.where(self.counts(inside), share * weight, 0.0)
            np.add.at(dx, tuple([np.broadcast_to(at, out) for at in (*lead, *cells)]), value)
        return dict(dx=dx)

    def lower(self, descs, absent=()):
        pooling = self.as_pooling(PoolingBwd, descs["dx"].dims) if "x" not in absent else None
        if pooling is None or "index" not in absent:
            return None
        operands = dict(y="y" if "y" not in absent else "dy", dy="dy", x="x", dx="dx")
        return [(pooling, operands, dict(alpha="alpha", beta="beta"))], {}

    def terms(self, dy, dx, **_):
        window, _, _, stride = self.geometry(dx.rank)
        edge = prod(dx.spatial) if self.padding == "edge" else 1
        return prod(max(w * self.denominator // s + 1, 1) * min(w, 2) for w, s in zip(window, stride)) * edge
