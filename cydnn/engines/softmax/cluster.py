"""Softmax of long rows that a cluster of blocks holds (sm_90 and newer): what both directions share."""
from __future__ import annotations

from typing import ClassVar

from ...kernels.expressions import ceil_div
from ...steps import Launch
from ..engine import PLAIN, Config, Knob
from .view import RowEngine, chunk, form, row_args, stream_us, units

SIZES = (2, 4)                                   # the kernels' axis SIZE: blocks of a cluster
SMEM = 131072
FEW = 4                                          # blocks an SM, in turn, below which they hardly overlap


class Cluster(RowEngine):
    """``held``: 16-byte chunks of a row that a block holds."""
    knobs = (Knob("size", SIZES),)
    least_sm = 90
    held: ClassVar[int] = 0

    def row_limits(self, p, f, dev):
        most = self.held * SIZES[-1]
        if units(p, f) > most:
            yield f"needs rows of at most {most} chunks of 16 bytes; got {units(p, f)}"
        if not self._fills(p, f, SIZES[0]):
            yield f"needs rows that fill {SIZES[0]} blocks; got {f.col_count} columns"
        if SMEM > dev.smem_bytes:
            yield f"needs {SMEM} bytes of shared memory; the device has {dev.smem_bytes} a block"

    @staticmethod
    def _slice(p, f, size) -> int:
        """Columns of a block: whole chunks, so that all slices but the last are equal."""
        return ceil_div(f.col_count, size * chunk(p)) * chunk(p)

    def _fills(self, p, f, size) -> bool:
        """The last block has columns too."""
        return self._slice(p, f, size) * (size - 1) < f.col_count

    def configs(self, p, dev):
        if not p.descs[0].count:
            yield PLAIN
            return
        f = form(p)
        for size in SIZES:                       # the fewest blocks that hold the row first
            if units(p, f) <= self.held * size and self._fills(p, f, size):
                yield Config(size=size)

    def time(self, p, f, dev, config):
        blocks = f.row_count * config.size
        return stream_us(p, dev, blocks, efficiency=0.62 if blocks <= FEW * dev.sms else 0.86)

    def launches(self, p, f, config):
        args = row_args(p, f, slice=self._slice(p, f, config.size))
        return [Launch(f"{self.kernel}_{p.descs[0].dtype}_{config.size}", args)]
