"""Softmax and its gradient of few very long rows: one cooperative launch, several blocks a row."""
from __future__ import annotations

from typing import ClassVar

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import SoftmaxBwd, SoftmaxFwd
from ...steps import Launch
from ..engine import Config, Knob, first_then
from .view import RowEngine, chunk, form, row_args, rows_to_check, stream_us, units

SMEM, STATIC_SMEM = 131072, 256                  # the second: what block_reduce takes
LEAST = 1024                                     # chunks of 16 bytes: one a thread
BARRIER_US = 2.5                                 # of the grid, with the parts that blocks leave there


class SoftmaxGrid(RowEngine):
    """``held``: 16-byte chunks of a row that a block holds; ``part_bytes``: what it leaves for others."""
    knobs = (Knob("blocks_per_row", lo=1, hi=1024),)
    least_sm = 80
    held: ClassVar[int] = 0
    part_bytes: ClassVar[int] = 0

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if not (f := rows_to_check(p)):
            return
        most = self.held * (dev.sms // max(f.row_count, 1))
        if units(p, f) > most:
            yield (f"needs rows that all SMs hold at once, {most} chunks of 16 bytes each; "
                   f"got {f.row_count} rows of {units(p, f)}")
        if SMEM + STATIC_SMEM > dev.smem_bytes:
            yield (f"needs {SMEM + STATIC_SMEM} bytes of shared memory; "
                   f"the device has {dev.smem_bytes} a block")

    @staticmethod
    def _slice(p, f, slices) -> int:
        """Columns of a block: whole chunks, so that all slices but the last are equal."""
        return ceil_div(f.col_count, slices * chunk(p)) * chunk(p)

    def _slices(self, p, f, most) -> int:
        """The number of slices when there are at most so many."""
        return ceil_div(f.col_count, self._slice(p, f, most))

    def configs(self, p, dev):
        f = form(p)
        if not p.descs[0].count:
            yield Config(blocks_per_row=1)
            return
        least = ceil_div(units(p, f), self.held)
        most = max(min(dev.sms // f.row_count, ceil_div(units(p, f), LEAST)), least)
        found = {self._slices(p, f, n) for n in (most, most // 2, least) if n >= least}
        configs = [Config(blocks_per_row=n) for n in sorted(found)]
        yield from first_then(configs[-1], configs)

    def cost(self, p, dev, config):
        if not p.descs[0].count:
            return dev.launch_us
        f = form(p)
        return BARRIER_US + stream_us(p, dev, f.row_count * config.blocks_per_row, efficiency=0.7)

    def plan(self, p, dev, config):
        if not p.descs[0].count:
            return []
        f = form(p)
        part = p.scratch(f.row_count * config.blocks_per_row * self.part_bytes)
        args = row_args(p, f, part=part, slices=config.blocks_per_row,
                        slice=self._slice(p, f, config.blocks_per_row))
        return [Launch(f"{self.kernel}_{p.descs[0].dtype}", args)]


class SoftmaxFwdGrid(SoftmaxGrid):
    """Several blocks a row in one cooperative launch, x read once."""
    index, takes, kernel = 216, core(SoftmaxFwd), "softmax_fwd_grid"
    held, part_bytes = 16384, 8


class SoftmaxBwdGrid(SoftmaxGrid):
    """Several blocks a row in one cooperative launch, y and dy read once."""
    index, takes, kernel = 226, core(SoftmaxBwd), "softmax_bwd_grid"
    held, part_bytes = 8192, 4
