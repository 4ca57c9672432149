"""Batch norm training in one launch (sm_90 and newer): the blocks of a cluster keep their channels in shared memory, so x is read once."""
from __future__ import annotations

from ..ops import BatchNormTraining
from .batch_norm_columns import TRAINING, training_operands
from .batch_norm_view import View, ceil_div, log2_ceil, no_column_vectors, wrong_operands
from .engine import Engine, wrong_device
from .steps import Launch

THREADS, SLOT, STATIC = 512, 16, 16 << 10        # bytes a thread keeps of a row; shared memory beside the rows
SIZES = (8, 4, 2)                                # the kernel's axis SIZE: blocks of a cluster
LANES_LOG2 = (3, 2, 1)                           # side by side: 128, 64, 32 bytes of a row


def vectors(p, v: View) -> int:
    return ceil_div(v.cols, 16 // p.x.dtype.bytes)


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
            room = SIZES[0] * (THREADS >> LANES_LOG2[-1]) * self._most(dev)
            yield f"samples of a channel must fit in the shared memory of {SIZES[0]} blocks, {room} at most; got {v.rows}"

    @staticmethod
    def _most(dev) -> int:
        """Rows that a thread can keep."""
        return max(dev.smem_bytes - STATIC, 0) // (THREADS * SLOT)

    def _share(self, p, v, dev, size, lanes_log2) -> float:
        """Of the SMs that have a block, over all waves: one block fills an SM."""
        blocks = ceil_div(vectors(p, v), 1 << lanes_log2) * size
        return blocks / (ceil_div(max(blocks, 1), dev.sms) * dev.sms)

    def configs(self, p, dev):
        """First what keeps the most SMs busy, then the widest rows, then the smallest clusters."""
        v = View.of(p)
        fitting = [(size, lanes) for lanes in LANES_LOG2 for size in SIZES
                   if held(v, size, lanes) <= self._most(dev) and (lanes == LANES_LOG2[-1] or lanes <= log2_ceil(vectors(p, v)))]
        fitting.sort(key=lambda c: (-round(self._share(p, v, dev, *c), 1), -c[1], c[0]))
        return [dict(size=size, lanes_log2=lanes) for size, lanes in fitting]

    def cost(self, p, dev):
        share = self._share(p, View.of(p), dev, **self.configs(p, dev)[0])
        return 4.5 + 2 * p.x.count * p.x.dtype.bytes / (dev.bandwidth_gbs * 0.7 * max(share, 1e-3)) * 1e-3

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


ENGINES = (BatchNormTrainingCluster(),)
