"""cudnnIm2Col of the v5.0.4 header, which no guide describes.

>>> import numpy as np
>>> from cydnn import cudnn
>>> handle, convDesc = cudnn.create("numpy"), cudnn.createConvolutionDescriptor()
>>> cudnn.setConvolution2dDescriptor(convDesc, 0, 0, 1, 1, 1, 1, cudnn.CUDNN_CROSS_CORRELATION)
>>> xDesc, wDesc = cudnn.createTensorDescriptor(), cudnn.createFilterDescriptor()
>>> cudnn.setTensor4dDescriptor(xDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 1, 3, 3)
>>> cudnn.setFilter4dDescriptor(wDesc, cudnn.CUDNN_DATA_FLOAT, cudnn.CUDNN_TENSOR_NCHW, 1, 1, 2, 2)
>>> x, columns = np.arange(9, dtype=np.float32), np.zeros((4, 4), np.float32)
"""
from __future__ import annotations

from .._core import compute
from ..ops import Im2col
from .arguments import public
from .call import Compute, Work, same_types
from .convolution import CONVOLUTION, output_dims
from .enums import CONVOLUTION_MODE
from .filter import FILTER
from .tensor import TENSOR


def _im2col(call, x, w, conv) -> Work:
    output_dims(call.function, conv, x.dims, w.desc.dims, ("xDesc", "wDesc"))
    call.require(x.rank <= 5, f"xDesc must have rank 3 to 5; got {x.rank}")
    same_types(call, xDesc=x, wDesc=w.desc)
    op = Im2col(window=w.desc.dims[2:], pre_pad=conv.pad, post_pad=conv.pad, stride=conv.stride,
                mode=CONVOLUTION_MODE.word(conv.mode), compute=x.dtype.compute)
    return Work(op, dict(x=x))


IM2COL = Compute("cudnnIm2Col", dict(xDesc=TENSOR, wDesc=FILTER, convDesc=CONVOLUTION), "x colBuffer", "",
                 _im2col)


@public("v5.0.4")
def im2Col(handle, xDesc, x, wDesc, convDesc, colBuffer):
    """colBuffer, in the type of x, becomes a matrix of c * r * s rows and n * p * q columns, row by row: the
    pixels under every tap of the filter, 0 in the padding. Filters (NCHW) as a matrix of k rows times it are
    the convolution; with CUDNN_CONVOLUTION the taps are flipped.

    >>> cudnn.im2Col(handle, xDesc, x, wDesc, convDesc, columns)
    >>> columns.tolist()
    [[0.0, 1.0, 3.0, 4.0], [1.0, 2.0, 4.0, 5.0], [3.0, 4.0, 6.0, 7.0], [4.0, 5.0, 7.0, 8.0]]
    """
    compute(IM2COL, handle, (xDesc, wDesc, convDesc), (x, colBuffer), ())
