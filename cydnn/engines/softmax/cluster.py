"""Softmax and its gradient, a cluster of blocks a row (sm_90 and newer)."""
from __future__ import annotations

from itertools import product
from typing import ClassVar

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import SoftmaxBwd, SoftmaxFwd
from ...steps import Launch
from ..engine import PLAIN, Config, Knob
from .view import RowEngine, chunk, form, row_args, rows_to_check, stream_us, units

SIZES, THREADS = (2, 4), (512, 1024)             # the kernels' axes: blocks of a cluster, threads of a block
TURN_US = 6.5                                    # of 1024 threads, however short the row
SMEM = 128                                       # of a thread
FEW = 4                                          # 1024 threads an SM, in turn, that hardly overlap


class SoftmaxCluster(RowEngine):
    """``held``: 16-byte chunks of a row that a thread holds; ``few``: the share of the bandwidth that few
    rows reach, by the threads of a block."""
    knobs = (Knob("cluster", SIZES), Knob("threads", THREADS))
    least_sm = 90
    held: ClassVar[int] = 0
    few: ClassVar[dict] = {}

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if not (f := rows_to_check(p)):
            return
        most = self.held * THREADS[-1] * SIZES[-1]
        if units(p, f) > most:
            yield f"needs rows of at most {most} chunks of 16 bytes; got {units(p, f)}"
        if not self._fills(p, f, SIZES[0]):
            yield f"needs rows that fill {SIZES[0]} blocks; got {f.col_count} columns"
        if (need := SMEM * THREADS[-1]) > dev.smem_bytes:
            yield f"needs {need} bytes of shared memory; the device has {dev.smem_bytes} a block"

    @staticmethod
    def _slice(p, f, size) -> int:
        """Columns of a block: whole chunks, so that all slices but the last are equal."""
        return ceil_div(f.col_count, size * chunk(p)) * chunk(p)

    def _fills(self, p, f, size) -> bool:
        """The last block has columns too."""
        return self._slice(p, f, size) * (size - 1) < f.col_count

    def configs(self, p, dev):
        if not p.descs[0].count:
            yield PLAIN
            return
        f = form(p)
        for size, threads in sorted(product(SIZES, THREADS), key=lambda c: c[0] * c[1]):
            if units(p, f) <= self.held * threads * size and self._fills(p, f, size):
                yield Config(cluster=size, threads=threads)     # the fewest threads that hold the row first

    def cost(self, p, dev, config):
        if not p.descs[0].count:
            return dev.launch_us
        f = form(p)
        blocks = f.row_count * config.cluster * config.threads / THREADS[-1]
        share = self.few[config.threads] if blocks <= FEW * dev.sms else 0.84
        turns = dev.launch_us + blocks / dev.sms * TURN_US
        return max(stream_us(p, dev, blocks, efficiency=share), turns)

    def plan(self, p, dev, config):
        if not p.descs[0].count:
            return []
        f = form(p)
        args = row_args(p, f, slice=self._slice(p, f, config.cluster))
        return [Launch(f"{self.kernel}_{p.descs[0].dtype}_{config.cluster}_{config.threads}", args)]


class SoftmaxFwdCluster(SoftmaxCluster):
    """2 or 4 blocks a row, x read once."""
    index, takes, kernel = 212, core(SoftmaxFwd), "softmax_fwd_cluster"
    held, few = 16, {512: 0.64, 1024: 0.55}


class SoftmaxBwdCluster(SoftmaxCluster):
    """2 or 4 blocks a row, y and dy read once."""
    index, takes, kernel = 222, core(SoftmaxBwd), "softmax_bwd_cluster"
    held, few = 8, {512: 0.62, 1024: 0.65}
