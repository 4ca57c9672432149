"""Convolution forward and backward, their algorithms and workspaces: cudnnFindConvolutionForwardAlgorithm
to cudnnConvolutionBackwardData. Spec: legacy API, 3.6 to 3.9; which algorithm takes what
is in ``conv_algorithms``.

Beyond v5: BFLOAT16 data, and NHWC filters with IMPLICIT_PRECOMP_GEMM.

>>> import numpy as np
>>> from cydnn import cudnn
>>> handle, convDesc = cudnn.create("numpy"), cudnn.createConvolutionDescriptor()
>>> cudnn.setConvolution2dDescriptor(convDesc, 0, 0, 1, 1, 1, 1, cudnn.CUDNN_CROSS_CORRELATION)
>>> xDesc, wDesc, yDesc = (cudnn.createTensorDescriptor(), cudnn.createFilterDescriptor(),
...                        cudnn.createTensorDescriptor())
>>> cudnn.setTensor4dDescriptor(xDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 1, 3, 3)
>>> cudnn.setFilter4dDescriptor(wDesc, cudnn.CUDNN_DATA_FLOAT, cudnn.CUDNN_TENSOR_NCHW, 1, 1, 2, 2)
>>> cudnn.setTensor4dDescriptor(yDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 1, 2, 2)
>>> x, w, y = np.arange(9, dtype=np.float32), np.ones(4, np.float32), np.ones(4, np.float32)
"""
from __future__ import annotations

from .._core import compute
from ..ops import ConvBgrad
from ..status import NotSupported
from . import find
from .arguments import public
from .call import Compute, Work, same_types, writable
from .conv_algorithms import BACKWARD_DATA_TABLE, BACKWARD_FILTER_TABLE, CONFIGS, FORWARD_TABLE, ConvShapes
from .convolution import CONVOLUTION, output_dims
from .enums import BWD_DATA_PREFERENCE, BWD_FILTER_PREFERENCE, CONVOLUTION_MODE, DATA_TYPE, FWD_PREFERENCE
from .filter import FILTER
from .tensor import TENSOR


def _geometry(call, image, filter_, output, conv, names) -> ConvShapes:
    """The rules that the three directions share. ``names`` of image, filter and output;
    all shapes and types are BadParam."""
    image_name, filter_name, output_name = names
    call.require(output.rank == image.rank,
                 f"{output_name} must have rank {image.rank} like {image_name}; got {output.rank}")
    dims = output_dims(call.function, conv, image.dims, filter_.desc.dims, (image_name, filter_name))
    call.require(output.dims == dims, f"{output_name} must have dims {dims}, the output of the forward "
                                      f"convolution; got {output.dims}")
    same_types(call, **{image_name: image, filter_name: filter_.desc, output_name: output})
    math = image.dtype.compute if conv.compute is None else DATA_TYPE.word(conv.compute)
    config = CONFIGS.get((image.dtype.name, math))
    call.require(image.rank in (4, 5), f"{image_name} must have rank 4 or 5; got {image.rank}", NotSupported)
    call.require(config, f"data and math type must be one of {' '.join('/'.join(pair) for pair in CONFIGS)}; "
                         f"got {image.dtype}/{math}", NotSupported)
    return ConvShapes(image, filter_.desc, output, conv.pad, conv.stride, filter_.format, config)


def _work(call, table, algo: str, g: ConvShapes, names: dict, conv, operands) -> Work:
    """What the algorithm's row makes of a call; NotSupported with its first reason when it cannot.
    ``names`` is {argument: tensor} of the two data tensors."""
    row = table.by_key.get((algo, g.image.rank))
    call.require(row, f"algo {algo} does not exist for rank {g.image.rank}", NotSupported)
    reason = next(row.refuse(g, names), None)
    call.require(reason is None, f"algo {algo} cannot: {reason}", NotSupported)
    op = table.op(pre_pad=conv.pad, post_pad=conv.pad, stride=conv.stride,
                  mode=CONVOLUTION_MODE.word(conv.mode), compute=g.image.dtype.compute)
    engines, otherwise = table.serving(row)
    return Work(op, operands, engines=engines, otherwise=otherwise, no_workspace=row.workspace == "none")


def _forward(call, x, w, conv, algo, y) -> Work:
    g = _geometry(call, x, w, y, conv, ("xDesc", "wDesc", "yDesc"))
    writable(call, yDesc=y)
    return _work(call, FORWARD_TABLE, algo, g, dict(xDesc=x, yDesc=y), conv, dict(x=x, w=w.desc, y=y))


def _backward_filter(call, x, dy, conv, algo, dw) -> Work:
    g = _geometry(call, x, dw, dy, conv, ("xDesc", "dwDesc", "dyDesc"))
    return _work(call, BACKWARD_FILTER_TABLE, algo, g, dict(xDesc=x, dyDesc=dy), conv,
                 dict(x=x, dy=dy, dw=dw.desc))


def _backward_data(call, w, dy, conv, algo, dx) -> Work:
    g = _geometry(call, dx, w, dy, conv, ("dxDesc", "wDesc", "dyDesc"))
    writable(call, dxDesc=dx)
    return _work(call, BACKWARD_DATA_TABLE, algo, g, dict(dyDesc=dy, dxDesc=dx), conv,
                 dict(dy=dy, w=w.desc, dx=dx))


def _backward_bias(call, dy, db) -> Work:
    call.require(3 <= dy.rank <= 5, f"dyDesc must have rank 3 to 5; got {dy.rank}")
    want = (1, dy.c, *(1,) * (dy.rank - 2))
    call.require(db.dims == want, f"dbDesc must have dims {want}; got {db.dims}")
    same_types(call, dyDesc=dy, dbDesc=db)
    return Work(ConvBgrad(compute=dy.dtype.compute), dict(dy=dy, db=db))


FORWARD = Compute("cudnnConvolutionForward", dict(xDesc=TENSOR, wDesc=FILTER, convDesc=CONVOLUTION,
                                                  algo=FORWARD_TABLE.enum, yDesc=TENSOR),
                  "x w y", "alpha beta", _forward)
BIAS = Compute("cudnnConvolutionBackwardBias", dict(dyDesc=TENSOR, dbDesc=TENSOR),
               "dy db", "alpha beta", _backward_bias)
BACKWARD_FILTER = Compute(
    "cudnnConvolutionBackwardFilter",
    dict(xDesc=TENSOR, dyDesc=TENSOR, convDesc=CONVOLUTION, algo=BACKWARD_FILTER_TABLE.enum, dwDesc=FILTER),
    "x dy dw", "alpha beta", _backward_filter)
BACKWARD_DATA = Compute(
    "cudnnConvolutionBackwardData",
    dict(wDesc=FILTER, dyDesc=TENSOR, convDesc=CONVOLUTION, algo=BACKWARD_DATA_TABLE.enum, dxDesc=TENSOR),
    "dy w dx", "alpha beta", _backward_data)

FORWARD_SEARCH = find.Search(FORWARD, FORWARD_TABLE, FWD_PREFERENCE, "Forward")
FILTER_SEARCH = find.Search(BACKWARD_FILTER, BACKWARD_FILTER_TABLE, BWD_FILTER_PREFERENCE, "BackwardFilter")
DATA_SEARCH = find.Search(BACKWARD_DATA, BACKWARD_DATA_TABLE, BWD_DATA_PREFERENCE, "BackwardData")


# -- Forward -------------------------------------------------------------------------------------------------

@public("g41")
def findConvolutionForwardAlgorithm(handle, xDesc, wDesc, convDesc, yDesc, requestedAlgoCount):
    """[AlgoPerf]: every algorithm timed by itself, the fastest first, those that cannot at the end; where
    one plan serves several, they share its time. On buffers that are allocated here. Blocks.

    >>> best, = cudnn.findConvolutionForwardAlgorithm(handle, xDesc, wDesc, convDesc, yDesc, 1)
    >>> best.status, best.memory, best.time > 0
    (0, 0, True)
    """
    return FORWARD_SEARCH.find(handle, (xDesc, wDesc, convDesc, yDesc), requestedAlgoCount)


@public("g42")
def findConvolutionForwardAlgorithmEx(handle, xDesc, x, wDesc, w, convDesc, yDesc, y,
                                      requestedAlgoCount, workSpace, workSpaceSizeInBytes):
    """The same on the caller's buffers; y is overwritten.

    >>> best, = cudnn.findConvolutionForwardAlgorithmEx(handle, xDesc, x, wDesc, w, convDesc, yDesc, y,
    ...                                                 1, 0, 0)
    >>> best.status, best["memory"]
    (0, 0)
    """
    return FORWARD_SEARCH.find_ex(handle, (xDesc, wDesc, convDesc, yDesc), (x, w, y),
                                  requestedAlgoCount, workSpace, workSpaceSizeInBytes)


@public("g43", getConvolutionForwardAlgorithm_v6="")
def getConvolutionForwardAlgorithm(handle, xDesc, wDesc, convDesc, yDesc, preference, memoryLimitInBytes):
    """The algorithm that should be fastest under the preference; nothing is launched.

    >>> cudnn.getConvolutionForwardAlgorithm(handle, xDesc, wDesc, convDesc, yDesc,
    ...                                      cudnn.CUDNN_CONVOLUTION_FWD_PREFER_FASTEST, 0)
    1
    """
    return FORWARD_SEARCH.choose(handle, (xDesc, wDesc, convDesc, yDesc), preference, memoryLimitInBytes)


@public("g44")
def getConvolutionForwardWorkspaceSize(handle, xDesc, wDesc, convDesc, yDesc, algo):
    """Bytes that the plan of this algorithm needs.

    >>> cudnn.getConvolutionForwardWorkspaceSize(handle, xDesc, wDesc, convDesc, yDesc,
    ...                                          cudnn.CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM)
    0
    """
    return FORWARD_SEARCH.workspace_bytes(handle, (xDesc, wDesc, convDesc, algo, yDesc))


@public("g45")
def convolutionForward(handle, alpha, xDesc, x, wDesc, w, convDesc, algo, workSpace,
                       workSpaceSizeInBytes, beta, yDesc, y):
    """y = alpha * conv(x, w) + beta * y.

    >>> cudnn.convolutionForward(handle, 1.0, xDesc, x, wDesc, w, convDesc,
    ...                          cudnn.CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, None, 0, 0.0, yDesc, y)
    >>> y.tolist()
    [8.0, 12.0, 20.0, 24.0]
    """
    compute(FORWARD, handle, (xDesc, wDesc, convDesc, algo, yDesc), (x, w, y),
            (alpha, beta), workSpace, workSpaceSizeInBytes)


# -- Backward, bias ------------------------------------------------------------------------------------------

@public("g46")
def convolutionBackwardBias(handle, alpha, dyDesc, dy, beta, dbDesc, db):
    """db[c] = alpha * (sum of dy over images and positions) + beta * db[c].

    >>> dbDesc, db = cudnn.createTensorDescriptor(), np.zeros(1, np.float32)
    >>> cudnn.setTensor4dDescriptor(dbDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 1, 1, 1)
    >>> cudnn.convolutionBackwardBias(handle, 1.0, yDesc, y, 0.0, dbDesc, db)
    >>> db.tolist()
    [4.0]
    """
    compute(BIAS, handle, (dyDesc, dbDesc), (dy, db), (alpha, beta))


# -- Backward, filter ----------------------------------------------------------------------------------------

@public("g47")
def findConvolutionBackwardFilterAlgorithm(handle, xDesc, dyDesc, convDesc, dwDesc, requestedAlgoCount):
    """[AlgoPerf] as findConvolutionForwardAlgorithm gives.

    >>> best, = cudnn.findConvolutionBackwardFilterAlgorithm(handle, xDesc, yDesc, convDesc, wDesc, 1)
    >>> best.status, best.determinism
    (0, 1)
    """
    return FILTER_SEARCH.find(handle, (xDesc, dyDesc, convDesc, dwDesc), requestedAlgoCount)


@public("g48")
def findConvolutionBackwardFilterAlgorithmEx(handle, xDesc, x, dyDesc, dy, convDesc, dwDesc, dw,
                                             requestedAlgoCount, workSpace, workSpaceSizeInBytes):
    """The same on the caller's buffers; dw is overwritten.

    >>> best, = cudnn.findConvolutionBackwardFilterAlgorithmEx(handle, xDesc, x, yDesc, y, convDesc, wDesc, w,
    ...                                                        1, 0, 0)
    >>> best.status
    0
    """
    return FILTER_SEARCH.find_ex(handle, (xDesc, dyDesc, convDesc, dwDesc), (x, dy, dw),
                                 requestedAlgoCount, workSpace, workSpaceSizeInBytes)


@public("g49", getConvolutionBackwardFilterAlgorithm_v6="")
def getConvolutionBackwardFilterAlgorithm(handle, xDesc, dyDesc, convDesc,
                                          dwDesc, preference, memoryLimitInBytes):
    """The algorithm that should be fastest under the preference; the limit is honoured.

    >>> cudnn.getConvolutionBackwardFilterAlgorithm(
    ...     handle, xDesc, yDesc, convDesc, wDesc, cudnn.CUDNN_CONVOLUTION_BWD_FILTER_PREFER_FASTEST, 0)
    1
    """
    return FILTER_SEARCH.choose(handle, (xDesc, dyDesc, convDesc, dwDesc), preference, memoryLimitInBytes)


@public("g50")
def getConvolutionBackwardFilterWorkspaceSize(handle, xDesc, dyDesc, convDesc, dwDesc, algo):
    """Bytes that the plan of this algorithm needs.

    >>> cudnn.getConvolutionBackwardFilterWorkspaceSize(handle, xDesc, yDesc, convDesc, wDesc,
    ...                                                 cudnn.CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1)
    0
    """
    return FILTER_SEARCH.workspace_bytes(handle, (xDesc, dyDesc, convDesc, algo, dwDesc))


@public("g51", convolutionBackwardFilter_v3="")
def convolutionBackwardFilter(handle, alpha, xDesc, x, dyDesc, dy, convDesc, algo, workSpace,
                              workSpaceSizeInBytes, beta, dwDesc, dw):
    """dw = alpha * gradient + beta * dw.

    >>> cudnn.convolutionBackwardFilter(handle, 1.0, xDesc, x, yDesc, y, convDesc,
    ...                                 cudnn.CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, None, 0, 0.0, wDesc, w)
    >>> w.tolist()
    [8.0, 12.0, 20.0, 24.0]
    """
    compute(BACKWARD_FILTER, handle, (xDesc, dyDesc, convDesc, algo, dwDesc), (x, dy, dw),
            (alpha, beta), workSpace, workSpaceSizeInBytes)


# -- Backward, data ------------------------------------------------------------------------------------------

@public("g52")
def findConvolutionBackwardDataAlgorithm(handle, wDesc, dyDesc, convDesc, dxDesc, requestedAlgoCount):
    """[AlgoPerf] as findConvolutionForwardAlgorithm gives.

    >>> best, = cudnn.findConvolutionBackwardDataAlgorithm(handle, wDesc, yDesc, convDesc, xDesc, 1)
    >>> best.status
    0
    """
    return DATA_SEARCH.find(handle, (wDesc, dyDesc, convDesc, dxDesc), requestedAlgoCount)


@public("g53")
def findConvolutionBackwardDataAlgorithmEx(handle, wDesc, w, dyDesc, dy, convDesc, dxDesc, dx,
                                           requestedAlgoCount, workSpace, workSpaceSizeInBytes):
    """The same on the caller's buffers; dx is overwritten.

    >>> best, = cudnn.findConvolutionBackwardDataAlgorithmEx(handle, wDesc, w, yDesc, y, convDesc, xDesc, x,
    ...                                                      1, 0, 0)
    >>> best.status
    0
    """
    return DATA_SEARCH.find_ex(handle, (wDesc, dyDesc, convDesc, dxDesc), (dy, w, dx),
                               requestedAlgoCount, workSpace, workSpaceSizeInBytes)


@public("g54", getConvolutionBackwardDataAlgorithm_v6="")
def getConvolutionBackwardDataAlgorithm(handle, wDesc, dyDesc, convDesc,
                                        dxDesc, preference, memoryLimitInBytes):
    """The algorithm that should be fastest under the preference; the limit is honoured.

    >>> cudnn.getConvolutionBackwardDataAlgorithm(
    ...     handle, wDesc, yDesc, convDesc, xDesc, cudnn.CUDNN_CONVOLUTION_BWD_DATA_PREFER_FASTEST, 0)
    1
    """
    return DATA_SEARCH.choose(handle, (wDesc, dyDesc, convDesc, dxDesc), preference, memoryLimitInBytes)


@public("g55")
def getConvolutionBackwardDataWorkspaceSize(handle, wDesc, dyDesc, convDesc, dxDesc, algo):
    """Bytes that the plan of this algorithm needs; ``algo`` is a backward data algorithm.

    >>> cudnn.getConvolutionBackwardDataWorkspaceSize(handle, wDesc, yDesc, convDesc, xDesc,
    ...                                               cudnn.CUDNN_CONVOLUTION_BWD_DATA_ALGO_1)
    0
    """
    return DATA_SEARCH.workspace_bytes(handle, (wDesc, dyDesc, convDesc, algo, dxDesc))


@public("g56", convolutionBackwardData_v3="")
def convolutionBackwardData(handle, alpha, wDesc, w, dyDesc, dy, convDesc, algo, workSpace,
                            workSpaceSizeInBytes, beta, dxDesc, dx):
    """dx = alpha * gradient + beta * dx. Mind the order: w before dy.

    >>> cudnn.convolutionBackwardData(handle, 1.0, wDesc, w, yDesc, y, convDesc,
    ...                               cudnn.CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, None, 0, 0.0, xDesc, x)
    >>> x.tolist()
    [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0]
    """
    compute(BACKWARD_DATA, handle, (wDesc, dyDesc, convDesc, algo, dxDesc), (dy, w, dx),
            (alpha, beta), workSpace, workSpaceSizeInBytes)
