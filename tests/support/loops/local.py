"""Plain loops of normalizations by a neighbourhood, and of spatial transformers. Backward passes walk over
the outputs and give to every input what that output gets from it."""
from __future__ import annotations

import math
from itertools import product

import numpy as np


def _span(i, window, size):
    return range(max(i - (window - 1) // 2, 0), min(i + window // 2, size - 1) + 1)


def _raised(s, power):
    with np.errstate(all="ignore"):
        return np.where(s < 0, np.nan, np.power(np.maximum(s, 0), -power))


def lrn_fwd(op, a, shapes):
    x, y = a["x"], np.empty(shapes["y"])
    for i in range(x.shape[1]):
        total = sum(x[:, j] ** 2 for j in _span(i, op.window, x.shape[1]))
        y[:, i] = x[:, i] * _raised(op.offset + op.scale * total / op.window, op.power)
    return dict(y=y)


def lrn_bwd(op, a, shapes):
    x, dy, dx = a["x"], a["dy"], np.zeros(shapes["dx"])
    for i in range(x.shape[1]):
        span = _span(i, op.window, x.shape[1])
        s = op.offset + op.scale * sum(x[:, j] ** 2 for j in span) / op.window
        dx[:, i] += dy[:, i] * _raised(s, op.power)
        for j in span:
            slope = -op.power * _raised(s, op.power + 1) * op.scale / op.window * 2 * x[:, j]
            dx[:, j] += dy[:, i] * x[:, i] * slope
    return dict(dx=dx)


def _places(op, x):
    """(cell, its window) of every cell."""
    for at in np.ndindex(x.shape[2:]):
        spans = [_span(i, op.window, n) for i, n in zip(at, x.shape[2:])]
        yield at, [(slice(None), slice(None), *p) for p in product(*spans)]


def divisive_norm_fwd(op, a, shapes):
    x, y, cells = a["x"], np.empty(shapes["y"]), op.window ** (a["x"].ndim - 2)
    for at, window in _places(op, x):
        here = (slice(None), slice(None), *at)
        mean = 0.0 if a.get("means") is None else a["means"][here]
        total = sum((x[cell] - mean) ** 2 for cell in window)
        y[here] = x[here] * _raised(op.offset + op.scale * total / cells, op.power)
    return dict(y=y)


def divisive_norm_bwd(op, a, shapes):
    x, dy, cells = a["x"], a["dy"], op.window ** (a["x"].ndim - 2)
    dx, dmeans = np.zeros(x.shape), np.zeros(x.shape)
    for at, window in _places(op, x):
        here = (slice(None), slice(None), *at)
        mean = 0.0 if a.get("means") is None else a["means"][here]
        s = op.offset + op.scale * sum((x[cell] - mean) ** 2 for cell in window) / cells
        dx[here] += dy[here] * _raised(s, op.power)
        outer = dy[here] * x[here] * -op.power * _raised(s, op.power + 1) * op.scale / cells
        for cell in window:
            dx[cell] += outer * 2 * (x[cell] - mean)
            dmeans[here] -= outer * 2 * (x[cell] - mean)
    return dict(dx=dx, dmeans=dmeans)


# ---- Spatial transformers ----

def _steps(size):
    return [-1 + 2 * i / (size - 1) if size > 1 else -1.0 for i in range(size)]


def spatial_grid_fwd(op, a, shapes):
    grid = np.empty(shapes["grid"])
    for (i, y), (j, x) in product(enumerate(_steps(grid.shape[1])), enumerate(_steps(grid.shape[2]))):
        grid[:, i, j] = a["theta"][:, :, 0] * x + a["theta"][:, :, 1] * y + a["theta"][:, :, 2]
    return dict(grid=grid)


def spatial_grid_bwd(op, a, shapes):
    dtheta, dgrid = np.zeros(shapes["dtheta"]), a["dgrid"]
    for (i, y), (j, x) in product(enumerate(_steps(dgrid.shape[1])), enumerate(_steps(dgrid.shape[2]))):
        for k, factor in enumerate((x, y, 1.0)):
            dtheta[:, :, k] += factor * dgrid[:, i, j]
    return dict(dtheta=dtheta)


def _samples(x, grid):
    """(image, row and column of a point, [(pixel, weight, slopes along x and y)]) of every point that is near
    the image."""
    height, width = x.shape[2:]
    for n, i, j in np.ndindex(grid.shape[:3]):
        gx, gy = grid[n, i, j].tolist()
        px, py = (gx + 1) * (width - 1) / 2, (gy + 1) * (height - 1) / 2
        if not (-1 <= px < width and -1 <= py < height):
            continue
        left, top, found = math.floor(px), math.floor(py), []
        for h, w in product((top, top + 1), (left, left + 1)):
            if 0 <= h < height and 0 <= w < width:
                across, down = 1 - abs(px - w), 1 - abs(py - h)
                found.append(((h, w), across * down, (1 if w > left else -1) * down * (width - 1) / 2,
                              (1 if h > top else -1) * across * (height - 1) / 2))
        yield n, i, j, found


def spatial_sampler_fwd(op, a, shapes):
    y = np.zeros(shapes["y"])
    for n, i, j, around in _samples(a["x"], a["grid"]):
        for (h, w), weight, *_ in around:
            y[n, :, i, j] += weight * a["x"][n, :, h, w]
    return dict(y=y)


def spatial_sampler_bwd(op, a, shapes):
    dx, dgrid = np.zeros(shapes["dx"]), np.zeros(shapes["dgrid"])
    for n, i, j, around in _samples(a["x"], a["grid"]):
        dy = a["dy"][n, :, i, j]
        for (h, w), weight, along_x, along_y in around:
            dx[n, :, h, w] += weight * dy
            dgrid[n, i, j] += np.array([along_x, along_y]) * math.fsum((dy * a["x"][n, :, h, w]).tolist())
    return dict(dx=dx, dgrid=dgrid)


LOOPS = {f.__name__: f for f in (lrn_fwd, lrn_bwd, divisive_norm_fwd, divisive_norm_bwd, spatial_grid_fwd,
                                 spatial_grid_bwd, spatial_sampler_fwd, spatial_sampler_bwd)}
