"""Is a result right? The tolerance is computed from the op: half a step of the output's type, plus the error
of the sums, times their magnitude."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cydnn import dtypes


@dataclass
class Report:
    """What a comparison found: ``ok``, and a sentence with the worst element."""
    ok: bool
    text: str


def tolerance(problem, name, desc, want, magnitude, scalars, old):
    """Absolute tolerance for each element of an output: half a step of its type, the error of what was
    summed, and the smallest step of the arithmetic. Where a whole number is stored that is half of one, and
    the number itself is a value that may be rounded either way."""
    op = problem.op
    alpha, beta = (scalars.get(s, 1.0) for s in op.blends[name]) if name in op.blends else (1.0, 0.0)
    with np.errstate(all="ignore"):
        scale = np.abs(alpha) * magnitude + (np.abs(beta * old) if beta else 0.0)
    terms = op.terms(**problem.operands)
    math = dtypes.BY_NAME[op.math]
    eps = min(math.eps or 2.0 ** -23, max(dtypes.f32.eps, math.eps))
    half = 0.5 if desc.dtype.kind == "int" else 0.0
    summed = (8 + 2 * np.sqrt(terms)) * eps * scale
    return half_step(desc.dtype, np.abs(want) + summed) + summed + math.tiny + half


def half_step(dtype, size):
    """Half the distance between neighbours of a float type at ``size``."""
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.where(np.isfinite(size), size, 0.0))[1] - 1.0
        return np.maximum(np.where(size == 0, 0.0, dtype.eps * np.exp2(exponent)), dtype.tiny) / 2


def compare(got, want, allowed, desc, reached=False) -> Report:
    """``got`` against float64 ``want``: NaN where NaN, equal infinities, else within ``allowed``. Overflow of
    the type is accepted, where a result is not exact. A boolean that ``allowed`` leaves open may be
    either. Where one is ``reached`` by what is no number it may be none."""
    if not got.size:
        return Report(True, "empty")
    with np.errstate(all="ignore"):
        rounded = desc.dtype.round(want)
        error = np.abs(got - want)
        if desc.dtype.kind == "bool":
            good = (got == rounded) | (np.abs(want) <= allowed)
        else:
            good = (error <= allowed) | (np.isnan(got) & np.isnan(want)) | (got == rounded)
            good |= (np.isinf(got) & (np.abs(want) + allowed >= desc.dtype.highest)
                     & (np.asarray(allowed) > 0) & (np.sign(got) == np.sign(want)))
        good |= reached & ~np.isfinite(got)
    if good.all():
        return Report(True, "")
    with np.errstate(over="ignore"):
        error = np.where(good, 0.0, np.where(np.isnan(error), np.inf, error / np.maximum(
            np.broadcast_to(allowed, error.shape), 1e-300)))
    at = np.unravel_index(int(np.argmax(error)), error.shape)
    return Report(False,
                  f"{(~good).sum()} of {good.size} wrong; worst at {tuple(map(int, at))}: "
            f"got {got[at]!r}, "
                  f"want {want[at]!r}, allowed {float(np.broadcast_to(allowed, got.shape)[at]):.3g}")
