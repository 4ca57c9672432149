"""The adjoint identity <dy, J v> = <Jt dy, v> of an engine's gradients: J v are differences of the forward
operation in float64 (support/check/gradients.py), Jt dy is what the engine computes on a device.

In f32 the two agree to 1e-5 of the absolute values behind them; in shorter types, to what the tolerance of
each element and the rounding of the saved outputs that the engine reads make of them.
"""
from __future__ import annotations

import random
import zlib
from typing import Iterator, NamedTuple

import numpy as np

from cydnn import ops, plan
from cydnn.bench import graph_of
from cydnn.engines import TABLE
from cydnn.heuristics import Wish

from ..draw import alone, of_engine
from .compare import tolerance
from .gradients import BACKWARD, OPS, Setting, numbers, of_backward, slope
from .matrix import execute, strays

F32, DIFFERENCES = 1e-5, 1e-8                    # of the sum: what f32 owes, what differences know at all
FLOPS, ELEMENTS, TERMS = 1e7, 1 << 17, 1 << 14
TYPES = {"f64", "f32", "f16", "bf16"}
BY_INDEX = {"resample_bwd_apart"}                # these read where x was largest, and no x
ROUNDED = {"sdpa_bwd_fp8_wgmma"}                 # these take types of 8 bits alone
PEERS = {"batch_norm_bwd_peers"}                  # these get messages of others
ENGINES = [e for e in TABLE if e.op in OPS and e.name not in BY_INDEX | ROUNDED | PEERS]


class Identity(NamedTuple):
    """``error`` and ``bound`` in ``size``, the sum of absolute values of both sides."""
    error: float
    bound: float
    size: float
    is_f32: bool

    @property
    def holds(self) -> bool:
        return self.error <= self.allowed * self.size

    @property
    def allowed(self) -> float:
        return F32 if self.is_f32 else max(self.bound / self.size, DIFFERENCES)

    def __str__(self):
        return f"{self.error / self.size:.3g} of the sum, allowed {self.allowed:.3g}"


def problems(engine, facts, seed="") -> Iterator[tuple]:
    """(problem, seed) of which the identity can be asked."""
    rng = random.Random(zlib.crc32(f"adjoint {engine.name} {seed}".encode()))
    if engine.op is ops.Pointwise:
        drawn = (of_backward(p, rng.choice(BACKWARD)) for p in of_engine.problems(engine, facts, seed))
        found = (p for p in drawn if usable(p) and engine.accepts(alone.match(p), facts))
    else:
        found = of_engine.problems(engine, facts, seed, usable)
    yield from ((problem, rng.randrange(2 ** 31)) for problem in found)


def usable(problem) -> bool:
    """Numbers that have gradients, few enough; of networks such as have all states and drop nothing."""
    op, operands = problem.op, problem.operands
    descs = [d for n, d in operands.items() if d is not None and n != "mask"]
    if any(isinstance(d, tuple) or d.dtype.name not in TYPES or d.is_overlapping for d in descs):
        return False
    if op.compute not in ("f32", "f64") or not 0 < max(d.count for d in descs) <= ELEMENTS:
        return False
    if "rnn" in op.name and (op.dropout or any(operands.get(n) is None for n in (*op.reads, *op.writes)
                                               if "c" not in n or op.cell == "lstm")):
        return False
    if getattr(op, "scale", 1.0) == getattr(op, "offset", 1.0) == 0.0:
        return False                             # 0 to a negative power
    return problem.flops <= FLOPS and op.terms(**operands) <= TERMS


def is_f32(problem) -> bool:
    """Are all numbers as long as f32?"""
    return all(d.dtype.name in ("f32", "f64") for n, d in problem.operands.items()
               if d is not None and n != "mask")


def is_smooth(problem, inputs) -> bool:
    """Are the rounded inputs away from where slopes jump?"""
    op = problem.op
    if op.name in ("pooling_bwd", "resample_bwd") and op.mode == "max":
        return np.unique(inputs["x"]).size == inputs["x"].size
    if op.name == "pointwise":
        return bool((np.abs(inputs["x"] - 0.75) > 1e-4).all() and (np.abs(inputs["x"]) > 1e-4).all())
    if op.name == "spatial_sampler_bwd":
        at = (inputs["grid"] + 1) / 2 * np.maximum(np.array(inputs["x"].shape[:1:-1]) - 1, 1)
        return bool((np.abs(at - np.round(at)) > 1e-3).all())
    return True


def identity(problem, seed, engine, device, change=lambda found: found) -> Identity | None:
    """None where rounded inputs lie where slopes jump, or there is no number. ``change``: of the engine's
    gradients."""
    op, operands, gen = problem.op, problem.operands, np.random.default_rng(seed)
    setting = Setting(problem, gen)
    read_as = {name: operand for operand, name in setting.names.items()}
    rounded = lambda name, value: operands[read_as[name]].dtype.round(value) if name in read_as else value
    setting.inputs.update({n: rounded(n, v) for n, v in setting.inputs.items()})
    if not is_smooth(problem, setting.inputs):
        return None
    with np.errstate(all="ignore"):
        out = setting.forward(setting.inputs)
        if not all(np.isfinite(out[n]).all() for n in setting.ends):
            return None                          # a negative number to a broken power
        d = {n: rounded(f"d{n}", gen.normal(size=out[n].shape)) for n in setting.ends}
        given = {n: operands[n].dtype.round(np.reshape(v, operands[n].dims))
                 for n, v in setting.reads(out, d).items()}
        scalars = numbers(op)
        found = change(gradients(problem, engine, device, given, scalars))
        mine = {n: np.reshape(found[g], setting.inputs[n].shape)
                for n, g in setting.gradients.items() if g in found}
        way = {n: towards(value, gen) for n, value in mine.items()}
        terms = slope(setting, d, way)
    both = [*terms, *(mine[n] * way[n] for n in mine)]
    return Identity(abs(sum(t.sum() for t in terms) - sum(t.sum() for t in both[len(terms):])),
                    bound(problem, engine, given, scalars, {n for n in out if n != "mask"},
                          {setting.gradients[n]: w for n, w in way.items()}),
                    float(sum(np.abs(t).sum() for t in both)) + 1e-3,
                    is_f32(problem))


def gradients(problem, engine, device, given, scalars) -> dict:
    """What an engine makes of the operands that it is given, by name."""
    built = plan.build(graph_of(problem, scalars), device, Wish(engines=(engine.index,)))
    buffers, space = execute(built, problem, given, given.keys(), device)
    plan.forget()
    beside = strays(buffers, space, problem.op.writes)
    assert not beside, f"{problem}: {beside}"
    return {n: buffers[n].read()[0] for n in problem.op.writes if n in buffers}


def towards(value, gen):
    """A way that goes along a gradient, so that terms of both signs do not hide what is wrong, and aside."""
    size = np.sqrt(np.mean(value ** 2))
    return value / (size or 1.0) + 0.5 * gen.normal(size=value.shape)


def bound(problem, engine, given, scalars, saved, ways) -> float:
    """What the sum of an engine's gradients times ``ways`` may be off: the tolerance of each element, and
    where the op reads outputs that were rounded when they were ``saved``, that step of their type."""
    op, operands = problem.op, problem.operands
    arrays = {n: given.get(n, np.full(d.dims, np.nan)) for n, d in operands.items() if d is not None}
    with np.errstate(all="ignore"):
        raw = op.evaluate(arrays, scalars)
        want = op.blend(raw, arrays, scalars)
        magnitude = engine.magnitude(op, arrays, scalars, raw)
        inner = op.inner_error(arrays, scalars, operands)
    step = max((operands[n].dtype.eps for n in saved & set(op.reads + tuple(op.keeps))
                if operands.get(n) is not None), default=0.0)
    total = 0.0
    for name, way in ways.items():
        allowed = inner.get(name, 0.0) + step * magnitude[name] + tolerance(
            problem, name, operands[name], want[name], magnitude[name], scalars, arrays[name])
        total += float((np.abs(way.reshape(operands[name].dims)) * allowed).sum())
    return total
