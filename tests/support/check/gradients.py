"""The forward operation behind each backward one (``Op.gradients``), in float64, with inputs drawn for it:
what its gradients are the differences of (tests/ops/test_gradients.py), and what an engine that computes them
is given (support/check/adjoint.py)."""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from cydnn import ops
from cydnn.ops import Gradient, Problem, philox
from cydnn.ops.pointwise import MODES
from cydnn.tensor import TensorDesc

BACKWARD = [m for m in MODES if m.endswith("_bwd")]
SLOPES = dict(relu_lower_clip_slope=0.1, elu_alpha=0.7, softplus_beta=1.3, swish_beta=0.8)    # of pointwise
STEPS, AGREE = (1e-6, 1e-7, 1e-8), 1e-6          # of differences; of the sum of what they add up
EPSILON = 0.1                                    # of batch norm
FORWARD = {kind: forward for forward in ops.OPS for kind in forward.backward}
OPS = (*FORWARD, ops.ConvBgrad, ops.Pointwise)   # that compute gradients


def pair(op) -> tuple:
    """(the forward operation of a backward one, its gradients)"""
    if isinstance(op, ops.ConvBgrad):            # one form of the sum over what a bias is broadcast along
        return ops.Pointwise(mode="add", compute=op.compute), dict(b=Gradient(op, "db", dict(dy="dy")))
    own = {name: getattr(op, name) for name in op.attributes()}
    if isinstance(op, ops.Pointwise):
        own["mode"] = op.mode.replace("_bwd", "_fwd")
    kind = FORWARD.get(type(op), type(op))
    first = kind(**{name: value for name, value in own.items() if name in kind.attributes()})
    return first, first.gradients


def of_backward(problem, mode):
    """The problem of a backward operation; of a pointwise one in this mode."""
    if problem.op.name != "pointwise":
        return problem
    x, y = problem.operands["x"], problem.operands["y"]
    x = x if x.dims == y.dims else y
    return Problem(replace(problem.op, mode=mode, **SLOPES), dict(x=x, b=x, y=y), problem.alignment)


def _apart(gen, name, dims):
    """Random numbers of which no two are near each other, nor near 0."""
    count = int(np.prod(dims[name]))
    return (gen.permutation(count).reshape(dims[name]) - (count // 2 - 0.5)) * (4.0 / max(count, 1))


def _uncut(gen, name, dims):
    """The same, but not where ReLU is cut."""
    x = _apart(gen, name, dims)
    return x + 0.01 * (np.abs(x - 0.75) < 1e-3)


def _inside(gen, name, dims):
    """Points inside of cells: at the border of one the slope jumps."""
    sizes = np.array(dims["x"][:1:-1])
    at = gen.integers(-2, sizes + 1, dims[name]) + gen.uniform(0.1, 0.9, dims[name])
    return 2 * at / np.maximum(sizes - 1, 1) - 1


def _normal(gen, name, dims):
    return gen.normal(size=dims[name])


def _positive(gen, name, dims):
    return gen.uniform(0.5, 2, dims[name])


def _several(gen, name, dims):
    return tuple([gen.normal(size=one) for one in dims[name]])


def _length(gen, name, dims):
    return gen.integers(0, 2 * dims["q"][2], dims[name])


def _small(gen, name, dims):
    return 0.6 * gen.normal(size=dims[name])


DRAWN = {(ops.PoolingFwd, "x"): _apart, (ops.ResampleFwd, "x"): _apart, (ops.Pointwise, "x"): _uncut,
         (ops.SpatialSamplerFwd, "grid"): _inside, (ops.BatchNormTraining, "scale"): _positive,
         (ops.Sdpa, "extras"): _several, (ops.Sdpa, "len_q"): _length, (ops.Sdpa, "len_kv"): _length,
         **{(ops.RnnFwd, name): _small for name in ("w", "hx", "cx")}}


class Setting:
    """The forward operation of a problem of a backward one.

    ``inputs`` of it, which may be changed, and ``outputs``, {name: dims}; ``ends``: those whose gradients the
    backward operation reads; ``gradients``: {input: output of the backward operation}; ``names``: {operand
    that it is given: what that is of the forward one}.
    """

    def __init__(self, problem, gen):
        self.operands = {n: d for n, d in problem.operands.items()
                         if d is not None and n not in problem.op.shared}        # mailboxes: of one GPU here
        plain = dict(compute="f64", dropout=0.0, dbias_of=-1)
        self.op = replace(problem.op, **{n: v for n, v in plain.items() if n in problem.op.attributes()})
        self.first, self.rows = pair(self.op)
        last = next(g for g in self.rows.values() if g.op == self.op)
        self.names = {o: n for o, n in last.reads.items() if o in self.operands}
        self.passes = list({g.op: (g.op, g.reads) for g in self.rows.values()     # that leave it a reserve
                            if g.op != self.op and {*g.op.writes} & {*self.op.reads}}.values())
        dims = self._dims(last)
        self.inputs = {n: self._draw(n, dims, last, gen) for n in self.first.reads if n in dims}
        self.gradients = {n: g.output for n, g in self.rows.items() if g.op == self.op and n in self.inputs}
        self.outputs = self._outputs(dims)
        read = {n for _, names in (*self.passes, (self.op, self.names)) for n in names.values()}
        self.ends = [n for n in self.outputs if f"d{n}" in read]

    def _dims(self, last) -> dict:
        """Of what the problem says of the forward operation."""
        of = lambda d: tuple(map(of, d)) if isinstance(d, tuple) else d.dims
        dims = {n: of(self.operands[o]) for o, n in self.names.items()}
        dims |= {n: self.operands[g.output].dims for n, g in self.rows.items()
                 if g.op == self.op and g.output in self.operands}
        return {"x": dims["dy"], **dims} if "dy" in dims else dims       # of what a bias is added to

    def _draw(self, name, dims, last, gen):
        """An input; 0 where the backward operation might read it and does not get it, nor indices of it."""
        if name in last.reads.values() and not {name, "index"} & {*self.names.values()}:
            return np.zeros(dims[name])
        return DRAWN.get((type(self.first), name), _normal)(gen, name, dims)

    def _outputs(self, dims) -> dict:
        of = lambda v: tuple(map(of, v)) if isinstance(v, tuple) else TensorDesc.packed(
            "i32" if v.dtype.kind == "i" else "f64", v.shape)
        found = self.first.inferred(self.first.read_of({n: of(v) for n, v in self.inputs.items()}))
        asked = {*self.first.asked} - {*self.names.values(), *dims}
        return {n: found[n].dims if n in found else dims.get(n, dims.get(f"d{n}")) for n in self.first.writes
                if n not in asked and found.get(n, dims) is not None}

    def forward(self, inputs) -> dict:
        """Every output. A window wholly in the padding has the lowest number of all: it does not move."""
        room = {n: philox.seeded(5) if n == "states" else np.zeros(dims) for n, dims in self.outputs.items()}
        found = self.first.evaluate({**room, **inputs}, numbers(self.first))
        return {n: np.where(np.abs(found[n]) > 1e300, 0.0, found[n]) for n in self.outputs}

    def reads(self, out, d) -> dict:
        """What the backward operation is given; what it adds to is 0. ``d``: gradients of the ends."""
        pool = {**self.inputs, **out, **{f"d{n}": g for n, g in d.items()}}
        for op, names in self.passes:
            pool |= self._evaluate(op, {o: pool[n] for o, n in names.items() if n in pool})
        added = {n: zeros for n, zeros in self._room(self.op).items() if n in self.op.keeps}
        return {**added, **{o: pool[n] for o, n in self.names.items()}}

    def backward(self, out, d) -> dict:
        """{output of the backward operation: gradient}"""
        return self._evaluate(self.op, self.reads(out, d))

    def _evaluate(self, op, given):
        return op.evaluate({**self._room(op), **given}, numbers(op))

    def _room(self, op) -> dict:
        """Zeros of the dims of an operation's gradients."""
        return {g.output: np.zeros(self.inputs[n].shape) for n, g in self.rows.items()
                if g.op == op and n in self.inputs}


def numbers(op) -> dict:
    """An operation's numbers: its defaults, but an epsilon that counts."""
    return {**op.scalars, **({"epsilon": EPSILON} if "epsilon" in op.scalars else {})}


def slope(setting, d, way) -> list:
    """The terms of the slope of sum(d * outputs) along a way of inputs: central differences, of the first
    step with which a tenth of it agrees. Deep networks are bent within a millionth."""
    found = differences(setting, d, way, STEPS[0])
    for step in STEPS[1:]:
        shorter = differences(setting, d, way, step)
        size = sum(np.abs(t).sum() for t in found)
        if abs(sum(t.sum() for t in found) - sum(t.sum() for t in shorter)) <= AGREE * size:
            break
        found = shorter
    return found


def differences(setting, d, way, step: float) -> list:
    ahead, behind = (setting.forward({n: v + sign * way[n] if n in way else v
                                      for n, v in setting.inputs.items()}) for sign in (step, -step))
    return [d[n] * (ahead[n] - behind[n]) / (2 * step) for n in d]
