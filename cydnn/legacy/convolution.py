"""Convolution descriptors: cudnnCreateConvolutionDescriptor
to cudnnDestroyConvolutionDescriptor. Spec: legacy API, 3.5.

>>> from cydnn import cudnn
>>> convDesc, xDesc = cudnn.createConvolutionDescriptor(), cudnn.createTensorDescriptor()
>>> cudnn.setConvolution2dDescriptor(convDesc, 1, 1, 2, 2, 1, 1, cudnn.CUDNN_CROSS_CORRELATION)
>>> cudnn.setTensor4dDescriptor(xDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 2, 8, 6, 6)
>>> wDesc = cudnn.createFilterDescriptor()
>>> cudnn.setFilter4dDescriptor(wDesc, cudnn.CUDNN_DATA_FLOAT, cudnn.CUDNN_TENSOR_NCHW, 16, 8, 3, 3)
"""
from __future__ import annotations

from typing import NamedTuple

from ..ops.window import window_out
from ..status import NotSupported, require
from .arguments import Kind, at_least, each, integer, integers, listed, public
from .enums import CONSTANTS, CONVOLUTION_MODE, DATA_TYPE
from .filter import FILTER
from .tensor import MAX_RANK, TENSOR


class Convolution(NamedTuple):
    """``compute`` is None after a 2-d setter: the math type then follows the data
    (DOUBLE for DOUBLE, else FLOAT)."""
    pad: tuple
    stride: tuple
    upscale: tuple
    mode: int
    compute: int | None


def _text(fields: Convolution) -> str:
    words = [f"pad{listed(fields.pad)} stride{listed(fields.stride)}",
             f"mode={CONVOLUTION_MODE.word(fields.mode)}"]
    return " ".join(words + ([] if fields.compute is None else [f"acc={DATA_TYPE.word(fields.compute)}"]))


OF_THE_DATA = object()                           # the math type that a 2-d setter leaves open
CONVOLUTION = Kind("convolution descriptor", text=_text)


def _set(function, convDesc, pad, stride, upscale, mode, compute):
    found = CONVOLUTION.resolve(function, "convDesc", convDesc)
    mode = CONVOLUTION_MODE.check(function, "mode", mode)
    compute = None if compute is OF_THE_DATA else DATA_TYPE.check(function, "dataType", compute)
    at_least(function, 0, pad=pad)
    at_least(function, 1, stride=stride)
    require(set(upscale) == {1}, f"{function}: upscale must be 1 (dilation, as later versions read it, "
                                 f"is not part of v5); got {upscale}", NotSupported)
    CONVOLUTION.set(found, Convolution(pad, stride, upscale, mode, compute))


@public("g33")
def createConvolutionDescriptor():
    """A convolution descriptor that is not set yet.

    >>> cudnn.createConvolutionDescriptor()
    ConvolutionDescriptor(not set)
    """
    return CONVOLUTION.create()


@public("g34", setConvolution2dDescriptor_v4="")
def setConvolution2dDescriptor(convDesc, pad_h, pad_w, u, v, upscalex, upscaley, mode) -> None:
    """Two spatial dims: u is the vertical stride, v the horizontal one; the padding
    is symmetric. upscale must be 1.

    >>> cudnn.setConvolution2dDescriptor(convDesc, 0, 1, 1, 2, 1, 1, cudnn.CUDNN_CONVOLUTION)
    >>> convDesc
    ConvolutionDescriptor(pad0,1 stride1,2 mode=convolution)
    """
    function = "cudnnSetConvolution2dDescriptor"
    _set(function, convDesc, each(function, pad_h=pad_h, pad_w=pad_w), each(function, u=u, v=v),
         each(function, upscaley=upscaley, upscalex=upscalex), mode, OF_THE_DATA)


@public("v5.0.4")
def setConvolution2dDescriptor_v5(convDesc, pad_h, pad_w, u, v, upscalex, upscaley, mode, dataType) -> None:
    """The same, with the math type.

    >>> cudnn.setConvolution2dDescriptor_v5(convDesc, 1, 1, 1, 1, 1, 1, cudnn.CUDNN_CROSS_CORRELATION,
    ...                                     cudnn.CUDNN_DATA_FLOAT)
    >>> convDesc
    ConvolutionDescriptor(pad1,1 stride1,1 mode=cross_correlation acc=f32)
    """
    function = "cudnnSetConvolution2dDescriptor_v5"
    _set(function, convDesc, each(function, pad_h=pad_h, pad_w=pad_w), each(function, u=u, v=v),
         each(function, upscaley=upscaley, upscalex=upscalex), mode, dataType)


def _fields_2d(function, convDesc) -> Convolution:
    fields = CONVOLUTION.fields(function, "convDesc", convDesc)
    require(len(fields.pad) == 2, f"{function}: convDesc must have 2 spatial dims; got {len(fields.pad)}")
    return fields


def _compute(fields: Convolution) -> int:
    return CONSTANTS["CUDNN_DATA_FLOAT"] if fields.compute is None else fields.compute


@public("g35")
def getConvolution2dDescriptor(convDesc):
    """(pad_h, pad_w, u, v, upscalex, upscaley, mode)

    >>> cudnn.getConvolution2dDescriptor(convDesc)
    (1, 1, 2, 2, 1, 1, 1)
    """
    fields = _fields_2d("cudnnGetConvolution2dDescriptor", convDesc)
    return (*fields.pad, *fields.stride, *fields.upscale[::-1], fields.mode)


@public("v5.0.4")
def getConvolution2dDescriptor_v5(convDesc):
    """(pad_h, pad_w, u, v, upscalex, upscaley, mode, dataType)

    >>> cudnn.getConvolution2dDescriptor_v5(convDesc)
    (1, 1, 2, 2, 1, 1, 1, 0)
    """
    fields = _fields_2d("cudnnGetConvolution2dDescriptor_v5", convDesc)
    return (*fields.pad, *fields.stride, *fields.upscale[::-1], fields.mode, _compute(fields))


@public("g37", setConvolutionNdDescriptor_v3="")
def setConvolutionNdDescriptor(convDesc, arrayLength, padA, filterStrideA, upscaleA, mode, dataType) -> None:
    """``arrayLength`` spatial dims (2 or 3 are usable); ``dataType`` is the math type. upscale must be 1.

    >>> cudnn.setConvolutionNdDescriptor(convDesc, 3, (0, 1, 1), (1, 2, 2), (1, 1, 1),
    ...                                  cudnn.CUDNN_CROSS_CORRELATION, cudnn.CUDNN_DATA_FLOAT)
    >>> convDesc
    ConvolutionDescriptor(pad0,1,1 stride1,2,2 mode=cross_correlation acc=f32)
    """
    function = "cudnnSetConvolutionNdDescriptor"
    count = integer(function, "arrayLength", arrayLength)
    at_least(function, 1, arrayLength=count)
    require(count <= MAX_RANK, f"{function}: arrayLength must be <= {MAX_RANK}; got {count}", NotSupported)
    arrays = [integers(function, name, a, count)
              for name, a in (("padA", padA), ("filterStrideA", filterStrideA), ("upscaleA", upscaleA))]
    _set(function, convDesc, *arrays, mode, dataType)


@public("g38")
def getConvolutionNdDescriptor(convDesc, arrayLengthRequested):
    """(arrayLength, padA, filterStrideA, upscaleA, mode, dataType); arrays have
    min(arrayLengthRequested, arrayLength) entries.

    >>> cudnn.getConvolutionNdDescriptor(convDesc, 8)
    (2, (1, 1), (2, 2), (1, 1), 1, 0)
    """
    function = "cudnnGetConvolutionNdDescriptor"
    fields = CONVOLUTION.fields(function, "convDesc", convDesc)
    count = integer(function, "arrayLengthRequested", arrayLengthRequested)
    at_least(function, 0, arrayLengthRequested=count)
    require(count <= MAX_RANK,
            f"{function}: arrayLengthRequested must be <= {MAX_RANK}; got {count}", NotSupported)
    return (len(fields.pad), fields.pad[:count], fields.stride[:count],
            fields.upscale[:count], fields.mode, _compute(fields))


def output_dims(function, conv: Convolution, image_dims, filter_dims,
                names=("inputTensorDesc", "filterDesc")) -> tuple:
    """(n, k, out…) of a forward convolution; BadParam when the three do not go together."""
    image, filter_ = names
    require(len(image_dims) >= 3, f"{function}: {image} must have rank >= 3; got {len(image_dims)}")
    require(len(filter_dims) == len(image_dims),
            f"{function}: {filter_} must have rank {len(image_dims)} like {image}; got {len(filter_dims)}")
    require(len(conv.pad) == len(image_dims) - 2, f"{function}: convDesc must have {len(image_dims) - 2} "
                                                  f"spatial dims like {image}; got {len(conv.pad)}")
    require(filter_dims[1] == image_dims[1],
            f"{function}: {filter_} must have c = {image_dims[1]} like {image}; got {filter_dims[1]}")
    out = window_out(image_dims[2:], filter_dims[2:], conv.pad, conv.pad, conv.stride, (1,) * len(conv.pad))
    require(min(out) >= 1, f"{function}: {filter_} must fit into the padded {image}; "
                           f"got filter {filter_dims[2:]}, image {image_dims[2:]}, padding {conv.pad}")
    return (image_dims[0], filter_dims[0], *out)


def _output_dims(function, convDesc, inputTensorDesc, filterDesc) -> tuple:
    conv = CONVOLUTION.fields(function, "convDesc", convDesc)
    image = TENSOR.fields(function, "inputTensorDesc", inputTensorDesc)
    filter_ = FILTER.fields(function, "filterDesc", filterDesc)
    return output_dims(function, conv, image.dims, filter_.dims)


@public("g36")
def getConvolution2dForwardOutputDim(convDesc, inputTensorDesc, filterDesc):
    """(n, c, h, w) of the output: 1 + (i + 2 pad - filter) // stride in each spatial dim.

    >>> cudnn.getConvolution2dForwardOutputDim(convDesc, xDesc, wDesc)
    (2, 16, 3, 3)
    """
    function = "cudnnGetConvolution2dForwardOutputDim"
    _fields_2d(function, convDesc)
    return _output_dims(function, convDesc, inputTensorDesc, filterDesc)


@public("g39")
def getConvolutionNdForwardOutputDim(convDesc, inputTensorDesc, filterDesc, nbDims):
    """The first ``nbDims`` dims of the output.

    >>> cudnn.getConvolutionNdForwardOutputDim(convDesc, xDesc, wDesc, 4)
    (2, 16, 3, 3)
    """
    function = "cudnnGetConvolutionNdForwardOutputDim"
    out = _output_dims(function, convDesc, inputTensorDesc, filterDesc)
    nbDims = integer(function, "nbDims", nbDims)
    at_least(function, 0, nbDims=nbDims)
    require(nbDims <= len(out), f"{function}: nbDims must be <= the rank {len(out)}; got {nbDims}")
    return out[:nbDims]


@public("g40")
def destroyConvolutionDescriptor(convDesc) -> None:
    """NULL is a no-op.

    >>> cudnn.destroyConvolutionDescriptor(convDesc)
    >>> convDesc
    ConvolutionDescriptor(destroyed)
    """
    CONVOLUTION.destroy("cudnnDestroyConvolutionDescriptor", "convDesc", convDesc)
