"""im2Col: the windows of images as columns."""
import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.status import BadParam

from .arrays import (DOUBLE, FLOAT, FLOATS, HALF, Filter, Tensor, conv_desc, draw, filter_desc, tensor_desc,
                     tolerance)

FLIPPED, PLAIN = c.CUDNN_CONVOLUTION, c.CUDNN_CROSS_CORRELATION
X, W = (2, 3, 6, 7), (4, 3, 3, 2)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", ("nchw", "nhwc"))
@pytest.mark.parametrize("pad, stride, mode", [((0, 0), (1, 1), PLAIN), ((1, 2), (2, 1), PLAIN),
                                               ((1, 1), (1, 2), FLIPPED)])
def test_the_filter_times_the_columns_is_the_convolution(handle, dtype, layout, pad, stride, mode):
    conv = conv_desc(pad, stride, mode, DOUBLE if dtype == DOUBLE else FLOAT)
    x, w = Tensor(X, draw(*X), dtype, layout), Filter(W, draw(*W, seed=1), dtype)
    dims = c.getConvolutionNdForwardOutputDim(conv, x.desc, w.desc, 4)
    columns, y = Tensor((18, dims[0] * dims[2] * dims[3], 1), dtype=dtype), Tensor(dims, dtype=dtype)
    c.im2Col(handle, x.desc, x.ptr, w.desc, conv, columns.ptr)
    c.convolutionForward(handle, 1, x.desc, x.ptr, w.desc, w.ptr, conv, 0, 0, 0, 0, y.desc, y.ptr)
    want = w.values.reshape(4, 18) @ columns.values[..., 0]
    want = np.moveaxis(want.reshape(4, dims[0], *dims[2:]), 0, 1)
    np.testing.assert_allclose(y.values, want, atol=tolerance(dtype, 64))
    assert columns.stray_bytes() == 0


def test_the_order_of_rows_and_columns(handle):
    x, columns = Tensor((2, 2, 2, 3), np.arange(24.0) + 1), Tensor((4, 8, 1))
    c.im2Col(handle, x.desc, x.ptr, filter_desc(1, 2, 1, 2), conv_desc((0, 1), (1, 2)), columns.ptr)
    want = [[0, 2, 0, 5, 0, 14, 0, 17], [1, 3, 4, 6, 13, 15, 16, 18],
            [0, 8, 0, 11, 0, 20, 0, 23], [7, 9, 10, 12, 19, 21, 22, 24]]
    np.testing.assert_array_equal(columns.values[..., 0], want)


def test_three_spatial_dims(handle):
    x, columns = Tensor((1, 2, 3, 4, 5), draw(1, 2, 3, 4, 5)), Tensor((24, 8, 1))
    c.im2Col(handle, x.desc, x.ptr, filter_desc(1, 2, 2, 3, 2), conv_desc((0,) * 3, (1, 1, 2)), columns.ptr)
    for row, (ch, t, r, s) in enumerate(np.ndindex(2, 2, 3, 2)):
        want = x.values[0, ch, t:t + 2, r:r + 2, s:s + 4:2]
        np.testing.assert_array_equal(columns.values[row, :, 0], want.reshape(-1))


GIVEN = dict(xDesc=tensor_desc(*X), x=1, wDesc=filter_desc(*W), convDesc=conv_desc(), colBuffer=1)


@pytest.mark.parametrize("changed, words", [
    (dict(xDesc=0), "xDesc must not be NULL"), (dict(wDesc=0), "wDesc must not be NULL"),
    (dict(convDesc=0), "convDesc must not be NULL"), (dict(x=0), "x must not be NULL"),
    (dict(colBuffer=0), "colBuffer must not be NULL"), (dict(handle=0), "handle must not be NULL"),
    (dict(xDesc=c.createTensorDescriptor()), "xDesc must be set"),
    (dict(wDesc=c.createFilterDescriptor()), "wDesc must be set"),
    (dict(convDesc=c.createConvolutionDescriptor()), "convDesc must be set"),
    (dict(wDesc=filter_desc(4, 2, 3, 2)), "wDesc must have c = 3 like xDesc; got 2"),
    (dict(wDesc=filter_desc(4, 3, 3, 2, 2)), "wDesc must have rank 4 like xDesc; got 5"),
    (dict(wDesc=filter_desc(4, 3, 7, 2)), "wDesc must fit into the padded xDesc; got filter"),
    (dict(convDesc=conv_desc((0,) * 3, (1,) * 3)), "convDesc must have 2 spatial dims like xDesc; got 3"),
    (dict(wDesc=filter_desc(*W, dtype=HALF)), "wDesc must have data type f32 like xDesc; got f16")])
def test_refusals(handle, refused, changed, words):
    x, columns = Tensor(X, draw(*X)), Tensor((18, 40, 1))
    given = dict(handle=handle, **{**GIVEN, "x": x.ptr, "colBuffer": columns.ptr})
    refused(c.im2Col, BadParam, "cudnnIm2Col: " + words, **{**given, **changed})
    assert (columns.raw == 0xFF).all()
