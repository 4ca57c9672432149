"""Softmax and its gradient of short rows in the registers of 8 or 32 lanes."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxBwd, SoftmaxFwd
from ...steps import Launch
from .view import WIDE_BYTES, RowEngine, form, row_args, rows_to_check, stream_us, units

HELD = (8, 32, 128, 256)                         # the kernels' axis UNITS: 16-byte chunks of a row
LANES, RAGGED = 8, 100                           # the fewest of a row; bytes as slow as head and tail


class SoftmaxWarp(RowEngine):
    """8 or 32 lanes a row."""

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if not (f := rows_to_check(p)):
            return
        if units(p, f) > HELD[-1]:
            yield f"needs rows of at most {HELD[-1]} chunks of 16 bytes; got {units(p, f)}"

    def cost(self, p, dev, config):
        """Heads and tails of rows that are not whole chunks go element by element; beside short rows lanes
        wait."""
        if not p.descs[0].count:
            return dev.launch_us
        f = form(p)
        bytes, count = f.col_count * p.descs[0].dtype.bytes, units(p, f)
        ragged = bytes / (bytes + RAGGED) if bytes % WIDE_BYTES else 1.0
        return stream_us(p, dev, dev.sms, efficiency=0.9 * ragged * min(count / LANES, 1.0) ** 0.5)

    def plan(self, p, dev, config):
        if not p.descs[0].count:
            return []
        f = form(p)
        held = next(h for h in HELD if units(p, f) <= h)
        return [Launch(f"{self.kernel}_{p.descs[0].dtype}_{held}", row_args(p, f))]


class SoftmaxFwdWarp(SoftmaxWarp):
    """8 or 32 lanes a row, x read once."""
    index, takes, kernel = 210, core(SoftmaxFwd), "softmax_fwd_warp"


class SoftmaxBwdWarp(SoftmaxWarp):
    """8 or 32 lanes a row, y and dy read once."""
    index, takes, kernel = 220, core(SoftmaxBwd), "softmax_bwd_warp"
