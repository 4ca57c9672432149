"""Softmax of short rows: a few lanes of a warp hold a row in registers."""
from __future__ import annotations

from ...ops import SoftmaxBwd, SoftmaxFwd
from .view import RowEngine, row_args, stream_us, units
from ...steps import Launch

HELD = (8, 32, 128, 256)                         # the kernels' axis UNITS: 16-byte chunks of a row


class _Warp(RowEngine):
    kernel = ""

    def refuse_rows(self, p, f, dev):
        if units(p, f) > HELD[-1]:
            yield f"needs rows of at most {HELD[-1]} chunks of 16 bytes; got {units(p, f)}"

    def cost(self, p, dev):
        return stream_us(p, dev, dev.sms)

    def plan_rows(self, p, f, dev):
        held = next(h for h in HELD if units(p, f) <= h)
        return [Launch(f"{self.kernel}_{p.descs[0].dtype}_{held}", row_args(p, f))]


class SoftmaxFwdWarp(_Warp):
    """8 or 32 lanes a row, x read once."""
    index, op, kernel = 210, SoftmaxFwd, "softmax_fwd_warp"


class SoftmaxBwdWarp(_Warp):
    """8 or 32 lanes a row, y and dy read once."""
    index, op, kernel = 220, SoftmaxBwd, "softmax_bwd_warp"
