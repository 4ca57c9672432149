"""Softmax and its gradient over channels beside contiguous positions, the channels in registers."""
from __future__ import annotations

from typing import ClassVar

from ...graph import core
from ...ops import SoftmaxBwd, SoftmaxFwd
from ...steps import Launch
from .strided import SoftmaxBwdStrided, SoftmaxFwdStrided, StridedForm
from .view import form, form_to_check, stream_us

MOST = 1024                                      # channels before sm_80
ACCESS = 4                                       # bytes of a lane


class SoftmaxColumns(StridedForm):
    """Up to 256 channels 32 lanes stand side by side, then 16, then 8. ``shares``: the kernel's axis,
    channels, and the part of the bandwidth that each reaches."""
    shares: ClassVar[dict] = {}

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if not (f := form_to_check(p)):
            return
        most = max(n for n in self.shares if n <= MOST or dev.sm >= 80)
        if f.cols[0] > most:
            yield f"needs at most {most} channels; got {f.cols[0]}"
        if f.is_columns and p.descs[0].dtype.bytes <= ACCESS and not self._fits(p, f, ACCESS):
            yield (f"needs positions, strides and pointers that are multiples of {ACCESS} bytes; "
                   f"got {f.rows[0]} positions, alignment {min(d.alignment for d in p.descs)}")

    def _most(self, f) -> int:
        return next(n for n in self.shares if f.cols[0] <= n)

    def cost(self, p, dev, config):
        if not p.descs[0].count:
            return dev.launch_us
        f = form(p)
        most, each = self._most(f), ACCESS // p.descs[0].dtype.bytes
        return stream_us(p, dev, f.row_count * most / (4096 * each), efficiency=self.shares[most])

    def plan(self, p, dev, config):
        if not p.descs[0].count:
            return []
        f = form(p)
        return [Launch(f"{self.kernel}_{p.descs[0].dtype}_{self._most(f)}",
                       self.args(p, f, ACCESS // p.descs[0].dtype.bytes))]


class SoftmaxFwdColumns(SoftmaxColumns):
    """Lanes along positions, up to 4096 channels, x read once."""
    index, takes, kernel = 218, core(SoftmaxFwd), "softmax_fwd_columns"
    shares = dict.fromkeys((16, 32, 64, 128, 256), 0.85) | {512: 0.65, 1024: 0.65, 4096: 0.6}
    strides = staticmethod(SoftmaxFwdStrided.strides)


class SoftmaxBwdColumns(SoftmaxColumns):
    """Lanes along positions, up to 1024 channels, y and dy read once."""
    index, takes, kernel = 228, core(SoftmaxBwd), "softmax_bwd_columns"
    shares = dict.fromkeys((16, 32, 64, 128, 256), 0.85) | {512: 0.65, 1024: 0.65}
    strides = staticmethod(SoftmaxBwdStrided.strides)
