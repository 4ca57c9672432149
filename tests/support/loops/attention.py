"""Attention and its gradients by loops over queries and keys."""
from __future__ import annotations

import math

import numpy as np

from cydnn.ops import philox, rows
from cydnn.ops.attention.adjoint import adjoint


def factor_of(op, a, space, seed, offset):
    """A function of (batch, head, row, col): what the weight is multiplied by."""
    numbers = philox.numbers(seed, offset, math.prod(space[:3]), space[3]).reshape(space) if op.drop else None

    def factor(n, head, row, col):
        at = (n, head, row, col)
        values = dict(zip(("batch", "head", "row", "col"), map(np.float64, at)))
        values |= {f"e{i}": e[tuple(np.minimum(at, np.array(e.shape) - 1))]
                   for i, e in enumerate(a.get("extras") or ())}
        found = float(rows.evaluate(op.keep, values)) if op.keep else 1.0
        if numbers is None:
            return found
        return found / (1 - op.drop) if numbers[at] >= round(op.drop * 2 ** 32) and op.drop < 1 else 0.0
    return factor


def seen_by(op, a, n, head, row, n_kv, shift):
    """The keys that a query sees."""
    blocks = a.get("blocks")
    for col in range(n_kv):
        way, byte = col - row - shift, 255
        if blocks is not None:
            byte = blocks[min(n, len(blocks) - 1), min(head, blocks.shape[1] - 1), row // 128, col // 1024]
        is_out = op.left and way <= -op.left or op.right >= 0 and way > op.right
        if not is_out and int(byte) >> col // 128 % 8 & 1:
            yield col


def sdpa(op, a, shapes, scale, seed=0, offset=0):
    q, k, v = a["q"], a["k"], a["v"]
    (b, h, s_q, _), s_kv = q.shape, k.shape[3]
    o, kept = np.empty((b, h, s_q, v.shape[3])), np.full((3, b, h, s_q, 1), -np.inf)
    factor = factor_of(op, a, (b, h, s_q, s_kv), seed, offset)
    for n, head, row in np.ndindex(b, h, s_q):
        n_q, n_kv = (size if a.get(name) is None else min(max(int(a[name][n, 0, 0, 0]), 0), size)
                     for name, size in (("len_q", s_q), ("len_kv", s_kv)))
        shift = n_kv - n_q if op.diagonal == "bottom_right" else 0
        k_of, v_of = k[n, head * k.shape[1] // h], v[n, head * v.shape[1] // h]
        scores, seen = [], []
        for col in seen_by(op, a, n, head, row, n_kv if row < n_q else 0, shift):
            at = dict(zip(("batch", "head", "row", "col"), map(np.float64, (n, head, row, col))))
            extras = {f"e{i}": e[tuple(np.minimum((n, head, row, col), np.array(e.shape) - 1))]
                      for i, e in enumerate(a.get("extras") or ())}
            s = np.float64(scale * math.fsum(q[n, head, row] * k_of[:, col]))
            scores.append(float(rows.evaluate(op.score, dict(s=s, **at, **extras))))
            seen.append(col)
        sinks = [] if a.get("sink") is None or row >= n_q else [float(a["sink"][0, head, 0, 0])]
        top = max(scores + sinks, default=-math.inf)
        parts = [math.exp(s - top) for s in scores + sinks] if top > -math.inf else []
        total = math.fsum(parts)
        kept[:, n, head, row, 0] = top + math.log(total) if total else -math.inf, top, total
        parts = [p * factor(n, head, row, c) for p, c in zip(parts, seen)]
        o[n, head, row] = [math.fsum(p * v_of[c, i] for p, c in zip(parts, seen)) / total if total else 0.0
                           for i in range(v.shape[3])]
    return dict(o=o, **dict(zip(("stats", "score_max", "score_sum_exp"), kept)))


def sdpa_bwd(op, a, shapes, scale, seed=0, offset=0):
    q, k, v, o, do = (a[name] for name in ("q", "k", "v", "o", "do"))
    (b, h, s_q, _), s_kv = q.shape, k.shape[3]
    out = {name: np.zeros(shapes[name]) for name in ("dq", "dk", "dv", "dbias", "dsink", "peak")
           if name in shapes}
    factor = factor_of(op, a, (b, h, s_q, s_kv), seed, offset)
    to_bias = adjoint(op.score, f"e{op.dbias_of}") if "dbias" in out else ()
    for n, head, row in np.ndindex(b, h, s_q):
        n_q, n_kv = (size if a.get(name) is None else min(max(int(a[name][n, 0, 0, 0]), 0), size)
                     for name, size in (("len_q", s_q), ("len_kv", s_kv)))
        total = float(a["stats"][n, head, row, 0])
        if row >= n_q or total == -math.inf:
            continue
        shift = n_kv - n_q if op.diagonal == "bottom_right" else 0
        of_k, of_v = head * k.shape[1] // h, head * v.shape[1] // h
        whole = math.fsum(do[n, head, row] * o[n, head, row])
        if "dsink" in out:
            out["dsink"][0, head, 0, 0] -= np.exp(a["sink"][0, head, 0, 0] - total) * whole
        for col in seen_by(op, a, n, head, row, n_kv, shift):
            at = (n, head, row, col)
            place = lambda e: tuple(np.minimum(at, np.array(e.shape) - 1))
            s = np.float64(scale * math.fsum(q[n, head, row] * k[n, of_k, :, col]))
            values = dict(s=s, **dict(zip(("batch", "head", "row", "col"), map(np.float64, at))))
            values |= {f"e{i}": e[place(e)] for i, e in enumerate(a.get("extras") or ())}
            p = np.exp(rows.evaluate(op.score, values) - total)
            part = factor(n, head, row, col)
            product = math.fsum(do[n, head, row] * v[n, of_v, col]) if part else 0.0
            values = dict(d=np.float64(p * (part * product - whole)), **values)
            ds = scale * rows.evaluate(op.back, values)
            if "peak" in out:
                out["peak"][n, head, row] = max(out["peak"][n, head, row, 0], abs(ds))
            if ds != 0:                          # a factor of 0 adds nothing
                out["dq"][n, head, row] += ds * k[n, of_k, :, col]
                out["dk"][n, of_k, :, col] += ds * q[n, head, row]
            if part * p != 0:
                out["dv"][n, of_v, col] += part * p * do[n, head, row]
            if "dbias" in out:
                out["dbias"][place(out["dbias"])] += rows.evaluate(to_bias, values)
    return out


LOOPS = dict(sdpa=sdpa, sdpa_bwd=sdpa_bwd)
