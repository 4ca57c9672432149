"""The references by closed forms, their texts and errors; by plain loops: test_random.py, by differences:
test_gradients.py."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from cydnn import ops
from cydnn.ops import Problem
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc
from support.draw import problems


def test_whole_numbers_are_divided_towards_0():
    x, b = np.array([7.0, -7.0, 7.0, -8.0]), np.array([2.0, 2.0, -2.0, 3.0])
    whole, real = (ops.Pointwise(mode="div", compute=c) for c in ("i32", "f32"))
    np.testing.assert_array_equal(whole.reference(x, b, None, 1.0, 1.0)["y"], [3, -3, -3, -2])
    np.testing.assert_array_equal(real.reference(x, b, None, 1.0, 1.0)["y"], x / b)


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


def test_products_of_whole_numbers_do_not_wrap():
    """They are computed in floating point, like sums, and saturate where they are stored."""
    problem = Problem.parse("reduction x=2x70:u8 y=2x1:i8 mode=mul acc=f64")
    made = problem.op.reference(np.full((2, 70), 2), dict(y=(2, 1)))["y"]
    assert (made == 2.0 ** 70).all() and (problem.operands["y"].dtype.encode(made) == 127).all()
