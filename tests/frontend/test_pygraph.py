"""pygraph on the NumPy device: what its calls mean, what it infers, what it refuses."""
from __future__ import annotations

import numpy as np
import pytest

import cydnn
from cydnn import data_type, heur_mode
from cydnn.ops import ConvFprop
from cydnn.ops.pointwise import erf64


@pytest.fixture
def handle():
    number = cydnn.create_handle("numpy")
    yield number
    cydnn.destroy_handle(number)


def graph(handle, io=data_type.FLOAT):
    return cydnn.pygraph(io_data_type=io, intermediate_data_type=data_type.FLOAT,
                         compute_data_type=data_type.FLOAT, handle=handle)


def workspace(g):
    return np.empty(g.get_workspace_size() + 1, np.uint8)


def test_conv_bias_gelu(handle):
    rng = np.random.default_rng(0)
    x, w, b = (rng.normal(size=s).astype(np.float16) for s in ((2, 8, 6, 6), (16, 8, 3, 3), (1, 16, 1, 1)))
    g = graph(handle, data_type.HALF)
    X, W, B = map(g.tensor_like, (x, w, b))
    Y = g.gelu(g.bias(input=g.conv_fprop(X, W, padding=[1, 1], stride=[1, 1], dilation=[1, 1]),
                      bias=B)).set_output(True)
    g.build([heur_mode.A, heur_mode.FALLBACK])
    assert (Y.get_dim() == [2, 16, 6, 6] and Y.get_stride() == [576, 1, 96, 16]
            and Y.get_data_type() is data_type.HALF)
    y = np.empty((2, 6, 6, 16), np.float16)
    g.execute({X: x, W: w, B.get_uid(): b, Y: y}, workspace(g))
    z = ConvFprop(pre_pad=1, post_pad=1).reference(x.astype(float), w.astype(float))["y"] + b
    np.testing.assert_allclose(y.transpose(0, 3, 1, 2),
                               z * 0.5 * (1 + erf64(z * 0.5 ** 0.5)), rtol=2e-3, atol=2e-3)


def test_gradients_need_their_dim(handle):
    g = graph(handle)
    DY, W = g.tensor([2, 4, 3, 3], [36, 9, 3, 1]), g.tensor([4, 3, 3, 3], [27, 9, 3, 1])
    DX = g.conv_dgrad(DY, W, padding=[1, 1], stride=[2, 2], dilation=[1, 1]).set_output(True)
    with pytest.raises(cydnn.BadParam, match="the dim of dx must be set; it does not follow from the inputs"):
        g.validate()
    DX.set_dim([2, 3, 6, 6])
    g.build([heur_mode.A])
    assert DX.get_stride() == [108, 1, 18, 3]


def test_batchnorm_and_backward(handle):
    g = graph(handle)
    column = lambda **kw: g.tensor([1, 3, 1, 1], [3, 1, 1, 1], **kw)
    X, S, B, M, V = g.tensor([4, 3, 5, 5], [75, 25, 5, 1]), column(), column(), column(), column()
    eps, momentum = (g.tensor([1, 1, 1, 1], [1, 1, 1, 1], is_pass_by_value=True) for _ in range(2))
    outputs = g.batchnorm(X, S, B, M, V, eps, momentum)
    assert len([t.set_output(True) for t in outputs]) == 5
    g.build([heur_mode.A])
    rng = np.random.default_rng(1)
    pack = {t: np.ones(t.get_dim(), np.float32) for t in (X, S, B, M, V, *outputs)}
    pack[X][:] = rng.normal(size=pack[X].shape)
    x = pack[X].astype(float)
    g.execute({**pack, eps: 1e-5, momentum: np.float32(0.1)}, 0)
    want = (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5) + 1
    np.testing.assert_allclose(pack[outputs[0]], want, atol=1e-5)
    np.testing.assert_allclose(pack[outputs[3]], 0.9 + 0.1 * x.mean((0, 2, 3), keepdims=True), atol=1e-6)
    with pytest.raises(cydnn.BadParam, match="the variant pack must hold pass-by-value tensor"):
        g.execute(pack, 0)


def test_batchnorm_inference_is_four_pointwise_operations(handle):
    g = graph(handle)
    X, M, R, S, B = (g.tensor([2, 3, 4, 4], [48, 16, 4, 1]),
                     *(g.tensor([1, 3, 1, 1], [3, 1, 1, 1]) for _ in range(4)))
    Y = g.batchnorm_inference(X, M, R, S, B).set_output(True)
    g.build([heur_mode.A])
    rng = np.random.default_rng(2)
    pack = {t: rng.normal(size=t.get_dim()).astype(np.float32) for t in (X, M, R, S, B)}
    y = np.empty((2, 3, 4, 4), np.float32)
    g.execute({**pack, Y: y}, workspace(g))
    np.testing.assert_allclose(y, (pack[X] - pack[M]) * pack[R] * pack[S] + pack[B], rtol=1e-5, atol=1e-5)


def test_matmul_and_reduction(handle):
    g = graph(handle)
    A, B = g.tensor([2, 3, 4], [12, 4, 1]), g.tensor([1, 4, 5], [20, 5, 1])
    C = g.matmul(A, B)
    S = g.reduction(C, cydnn.reduction_mode.MAX).set_dim([2, 3, 1]).set_stride([3, 1, 1]).set_output(True)
    g.build([heur_mode.A])
    a, b, s = (np.random.default_rng(3).normal(size=(2, 3, 4)).astype("f4"),
               np.ones((1, 4, 5), "f4"), np.empty((2, 3, 1), "f4"))
    g.execute({A: a, B: b, S: s}, workspace(g))
    np.testing.assert_allclose(s, (a @ b).max(2, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("method, argument, count",
                         [("relu", "input", 1), ("tanh", "input", 1), ("add", "a", 2), ("max", "input0", 2),
                          ("cmp_gt", "input", 2), ("gelu_backward", "loss", 2)])
def test_pointwise_takes_positions_and_keywords(handle, method, argument, count):
    g = graph(handle)
    x = g.tensor([2, 3], [3, 1])
    assert getattr(g, method)(*[x] * count).get_is_virtual()
    with pytest.raises((cydnn.BadParam, TypeError)):
        getattr(g, method)(*[x] * count, surplus=1)


def test_plans_by_index_and_deselection(handle):
    g = graph(handle)
    X = g.tensor([2, 3], [3, 1])
    Y = g.exp(X).set_output(True)
    g.build([heur_mode.A])
    assert g.get_execution_plan_count() == 1 and "reference" in g.get_plan_name_at_index(0)
    g.build_plan_at_index(0)
    y = np.empty((2, 3), np.float32)
    g.execute_plan_at_index({X: np.zeros((2, 3), np.float32), Y: y}, 0, 0)
    assert (y == 1).all()
    g.deselect_engines(["reference"])
    with pytest.raises(cydnn.cudnnGraphNotSupportedError, match="no plan is left"):
        g.check_support()
    with pytest.raises(cydnn.BadParam, match="plan index must be below 0"):
        g.get_workspace_size_plan_at_index(0)
    g.execute({X: np.ones((2, 3), np.float32), Y: y})
    assert np.allclose(y, np.e)                  # what was built and chosen still runs


def test_a_built_graph_does_not_change(handle):
    g = graph(handle)
    X = g.tensor([2, 3], [3, 1], name="X")
    Y = g.exp(X).set_output(True)
    g.validate()
    Y.set_stride([4, 1])                         # not built yet
    g.build([heur_mode.A])
    Y.set_output(True).set_name(Y.get_name())    # what it is already
    with pytest.raises(cydnn.BadParam,
                       match="tensor X: must be set before build_operation_graph; got dim .3, 3."):
        X.set_dim([3, 3])
    with pytest.raises(cydnn.BadParam, match="must be added before build_operation_graph"):
        g.relu(Y)
    y = np.zeros((2, 4), np.float32)
    g.execute({X: np.zeros((2, 3), np.float32), Y: y})
    assert (y == [[1, 1, 1, 0], [1, 1, 1, 0]]).all()


@pytest.mark.parametrize("given,missing", [({}, "epsilon"), (dict(running=True, epsilon=True), "momentum")])
def test_batchnorm_says_what_is_missing(handle, given, missing):
    g = graph(handle)
    X, S, B, M, V = (g.tensor(d, s)
                     for d, s in [([2, 4, 3, 3], [36, 1, 12, 4])] + 4 * [([1, 4, 1, 1], [4, 1, 4, 4])])
    eps = g.tensor([1, 1, 1, 1], [1, 1, 1, 1], is_pass_by_value=True) if "epsilon" in given else None
    with pytest.raises(cydnn.BadParam, match=f"{missing} must be a pass-by-value tensor; got None"):
        g.batchnorm(X, S, B, *((M, V) if "running" in given else ()), epsilon=eps)


def test_refusals(handle):
    with pytest.raises(cydnn.BadParam, match="handle must be one of create_handle; got 99999"):
        cydnn.set_stream(99999, 0)
    with pytest.raises(cydnn.cudnnGraphNotSupportedError, match="sm_count comes with a later release"):
        cydnn.pygraph(sm_count=8)
    g = cydnn.pygraph(handle=handle)
    g.relu(g.tensor([1], [1]))
    with pytest.raises(cydnn.BadParam, match="has no data_type; set it, or io_data_type"):
        g.validate()
    g = graph(handle)
    g.add(g.tensor([2, 3], [3, 1], uid=7), g.tensor([2, 3], [3, 1], uid=7))
    with pytest.raises(cydnn.BadParam, match="uids must differ; got .7. more than once"):
        g.validate()
