"""Is a result right? The tolerance is computed from the op: rounding of the output, plus error
of the sums, times their magnitude."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cydnn import dtypes
from cydnn.ops.op import math_dtype


@dataclass
class Report:
    """What a comparison found: ``ok``, and a sentence with the worst element."""
    ok: bool
    text: str


def tolerance(problem, name, desc, want, magnitude, scalars, old):
    """Absolute tolerance for each element of an output."""
    op = problem.op
    alpha, beta = (scalars.get(s, 1.0) for s in op.blends[name]) if name in op.blends else (1.0, 0.0)
    scale = np.abs(alpha) * magnitude + (np.abs(beta * old) if beta else 0.0)
    terms = op.terms(**problem.operands)
    eps = min(math_dtype(op).eps or 2.0 ** -23, max(dtypes.f32.eps, math_dtype(op).eps))
    tiny = (2.0 ** -149 if desc.dtype is dtypes.f32 else 2.0 ** -24 if desc.dtype is dtypes.f16
            else 2.0 ** -133 if desc.dtype is dtypes.bf16 else 2.0 ** -1074)
    return desc.dtype.eps * np.abs(want) + (8 + 2 * np.sqrt(terms)) * eps * scale + tiny


def compare(got, want, allowed, desc) -> Report:
    """``got`` against float64 ``want``: NaN where NaN, equal infinities, else within ``allowed``.
    Overflow of the type is accepted."""
    if not got.size:
        return Report(True, "empty")
    with np.errstate(all="ignore"):
        rounded = desc.dtype.round(want)
        error = np.abs(got - want)
        good = (error <= allowed) | (np.isnan(got) & np.isnan(want)) | (got == rounded)
        good |= (np.isinf(got) & (np.abs(want) + allowed >= desc.dtype.highest)
                 & (np.sign(got) == np.sign(want)))
    if good.all():
        return Report(True, "")
    error = np.where(good, 0.0, np.where(np.isnan(error), np.inf,
                                         error / np.maximum(np.broadcast_to(allowed, error.shape), 1e-300)))
    at = np.unravel_index(int(np.argmax(error)), error.shape)
    return Report(False,
                  f"{(~good).sum()} of {good.size} wrong; worst at {tuple(map(int, at))}: got {got[at]!r}, "
                  f"want {want[at]!r}, allowed {float(np.broadcast_to(allowed, got.shape)[at]):.3g}")
