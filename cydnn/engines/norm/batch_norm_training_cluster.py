"""Batch norm training in one launch (sm_90 and newer): clusters keep their channels in shared memory."""
from __future__ import annotations

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import BatchNormTraining
from ...steps import Launch
from ..engine import Config, Engine, Knob
from .operands import TRAINING, training_operands
from .view import View, bytes_of_x, log2_ceil, no_column_vectors, vectors_of, wrong_operands

THREADS, SLOT, STATIC = 512, 16, 16 << 10        # bytes a thread keeps of a row; memory beside the rows
SIZES = (8, 4, 2)                                # the kernel's axis SIZE: blocks of a cluster
LANES_LOG2 = (3, 2, 1)                           # side by side: 128, 64, 32 bytes of a row


def clusters(p, lanes_log2: int) -> int:
    return ceil_div(vectors_of(p), 1 << lanes_log2)


def held(p, size: int, lanes_log2: int) -> int:
    """Rows that a thread keeps."""
    return max(ceil_div(View.of(p).rows, size * (THREADS >> lanes_log2)), 1)


def fits(p, dev, size: int, lanes_log2: int) -> bool:
    """All blocks run at once: each fills an SM, and clusters of more than two find half of the SMs (an H200
    runs 8 clusters of 8 in one wave, and 16 in two)."""
    most = max(dev.smem_bytes - STATIC, 0) // (THREADS * SLOT)
    return (held(p, size, lanes_log2) <= most
            and clusters(p, lanes_log2) * size <= (dev.sms if size == 2 else dev.sms // 2)
            and (lanes_log2 == LANES_LOG2[-1] or lanes_log2 <= log2_ceil(vectors_of(p))))


class BatchNormTrainingCluster(Engine):
    """One launch, one read of x; 2, 4 or 8 blocks share some channels."""
    index, takes = 261, core(BatchNormTraining)
    knobs = (Knob("cluster", SIZES), Knob("lanes_log2", LANES_LOG2))

    def refuse(self, p, dev):
        yield from wrong_operands(p, dev, "norm/batch_norm_cluster.cu", 90)
        yield from no_column_vectors(p)
        if next(self.configs(p, dev), None) is None:
            v = View.of(p)
            yield ("x must fit in the shared memory of the clusters that run at once; "
                   f"got {v.rows} samples of {v.cols} means")

    def configs(self, p, dev):
        """The cheapest first, of equal ones that with most blocks, then that with the widest rows."""
        found = [Config(cluster=s, lanes_log2=n) for n in LANES_LOG2 for s in SIZES if fits(p, dev, s, n)]
        yield from sorted(found, key=lambda c: (self.cost(p, dev, c), -clusters(p, c.lanes_log2) * c.cluster,
                                                -c.lanes_log2))

    def cost(self, p, dev, config):
        """Measured on an H200, 1.6 to 51 MB: 1 MB of x a microsecond in all, 16 KB of it a block, 12 where
        only 32 bytes of a row are together."""
        piece = held(p, config.cluster, config.lanes_log2) * THREADS * SLOT
        piece_us = piece * (0.085 if config.lanes_log2 == 1 else 0.06) * 1e-3
        moving_us = bytes_of_x(p) / (0.21 * dev.bandwidth_gbs) * 1e-3
        return 3.0 + 2.0 * (config.lanes_log2 == 1) + max(dev.launch_us + 2.5, piece_us, moving_us)

    def plan(self, p, dev, config):
        v = View.of(p)
        args = dict(training_operands(p), rows=v.rows, cols=v.cols, lanes_log2=config.lanes_log2,
                    held=held(p, config.cluster, config.lanes_log2), **v.rows_args("x", "y"),
                    **v.cols_args(*TRAINING))
        grid = dict(blocks=clusters(p, config.lanes_log2))
        return [Launch(f"batch_norm_cluster_{p.x.dtype}_{config.cluster}", args, grid)]
