"""How far attention may be off whose weights are rounded before they meet the values."""
from __future__ import annotations

from math import sqrt

import numpy as np

from ...dtypes import bf16, f32


def with_rounded_weights(op, arrays, scalars, results, least=0.0, kind=bf16, of_scores=0.0) -> dict:
    """What rounding errors of each output scale with: as the op says, and for o the roundings of weights to
    type ``kind``. ``least``: of a row whose largest is 1, a weight that may be off by as much as it is.
    ``of_scores``: by how much of the sum of its |q * k| a score may be off; 0: as sums of f32 are."""
    numbers = {name: arrays.get(name) for name in op.reads if name not in ("q", "k", "v")}
    scale = scalars.get("scale", 1.0)
    plain = op.reference(arrays["q"], arrays["k"], np.abs(arrays["v"]), **numbers, scale=scale)["o"]
    sums = 8 + 2 * sqrt(arrays["q"].shape[3] + arrays["k"].shape[3])     # roundings of f32, as allowed
    found = op.magnitude(arrays, scalars, results)
    lost = least * np.nan_to_num(np.abs(arrays["v"])).sum()
    found |= dict(o=found["o"] + (np.nan_to_num(plain) * kind.eps / 2 + lost) / f32.eps / sums)
    more = max(1, of_scores / f32.eps / sums)
    return {name: size * more for name, size in found.items()}
