"""Softmax of rows that one block holds in registers and shared memory."""
from __future__ import annotations

from ...ops import SoftmaxBwd, SoftmaxFwd
from .view import RowEngine, form, row_args, stream_us, units
from ...steps import Launch

STATIC_SMEM = 256                                # the most that block_reduce takes, beside the dynamic bytes


class _Block(RowEngine):
    kernel = ""
    held = ()                                    # the kernel's axis UNITS: 16-byte chunks of a row
    smem = {}                                    # of them, those that need dynamic shared memory: bytes

    def refuse_rows(self, p, f, dev):
        if units(p, f) > self.held[-1]:
            yield f"needs rows of at most {self.held[-1]} chunks of 16 bytes; got {units(p, f)}"
            return
        need = self.smem.get(self._held(p, f), 0) + STATIC_SMEM
        if need > dev.smem_bytes:
            yield f"needs {need} bytes of shared memory; the device has {dev.smem_bytes} a block"

    def _held(self, p, f):
        return next(h for h in self.held if units(p, f) <= h)

    def cost(self, p, dev):
        if not p.descs[0].count:
            return 2.0
        f = form(p)
        held = self._held(p, f)
        resident = dev.sms * max(1, min(8, self.held[-1] // held))
        few = 0.78 if f.row_count <= resident else 0.88          # one wave: loads, arithmetic and stores do not overlap
        return stream_us(p, dev, f.row_count, efficiency=few)

    def plan_rows(self, p, f, dev):
        return [Launch(f"{self.kernel}_{p.descs[0].dtype}_{self._held(p, f)}", row_args(p, f))]


class SoftmaxFwdBlock(_Block):
    """A block a row, x read once."""
    index, op, kernel = 211, SoftmaxFwd, "softmax_fwd_block"
    held = (512, 1024, 2048, 4096, 8192, 16384)
    smem = {4096: 32768, 8192: 65536, 16384: 131072}


class SoftmaxBwdBlock(_Block):
    """A block a row, y and dy read once."""
    index, op, kernel = 221, SoftmaxBwd, "softmax_bwd_block"
    held = (512, 1024, 2048, 4096, 8192)
    smem = {4096: 65536, 8192: 131072}
