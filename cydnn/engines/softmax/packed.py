"""Softmax and its gradient of short rows without gaps, a thread a row."""
from __future__ import annotations

from math import gcd
from typing import ClassVar

from ...graph import core
from ...ops import SoftmaxBwd, SoftmaxFwd
from ...steps import Launch
from .view import RowEngine, form, rows_to_check, shared_args, stream_us

HELD, ROWS = (16, 32, 64), 128                   # the kernels' axis MOST: columns of a row; rows of a block
STATIC_SMEM, TILE = 1024, 12 << 10               # bytes of a block: the second, that are worth a row more


class SoftmaxPacked(RowEngine):
    """``tiles``: how many tensors pass through shared memory."""
    tiles: ClassVar[int] = 1

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if not (f := rows_to_check(p)):
            return
        strides = [s[0] for s in f.row_strides]
        if f.col_count > HELD[-1]:
            yield f"needs rows of at most {HELD[-1]} columns; got {f.col_count}"
        elif f.row_count > 1 and any(s != f.col_count for s in strides):
            yield f"needs rows without gaps, {f.col_count} apart; got row strides {tuple(strides)}"
        elif (need := self._smem(p, f)) > dev.smem_bytes:
            yield f"needs {need} bytes of shared memory; the device has {dev.smem_bytes} a block"

    def _each(self, p, f) -> int:
        """Rows of a thread: enough bytes of a block under way."""
        return max(TILE // (self.tiles * ROWS * f.col_count * p.descs[0].dtype.bytes), 1)

    def _smem(self, p, f) -> int:
        return self.tiles * ROWS * self._each(p, f) * f.col_count * p.descs[0].dtype.bytes

    def cost(self, p, dev, config):
        """Lanes that meet in one bank of shared memory wait for each other."""
        if not p.descs[0].count:
            return dev.launch_us
        f = form(p)
        blocks = max(min((dev.smem_bytes + STATIC_SMEM) // (self._smem(p, f) + STATIC_SMEM), 16), 1)
        meeting = gcd(f.col_count * p.descs[0].dtype.bytes, 128) / 4
        share = min(0.85, 0.2 * blocks, 2.2 / max(meeting, 1))
        return stream_us(p, dev, f.row_count / (ROWS * self._each(p, f) * 2), efficiency=share)

    def plan(self, p, dev, config):
        if not p.descs[0].count:
            return []
        f = form(p)
        held = next(h for h in HELD if f.col_count <= h)
        args = dict(shared_args(p), rows=f.row_count, cols=f.col_count, each=self._each(p, f))
        return [Launch(f"{self.kernel}_{p.descs[0].dtype}_{held}", args)]


class SoftmaxFwdPacked(SoftmaxPacked):
    """A thread a row, x read once."""
    index, takes, kernel = 217, core(SoftmaxFwd), "softmax_fwd_packed"
    tiles = 1


class SoftmaxBwdPacked(SoftmaxPacked):
    """A thread a row, y and dy read once."""
    index, takes, kernel = 227, core(SoftmaxBwd), "softmax_bwd_packed"
    tiles = 2
