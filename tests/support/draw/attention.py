"""Random attention."""
from __future__ import annotations

from cydnn import ops
from cydnn.ops.problem import Problem
from cydnn.tensor import TensorDesc

from .tensors import FLOATS, tensor, types

F8 = ("f8_e4m3", "f8_e5m2")
FACTORS = ("", "", "", "mul(e0,#0.5)", "cmp_lt(col,row)")
SCORES = ("", "mul(s,#0.5)", "mul(s,#0.1);tanh_fwd(n0);mul(n1,#10.0)",
          "sub(col,row);mul(n0,#-0.25);add(s,n1);add(n2,head)", "cmp_gt(col,row);binary_select(#-inf,s,n0)",
          "add(s,e0)", "abs(e0)", "neg(e0);exp(n0);sub(col,row);mul(n1,n2);add(s,n3);mul(n4,#0.1);add(n5,e1)")


def _sdpa_of_rows(op_class, rng):
    """Heads whose elements lie side by side, in whole lines of 16 bytes, and plain scores."""
    dtype, b = rng.choice(["f16", "bf16"]), rng.randint(1, 3)
    s_q, s_kv = rng.randint(1, 150), rng.randint(1, 200)
    h_k, group = rng.randint(1, 2), rng.randint(1, 3)
    d_qk, d_v = 8 * rng.randint(1, 32), 8 * rng.randint(1, 16)
    dims = dict(q=(b, h_k * group, s_q, d_qk), k=(b, h_k, s_kv, d_qk), v=(b, 1, s_kv, d_v),
                o=(b, h_k * group, s_q, d_v))
    found = {n: TensorDesc.packed(dtype, d) for n, d in dims.items()}
    found["k"] = TensorDesc(dtype, (b, h_k, d_qk, s_kv), (h_k * s_kv * d_qk, s_kv * d_qk, 1, d_qk))
    lens = {n: TensorDesc.packed("i32", (b, 1, 1, 1)) for n in ("len_q", "len_kv") if rng.random() < 0.3}
    kept = {"stats": TensorDesc.packed("f32", (b, h_k * group, s_q, 1))} if rng.random() < 0.6 else {}
    bounds = dict(left=rng.choice([0, 0, 30]), right=rng.choice([-1, 0, 0, 3]))
    return Problem(op_class(diagonal=rng.choice(["top_left", "bottom_right"]), **bounds), found | lens | kept)


def _sdpa_of_8_bits(op_class, rng):
    """The same of 8 bits, o perhaps of 16."""
    p, kind = _sdpa_of_rows(op_class, rng), rng.choice(F8)
    (b, h, s_q, _), h_k, s_kv = p.operands["q"].dims, p.operands["k"].dims[1], p.operands["v"].dims[2]
    d_qk, d_v = (16 * rng.randint(1, 8) for _ in range(2))
    k = TensorDesc(kind, (b, h_k, d_qk, s_kv), (h_k * s_kv * d_qk, s_kv * d_qk, 1, d_qk))
    q, v = TensorDesc.packed(kind, (b, h, s_q, d_qk)), TensorDesc.packed(kind, (b, 1, s_kv, d_v))
    o = TensorDesc.packed(rng.choice([*F8, "f16", "bf16"]), (b, h, s_q, d_v))
    return Problem(p.op, p.tensors | dict(q=q, k=k, v=v, o=o))


def sdpa(op_class, rng):
    if (one := rng.random()) < 0.3:              # what tensor cores take
        return (_sdpa_of_8_bits if one < 0.1 else _sdpa_of_rows)(op_class, rng)
    dtype, compute = types(rng)
    b, h, s_q, s_kv = rng.randint(1, 3), rng.choice([1, 2, 4, 6]), rng.randint(1, 40), rng.randint(1, 80)
    d_qk, d_v = (rng.choice([1, 3, 8, 16, 64]) for _ in range(2))
    h_k, h_v = (rng.choice([n for n in (1, 2, h) if h % n == 0]) for _ in range(2))
    op = op_class(score=rng.choice(SCORES), left=rng.choice([0, 0, 0, 1, 5]),
                  right=rng.choice([-1, -1, 0, 3]), compute=compute, drop=rng.choice([0, 0, 0, 0.1, 0.5]),
                  keep=rng.choice(FACTORS),
                  diagonal=rng.choice(["top_left", "bottom_right"]))
    wide = "f64" if dtype == "f64" else "f32"
    lens = {n: TensorDesc.packed("i32", (b, 1, 1, 1)) for n in ("len_q", "len_kv") if rng.random() < 0.3}
    dims = dict(q=(b, h, s_q, d_qk), k=(b, h_k, d_qk, s_kv), v=(b, h_v, s_kv, d_v), o=(b, h, s_q, d_v))
    found = {n: tensor(rng, dtype, d, None) for n, d in dims.items()}
    kept = {n: TensorDesc.packed(wide, (b, h, s_q, 1)) for n, share in
            (("stats", 0.4), ("score_max", 0.1), ("score_sum_exp", 0.1)) if rng.random() < share}
    kept |= {"sink": TensorDesc.packed(wide, (1, h, 1, 1))} if rng.random() < 0.2 else {}
    extras = tuple([tensor(rng, rng.choice(FLOATS), tuple(rng.choice([1, n]) for n in (b, h, s_q, s_kv)))
                    for _ in range(op.tensors_read)])
    kept |= {"blocks": TensorDesc.packed("u8", (rng.choice([1, b]), h, 1, 1))} if rng.random() < 0.1 else {}
    return Problem(op, {**found, **lens, **kept, "extras": extras or None})


def _sdpa_bwd_of_rows(op_class, rng):
    """What tensor cores take: as many heads of keys as of values."""
    p = _sdpa_of_rows(ops.Sdpa, rng)
    (b, h, s_q, d_qk), k, d_v = p.operands["q"].dims, p.operands["k"], p.operands["v"].dims[3]
    h_k = k.dims[1]
    k = TensorDesc(k.dtype, (b, h_k, d_qk, k.dims[3]), (h_k * k.dims[3] * d_qk, k.dims[3] * d_qk, 1, d_qk))
    q, o = (TensorDesc.packed(k.dtype, (b, h, s_q, d)) for d in (d_qk, d_v))
    v = TensorDesc.packed(k.dtype, (b, h_k, k.dims[3], d_v))
    op = op_class(left=p.op.left, right=p.op.right, diagonal=p.op.diagonal)
    found = dict(q=q, k=k, v=v, o=o, do=o, dq=q, dk=k, dv=v, stats=TensorDesc.packed("f32", (b, h, s_q, 1)))
    return Problem(op, found)


def _sdpa_bwd_of_8_bits(op_class, rng):
    """The same of 8 bits, the gradients in f32."""
    p, d_qk = _sdpa_bwd_of_rows(op_class, rng), 16 * rng.randint(1, 8)
    (b, h, s_q, d_v), (h_k, s_kv) = p.operands["o"].dims, p.operands["v"].dims[1:3]
    d_v = min(-(-d_v // 16) * 16, 128)
    keys = lambda kind: TensorDesc(kind, (b, h_k, d_qk, s_kv), (h_k * s_kv * d_qk, s_kv * d_qk, 1, d_qk))
    dims = dict(q=(b, h, s_q, d_qk), v=(b, h_k, s_kv, d_v), o=(b, h, s_q, d_v), do=(b, h, s_q, d_v))
    found = {name: TensorDesc.packed(rng.choice(F8), d) for name, d in dims.items()}
    made = {f"d{name}": TensorDesc.packed("f32", dims[name]) for name in "qv"}
    return Problem(p.op, p.tensors | found | made | dict(k=keys(rng.choice(F8)), dk=keys("f32")))


def sdpa_bwd(op_class, rng):
    """Short rows and scores that do not grow: weights are above 1 where the statistics are not their own."""
    if (one := rng.random()) < 0.25:
        return (_sdpa_bwd_of_8_bits if one < 0.07 else _sdpa_bwd_of_rows)(op_class, rng)
    p = sdpa(ops.Sdpa, rng)
    while p.operands["q"].dims[3] > 16 or any(row.mode == "exp" for row, _ in p.op.score):
        p = sdpa(ops.Sdpa, rng)
    own = {name: getattr(p.op, name)
           for name in ("score", "keep", "drop", "left", "right", "diagonal", "compute")}
    op = op_class(**own, dbias_of=0 if p.operands["extras"] and rng.random() < 0.7 else -1)
    found = {n: p.operands[n] for n in ("q", "k", "v", "o", "len_q", "len_kv", "sink", "extras")}
    wide = "f64" if found["q"].dtype.name == "f64" else "f32"
    made = {n: tensor(rng, found["q"].dtype.name, d.dims, None) for n, d in
            dict(do=found["o"], dq=found["q"], dk=found["k"], dv=found["v"]).items()}
    stats = TensorDesc.packed(wide, (*found["q"].dims[:3], 1))
    dims = tuple(rng.choice([1, n]) for n in op.space(found["q"], found["k"]))
    dbias = {"dbias": tensor(rng, wide, dims)} if op.dbias_of >= 0 else {}
    dsink = {"dsink": found["sink"]} if found["sink"] else {}
    dsink |= {"peak": stats} if rng.random() < 0.2 else {}
    return Problem(op, {**found, **made, **dbias, **dsink, "stats": stats})


# ---- As the tests of one engine draw them, in words of a problem line ----

def strided(rng, kind, dims, inner, unit=8) -> str:
    """A tensor: the dims ``inner`` innermost in lines of ``unit`` elements, the others in any order, some
    with gaps."""
    step, strides, inner = 1, [0] * 4, inner if isinstance(inner, tuple) else (inner,)
    for axis in (*inner, *rng.sample([a for a in range(4) if a not in inner], 4 - len(inner))):
        strides[axis] = step
        step = -(-step * dims[axis] // unit) * unit + unit * rng.choice([0, 0, 1])
    return f"{'x'.join(map(str, dims))}:{kind}@{','.join(map(str, strides))}"


def length(rng, most) -> int:
    """Of queries or keys: 1, some, or a tile and more."""
    return rng.choice([1, rng.randint(1, most[0]), rng.randint(60, most[1]), most[2]])


def band(rng, right=0.6, bottom=0.4) -> dict:
    """Which keys a query sees. ``right``, ``bottom``: the share of bounds, and of diagonals that end at the
    last key."""
    found = dict(right=rng.choice([0, 0, 3, 100])) if rng.random() < right else {}
    found |= dict(left=rng.choice([1, 20, 150])) if rng.random() < 0.3 else {}
    return found | (dict(diagonal="bottom_right") if rng.random() < bottom else {})


def lengths(rng, batches) -> dict:
    """Lengths of the batches, now and then."""
    return {name: f"{batches}x1x1x1:i32" for name in ("len_q", "len_kv") if rng.random() < 0.3}


def worded(op: str, words: dict) -> Problem:
    """The problem of its words."""
    return Problem.parse(f"{op} " + " ".join(f"{name}={value}" for name, value in words.items()))
