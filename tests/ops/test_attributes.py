"""What an attribute takes, as Python hands it over."""
from __future__ import annotations

import math

import numpy as np
import pytest

from cydnn import ops
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc

MOST = float(np.finfo(np.float32).max)
X = TensorDesc.packed("f32", (2, 3, 8, 8))


@pytest.mark.parametrize("op, given, kept", [
    (ops.ConvFprop, dict(stride=np.int32(2)), 2), (ops.ConvFprop, dict(stride=[2, 1]), (2, 1)),
    (ops.ConvFprop, dict(stride=(1,)), (1,)), (ops.ConvFprop, dict(pre_pad=0), 0),
    (ops.ConvFprop, dict(pre_pad=()), ()), (ops.ConvFprop, dict(dilation=2 ** 63 - 1), 2 ** 63 - 1),
    (ops.RnnFwd, dict(bidirectional=1), True), (ops.RnnFwd, dict(bidirectional=np.bool_(False)), False),
    (ops.RnnFwd, dict(layers=1 << 16), 1 << 16), (ops.Pointwise, dict(mode="add"), "add"),
    (ops.LrnFwd, dict(scale=1), 1.0),
    (ops.LrnFwd, dict(scale=1e39), math.inf), (ops.LrnFwd, dict(scale=-1e39), -math.inf),
    (ops.LrnFwd, dict(scale=MOST), MOST),
    (ops.LrnFwd, dict(scale=1e39, compute="f64"), 1e39),
])
def test_taken(op, given, kept):
    (name, value), = [(n, v) for n, v in given.items() if n != "compute"]
    made = getattr(op(**given), name)
    assert made == kept and type(made) is type(kept)


@pytest.mark.parametrize("op, given, sentence", [
    (ops.ConvFprop, dict(stride=0), "conv_fprop: stride must be >= 1 in every dim; got 0"),
    (ops.ConvFprop, dict(stride=(1, 0)), r"conv_fprop: stride must be >= 1 in every dim; got \(1, 0\)"),
    (ops.ConvFprop, dict(stride=1.0), "conv_fprop: stride must be a list of whole numbers"),
    (ops.ConvFprop, dict(stride="2"), "conv_fprop: stride must be a list of whole numbers"),
    (ops.ConvFprop, dict(stride=2 ** 63), r"conv_fprop: stride must be below 2\*\*63 in every dim; got 9"),
    (ops.ConvFprop, dict(mode=0), "conv_fprop: mode must be one of cross_correlation convolution; got 0"),
    (ops.ConvFprop, dict(mode=["convolution"]), "conv_fprop: mode must be one of"),
    (ops.ConvFprop, dict(compute="f31"), "conv_fprop: compute must be one of f32 f64"),
    (ops.RnnFwd, dict(bidirectional=2), "rnn_fwd: bidirectional must be True or False; got 2"),
    (ops.RnnFwd, dict(bidirectional=1.0), "rnn_fwd: bidirectional must be True or False; got 1.0"),
    (ops.RnnFwd, dict(bidirectional=None), "rnn_fwd: bidirectional must be True or False; got None"),
    (ops.RnnFwd, dict(layers=0), "rnn_fwd: layers must be >= 1; got 0"),
    (ops.RnnFwd, dict(layers=(1,)), "rnn_fwd: layers must be a whole number"),
    (ops.RnnFwd, dict(layers=(1 << 16) + 1), "rnn_fwd: layers must be at most 65536; got 65537"),
    (ops.Pointwise, dict(axis=-1), "pointwise: axis must be >= 0; got -1"),
    (ops.LrnFwd, dict(scale="1"), "lrn_fwd: scale must be a number; got '1'"),
])
def test_refused(op, given, sentence):
    with pytest.raises(BadParam, match=sentence):
        op(**given)


@pytest.mark.parametrize("operands, sentence", [
    ([X], "softmax_fwd: operands must be a dict of name to TensorDesc"),
    ({}, "softmax_fwd: x is missing; operands are x y"), (dict(x=None), "softmax_fwd: x is missing"),
    (dict(x=X, w=X), "softmax_fwd: w is no operand; operands are x y"),
    (dict(x=(X,)), "softmax_fwd: x must be one tensor; got "),
    (dict(x="x"), "softmax_fwd: x must be a TensorDesc; got 'x'"),
    (dict(x=X, y=1), "softmax_fwd: y must be a TensorDesc; got 1"),
])
def test_operands(operands, sentence):
    with pytest.raises(BadParam, match=sentence):
        ops.SoftmaxFwd().complete(operands)


def test_steps_of_a_network():
    x, w = TensorDesc.packed("f32", (1, 4)), TensorDesc.packed("f32", (7,))
    with pytest.raises(BadParam, match="rnn_fwd: batches must have at least one step; got none"):
        ops.RnnFwd(batches=()).complete(dict(x=x, w=w))


def test_what_follows_is_apart_although_the_input_overlaps():
    spread = X.replace(strides=(0, 0, 8, 1))
    made = ops.SoftmaxFwd().complete(dict(x=spread))
    assert made["x"] is spread and made["y"] == TensorDesc.packed("f32", X.dims)
    with pytest.raises(BadParam, match="softmax_fwd: y must not overlap itself; .*strides .0, 0, 8, 1"):
        ops.SoftmaxFwd().complete(dict(x=X, y=spread))
