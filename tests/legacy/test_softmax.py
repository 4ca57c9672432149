"""g57 and g58: softmax."""
import numpy as np
import pytest

from cydnn import cudnn as c

from .arrays import FLOATS, Tensor, draw, ramp, tolerance

FAST, ACCURATE, LOG = c.CUDNN_SOFTMAX_FAST, c.CUDNN_SOFTMAX_ACCURATE, c.CUDNN_SOFTMAX_LOG
INSTANCE, CHANNEL = c.CUDNN_SOFTMAX_MODE_INSTANCE, c.CUDNN_SOFTMAX_MODE_CHANNEL


def softmax(x, algorithm, mode):
    axes = (1,) if mode == CHANNEL else tuple(range(1, x.ndim))
    e = np.exp(x - x.max(axis=axes, keepdims=True))
    p = e / e.sum(axis=axes, keepdims=True)
    return (np.log(p) if algorithm == LOG else p), axes


@pytest.mark.parametrize("algorithm", (FAST, ACCURATE, LOG))
@pytest.mark.parametrize("mode", (INSTANCE, CHANNEL))
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dims", [(2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 2, 2), (2, 3, 2, 1, 2, 2)])
def test_forward_and_backward(handle, algorithm, mode, dtype, dims):
    x, y = Tensor(dims, draw(*dims), dtype), Tensor(dims, draw(*dims, seed=1), dtype)
    c.softmaxForward(handle, algorithm, mode, 2.0, x.desc, x.ptr, 0.5, y.desc, y.ptr)
    plain, axes = softmax(x.values, algorithm, mode)
    np.testing.assert_allclose(y.values, 2 * plain + 0.5 * draw(*dims, seed=1),
                               rtol=tolerance(dtype), atol=tolerance(dtype))
    dy, dx = Tensor(dims, draw(*dims, seed=2), dtype), Tensor(dims, draw(*dims, seed=3), dtype)
    c.softmaxBackward(handle, algorithm, mode, 2.0, y.desc, y.ptr, dy.desc, dy.ptr, 0.5, dx.desc, dx.ptr)
    yv, g = y.values, dy.values                  # y exactly as passed, blended as it is
    want = (g - np.exp(yv) * g.sum(axis=axes, keepdims=True) if algorithm == LOG
            else yv * (g - (g * yv).sum(axis=axes, keepdims=True)))
    np.testing.assert_allclose(dx.values, 2 * want + 0.5 * draw(*dims, seed=3),
                               rtol=tolerance(dtype), atol=tolerance(dtype, 100))


@pytest.mark.parametrize("algorithm, blend, old, places, want", [
    (ACCURATE, (2, 0), np.nan, (0, 25), (-0.113787, -1.38621)),
    (LOG, (2, 3), ramp(1, 2, 5, 5), (0, 25), (1.91643, 73.4464))])
def test_recorded_values(handle, algorithm, blend, old, places, want):
    dims = (1, 2, 5, 5)
    x, y, dy, dx = Tensor(dims, ramp(*dims, scale=0.1)), Tensor(dims), Tensor(dims, 1.0), Tensor(dims, old)
    c.softmaxForward(handle, algorithm, CHANNEL, 1.5, x.desc, x.ptr, 0, y.desc, y.ptr)
    c.softmaxBackward(handle, algorithm, CHANNEL, blend[0], y.desc, y.ptr,
                      dy.desc, dy.ptr, blend[1], dx.desc, dx.ptr)
    np.testing.assert_allclose(dx.values.ravel()[list(places)], want, rtol=1e-5)
    if algorithm == ACCURATE:
        np.testing.assert_allclose(dx.values[0, 0], np.full((5, 5), want[0]), rtol=1e-5)


def test_corners(handle):
    x, y = Tensor((3, 2, 1, 1), [[1000, 1001], [-np.inf, -np.inf], [np.nan, 0]]), Tensor((3, 2, 1, 1))
    c.softmaxForward(handle, ACCURATE, CHANNEL, 1, x.desc, x.ptr, 0, y.desc, y.ptr)
    np.testing.assert_allclose(y.values.reshape(3, 2),
                               [[1 / (1 + np.e), np.e / (1 + np.e)], [np.nan] * 2, [np.nan] * 2], rtol=1e-6)


def test_strides_and_in_place(handle):
    dims = (2, 3, 4, 5)
    x = Tensor(dims, draw(*dims), strides=(300, 2, 60, 11))
    y, want = Tensor(dims, None, layout="nhwc"), softmax(draw(*dims), ACCURATE, CHANNEL)[0]
    c.softmaxForward(handle, ACCURATE, CHANNEL, 1, x.desc, x.ptr, 0, y.desc, y.ptr)
    np.testing.assert_allclose(y.values, want, rtol=1e-6)
    c.softmaxForward(handle, ACCURATE, CHANNEL, 1, x.desc, x.ptr, 0, x.desc, x.ptr)
    np.testing.assert_allclose(x.values, want, rtol=1e-6)
    assert x.stray_bytes() == 0
    y, dy = Tensor(dims, want), Tensor(dims, draw(*dims, seed=2))
    c.softmaxBackward(handle, ACCURATE, CHANNEL, 1, y.desc, y.ptr, dy.desc, dy.ptr, 1, dy.desc, dy.ptr)
    g = draw(*dims, seed=2)
    np.testing.assert_allclose(dy.values,
                               want * (g - (g * want).sum(axis=1, keepdims=True)) + g, rtol=1e-5, atol=1e-6)
