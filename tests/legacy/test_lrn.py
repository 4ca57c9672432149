"""g87 to g92: LRN descriptors, local response normalization across channels."""
import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.dtypes import BY_ENUM
from cydnn.status import BadParam, NotSupported

from .arrays import DOUBLE, FLOAT, FLOATS, HALF, Tensor, draw, ramp, tensor_desc, tolerance

MODE = c.CUDNN_LRN_CROSS_CHANNEL_DIM1


def norm_desc(n=5, alpha=1e-4, beta=0.75, k=2.0):
    desc = c.createLRNDescriptor()
    c.setLRNDescriptor(desc, n, alpha, beta, k)
    return desc


# -- Descriptors ---------------------------------------------------------------------------------------------

def test_descriptors():
    desc = c.createLRNDescriptor()
    assert c.getLRNDescriptor(desc) == (5, 1e-4, 0.75, 2.0)
    assert c.setLRNDescriptor(normDesc=desc, lrnN=16, lrnAlpha=-3, lrnBeta=0.01, lrnK=1e-5) is None
    assert c.getLRNDescriptor(normDesc=int(desc)) == (16, -3.0, 0.01, 1e-5)
    assert c.destroyLRNDescriptor(lrnDesc=desc) is None and c.destroyLRNDescriptor(0) is None


@pytest.mark.parametrize("arguments, error, words", [
    ((0, 1, 0.75, 1), BadParam, "cudnnSetLRNDescriptor: lrnN must be 1 to 16; got 0"),
    ((17, 1, 0.75, 1), BadParam, "lrnN must be 1 to 16; got 17"),
    ((5, 1, 0.0099, 1), BadParam, "lrnBeta must be >= 0.01; got 0.0099"),
    ((5, 1, float("nan"), 1), BadParam, "lrnBeta must be >= 0.01; got nan"),
    ((5, 1, 0.75, 0.9e-5), BadParam, "lrnK must be >= 1e-05; got 9e-06"),
    ((5, 1, 0.75, -1), BadParam, "lrnK must be >= 1e-05; got -1"),
    ((5, "one", 0.75, 1), TypeError, "lrnAlpha must be a number; got 'one'"),
])
def test_setter_refusals(refused, arguments, error, words):
    desc = norm_desc(3, 1, 2, 4)
    refused(c.setLRNDescriptor, error, words, desc, *arguments)
    assert c.getLRNDescriptor(desc) == (3, 1.0, 2.0, 4.0)


def test_getter_and_destroy_refusals(refused):
    desc = norm_desc()
    c.destroyLRNDescriptor(desc)
    refused(c.destroyLRNDescriptor, BadParam, "lrnDesc must be a LRN descriptor that was created", desc)
    refused(c.getLRNDescriptor, BadParam, "normDesc must be a LRN descriptor that was created and not", desc)
    refused(c.getLRNDescriptor, BadParam, "normDesc must not be NULL", None)
    image = tensor_desc(1, 2, 3)
    refused(c.setLRNDescriptor, BadParam, "normDesc must be a LRN descriptor", image, 5, 1, 1, 1)


# -- Compute -------------------------------------------------------------------------------------------------

def sums(x, n, alpha, k):
    """s of every element, by loops over the channels."""
    s = np.full(x.shape, float(k))
    for ch in range(x.shape[1]):
        low, high = max(0, ch - (n - 1) // 2), min(x.shape[1] - 1, ch + n - (n - 1) // 2 - 1)
        s[:, ch] += alpha / n * (x[:, low:high + 1] ** 2).sum(axis=1)
    return s


def gradient(x, dy, n, alpha, beta, k):
    """The derivative of sum(dy * x * s^-beta) by loops: each channel gives to those in its window."""
    s, channels = sums(x, n, alpha, k), x.shape[1]
    dx = dy * s ** -beta
    for ch in range(channels):
        share = -2 * alpha * beta / n * dy[:, ch] * x[:, ch] * s[:, ch] ** (-beta - 1)
        for other in range(max(0, ch - (n - 1) // 2), min(channels - 1, ch + n - (n - 1) // 2 - 1) + 1):
            dx[:, other] += share * x[:, other]
    return dx


@pytest.mark.parametrize("n", range(1, 17))
@pytest.mark.parametrize("layout", ("nchw", "nhwc"))
def test_every_window(handle, n, layout):
    dims, facts = (2, 19, 2, 3), (n, 1.5, 0.75 if n % 2 else 1.25, 0.5)
    _forward_and_backward(handle, dims, facts, FLOAT, layout)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dims, strides", [
    ((2, 24, 2, 3), None), ((1, 3, 7), None), ((2, 7, 2, 3, 2), None), ((2, 5, 2, 3), (1, 13, 140, 2)),
    ((2, 5, 2, 2, 3), (80, 13, 6, 3, 1))])
def test_types_and_strides(handle, dtype, dims, strides):
    _forward_and_backward(handle, dims, (5, 2.0, 0.75, 1.0), dtype, "nchw", strides)


def _forward_and_backward(handle, dims, facts, dtype, layout, strides=None):
    make = lambda seed: Tensor(dims, draw(*dims, seed=seed), dtype, layout, strides)
    norm, x, dy, dx = norm_desc(*facts), make(0), make(1), make(2)
    y = Tensor(dims, None, dtype, layout, strides)
    n, alpha, beta, k = facts
    c.LRNCrossChannelForward(handle, norm, MODE, 1.5, x.desc, x.ptr, 0.0, y.desc, y.ptr)
    want = 1.5 * x.values * sums(x.values, n, alpha, k) ** -beta
    np.testing.assert_allclose(y.values, want, rtol=tolerance(dtype, 2), atol=tolerance(dtype))
    old = dx.values
    y.values = 7.0                               # is not read
    c.LRNCrossChannelBackward(handle, norm, MODE, 2.0, y.desc, y.ptr, dy.desc, dy.ptr, x.desc, x.ptr, 0.5,
                              dx.desc, dx.ptr)
    want = 2 * gradient(x.values, dy.values, *facts) + 0.5 * old
    np.testing.assert_allclose(dx.values, want, rtol=tolerance(dtype, 2), atol=tolerance(dtype, 8))
    assert y.stray_bytes() == dx.stray_bytes() == 0


def test_recorded_forward(handle):
    dims, norm = (1, 2, 5, 5), norm_desc(3, 1.5, 1.5, 1.0)
    x, y = Tensor(dims, ramp(*dims)), Tensor(dims, ramp(*dims))
    c.lrnCrossChannelForward(handle, norm, MODE, 2, x.desc, x.ptr, 1.5, y.desc, y.ptr)
    np.testing.assert_allclose(y.values.ravel()[[0, 1, 25, 49]], [0, 1.50032, 37.509, 73.5017], rtol=5e-6)


def test_recorded_backward(handle):
    dims, norm = (1, 2, 5, 5), norm_desc(3, 1.5, 1.5, 1.0)
    x, y, dy, dx = Tensor(dims, ramp(*dims)), Tensor(dims), Tensor(dims, 1.0), Tensor(dims)
    c.LRNCrossChannelForward(handle, norm, MODE, 1.5, x.desc, x.ptr, 0, y.desc, y.ptr)
    c.lrnCrossChannelBackward(handle, norm, MODE, 2000, y.desc, y.ptr, dy.desc, dy.ptr, x.desc, x.ptr, 0,
                              dx.desc, dx.ptr)
    np.testing.assert_allclose(dx.values.ravel()[[0, 10, 25, 49]],
                               [0.360308, -0.00202841, -0.717169, -0.0905342], rtol=5e-6, atol=5e-7)


def test_a_sum_below_zero_has_no_power(handle):
    x, y = Tensor((1, 1, 1, 2), [1.0, 0.25]), Tensor((1, 1, 1, 2))
    c.LRNCrossChannelForward(handle, norm_desc(1, -2.0, 1.0, 1.0), MODE, 1, x.desc, x.ptr, 0, y.desc, y.ptr)
    np.testing.assert_allclose(y.values.ravel(), [np.nan, 0.25 / 0.875], rtol=1e-6)


def test_nan_stays_in_its_window(handle):
    x, y, dx = Tensor((1, 20, 1, 1), 1.0), Tensor((1, 20, 1, 1)), Tensor((1, 20, 1, 1))
    x.values = np.where(np.arange(20) == 9, np.nan, 1.0).reshape(1, 20, 1, 1)
    norm = norm_desc(6, 1.0)
    c.LRNCrossChannelForward(handle, norm, MODE, 1, x.desc, x.ptr, 0, y.desc, y.ptr)
    assert np.flatnonzero(np.isnan(y.values)).tolist() == list(range(9 - 3, 9 + 3))
    c.LRNCrossChannelBackward(handle, norm, MODE, 1, y.desc, y.ptr, x.desc, x.ptr, x.desc, x.ptr, 0, dx.desc,
                              dx.ptr)
    assert np.flatnonzero(np.isnan(dx.values)).tolist() == list(range(9 - 5, 9 + 6))


X, Y, DX, DY = (Tensor((2, 6, 3, 2), 1.0) for _ in range(4))
FORWARD = dict(normDesc=norm_desc(), lrnMode=MODE, alpha=1, xDesc=X.desc, x=X.ptr, beta=0, yDesc=Y.desc,
               y=Y.ptr)
BACKWARD = dict(normDesc=norm_desc(), lrnMode=MODE, alpha=1, yDesc=Y.desc, y=Y.ptr, dyDesc=DY.desc, dy=DY.ptr,
                xDesc=X.desc, x=X.ptr, beta=0, dxDesc=DX.desc, dx=DX.ptr)
T = tensor_desc
FIVE, LAST = T(2, 6, 3, 1, 2), T(2, 6, 3, 2, 2, layout="nhwc")
SIX = T(1, 2, 1, 1, 3, 6)
REFUSALS = [
    ("Forward", dict(normDesc=None), BadParam, "normDesc must not be NULL"),
    ("Forward", dict(normDesc=X.desc), BadParam, "normDesc must be a LRN descriptor"),
    ("Forward", dict(lrnMode=1), BadParam,
     r"lrnMode must be one of CUDNN_LRN_CROSS_CHANNEL_DIM1 \(0\); got 1"),
    ("Forward", dict(xDesc=c.createTensorDescriptor()), BadParam, "xDesc must be set"),
    ("Forward", dict(x=0), BadParam, ": x must not be NULL"),
    ("Forward", dict(y=None), BadParam, ": y must not be NULL"),
    ("Forward", dict(alpha=None), BadParam, "alpha must not be NULL"),
    ("Forward", dict(beta=None), BadParam, "beta must not be NULL"),
    ("Forward", dict(yDesc=T(2, 6, 2, 3)), NotSupported, r"yDesc must have dims \(2, 6, 3, 2\) like xDesc"),
    ("Forward", dict(yDesc=FIVE), NotSupported, "yDesc must have dims"),
    ("Forward", dict(yDesc=T(2, 6, 3, 2, dtype=HALF)), NotSupported, "yDesc must have data type f32 like"),
    ("Forward", dict(xDesc=SIX, yDesc=SIX), NotSupported, "xDesc must have rank 3 to 5; got 6"),
    ("Forward", dict(xDesc=LAST, yDesc=LAST), BadParam,
     "xDesc must be packed in its spatial dims, as its rank is 5"),
    ("Forward", dict(xDesc=T(1, 6, 3, 2, 2), yDesc=T(1, 6, 3, 2, 2, layout="nhwc")), BadParam,
     "yDesc must be packed in its spatial dims"),
    ("Forward", dict(yDesc=T(2, 6, 3, 2, strides=(36, 6, 1, 1))), NotSupported,
     "yDesc must not overlap itself"),
    ("Forward", dict(y=X.ptr), BadParam, "must not overlap"),
    ("Backward", dict(lrnMode=-1), BadParam, "lrnMode must be one of"),
    ("Backward", dict(y=0), BadParam, ": y must not be NULL"),
    ("Backward", dict(dy=0), BadParam, ": dy must not be NULL"),
    ("Backward", dict(x=0), BadParam, ": x must not be NULL"),
    ("Backward", dict(dx=0), BadParam, ": dx must not be NULL"),
    ("Backward", dict(yDesc=T(2, 6, 3, 3)), NotSupported, "yDesc must have dims"),
    ("Backward", dict(dyDesc=T(2, 6, 3, 3)), NotSupported, "dyDesc must have dims"),
    ("Backward", dict(dxDesc=T(2, 6, 3, 3)), NotSupported, "dxDesc must have dims"),
    ("Backward", dict(dyDesc=T(2, 6, 3, 2, dtype=DOUBLE)), NotSupported, "dyDesc must have data type"),
    ("Backward", dict(dxDesc=T(2, 6, 3, 2, dtype=HALF)), NotSupported, "dxDesc must have data type"),
    ("Backward", dict(dxDesc=T(2, 6, 3, 2, strides=(36, 6, 1, 1))), NotSupported,
     "dxDesc must not overlap itself"),
    ("Backward", dict(dx=DY.ptr), BadParam, "must not overlap"),
    ("Backward", dict(alpha=None), BadParam, "alpha must not be NULL"),
]


@pytest.mark.parametrize("direction, broken, error, words", REFUSALS)
def test_compute_refusals(handle, refused, direction, broken, error, words):
    arguments = dict(Forward=FORWARD, Backward=BACKWARD)[direction]
    getattr(c, "LRNCrossChannel" + direction)(handle, **arguments)
    refused(getattr(c, "LRNCrossChannel" + direction), error,
            f"cudnnLRNCrossChannel{direction}: .*{words.removeprefix(': ')}", handle,
            **{**arguments, **broken})


def test_nothing_is_written_on_an_error(handle, refused):
    y = Tensor((2, 6, 3, 2))
    refused(c.LRNCrossChannelForward, NotSupported, "yDesc must have dims", handle,
            **{**FORWARD, "yDesc": T(2, 6, 2, 3), "y": y.ptr})
    assert (y.raw == 0xFF).all() and BY_ENUM[FLOAT].bytes == 4
