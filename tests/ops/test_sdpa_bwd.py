"""The gradients of attention: of every mode of a score, of a bias, of scores with a gradient of the caller's,
where nothing is seen, and what lies beyond the lengths."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn.ops import Pointwise, Problem, Sdpa, SdpaBwd, rows
from cydnn.ops.attention.adjoint import FLAT, adjoint, known
from cydnn.ops.pointwise import MODES
from cydnn.status import BadParam

SMOOTH = [m for m in MODES if known(m) and m not in FLAT and not m.startswith(("cmp_", "logical_"))]


@pytest.mark.parametrize("mode", SMOOTH)
def test_the_gradient_of_a_mode_is_its_difference(mode):
    """Of each of what it reads, and of a value that it reads twice."""
    inputs, gen = MODES[mode].inputs, np.random.default_rng(1)
    values = dict(s=gen.uniform(0.5, 1.5, 50), e0=gen.uniform(0.5, 1.5, 50), e1=gen.integers(0, 2, 50) * 1.0)
    for reads in (("s", "e0", "e1")[:inputs], ("n0", "n0", "e1")[:inputs]):
        score = ((Pointwise(mode="mul"), ("s", 1.25)), (Pointwise(mode=mode, elu_alpha=0.7), reads),
                 (Pointwise(mode="sub"), (2.0, "n1")))
        for of in {"s", *reads[:2]} & {"s", "e0"}:
            ahead, behind = (rows.evaluate(score, values | {of: values[of] + step}) for step in (1e-6, -1e-6))
            d = gen.normal(size=50)
            got = rows.evaluate(adjoint(score, of), dict(d=d, **values))
            np.testing.assert_allclose(got, d * (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("score, of, want", [
    ((), "s", ""), ("add(s,e0)", "e0", "identity(d)"), ("add(s,e0)", "s", "identity(d)"),
    ("sub(col,row);add(s,n0)", "s", "identity(d)"), ("ceil(s)", "s", "identity(#0.0)"),
    ("cmp_ge(row,col);binary_select(s,#-inf,n0)", "s", "cmp_ge(row,col);binary_select(d,#0.0,n0)")])
def test_rows_of_a_gradient_are_those_that_are_needed(score, of, want):
    assert rows.text(adjoint(Sdpa(score=score).score, of)) == want


def setting(line, seed=0):
    """(op, what it reads with statistics of its own)"""
    problem = Problem.parse(line)
    gen, op, descs = np.random.default_rng(seed), problem.op, problem.operands
    draw = lambda d: tuple(map(draw, d)) if isinstance(d, tuple) else gen.normal(size=d.dims)
    given = {n: None if descs[n] is None else draw(descs[n]) for n in op.reads}
    for name in ("len_q", "len_kv"):
        if given[name] is not None:
            given[name] = np.reshape([5, 0], (2, 1, 1, 1))
    forward = Sdpa(**{n: getattr(op, n) for n in ("score", "left", "right", "diagonal")})
    own = {n: given[n] for n in forward.reads if n in given}
    found = forward.reference(**own, scale=0.5)
    return op, {**given, "o": found["o"], "stats": found["stats"]}, forward, own


@pytest.mark.parametrize("dims", ["1x2x6x7", "2x1x6x1", "1x1x1x7", "2x2x1x1"])
def test_a_bias_has_its_gradient(dims):
    op, given, forward, own = setting(
        f"sdpa_bwd 2x2x6x4 2x1x4x7 2x2x7x5 extras={dims}:f32+1x1x6x7:f32 right=2 dbias={dims}:f32 "
        "score=add(s,e1);mul(n0,e0);tanh_fwd(n1) dbias_of=0")
    shape, (bias, other) = given["extras"][0].shape, own["extras"]
    got = op.reference(**given, scale=0.5, shapes=dict(dbias=shape))["dbias"]
    way = np.random.default_rng(7).normal(size=shape)
    moved = lambda step: forward.reference(**{**own, "extras": (bias + step * way, other)}, scale=0.5)["o"]
    slope = (given["do"] * (moved(1e-6) - moved(-1e-6))).sum() / 2e-6
    np.testing.assert_allclose((got * way).sum(), slope, rtol=1e-6)


def test_a_gradient_of_the_callers_stands_in_place_of_its_own():
    line = "sdpa_bwd 2x2x6x4 2x1x4x7 2x2x7x5 score=mul(s,s){}"
    (op, given, *_), (mine, *_) = setting(line.format("")), setting(
        line.format(" score_bwd=mul(s,#2.0);mul(d,n0)"))
    for a, b in zip(*(one.reference(**given, scale=0.5, shapes={}).values() for one in (op, mine))):
        np.testing.assert_allclose(a, b)


def test_what_is_not_seen_adds_nothing():
    op, given, *_ = setting("sdpa_bwd 2x2x6x4 2x2x4x7 2x2x7x5 len_q=2x1x1x1:i32 len_kv=2x1x1x1:i32 right=0 "
                            "diagonal=bottom_right")
    clean = op.reference(**given, scale=0.5, shapes={})
    for name in ("q", "o", "do", "stats"):
        given[name][0, :, 5:] = given[name][1] = np.nan
    given["k"][0, ..., 5:] = given["k"][1] = given["v"][0, :, 5:] = given["v"][1] = np.nan
    for want, got in zip(clean.values(), op.reference(**given, scale=0.5, shapes={}).values()):
        np.testing.assert_array_equal(got, want)
    assert not clean["dq"][0, :, 5:].any() and not clean["dk"][0, ..., 5:].any() and not clean["dv"][1].any()
    given["stats"] = np.full_like(given["stats"], -np.inf)
    assert not any(value.any() for value in op.reference(**given, scale=0.5, shapes={}).values())


@pytest.mark.parametrize("more, sentence", [
    ("score=mod(s,#2.0)", "score must be of modes whose gradient is known; got mod"),
    ("dbias=1x1x2x2", "dbias_of must be the number of an extra where dbias is written, else -1"),
    ("dbias=1x1x2x2 dbias_of=0", "dbias_of must be the number of one of 0 extras; got 0"),
    ("extras=1x1x1x1 score=add(s,e0) dbias=1x1x3x2 dbias_of=0",
     "dbias must have dims that are 1 or those of .*; got .1, 1, 3, 2."),
    ("do=1x1x2x3", "do must have dims .1, 1, 2, 2.; got .1, 1, 2, 3."),
    ("stats=1x1x2x3", "stats must have dims .1, 1, 2, 1.; got .1, 1, 2, 3.")])
def test_what_cannot_be(more, sentence):
    with pytest.raises(BadParam, match=sentence):
        Problem.parse(f"sdpa_bwd 1x1x2x2 1x1x2x2 1x1x2x2 {more}")
