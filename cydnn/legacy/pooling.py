"""Pooling: descriptors, output sizes, forward and backward: cudnnCreatePoolingDescriptor
to cudnnPoolingBackward.

Spec: legacy API, 3.11 and 4.7.

>>> import numpy as np
>>> from cydnn import cudnn
>>> handle, poolingDesc = cudnn.create("numpy"), cudnn.createPoolingDescriptor()
>>> cudnn.setPooling2dDescriptor(poolingDesc, cudnn.CUDNN_POOLING_MAX, cudnn.CUDNN_NOT_PROPAGATE_NAN,
...                              2, 2, 0, 0, 2, 2)
>>> xDesc, yDesc = cudnn.createTensorDescriptor(), cudnn.createTensorDescriptor()
>>> cudnn.setTensor4dDescriptor(xDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 1, 4, 4)
>>> cudnn.setTensor4dDescriptor(yDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 1, 2, 2)
>>> x, y = np.arange(16, dtype=np.float32), np.zeros(4, np.float32)
"""
from __future__ import annotations

from typing import NamedTuple

from .._core import compute
from ..ops import PoolingBwd, PoolingFwd
from ..ops.window import window_out
from ..status import NotSupported, require
from .arguments import Kind, at_least, each, integer, integers, listed, public
from .call import Compute, Work, same_dims, same_strides, same_types, writable
from .enums import CONSTANTS, NAN, POOLING_MODE
from .tensor import MAX_RANK, TENSOR

NOT_PROPAGATE = CONSTANTS["CUDNN_NOT_PROPAGATE_NAN"]


class Pooling(NamedTuple):
    mode: int
    nan: int
    window: tuple
    pad: tuple
    stride: tuple


def _text(fields: Pooling) -> str:
    return (f"mode={POOLING_MODE.word(fields.mode)} window={listed(fields.window)} pad{listed(fields.pad)} "
            f"stride{listed(fields.stride)} nan={NAN.word(fields.nan)}")


POOLING = Kind("pooling descriptor", text=_text)


def _set(function, poolingDesc, mode, nan, window, pad, stride):
    found = POOLING.resolve(function, "poolingDesc", poolingDesc)
    mode, nan = POOLING_MODE.check(function, "mode", mode), NAN.check(function, "maxpoolingNanOpt", nan)
    at_least(function, 1, window=window, stride=stride)
    at_least(function, 0, padding=pad)
    POOLING.set(found, Pooling(mode, nan, window, pad, stride))


@public("g59")
def createPoolingDescriptor():
    """A pooling descriptor that is not set yet.

    >>> cudnn.createPoolingDescriptor()
    PoolingDescriptor(not set)
    """
    return POOLING.create()


@public("g60", setPooling2dDescriptor_v4="g68")
def setPooling2dDescriptor(poolingDesc, mode, maxpoolingNanOpt, windowHeight, windowWidth, verticalPadding,
                           horizontalPadding, verticalStride, horizontalStride) -> None:
    """Two spatial dims.

    >>> cudnn.setPooling2dDescriptor(poolingDesc, cudnn.CUDNN_POOLING_MAX, cudnn.CUDNN_PROPAGATE_NAN,
    ...                              3, 2, 1, 0, 2, 1)
    >>> poolingDesc
    PoolingDescriptor(mode=max window=3,2 pad1,0 stride2,1 nan=propagate)
    """
    function = "cudnnSetPooling2dDescriptor"
    _set(function, poolingDesc, mode, maxpoolingNanOpt,
         each(function, windowHeight=windowHeight, windowWidth=windowWidth),
         each(function, verticalPadding=verticalPadding, horizontalPadding=horizontalPadding),
         each(function, verticalStride=verticalStride, horizontalStride=horizontalStride))


@public("g61", getPooling2dDescriptor_v4="g69")
def getPooling2dDescriptor(poolingDesc):
    """(mode, maxpoolingNanOpt, windowHeight, windowWidth, verticalPadding, horizontalPadding,
    verticalStride, horizontalStride)

    >>> cudnn.getPooling2dDescriptor(poolingDesc)
    (0, 0, 2, 2, 0, 0, 2, 2)
    """
    fields = POOLING.fields("cudnnGetPooling2dDescriptor", "poolingDesc", poolingDesc)
    require(len(fields.window) == 2,
            f"cudnnGetPooling2dDescriptor: poolingDesc must have 2 spatial dims; got {len(fields.window)}")
    return (fields.mode, fields.nan, *fields.window, *fields.pad, *fields.stride)


@public("g62", setPoolingNdDescriptor_v4="g70")
def setPoolingNdDescriptor(poolingDesc, mode, maxpoolingNanOpt, nbDims,
                           windowDimA, paddingA, strideA) -> None:
    """``nbDims`` spatial dims (2 or 3 are usable).

    >>> cudnn.setPoolingNdDescriptor(poolingDesc, cudnn.CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
    ...                              cudnn.CUDNN_NOT_PROPAGATE_NAN, 3, (2, 2, 2), (0, 0, 0), (2, 2, 2))
    >>> poolingDesc
    PoolingDescriptor(mode=avg_exclude_padding window=2,2,2 pad0,0,0 stride2,2,2 nan=ignore)
    """
    function = "cudnnSetPoolingNdDescriptor"
    count = integer(function, "nbDims", nbDims)
    at_least(function, 1, nbDims=count)
    require(count <= MAX_RANK, f"{function}: nbDims must be <= {MAX_RANK}; got {count}", NotSupported)
    arrays = [integers(function, name, a, count)
              for name, a in (("windowDimA", windowDimA), ("paddingA", paddingA), ("strideA", strideA))]
    _set(function, poolingDesc, mode, maxpoolingNanOpt, *arrays)


@public("g63", getPoolingNdDescriptor_v4="g71")
def getPoolingNdDescriptor(poolingDesc, nbDimsRequested):
    """(mode, maxpoolingNanOpt, nbDims, windowDimA, paddingA, strideA); arrays have
    min(nbDimsRequested, nbDims) entries.

    >>> cudnn.getPoolingNdDescriptor(poolingDesc, 8)
    (0, 0, 2, (2, 2), (0, 0), (2, 2))
    """
    function = "cudnnGetPoolingNdDescriptor"
    fields = POOLING.fields(function, "poolingDesc", poolingDesc)
    count = integer(function, "nbDimsRequested", nbDimsRequested)
    at_least(function, 0, nbDimsRequested=count)
    require(count <= MAX_RANK,
            f"{function}: nbDimsRequested must be <= {MAX_RANK}; got {count}", NotSupported)
    return (fields.mode, fields.nan, len(fields.window), fields.window[:count],
            fields.pad[:count], fields.stride[:count])


@public("g64")
def setPooling2dDescriptor_v3(poolingDesc, mode, windowHeight, windowWidth, verticalPadding,
                              horizontalPadding, verticalStride, horizontalStride) -> None:
    """Deprecated: NaN is not propagated.

    >>> cudnn.setPooling2dDescriptor_v3(poolingDesc, cudnn.CUDNN_POOLING_MAX, 3, 3, 0, 0, 1, 1)
    >>> poolingDesc
    PoolingDescriptor(mode=max window=3,3 pad0,0 stride1,1 nan=ignore)
    """
    setPooling2dDescriptor(poolingDesc, mode, NOT_PROPAGATE, windowHeight, windowWidth, verticalPadding,
                           horizontalPadding, verticalStride, horizontalStride)


@public("g65")
def getPooling2dDescriptor_v3(poolingDesc):
    """Deprecated: (mode, windowHeight, windowWidth, verticalPadding, horizontalPadding,
    verticalStride, horizontalStride)

    >>> cudnn.getPooling2dDescriptor_v3(poolingDesc)
    (0, 2, 2, 0, 0, 2, 2)
    """
    mode, _, *numbers = getPooling2dDescriptor(poolingDesc)
    return (mode, *numbers)


@public("g66")
def setPoolingNdDescriptor_v3(poolingDesc, mode, nbDims, windowDimA, paddingA, strideA) -> None:
    """Deprecated: NaN is not propagated.

    >>> cudnn.setPoolingNdDescriptor_v3(poolingDesc, cudnn.CUDNN_POOLING_MAX, 2, (3, 3), (0, 0), (1, 1))
    >>> poolingDesc
    PoolingDescriptor(mode=max window=3,3 pad0,0 stride1,1 nan=ignore)
    """
    setPoolingNdDescriptor(poolingDesc, mode, NOT_PROPAGATE, nbDims, windowDimA, paddingA, strideA)


@public("g67")
def getPoolingNdDescriptor_v3(poolingDesc, nbDimsRequested):
    """Deprecated: (mode, nbDims, windowDimA, paddingA, strideA)

    >>> cudnn.getPoolingNdDescriptor_v3(poolingDesc, 1)
    (0, 2, (2,), (0,), (2,))
    """
    mode, _, *rest = getPoolingNdDescriptor(poolingDesc, nbDimsRequested)
    return (mode, *rest)


@public("g72")
def destroyPoolingDescriptor(poolingDesc) -> None:
    """NULL is a no-op.

    >>> cudnn.destroyPoolingDescriptor(poolingDesc)
    >>> poolingDesc
    PoolingDescriptor(destroyed)
    """
    POOLING.destroy("cudnnDestroyPoolingDescriptor", "poolingDesc", poolingDesc)


def _output_dims(function, pool, dims, name) -> tuple:
    """(n, c, out…) with out = 1 + (i + 2 pad - window) // stride."""
    require(len(pool.window) == len(dims) - 2, f"{function}: poolingDesc must have {len(dims) - 2} "
                                               f"spatial dims like {name}; got {len(pool.window)}")
    out = window_out(dims[2:], pool.window, pool.pad, pool.pad, pool.stride, (1,) * len(pool.window))
    require(min(out) >= 1, f"{function}: the window must fit into the padded {name}; "
                           f"got window {pool.window}, {name} {dims[2:]}, padding {pool.pad}")
    return (*dims[:2], *out)


@public("g73")
def getPooling2dForwardOutputDim(poolingDesc, inputDesc):
    """(n, c, h, w) of the output.

    >>> cudnn.getPooling2dForwardOutputDim(poolingDesc, xDesc)
    (1, 1, 2, 2)
    """
    function = "cudnnGetPooling2dForwardOutputDim"
    pool, image = (POOLING.fields(function, "poolingDesc", poolingDesc),
                   TENSOR.fields(function, "inputDesc", inputDesc))
    require(len(pool.window) == 2,
            f"{function}: poolingDesc must have 2 spatial dims; got {len(pool.window)}")
    return _output_dims(function, pool, image.dims, "inputDesc")


@public("g74")
def getPoolingNdForwardOutputDim(poolingDesc, inputDesc, nbDims):
    """All ``nbDims`` dims of the output; nbDims is the rank of the tensor.

    >>> cudnn.getPoolingNdForwardOutputDim(poolingDesc, xDesc, 4)
    (1, 1, 2, 2)
    """
    function = "cudnnGetPoolingNdForwardOutputDim"
    pool, image = (POOLING.fields(function, "poolingDesc", poolingDesc),
                   TENSOR.fields(function, "inputDesc", inputDesc))
    require(integer(function, "nbDims", nbDims) == len(image.dims),
            f"{function}: nbDims must be the rank {len(image.dims)} of inputDesc; got {nbDims}")
    return _output_dims(function, pool, image.dims, "inputDesc")


def _attributes(pool, desc) -> dict:
    return dict(mode=POOLING_MODE.word(pool.mode), window=pool.window, pre_pad=pool.pad, stride=pool.stride,
                nan=NAN.word(pool.nan), compute=desc.dtype.compute)


def _output(call, pool, x, y, x_name, y_name) -> None:
    want = _output_dims(call.function, pool, x.dims, x_name)
    call.require(y.dims == want, f"{y_name} must have dims {want}, the output of this pooling; got {y.dims}")


def _rank_4_or_5(call, **descs) -> None:
    for name, d in descs.items():
        call.require(d.rank in (4, 5), f"{name} must have rank 4 or 5; got {d.rank}", NotSupported)


def _forward(call, pool, x, y) -> Work:
    _output(call, pool, x, y, "xDesc", "yDesc")
    same_types(call, xDesc=x, yDesc=y)
    _rank_4_or_5(call, xDesc=x)
    writable(call, yDesc=y)
    return Work(PoolingFwd(**_attributes(pool, x)), dict(x=x, y=y))


def _backward(call, pool, y, dy, x, dx) -> Work:
    _output(call, pool, x, y, "xDesc", "yDesc")
    for pair in (dict(yDesc=y, dyDesc=dy), dict(xDesc=x, dxDesc=dx)):
        same_dims(call, **pair)
        same_strides(call, **pair)
    same_types(call, xDesc=x, yDesc=y, dyDesc=dy, dxDesc=dx)
    _rank_4_or_5(call, xDesc=x)
    writable(call, dxDesc=dx)
    return Work(PoolingBwd(**_attributes(pool, x)), dict(y=y, dy=dy, x=x, dx=dx))


FORWARD = Compute("cudnnPoolingForward", dict(poolingDesc=POOLING, xDesc=TENSOR, yDesc=TENSOR), "x y",
                  "alpha beta", _forward)
BACKWARD = Compute("cudnnPoolingBackward",
                   dict(poolingDesc=POOLING, yDesc=TENSOR, dyDesc=TENSOR, xDesc=TENSOR, dxDesc=TENSOR),
                   "y dy x dx", "alpha beta", _backward)


@public("g75")
def poolingForward(handle, poolingDesc, alpha, xDesc, x, beta, yDesc, y):
    """y = alpha * pooled(x) + beta * y.

    >>> cudnn.poolingForward(handle, poolingDesc, 1.0, xDesc, x, 0.0, yDesc, y)
    >>> y.tolist()
    [5.0, 7.0, 13.0, 15.0]
    """
    compute(FORWARD, handle, (poolingDesc, xDesc, yDesc), (x, y), (alpha, beta))


@public("g76")
def poolingBackward(handle, poolingDesc, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc, dx):
    """dx = alpha * gradient + beta * dx; a maximum gives its dy to the first largest cell of x.
    Mind the order: y, dy, x, dx.

    >>> cudnn.poolingForward(handle, poolingDesc, 1.0, xDesc, x, 0.0, yDesc, y)
    >>> dy, dx = np.array([1, 2, 3, 4], np.float32), np.empty_like(x)
    >>> cudnn.poolingBackward(handle, poolingDesc, 1.0, yDesc, y, yDesc, dy, xDesc, x, 0.0, xDesc, dx)
    >>> dx.reshape(4, 4).sum(axis=1).tolist()
    [0.0, 3.0, 0.0, 7.0]
    """
    compute(BACKWARD, handle, (poolingDesc, yDesc, dyDesc, xDesc, dxDesc), (y, dy, x, dx), (alpha, beta))
