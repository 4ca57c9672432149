"""Every backward operation against central differences of its forward one, in float64: the gradient of
sum(dy * y) along a random direction of all inputs at once. Random shapes and attributes (support/draw),
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
from support.draw import draw
from support.check.gradients import BACKWARD, OPS, Setting, of_backward, slope

SHAPES, MOST = int(os.environ.get("CYDNN_SHAPES", 100)), 1e-8    # seen: 2e-10
ELEMENTS, FLOPS = 1500, 1e5                      # of a problem at most


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
    setting = Setting(of_backward(problem, BACKWARD[gen.integers(len(BACKWARD))]), gen)
    with np.errstate(all="ignore"):
        out = setting.forward(setting.inputs)
        d = {n: gen.normal(size=out[n].shape) for n in setting.ends}
        way = {n: gen.normal(size=setting.inputs[n].shape) for n in setting.gradients}
        terms = slope(setting, d, way)
        found = change(setting.backward(out, d))
    mine = [found[setting.gradients[n]] * way[n] for n in way]
    size = sum(np.abs(t).sum() for t in (*terms, *mine)) + 1e-3
    return abs(sum(t.sum() for t in terms) - sum(t.sum() for t in mine)) / size


def problems(op_class, count):
    rng = random.Random(zlib.crc32(op_class.name.encode()))
    return [(small(op_class, rng), rng.randrange(2 ** 31)) for _ in range(count)]


@pytest.mark.parametrize("op", OPS, ids=lambda o: o.name)
def test_gradients_are_the_differences(op):
    wrong = [f"{p} seed={seed}: {e:.2g}" for p, seed in problems(op, SHAPES)
             if not (e := error(p, seed)) < MOST]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("op", OPS, ids=lambda o: o.name)
def test_a_wrong_element_shows(op):
    """One element of a gradient is another."""
    def fault(found):
        name = next(n for n in found if n.startswith("d") or n == "y")
        value = np.array(found[name])
        value.flat[value.size // 2] += 0.01 * (1 + np.abs(value).max())
        return {**found, name: value}
    assert all(error(p, seed, fault) > MOST for p, seed in problems(op, 8))


def test_a_gradient_is_a_node_of_names_that_the_forward_operation_has():
    found = ops.ConvFprop(pre_pad=1, stride=2).gradients
    assert found == dict(x=(ops.ConvDgrad(pre_pad=1, stride=2), "dx", dict(dy="dy", w="w")),
                         w=(ops.ConvWgrad(pre_pad=1, stride=2), "dw", dict(x="x", dy="dy")))
    assert ops.Matmul().gradients == ops.Pointwise(mode="add").gradients == ops.ConvWgrad().gradients == {}
    assert {n: g.reads for n, g in ops.ConvDgrad().gradients.items()} == dict(
        dy=dict(x="ddx", w="w"), w=dict(x="ddx", dy="dy"))
    assert ops.PoolingFwd(mode="max").gradients["x"].reads == dict(y="dy", dy="dy", x="x")     # y is not read
    for op in ops.OPS:
        known = {*op.operands(), *(f"d{n}" for n in op.writes)}
        assert all(known >= set(g.reads.values()) for g in op().gradients.values()), op


def test_every_backward_operation_is_here():
    apart = {ops.GroupedMatmulWgrad}             # of groups that numbers tell: its own reference is a sum
    assert {op for op in ops.OPS if "bwd" in op.name or op.name.endswith("grad")} <= set(OPS) | apart
