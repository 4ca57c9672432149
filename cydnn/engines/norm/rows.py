"""Batch norm with lanes along rows: a block takes a split of one channel, vectors of its planes."""
from __future__ import annotations

from ...kernels.expressions import ceil_div
from .splits import SplitEngine, Way
from .view import View, no_row_vectors


class Rows(Way):
    """One column a block. ``wide``: the kernels' axis WIDE, bytes of an item of neighbours (0: one row)."""
    word, threads, registers = "rows", 256, 64

    @property
    def _width(self) -> int:
        """Rows of an item."""
        return self.wide // self.p.x.dtype.bytes if self.wide else 1

    @property
    def blocks(self):
        return View.of(self.p).cols

    @property
    def items(self):
        return View.of(self.p).rows // self._width

    @property
    def worth(self):
        return ceil_div(self.items, self.threads)

    def size(self, cut):
        return dict(items=self.items, items_per_split=cut.each, splits=cut.splits)

    def grid(self, cut):
        return dict(cols=cut.blocks)

    def strides(self, *names):
        return View.of(self.p).rows_args(*names, items=self._width)

    def samples(self):
        return dict(rows=View.of(self.p).rows)


def widest(p) -> int:
    """Bytes of the widest vector that works: 16, 8, or 0 when neither does."""
    fits = lambda bits: bits > p.x.dtype.bits and not any(no_row_vectors(p, bits // p.x.dtype.bits))
    return next((wide for wide in (16, 8) if fits(8 * wide)), 0)


class RowsEngine(SplitEngine):
    """What the three share: vectors of neighbouring samples of one channel."""

    def way(self, p):
        return Rows(p, widest(p))

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if not widest(p):
            yield from no_row_vectors(p, max(64 // p.x.dtype.bits, 2))
