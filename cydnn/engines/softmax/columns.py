"""Softmax over a dim beside a contiguous one (channels of NCHW images) whose channels a block holds in
registers: what both directions share."""
from __future__ import annotations

from ...steps import Launch
from .strided import StridedForm
from .view import stream_us

MOST = (16, 32, 64, 128, 256, 512, 1024)         # the kernels' axis: channels
ACCESS = 4                                       # bytes of a lane


class Columns(StridedForm):
    """Up to 256 channels 32 lanes stand side by side, then 16."""

    def limits(self, p, f, dev):
        yield from super().limits(p, f, dev)
        if f.cols[0] > MOST[-1]:
            yield f"needs at most {MOST[-1]} channels; got {f.cols[0]}"
        if f.is_columns and p.descs[0].dtype.bytes <= ACCESS and not self._fits(p, f, ACCESS):
            yield (f"needs positions, strides and pointers that are multiples of {ACCESS} bytes; "
                   f"got {f.rows[0]} positions, alignment {min(d.alignment for d in p.descs)}")

    @staticmethod
    def _most(f) -> int:
        return next(n for n in MOST if f.cols[0] <= n)

    def time(self, p, f, dev, config):
        most, each = self._most(f), ACCESS // p.descs[0].dtype.bytes
        share = 0.85 if most <= MOST[4] else 0.65
        return stream_us(p, dev, f.row_count * most / (4096 * each), efficiency=share)

    def launches(self, p, f, config):
        return [Launch(f"{self.kernel}_{p.descs[0].dtype}_{self._most(f)}",
                       self.args(p, f, ACCESS // p.descs[0].dtype.bytes))]
