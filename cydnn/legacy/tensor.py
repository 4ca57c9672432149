"""Tensor descriptors: cudnnCreateTensorDescriptor to cudnnDestroyTensorDescriptor. Spec: legacy API, 3.2.

Dims are always in the order n, c, spatial…; the layout is only in the strides, in elements.

>>> from cydnn import cudnn
>>> tensorDesc = cudnn.createTensorDescriptor()
>>> cudnn.setTensor4dDescriptor(tensorDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 2, 3, 4, 5)
"""
from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..dtypes import BY_ENUM
from ..status import NotSupported, require
from ..tensor import TensorDesc, packed_strides
from .arguments import Kind, at_least, integer, integers, public
from .enums import DATA_TYPE, TENSOR_FORMAT

MAX_EXTENT = 2 ** 31                             # elements from the first to the last
MAX_RANK, MIN_RANK = 8, 3


class TensorFields(NamedTuple):
    dtype: int
    dims: tuple
    strides: tuple


def sizes(dims, letters: str) -> str:
    """n2c8h6w6: letters of two dims and of up to three spatial ones; numbers alone beyond."""
    if len(dims) > len(letters):
        return "x".join(map(str, dims))
    names = letters[:2] + letters[len(letters) + 2 - len(dims):]
    return "".join(f"{letter}{size}" for letter, size in zip(names, dims))


def _text(fields: TensorFields) -> str:
    desc = TensorDesc(BY_ENUM[fields.dtype], fields.dims, fields.strides)
    layout = desc.layout or "strides=" + ",".join(map(str, desc.strides))
    return f"{desc.dtype} {sizes(desc.dims, 'ncdhw')} {layout}"


TENSOR = Kind("tensor descriptor", lambda f: TensorDesc(BY_ENUM[f.dtype], f.dims, f.strides), _text)


def rank_limits(function: str, nbDims) -> int:
    """The rank that an N-d setter may have."""
    rank = integer(function, "nbDims", nbDims)
    at_least(function, MIN_RANK, nbDims=rank)
    require(rank <= MAX_RANK, f"{function}: nbDims must be <= {MAX_RANK}; got {rank}", NotSupported)
    return rank


def requested(function: str, nbDimsRequested) -> int:
    count = integer(function, "nbDimsRequested", nbDimsRequested)
    at_least(function, 0, nbDimsRequested=count)
    return count


def _fields(function, dtype, dims, strides) -> TensorFields:
    extent = 1 + sum((d - 1) * s for d, s in zip(dims, strides))
    require(extent <= MAX_EXTENT,
            f"{function}: the tensor must have at most 2**31 elements from first to last; got {extent}",
            NotSupported)
    return TensorFields(dtype, dims, strides)


# Programs set the same descriptors over and over: the fields of arguments that were good once are remembered.

def remembered(read, *args):
    """``read`` of arguments; those that cannot be remembered are read again, so that it says what is wrong
    with them."""
    try:
        return read(*args)
    except TypeError:
        return read.__wrapped__(*args)


@lru_cache(4096, typed=True)
def _packed_4d(function, format, dataType, n, c, h, w) -> TensorFields:
    layout = TENSOR_FORMAT.content(function, "format", format)
    dtype = DATA_TYPE.check(function, "dataType", dataType)
    dims = at_least(function, 1, n=n, c=c, h=h, w=w)
    return _fields(function, dtype, dims, packed_strides(dims, layout))


@lru_cache(4096, typed=True)
def _strided_4d(function, dataType, n, c, h, w, nStride, cStride, hStride, wStride) -> TensorFields:
    dtype = DATA_TYPE.check(function, "dataType", dataType)
    dims = at_least(function, 1, n=n, c=c, h=h, w=w)
    strides = at_least(function, 0, nStride=nStride, cStride=cStride, hStride=hStride, wStride=wStride)
    return _fields(function, dtype, dims, strides)


@public("g7")
def createTensorDescriptor():
    """A tensor descriptor that is not set yet.

    >>> cudnn.createTensorDescriptor()
    TensorDescriptor(not set)
    """
    return TENSOR.create()


@public("g8")
def setTensor4dDescriptor(tensorDesc, format, dataType, n, c, h, w) -> None:
    """Rank 4, packed in ``format``. Mind the order: format, then data type.

    >>> cudnn.setTensor4dDescriptor(tensorDesc, cudnn.CUDNN_TENSOR_NHWC, cudnn.CUDNN_DATA_HALF, 2, 8, 6, 6)
    >>> tensorDesc
    TensorDescriptor(f16 n2c8h6w6 nhwc)
    """
    function = "cudnnSetTensor4dDescriptor"
    found = TENSOR.resolve(function, "tensorDesc", tensorDesc)
    TENSOR.set(found, remembered(_packed_4d, function, format, dataType, n, c, h, w))


@public("g9")
def setTensor4dDescriptorEx(tensorDesc, dataType, n, c, h, w, nStride, cStride, hStride, wStride) -> None:
    """Rank 4 with explicit strides: any order, gaps and zeros allowed.

    >>> cudnn.setTensor4dDescriptorEx(tensorDesc, cudnn.CUDNN_DATA_FLOAT, 2, 3, 4, 5, 100, 1, 17, 3)
    >>> tensorDesc
    TensorDescriptor(f32 n2c3h4w5 strides=100,1,17,3)
    """
    function = "cudnnSetTensor4dDescriptorEx"
    found = TENSOR.resolve(function, "tensorDesc", tensorDesc)
    TENSOR.set(found, remembered(_strided_4d, function, dataType, n, c, h, w, nStride, cStride, hStride,
                                 wStride))


@public("g10")
def getTensor4dDescriptor(tensorDesc):
    """(dataType, n, c, h, w, nStride, cStride, hStride, wStride)

    >>> cudnn.getTensor4dDescriptor(tensorDesc)
    (0, 2, 3, 4, 5, 60, 20, 5, 1)
    """
    fields = TENSOR.fields("cudnnGetTensor4dDescriptor", "tensorDesc", tensorDesc)
    require(len(fields.dims) == 4,
            f"cudnnGetTensor4dDescriptor: tensorDesc must have rank 4; got {len(fields.dims)}")
    return (fields.dtype, *fields.dims, *fields.strides)


@public("g11")
def setTensorNdDescriptor(tensorDesc, dataType, nbDims, dimA, strideA) -> None:
    """Rank 3 to 8 with explicit strides.

    >>> cudnn.setTensorNdDescriptor(tensorDesc, cudnn.CUDNN_DATA_DOUBLE, 3, (2, 3, 4), (12, 4, 1))
    >>> tensorDesc
    TensorDescriptor(f64 n2c3w4 nchw)
    """
    function = "cudnnSetTensorNdDescriptor"
    found = TENSOR.resolve(function, "tensorDesc", tensorDesc)
    dtype = DATA_TYPE.check(function, "dataType", dataType)
    rank = rank_limits(function, nbDims)
    dims, strides = integers(function, "dimA", dimA, rank), integers(function, "strideA", strideA, rank)
    at_least(function, 1, dimA=dims)
    at_least(function, 0, strideA=strides)
    TENSOR.set(found, _fields(function, dtype, dims, strides))


@public("g12")
def getTensorNdDescriptor(tensorDesc, nbDimsRequested):
    """(dataType, nbDims, dimA, strideA); the arrays have min(nbDimsRequested, nbDims) entries.

    >>> cudnn.getTensorNdDescriptor(tensorDesc, 8)
    (0, 4, (2, 3, 4, 5), (60, 20, 5, 1))
    """
    function = "cudnnGetTensorNdDescriptor"
    fields = TENSOR.fields(function, "tensorDesc", tensorDesc)
    count = requested(function, nbDimsRequested)
    return fields.dtype, len(fields.dims), fields.dims[:count], fields.strides[:count]


@public("g13")
def destroyTensorDescriptor(tensorDesc) -> None:
    """NULL is a no-op.

    >>> cudnn.destroyTensorDescriptor(tensorDesc)
    >>> tensorDesc
    TensorDescriptor(destroyed)
    """
    TENSOR.destroy("cudnnDestroyTensorDescriptor", "tensorDesc", tensorDesc)
