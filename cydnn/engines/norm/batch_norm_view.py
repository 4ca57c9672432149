"""What the batch norm engines share: a tensor seen as rows x columns, and how a grid is cut from that.

A column is what has one mean (a channel for mode spatial, an activation for per_activation), a row is one of its samples. Both are
numbers of up to four digits, innermost first, with a stride for each tensor; kernels_src/norm/moments.cuh has the other half.
"""
from __future__ import annotations

from dataclasses import dataclass

from ...tensor import TensorDesc, collapse
from ..engine import Match, powers, wrong_device

MOST_SPLITS = 1024                               # each block of the second launch reads the parts of all
MOST = 2 ** 30                                   # rows, columns: kernels count them in 32 bits
BIG = ("x", "dy", "y", "dx")                     # operands of the full size; the others are one value a column
TYPES = ("f64", "f32", "f16", "bf16")


@dataclass(frozen=True)
class View:
    """Digits of rows and columns, and the strides of every operand over them."""
    row_dims: tuple
    row_strides: dict
    col_dims: tuple
    col_strides: dict
    rows: int
    cols: int

    @classmethod
    def of(cls, p: Match) -> "View":
        rank = p.x.rank
        col_axes = (1,) if p.op.mode == "spatial" else tuple(range(1, rank))
        row_axes = tuple(a for a in range(rank) if a not in col_axes)
        given = {name: d for name, d in p.operands.items() if d is not None}
        order = sorted(given, key=lambda name: BIG.index(name) if name in BIG else -1)      # the output decides the order of digits
        big = [name for name in order if name in BIG]
        row_dims, row_strides = collapse(*(_take(given[name], row_axes) for name in big))
        col_dims, col_strides = collapse(*(_take(given[name], col_axes) for name in order))
        return cls(row_dims, dict(zip(big, row_strides)), col_dims, dict(zip(order, col_strides)), _count(row_dims), _count(col_dims))

    @property
    def big(self) -> tuple:
        return tuple(self.row_strides)

    def rows_args(self, *names, items=1) -> dict:
        """Kernel arguments: digits of the rows (of ``items`` neighbours each) and their strides for the named operands."""
        dims = (self.row_dims[0] // items, *self.row_dims[1:])
        strides = [_four((s[0] * items, *s[1:]), 0) for s in (self.row_strides[n] for n in names)]
        return dict(row_sizes=_sizes(dims), row_strides=sum(strides, ()))

    def cols_args(self, *names) -> dict:
        """Kernel arguments: digits of the columns and their strides for the named operands; an absent operand has strides 0."""
        return dict(col_sizes=_sizes(self.col_dims), col_strides=sum((_four(self.col_strides.get(n, ()), 0) for n in names), ()))


def _take(d: TensorDesc, axes) -> TensorDesc:
    return TensorDesc(d.dtype, [d.dims[a] for a in axes], [d.strides[a] for a in axes])


def _count(dims) -> int:
    count = 1
    for d in dims:
        count *= d
    return count


def _four(values, fill) -> tuple:
    return (*values, *(fill,) * (4 - len(values)))


def _sizes(dims) -> tuple:
    return tuple(max(d, 1) for d in _four(dims, 1))


def wrong_operands(p: Match, dev, types=TYPES):
    """The reasons every batch norm engine shares."""
    yield from wrong_device(dev)
    if p.x.dtype.name not in types:
        yield f"x must be one of {' '.join(types)}; got {p.x.dtype}"
    small = p.x.dtype.compute
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


def no_column_vectors(p: Match, v: View):
    """Why 16-byte vectors of neighbouring columns do not work (channels innermost, one stride between rows)."""
    width = 16 // p.x.dtype.bytes
    if len(v.row_dims) > 1:
        yield f"samples must have one stride (channels innermost, no gaps); got digits {v.row_dims}"
    if v.col_dims[0] % width:
        yield f"channels must be a multiple of {width} (16 bytes); got {v.col_dims[0]}"
    yield from _no_vectors(p, v, width, {n: v.col_strides[n] for n in v.big}, v.row_strides, "channels")


def no_row_vectors(p: Match, v: View, width: int):
    """Why vectors of ``width`` neighbouring rows do not work (planes contiguous)."""
    if len(v.row_dims) > 2:
        yield f"samples must have at most two strides (planes contiguous); got digits {v.row_dims}"
    if v.row_dims[0] % width:
        yield f"elements of a plane must be a multiple of {width} ({width * p.x.dtype.bytes} bytes); got {v.row_dims[0]}"
    yield from _no_vectors(p, v, width, v.row_strides, {n: v.col_strides[n] for n in v.big}, "plane elements")


def _no_vectors(p, v, width, along, across, what):
    for name in v.big:
        if along[name][0] != 1:
            yield f"{what} of {name} must be neighbours; got stride {along[name][0]}"
        if any(s % width for s in (*along[name][1:], *across[name])):
            yield f"strides of {name} must be multiples of {width}; got {p.operands[name].strides}"
        if p.operands[name].alignment < width * p.x.dtype.bytes:
            yield f"{name} must be aligned to {width * p.x.dtype.bytes} bytes; got {p.operands[name].alignment}"


@dataclass(frozen=True)
class Cut:
    """How rows x columns become blocks: ``blocks`` along columns, ``splits`` along rows."""
    blocks: int
    splits: int
    rows_per_split: int
    lanes_log2: int = 0


def ceil_div(n: int, d: int) -> int:
    return -(-n // d)


def log2_ceil(n: int) -> int:
    return max(n - 1, 0).bit_length()


def cut_columns(v: View, width: int, dev, threads=512, least_rows=4, splits=None) -> Cut:
    """Lanes side by side read 128 bytes of a row (32 lanes without vectors). With vectors one block fills an SM by loads in flight:
    few splits then fill the device, and every block of the second launch merges the parts of all splits. No split is so short that
    a thread has fewer than ``least_rows`` rows while others would have none to merge."""
    vectors = ceil_div(v.cols, width)
    lanes_log2 = min(3 if width > 1 else 5, log2_ceil(vectors))
    blocks, groups = ceil_div(vectors, 1 << lanes_log2), threads >> lanes_log2
    splits = splits or min(max((1 if width > 1 else 2) * dev.sms // blocks, 1), max(ceil_div(v.rows, groups * least_rows), 1))
    rows_per_split = max(ceil_div(v.rows, splits), 1)
    return Cut(blocks, max(ceil_div(v.rows, rows_per_split), 1), rows_per_split, lanes_log2)


def cut_rows(v: View, items: int, dev, threads=256, blocks_per_sm=4, splits=None) -> Cut:
    """One column a block; few columns are split along their rows until the device is full (in one wave: 64 registers a thread)."""
    splits = splits or min(max(blocks_per_sm * dev.sms // v.cols, 1), max(ceil_div(items, threads), 1))
    items_per_split = max(ceil_div(items, splits), 1)
    return Cut(v.cols, max(ceil_div(items, items_per_split), 1), items_per_split)


def split_configs(p: Match) -> list[dict]:
    """Numbers of splits worth a look."""
    return [dict(splits=n) for n in powers(min(View.of(p).rows, MOST_SPLITS))]


def two_pass_us(p: Match, dev, passes: int, efficiency: float) -> float:
    """Microseconds of two launches that move ``passes`` times the bytes of x."""
    return 5.0 + passes * p.x.count * p.x.dtype.bytes / (dev.bandwidth_gbs * efficiency) * 1e-3
