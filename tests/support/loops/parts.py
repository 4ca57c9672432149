"""Batch normalization in parts, a second time: a loop over channels."""
from __future__ import annotations

import math

import numpy as np


def bn_finalize(op, a, shapes, epsilon, factor):
    found = {n: np.zeros(shapes[n]) for n in op.writes if n in shapes}
    count = float(a["count"].ravel()[0])
    for at in np.ndindex(a["sum"].shape):
        mean = a["sum"][at] / count
        var = max(a["sq_sum"][at] / count - mean * mean, 0.0)
        rstd = 1 / math.sqrt(var + epsilon)
        values = dict(mean=mean, rstd=rstd, eq_scale=a["scale"][at] * rstd,
                      eq_bias=a["bias"][at] - mean * a["scale"][at] * rstd)
        if a.get("running_mean") is not None:
            wide = var * count / (count - 1)
            values |= {f"next_running_{n}": (1 - factor) * a[f"running_{n}"][at] + factor * v
                       for n, v in (("mean", mean), ("var", wide))}
        for name in found:
            found[name][at] = values[name]
    return found


def bn_backward_weights(op, a, shapes):
    made = {n: np.zeros(shapes[n]) for n in op.writes}
    for c in range(a["x"].shape[1]):
        at = (0, c, *(0,) * (a["x"].ndim - 2))
        x, dy = a["x"][:, c].ravel(), a["dy"][:, c].ravel()
        mean, rstd, scale, m = a["mean"][at], a["rstd"][at], a["scale"][at], x.size
        dbias, dscale = dy.sum(), sum(d * (v - mean) * rstd for d, v in zip(dy, x))
        slope = -scale * rstd * rstd * dscale / m
        for name, value in dict(dbias=dbias, dscale=dscale, eq_dy_scale=scale * rstd, eq_x_scale=slope,
                                eq_bias=-scale * rstd * dbias / m - mean * slope).items():
            made[name][at] = value
    return made


def rope(op, a, shapes):
    y, r = np.array(a["x"], float), a["cos"].shape[-1]
    cos, sin = (np.broadcast_to(a[n], (*y.shape[:-1], r)) for n in ("cos", "sin"))
    for at in np.ndindex(*y.shape[:-1], r):
        row, i = at[:-1], at[-1]
        one, two = (i, i + r) if op.pairing == "half" else (2 * i, 2 * i + 1)
        x, turn = complex(a["x"][(*row, one)], a["x"][(*row, two)]), complex(cos[at], sin[at])
        turned = x * (turn.conjugate() if op.inverse else turn)
        y[(*row, one)], y[(*row, two)] = turned.real, turned.imag
    return dict(y=y)


def paged_cache_load(op, a, shapes):
    y, page = np.zeros(shapes["y"]), a["container"].shape[2]
    for b, h, t in np.ndindex(*y.shape[:3]):
        if t < a["seq_len"][b, 0, 0, 0]:
            y[b, h, t] = a["container"][int(a["table"][b, 0, t // page, 0]), h, t % page]
    return dict(y=y)


def matmul_sized(op, a, shapes):
    c = np.full(shapes["c"], float(op.padding))
    size = lambda name, most, at: most if a.get(name) is None else min(most, int(a[name][(*(
        min(i, n - 1) for i, n in zip(at, a[name].shape)), 0, 0)]))
    for at in np.ndindex(*c.shape[:-2]):
        one, two = (x[tuple(min(i, n - 1) for i, n in zip(at, x.shape))] for x in (a["a"], a["b"]))
        m, n, k = (size(f"{x}_size", most, at) for x, most in zip("mnk", (*c.shape[-2:], one.shape[-1])))
        c[(*at, slice(0, m), slice(0, n))] = one[:m, :k] @ two[:k, :n]
    return dict(c=c)


def grouped_matmul(op, a, shapes):
    y, begins, experts = np.zeros(shapes["y"]), a["offsets"].ravel().tolist(), len(a["w"])
    count = len(begins) // experts * experts if experts > 1 else max(len(begins) - 1, 1)
    for row in range(y.shape[1]):
        group, token, place = sum(begin <= row for begin in begins) - 1, row, row
        if op.mode == "gather":
            token = int(a["index"][0, row, 0])
        if op.mode == "scatter":
            place = int(a["index"][0, row, 0]) * op.top_k + int(a["slot"][0, row, 0])
        if 0 <= group < count and 0 <= place < y.shape[1]:
            is_there = 0 <= token < a["x"].shape[1]
            y[0, place] = a["x"][0, token] @ a["w"][group % experts] if is_there else 0.0
    return dict(y=y)


def grouped_matmul_wgrad(op, a, shapes):
    dw, rows, experts = np.zeros(shapes["dw"]), a["x"].shape[1], shapes["dw"][0]
    begins = [*a["offsets"].ravel().tolist(), rows]
    for group in range((len(begins) - 1) // experts * experts if experts > 1 else max(len(begins) - 2, 1)):
        for row in range(rows):
            if begins[group] <= row < begins[group + 1]:
                dw[group % experts] += np.outer(a["x"][0, row], a["dy"][0, row])
    return dict(dw=dw)


def _place(op, at, axis, shape):
    """Where a scale stands in the array of its tensor."""
    if not op.is_tiled:
        return at
    rows = 2 * len(at) - 3 - axis
    r, c, columns = at[rows], at[axis], shape[axis]
    memory = (r // 128 * (columns // 4) + c // 4) * 512 + r % 32 * 16 + r // 32 % 4 * 4 + c % 4
    return tuple([memory // columns if i == rows else memory % columns if i == axis else n
                  for i, n in enumerate(at)])


FOURS = [s * v for s in (1, -1) for v in (0, 0.5, 1, 1.5, 2, 3, 4, 6)]


def _four(stored, at, axis):
    """The number of four bits of a byte."""
    byte = int(stored[tuple([n // 2 if i == axis else n for i, n in enumerate(at)])])
    return FOURS[byte >> 4 if at[axis] % 2 else byte & 15]


def _code(x):
    """Of the nearest number of four bits, the even one of two."""
    if math.isnan(x):
        return 8 if math.copysign(1, x) < 0 else 0
    found = min(range(8), key=lambda c: (abs(FOURS[c] - min(abs(x), 6)), c % 2))
    return found + (8 if math.copysign(1, x) < 0 else 0)


def block_scale_dequantize(op, a, shapes):
    y, rank = np.zeros(shapes["y"]), a["x"].ndim
    blocks = (1,) * (rank - 1) + (op.block,) if isinstance(op.block, int) else op.block
    axis = max((rank - 2, rank - 1), key=lambda i: (blocks[i], i)) if op.is_tiled else 0
    for at in np.ndindex(y.shape):
        of = tuple([i // size for i, size in zip(at, blocks)])
        x = a["x"][at] if not op.has_pairs else _four(a["x"], at, op.pairs)
        y[at] = x * a["scale"][_place(op, of, axis, a["scale"].shape)]
    return dict(y=y)


def block_scale_quantize(op, a, shapes):
    """Scales are tried from the least up."""
    bytes_of_y, scale = np.zeros(shapes["y"]), np.zeros(shapes["scale"])
    most, y = dict(f8_e4m3=448.0, f8_e5m2=57344.0, i8=127.0, f4_e2m1=6.0)[op.to], np.zeros(a["x"].shape)
    powers = [2.0 ** i for i in range(-127, 128)]
    eighths = sorted({m * 2.0 ** e for m in range(16) for e in range(-9, 6)} - {480.0})
    for at in np.ndindex(scale.shape):
        where = tuple([slice(i * op.block, (i + 1) * op.block) if d == op.axis else slice(i, i + 1)
                       for d, i in enumerate(at)])
        block = a["x"][where]
        top = np.abs(block).max() if block.size else 0.0
        tried = dict(f8_e8m0=powers, f8_e4m3=eighths).get(op.scales)
        found = float(np.float32(top / most)) if tried is None else next(
            (s for s in tried if s * most >= top), math.nan if math.isnan(top) else tried[-1])
        scale[_place(op, at, op.axis, scale.shape)] = found
        y[where] = block / found if found else 0.0
    for at in np.ndindex(y.shape) if op.has_pairs else ():
        byte = tuple([n // 2 if i == op.axis else n for i, n in enumerate(at)])
        bytes_of_y[byte] += _code(y[at]) * (16 if at[op.axis] % 2 else 1)
    return dict(y=bytes_of_y if op.has_pairs else y, scale=scale)


def signal(op, a, shapes):
    return dict(y=a["x"], flag=np.full(shapes["flag"], op.value))


def peer_reduction(op, a, shapes):
    own = np.float32(a["peers"][op.rank]).view(np.uint32).reshape(len(a["peers"]), 2, -1, 2)
    result = {n: np.zeros(shapes[n]) for n in ("a_all", "b_all", "count")}
    for c, at in enumerate(np.ndindex(*shapes["a_all"])):
        told = [(op.share, a["a"][at], a["b"][at]) if peer == op.rank else
                (int(own[peer, 0, c, 1]), *map(float, own[peer, :, c, 0].copy().view(np.float32)))
                for peer in range(len(a["peers"]))]
        total = sum(n for n, *_ in told)
        one = sum(x if op.mode == "sums" else n / total * x for n, x, _ in told)
        spread = lambda n, x, y: y if op.mode == "sums" else n / total * (y + (x - one) ** 2)
        result["a_all"][at], result["b_all"][at] = one, sum(spread(*row) for row in told)
        result["count"][at] = total
    return result


LOOPS = {f.__name__: f for f in (
    block_scale_dequantize, block_scale_quantize, grouped_matmul, grouped_matmul_wgrad, signal,
    peer_reduction, matmul_sized, rope, paged_cache_load, bn_finalize, bn_backward_weights)}
