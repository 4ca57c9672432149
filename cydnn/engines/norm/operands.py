"""The operands of batch norm as its kernels take them: what every way of launching them shares."""
from __future__ import annotations

from ...dtypes import BY_NAME
from ...graph import Match

TRAINING = ("scale", "bias", "running_mean", "running_var", "mean", "rstd", "next_running_mean",
            "next_running_var", "x", "y")
INFERENCE = ("scale", "bias", "mean", "var", None, None, None, None, "x", "y")      # in the slots of running_
BACKWARD = ("scale", "mean", "rstd", "dscale", "dbias", "x", "dy", "dx")


def pointers(p: Match, *names) -> dict:
    return {name: p.ptr(name) for name in names}


def scalars(p: Match, *names) -> dict:
    return {name: p.scalar(name) for name in names}


def training_operands(p: Match) -> dict:
    """The pointers and scalars that every kernel of the forward pass takes."""
    return {**pointers(p, *TRAINING), **scalars(p, "epsilon", "factor", "alpha", "beta")}


def inference_operands(p: Match) -> dict:
    """The same for given statistics."""
    unused = dict.fromkeys(("parts", "mean", "rstd", "next_running_mean", "next_running_var"))
    return {**unused, **pointers(p, "x", "y", "scale", "bias"), "running_mean": p.ptr("mean"),
            "running_var": p.ptr("var"), **scalars(p, "epsilon", "alpha", "beta"), "factor": 1.0}


def backward_operands(p: Match) -> dict:
    """The pointers and scalars that every kernel of the backward pass takes."""
    return {**pointers(p, *BACKWARD), **scalars(p, "epsilon", "alpha", "beta", "alpha_param", "beta_param")}


def is_backward(p: Match) -> bool:
    return "dy" in p.operands


def is_known(p: Match) -> int:
    """The backward kernels' axis KNOWN: the statistics are given."""
    return int(p.mean is not None)


def part_bytes(p: Match) -> int:
    """Bytes of a split's sums of one column: 3 values for statistics, 2 for the sums of dy, 5 for both."""
    values = (2 if is_known(p) else 5) if is_backward(p) else 3
    return values * BY_NAME[p.x.dtype.compute].bytes
