"""Softmax of short rows, which a few lanes of a warp hold in registers: what both directions share."""
from __future__ import annotations

from ...steps import Launch
from .view import RowEngine, row_args, stream_us, units

HELD = (8, 32, 128, 256)                         # the kernels' axis UNITS: 16-byte chunks of a row


class Warp(RowEngine):
    """8 or 32 lanes a row."""

    def row_limits(self, p, f, dev):
        if units(p, f) > HELD[-1]:
            yield f"needs rows of at most {HELD[-1]} chunks of 16 bytes; got {units(p, f)}"

    def time(self, p, f, dev, config):
        return stream_us(p, dev, dev.sms)

    def launches(self, p, f, config):
        held = next(h for h in HELD if units(p, f) <= h)
        return [Launch(f"{self.kernel}_{p.descs[0].dtype}_{held}", row_args(p, f))]
