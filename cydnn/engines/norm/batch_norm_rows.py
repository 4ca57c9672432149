"""Batch norm with contiguous planes: a block takes a split of one channel, lanes along 8- or 16-byte vectors of its planes."""
from __future__ import annotations

from ...ops import BatchNormBwd, BatchNormInference, BatchNormTraining
from .batch_norm_columns import (BACKWARD, INFERENCE, TRAINING, backward_operands, inference_operands, part_bytes, pointers,
                                 training_operands)
from .batch_norm_view import View, cut_rows, no_row_vectors, split_configs, two_pass_us, wrong_operands
from ..engine import Engine
from ...steps import Launch


def widest(p, v: View) -> int:
    """Bytes of the widest vector that works: 16, 8, or 0 when neither does."""
    size = p.x.dtype.bytes
    return next((wide for wide in (16, 8) if wide > size and next(no_row_vectors(p, v, wide // size), None) is None), 0)


def _setup(p, dev, wide, splits):
    v = View.of(p)
    items_of = wide // p.x.dtype.bytes if wide else 1
    items = v.rows // items_of
    cut = cut_rows(v, items, dev, splits=splits) if v.cols else None
    size = dict(items=items, items_per_split=cut.rows_per_split, splits=cut.splits) if cut else {}
    return v, items_of, cut, size


def plan_training(p, dev, wide: int, splits=None) -> list:
    v, items_of, cut, size = _setup(p, dev, wide, splits)
    if not v.cols:
        return []
    parts = p.scratch(v.cols * cut.splits * part_bytes(p, 3))
    grid, suffix = dict(cols=v.cols), f"{p.x.dtype}_{wide}"
    return [Launch(f"batch_norm_stats_rows_{suffix}",
                   dict(x=p.ptr("x"), parts=parts, **size, **v.rows_args("x", items=items_of), **v.cols_args("x")), grid),
            Launch(f"batch_norm_apply_rows_{suffix}",
                   dict(training_operands(p), parts=parts, **size, stat_splits=cut.splits,
                        **v.rows_args("x", "y", items=items_of), **v.cols_args(*TRAINING)), grid)]


def plan_inference(p, dev, wide: int, splits=None) -> list:
    v, items_of, cut, size = _setup(p, dev, wide, splits)
    if not p.x.count:
        return []
    return [Launch(f"batch_norm_apply_rows_{p.x.dtype}_{wide}",
                   dict(inference_operands(p), **size, stat_splits=0, **v.rows_args("x", "y", items=items_of),
                        **v.cols_args(*INFERENCE)), dict(cols=v.cols))]


def plan_backward(p, dev, wide: int, splits=None) -> list:
    v, items_of, cut, size = _setup(p, dev, wide, splits)
    if not v.cols:
        return []
    known = int(p.mean is not None)
    parts = p.scratch(v.cols * cut.splits * part_bytes(p, 2 if known else 5))
    grid, suffix = dict(cols=v.cols), f"{p.x.dtype}_{wide}_{known}"
    return [Launch(f"batch_norm_bwd_sums_rows_{suffix}",
                   dict(pointers(p, "x", "dy", "mean"), parts=parts, **size, **v.rows_args("x", "dy", items=items_of),
                        **v.cols_args("x", "dy", "mean")), grid),
            Launch(f"batch_norm_bwd_apply_rows_{suffix}",
                   dict(backward_operands(p), parts=parts, rows=v.rows, **size, stat_splits=cut.splits,
                        **v.rows_args("x", "dy", "dx", items=items_of), **v.cols_args(*BACKWARD)), grid)]


class Rows(Engine):
    """What the three share: vectors of neighbouring samples of one channel."""

    def configs(self, p, dev):
        return split_configs(p)

    def refuse(self, p, dev):
        yield from wrong_operands(p, dev)
        if not widest(p, v := View.of(p)):
            yield from no_row_vectors(p, v, max(8 // p.x.dtype.bytes, 2))


class BatchNormTrainingRows(Rows):
    """Statistics of a channel's planes in splits, then merge and apply."""
    index = 254
    op = BatchNormTraining

    def cost(self, p, dev):
        return two_pass_us(p, dev, 3, 0.8)

    def plan(self, p, dev, splits=None):
        return plan_training(p, dev, widest(p, View.of(p)), splits)


class BatchNormInferenceRows(Rows):
    """One pass over a channel's planes."""
    index = 255
    op = BatchNormInference

    def cost(self, p, dev):
        return two_pass_us(p, dev, 2, 0.85) - 2.5

    def plan(self, p, dev, splits=None):
        return plan_inference(p, dev, widest(p, View.of(p)), splits)


class BatchNormBwdRows(Rows):
    """Sums of dy and dy * xhat of a channel's planes in splits, then merge and dx."""
    index = 256
    op = BatchNormBwd

    def cost(self, p, dev):
        return two_pass_us(p, dev, 5, 0.8)

    def plan(self, p, dev, splits=None):
        return plan_backward(p, dev, widest(p, View.of(p)), splits)
