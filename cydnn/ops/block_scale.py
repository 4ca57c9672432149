"""Numbers of few bits with a scale for each block of them: into them, and out of them."""
from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..dtypes import BY_NAME
from ..tensor import TensorDesc, packed_strides
from .attribute import choice, flag, integer, ints
from .op import Op

TILE = (128, 4)                                  # rows and columns of a tile of scales


def padded(dims, axis: int) -> tuple:
    """The dims of scales that lie in whole tiles, whose columns are dim ``axis`` and rows the other of the
    last two."""
    rows = 2 * len(dims) - 3 - axis
    of = {rows: TILE[0], axis: TILE[1]}
    return tuple([-(-n // of.get(i, 1)) * of.get(i, 1) for i, n in enumerate(dims)])


def order(rank: int, axis: int) -> tuple:
    """The dims of scales in tiles, outermost first."""
    return (*range(rank - 2), 2 * rank - 3 - axis, axis)


def as_they_lie(scale: np.ndarray, axis: int) -> np.ndarray:
    """Scales in tiles by their place in memory; row r and column c lie in tile (r // 128, c // 4) at
    (r % 32, r // 32 % 4, c % 4)."""
    whole = scale.transpose(order(scale.ndim, axis))
    *ahead, rows, columns = whole.shape
    tiles = whole.reshape(math.prod(ahead), rows // 128, 4, 32, columns // 4, 4).transpose(0, 1, 4, 3, 2, 5)
    return tiles.reshape(whole.shape).transpose(np.argsort(order(scale.ndim, axis)))


def by_number(memory: np.ndarray, axis: int) -> np.ndarray:
    """What ``as_they_lie`` took."""
    whole = memory.transpose(order(memory.ndim, axis))
    *ahead, rows, columns = whole.shape
    tiles = whole.reshape(math.prod(ahead), rows // 128, columns // 4, 32, 4, 4).transpose(0, 1, 4, 3, 2, 5)
    return tiles.reshape(whole.shape).transpose(np.argsort(order(memory.ndim, axis)))


def in_pairs(dims, axis: int) -> tuple:
    """The dims of bytes that hold two numbers each along a dim; ``dims`` where it is below 0."""
    return tuple([n // 2 if i == axis else n for i, n in enumerate(dims)])


FOURS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])   # what codes of f4_e2m1 mean; those from 8 on are negative


def f4_decoded(stored: np.ndarray, axis: int) -> np.ndarray:
    """Numbers of the bytes of ``in_pairs``, the first in the lower half."""
    codes = np.stack([stored.astype(int) & 15, stored.astype(int) >> 4], axis + 1)
    dims = [2 * n if i == axis else n for i, n in enumerate(stored.shape)]
    return np.concatenate([FOURS, -FOURS])[codes].reshape(dims)


def f4_encoded(values: np.ndarray, axis: int) -> np.ndarray:
    """Bytes of numbers, each rounded to the nearest that there is, ties to an even code; NaN is 0."""
    size = np.where(np.isnan(values), 0.0, np.minimum(np.abs(values), FOURS[-1]))
    above = np.searchsorted(FOURS, size)
    below = np.maximum(above - 1, 0)
    up, down = FOURS[above] - size, size - FOURS[below]
    codes = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, below) + 8 * np.signbit(values)
    low, high = (np.take(codes, np.arange(i, values.shape[axis], 2), axis) for i in (0, 1))
    return (low + 16 * high).astype(np.float64)


class BlockScaled(Op):
    """What both directions share."""
    scalars = {}

    def scale_rules(self, scale, least, axis):
        """``least``: the dims that scales must have at least."""
        yield (scale.rank == len(least) and all(n >= m for n, m in zip(scale.dims, least)),
               f"scale must have dims {least}, or more; got {scale.dims}")
        if self.is_tiled:
            yield axis >= len(least) - 2 >= 0, f"is_tiled must be False where dim {axis} is scaled; got True"
            whole = padded(scale.dims, axis)
            yield (scale.dims == whole and scale.strides == packed_strides(whole, order(len(least), axis)),
                   f"scale must be packed in tiles of {TILE}, dim {axis} innermost; got {scale}")
            yield scale.dtype.bits == 8, f"scale must have 8 bits in tiles; got {scale.dtype}"


@dataclass(frozen=True)
class BlockScaleDequantize(BlockScaled, reads="x scale", writes="y"):
    """y[i, j, …] = x[i, j, …] * scale[i // block[0], j // block[1], …].

    x and y of equal dims, but where ``pairs`` is a dim: there x has bytes of two f4_e2m1 numbers, u8
    scale: the dims of y by block, rounded up, or more
    Spec: graph API, Block scale dequantize.
    """
    block: tuple = ints(32, lo=1, api="OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE",
                        doc="elements that share a scale, of each dim; a number: of the last")
    is_tiled: bool = flag(doc="scale lies in tiles of 128 rows and 4 columns")
    pairs: int = integer(-1, lo=-1, doc="the dim along which a byte of x is two f4_e2m1; -1: none")

    api = "BLOCK_SCALE_DEQUANTIZE"
    api_names = dict(x="OPERATION_BLOCK_SCALE_DEQUANTIZE_XDESC", y="OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC",
                     scale="OPERATION_BLOCK_SCALE_DEQUANTIZE_SCALE_DESC",
                     compute="OPERATION_BLOCK_SCALE_DEQUANTIZE_MATH_PREC")

    def blocks(self, rank: int) -> tuple:
        """Of each dim; sizes that are left out are 1, in front."""
        own = (self.block,) if isinstance(self.block, int) else self.block
        return (1,) * (rank - len(own)) + own

    def columns(self, rank: int) -> int:
        """The dim whose scales are the columns of tiles."""
        blocks = self.blocks(rank)
        return max(range(max(rank - 2, 0), rank), key=lambda i: (blocks[i], i))

    @property
    def has_pairs(self) -> bool:
        """x has two numbers a byte."""
        return self.pairs >= 0

    def check(self, x, scale):
        count = 1 if isinstance(self.block, int) else len(self.block)
        yield 1 <= count <= x.rank, f"block must have 1 to {x.rank} entries; got {count}"
        yield self.pairs < x.rank, f"pairs must be below the rank of x, {x.rank}; got {self.pairs}"
        yield not self.has_pairs or x.dtype.name == "u8", f"x must be u8 where it has pairs; got {x.dtype}"
        dims = self.infer(x, scale)["y"].dims
        least = tuple([-(-n // size) for n, size in zip(dims, self.blocks(x.rank))])
        yield from self.scale_rules(scale, least, self.columns(x.rank))

    def infer(self, x, scale):
        if not self.has_pairs:
            return dict(y=x)
        return dict(y=x.like([2 * n if i == self.pairs else n for i, n in enumerate(x.dims)]))

    def reference(self, x, scale):
        scale = by_number(scale, self.columns(x.ndim)) if self.is_tiled else scale
        x = f4_decoded(x, self.pairs) if self.has_pairs else x
        for axis, size in enumerate(self.blocks(x.ndim)):
            scale = np.take(scale, np.arange(x.shape[axis]) // size, axis)
        return dict(y=x * scale)


MOST = dict({name: BY_NAME[name].highest for name in ("f8_e4m3", "f8_e5m2", "i8")}, f4_e2m1=FOURS[-1])
SCALES = ("f8_e8m0", "f8_e4m3", "f32")


def least_scales(largest: np.ndarray, target: str, scales: str) -> np.ndarray:
    """The least scale with which no more than the largest value of ``target`` stands for each number."""
    most, row = MOST[target], BY_NAME[scales]
    if scales == "f32":
        return row.round(largest / most)
    values = row.decode(np.arange(128 if scales == "f8_e4m3" else 256, dtype=np.uint8))
    values = values[np.isfinite(values)]
    at = np.searchsorted(values * most, largest)
    return np.where(np.isnan(largest), np.nan, values[np.minimum(at, len(values) - 1)])


@dataclass(frozen=True)
class BlockScaleQuantize(BlockScaled, reads="x", writes="y scale"):
    """scale[block] = the least with which the largest size of a block is at most the largest number of y's
    type; y = x / scale, 0 where that is 0.

    x      any dims
    y      the dims of x, of type ``to``; where that is f4_e2m1 bytes of two numbers along the axis, u8
    scale  the dims of x, along ``axis`` by ``block``, rounded up; of type ``scales``. Or more: those of no
           block are the least that there is
    Spec: graph API, Block scale quantize.
    """
    block: int = integer(32, lo=1, api="OPERATION_BLOCK_SCALE_QUANTIZE_BLOCK_SIZE",
                         doc="elements that share a scale")
    axis: int = integer(-1, lo=-1, doc="the dim that blocks lie along; -1: the last")
    to: str = choice(*MOST, doc="the type of y")
    scales: str = choice(*SCALES, doc="the type of scale")
    is_tiled: bool = flag(doc="scale lies in tiles of 128 rows and 4 columns")

    fixed = frozenset(["y", "scale"])
    typed = dict(to="y", scales="scale")
    api = "BLOCK_SCALE_QUANTIZE"
    api_names = dict(x="OPERATION_BLOCK_SCALE_QUANTIZE_XDESC", y="OPERATION_BLOCK_SCALE_QUANTIZE_YDESC",
                     scale="OPERATION_BLOCK_SCALE_QUANTIZE_SCALE_DESC",
                     compute="OPERATION_BLOCK_SCALE_QUANTIZE_MATH_PREC")

    def columns(self, rank: int) -> int:
        """The dim that blocks lie along."""
        return rank - 1 if self.axis < 0 else self.axis

    @property
    def has_pairs(self) -> bool:
        """y has two numbers a byte."""
        return self.to == "f4_e2m1"

    def stored(self) -> str:
        """The type of y in memory."""
        return "u8" if self.has_pairs else self.to

    def check(self, x):
        yield x.rank >= 1 and self.columns(x.rank) < x.rank, f"axis must be < rank {x.rank}; got {self.axis}"
        if self.has_pairs:
            count = x.dims[self.columns(x.rank)]
            yield self.scales != "f32", f"scales must be f8_e8m0 or f8_e4m3 for f4_e2m1; got {self.scales}"
            yield self.block % 2 == 0, f"block must be even for f4_e2m1; got {self.block}"
            yield count % 2 == 0, f"x must have an even number along the axis for f4_e2m1; got {count}"

    def infer(self, x):
        axis, dims = self.columns(x.rank), list(x.dims)
        dims[axis] = -(-dims[axis] // self.block)
        made = TensorDesc.packed(self.scales, padded(dims, axis), order(x.rank, axis)) if (
            self.is_tiled and axis >= x.rank - 2 >= 0) else x.like(dims, dtype=BY_NAME[self.scales])
        whole = in_pairs(x.dims, axis if self.has_pairs else -1)
        return dict(y=x.like(whole, dtype=BY_NAME[self.stored()]), scale=made)

    def complete(self, descs):
        """There may be more scales than blocks."""
        scale, given = descs.get("scale"), self.read_of(descs)
        if scale is None:
            return super().complete(descs)
        want, axis = self.inferred(given)["scale"], self.columns(given["x"].rank)
        self._hold(self.scale_rules(scale, want.dims, axis))
        self._hold([(not scale.is_overlapping, f"scale must not overlap itself; got dims {scale.dims}, "
                                               f"strides {scale.strides}")])
        return {**super().complete({**descs, "scale": want.replace(dtype=scale.dtype)}), "scale": scale}

    def settled(self, descs):
        """Types, and where the scales say it the dim, are those of what is written."""
        found = {a: descs[name].dtype.name for a, name in self.typed.items()
                 if descs.get(name) is not None and not (a == "to" and self.has_pairs)}
        if self.axis < 0 and "x" in descs and "scale" in descs:
            pairs = list(zip(descs["x"].dims, descs["scale"].dims))
            found |= dict(axis=max((i for i, (n, m) in enumerate(pairs) if m < n), default=-1))
        return replace(self, **found)

    def check_outputs(self, x, y, scale):
        for name, d, wanted in (("y", y, self.stored()), ("scale", scale, self.scales)):
            yield d.dtype.name == wanted, f"{name} must be {wanted}; got {d.dtype}"

    def reference(self, x, shapes):
        axis = self.columns(x.ndim)
        count = -(-x.shape[axis] // self.block)
        ragged = [(0, count * self.block - x.shape[axis] if i == axis else 0) for i in range(x.ndim)]
        inner = np.pad(np.abs(x), ragged)
        inner = inner.reshape(*x.shape[:axis], count, self.block, *x.shape[axis + 1:])
        largest = np.zeros(shapes["scale"])
        largest[tuple([slice(n) for n in inner.max(axis + 1).shape])] = inner.max(axis + 1)
        scale = least_scales(largest, self.to, self.scales)
        each = scale
        for i, n in enumerate(x.shape):
            each = np.take(each, np.arange(n) // (self.block if i == axis else 1), i)
        with np.errstate(all="ignore"):
            y = np.where(each == 0, 0.0, x / np.where(each == 0, 1.0, each))
        y = f4_encoded(y, axis) if self.has_pairs else y
        return dict(y=y, scale=as_they_lie(scale, axis) if self.is_tiled else scale)
