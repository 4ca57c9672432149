"""Batch norm in one launch, planes contiguous (sm_90 and newer): clusters hold channel after channel in
shared memory, and ask for the next ones while they store."""
from __future__ import annotations

from typing import ClassVar

from ...kernels.expressions import ceil_div
from ..engine import Config, Engine, Knob
from .view import RAMP_US, View, bytes_of_x, no_row_vectors, wrong_operands

THREADS, SLOT, STATIC = 512, 16, 1 << 10         # a thread's item of a tensor; memory beside them
SIZES = (1, 2, 4, 8)                             # the kernels' axis SIZE: blocks of a cluster
# size, blocks an SM: few large clusters fit at once
WAYS = ((1, 2), (1, 1), (2, 2), (2, 1), (4, 2), (8, 2))
MOST_DEPTH = 2
# by size: at first, and a channel; measured on an H200
WAIT_US = {1: (0.0, 3.4), 2: (1.0, 3.3), 4: (4.5, 4.5), 8: (12.0, 4.5)}


class Ring(Engine):
    """``kernel``: its name; ``tensors``: how many are held; ``passes``: how often the bytes of x move."""
    knobs = (Knob("cluster", SIZES), Knob("blocks_per_sm", (1, 2)), Knob("stages", lo=1, hi=MOST_DEPTH))
    kernel: ClassVar[str] = ""
    tensors: ClassVar[int] = 1
    passes: ClassVar[int] = 2

    def refuse(self, p, dev):
        yield from wrong_operands(p, dev, f"norm/{self.kernel}.cu", 90)
        width = 128 // p.x.dtype.bits
        reasons = [*no_row_vectors(p, width)]
        yield from reasons
        if not reasons and next(self.configs(p, dev), None) is None:
            yield (f"a channel must fit in the shared memory of {SIZES[-1]} blocks; "
                   f"got {View.of(p).rows} samples")

    # ---- How it is cut ----

    @staticmethod
    def _items(p) -> int:
        """Of a channel."""
        return View.of(p).rows * p.x.dtype.bits // 128

    def _held(self, p, size) -> int:
        """Items that a thread holds of a channel."""
        return ceil_div(ceil_div(self._items(p), size), THREADS)

    @staticmethod
    def _clusters(p, dev, size, per_sm) -> int:
        return min(View.of(p).cols, dev.sms * per_sm // size)

    def _most(self, dev, per_sm) -> int:
        """Items that a thread has place for: an SM has 1 KB more than a block, and takes that of each."""
        room = (dev.smem_bytes + 1024) // per_sm - 1024 - STATIC
        return room // (THREADS * SLOT * self.tensors)

    def configs(self, p, dev):
        found = []
        for size, per_sm in WAYS:
            clusters = self._clusters(p, dev, size, per_sm)
            turns = ceil_div(View.of(p).cols, max(clusters, 1))
            depth = min(self._most(dev, per_sm) // self._held(p, size), MOST_DEPTH, turns)
            if depth and clusters:
                found.append(Config(cluster=size, blocks_per_sm=per_sm, stages=depth))
        yield from sorted(found, key=lambda c: self.cost(p, dev, c))

    def cost(self, p, dev, config):
        """Every channel waits for its last loads and its sums; what then comes overlaps."""
        turns = ceil_div(View.of(p).cols, self._clusters(p, dev, config.cluster, config.blocks_per_sm))
        first, each = WAIT_US[config.cluster]
        busy = min(1.2 * min(View.of(p).cols * config.cluster, dev.sms) / dev.sms, 1.0)
        moving = self.passes * bytes_of_x(p) / (dev.bandwidth_gbs * 0.8 * busy) * 1e-3
        return dev.launch_us + RAMP_US + first + turns * each + moving

    def args(self, p, dev, config) -> tuple[dict, dict]:
        """(arguments that say how large it is, what the grid needs)."""
        v, items = View.of(p), self._items(p)
        return (dict(cols=v.cols, items=items, items_per_block=ceil_div(items, config.cluster),
                     held=self._held(p, config.cluster), depth=config.stages),
                dict(clusters=self._clusters(p, dev, config.cluster, config.blocks_per_sm)))
