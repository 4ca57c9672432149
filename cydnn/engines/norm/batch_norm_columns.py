"""Batch norm with channels innermost (and per activation): lanes along 16-byte vectors of channels, rows split over the device.

Two launches: sums of every split, then each block merges the few parts of its own channels and applies. Fixed-order merges.
"""
from __future__ import annotations

from ...ops import BatchNormBwd, BatchNormInference, BatchNormTraining
from .batch_norm_view import View, cut_columns, no_column_vectors, split_configs, two_pass_us, wrong_operands
from ..engine import Engine
from ...steps import Launch

TRAINING = ("scale", "bias", "running_mean", "running_var", "mean", "rstd", "next_running_mean", "next_running_var", "x", "y")
INFERENCE = ("scale", "bias", "mean", "var", None, None, None, None, "x", "y")      # the same kernel: mean and var in the running slots
BACKWARD = ("scale", "mean", "rstd", "dscale", "dbias", "x", "dy", "dx")


def pointers(p, *names) -> dict:
    return {name: p.ptr(name) for name in names}


def scalars(p, *names) -> dict:
    return {name: p.scalar(name) for name in names}


def training_operands(p) -> dict:
    """The pointers and scalars that every kernel of the forward pass takes."""
    return {**pointers(p, *TRAINING), **scalars(p, "epsilon", "factor", "alpha", "beta")}


def inference_operands(p) -> dict:
    unused = dict.fromkeys(("parts", "mean", "rstd", "next_running_mean", "next_running_var"))
    return {**unused, **pointers(p, "x", "y", "scale", "bias"), "running_mean": p.ptr("mean"), "running_var": p.ptr("var"),
            **scalars(p, "epsilon", "alpha", "beta"), "factor": 1.0}


def backward_operands(p) -> dict:
    return {**pointers(p, *BACKWARD), **scalars(p, "epsilon", "alpha", "beta", "alpha_param", "beta_param")}


def part_bytes(p, values: int) -> int:
    """Bytes of one part of ``values`` accumulators: 3 for statistics, 2 for the sums of dy, 5 for both."""
    return values * (8 if p.x.dtype.name == "f64" else 4)


def plan_training(p, dev, vec: int, splits=None) -> list:
    v = View.of(p)
    if not v.cols:
        return []
    cut = cut_columns(v, 16 // p.x.dtype.bytes if vec else 1, dev, splits=splits)
    parts = p.scratch(v.cols * cut.splits * part_bytes(p, 3))
    size = dict(rows=v.rows, cols=v.cols, rows_per_split=cut.rows_per_split, splits=cut.splits, lanes_log2=cut.lanes_log2)
    suffix, grid = f"{p.x.dtype}_{vec}", dict(blocks=cut.blocks)
    return [Launch(f"batch_norm_stats_columns_{suffix}",
                   dict(x=p.ptr("x"), parts=parts, **size, **v.rows_args("x"), **v.cols_args("x")), grid),
            Launch(f"batch_norm_apply_columns_{suffix}",
                   dict(training_operands(p), parts=parts, **size, stat_splits=cut.splits,
                        **v.rows_args("x", "y"), **v.cols_args(*TRAINING)), grid)]


def plan_inference(p, dev, vec: int, splits=None) -> list:
    v = View.of(p)
    if not p.x.count:
        return []
    cut = cut_columns(v, 16 // p.x.dtype.bytes if vec else 1, dev, splits=splits)
    size = dict(rows=v.rows, cols=v.cols, rows_per_split=cut.rows_per_split, splits=cut.splits, lanes_log2=cut.lanes_log2)
    return [Launch(f"batch_norm_apply_columns_{p.x.dtype}_{vec}",
                   dict(inference_operands(p), **size, stat_splits=0, **v.rows_args("x", "y"), **v.cols_args(*INFERENCE)),
                   dict(blocks=cut.blocks))]


def plan_backward(p, dev, vec: int, splits=None) -> list:
    v = View.of(p)
    if not v.cols:
        return []
    cut = cut_columns(v, 16 // p.x.dtype.bytes if vec else 1, dev, splits=splits)
    known = int(p.mean is not None)
    parts = p.scratch(v.cols * cut.splits * part_bytes(p, 2 if known else 5))
    size = dict(rows=v.rows, cols=v.cols, rows_per_split=cut.rows_per_split, splits=cut.splits, lanes_log2=cut.lanes_log2)
    suffix, grid = f"{p.x.dtype}_{vec}_{known}", dict(blocks=cut.blocks)
    return [Launch(f"batch_norm_bwd_sums_columns_{suffix}",
                   dict(pointers(p, "x", "dy", "mean"), parts=parts, **size, **v.rows_args("x", "dy"), **v.cols_args("x", "dy", "mean")), grid),
            Launch(f"batch_norm_bwd_apply_columns_{suffix}",
                   dict(backward_operands(p), parts=parts, **size, stat_splits=cut.splits,
                        **v.rows_args("x", "dy", "dx"), **v.cols_args(*BACKWARD)), grid)]


class Columns(Engine):
    """What the three share: 16-byte vectors of channels."""

    def configs(self, p, dev):
        return split_configs(p)

    def refuse(self, p, dev):
        yield from wrong_operands(p, dev)
        yield from no_column_vectors(p, View.of(p))


class BatchNormTrainingColumns(Columns):
    """Statistics of channels-innermost rows in splits, then merge and apply."""
    index = 251
    op = BatchNormTraining

    def cost(self, p, dev):
        return two_pass_us(p, dev, 3, 0.85)

    def plan(self, p, dev, splits=None):
        return plan_training(p, dev, vec=1, splits=splits)


class BatchNormInferenceColumns(Columns):
    """One pass over channels-innermost rows, the factors of a channel in registers."""
    index = 252
    op = BatchNormInference

    def cost(self, p, dev):
        return two_pass_us(p, dev, 2, 0.9) - 2.5

    def plan(self, p, dev, splits=None):
        return plan_inference(p, dev, vec=1, splits=splits)


class BatchNormBwdColumns(Columns):
    """Sums of dy and dy * xhat of channels-innermost rows in splits, then merge and dx."""
    index = 253
    op = BatchNormBwd

    def cost(self, p, dev):
        return two_pass_us(p, dev, 5, 0.85)

    def plan(self, p, dev, splits=None):
        return plan_backward(p, dev, vec=1, splits=splits)
