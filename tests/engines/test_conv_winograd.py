"""Winograd: the transforms, the bound of their errors, refusals, parts, who may ask for them."""
from __future__ import annotations

import random

import numpy as np
import pytest

from cydnn.bench import graph_of
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX, Config
from cydnn.engines.conv.winograd import MATRICES, growth, spread
from cydnn.frontend.notes import notes_of
from cydnn.heuristics import Wish, best, candidates
from cydnn.ops.problem import Problem
from support.draw.alone import cost, match, steps
from support.check.matrix import blended, run

H200 = KNOWN["h200"]
OUT = {114: 2, 115: 4, 134: 2, 135: 4}
ALL = (*OUT, 153, 156)                           # with the gradients of filters (test_conv_winograd_wgrad.py)


def op_of(index):
    return BY_INDEX[index].op.name


@pytest.mark.parametrize("out", MATRICES)
def test_the_matrices_are_a_correlation(out):
    """y[i] = sum over j of g[j] * d[i + j], for every g and d."""
    b, g, a = (np.array(m, float) for m in MATRICES[out])
    form = np.einsum("ip,pj,pl->ijl", a, g, b)
    want = np.zeros_like(form)
    for i, j in np.ndindex(out, 3):
        want[i, j, i + j] = 1
    np.testing.assert_allclose(form, want, atol=1e-15)


@pytest.mark.parametrize("out, most", [(2, 64 / 9), (4, 256)])
def test_the_bound(out, most):
    """It is that of the tile's transforms, never below the plain sum, and reaches ``growth``."""
    assert growth(out) == pytest.approx(most)
    gen = np.random.default_rng(out)
    x, w, pad = gen.random((2, 3, 7, 9)), gen.random((4, 3, 3, 3)), (1, 0)
    problem = Problem.parse("conv_fprop n2c3h7w9 k4r3s3 pre_pad=1,0 post_pad=1,0 f32")
    plain = problem.op.evaluate(dict(x=x, w=w), dict(alpha=1.0, beta=0.0))["y"]
    bound = spread(x, w, pad, plain.shape, out)
    assert bound.shape == plain.shape and (bound >= plain * (1 - 1e-12)).all()
    b, g, a = (np.abs(np.array(m, float)) for m in MATRICES[out])
    tile = np.zeros((3, out + 2, out + 2))                          # the first one: one row of padding above
    tile[:, 1:] = x[1, :, :out + 1, :out + 2]
    by_hand = sum(a @ ((g @ w[2, c] @ g.T) * (b @ tile[c] @ b.T)) @ a.T for c in range(3))
    np.testing.assert_allclose(bound[1, 2, :out, :out], by_hand)
    ones = spread(np.ones((1, 5, 12, 12)), np.ones((1, 5, 3, 3)), (0, 0), (1, 1, 10, 10), out)
    assert ones.max() / 45 == pytest.approx(most)


@pytest.mark.parametrize("index", OUT)
def test_the_bound_of_an_engine_turns_the_data_gradient_round(index):
    """It bounds what the op says, and holds for filters that are turned round."""
    engine = BY_INDEX[index]
    problem = Problem.parse(f"{op_of(index)} n1c2h9w8 k3r3s3 pre_pad=0,2 post_pad=1,0 mode=convolution f32")
    gen, op = np.random.default_rng(3), problem.op
    arrays = {n: gen.random(problem.operands[n].dims) for n in op.reads}
    shapes = {n: np.broadcast_to(np.nan, problem.operands[n].dims) for n in op.writes}
    raw = op.evaluate({**arrays, **shapes}, dict(alpha=1.0, beta=0.0))
    bound = engine.magnitude(op, arrays, {}, raw)[op.writes[0]]
    assert (bound >= raw[op.writes[0]] * (1 - 1e-12)).all() and bound.shape == raw[op.writes[0]].shape
    assert bound.max() <= growth(OUT[index]) * 9 * max(3, 2)


LINES = ["n2c5h7w6 k6r3s3 pad1 f32", "n2c8h9w5 k4r3s3 pre_pad=0,2 post_pad=3,0 f32 nhwc",
         "n2c8h9w5 k5r3s3 pre_pad=0,2 post_pad=3,0 f32 nhwc", "n1c3h8w8 k5r3s3 pad4 f16 mode=convolution",
         "n2c4h8w8 k8r3s3 pad1 bf16 nhwc", "n1c1h1w1 k1r3s3 pad1 f32", "n0c4h8w8 k4r3s3 pad1 f32"]


@pytest.mark.parametrize("index", ALL)
@pytest.mark.parametrize("line", LINES)
def test_on_the_interpreter(index, line):
    problem = Problem.parse(f"{op_of(index)} {line}")
    for numbers in (dict(problem.op.scalars), blended(problem.op)):
        outcome = run(problem, get("ptx:sm_80"), 3, [BY_INDEX[index]], scalars=numbers)
        assert list(outcome.ran) == [BY_INDEX[index].name] and not outcome.findings


@pytest.mark.parametrize("index", ALL)
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_parts_give_the_same(index, layout):
    problem = Problem.parse(f"{op_of(index)} n2c2h33w31 k3r3s3 pad1 f32 {layout}")
    for numbers in (dict(problem.op.scalars), blended(problem.op)):
        outcome = run(problem, get("ptx:sm_80"), 1, [BY_INDEX[index]], scalars=numbers,
                      config=Config(chunks=2))
        assert outcome.ran and not outcome.findings


@pytest.mark.parametrize("form, sentence", [
    ("n2c4h8w8 k4r3s3 f64 acc=f64", "x must be one of f32 f16 bf16; got f64"),
    ("n2c4h8w8 k4r3s3 f32 acc=f64", "compute must be f32; got f64"),
    ("n2c4d4h8w8 k4t3r3s3 f32", "x must have 2 spatial dims; got 3"),
    ("n2c4h8w8 k4r3s1 f32", "the filter must be (3, 3); got (3, 1)"),
    ("n2c4h8w8 k4r3s3 stride=1,2 f32", "stride must be (1, 1); got (1, 2)"),
    ("n2c4h8w8 k4r3s3 dil2 f32", "dilation must be (1, 1); got (2, 2)"),
    ("n2c4h8w8 k4r3s3 groups=2 f32", "there must be one group; got 2"),
])
def test_refusals(form, sentence):
    assert sentence in list(BY_INDEX[115].refuse(match(Problem.parse(f"conv_fprop {form}")), H200))


@pytest.mark.parametrize("form", ["n0c4h8w8 k4r3s3", "n2c4h8w8 k0r3s3"])
def test_nothing_is_launched_for_an_empty_output(form):
    p = match(Problem.parse(f"conv_fprop {form} f32"))
    for index in (114, 115):
        assert not BY_INDEX[index].reasons(p, H200) and not steps(BY_INDEX[index], p, H200)
    nothing_to_sum = match(Problem.parse("conv_dgrad n2c4h8w8 k0r3s3 f32"))
    assert BY_INDEX[135].reasons(nothing_to_sum, H200) == ("w must have elements; got dims (0, 4, 3, 3)",)


@pytest.mark.parametrize("index", OUT)
def test_the_workspace_has_a_limit(index):
    """Large problems run in parts; every configuration that is offered has a plan."""
    problem = match(Problem.parse(f"{op_of(index)} n256c64h224w224 k64r3s3 pad1 f32 nhwc"))
    engine = BY_INDEX[index]
    assert cost(engine, problem, H200) > 0
    areas = {v.uid: v.uid.bytes for s in steps(engine, problem, H200) for k, v in s.args.items()
             if hasattr(v, "uid") and hasattr(v.uid, "bytes")}
    assert len(areas) == 3 and sum(areas.values()) <= (1 << 30) + (1 << 20)


@pytest.mark.parametrize("op, direct, near, far", [("conv_fprop", 109, 114, 115),
                                                   ("conv_dgrad", 129, 134, 135)])
def test_who_may_ask(op, direct, near, far):
    """F(2x2) is as accurate as direct sums, so the cost decides; only a wish that names F(4x4) or the note
    gets that."""
    graph = graph_of(Problem.parse(f"{op} n64c128h28w28 k128r3s3 pad1 f32"))
    names = lambda wish: {c.engine.index for c in candidates(graph, H200, wish)}
    for wish in (Wish(), Wish(deterministic=True), Wish(notes=("deterministic",))):
        assert near in names(wish) and far not in names(wish) and best(graph, H200, wish).engine.index == near
    assert names(Wish(notes=("winograd",))) == {near, far}
    assert best(graph, H200, Wish(engines=(direct, near, far))).engine.index == far
    assert "strict_nan_prop" not in best(graph, H200).notes
    for wish in (Wish(without_notes=("winograd",)), Wish(engines=(direct, far), without=(far,))):
        assert best(graph, H200, wish).engine.index == direct
    assert {n.name for n in notes_of(best(graph, H200, Wish(engines=(far,))))} == {
        "WINOGRAD", "WINOGRAD_TILE_6x6", "SUPPORTS_CUDA_GRAPH_NATIVE_API"}
    wish = Wish(notes=("winograd",), without_notes=("winograd_tile_6x6",))
    assert best(graph, H200, wish).engine.index == near


@pytest.mark.parametrize("index", OUT)
def test_costs_are_above_the_bound(index):
    rng, engine = random.Random(index), BY_INDEX[index]
    for _ in range(40):
        n, c, h, w, k = (rng.randint(1, m) for m in (64, 300, 60, 60, 300))
        p = match(Problem.parse(f"{op_of(index)} n{n}c{c}h{h}w{w} k{k}r3s3 pad1 f32"))
        assert engine.least_us(p, H200) < cost(engine, p, H200)
