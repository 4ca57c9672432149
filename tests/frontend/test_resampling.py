"""Resampling: pooling and interpolation against sums by hand, training by indices, what is refused."""
from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.status import BadParam
from support.guard.mirror import Mirror

from .conftest import floats, nhwc
from .programs import MODES

M, P = cudnn.resample_mode, cudnn.padding_mode
HALVES = dict(pre_padding=[0.5, 0.5], post_padding=[1, 1], stride=[(1, 2), Fraction(1, 2)])


@pytest.fixture(scope="module", params=["numpy", "ptx:sm_80"])
def handle(request):
    found = cudnn.create_handle(Mirror("sm_80") if request.param.startswith("ptx") else "numpy")
    yield found
    cudnn.destroy_handle(found)


def run(g, pack):
    g.build(MODES)
    g.execute(pack, np.empty(g.get_workspace_size() + 1, np.uint8))


def image(*dims):
    """Channels-last."""
    values = np.random.default_rng(1).permutation(np.prod(dims)).astype(np.float32)
    return values.reshape(dims[0], *dims[2:], dims[1]).transpose(0, 3, 1, 2)


def empty(*dims, kind=np.float32):
    return np.zeros((dims[0], *dims[2:], dims[1]), kind).transpose(0, 3, 1, 2)


def test_training_by_indices(handle):
    """A maximum of 2x2 with padding, ReLU behind it; its gradient by the indices alone."""
    x, y, index = image(2, 8, 5, 4), empty(2, 8, 3, 3), empty(2, 8, 3, 3, kind=np.int8)
    how = dict(resampling_mode=M.MAXPOOL, padding_mode=P.NEG_INF_PAD, window=[2, 2], pre_padding=[1, 1],
               post_padding=[0, 1], stride=[2, 2])
    g = floats(handle=handle)
    X = g.tensor_like(x)
    Y, I = g.resample(X, generate_index=True, **how)
    Y = g.relu(Y).set_output(True)
    I.set_output(True).set_data_type(cudnn.data_type.INT8)
    run(g, {X: x, Y: y, I: index})
    room = np.pad(x, ((0, 0), (0, 0), (1, 0), (1, 1)), constant_values=-np.inf)
    windows = np.stack([room[:, :, i:i + 5:2, j:j + 5:2] for i in (0, 1) for j in (0, 1)])
    np.testing.assert_array_equal(y, windows.max(0))
    np.testing.assert_array_equal(index, windows.argmax(0))
    back, dx = floats(handle=handle), empty(2, 8, 5, 4)
    DY, I = back.tensor_like(y), back.tensor_like(index)
    DX = back.resample_backward(DY, index=I, **how).set_output(True).set_dim([2, 8, 5, 4])
    DX.set_stride(nhwc(2, 8, 5, 4)[1])
    run(back, {DY: y, I: index, DX: dx})
    want = np.zeros_like(room)
    for n, (i, j) in enumerate((i, j) for i in (0, 1) for j in (0, 1)):
        want[:, :, i:i + 5:2, j:j + 5:2] += np.where(index == n, y, 0)
    np.testing.assert_array_equal(dx, want[:, :, 1:, 1:-1])


def test_twice_as_large(handle):
    """The guide's bilinear upsampling: windows of two, half paddings and strides, the edge outside."""
    x, y = image(1, 8, 3, 4), empty(1, 8, 6, 8)
    g = floats(handle=handle)
    X = g.tensor_like(x)
    Y, none = g.resample(X, M.BILINEAR, P.EDGE_VAL_PAD, [2, 2], **HALVES)
    run(g, {X: x, Y.set_output(True): y})
    rows = np.repeat(x, 2, 2)
    rows[:, :, 1:-1:2] = (x[:, :, :-1] + x[:, :, 1:]) / 2
    want = np.repeat(rows, 2, 3)
    want[..., 1:-1:2] = (rows[..., :-1] + rows[..., 1:]) / 2
    assert none is None
    np.testing.assert_allclose(y, want, rtol=1e-6)


def test_an_average_is_a_pooling_where_it_is_one(h200):
    """Whole strides and one padding: what the engines of pooling compute."""
    g = floats(device_property=h200)
    X = g.tensor(*nhwc(32, 256, 56, 56), cudnn.data_type.HALF)
    Y, _ = g.resample(X, M.AVGPOOL_INCLUDE_PADDING, P.ZERO_PAD, [3, 3], [1, 1], [1, 1], [2, 2])
    Y.set_output(True).set_data_type(cudnn.data_type.HALF)
    g.build(MODES)
    assert "pooling_fwd" in g.get_plan_name_at_index(0)


WRONG = [(dict(resampling_mode="max"), "resampling_mode must be one of resample_mode.NEAREST"),
         (dict(padding_mode=P.NOT_SET), "padding_mode must be set; got padding_mode.NOT_SET"),
         (dict(window=[(3, 2), 1]), "window must be whole numbers; got 3/2, 1"),
         (dict(stride=[(1, 0), 1]), r"stride must have a number, or a pair \(numerator, denominator\)"),
         (dict(stride=None), "stride must have a number"),
         (dict(pre_padding=[-1, 0]), "pre_padding must be >= 0 in every dim"),
         (dict(generate_index=True), "INDEX must be absent but for max; got it for avg_exclude_padding"),
         (dict(window=[9, 2]), r"window must fit into the padded input; got output \(-4, 3\)")]


def test_what_gradients_need(g):
    """In the words of the call, which are those of what was left out."""
    loss = g.tensor([1, 2, 3, 3])
    g.resample_backward(loss, M.MAXPOOL, P.ZERO_PAD, [2, 2], [0, 0], [0, 0], [1, 1])
    with pytest.raises(BadParam, match="index must be given for max, or input; got neither"):
        g.validate()


@pytest.mark.parametrize("change, text", WRONG, ids=range(len(WRONG)))
def test_what_is_refused(g, change, text):
    how = dict(resampling_mode=M.AVGPOOL_EXCLUDE_PADDING, padding_mode=P.ZERO_PAD, window=[2, 2],
               pre_padding=[0, 0], post_padding=[0, 0], stride=[1, 1]) | change
    with pytest.raises(BadParam, match=text):
        g.resample(g.tensor(*nhwc(1, 8, 4, 4)), **how)[0].set_output(True)
        g.validate()
