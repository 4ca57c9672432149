"""Batch norm in one cooperative launch, channels innermost: the blocks of a grid that runs at once keep what
they can of their rows, and meet at a barrier between the two passes."""
from __future__ import annotations

from typing import ClassVar

from ...kernels.expressions import ceil_div
from ..engine import Config, Engine, Knob
from .view import RAMP_US, View, bytes_of_x, no_column_vectors, vectors_of, wrong_operands

THREADS, SLOT, STATIC = 512, 16, 26 << 10        # bytes a thread keeps of a row; memory beside the rows
LANES_LOG2 = (3, 2, 1)                           # side by side: 128, 64, 32 bytes of a row
SHARE = {3: 0.69, 2: 0.6, 1: 0.42}               # of the bandwidth, by lanes_log2
KEEPING_US = 0.3                                 # registers cost more than shared memory


class Grid(Engine):
    """``kernel``: its name; ``tensors``: how many are kept; ``kept``: the kernel's axis REGS, rows of a
    thread in registers; ``passes``: how often the bytes of x move at least; ``waiting_us``: while nothing
    moves, for sums of blocks and of the grid and the barrier between them."""
    kernel: ClassVar[str] = ""
    tensors: ClassVar[int] = 1
    kept: ClassVar[tuple] = ()
    passes: ClassVar[int] = 2
    waiting_us: ClassVar[float] = 0.0

    def refuse(self, p, dev):
        yield from wrong_operands(p, dev, f"norm/{self.kernel}.cu", 80)
        yield from no_column_vectors(p)
        if vectors_of(p) > dev.sms << LANES_LOG2[0]:
            yield (f"channels must be at most {8 * 128 // p.x.dtype.bits * dev.sms}, a column block an SM; "
                   f"got {View.of(p).cols}")

    # ---- How it is cut ----

    @staticmethod
    def _cut(p, dev, lanes_log2) -> tuple[int, int, int]:
        """(column blocks, splits of the rows, rows of a split)."""
        rows, blocks = View.of(p).rows, ceil_div(vectors_of(p), 1 << lanes_log2)
        most = max(min(dev.sms // blocks, ceil_div(rows, THREADS >> lanes_log2)), 1)
        each = ceil_div(rows, most)
        return blocks, ceil_div(rows, each), each

    def _rows(self, p, dev, config) -> tuple[int, int]:
        """(rows of a thread, those of them in shared memory)."""
        count = ceil_div(self._cut(p, dev, config.lanes_log2)[2], THREADS >> config.lanes_log2)
        most = (dev.smem_bytes - STATIC) // (THREADS * SLOT * self.tensors)
        return count, max(min(count, most), 1)

    def configs(self, p, dev):
        wide = [n for n in LANES_LOG2 if ceil_div(vectors_of(p), 1 << n) <= dev.sms
                and (n == LANES_LOG2[-1] or 1 << n < 2 * vectors_of(p))]
        found = [Config(lanes_log2=n, registers=k) for n in wide for k in self.kept]
        yield from sorted(found, key=lambda c: self.cost(p, dev, c))

    def cost(self, p, dev, config):
        """What is not kept is read again, partly from the L2 cache; pieces of a row below 128 bytes move
        slower."""
        blocks, splits, _ = self._cut(p, dev, config.lanes_log2)
        count, held = self._rows(p, dev, config)
        again = max(count - held - config.registers, 0) / count * self.tensors
        rate = min(dev.bandwidth_gbs, blocks * splits * dev.sm_gbs) * SHARE[config.lanes_log2]
        return (dev.launch_us + RAMP_US + self.waiting_us + KEEPING_US * (config.registers > 0)
                + (self.passes / rate + again / dev.bandwidth_gbs) * bytes_of_x(p) * 1e-3)

    def args(self, p, dev, config) -> tuple[dict, dict]:
        """(arguments that say how large it is, what the grid needs)."""
        blocks, splits, each = self._cut(p, dev, config.lanes_log2)
        width = (128 // p.x.dtype.bits) << config.lanes_log2
        parts = p.scratch(blocks * splits * width * 8)
        v = View.of(p)
        return (dict(parts=parts, rows=v.rows, cols=v.cols, rows_per_split=each, splits=splits,
                     lanes_log2=config.lanes_log2, held=self._rows(p, dev, config)[1]), dict(blocks=blocks))
