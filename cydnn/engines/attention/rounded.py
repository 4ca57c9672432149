"""How far attention may be off whose weights are rounded to 16 bits before they meet the values."""
from __future__ import annotations

from math import sqrt

import numpy as np

from ...dtypes import bf16, f32


def with_rounded_weights(op, arrays, scalars, results, least=0.0) -> dict:
    """What rounding errors of each output scale with: as the op says, and for o the roundings of weights.
    ``least``: of a row whose largest is 1, a weight that may be off by as much as it is."""
    numbers = {name: arrays.get(name) for name in op.reads if name not in ("q", "k", "v")}
    scale = scalars.get("scale", 1.0)
    plain = op.reference(arrays["q"], arrays["k"], np.abs(arrays["v"]), **numbers, scale=scale)["o"]
    sums = 8 + 2 * sqrt(arrays["q"].shape[3] + arrays["k"].shape[3])     # roundings of f32, as allowed
    found = op.magnitude(arrays, scalars, results)
    lost = least * np.nan_to_num(np.abs(arrays["v"])).sum()
    return found | dict(o=found["o"] + (np.nan_to_num(plain) * bf16.eps / 2 + lost) / f32.eps / sums)
