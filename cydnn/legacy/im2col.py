"""cudnnIm2Col of the v5.0.4 header, which no guide describes."""
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
    the convolution; with CUDNN_CONVOLUTION the taps are flipped."""
    compute(IM2COL, handle, (xDesc, wDesc, convDesc), (x, colBuffer), ())
