"""Batch norm training in one launch (sm_90 and newer): the blocks of a cluster keep their channels in shared memory, so x is read once."""
from __future__ import annotations

from ...ops import BatchNormTraining
from .batch_norm_columns import TRAINING, training_operands
from .batch_norm_view import View, ceil_div, log2_ceil, no_column_vectors, wrong_operands
from ..engine import Engine, wrong_device
from ...steps import Launch

THREADS, SLOT, STATIC = 512, 16, 16 << 10        # bytes a thread keeps of a row; shared memory beside the rows
SIZES = (8, 4, 2)                                # the kernel's axis SIZE: blocks of a cluster
LANES_LOG2 = (3, 2, 1)                           # side by side: 128, 64, 32 bytes of a row


def vectors(p, v: View) -> int:
    return ceil_div(v.cols, 16 // p.x.dtype.bytes)


def blocks(p, v: View, size: int, lanes_log2: int) -> int:
    return ceil_div(vectors(p, v), 1 << lanes_log2) * size


def held(v: View, size: int, lanes_log2: int) -> int:
    """Rows that a thread keeps."""
    return max(ceil_div(v.rows, size * (THREADS >> lanes_log2)), 1)


class BatchNormTrainingCluster(Engine):
    """One launch, one read of x; 2, 4 or 8 blocks share some channels."""
    index = 261
    op = BatchNormTraining

    def refuse(self, p, dev):
        yield from wrong_device(dev, 90)
        yield from wrong_operands(p, dev, types=("f32", "f16", "bf16"))
        v = View.of(p)
        yield from no_column_vectors(p, v)
        if not self.configs(p, dev):
            yield f"x must fit in the shared memory of the clusters that run at once; got {v.rows} samples of {v.cols} means"

    def configs(self, p, dev):
        """The cheapest first, of equal ones that with most blocks, then that with the widest rows. All blocks run at once: each fills an SM,
        and clusters of more than two find half of the SMs (an H200 runs 8 clusters of 8 in one wave, and 16 in two)."""
        v, most = View.of(p), max(dev.smem_bytes - STATIC, 0) // (THREADS * SLOT)
        fitting = [(size, lanes) for lanes in LANES_LOG2 for size in SIZES
                   if held(v, size, lanes) <= most and blocks(p, v, size, lanes) <= (dev.sms if size == 2 else dev.sms // 2)
                   and (lanes == LANES_LOG2[-1] or lanes <= log2_ceil(vectors(p, v)))]
        fitting.sort(key=lambda c: (self._us(p, v, dev, *c), -blocks(p, v, *c), -c[1]))
        return [dict(size=size, lanes_log2=lanes) for size, lanes in fitting]

    @staticmethod
    def _us(p, v, dev, size, lanes_log2) -> float:
        """Measured on an H200, 1.6 to 51 MB: 1 MB of x a microsecond in all, 16 KB of it a block, 12 where only 32 bytes of a row are together."""
        piece = held(v, size, lanes_log2) * THREADS * SLOT * (0.085 if lanes_log2 == 1 else 0.06) * 1e-3
        return max(4.5, piece, p.x.count * p.x.dtype.bytes / (0.21 * dev.bandwidth_gbs) * 1e-3)

    def cost(self, p, dev):
        return self._us(p, View.of(p), dev, **self.configs(p, dev)[0])

    def plan(self, p, dev, size=None, lanes_log2=None):
        v = View.of(p)
        if not v.cols:
            return []
        if size is None or lanes_log2 is None:
            size, lanes_log2 = next(tuple(c.values()) for c in self.configs(p, dev)
                                    if size in (None, c["size"]) and lanes_log2 in (None, c["lanes_log2"]))
        args = dict(training_operands(p), rows=v.rows, cols=v.cols, lanes_log2=lanes_log2, held=held(v, size, lanes_log2),
                    **v.rows_args("x", "y"), **v.cols_args(*TRAINING))
        return [Launch(f"batch_norm_cluster_{p.x.dtype}_{size}", args, dict(blocks=ceil_div(vectors(p, v), 1 << lanes_log2)))]
