"""Batch norm with lanes along columns: channels innermost, and per activation."""
from __future__ import annotations

from ...kernels.expressions import ceil_div
from .splits import SplitEngine, Way
from .view import View, log2_ceil, no_column_vectors, vectors_of

LEAST_ROWS = 4                                   # of a thread, while others would have none to merge


class Columns(Way):
    """Lanes side by side read 128 bytes of a row, or 32 columns without vectors (``wide``: the axis VEC)."""
    word, threads = "columns", 512

    @property
    def registers(self):
        """With vectors one block fills an SM by loads in flight: few splits then fill the device."""
        return 128 if self.wide else 64

    @property
    def _vectors(self) -> int:
        return vectors_of(self.p) if self.wide else View.of(self.p).cols

    @property
    def _lanes_log2(self) -> int:
        return min(3 if self.wide else 5, log2_ceil(self._vectors))

    @property
    def blocks(self):
        return ceil_div(self._vectors, 1 << self._lanes_log2)

    @property
    def items(self):
        return View.of(self.p).rows

    @property
    def worth(self):
        return ceil_div(self.items, (self.threads >> self._lanes_log2) * LEAST_ROWS)

    def size(self, cut):
        return dict(rows=self.items, cols=View.of(self.p).cols, rows_per_split=cut.each, splits=cut.splits,
                    lanes_log2=self._lanes_log2)

    def grid(self, cut):
        return dict(blocks=cut.blocks)

    def strides(self, *names):
        return View.of(self.p).rows_args(*names)


class ColumnsEngine(SplitEngine):
    """What the three share: 16-byte vectors of channels."""

    def way(self, p):
        return Columns(p, 1)

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        yield from no_column_vectors(p)
