"""How the threads of the batch norm kernels of any type go through rows and columns; kernels_src/norm/any.cuh
has the other half."""
from __future__ import annotations

from dataclasses import dataclass

from ...fusion import Site
from ...kernels.expressions import ceil_div
from ...steps import Launch
from .splits import MOST_SPLITS, Cut
from .view import View, log2_ceil

THREADS, PER_SM, LEAST_ITEMS = 512, 2, 4         # of a thread, while others would have none to merge
WIDE = 8                                         # neighbours at once


def by_stride(lead, axes) -> tuple:
    """The slowest in a tensor's memory first, behind those of one element."""
    return tuple(sorted(axes, key=lambda a: (lead.dims[a] > 1, -lead.strides[a])))


def digits(dims, axes, tensors: dict) -> tuple:
    """(sizes, {name: strides}) of the linear index over ``axes``, the last one fastest, innermost first;
    neighbours that lie behind each other in all tensors are one digit."""
    sizes, steps = [], []
    for axis in reversed([a for a in axes if dims[a] > 1]):
        step = [t.strides[axis] for t in tensors.values()]
        if sizes and step == [s * sizes[-1] for s in steps[-1]]:
            sizes[-1] *= dims[axis]
        else:
            sizes, steps = [*sizes, dims[axis]], [*steps, step]
    sizes, steps = sizes or [1], steps or [[0] * len(tensors)]
    return tuple(sizes), {name: tuple(step[i] for step in steps) for i, name in enumerate(tensors)}


@dataclass(frozen=True)
class SplitWalk:
    """How threads go through a match. ``cols``: lanes lie along columns; ``lanes``: neighbours at once."""
    row_axes: tuple
    col_axes: tuple
    view: View
    cols: bool
    lanes: int

    @property
    def lanes_log2(self) -> int:
        """Threads side by side along columns."""
        most = log2_ceil(ceil_div(self.view.cols, self.lanes))
        return min(3 if self.lanes > 1 else 5, most) if self.cols else 0

    @property
    def per_item(self) -> int:
        """Rows of an item."""
        return 1 if self.cols else self.lanes

    @property
    def items(self) -> int:
        return self.view.rows // self.per_item

    @property
    def blocks(self) -> int:
        return ceil_div(self.view.cols, (self.lanes if self.cols else 1) << self.lanes_log2)

    def cut(self, splits: int) -> Cut:
        each = max(ceil_div(self.items, splits), 1)
        return Cut(self.blocks, max(ceil_div(self.items, each), 1), each)

    def best(self, dev) -> int:
        """Splits that fill a device in one wave, where each is worth it."""
        worth = ceil_div(self.items, (THREADS >> self.lanes_log2) * LEAST_ITEMS)
        return self.cut(max(min(PER_SM * dev.sms // self.blocks, worth, MOST_SPLITS), 1)).splits

    def launch(self, name: str, cut: Cut, walked, columns, fuse, variant="", **args) -> Launch:
        """``walked``: names of what the kernel has row strides for; ``columns``: of the strides over
        columns."""
        size = dict(rows=self.items, cols=self.view.cols, rows_per_split=cut.each, splits=cut.splits,
                    lanes_log2=self.lanes_log2)
        given = {mark: program for mark, program in fuse.items() if program is not None}
        return Launch(f"{name}_any_{int(self.cols)}_{self.lanes}{variant}",
                      dict(size, **args, **self.view.rows_args(*walked, items=self.per_item),
                           **self.view.cols_args(*columns)), dict(blocks=cut.blocks), given)

    def site(self, dims, lead) -> Site:
        """``lead``: the tensor whose offsets a mark gives."""
        keys = (("row", self.row_axes), ("col", self.col_axes))
        if self.lanes == 1:
            return Site(dims, None, keys)
        return Site(dims, lead, keys, "col" if self.cols else "row", self.lanes, counts_vectors=not self.cols)


def walk_of(col_axes, order, big: dict, small: dict, lanes: int) -> SplitWalk | None:
    """The walk of so many neighbours at once through the tensors ``big``; None where they are not side by
    side in all. ``order``: the one whose memory decides the order of indices; ``small``: of the columns."""
    dims = order.dims
    rows = by_stride(order, [a for a in range(order.rank) if a not in col_axes])
    cols = by_stride(order, col_axes)
    row_dims, row_strides = digits(dims, rows, big)
    col_dims, col_strides = digits(dims, cols, {**big, **small})
    view = View(row_dims, row_strides, col_dims, col_strides)
    walk = lambda is_cols: SplitWalk(rows, cols, view, is_cols, lanes)
    if lanes == 1:
        near = lambda sizes, strides: next(iter(strides.values()))[0] if sizes[0] > 1 else 1 << 62
        return walk(near(col_dims, col_strides) < near(row_dims, row_strides))
    if len(row_dims) > 2 or any(t.alignment < 16 or t.dtype.bits < 8 for t in big.values()):
        return None
    steps = [s for n in big for s in (*row_strides[n], *col_strides[n]) if s != 1]
    nearest = next((dims[a] for a in reversed(cols) if dims[a] > 1), 1)      # other tensors may have it alone
    for sizes, strides, is_cols in ((col_dims, col_strides, True), (row_dims, row_strides, False)):
        is_near = all(strides[n][0] == 1 for n in big) and sizes[0] % lanes == 0
        if is_near and not any(s % lanes for s in steps):
            return walk(is_cols) if not is_cols or nearest % lanes == 0 else None
    return None
