"""Dims, strides and types of what the caller leaves open: reference of the front end, section 6."""
from __future__ import annotations

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.status import BadParam
from cydnn.tensor import packed_strides

from .conftest import floats

T = cudnn.data_type


def nhwc(*dims):
    return list(dims), list(packed_strides(dims, "nhwc"))


def nchw(*dims):
    return list(dims), list(packed_strides(dims, "nchw"))


def form(t):
    return t.get_dim(), t.get_stride()


def found(g, *outputs):
    for t in outputs:
        t.set_output(True)
    g.validate()
    return [form(t) for t in outputs] if len(outputs) > 1 else form(*outputs)


POINTWISE = [                                    # inputs, then what comes out
    ([nchw(2, 3, 4)], nchw(2, 3, 4)), ([nhwc(2, 3, 4, 5), nchw(1, 3, 1, 1)], nhwc(2, 3, 4, 5)),
    ([nchw(1, 3, 1, 1), nhwc(2, 3, 4, 5)], nhwc(2, 3, 4, 5)), ([nchw(4, 1), nchw(1, 5)], nchw(4, 5)),
    ([nhwc(2, 3, 4, 1), nhwc(2, 3, 1, 5)],
     nhwc(2, 3, 4, 5)),              # no input has the dims: the order of the first
    ([([2, 3], [8, 2])], ([2, 3], [8, 2])),                                # gaps are kept
    ([([2, 3], [0, 1])], nchw(2, 3)), ([([2, 3], [1, 0])], nchw(2, 3)),    # an expanded input is no model
    ([([2, 3, 4, 5], [0, 1, 15, 3])], nhwc(2, 3, 4, 5)),
    ([([2, 1, 4, 5], [0, 1, 5, 1])], nchw(2, 1, 4, 5)),       # the stride of one element says nothing
    ([([3, 2, 4], [0, 1, 2])], ([3, 2, 4], [8, 1, 2])), ([([2, 3], [1, 1])], nchw(2, 3)),
    ([nchw(2, 3, 4, 5), nchw(5)], nchw(2, 3, 4, 5)),
             ([nchw(4, 5), nchw(2, 1, 5)], nchw(2, 4, 5))]   # as in NumPy


@pytest.mark.parametrize("inputs, want", POINTWISE, ids=range(len(POINTWISE)))
def test_pointwise(g, inputs, want):
    tensors = [g.tensor(*shape) for shape in inputs]
    assert found(g, g.add(*tensors) if len(tensors) == 2 else g.relu(*tensors)) == want


def test_what_is_set_wins(g):
    x = g.tensor(*nchw(2, 3, 4, 5))
    assert found(g, g.relu(x).set_stride([100, 30, 6, 1])) == ([2, 3, 4, 5], [100, 30, 6, 1])
    assert found(g, g.relu(x).set_dim([2, 3, 4, 5])) == nchw(2, 3, 4, 5)
    wrong = g.relu(x).set_dim([2, 3, 4, 6]).set_output(True)
    with pytest.raises(BadParam, match="must have dims .2, 3, 4, 5.; got .2, 3, 4, 6."):
        g.validate()
    wrong.set_dim([2, 3, 4, 5])


def test_a_chain_is_inferred_through_its_virtual_values(g):
    x, b = g.tensor(*nhwc(2, 8, 6, 6)), g.tensor(*nhwc(1, 8, 1, 1))
    middle = g.bias(x, b)
    assert found(g, g.gelu(middle)) == nhwc(2, 8, 6, 6) and form(middle) == nhwc(2, 8, 6, 6)


@pytest.mark.parametrize("a, b, c", [((3, 4), (4, 5), (3, 5)), ((2, 1, 3, 4), (1, 6, 4, 5), (2, 6, 3, 5))])
def test_matmul_is_row_major(g, a, b, c):
    column_major = list(b), list(packed_strides(b, (*range(len(b) - 2), len(b) - 1, len(b) - 2)))
    assert found(g, g.matmul(g.tensor(*nchw(*a)), g.tensor(*column_major))) == nchw(*c)


def test_convolutions_are_channels_last(g):
    x, w = g.tensor(*nchw(2, 8, 9, 7)), g.tensor(*nchw(4, 8, 3, 3))
    assert found(g, g.conv_fprop(x, w, [1, 0], [2, 2], [1, 2])) == nhwc(2, 4, 5, 2)
    assert found(g, g.conv_fprop(x, w, [2, 0], [0, 1], [1, 1], [1, 1])) == nhwc(2, 4, 9, 6)
    x3, w3 = g.tensor(*nchw(1, 2, 5, 5, 5)), g.tensor(*nchw(4, 2, 3, 3, 3))
    assert found(g, g.conv_fprop(x3, w3, [1] * 3, [1] * 3, [1] * 3)) == nhwc(1, 4, 5, 5, 5)
    x1, w1 = g.tensor(*nchw(1, 2, 5)), g.tensor(*nchw(4, 2, 3))
    assert found(g, g.conv_fprop(x1, w1, [1], [1], [1])) == nhwc(1, 4, 5)


@pytest.mark.parametrize("method, end, dims",
                         [("conv_dgrad", "DX", [2, 8, 6, 6]), ("conv_wgrad", "DW", [4, 8, 3, 3])])
def test_gradients_need_their_dim(g, method, end, dims):
    dy = g.tensor(*nchw(2, 4, 3, 3))
    other = g.tensor(*nchw(4, 8, 3, 3)) if method == "conv_dgrad" else g.tensor(*nchw(2, 8, 6, 6))
    pair = (dy, other) if method == "conv_dgrad" else (other, dy)
    result = getattr(g, method)(*pair, [1, 1], [2, 2], [1, 1]).set_output(True)
    with pytest.raises(BadParam,
                       match=f"{method}.0: the dim of {end} must be set; it does not follow from the inputs"):
        g.validate()
    result.set_dim(dims)
    g.validate()
    assert form(result) == nhwc(*dims)


def test_reductions(g):
    x = g.tensor(*nchw(2, 3, 4, 5))
    mode = cudnn.reduction_mode.ADD
    assert found(g, g.reduction(x, mode).set_dim([2, 1, 4, 5])) == nhwc(2, 1, 4, 5)
    assert found(g, g.reduction(x, mode)) == nhwc(2, 3, 4,
                                                  5)              # the input's dim, where none is set
    assert found(g, g.reduction(x, mode).set_dim([1, 3, 1, 1]).set_stride([3, 1, 1, 1])) == ([1, 3, 1, 1],
                                                                                             [3, 1, 1, 1])


def test_batch_norm(g):
    x, s = g.tensor(*nchw(4, 3, 5, 6)), [g.tensor([1, 3, 1, 1], [3, 1, 1, 1]) for _ in range(4)]
    eps, momentum = (g.tensor([1] * 4, [1] * 4, is_pass_by_value=True) for _ in range(2))
    y, *statistics = found(g, *g.batchnorm(x, *s, eps, momentum))
    assert y == nchw(4, 3, 5, 6) and statistics == [nhwc(1, 3, 1, 1)] * 4
    dx, dscale, dbias = found(g, *g.batchnorm_backward(x, x, s[0], s[1], s[2]))
    assert dx == nhwc(4, 3, 5, 6) and dscale == dbias == nhwc(1, 3, 1, 1)
    assert found(g, g.batchnorm_inference(x, *s)) == nchw(4, 3, 5, 6)


# ---- Types ----

def test_types(handle):
    g = cudnn.pygraph(io_data_type=T.HALF, intermediate_data_type=T.FLOAT, compute_data_type=T.FLOAT,
                      handle=handle)
    x, own = g.tensor(*nchw(2, 3)), g.tensor(*nchw(2, 3), T.INT8)
    middle = g.add(x, own)
    cast = g.identity(middle).set_data_type(T.BFLOAT16)
    y = g.relu(cast).set_output(True)
    g.validate()
    assert [t.get_data_type() for t in (x, own, middle, cast, y)] == [T.HALF, T.INT8, T.FLOAT, T.BFLOAT16,
                                                                      T.HALF]


@pytest.mark.parametrize("missing", ["io", "intermediate"])
def test_types_that_nobody_says(handle, missing):
    kinds = {f"{kind}_data_type": T.FLOAT for kind in ("io", "intermediate", "compute") if kind != missing}
    g = cudnn.pygraph(handle=handle, **kinds)
    g.relu(g.relu(g.tensor(*nchw(2, 3), name="X"), name="first")).set_output(True)
    name = "X" if missing == "io" else "first::OUT_0"
    with pytest.raises(BadParam, match=f"tensor {name} must have a data_type; set it, or {missing}_data_type "
                       f"of the graph"):
        g.validate()


def test_only_the_types_of_the_tensors(handle):
    """No defaults at all."""
    g = cudnn.pygraph(handle=handle)
    x = g.tensor(*nchw(2, 3), T.INT8)
    y = g.exp(g.identity(x).set_data_type(T.FLOAT)).set_output(True).set_data_type(T.DOUBLE)
    g.build([cudnn.heur_mode.A])
    out = np.empty((2, 3))
    g.execute({x: np.ones((2, 3), np.int8), y: out}, np.empty(g.get_workspace_size(), np.uint8))
    np.testing.assert_allclose(out, np.e)


# ---- Ranks ----

def test_a_number_of_any_rank(g):
    """The same number beside values of two ranks, and beside a larger rank of its own."""
    x, z, last = g.tensor(*nchw(2, 3)), g.tensor(*nchw(2, 3, 4)), g.tensor(*nchw(2, 3, 4))
    n = g.tensor([1], [1], is_pass_by_value=True)
    wide = g.tensor([1] * 4, [1] * 4, is_pass_by_value=True)
    a, b, c = (t.set_output(True) for t in (g.mul(x, n), g.add(n, z), g.mul(last, wide)))
    g.build([cudnn.heur_mode.A])
    assert a.get_dim() == [2, 3] and b.get_dim() == [2, 3, 4] and c.get_dim() == [1, 2, 3,
                                                                                  4] and n.get_dim() == [1]
    out = [np.empty(t.get_dim(), np.float32) for t in (a, b, c)]
    ones = np.ones((2, 3, 4), np.float32)
    g.execute({x: ones[..., 0].copy(), z: ones, last: ones, n: 3.0, wide: 5,
               a: out[0], b: out[1], c: out[2]}, 0)
    assert (out[0] == 3).all() and (out[1] == 4).all() and (out[2] == 5).all()


def test_memory_has_one_rank(g):
    x, z, b = g.tensor(*nchw(2, 3)), g.tensor(*nchw(4, 2, 3)), g.tensor([3], [1], name="B")
    g.add(x, b).set_output(True)
    g.add(z, b).set_output(True)
    with pytest.raises(BadParam,
                       match="tensor B: must have one rank in all operations that read it; got 2 and 3"):
        g.validate()


def test_an_output_of_another_rank(g):
    """Of an input that repeats elements, whose strides say nothing of the output's."""
    g.relu(g.tensor([2, 3, 4], [0, 4, 1])).set_output(True).set_dim([2, 3])
    with pytest.raises(BadParam, match=r"OUT_0 must have dims \(2, 3, 4\); got \(2, 3\)"):
        g.validate()


def test_inputs_have_dims(g):
    g.relu(g.tensor([], [], name="X")).set_output(True)
    with pytest.raises(BadParam, match="tensor X must have a dim, as no operation writes it; got none"):
        g.validate()
    other = floats(handle=g.own_handle)
    other.relu(other.tensor([3], [], name="X")).set_output(True)
    with pytest.raises(BadParam, match="tensor X must have a stride"):
        other.validate()


def test_a_graph_has_operations_and_outputs(g):
    with pytest.raises(BadParam, match="it must have at least one operation; got none"):
        g.validate()
    g.relu(g.tensor([2], [1]))
    with pytest.raises(BadParam, match=r"must be an output \(not virtual: set_output\(True\)\)"):
        g.validate()


def test_unused_tensors_are_no_part_of_the_graph(g):
    g.tensor([2], [1])
    y = g.relu(g.tensor([2], [1])).set_output(True)
    g.build([cudnn.heur_mode.A])
    assert len(g.graph.tensors) == 2
    g.execute({y: np.empty(2, np.float32), g._tensors[1]: np.zeros(2, np.float32)}, 0)


# ---- What is wrong, in the words of the call ----

WRONG = [
    (lambda g, x: g.conv_fprop(x, g.tensor(*nhwc(4, 3, 3, 3))),
     "conv_fprop.0: weight.c must divide image.c=8; got weight.c=3",
     dict(node="conv_fprop.0", operand="weight", needed="must divide image.c=8")),
    (lambda g, x: g.conv_fprop(x, x, padding=[1], name="stem"), "stem: padding must have 2 entries",
     dict(node="stem", attribute="padding", given=(1,))),
    (lambda g, x: g.conv_fprop(x, x, pre_padding=[-1, 0], post_padding=[0, 0]),
     "conv_fprop.0: pre_padding must be >= 0 in every dim", dict(attribute="pre_padding", given=(-1, 0))),
    (lambda g, x: g.conv_fprop(x, x, padding=[2 ** 62, 0]),
     "conv_fprop.0: an output's dims must be .*, with padding", dict(attribute=None)),
    (lambda g, x: g.conv_dgrad(x, x).set_dim([2, 8, 9, 9]),
     "conv_dgrad.0: filter.k must be loss.c=8; got filter.k=2", dict(operand="filter")),
    (lambda g, x: g.matmul(x, x), r"matmul.0: B.k must be A.k=4; got B.k=6 \(A \(2, 8, 6, 4\), B \(2",
     dict(operand="B", given="B.k=6 (A (2, 8, 6, 4), B (2, 8, 6, 4))")),
    (lambda g, x: g.gen_index(x, -1), "gen_index.0: axis must be >= 0; got -1",
     dict(attribute="axis", given=-1)),
    (lambda g, x: g.tanh(x).set_dim([2, 8, 6, 5]), r"tanh.0: OUT_0 must have dims \(2, 8, 6, 4\)",
     dict(node="tanh.0", operand="OUT_0", given=(2, 8, 6, 5))),
    (lambda g, x: g.batchnorm(x, x, x, epsilon=x)[0],
     r"batchnorm.0: scale must have dims \(1, 8, 1, 1\)", dict(operand="scale")),
    (lambda g, x: g.batchnorm(g.relu(x), *[g.tensor(*nhwc(1, 8, 1, 1))] * 2, epsilon=x)[0],
     "batchnorm.1: epsilon must be a tensor of one element", dict(attribute="epsilon")),
    (lambda g, x: g.layernorm(cudnn.norm_forward_phase.INFERENCE, g.tensor([2, 3]),
                              *[g.tensor([1, 1, 1, 3])] * 2, g.tensor([1, 1]))[0],
     "layernorm.0: scale must have rank 2 like input; got 4", dict(operand="scale")),
    (lambda g, x: g.moe_grouped_matmul(g.tensor([1, 9, 8]), g.tensor([2, 7, 5]),
                                       g.tensor([2, 1, 1], data_type=cudnn.data_type.INT32)),
     r"moe_grouped_matmul.0: weight must have dims \(e, 8, n\), a row for each column of token; got",
     dict(operand="weight", given=(2, 7, 5))),
]


@pytest.mark.parametrize("call, sentence, facts", WRONG)
def test_an_error_has_the_words_of_the_call(g, call, sentence, facts):
    call(g, g.tensor(*nhwc(2, 8, 6, 4))).set_output(True)
    with pytest.raises(BadParam, match=f"^{sentence}") as error:
        g.validate()
    assert {name: error.value.facts[name] for name in facts} == facts
