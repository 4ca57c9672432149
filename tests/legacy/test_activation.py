"""g77 to g86: activation descriptors, forward and backward."""
import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.status import BadParam

from .arrays import DOUBLE, FLOATS, Tensor, draw, ramp, tolerance

SIGMOID, RELU, TANH, CLIPPED = (c.CUDNN_ACTIVATION_SIGMOID, c.CUDNN_ACTIVATION_RELU,
                                c.CUDNN_ACTIVATION_TANH, c.CUDNN_ACTIVATION_CLIPPED_RELU)
IGNORE, PROPAGATE = c.CUDNN_NOT_PROPAGATE_NAN, c.CUDNN_PROPAGATE_NAN
MODES = (SIGMOID, RELU, TANH, CLIPPED)
DIMS = (2, 3, 4, 5)


def act_desc(mode, nan=IGNORE, ceiling=1.0):
    desc = c.createActivationDescriptor()
    c.setActivationDescriptor(desc, mode, nan, ceiling)
    return desc


def forward(x, mode):
    return {SIGMOID: lambda: 1 / (1 + np.exp(-x)), RELU: lambda: np.maximum(x, 0), TANH: lambda: np.tanh(x),
            CLIPPED: lambda: np.clip(x, 0, 1)}[mode]()


def gradient(y, dy, x, mode):
    return {SIGMOID: lambda: dy * y * (1 - y), RELU: lambda: np.where(x > 0, dy, 0),
            TANH: lambda: dy * (1 - y * y), CLIPPED: lambda: np.where((x > 0) & (x < 1), dy, 0)}[mode]()


def test_descriptor(refused):
    desc = act_desc(CLIPPED, PROPAGATE, 6)
    assert c.getActivationDescriptor(desc) == (CLIPPED, PROPAGATE, 6.0)
    refused(c.setActivationDescriptor, BadParam,
            r"mode must be one of CUDNN_ACTIVATION_SIGMOID \(0\).*got 4", desc, 4, 0, 0)
    refused(c.setActivationDescriptor, BadParam, "reluNanOpt must be one of", desc, 0, 2, 0)
    refused(c.setActivationDescriptor, BadParam, "activationDesc must not be NULL", 0, 0, 0, 0)
    assert c.getActivationDescriptor(desc) == (CLIPPED, PROPAGATE, 6.0)
    refused(c.getActivationDescriptor, BadParam, "must be set", c.createActivationDescriptor())
    c.destroyActivationDescriptor(0), c.destroyActivationDescriptor(desc)
    refused(c.destroyActivationDescriptor, BadParam, "created and not destroyed", desc)


@pytest.mark.parametrize("suffix, mode",
                         [(s, m) for s in ("", "_v4", "_v3") for m in MODES if (s, m) != ("_v3", CLIPPED)])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dims", [(2, 3, 4), DIMS, (2, 3, 2, 2, 2), (2, 1, 2, 1, 2, 2)])
def test_forward_and_backward(handle, suffix, mode, dtype, dims):
    how = mode if suffix == "_v3" else act_desc(mode)
    x, y = Tensor(dims, draw(*dims), dtype), Tensor(dims, draw(*dims, seed=1), dtype, "nhwc")
    getattr(c, "activationForward" + suffix)(handle, how, 2.0, x.desc, x.ptr, 0.5, y.desc, y.ptr)
    np.testing.assert_allclose(y.values, 2 * forward(x.values, mode) + 0.5 * draw(*dims, seed=1),
                               rtol=tolerance(dtype), atol=tolerance(dtype))
    dy, dx = Tensor(dims, draw(*dims, seed=2), dtype, "nhwc"), Tensor(dims, draw(*dims, seed=3), dtype)
    for _ in range(2):
        dx.values = draw(*dims, seed=3)
        getattr(c, "activationBackward" + suffix)(handle, how, 2.0, y.desc, y.ptr, dy.desc, dy.ptr,
                                                  x.desc, x.ptr, 0.5, dx.desc, dx.ptr)
    want = 2 * gradient(y.values, dy.values, x.values, mode) + 0.5 * draw(*dims, seed=3)
    np.testing.assert_allclose(dx.values, want, rtol=tolerance(dtype), atol=tolerance(dtype, 40))


def test_recorded_sigmoid(handle):
    x, y = Tensor((1, 2, 5, 5), ramp(1, 2, 5, 5)), Tensor((1, 2, 5, 5), ramp(1, 2, 5, 5))
    c.activationForward(handle, act_desc(SIGMOID), 2, x.desc, x.ptr, 1.5, y.desc, y.ptr)
    np.testing.assert_allclose(y.values.ravel()[:3], [1, 2.96212, 4.76159], rtol=1e-5)
    x.values = ramp(1, 2, 5, 5, scale=0.1)
    dy, dx = Tensor((1, 2, 5, 5), 1.0), Tensor((1, 2, 5, 5))
    c.activationForward(handle, act_desc(SIGMOID), 1.5, x.desc, x.ptr, 0, y.desc, y.ptr)
    c.activationBackward(handle, act_desc(SIGMOID), 2, y.desc, y.ptr,
                         dy.desc, dy.ptr, x.desc, x.ptr, 0, dx.desc, dx.ptr)
    np.testing.assert_allclose(dx.values.ravel()[[0, 1, 49]], [0.375, 0.334723, -1.4559], rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_in_place(handle, mode):
    x = Tensor(DIMS, draw(*DIMS))
    c.activationForward(handle, act_desc(mode), 2.0, x.desc, x.ptr, 3.0, x.desc, x.ptr)
    np.testing.assert_allclose(x.values,
                               2 * forward(draw(*DIMS), mode) + 3 * draw(*DIMS), rtol=1e-6, atol=1e-6)
    y, dy = Tensor(DIMS, forward(draw(*DIMS), mode)), Tensor(DIMS, draw(*DIMS, seed=1))
    want = gradient(y.values, dy.values, y.values, mode)
    # x is the y buffer
    c.activationBackward(handle, act_desc(mode), 1, y.desc, y.ptr,
                         dy.desc, dy.ptr, y.desc, y.ptr, 0, dy.desc, dy.ptr)
    np.testing.assert_allclose(dy.values, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", (RELU, CLIPPED))
def test_relu_selects(handle, mode):
    nan, inf = np.nan, np.inf
    x, dy = Tensor((1, 1, 1, 4), [-1, nan, 0.5, 0]), Tensor((1, 1, 1, 4), [inf, 1, 2, nan])
    for option, of_nan in ((IGNORE, 0.0), (PROPAGATE, nan)):
        y, dx = Tensor((1, 1, 1, 4)), Tensor((1, 1, 1, 4))
        c.activationForward(handle, act_desc(mode, option), 1, x.desc, x.ptr, 0, y.desc, y.ptr)
        np.testing.assert_array_equal(y.values.ravel(), [0, of_nan, 0.5, 0])
        c.activationBackward(handle, act_desc(mode, option), 1, y.desc, y.ptr,
                             dy.desc, dy.ptr, x.desc, x.ptr, 0, dx.desc, dx.ptr)
        np.testing.assert_array_equal(dx.values.ravel(), [0, of_nan, 2, 0])


def test_double_has_double_math(handle):
    x, y = Tensor((1, 1, 1, 1), 0.3, DOUBLE), Tensor((1, 1, 1, 1), 0, DOUBLE)
    c.activationForward(handle, act_desc(TANH), 1, x.desc, x.ptr, 0, y.desc, y.ptr)
    assert abs(y.values.item() - np.tanh(0.3)) < 1e-15


def test_a_ceiling_below_0(handle):
    """min(max(x, 0), ceiling) is the ceiling, and nothing is between them."""
    x, y, dx = Tensor((1, 1, 1, 3), [-2, 0, 2]), Tensor((1, 1, 1, 3)), Tensor((1, 1, 1, 3), 5.0)
    how = act_desc(CLIPPED, ceiling=-1.0)
    c.activationForward(handle, how, 1, x.desc, x.ptr, 0, y.desc, y.ptr)
    c.activationBackward(handle, how, 1, y.desc, y.ptr, x.desc, x.ptr, x.desc, x.ptr, 0, dx.desc, dx.ptr)
    assert y.values.ravel().tolist() == [-1] * 3 and not dx.values.any()
