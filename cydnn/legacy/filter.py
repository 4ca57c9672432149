"""Filter descriptors: cudnnCreateFilterDescriptor to cudnnDestroyFilterDescriptor. Spec: legacy API, 3.4.

Filters are always contiguous. Dims are given as k, c, spatial… whatever the format; NCHW stores them so,
NHWC stores k, spatial…, c.

>>> from cydnn import cudnn
>>> filterDesc = cudnn.createFilterDescriptor()
>>> cudnn.setFilter4dDescriptor(filterDesc, cudnn.CUDNN_DATA_FLOAT, cudnn.CUDNN_TENSOR_NCHW, 16, 8, 3, 3)
"""
from __future__ import annotations

from typing import NamedTuple

from ..dtypes import BY_ENUM
from ..status import require
from ..tensor import TensorDesc
from .arguments import Kind, at_least, integers, public
from .enums import CONSTANTS, DATA_TYPE, TENSOR_FORMAT
from .tensor import rank_limits, requested, sizes

NCHW = CONSTANTS["CUDNN_TENSOR_NCHW"]


class FilterFields(NamedTuple):
    dtype: int
    format: int
    dims: tuple


class Filter(NamedTuple):
    """A filter as a tensor (k, c, spatial…), and the format it was declared with."""
    desc: TensorDesc
    format: str


def _content(fields: FilterFields) -> Filter:
    layout = TENSOR_FORMAT.word(fields.format)
    return Filter(TensorDesc.packed(BY_ENUM[fields.dtype], fields.dims, layout), layout)


def _text(fields: FilterFields) -> str:
    return f"{BY_ENUM[fields.dtype]} {sizes(fields.dims, 'kctrs')} {TENSOR_FORMAT.word(fields.format)}"


FILTER = Kind("filter descriptor", _content, _text)


@public("g19")
def createFilterDescriptor():
    """A filter descriptor that is not set yet.

    >>> cudnn.createFilterDescriptor()
    FilterDescriptor(not set)
    """
    return FILTER.create()


@public("g20", setFilter4dDescriptor_v4="g24")
def setFilter4dDescriptor(filterDesc, dataType, format, k, c, h, w) -> None:
    """Rank 4. Mind the order: data type, then format.

    >>> cudnn.setFilter4dDescriptor(filterDesc, cudnn.CUDNN_DATA_HALF, cudnn.CUDNN_TENSOR_NHWC, 4, 8, 3, 5)
    >>> filterDesc
    FilterDescriptor(f16 k4c8r3s5 nhwc)
    """
    function = "cudnnSetFilter4dDescriptor"
    found = FILTER.resolve(function, "filterDesc", filterDesc)
    dtype, order = (DATA_TYPE.check(function, "dataType", dataType),
                    TENSOR_FORMAT.check(function, "format", format))
    FILTER.set(found, FilterFields(dtype, order, at_least(function, 1, k=k, c=c, h=h, w=w)))


@public("g21", getFilter4dDescriptor_v4="g25")
def getFilter4dDescriptor(filterDesc):
    """(dataType, format, k, c, h, w)

    >>> cudnn.getFilter4dDescriptor(filterDesc)
    (0, 0, 16, 8, 3, 3)
    """
    fields = FILTER.fields("cudnnGetFilter4dDescriptor", "filterDesc", filterDesc)
    require(len(fields.dims) == 4,
            f"cudnnGetFilter4dDescriptor: filterDesc must have rank 4; got {len(fields.dims)}")
    return (fields.dtype, fields.format, *fields.dims)


@public("g22")
def setFilter4dDescriptor_v3(filterDesc, dataType, k, c, h, w) -> None:
    """Deprecated: format NCHW.

    >>> cudnn.setFilter4dDescriptor_v3(filterDesc, cudnn.CUDNN_DATA_FLOAT, 4, 8, 1, 1)
    >>> filterDesc
    FilterDescriptor(f32 k4c8r1s1 nchw)
    """
    setFilter4dDescriptor(filterDesc, dataType, NCHW, k, c, h, w)


@public("g23")
def getFilter4dDescriptor_v3(filterDesc):
    """Deprecated: (dataType, k, c, h, w)

    >>> cudnn.getFilter4dDescriptor_v3(filterDesc)
    (0, 16, 8, 3, 3)
    """
    dtype, _, *dims = getFilter4dDescriptor(filterDesc)
    return (dtype, *dims)


@public("g26", setFilterNdDescriptor_v4="g30")
def setFilterNdDescriptor(filterDesc, dataType, format, nbDims, filterDimA) -> None:
    """Rank 3 to 8.

    >>> cudnn.setFilterNdDescriptor(filterDesc, cudnn.CUDNN_DATA_FLOAT, cudnn.CUDNN_TENSOR_NCHW, 5,
    ...                             (4, 8, 1, 3, 3))
    >>> filterDesc
    FilterDescriptor(f32 k4c8t1r3s3 nchw)
    """
    function = "cudnnSetFilterNdDescriptor"
    found = FILTER.resolve(function, "filterDesc", filterDesc)
    dtype, order = (DATA_TYPE.check(function, "dataType", dataType),
                    TENSOR_FORMAT.check(function, "format", format))
    dims = integers(function, "filterDimA", filterDimA, rank_limits(function, nbDims))
    at_least(function, 1, filterDimA=dims)
    FILTER.set(found, FilterFields(dtype, order, dims))


@public("g27", getFilterNdDescriptor_v4="g31")
def getFilterNdDescriptor(wDesc, nbDimsRequested):
    """(dataType, format, nbDims, filterDimA); the array has min(nbDimsRequested, nbDims) entries.

    >>> cudnn.getFilterNdDescriptor(filterDesc, 8)
    (0, 0, 4, (16, 8, 3, 3))
    """
    function = "cudnnGetFilterNdDescriptor"
    fields = FILTER.fields(function, "wDesc", wDesc)
    return fields.dtype, fields.format, len(fields.dims), fields.dims[:requested(function, nbDimsRequested)]


@public("g28")
def setFilterNdDescriptor_v3(filterDesc, dataType, nbDims, filterDimA) -> None:
    """Deprecated: format NCHW.

    >>> cudnn.setFilterNdDescriptor_v3(filterDesc, cudnn.CUDNN_DATA_FLOAT, 3, (4, 8, 3))
    >>> filterDesc
    FilterDescriptor(f32 k4c8s3 nchw)
    """
    setFilterNdDescriptor(filterDesc, dataType, NCHW, nbDims, filterDimA)


@public("g29")
def getFilterNdDescriptor_v3(wDesc, nbDimsRequested):
    """Deprecated: (dataType, nbDims, filterDimA)

    >>> cudnn.getFilterNdDescriptor_v3(filterDesc, 2)
    (0, 4, (16, 8))
    """
    dtype, _, rank, dims = getFilterNdDescriptor(wDesc, nbDimsRequested)
    return dtype, rank, dims


@public("g32")
def destroyFilterDescriptor(filterDesc) -> None:
    """NULL is a no-op.

    >>> cudnn.destroyFilterDescriptor(filterDesc)
    >>> filterDesc
    FilterDescriptor(destroyed)
    """
    FILTER.destroy("cudnnDestroyFilterDescriptor", "filterDesc", filterDesc)
