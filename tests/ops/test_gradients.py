"""Every backward operation against central differences of its forward one, in float64: the gradient of
sum(dy * y) along a random direction of all inputs at once. Random shapes and attributes (support/draw.py),
at least 100 for each operation; what is linear keeps <dy, J x> = <Jt dy, x> thereby.

``CYDNN_SHAPES`` shapes for each (default 100).
"""
from __future__ import annotations

import os
import random
import zlib

import numpy as np
import pytest

from cydnn import ops
from cydnn.ops import philox
from cydnn.ops.pointwise import MODES
from support.draw import draw

SHAPES, STEP, MOST = int(os.environ.get("CYDNN_SHAPES", 100)), 1e-6, 1e-8    # seen: 2e-10
ELEMENTS, FLOPS = 1500, 1e5                      # of a problem at most
BACKWARD = [m for m in MODES if m.endswith("_bwd")]


def facts(op):
    return {name: getattr(op, name) for name in op.attributes()}


def shapes_of(problem) -> dict:
    return {n: d.dims for n, d in problem.operands.items() if d is not None}


def apart(gen, dims):
    """Random numbers of which no two are near each other, nor near 0."""
    count = int(np.prod(dims))
    return (gen.permutation(count).reshape(dims) - (count // 2 - 0.5)) * (4.0 / max(count, 1))


# Each gives (forward: {input: array} -> {output: array}, inputs, {input: name of its gradient},
#             backward: (outputs, gradients of outputs) -> {gradient: array}).

def conv(problem, gen):
    op, names = problem.op, problem.op.parts
    dims = {part: problem.operands[name].dims for part, name in zip("xwy", names)}
    forward = lambda v: ops.ConvFprop(**facts(op)).reference(v["x"], v["w"])
    inputs = {n: gen.normal(size=dims[n]) for n in "xw"}
    if isinstance(op, ops.ConvDgrad):
        return forward, inputs, dict(x="dx"), lambda out, d: op.reference(d["y"], inputs["w"],
                                                                         dict(dx=dims["x"]))
    return forward, inputs, dict(w="dw"), lambda out, d: op.reference(inputs["x"], d["y"],
                                                                     dict(dw=dims["w"]))


def bgrad(problem, gen):
    dims = shapes_of(problem)
    forward = lambda v: dict(y=np.zeros(dims["dy"]) + v["b"])
    return (forward, dict(b=gen.normal(size=dims["db"])), dict(b="db"),
            lambda out, d: problem.op.reference(d["y"]))


def softmax(problem, gen):
    forward = lambda v: ops.SoftmaxFwd(**facts(problem.op)).reference(v["x"])
    return (forward, dict(x=gen.normal(size=problem.operands["y"].dims)), dict(x="dx"),
            lambda out, d: problem.op.reference(out["y"], d["y"]))


def pooling(problem, gen):
    inputs = dict(x=apart(gen, problem.operands["x"].dims))
    return (lambda v: _finite(ops.PoolingFwd(**facts(problem.op)).reference(v["x"])), inputs, dict(x="dx"),
            lambda out, d: problem.op.reference(out["y"], d["y"], inputs["x"]))


def _finite(found):
    """A window wholly in the padding has the lowest number of all: it does not move."""
    return {n: np.where(np.abs(v) > 1e300, 0.0, v) for n, v in found.items()}


def batch_norm(problem, gen):
    op, dims = problem.op, shapes_of(problem)
    inputs = dict(x=gen.normal(size=dims["x"]), scale=gen.uniform(0.5, 2, dims["scale"]),
                  bias=gen.normal(size=dims["scale"]))
    forward = lambda v: dict(y=ops.BatchNormTraining(**facts(op)).reference(
        v["x"], v["scale"], v["bias"], None, None, 0.1, 1.0)["y"])
    whole = ops.BatchNormTraining(**facts(op)).reference(*inputs.values(), None, None, 0.1, 1.0)
    saved = (whole["mean"], whole["rstd"]) if "mean" in dims else (None, None)
    return (forward, inputs, dict(x="dx", scale="dscale", bias="dbias"),
            lambda out, d: op.reference(inputs["x"], d["y"], inputs["scale"], *saved, 0.1))


def lrn(problem, gen):
    inputs = dict(x=gen.normal(size=problem.operands["x"].dims))
    return (lambda v: ops.LrnFwd(**facts(problem.op)).reference(v["x"]), inputs, dict(x="dx"),
            lambda out, d: problem.op.reference(inputs["x"], d["y"]))


def divisive_norm(problem, gen):
    op, dims = problem.op, shapes_of(problem)
    inputs = {n: gen.normal(size=dims["x"]) for n in ("x", *(["means"] if "means" in dims else []))}
    wanted = dict(dx=dims["x"], **(dict(dmeans=dims["x"]) if "means" in dims else {}))
    return (lambda v: ops.DivisiveNormFwd(**facts(op)).reference(v["x"], v.get("means")), inputs,
            {n: f"d{n}" for n in inputs},
            lambda out, d: op.reference(inputs["x"], inputs.get("means"), d["y"], wanted))


def dropout(problem, gen):
    op, dims, states = problem.op, shapes_of(problem), philox.seeded(5)
    forward = lambda v: ops.DropoutFwd(p=op.p).reference(v["x"], states, dict(y=dims["dy"]))
    return (lambda v: dict(y=forward(v)["y"]), dict(x=gen.normal(size=dims["dx"])), dict(x="dx"),
            lambda out, d: op.reference(d["y"], forward(dict(x=np.zeros(dims["dx"])))["mask"], dims))


def grid(problem, gen):
    dims = shapes_of(problem)
    return (lambda v: ops.SpatialGridFwd().reference(v["theta"], dict(grid=dims["dgrid"])),
            dict(theta=gen.normal(size=dims["dtheta"])), dict(theta="dtheta"),
            lambda out, d: problem.op.reference(d["grid"]))


def sampler(problem, gen):
    """Points lie inside of cells: at the border of one the slope jumps."""
    dims = shapes_of(problem)
    sizes = np.array(dims["x"][:1:-1])
    at = gen.integers(-2, sizes + 1, dims["grid"]) + gen.uniform(0.1, 0.9, dims["grid"])
    inputs = dict(x=gen.normal(size=dims["x"]), grid=2 * at / np.maximum(sizes - 1, 1) - 1)
    return (lambda v: ops.SpatialSamplerFwd().reference(v["x"], v["grid"]), inputs,
            dict(x="dx", grid="dgrid"),
            lambda out, d: problem.op.reference(inputs["x"], d["y"], inputs["grid"]))


def pointwise(problem, gen):
    """A backward mode in place of the one that was drawn."""
    mode = BACKWARD[gen.integers(len(BACKWARD))]
    own = dict(facts(problem.op), relu_lower_clip_slope=0.1, elu_alpha=0.7, softplus_beta=1.3, swish_beta=0.8)
    forward, op = (ops.Pointwise(**{**own, "mode": m}) for m in (mode.replace("_bwd", "_fwd"), mode))
    x = apart(gen, problem.operands["y"].dims)
    x[np.abs(x - 0.75) < 1e-3] += 0.01           # where ReLU is cut
    return (lambda v: forward.reference(v["x"], None, None, 1.0, 1.0), dict(x=x), dict(x="y"),
            lambda out, d: op.reference(d["y"], x, None, 1.0, 1.0))


def rnn(problem, gen):
    """Of data and of weights: the second reads what the first leaves."""
    own, op = {**facts(problem.op), "compute": "f64", "dropout": 0.0}, problem.op
    x = gen.normal(size=problem.operands["x" if "x" in problem.operands else "dx"].dims)
    passes = [kind(**own) for kind in (ops.RnnFwd, ops.RnnBwdData, ops.RnnBwdWeights)]
    states = ("hx", "cx") if op.cell == "lstm" else ("hx",)
    inputs = dict(x=x, w=0.6 * gen.normal(size=op.blob(x.shape[1]).count),
                  **{n: 0.6 * gen.normal(size=op.state_dims) for n in states})
    reserve = np.zeros(passes[0].reserve.count)
    whole = lambda v: passes[0].evaluate({**v, "reserve": reserve}, {})
    ends = ("y", "hy", "cy") if op.cell == "lstm" else ("y", "hy")

    def backward(out, d):
        given = {**inputs, **{f"d{n}": g for n, g in d.items()}, **whole(inputs)}
        data = passes[1].evaluate(given, {})
        return {**data, **passes[2].evaluate({**given, "reserve": data["reserve"],
                                              "dw": np.zeros_like(inputs["w"])}, {})}
    return (lambda v: {n: whole(v)[n] for n in ends}, inputs, {n: f"d{n}" for n in inputs}, backward)


SETTINGS = {ops.ConvDgrad: conv, ops.ConvWgrad: conv, ops.ConvBgrad: bgrad, ops.SoftmaxBwd: softmax,
            ops.PoolingBwd: pooling, ops.BatchNormBwd: batch_norm, ops.LrnBwd: lrn,
            ops.DivisiveNormBwd: divisive_norm, ops.DropoutBwd: dropout, ops.SpatialGridBwd: grid,
            ops.SpatialSamplerBwd: sampler, ops.Pointwise: pointwise, ops.RnnBwdData: rnn,
            ops.RnnBwdWeights: rnn}


def small(op_class, rng):
    while True:
        problem = draw(op_class, rng)
        if (problem.flops <= FLOPS and 0 < max(d.count for d in problem.descs) <= ELEMENTS
                and problem.op.terms(**problem.operands) <= ELEMENTS and problem.op.compute != "i32"):
            return problem


def error(problem, seed, change=lambda found: found) -> float:
    """Of the slope along a random direction, in the sum of absolute values behind it. ``change``: of the
    gradients."""
    gen = np.random.default_rng(seed)
    forward, inputs, gradients, backward = SETTINGS[type(problem.op)](problem, gen)
    with np.errstate(all="ignore"):
        out = forward(inputs)
        d = {n: gen.normal(size=v.shape) for n, v in out.items()}
        way = {n: gen.normal(size=inputs[n].shape) for n in gradients}
        ahead, behind = (forward({n: v + sign * way[n] if n in way else v for n, v in inputs.items()})
                         for sign in (STEP, -STEP))
        found = change(backward(out, d))
    terms = [d[n] * (ahead[n] - behind[n]) / (2 * STEP) for n in out]
    mine = [found[gradients[n]] * way[n] for n in way]
    size = sum(np.abs(t).sum() for t in (*terms, *mine)) + 1e-3
    return abs(sum(t.sum() for t in terms) - sum(t.sum() for t in mine)) / size


def problems(op_class, count):
    rng = random.Random(zlib.crc32(op_class.name.encode()))
    return [(small(op_class, rng), rng.randrange(2 ** 31)) for _ in range(count)]


@pytest.mark.parametrize("op", SETTINGS, ids=lambda o: o.name)
def test_gradients_are_the_differences(op):
    wrong = [f"{p} seed={seed}: {e:.2g}" for p, seed in problems(op, SHAPES)
             if not (e := error(p, seed)) < MOST]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("op", SETTINGS, ids=lambda o: o.name)
def test_a_wrong_element_shows(op):
    """One element of a gradient is another."""
    def fault(found):
        name = next(n for n in found if n.startswith("d") or n == "y")
        value = np.array(found[name])
        value.flat[value.size // 2] += 0.01 * (1 + np.abs(value).max())
        return {**found, name: value}
    assert all(error(p, seed, fault) > MOST for p, seed in problems(op, 8))


def test_every_backward_operation_is_here():
    assert {op for op in ops.OPS if "bwd" in op.name or op.name.endswith("grad")} <= set(SETTINGS)
