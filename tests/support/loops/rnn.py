"""Recurrent networks as loops over layers, directions, sequences and steps, gate by gate."""
from __future__ import annotations

import itertools

import numpy as np


def logistic(v):
    return 1 / (1 + np.exp(-v))


def one_step(cell, a, q, h, c):
    """One step of one sequence: ``a`` and ``q`` are lists with a vector for each gate."""
    if cell == "relu":
        return np.maximum(a[0] + q[0], 0), c
    if cell == "tanh":
        return np.tanh(a[0] + q[0]), c
    if cell == "lstm":
        i, f, o = (logistic(a[g] + q[g]) for g in (0, 1, 3))
        c = f * c + i * np.tanh(a[2] + q[2])
        return o * np.tanh(c), c
    r, i = (logistic(a[g] + q[g]) for g in (0, 1))
    return (1 - i) * np.tanh(a[2] + r * q[2]) + i * h, c


def loops(op, x, w, hx, cx, between=lambda layer, y: y):
    """(y, hy, cy). ``between``: what the next layer reads of a layer's output."""
    starts = np.cumsum([0, *op.batches])
    blob, below, hy, cy = op.blob(x.shape[1]), x, hx.copy(), cx.copy()
    for l in range(op.layers):
        y = np.zeros((op.rows, op.width))
        for d, b in itertools.product(range(op.directions), range(op.batches[0])):
            p, h, c, gates = 2 * l + d if op.bidirectional else l, hx[l, d, b], cx[l, d, b], range(op.gates)
            length = sum(n > b for n in op.batches)
            matrix = lambda g, side, n: w[blob.matrix(p, g, side):][:op.hidden * n].reshape(op.hidden, n)
            bias = lambda g, side: w[blob.bias(p, g, side):][:op.hidden]
            for t in reversed(range(length)) if d else range(length):
                v, width = below[starts[t] + b], blob.widths[p]
                a = [(matrix(g, False, width) @ v if width else v) + bias(g, False) for g in gates]
                q = [matrix(g, True, op.hidden) @ h + bias(g, True) for g in gates]
                h, c = one_step(op.cell, a, q, h, c)
                y[starts[t] + b, d * op.hidden:(d + 1) * op.hidden] = h
            hy[l, d, b], cy[l, d, b] = h, c
        below = between(l, y)
    return y, hy, cy


def rnn_fwd(op, a, shapes, found):
    """The factors of dropout are the generator's, as the reserve shows them."""
    state = lambda name: np.zeros((op.layers, op.directions, op.batches[0], op.hidden)) \
        if a.get(name) is None else a[name]
    drops = op.has_dropout and "reserve" in found
    keep = lambda layer, y: op.reserve.view(found["reserve"], "keep", layer) * y \
        if drops and layer < op.layers - 1 else y
    y, hy, cy = loops(op, a["x"], a["w"], state("hx"), state("cx"), keep)
    return dict(y=y, hy=hy, **(dict(cy=cy) if op.cell == "lstm" else {}))


LOOPS = dict(rnn_fwd=rnn_fwd)
