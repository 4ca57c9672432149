"""Resampling, a second time: a loop over outputs, and one over the cells of each window, in fractions."""
from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np


def _begin(op, o, axis, dims):
    """Where window ``o`` of a dim begins, in cells."""
    part = lambda name: Fraction(op.spread(name, dims)[axis], op.denominator)
    return o * part("stride") - part("pre_pad")


def _cells(op, outs, sizes):
    """(number, cell, whether it is inside, weight) of every cell of the window of an output."""
    dims = len(sizes)
    begins = [_begin(op, o, axis, dims) for axis, o in enumerate(outs)]
    if op.mode == "bilinear":                    # from the middle of the two to each
        begins = [b + Fraction(1, 2) for b in begins]
    for number, taps in enumerate(product(*map(range, op.spread("window", dims)))):
        cell = [math.floor(b) + t for b, t in zip(begins, taps)]
        inside = all(0 <= i < n for i, n in zip(cell, sizes))
        weight = math.prod(1 - abs(b - i) for b, i in zip(begins, cell)) if op.mode == "bilinear" else 1
        yield number, tuple(min(max(i, 0), n - 1) for i, n in zip(cell, sizes)), inside, float(weight)


def _is_read(op, inside):
    return inside or op.padding == "edge" and op.mode != "avg_exclude_padding"


def _value(image, cell):
    """0 where there is no image at all."""
    return image[cell] if image.size else 0.0


def _maximum(op, image, cells):
    """(the first largest, its number)"""
    best, winner = None, 0
    for number, cell, inside, _ in cells:
        if not inside and op.padding == "neg_inf":
            continue
        value = _value(image, cell) if _is_read(op, inside) else 0.0
        if math.isnan(value):
            if op.nan == "propagate":
                return value, number
        elif best is None or value > best:
            best, winner = value, number
    return (-np.finfo(float).max, 0) if best is None else (best, winner)


def _divisor(op, cells):
    if op.mode == "avg_exclude_padding":
        return max(sum(inside for _, _, inside, _ in cells), 1)
    return len(cells) if op.mode == "avg_include_padding" else 1


def resample_fwd(op, a, shapes):
    x, y, index = a["x"], np.zeros(shapes["y"]), np.zeros(shapes["y"], int)
    for at in np.ndindex(y.shape):
        image, cells = x[at[:2]], list(_cells(op, at[2:], x.shape[2:]))
        if op.mode == "max":
            y[at], index[at] = _maximum(op, image, cells)
        else:
            y[at] = sum(weight * _value(image, cell) for _, cell, inside, weight in cells
                        if _is_read(op, inside)) / _divisor(op, cells)
    return dict(y=y, index=index)


def resample_bwd(op, a, shapes):
    dy, dx, x = a["dy"], np.zeros(shapes["dx"]), a.get("x")
    for at in np.ndindex(dy.shape):
        cells = list(_cells(op, at[2:], dx.shape[2:]))
        winner = None
        if op.mode == "max":
            given = a.get("index")
            winner = int(given[at]) if given is not None else _maximum(op, x[at[:2]], cells)[1]
            if given is None and _maximum(op, x[at[:2]], cells)[0] == -np.finfo(float).max:
                continue                         # of nothing
        for number, cell, inside, weight in cells:
            if _is_read(op, inside) and winner in (None, number):
                dx[(*at[:2], *cell)] += dy[at] * weight / _divisor(op, cells)
    return dict(dx=dx)


LOOPS = dict(resample_fwd=resample_fwd, resample_bwd=resample_bwd)
