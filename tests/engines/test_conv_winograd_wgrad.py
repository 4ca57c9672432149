"""Winograd's gradient of filters: the matrices, the bound of errors, empty tensors, who may ask. What its
kernels give is in test_conv_winograd.py."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.engines.conv.winograd import MATRICES
from cydnn.engines.conv.winograd_wgrad import GRADIENT
from cydnn.heuristics import Wish, candidates
from cydnn.ops.problem import Problem
from support.draw.alone import match, steps

H200 = KNOWN["h200"]
OUT = {153: 2, 156: 4}


@pytest.mark.parametrize("out", GRADIENT)
def test_the_matrices_are_a_correlation(out):
    """dw[r] = sum over i of dy[i] * x[r + i], for every dy and x."""
    b, (g, a) = np.array(MATRICES[out][0], float), (np.array(m) for m in GRADIENT[out])
    want = np.zeros((3, out, out + 2))
    for r, i in np.ndindex(3, out):
        want[r, i, r + i] = 1
    np.testing.assert_allclose(np.einsum("rp,pi,pl->ril", a, g, b), want, atol=1e-15)


@pytest.mark.parametrize("index", OUT)
@pytest.mark.parametrize("mode", ["cross_correlation", "convolution"])
def test_the_bound(index, mode):
    """It is at least the plain sum of absolute values, and that of each tap on its own side."""
    problem = Problem.parse(f"conv_wgrad n2c3h7w9 k4r3s3 pre_pad=1,0 post_pad=1,0 mode={mode} f32")
    gen = np.random.default_rng(index)
    arrays = {n: gen.random(problem.operands[n].dims) for n in ("x", "dy")}
    arrays["x"][:, :, 0] *= 100                          # one tap reads this row less often than others
    whole = dict(arrays, dw=np.broadcast_to(np.nan, problem.operands["dw"].dims))
    plain = problem.op.evaluate(whole, dict(alpha=1.0, beta=0.0))["dw"]
    bound = BY_INDEX[index].magnitude(problem.op, arrays, {}, dict(dw=plain))["dw"]
    assert bound.shape == plain.shape and (bound >= plain * (1 - 1e-12)).all()


def test_nothing_is_launched_for_no_filters():
    p = match(Problem.parse("conv_wgrad n2c4h8w8 k0r3s3 f32"))
    assert not BY_INDEX[153].reasons(p, H200) and not steps(BY_INDEX[153], p, H200)


@pytest.mark.parametrize("form, sentence", [
    ("n2c4d4h8w8 k4t3r3s3 f32", "x must have 2 spatial dims; got 3"),
    ("n2c4h8w8 k4r3s1 f32", "the filter must be (3, 3); got (3, 1)"),
    ("n2c4h8w8 k4r3s3 stride=1,2 f32", "stride must be (1, 1); got (1, 2)")])
def test_refusals(form, sentence):
    assert sentence in list(BY_INDEX[153].refuse(match(Problem.parse(f"conv_wgrad {form}")), H200))


def test_who_may_ask():
    graph = graph_of(Problem.parse("conv_wgrad n64c128h28w28 k128r3s3 pad1 f32"))
    names = lambda wish: {c.engine.index for c in candidates(graph, H200, wish)}
    assert {153, 156} & names(Wish()) == {153} and names(Wish(notes=("winograd",))) == {153, 156}
    assert names(Wish(notes=("winograd_tile_6x6",))) == {156}
