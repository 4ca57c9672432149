"""Where a NaN or an infinity goes that zeros of filters multiply: lines of a group's channels may hold those
of the next ones."""
from __future__ import annotations

import numpy as np

from ...kernels.expressions import ceil_div


def reached(op, arrays: dict, scalars: dict, found: dict, groups: int, line: int) -> dict:
    """``found``, the magnitudes of the op, but no number where one of ``groups`` meets what is none in its
    channels rounded up to whole lines."""
    read, out = op.reads[0], op.writes[0]
    wrong = ~np.isfinite(arrays[read])
    if not wrong.any():
        return found
    width = wrong.shape[1] // groups
    whole = ceil_div(width, line) * line
    parts = [wrong[:, at:at + whole].any(1) for at in range(0, groups * width, width)]
    where = np.repeat(np.stack(parts, 1), width, 1).astype(float)
    ones = {**arrays, read: where, "w": np.ones_like(arrays["w"])}
    met = op.evaluate(ones, {**scalars, "alpha": 1.0, "beta": 0.0})[out]
    return {out: np.where(met != 0, np.nan, found[out])}
