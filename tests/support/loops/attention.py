"""The gradients of attention by loops over queries and keys."""
from __future__ import annotations

import math

import numpy as np

from cydnn.ops import rows
from cydnn.ops.attention.adjoint import adjoint


def sdpa_bwd(op, a, shapes, scale):
    q, k, v, o, do = (a[name] for name in ("q", "k", "v", "o", "do"))
    (b, h, s_q, _), s_kv = q.shape, k.shape[3]
    out = {name: np.zeros(shapes[name]) for name in ("dq", "dk", "dv", "dbias", "dsink") if name in shapes}
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
        for col in range(n_kv):
            way = col - row - shift
            if op.left and way <= -op.left or op.right >= 0 and way > op.right:
                continue
            at = (n, head, row, col)
            place = lambda e: tuple(np.minimum(at, np.array(e.shape) - 1))
            s = np.float64(scale * math.fsum(q[n, head, row] * k[n, of_k, :, col]))
            values = dict(s=s, **dict(zip(("batch", "head", "row", "col"), map(np.float64, at))))
            values |= {f"e{i}": e[place(e)] for i, e in enumerate(a.get("extras") or ())}
            p = np.exp(rows.evaluate(op.score, values) - total)
            values = dict(d=np.float64(p * (math.fsum(do[n, head, row] * v[n, of_v, col]) - whole)), **values)
            ds = scale * rows.evaluate(op.back, values)
            if ds != 0:                          # a factor of 0 adds nothing
                out["dq"][n, head, row] += ds * k[n, of_k, :, col]
                out["dk"][n, of_k, :, col] += ds * q[n, head, row]
            if p != 0:
                out["dv"][n, of_v, col] += p * do[n, head, row]
            if "dbias" in out:
                out["dbias"][place(out["dbias"])] += rows.evaluate(to_bias, values)
    return out


LOOPS = dict(sdpa_bwd=sdpa_bwd)
