"""What the batch norm engines share: a tensor seen as rows x columns, and the reasons not to take it.

A column is what has one mean (a channel for mode spatial, an activation for per_activation), a row is one of
its samples. Both are numbers of up to four digits, innermost first, with a stride for each tensor;
kernels_src/norm/moments.cuh has the other half.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...graph import Match, once_per_match
from ...kernels.expressions import ceil_div
from ...tensor import TensorDesc, collapse
from ..engine import no_variant, wrong_device

MOST = 2 ** 30                                   # rows, columns: kernels count them in 32 bits
BIG = ("x", "dy", "y", "dx")                     # operands of the full size; others are one value a column
RAMP_US = 0.5                                    # until all blocks of a launch are at work


@dataclass(frozen=True)
class View:
    """Digits of rows and columns, and the strides of every operand over them."""
    row_dims: tuple
    row_strides: dict
    col_dims: tuple
    col_strides: dict

    @staticmethod
    @once_per_match
    def of(p: Match) -> "View":
        """The view of a match."""
        rank = p.x.rank
        col_axes = (1,) if p.op.mode == "spatial" else tuple(range(1, rank))
        row_axes = tuple(a for a in range(rank) if a not in col_axes)
        given = {name: d for name, d in p.operands.items() if d is not None}
        place = lambda name: BIG.index(name) if name in BIG else -1
        order = sorted(given, key=place)         # the output decides the order of digits
        big = [name for name in order if name in BIG]
        row_dims, row_strides = collapse(*(_some(given[name], row_axes) for name in big))
        col_dims, col_strides = collapse(*(_some(given[name], col_axes) for name in order))
        return View(row_dims, dict(zip(big, row_strides)), col_dims, dict(zip(order, col_strides)))

    @property
    def rows(self) -> int:
        return prod(self.row_dims)

    @property
    def cols(self) -> int:
        return prod(self.col_dims)

    @property
    def big(self) -> tuple:
        return tuple(self.row_strides)

    def rows_args(self, *names, items=1) -> dict:
        """Kernel arguments: digits of the rows (of ``items`` neighbours each) and their strides for the named
        operands."""
        dims = (self.row_dims[0] // items, *self.row_dims[1:])
        strides = [_four((s[0] * items, *s[1:]), 0) for s in (self.row_strides[n] for n in names)]
        return dict(row_sizes=_sizes(dims), row_strides=sum(strides, ()))

    def cols_args(self, *names) -> dict:
        """Kernel arguments: digits of the columns and their strides for the named operands; an absent operand
        has strides 0."""
        strides = [_four(self.col_strides.get(n, ()), 0) for n in names]
        return dict(col_sizes=_sizes(self.col_dims), col_strides=sum(strides, ()))


def _some(d, axes) -> TensorDesc:
    return TensorDesc(d.dtype, [d.dims[a] for a in axes], [d.strides[a] for a in axes])


def _four(values, fill) -> tuple:
    return (*values, *(fill,) * (4 - len(values)))


def _sizes(dims) -> tuple:
    return tuple(max(d, 1) for d in _four(dims, 1))


def log2_ceil(n: int) -> int:
    return max(n - 1, 0).bit_length()


def vectors_of(p: Match) -> int:
    """16-byte vectors of a row."""
    return ceil_div(View.of(p).cols * p.x.dtype.bits, 128)


def bytes_of_x(p: Match) -> int:
    return p.x.dtype.bytes_of(p.x.count)


# ---- Reasons ----

def wrong_operands(p: Match, dev, source: str, least_sm: int = 75):
    """The reasons every batch norm engine shares; ``source``: the kernel that says which types it takes."""
    yield from wrong_device(dev, least_sm)
    yield from no_variant(p, source, "x", same=False)
    small = p.x.dtype.compute
    if p.op.math not in ("f32", small):
        yield f"compute must be f32 for {p.x.dtype} data; got {p.op.compute}"
    for name, d in p.operands.items():
        if d is None:
            continue
        if name in BIG and d.dtype != p.x.dtype:
            yield f"{name} must be {p.x.dtype} like x; got {d.dtype}"
        if name not in BIG and d.dtype.name != small:
            yield f"{name} must be {small} for {p.x.dtype} data; got {d.dtype}"
    v = View.of(p)
    if max(v.rows, v.cols) >= MOST:
        yield f"x must have fewer than {MOST} samples a mean and means; got {v.rows} and {v.cols}"


def no_column_vectors(p: Match):
    """Why 16-byte vectors of neighbouring columns do not work (channels innermost, one stride of rows)."""
    v, width = View.of(p), 128 // p.x.dtype.bits
    if len(v.row_dims) > 1:
        yield f"samples must have one stride (channels innermost, no gaps); got digits {v.row_dims}"
    if v.col_dims[0] % width:
        yield f"channels must be a multiple of {width} (16 bytes); got {v.col_dims[0]}"
    yield from _no_vectors(p, width, {n: v.col_strides[n] for n in v.big}, v.row_strides, "channels")


def no_row_vectors(p: Match, width: int):
    """Why vectors of ``width`` neighbouring rows do not work (planes contiguous)."""
    v = View.of(p)
    if len(v.row_dims) > 2:
        yield f"samples must have at most two strides (planes contiguous); got digits {v.row_dims}"
    if v.row_dims[0] % width:
        bytes = p.x.dtype.bytes_of(width)
        yield f"elements of a plane must be a multiple of {width} ({bytes} bytes); got {v.row_dims[0]}"
    yield from _no_vectors(p, width, v.row_strides, {n: v.col_strides[n] for n in v.big}, "plane elements")


def _no_vectors(p, width, along, across, what):
    bytes = p.x.dtype.bytes_of(width)
    for name in along:
        if along[name][0] != 1:
            yield f"{what} of {name} must be neighbours; got stride {along[name][0]}"
        if any(s % width for s in (*along[name][1:], *across[name])):
            yield f"strides of {name} must be multiples of {width}; got {p.operands[name].strides}"
        if p.operands[name].alignment < bytes:
            yield f"{name} must be aligned to {bytes} bytes; got {p.operands[name].alignment}"
