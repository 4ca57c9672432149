"""Anchors of random graphs (dags.py): norms, resampling, what moves elements, rotary embedding, random
numbers. Each adds a node and gives the uids of its results."""
from __future__ import annotations

from cydnn import ops
from cydnn.ops.norm import MODES

TYPES = ("f16", "bf16", "f32")
INEXACT = (ops.NormFwd, ops.NormBwd, ops.ResampleFwd, ops.Rope, ops.Rng)


def _image(dag, unit=1) -> tuple:
    rng = dag.rng
    return rng.randint(1, 3), dag.size(1, 3, unit), rng.randint(2, 6), 8 * rng.randint(1, 4)


def _norm(dag, op_class):
    rng, dims, dtype = dag.rng, _image(dag), dag.rng.choice(TYPES)
    op = op_class(mode=rng.choice(MODES), axis=rng.choice([1, 2, 3]))
    skip = {n for n in sorted(op.optional) if rng.random() < 0.3}
    skip |= {"mean"} if op.mode == "rms" else set()
    if op_class is ops.NormBwd:                  # mean is nothing without rstd, dscale without scale
        skip = skip - {"mean"} | ({"mean"} if op.mode == "rms" or "rstd" in skip else set())
        skip |= {"dscale"} if "scale" in skip else set()
    thin, operands = dict.fromkeys(("mean", "rstd"), op.thin(dims)), {}
    for name in [n for n in op.operands() if n not in skip]:
        if name in ("x", "dy"):
            operands[name] = dag.before(dtype, dims)
        elif name in ("y", "dx"):
            operands[name] = dag.add(dag.middle(), dims, "virtual")
        else:
            operands[name] = dag.add("f32", thin.get(name, op.parameter_dims(dims)), layout="nchw",
                                     name="positive" if name == "rstd" else "")
    dag.node(op, operands)
    return [operands[op.writes[0]]]


def _resample(dag, op_class):
    rng, (n, c, h, w) = dag.rng, _image(dag, dag.rng.choice([1, 8]))
    dims = n, c, h + 1, w
    mode = rng.choice(["max", "bilinear", "nearest", "avg_include_padding"])
    op = op_class(mode=mode, window={"bilinear": 2, "nearest": 1}.get(mode, rng.choice([2, 3])),
                  stride=rng.choice([1, 2]), pre_pad=rng.choice([0, 1]), post_pad=rng.choice([0, 1]),
                  denominator=rng.choice([1, 1, 2]), padding=rng.choice(["zero", "edge"]))
    layout = rng.choice(["nchw", "nhwc"])
    y = dag.add(dag.middle(), op.out_dims(dims), "virtual", layout)
    dag.node(op, dict(x=dag.add(rng.choice(TYPES), dims, layout=layout), y=y))
    return [y]


def _slice(dag, op_class):
    dims, dtype = _image(dag), dag.rng.choice(TYPES)
    start = [dag.rng.choice([0, 0, dag.rng.randrange(d)]) for d in dims]
    op = op_class(start=start, stop=dims, step=[dag.rng.choice([1, 1, 2]) for _ in dims])
    x = dag.before(dtype, dims)
    y = dag.add(dag.tensors[x].dtype.name, op.infer(dag.tensors[x].desc)["y"].dims, "virtual")
    dag.node(op, dict(x=x, y=y))
    return [y]


def _concatenate(dag, op_class):
    rng, dims, dtype = dag.rng, _image(dag), dag.rng.choice(TYPES)
    op = op_class(axis=rng.randrange(4))
    inputs = tuple(dag.add(dtype, (*dims[:op.axis], rng.randint(1, 9), *dims[op.axis + 1:]))
                   for _ in range(rng.randint(2, 3)))
    descs = tuple(dag.tensors[u].desc for u in inputs)
    y = dag.add(dtype, op.infer(descs)["y"].dims, "virtual")
    dag.node(op, dict(inputs=inputs, y=y))
    return [y]


def _rope(dag, op_class):
    rng, dims = dag.rng, _image(dag)
    turns = (1, 1, dims[2], rng.choice([dims[3] // 2, rng.randint(1, dims[3] // 2)]))
    op = op_class(pairing=rng.choice(["half", "interleaved"]), inverse=rng.random() < 0.3)
    y = dag.add(dag.middle(), dims, "virtual")
    dag.node(op, dict(x=dag.before(rng.choice(TYPES), dims), cos=dag.add("f32", turns, layout="nchw"),
                      sin=dag.add("f32", turns, layout="nchw"), y=y))
    return [y]


def _rng(dag, op_class):
    op = op_class(distribution=dag.rng.choice(["bernoulli", "uniform", "normal"]))
    y = dag.add("f32", _image(dag), "virtual")
    dag.node(op, dict(y=y), seed=dag.rng.randrange(1 << 30))
    return [y]


FAMILIES = {ops.NormFwd: _norm, ops.NormBwd: _norm, ops.ResampleFwd: _resample, ops.Slice: _slice,
            ops.Concatenate: _concatenate, ops.Rope: _rope, ops.Rng: _rng}
