"""What the ops mean, a second time: plain loops in float64, written from the words of their declarations and
not from the references. ``LOOPS``: {name of an op: function of the op and its arrays}, which gives
{output: values before the blend}.
"""
from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np

from . import attention, functions, local, moves, parts, random, resample, rnn


def _taps(size, out, window, pad, stride, dilation):
    """Of one dim: for every tap (outputs whose tap lies inside, where it lies)."""
    found = []
    for tap in range(window):
        pairs = [(o, at) for o in range(out) if 0 <= (at := o * stride - pad + tap * dilation) < size]
        found.append(([o for o, _ in pairs], [at for _, at in pairs]))
    return found


def _walk(op, sizes, outs, window, dilation=None):
    """(tap, outputs, places) for every tap of a window that lies inside somewhere."""
    dims = len(sizes)
    facts = (op.spread("pre_pad", dims), op.spread("stride", dims), dilation or (1,) * dims)
    each = [_taps(*numbers) for numbers in zip(sizes, outs, window, *facts)]
    for tap in product(*map(range, window)):
        places = [each[d][i] for d, i in enumerate(tap)]
        if all(outputs for outputs, _ in places):
            yield tap, [o for o, _ in places], [at for _, at in places]


def _convolution(op, x, w, y):
    """(group's channels, group's filters, tap of w, pixels of x, pixels of y) of all products that belong
    together."""
    groups, dims = x[1] // w[1], len(x) - 2
    cs, ks = x[1] // groups, w[0] // groups
    for g in range(groups):
        for tap, outputs, places in _walk(op, x[2:], y[2:], w[2:], op.spread("dilation", dims)):
            if op.mode == "convolution":
                tap = tuple(n - 1 - i for n, i in zip(w[2:], tap))
            c, k = range(g * cs, g * cs + cs), range(g * ks, g * ks + ks)
            yield (k, slice(None), *tap), np.ix_(range(x[0]), c, *places), np.ix_(range(x[0]), k, *outputs)


def conv_fprop(op, a, shapes):
    y = np.zeros(shapes["y"])
    for filters, pixels, outputs in _convolution(op, a["x"].shape, a["w"].shape, y.shape):
        y[outputs] += np.einsum("nc...,kc->nk...", a["x"][pixels], a["w"][filters])
    return dict(y=y)


def conv_dgrad(op, a, shapes):
    dx = np.zeros(shapes["dx"])
    for filters, pixels, outputs in _convolution(op, dx.shape, a["w"].shape, a["dy"].shape):
        dx[pixels] += np.einsum("nk...,kc->nc...", a["dy"][outputs], a["w"][filters])
    return dict(dx=dx)


def conv_wgrad(op, a, shapes):
    dw = np.zeros(shapes["dw"])
    for filters, pixels, outputs in _convolution(op, a["x"].shape, dw.shape, a["dy"].shape):
        dw[filters] += np.tensordot(a["dy"][outputs], a["x"][pixels], (axes := [0, *range(2, dw.ndim)], axes))
    return dict(dw=dw)


def im2col(op, a, shapes):
    x, dims = a["x"], a["x"].ndim - 2
    window, dilation, outs = op.spread("window", dims), op.spread("dilation", dims), op.out_dims(a["x"].shape)
    col = np.zeros((x.shape[1], *window, x.shape[0], *outs))
    for tap, outputs, places in _walk(op, x.shape[2:], outs, window, dilation):
        to = tuple(n - 1 - i for n, i in zip(window, tap)) if op.mode == "convolution" else tap
        cut = np.ix_(range(x.shape[1]), range(x.shape[0]), *outputs)
        col[(slice(None), *to)][cut] = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *places)].swapaxes(0, 1)
    return dict(col=col.reshape(shapes["col"]))


def _by_channel(x, function):
    thin = (1, x.shape[1], *(1,) * (x.ndim - 2))
    return np.array([function(x[:, c].ravel().tolist()) for c in range(x.shape[1])], float).reshape(thin)


def conv_bgrad(op, a, shapes):
    return dict(db=_by_channel(a["dy"], math.fsum))


def gen_stats(op, a, shapes):
    return dict(sum=_by_channel(a["x"], math.fsum),
                sq_sum=_by_channel(a["x"], lambda values: math.fsum(v * v for v in values)))


def matmul(op, a, shapes):
    c = np.zeros(shapes["c"])
    for at in np.ndindex(c.shape[:-2]):
        one, two = (v[tuple(i * n // m for i, n, m in zip(at, v.shape, c.shape))] for v in (a["a"], a["b"]))
        for k in range(one.shape[1]):
            c[at] += one[:, k, None] * two[k]
    return dict(c=c)


def _product(values):
    """Exact on the way, so that nothing overflows before its time."""
    total = Fraction(1)
    for v in values:
        total *= Fraction(v)
    try:
        return float(total)
    except OverflowError:
        return math.copysign(math.inf, total)


FOLDS = {
    "add": math.fsum, "mul": _product, "min": min, "max": max,
    "amax": lambda v: max(map(abs, v)), "avg": lambda v: math.fsum(v) / len(v),
    "norm1": lambda v: math.fsum(map(abs, v)), "norm2": lambda v: math.sqrt(math.fsum(i * i for i in v)),
    "mul_no_zeros": lambda v: _product(i for i in v if i),
}


EMPTY = dict(mul=1.0, mul_no_zeros=1.0, min=math.inf, max=-math.inf, avg=math.nan)


def reduction(op, a, shapes):
    x, y = a["x"], np.empty(shapes["y"])
    for at in np.ndindex(y.shape):
        cut = tuple(slice(None) if m == 1 else i for i, m in zip(at, y.shape))
        values = x[cut].ravel().tolist()
        y[at] = FOLDS[op.mode](values) if values else EMPTY.get(op.mode, 0.0)
    return dict(y=y)


def _rows(op, x):
    """Index of every row of a softmax."""
    along = (op.axis,) if op.mode == "channel" else range(1, x.ndim)
    for at in np.ndindex(*[1 if d in along else n for d, n in enumerate(x.shape)]) if x.size else ():
        yield tuple(slice(None) if d in along else i for d, i in enumerate(at))


def softmax_fwd(op, a, shapes):
    y, axes = np.empty(shapes["y"]), op.axes(a["x"].ndim)
    thin = [1 if d in axes else n for d, n in enumerate(a["x"].shape)]
    kept = {name: np.empty(thin) for name in ("top", "total", "stats")}
    for at in _rows(op, y):
        row = a["x"][at]
        low = [math.exp(v - row.max()) for v in row.ravel().tolist()]
        total, shape = math.fsum(low), row.shape
        y[at] = (row - row.max() - math.log(total) if op.algorithm == "log" else
                 np.reshape([v / total for v in low], shape))
        for name, value in (("top", row.max()), ("total", total), ("stats", row.max() + math.log(total))):
            kept[name][at] = value
    return dict(y=y, **kept)


def softmax_bwd(op, a, shapes):
    dx = np.empty(shapes["dx"])
    for at in _rows(op, dx):
        y, dy = a["y"][at].ravel(), a["dy"][at].ravel()
        if op.algorithm == "log":
            found = [g - math.exp(v) * math.fsum(dy) for v, g in zip(y.tolist(), dy.tolist())]
        else:
            found = [v * math.fsum([g, *(-dy * y).tolist()]) for v, g in zip(y.tolist(), dy.tolist())]
        dx[at] = np.reshape(found, dx[at].shape)
    return dict(dx=dx)


# ---- Pooling ----

def _windows(op, x):
    """(output, cells of x that its window has) of every window."""
    window, pad, stride = (op.spread(f, x.ndim - 2) for f in ("window", "pre_pad", "stride"))
    outs = [(i + 2 * p - n) // s + 1 for i, n, p, s in zip(x.shape[2:], window, pad, stride)]
    for at in np.ndindex(*outs):
        start = [o * s - p for o, s, p in zip(at, stride, pad)]
        yield (slice(None), slice(None), *at), (slice(None), slice(None), *(
            slice(max(i, 0), max(min(i + n, m), 0)) for i, n, m in zip(start, window, x.shape[2:])))


def _divisor(op, cells, dims):
    return math.prod(op.spread("window", dims)) if op.mode == "avg_include_padding" else max(cells, 1)


def pooling_fwd(op, a, shapes):
    x, y = a["x"], np.empty(shapes["y"])
    for at, where in _windows(op, x):
        cells = x[where].reshape(*x.shape[:2], math.prod(x[where].shape[2:]))
        if op.mode == "max":
            pick = np.maximum if op.nan == "propagate" else np.fmax
            y[at] = pick.reduce(cells, -1) if cells.shape[-1] else np.nan
            if not cells.shape[-1] or op.nan == "ignore":
                y[at] = np.where(np.isnan(y[at]), np.finfo(np.float64).min, y[at])
        else:
            y[at] = cells.sum(-1) / _divisor(op, cells.shape[-1], x.ndim - 2)
    return dict(y=y)


def pooling_bwd(op, a, shapes):
    x, dx = a["x"], np.zeros(shapes["dx"])
    for at, where in _windows(op, x):
        cells, share = dx[where].shape[2:], a["dy"][at]
        if op.mode != "max":
            dx[where] += (share / _divisor(op, math.prod(cells), x.ndim - 2)).reshape(
                *share.shape, *(1,) * len(cells))
            continue
        for n, c in np.ndindex(x.shape[:2]):
            values = x[n, c][where[2:]].ravel().tolist()
            usable = [i for i, v in enumerate(values) if v == v]
            broken = [i for i, v in enumerate(values) if v != v]
            if op.nan == "propagate" and broken:
                winner = broken[0]
            elif usable:
                winner = max(usable, key=lambda i: (values[i], -i))
            else:
                continue
            dx[n, c][where[2:]][np.unravel_index(winner, cells)] += share[n, c]
    return dict(dx=dx)


# ---- Tensors ----

def _wide(value, shape):
    return np.array([value[tuple(i if n > 1 else 0 for i, n in zip(at, value.shape))]
                     for at in np.ndindex(*shape)], float).reshape(shape)


def op_tensor(op, a, shapes, alpha1, alpha2):
    one, two = alpha1 * a["a"], alpha2 * _wide(a["b"], shapes["c"])
    if op.mode in ("add", "mul"):
        return dict(c=one + two if op.mode == "add" else one * two)
    better = one < two if op.mode == "min" else one > two
    found, broken = np.where(better, one, two), np.isnan(one) | np.isnan(two)
    if op.nan == "propagate":
        return dict(c=np.where(broken, np.nan, found))
    return dict(c=np.where(np.isnan(one), two, np.where(np.isnan(two), one, found)))


def dropout_fwd(op, a, shapes, found):
    """The bits are the generator's (test_philox.py); what they do to x is checked here."""
    bits = found["mask"].astype(int).tolist()
    kept = [bits[i // 8] >> i % 8 & 1 for i in range(a["x"].size)]
    y = [v / (1 - op.p) if k else 0.0 for v, k in zip(a["x"].ravel().tolist(), kept)]
    return dict(y=np.reshape(y, shapes["y"]))


def dropout_bwd(op, a, shapes):
    bits = a["mask"].astype(int).tolist()
    dx = [v / (1 - op.p) if bits[i // 8] >> i % 8 & 1 and op.p < 1 else 0.0
          for i, v in enumerate(a["dy"].ravel().tolist())]
    return dict(dx=np.reshape(dx, shapes["dx"]))


LOOPS = {f.__name__: f for f in (
    conv_fprop, conv_dgrad, conv_wgrad, conv_bgrad, im2col, gen_stats, matmul, reduction, softmax_fwd,
    softmax_bwd, pooling_fwd, pooling_bwd, op_tensor, dropout_fwd, dropout_bwd)}
LOOPS.update(
    transform=lambda op, a, shapes: dict(y=a["x"]),
    add_tensor=lambda op, a, shapes: dict(c=_wide(a["a"], shapes["c"])),
    set_tensor=lambda op, a, shapes, value: dict(y=np.full(shapes["y"], value)),
    scale_tensor=lambda op, a, shapes, alpha: dict(y=alpha * a["y"]),
    **attention.LOOPS, **functions.LOOPS, **local.LOOPS, **moves.LOOPS, **parts.LOOPS, **random.LOOPS,
    **resample.LOOPS, **rnn.LOOPS)
