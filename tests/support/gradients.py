"""The forward operation behind each backward one, in float64, with inputs drawn for it: what its gradients
are the differences of (tests/ops/test_gradients.py), and what an engine that computes them is given
(support/adjoint.py)."""
from __future__ import annotations

from typing import Callable, NamedTuple

import numpy as np

from cydnn import ops
from cydnn.ops import philox
from cydnn.ops.pointwise import MODES

BACKWARD = [m for m in MODES if m.endswith("_bwd")]
SLOPES = dict(relu_lower_clip_slope=0.1, elu_alpha=0.7, softplus_beta=1.3, swish_beta=0.8)    # of pointwise
STEPS, AGREE = (1e-6, 1e-7, 1e-8), 1e-6          # of differences; of the sum of what they add up
EPSILON = 0.1                                    # of batch norm


class Setting(NamedTuple):
    """``forward``: {input: array} -> {output: array}. ``inputs`` may be changed. ``gradients``: {input: name
    of its gradient}. ``backward``: (outputs, gradients of outputs) -> {gradient: array}. ``reads``: of the
    same two, what the backward operation reads beside inputs, outputs and their gradients ``d<output>``."""
    forward: Callable
    inputs: dict
    gradients: dict
    backward: Callable
    reads: Callable = lambda out, d: {}


def facts(op):
    return {name: getattr(op, name) for name in op.attributes()}


def shapes_of(problem) -> dict:
    return {n: d.dims for n, d in problem.operands.items() if d is not None}


def apart(gen, dims):
    """Random numbers of which no two are near each other, nor near 0."""
    count = int(np.prod(dims))
    return (gen.permutation(count).reshape(dims) - (count // 2 - 0.5)) * (4.0 / max(count, 1))


def conv(problem, gen):
    op, names = problem.op, problem.op.parts
    dims = {part: problem.operands[name].dims for part, name in zip("xwy", names)}
    forward = lambda v: ops.ConvFprop(**facts(op)).reference(v["x"], v["w"])
    inputs = {n: gen.normal(size=dims[n]) for n in "xw"}
    if isinstance(op, ops.ConvDgrad):
        return Setting(forward, inputs, dict(x="dx"),
                       lambda out, d: op.reference(d["y"], inputs["w"], dict(dx=dims["x"])))
    return Setting(forward, inputs, dict(w="dw"),
                   lambda out, d: op.reference(inputs["x"], d["y"], dict(dw=dims["w"])))


def bgrad(problem, gen):
    dims = shapes_of(problem)
    forward = lambda v: dict(y=np.zeros(dims["dy"]) + v["b"])
    return Setting(forward, dict(b=gen.normal(size=dims["db"])), dict(b="db"),
                   lambda out, d: problem.op.reference(d["y"]))


def softmax(problem, gen):
    forward = lambda v: dict(y=ops.SoftmaxFwd(**facts(problem.op)).reference(v["x"])["y"])
    return Setting(forward, dict(x=gen.normal(size=problem.operands["y"].dims)), dict(x="dx"),
                   lambda out, d: problem.op.reference(out["y"], d["y"]))


def pooling(problem, gen):
    inputs = dict(x=apart(gen, problem.operands["x"].dims))
    forward = ops.PoolingFwd(**facts(problem.op))
    return Setting(lambda v: _finite(forward.reference(v["x"])), inputs, dict(x="dx"),
                   lambda out, d: problem.op.reference(out["y"], d["y"], inputs["x"]))


def _finite(found):
    """A window wholly in the padding has the lowest number of all: it does not move."""
    return {n: np.where(np.abs(v) > 1e300, 0.0, v) for n, v in found.items()}


def batch_norm(problem, gen):
    op, dims = problem.op, shapes_of(problem)
    inputs = dict(x=gen.normal(size=dims["x"]), scale=gen.uniform(0.5, 2, dims["scale"]),
                  bias=gen.normal(size=dims["scale"]))
    forward = lambda v: dict(y=ops.BatchNormTraining(**facts(op)).reference(
        v["x"], v["scale"], v["bias"], None, None, EPSILON, 1.0)["y"])

    def saved():
        whole = ops.BatchNormTraining(**facts(op)).reference(*inputs.values(), None, None, EPSILON, 1.0)
        return [whole[n] if "mean" in dims else None for n in ("mean", "rstd")]
    return Setting(forward, inputs, dict(x="dx", scale="dscale", bias="dbias"),
                   lambda out, d: op.reference(inputs["x"], d["y"], inputs["scale"], *saved(), EPSILON),
                   lambda out, d: dict(zip(("mean", "rstd"), saved())))


def lrn(problem, gen):
    inputs = dict(x=gen.normal(size=problem.operands["x"].dims))
    return Setting(lambda v: ops.LrnFwd(**facts(problem.op)).reference(v["x"]), inputs, dict(x="dx"),
                   lambda out, d: problem.op.reference(inputs["x"], d["y"]))


def divisive_norm(problem, gen):
    op, dims = problem.op, shapes_of(problem)
    inputs = {n: gen.normal(size=dims["x"]) for n in ("x", *(["means"] if "means" in dims else []))}
    wanted = dict(dx=dims["x"], **(dict(dmeans=dims["x"]) if "means" in dims else {}))
    return Setting(lambda v: ops.DivisiveNormFwd(**facts(op)).reference(v["x"], v.get("means")), inputs,
                   {n: f"d{n}" for n in inputs},
                   lambda out, d: op.reference(inputs["x"], inputs.get("means"), d["y"], wanted))


def dropout(problem, gen):
    op, dims, states = problem.op, shapes_of(problem), philox.seeded(5)
    forward = lambda v: ops.DropoutFwd(p=op.p).reference(v["x"], states, dict(y=dims["dy"]))
    mask = forward(dict(x=np.zeros(dims["dx"])))["mask"]
    return Setting(lambda v: dict(y=forward(v)["y"]), dict(x=gen.normal(size=dims["dx"])), dict(x="dx"),
                   lambda out, d: op.reference(d["y"], mask, dims), lambda out, d: dict(mask=mask))


def grid(problem, gen):
    dims = shapes_of(problem)
    return Setting(lambda v: ops.SpatialGridFwd().reference(v["theta"], dict(grid=dims["dgrid"])),
                   dict(theta=gen.normal(size=dims["dtheta"])), dict(theta="dtheta"),
                   lambda out, d: problem.op.reference(d["grid"]))


def sampler(problem, gen):
    """Points lie inside of cells: at the border of one the slope jumps."""
    dims = shapes_of(problem)
    sizes = np.array(dims["x"][:1:-1])
    at = gen.integers(-2, sizes + 1, dims["grid"]) + gen.uniform(0.1, 0.9, dims["grid"])
    inputs = dict(x=gen.normal(size=dims["x"]), grid=2 * at / np.maximum(sizes - 1, 1) - 1)
    return Setting(lambda v: ops.SpatialSamplerFwd().reference(v["x"], v["grid"]), inputs,
                   dict(x="dx", grid="dgrid"),
                   lambda out, d: problem.op.reference(inputs["x"], d["y"], inputs["grid"]))


def pointwise(problem, gen):
    """A backward mode; a drawn one in place of another."""
    mode = problem.op.mode if problem.op.mode in BACKWARD else BACKWARD[gen.integers(len(BACKWARD))]
    own = {**facts(problem.op), **SLOPES}
    forward, op = (ops.Pointwise(**{**own, "mode": m}) for m in (mode.replace("_bwd", "_fwd"), mode))
    x = apart(gen, problem.operands["y"].dims)
    x[np.abs(x - 0.75) < 1e-3] += 0.01           # where ReLU is cut
    inputs = dict(b=x)                           # of the forward mode; the backward one reads it second
    return Setting(lambda v: forward.reference(v["b"], None, None, 1.0, 1.0), inputs, dict(b="y"),
                   lambda out, d: op.reference(d["y"], inputs["b"], None, 1.0, 1.0),
                   lambda out, d: dict(x=d["y"]))


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

    def reads(out, d):
        old = whole(inputs) if isinstance(op, ops.RnnBwdData) else backward(out, d)
        return dict(reserve=old["reserve"], dw=np.zeros_like(inputs["w"]))
    return Setting(lambda v: {n: g for n, g in whole(v).items() if n in ends}, inputs,
                   {n: f"d{n}" for n in inputs}, backward, reads)


SETTINGS = {ops.ConvDgrad: conv, ops.ConvWgrad: conv, ops.ConvBgrad: bgrad, ops.SoftmaxBwd: softmax,
            ops.PoolingBwd: pooling, ops.BatchNormBwd: batch_norm, ops.LrnBwd: lrn,
            ops.DivisiveNormBwd: divisive_norm, ops.DropoutBwd: dropout, ops.SpatialGridBwd: grid,
            ops.SpatialSamplerBwd: sampler, ops.Pointwise: pointwise, ops.RnnBwdData: rnn,
            ops.RnnBwdWeights: rnn}


def slope(setting, d, way, out) -> list:
    """The terms of the slope of sum(d * outputs) along a way of inputs: central differences, of the first
    step with which a tenth of it agrees. Deep networks are bent within a millionth."""
    found = differences(setting, d, way, out, STEPS[0])
    for step in STEPS[1:]:
        shorter = differences(setting, d, way, out, step)
        size = sum(np.abs(t).sum() for t in found)
        if abs(sum(t.sum() for t in found) - sum(t.sum() for t in shorter)) <= AGREE * size:
            break
        found = shorter
    return found


def differences(setting, d, way, out, step: float) -> list:
    ahead, behind = (setting.forward({n: v + sign * way[n] if n in way else v
                                      for n, v in setting.inputs.items()}) for sign in (step, -step))
    return [d[n] * (ahead[n] - behind[n]) / (2 * step) for n in out]
