"""g59 to g76: pooling descriptors, output sizes, forward and backward."""
import itertools

import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.dtypes import BY_ENUM

from .arrays import FLOAT, FLOATS, Tensor, draw, ramp, tensor_desc, tolerance

MAX, INCLUDE, EXCLUDE = (c.CUDNN_POOLING_MAX, c.CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING,
                         c.CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING)
IGNORE, PROPAGATE = c.CUDNN_NOT_PROPAGATE_NAN, c.CUDNN_PROPAGATE_NAN


def pool_desc(window, pad, stride, mode=MAX, nan=IGNORE):
    desc = c.createPoolingDescriptor()
    c.setPoolingNdDescriptor(desc, mode, nan, len(window), window, pad, stride)
    return desc


# -- Descriptors ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize("suffix", ("", "_v4"))
def test_descriptors(suffix):
    set2, get2, setn, getn = (getattr(c, n + suffix)
                              for n in ("setPooling2dDescriptor", "getPooling2dDescriptor",
                                        "setPoolingNdDescriptor", "getPoolingNdDescriptor"))
    desc = c.createPoolingDescriptor()
    assert set2(desc, INCLUDE, PROPAGATE, 3, 4, 1, 2, 5, 6) is None
    assert get2(desc) == (INCLUDE, PROPAGATE, 3, 4, 1, 2, 5, 6)
    assert (getn(desc, 8) == (INCLUDE, PROPAGATE, 2, (3, 4), (1, 2), (5, 6))
            and getn(desc, 1) == (INCLUDE, PROPAGATE, 2, (3,), (1,), (5,)))
    setn(desc, EXCLUDE, IGNORE, 3, [2, 3, 4], [0, 1, 2], [1, 2, 3])
    assert getn(poolingDesc=desc, nbDimsRequested=3) == (EXCLUDE, IGNORE, 3, (2, 3, 4), (0, 1, 2), (1, 2, 3))
    assert c.CUDNN_POOLING_AVERAGE == INCLUDE


def test_v3_descriptors_do_not_propagate_nan():
    desc = c.createPoolingDescriptor()
    c.setPooling2dDescriptor_v3(desc, MAX, 3, 4, 1, 2, 5, 6)
    assert (c.getPooling2dDescriptor_v3(desc) == (MAX, 3, 4, 1, 2, 5, 6)
            and c.getPooling2dDescriptor(desc)[1] == IGNORE)
    c.setPoolingNdDescriptor_v3(desc, MAX, 3, (2, 3, 4), (0, 1, 2), (1, 2, 3))
    assert (c.getPoolingNdDescriptor_v3(desc, 2) == (MAX, 3, (2, 3), (0, 1), (1, 2))
            and c.getPoolingNdDescriptor(desc, 0)[1] == IGNORE)


@pytest.mark.parametrize("size, window, pad, stride",
                         [(5, 4, 3, 2), (224, 3, 1, 2), (7, 7, 0, 1), (3, 2, 5, 4), (8, 2, 0, 3)])
def test_output_dims(size, window, pad, stride):
    out = 1 + (size + 2 * pad - window) // stride
    two = pool_desc((window, 1), (pad, 0), (stride, 1)), tensor_desc(2, 3, size, 4)
    assert c.getPooling2dForwardOutputDim(*two) == c.getPoolingNdForwardOutputDim(*two, 4) == (2, 3, out, 4)
    three = pool_desc((1, window, 1), (0, pad, 0), (1, stride, 1)), tensor_desc(2, 3, 4, size, 4)
    assert c.getPoolingNdForwardOutputDim(*three, 5) == (2, 3, 4, out, 4)


# -- Compute -------------------------------------------------------------------------------------------------

def windows(x_dims, y_dims, window, pad, stride):
    """(y index, the x indices inside the tensor, in row-major order)"""
    for n, ch, *out in itertools.product(*map(range, y_dims)):
        corner = [o * s - p for o, s, p in zip(out, stride, pad)]
        cells = itertools.product(*(range(k, k + w) for k, w in zip(corner, window)))
        yield ((n, ch, *out),
               [(n, ch, *cell) for cell in cells if all(0 <= i < d for i, d in zip(cell, x_dims[2:]))])


def plain(x, y_dims, geometry, mode, lowest):
    """(y, shares): the pooled values and what part of dy each cell gets, by loops."""
    y, shares = np.zeros(y_dims), []
    for out, cells in windows(x.shape, y_dims, *geometry):
        if mode == MAX:
            usable = [at for at in cells if not np.isnan(x[at])]
            best = max(usable, key=lambda at: x[at], default=None)
            y[out] = lowest if best is None else x[best]
            shares += [(out, best, 1.0)] if best else []
        else:
            divisor = np.prod(geometry[0]) if mode == INCLUDE else max(len(cells), 1)
            y[out] = sum(x[at] for at in cells) / divisor
            shares += [(out, at, 1.0 / divisor) for at in cells]
    return y, shares


CASES = [((2, 3, 5, 4), ((3, 2), (1, 0), (2, 1))), ((1, 2, 5, 5), ((4, 4), (3, 3), (2, 2))),
         ((1, 1, 3, 3), ((2, 2), (2, 2), (3, 1))), ((1, 2, 3, 4, 3), ((2, 3, 1), (1, 1, 0), (1, 2, 2)))]


@pytest.mark.parametrize("mode", (MAX, INCLUDE, EXCLUDE))
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", ("nchw", "nhwc"))
@pytest.mark.parametrize("x_dims, geometry", CASES)
def test_forward_and_backward(handle, mode, dtype, layout, x_dims, geometry):
    pool, x = pool_desc(*geometry, mode), Tensor(x_dims, draw(*x_dims), dtype, layout)
    y_dims = c.getPoolingNdForwardOutputDim(pool, x.desc, len(x_dims))
    y = Tensor(y_dims, None, dtype, layout)
    want, shares = plain(x.values, y_dims, geometry, mode, BY_ENUM[dtype].lowest)
    c.poolingForward(handle, pool, 1.0, x.desc, x.ptr, 0.0, y.desc, y.ptr)
    np.testing.assert_allclose(y.values, want, rtol=tolerance(dtype), atol=tolerance(dtype))
    dy, dx = (Tensor(y_dims, draw(*y_dims, seed=1), dtype, layout),
              Tensor(x_dims, draw(*x_dims, seed=2), dtype, layout))
    y.values = 7.0                               # must not be searched for in x
    c.poolingBackward(handle, pool, 2.0, y.desc, y.ptr, dy.desc, dy.ptr, x.desc, x.ptr, 0.5, dx.desc, dx.ptr)
    gradient = np.zeros(x_dims)
    for out, at, share in shares:
        gradient[at] += share * dy.values[out]
    np.testing.assert_allclose(dx.values, 2 * gradient + 0.5 * draw(*x_dims, seed=2),
                               rtol=tolerance(dtype), atol=tolerance(dtype, 4))
    assert y.stray_bytes() == dx.stray_bytes() == 0


def test_forward_blend(handle):
    x, y = Tensor((1, 1, 2, 2), [1, 2, 3, 4]), Tensor((1, 1, 1, 1), 10.0)
    c.poolingForward(handle, pool_desc((2, 2), (0, 0), (1, 1)), 2.0, x.desc, x.ptr, 0.5, y.desc, y.ptr)
    assert y.values.item() == 13


def test_recorded_forward(handle):
    x, y = Tensor((1, 2, 5, 5), ramp(1, 2, 5, 5)), Tensor((1, 2, 4, 4))
    c.poolingForward(handle, pool_desc((4, 4), (3, 3), (2, 2)), 1, x.desc, x.ptr, 0, y.desc, y.ptr)
    np.testing.assert_array_equal(y.values[0, 0],
                                  [[0, 2, 4, 4], [10, 12, 14, 14], [20, 22, 24, 24], [20, 22, 24, 24]])


def test_recorded_backward(handle):
    dims = (1, 2, 5, 5)
    x, pool = Tensor(dims, ramp(*dims, scale=0.1)), pool_desc((4, 4), (3, 3), (2, 2))
    y, dy, dx = Tensor((1, 2, 4, 4), ramp(1, 2, 4, 4)), Tensor((1, 2, 4, 4), 1.0), Tensor(dims, ramp(*dims))
    c.poolingForward(handle, pool, 1.5, x.desc, x.ptr, 1, y.desc, y.ptr)
    c.poolingBackward(handle, pool, 1.5, y.desc, y.ptr, dy.desc, dy.ptr, x.desc, x.ptr, 1, dx.desc, dx.ptr)
    want = [[1.5, 1, 3.5, 3, 7], [5, 6, 7, 8, 9], [11.5, 11, 13.5, 13, 17],
            [15, 16, 17, 18, 19], [23, 21, 25, 23, 30]]
    np.testing.assert_allclose(dx.values[0, 0], want, rtol=1e-6)


def test_nan(handle):
    nan = np.nan
    x, dy = Tensor((1, 1, 2, 4), [[1, nan, nan, nan], [3, 2, nan, nan]]), Tensor((1, 1, 1, 2), [[1.0, 2.0]])
    lowest = BY_ENUM[FLOAT].lowest
    for option, want, gradient in ((IGNORE, [3, lowest], [[0, 0, 0, 0], [1, 0, 0, 0]]),
                                   (PROPAGATE, [nan, nan], [[0, 1, 2, 0], [0, 0, 0, 0]])):
        pool, y, dx = (pool_desc((2, 2), (0, 0), (2, 2), MAX, option),
                       Tensor((1, 1, 1, 2)), Tensor((1, 1, 2, 4)))
        c.poolingForward(handle, pool, 1, x.desc, x.ptr, 0, y.desc, y.ptr)
        np.testing.assert_array_equal(y.values.ravel(), want)
        c.poolingBackward(handle, pool, 1, y.desc, y.ptr, dy.desc, dy.ptr, x.desc, x.ptr, 0, dx.desc, dx.ptr)
        np.testing.assert_array_equal(dx.values[0, 0], gradient)
    for mode in (INCLUDE, EXCLUDE):
        c.poolingForward(handle, pool_desc((2, 2), (0, 0), (2, 2), mode), 1, x.desc, x.ptr, 0, y.desc, y.ptr)
        assert np.isnan(y.values).all()
