"""The references are checked by something else: plain loops, closed forms, finite differences, adjoints."""
from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from cydnn import ops
from cydnn.ops.pointwise import MODES
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc
from support.draw import problems

RANDOM = np.random.default_rng(7)


def conv_loop(x, w, op):
    """Convolution as five plain loops (two spatial dims)."""
    (ph, pw), _, (sh, sw), (dh, dw) = op.geometry(4)
    n, k, p, q = op.out_dims(x.shape, w.shape)
    groups, cg = x.shape[1] // w.shape[1], w.shape[1]
    y = np.zeros((n, k, p, q))
    for i, f, a, b in np.ndindex(n, k, p, q):
        group = f // (k // groups)
        for c, r, s in np.ndindex(*w.shape[1:]):
            h, v = a * sh - ph + r * dh, b * sw - pw + s * dw
            if 0 <= h < x.shape[2] and 0 <= v < x.shape[3]:
                tap = w[f, c, -1 - r, -1 - s] if op.mode == "convolution" else w[f, c, r, s]
                y[i, f, a, b] += x[i, group * cg + c, h, v] * tap
    return y


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("mode", ["cross_correlation", "convolution"])
@pytest.mark.parametrize("geometry", [(0, 0, 1, 1), (1, 2, 2, 1), ((2, 0), (1, 1), (1, 3), (2, 1))])
def test_conv_fprop_is_the_loop(groups, mode, geometry):
    pre, post, stride, dilation = geometry
    op = ops.ConvFprop(pre_pad=pre, post_pad=post, stride=stride, dilation=dilation, mode=mode)
    x, w = RANDOM.normal(size=(2, 4, 7, 6)), RANDOM.normal(size=(4, 4 // groups, 3, 2))
    np.testing.assert_allclose(op.reference(x, w)["y"], conv_loop(x, w, op), atol=1e-12)


def test_whole_numbers_are_divided_towards_0():
    x, b = np.array([7.0, -7.0, 7.0, -8.0]), np.array([2.0, 2.0, -2.0, 3.0])
    whole, real = (ops.Pointwise(mode="div", compute=c) for c in ("i32", "f32"))
    np.testing.assert_array_equal(whole.reference(x, b, None, 1.0, 1.0)["y"], [3, -3, -3, -2])
    np.testing.assert_array_equal(real.reference(x, b, None, 1.0, 1.0)["y"], x / b)


def values(desc, gen):
    return gen.uniform(-1, 1, desc.dims)


@settings(max_examples=60, deadline=None)
@given(p=problems(ops.ConvFprop), seed=st.integers(0, 1000))
def test_conv_gradients_are_adjoints(p, seed):
    """<dy, conv(x, w)> = <dgrad(dy, w), x> = <wgrad(x, dy), w>."""
    gen = np.random.default_rng(seed)
    x, w, dy = (values(p.operands[n], gen) for n in ("x", "w", "y"))
    facts = {f: getattr(p.op, f) for f in p.op.attributes()}
    y = p.op.reference(x, w)["y"]
    dx = ops.ConvDgrad(**facts).reference(dy, w, dict(dx=x.shape))["dx"]
    dw = ops.ConvWgrad(**facts).reference(x, dy, dict(dw=w.shape))["dw"]
    want = (dy * y).sum()
    scale = np.abs(dy).sum() * 10 + 1
    assert abs((dx * x).sum() - want) < 1e-12 * scale and abs((dw * w).sum() - want) < 1e-12 * scale


@pytest.mark.parametrize("mode", [m for m in MODES if m.endswith("_bwd")])
def test_pointwise_backward_is_the_derivative(mode):
    forward = ops.Pointwise(mode=mode.replace("_bwd", "_fwd"), relu_lower_clip_slope=0.1,
                            elu_alpha=0.7, softplus_beta=1.3, swish_beta=0.8)
    backward = ops.Pointwise(mode=mode, relu_lower_clip_slope=0.1,
                             elu_alpha=0.7, softplus_beta=1.3, swish_beta=0.8)
    x = RANDOM.uniform(-2, 2, (3, 40))
    x[np.abs(x) < 1e-3] = 0.5
    dy, h = RANDOM.normal(size=x.shape), 1e-6
    f = lambda v: forward.reference(v, None, None, 1.0, 1.0)["y"]
    slope = (f(x + h) - f(x - h)) / (2 * h)
    np.testing.assert_allclose(backward.reference(dy, x, None, 1.0, 1.0)["y"],
                               dy * slope, rtol=1e-6, atol=1e-7)


def derivative(f, x, dy, h=1e-6):
    """Gradient of sum(dy * f(x)) by central differences."""
    grad = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = h
        grad[i] = ((f(x + step) - f(x - step)) * dy).sum() / (2 * h)
    return grad


@pytest.mark.parametrize("mode", ["channel", "instance"])
@pytest.mark.parametrize("algorithm", ["accurate", "log"])
def test_softmax_backward_is_the_derivative(algorithm, mode):
    x, dy = RANDOM.normal(size=(2, 3, 2, 2)), RANDOM.normal(size=(2, 3, 2, 2))
    forward, backward = (ops.SoftmaxFwd(algorithm=algorithm, mode=mode),
                         ops.SoftmaxBwd(algorithm=algorithm, mode=mode))
    y = forward.reference(x)["y"]
    np.testing.assert_allclose(backward.reference(y, dy)["dx"],
                               derivative(lambda v: forward.reference(v)["y"], x, dy), atol=1e-7)
    if algorithm == "accurate":
        np.testing.assert_allclose(y.sum(axis=1 if mode == "channel" else (1, 2, 3)), 1.0)


@pytest.mark.parametrize("window", range(1, 17))
def test_lrn_backward_is_the_derivative(window):
    facts = dict(window=window, scale=1.5, power=0.6, offset=0.5)
    x, dy = RANDOM.normal(size=(2, 11, 2)), RANDOM.normal(size=(2, 11, 2))
    forward, backward = ops.LrnFwd(**facts), ops.LrnBwd(**facts)
    s = [0.5 + 1.5 / window * sum(x[:, j] ** 2 for j in range(i - (window - 1) // 2, i + window // 2 + 1)
                                  if 0 <= j < 11) for i in range(11)]
    y = forward.reference(x)["y"]
    np.testing.assert_allclose(y, x * np.stack(s, 1) ** -0.6, rtol=1e-12)
    np.testing.assert_allclose(backward.reference(x, dy)["dx"],
                               derivative(lambda v: forward.reference(v)["y"], x, dy), atol=1e-7)


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, 9, 16])
@pytest.mark.parametrize("dims", [(2, 2, 6), (1, 2, 4, 5), (1, 1, 3, 2, 4)])
@pytest.mark.parametrize("with_means", [False, True])
def test_divisive_norm_backward_is_the_derivative(window, dims, with_means):
    facts = dict(window=window, scale=1.5, power=0.6, offset=0.5)
    x, dy, means = (RANDOM.normal(size=dims) for _ in range(3))
    forward, backward = ops.DivisiveNormFwd(**facts), ops.DivisiveNormBwd(**facts)
    f = lambda v, m: forward.reference(v, m if with_means else None)["y"]
    wanted = dict(dx=dims, dmeans=dims) if with_means else dict(dx=dims)
    found = backward.reference(x, means if with_means else None, dy, wanted)
    np.testing.assert_allclose(found["dx"], derivative(lambda v: f(v, means), x, dy), atol=1e-7)
    if with_means:
        np.testing.assert_allclose(found["dmeans"], derivative(lambda m: f(x, m), means, dy), atol=1e-7)
    else:
        assert found["dmeans"] is None
        found = backward.reference(x, None, dy, dict(dx=dims, dmeans=dims))
        at_0 = derivative(lambda m: forward.reference(x, m)["y"], np.zeros(dims), dy)
        np.testing.assert_allclose(found["dmeans"], at_0, atol=1e-7)


@pytest.mark.parametrize("mode", ["spatial", "per_activation"])
def test_batch_norm_backward_is_the_derivative(mode):
    x = RANDOM.normal(size=(4, 2, 2, 3))
    forward, backward = ops.BatchNormTraining(mode=mode), ops.BatchNormBwd(mode=mode)
    shape = forward.parameter_dims(x.shape)
    scale, bias, dy = RANDOM.uniform(0.5, 2, shape), RANDOM.normal(size=shape), RANDOM.normal(size=x.shape)
    f = lambda v, s=scale, b=bias: forward.reference(v, s, b, None, None, 1e-5, 1.0)["y"]
    got = backward.reference(x, dy, scale, None, None, 1e-5)
    np.testing.assert_allclose(got["dx"], derivative(f, x, dy), atol=1e-6)
    np.testing.assert_allclose(got["dscale"], derivative(lambda s: f(x, s), scale, dy), atol=1e-6)
    np.testing.assert_allclose(got["dbias"], derivative(lambda b: f(x, scale, b), bias, dy), atol=1e-6)


@pytest.mark.parametrize("mode", ["max", "avg_include_padding", "avg_exclude_padding"])
def test_pooling_backward_is_the_derivative(mode):
    facts = dict(mode=mode, window=(3, 2), pre_pad=1, stride=2)
    x = RANDOM.permutation(2 * 2 * 5 * 6).reshape(2, 2, 5, 6) * 0.1
    forward, backward = ops.PoolingFwd(**facts), ops.PoolingBwd(**facts)
    y = forward.reference(x)["y"]
    dy = RANDOM.normal(size=y.shape)
    np.testing.assert_allclose(backward.reference(y, dy, x)["dx"],
                               derivative(lambda v: forward.reference(v)["y"], x, dy), atol=1e-7)


def test_max_pooling_ties_and_nan():
    x = np.array([[[[1.0, 1.0], [np.nan, 0.0]]]])
    skip, keep = (ops.PoolingBwd(window=2, nan=nan) for nan in ("ignore", "propagate"))
    dy = np.ones((1, 1, 1, 1))
    np.testing.assert_array_equal(skip.reference(dy, dy, x)["dx"][0, 0], [[1, 0], [0, 0]])
    np.testing.assert_array_equal(keep.reference(dy, dy, x)["dx"][0, 0], [[0, 0], [1, 0]])


@pytest.mark.parametrize("op", ops.OPS, ids=lambda o: o.name)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_problem_text_parses_back(op, data):
    p = data.draw(problems(op))
    assert ops.Problem.parse(str(p)) == p


def test_errors_name_argument_rule_and_value():
    x, w = TensorDesc.packed("f32", (2, 3, 8, 8)), TensorDesc.packed("f32", (4, 2, 3, 3))
    with pytest.raises(BadParam, match=r"conv_fprop: w.c must divide x.c=3; got w.c=2"):
        ops.ConvFprop().complete(dict(x=x, w=w))
    with pytest.raises(BadParam, match=r"conv_fprop: stride must be >= 1 in every dim; got 0"):
        ops.ConvFprop(stride=0)
    with pytest.raises(BadParam, match=r"softmax_fwd: mode must be one of channel instance; got 'rows'"):
        ops.SoftmaxFwd(mode="rows")
    with pytest.raises(BadParam, match="batch_norm_training: x must not be empty: "
                                       r"its statistics would be of nothing; got \(0, 5, 2, 2\)"):
        ops.Problem.parse("batch_norm_training n0c5h2w2 f32")
    with pytest.raises(BadParam, match=r"problem: op must be one of conv_fprop .*; got 'convolve'"):
        ops.Problem.parse("convolve 1x2")
