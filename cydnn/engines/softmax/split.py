"""Softmax and its gradient of few or very long rows: split rows, two launches, partial results in the
workspace."""
from __future__ import annotations

from typing import ClassVar

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import SoftmaxBwd, SoftmaxFwd
from ...steps import Launch
from ..engine import Config, Knob
from .view import RowEngine, form, row_args, rows_to_check, stream_us

RESIDENT, TURN_US = 4, 4.0                       # blocks of an SM; what a slice takes, however short, in both
WAIT_US = 2.5                                    # the second launch, for the parts of its row
MOST_SLICES = 1024                               # a block of the second launch reads all results of its row


class SoftmaxSplit(RowEngine):
    """``scan``, ``kernel``: its two launches, without the type; ``part_bytes``: one slice's partial result;
    ``tile_bytes``: of one operand, what 256 threads load at once; ``scan_drops``: arguments that the first
    launch has not."""
    knobs = (Knob("splits", lo=1, hi=MOST_SLICES),)
    scan: ClassVar[str] = ""
    part_bytes: ClassVar[int] = 0
    tile_bytes: ClassVar[int] = 0
    scan_drops: ClassVar[tuple] = ()

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if not (f := rows_to_check(p)):
            return
        slices, _ = self._slices(p, f, MOST_SLICES)
        if f.row_count * slices >= 2 ** 31:
            yield f"needs fewer than 2^31 slices; got {f.row_count} rows of {slices}"

    def _slices(self, p, f, splits) -> tuple[int, int]:
        """(slices of a row, tiles of a slice), at most so many slices."""
        tile = self.tile_bytes * 8 // p.descs[0].dtype.bits
        tiles = ceil_div(f.col_count, tile * splits)
        return ceil_div(f.col_count, tile * tiles), tiles

    def configs(self, p, dev):
        most = self._slices(p, form(p), MOST_SLICES)[0] if p.descs[0].count else 1
        for splits in dict.fromkeys((most, ceil_div(most, 2), ceil_div(most, 4), 1)):
            yield Config(splits=splits)

    def cost(self, p, dev, config):
        if not p.descs[0].count:
            return dev.launch_us
        f = form(p)
        slices, _ = self._slices(p, f, config.splits)
        turns = f.row_count * slices / (RESIDENT * dev.sms) * TURN_US
        moving = stream_us(p, dev, f.row_count * slices / 2, extra_reads=1.0)
        return WAIT_US + dev.launch_us + max(moving, turns)

    def plan(self, p, dev, config):
        if not p.descs[0].count:
            return []
        f = form(p)
        slices, tiles = self._slices(p, f, config.splits)
        part = p.scratch(f.row_count * slices * self.part_bytes)
        args = row_args(p, f, part=part, slices=slices, tiles=tiles)
        scan = {name: value for name, value in args.items() if name not in self.scan_drops}
        dtype = p.descs[0].dtype
        return [Launch(f"{self.scan}_{dtype}", scan), Launch(f"{self.kernel}_{dtype}", args)]


class SoftmaxFwdSplit(SoftmaxSplit):
    """Maximum and sum of each slice, then the result; x is read twice, the second time mostly from the L2
    cache."""
    index, takes, kernel = 213, core(SoftmaxFwd), "softmax_fwd_apply"
    scan, part_bytes, tile_bytes = "softmax_fwd_scan", 8, 32768
    scan_drops = ("y", "y_row", "is_log", "alpha", "beta")


class SoftmaxBwdSplit(SoftmaxSplit):
    """The sum of each slice, then the result; y and dy are read twice, the second time mostly from the L2
    cache."""
    index, takes, kernel = 223, core(SoftmaxBwd), "softmax_bwd_apply"
    scan, part_bytes, tile_bytes = "softmax_bwd_scan", 4, 16384
    scan_drops = ("dx", "dx_row", "alpha", "beta")
