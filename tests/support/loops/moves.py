"""What the operations that move elements mean, a second time: plain loops."""
from __future__ import annotations

import numpy as np


def slice_(op, a, shapes):
    y, each = np.zeros(shapes["y"]), lambda v: [v] * a["x"].ndim if isinstance(v, int) else v
    for at in np.ndindex(y.shape):
        y[at] = a["x"][tuple(s + i * n for s, i, n in zip(each(op.start), at, each(op.step)))]
    return dict(y=y)


def reshape(op, a, shapes):
    y = np.zeros(shapes["y"])
    for to, at in zip(np.ndindex(y.shape), np.ndindex(a["x"].shape)):
        y[to] = a["x"][at]
    return dict(y=y)


def transpose(op, a, shapes):
    y = np.zeros(shapes["y"])
    for at in np.ndindex(a["x"].shape):
        y[tuple(at[axis] for axis in op.permutation)] = a["x"][at]
    return dict(y=y)


def concatenate(op, a, shapes):
    y, behind = np.zeros(shapes["y"]), 0
    for x in a["inputs"]:
        for at in np.ndindex(x.shape):
            y[(*at[:op.axis], at[op.axis] + behind, *at[op.axis + 1:])] = x[at]
        behind += x.shape[op.axis]
    return dict(y=y)


LOOPS = dict(slice=slice_, reshape=reshape, transpose=transpose, concatenate=concatenate)
