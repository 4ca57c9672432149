"""Softmax and its gradient, a block a row: rows in registers and shared memory."""
from __future__ import annotations

from typing import ClassVar

from ...graph import core
from ...ops import SoftmaxBwd, SoftmaxFwd
from ...steps import Launch
from .view import RowEngine, form, row_args, rows_to_check, stream_us, units

TURN_US = 2.0                                    # a row, however short, from its load to its store
STATIC_SMEM = 256                                # the most that block_reduce takes, beside the dynamic bytes


class SoftmaxBlock(RowEngine):
    """``held``: the kernel's axis UNITS, 16-byte chunks of a row; ``smem``: of those that need dynamic shared
    memory, the bytes."""
    held: ClassVar[tuple] = ()
    smem: ClassVar[dict] = {}

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if not (f := rows_to_check(p)):
            return
        if units(p, f) > self.held[-1]:
            yield f"needs rows of at most {self.held[-1]} chunks of 16 bytes; got {units(p, f)}"
            return
        need = self.smem.get(self._held(p, f), 0) + STATIC_SMEM
        if need > dev.smem_bytes:
            yield f"needs {need} bytes of shared memory; the device has {dev.smem_bytes} a block"

    def _held(self, p, f) -> int:
        return next(h for h in self.held if units(p, f) <= h)

    def cost(self, p, dev, config):
        if not p.descs[0].count:
            return dev.launch_us
        f = form(p)
        resident = dev.sms * max(1, min(8, self.held[-1] // self._held(p, f)))
        is_one_wave = f.row_count <= resident    # then loads, arithmetic and stores do not overlap
        turns = dev.launch_us + f.row_count / resident * TURN_US
        return max(stream_us(p, dev, f.row_count, efficiency=0.62 if is_one_wave else 0.88), turns)

    def plan(self, p, dev, config):
        if not p.descs[0].count:
            return []
        f = form(p)
        return [Launch(f"{self.kernel}_{p.descs[0].dtype}_{self._held(p, f)}", row_args(p, f))]


class SoftmaxFwdBlock(SoftmaxBlock):
    """A block a row, x read once."""
    index, takes, kernel = 211, core(SoftmaxFwd), "softmax_fwd_block"
    held = (512, 1024, 2048, 4096, 8192, 16384)
    smem = {4096: 32768, 8192: 65536, 16384: 131072}


class SoftmaxBwdBlock(SoftmaxBlock):
    """A block a row, y and dy read once."""
    index, takes, kernel = 221, core(SoftmaxBwd), "softmax_bwd_block"
    held = (512, 1024, 2048, 4096, 8192)
    smem = {4096: 65536, 8192: 131072}
