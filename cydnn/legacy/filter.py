"""Filter descriptors: cudnnCreateFilterDescriptor to cudnnDestroyFilterDescriptor. Spec: legacy API, 3.4.

Filters are always contiguous. Dims are given as k, c, spatial… whatever the format; NCHW stores them so,
NHWC stores k, spatial…, c.
"""
from __future__ import annotations

from operator import index
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
    """A filter descriptor that is not set yet."""
    return FILTER.create()


@public("g20", setFilter4dDescriptor_v4="g24")
def setFilter4dDescriptor(filterDesc, dataType, format, k, c, h, w) -> None:
    """Rank 4. Mind the order: data type, then format."""
    function = "cudnnSetFilter4dDescriptor"
    found = FILTER.resolve(function, "filterDesc", filterDesc)
    dtype, order = (DATA_TYPE.check(function, "dataType", dataType),
                    TENSOR_FORMAT.check(function, "format", format))
    at_least(function, 1, k=k, c=c, h=h, w=w)
    FILTER.set(found, FilterFields(dtype, order, tuple(map(index, (k, c, h, w)))))


@public("g21", getFilter4dDescriptor_v4="g25")
def getFilter4dDescriptor(filterDesc):
    """(dataType, format, k, c, h, w)"""
    fields = FILTER.fields("cudnnGetFilter4dDescriptor", "filterDesc", filterDesc)
    require(len(fields.dims) == 4,
            f"cudnnGetFilter4dDescriptor: filterDesc must have rank 4; got {len(fields.dims)}")
    return (fields.dtype, fields.format, *fields.dims)


@public("g22")
def setFilter4dDescriptor_v3(filterDesc, dataType, k, c, h, w) -> None:
    """Deprecated: format NCHW."""
    setFilter4dDescriptor(filterDesc, dataType, NCHW, k, c, h, w)


@public("g23")
def getFilter4dDescriptor_v3(filterDesc):
    """Deprecated: (dataType, k, c, h, w)"""
    dtype, _, *dims = getFilter4dDescriptor(filterDesc)
    return (dtype, *dims)


@public("g26", setFilterNdDescriptor_v4="g30")
def setFilterNdDescriptor(filterDesc, dataType, format, nbDims, filterDimA) -> None:
    """Rank 3 to 8."""
    function = "cudnnSetFilterNdDescriptor"
    found = FILTER.resolve(function, "filterDesc", filterDesc)
    dtype, order = (DATA_TYPE.check(function, "dataType", dataType),
                    TENSOR_FORMAT.check(function, "format", format))
    dims = integers(function, "filterDimA", filterDimA, rank_limits(function, nbDims))
    at_least(function, 1, filterDimA=dims)
    FILTER.set(found, FilterFields(dtype, order, dims))


@public("g27", getFilterNdDescriptor_v4="g31")
def getFilterNdDescriptor(wDesc, nbDimsRequested):
    """(dataType, format, nbDims, filterDimA); the array has min(nbDimsRequested, nbDims) entries."""
    function = "cudnnGetFilterNdDescriptor"
    fields = FILTER.fields(function, "wDesc", wDesc)
    return fields.dtype, fields.format, len(fields.dims), fields.dims[:requested(function, nbDimsRequested)]


@public("g28")
def setFilterNdDescriptor_v3(filterDesc, dataType, nbDims, filterDimA) -> None:
    """Deprecated: format NCHW."""
    setFilterNdDescriptor(filterDesc, dataType, NCHW, nbDims, filterDimA)


@public("g29")
def getFilterNdDescriptor_v3(wDesc, nbDimsRequested):
    """Deprecated: (dataType, nbDims, filterDimA)"""
    dtype, _, rank, dims = getFilterNdDescriptor(wDesc, nbDimsRequested)
    return dtype, rank, dims


@public("g32")
def destroyFilterDescriptor(filterDesc) -> None:
    """NULL is a no-op."""
    FILTER.destroy("cudnnDestroyFilterDescriptor", "filterDesc", filterDesc)
