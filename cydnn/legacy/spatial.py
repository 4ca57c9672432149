"""The spatial transformer: descriptors, grid generator and sampler: cudnnCreateSpatialTransformerDescriptor
to cudnnSpatialTfSamplerBackward. Spec: legacy API, 3.18 and 4.14.

BFLOAT16 goes beyond v5.

>>> import numpy as np
>>> from cydnn import cudnn
>>> handle, stDesc = cudnn.create("numpy"), cudnn.createSpatialTransformerDescriptor()
>>> cudnn.setSpatialTransformerNdDescriptor(stDesc, cudnn.CUDNN_SAMPLER_BILINEAR, cudnn.CUDNN_DATA_FLOAT, 4,
...                                         (1, 1, 2, 2))
>>> xDesc, yDesc = cudnn.createTensorDescriptor(), cudnn.createTensorDescriptor()
>>> cudnn.setTensor4dDescriptor(xDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 1, 3, 3)
>>> cudnn.setTensor4dDescriptor(yDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 1, 2, 2)
>>> turned = np.array([[0, -1, 0], [1, 0, 0]], np.float32)                   # by a quarter
>>> x, y, grid = np.arange(9, dtype=np.float32), np.zeros(4, np.float32), np.zeros((2, 2, 2), np.float32)
>>> cudnn.spatialTfGridGeneratorForward(handle, stDesc, turned, grid)
"""
from __future__ import annotations

from typing import NamedTuple

from .._core import compute
from ..dtypes import BY_ENUM
from ..ops import SpatialGridBwd, SpatialGridFwd, SpatialSamplerBwd, SpatialSamplerFwd
from ..status import NotSupported, require
from ..tensor import TensorDesc
from .arguments import Kind, at_least, integer, integers, public
from .call import Compute, Work, writable
from .enums import DATA_TYPE, SAMPLER_TYPE
from .tensor import MAX_RANK, TENSOR, sizes

RANK = 4                                         # n, c, h, w


class SpatialTransformer(NamedTuple):
    sampler: int
    dtype: int
    dims: tuple


def _text(fields: SpatialTransformer) -> str:
    return f"{BY_ENUM[fields.dtype]} {sizes(fields.dims, 'nchw')} sampler={SAMPLER_TYPE.word(fields.sampler)}"


SPATIAL_TRANSFORMER = Kind("spatial transformer descriptor", text=_text)


@public("g118")
def createSpatialTransformerDescriptor():
    """A spatial transformer descriptor that is not set yet.

    >>> cudnn.createSpatialTransformerDescriptor()
    SpatialTransformerDescriptor(not set)
    """
    return SPATIAL_TRANSFORMER.create()


@public("g119")
def destroySpatialTransformerDescriptor(stDesc) -> None:
    """NULL is a no-op.

    >>> cudnn.destroySpatialTransformerDescriptor(stDesc)
    >>> stDesc
    SpatialTransformerDescriptor(destroyed)
    """
    SPATIAL_TRANSFORMER.destroy("cudnnDestroySpatialTransformerDescriptor", "stDesc", stDesc)


@public("g120", setSpatialTransformerDescriptor="g120")
def setSpatialTransformerNdDescriptor(stDesc, samplerType, dataType, nbDims, dimA) -> None:
    """``dimA``: dims of the output, n, c, h, w. More than four are kept, and refused by the functions that
    compute.

    >>> cudnn.setSpatialTransformerNdDescriptor(stDesc, cudnn.CUDNN_SAMPLER_BILINEAR, cudnn.CUDNN_DATA_HALF,
    ...                                         4, (2, 3, 8, 8))
    >>> stDesc
    SpatialTransformerDescriptor(f16 n2c3h8w8 sampler=BILINEAR)
    """
    function = "cudnnSetSpatialTransformerNdDescriptor"
    found = SPATIAL_TRANSFORMER.resolve(function, "stDesc", stDesc)
    sampler = SAMPLER_TYPE.check(function, "samplerType", samplerType)
    dtype, rank = DATA_TYPE.check(function, "dataType", dataType), integer(function, "nbDims", nbDims)
    at_least(function, RANK, nbDims=rank)
    require(rank <= MAX_RANK, f"{function}: nbDims must be <= {MAX_RANK}; got {rank}", NotSupported)
    require(dimA is not None, f"{function}: dimA must not be NULL")
    dims = integers(function, "dimA", dimA, rank)
    at_least(function, 1, dimA=dims)
    SPATIAL_TRANSFORMER.set(found, SpatialTransformer(sampler, dtype, dims))


def _operands(call, transformer) -> tuple:
    """(type, dims, theta, grid) of a descriptor."""
    dtype, dims = BY_ENUM[transformer.dtype], transformer.dims
    call.require(len(dims) == RANK, f"stDesc must have {RANK} dims; got {len(dims)}", NotSupported)
    n, _, h, w = dims
    return dtype, dims, TensorDesc.packed(dtype, (n, 2, 3)), TensorDesc.packed(dtype, (n, h, w, 2))


def _grid_forward(call, transformer) -> Work:
    dtype, _, theta, grid = _operands(call, transformer)
    return Work(SpatialGridFwd(compute=dtype.compute), dict(theta=theta, grid=grid))


def _grid_backward(call, transformer) -> Work:
    dtype, _, theta, grid = _operands(call, transformer)
    return Work(SpatialGridBwd(compute=dtype.compute), dict(dgrid=grid, dtheta=theta))


def _images(call, dtype, dims, x_name, x, y_name, y) -> None:
    """The rules of the images on both sides of a sampler."""
    call.require(y.dims == dims, f"{y_name} must have dims {dims} like stDesc; got {y.dims}")
    call.require(x.rank == RANK and x.dims[:2] == dims[:2],
                 f"{x_name} must have rank {RANK}, n and c {dims[:2]} like stDesc; got {x.dims}")
    for name, d in ((x_name, x), (y_name, y)):
        call.require(d.dtype is dtype, f"{name} must have data type {dtype} like stDesc; got {d.dtype}")


def _sampler_forward(call, transformer, x, y) -> Work:
    dtype, dims, _, grid = _operands(call, transformer)
    _images(call, dtype, dims, "xDesc", x, "yDesc", y)
    writable(call, yDesc=y)
    return Work(SpatialSamplerFwd(compute=dtype.compute), dict(x=x, grid=grid, y=y))


def _sampler_backward(call, transformer, x, dx, dy) -> Work:
    dtype, dims, _, grid = _operands(call, transformer)
    _images(call, dtype, dims, "xDesc", x, "dyDesc", dy)
    call.require(dx.dims == x.dims, f"dxDesc must have dims {x.dims} like xDesc; got {dx.dims}")
    call.require(dx.dtype is dtype, f"dxDesc must have data type {dtype} like stDesc; got {dx.dtype}")
    writable(call, dxDesc=dx)
    return Work(SpatialSamplerBwd(compute=dtype.compute), dict(x=x, dy=dy, grid=grid, dx=dx, dgrid=grid))


_ST = dict(stDesc=SPATIAL_TRANSFORMER)
GRID_FORWARD = Compute("cudnnSpatialTfGridGeneratorForward", _ST, "theta grid", "", _grid_forward)
GRID_BACKWARD = Compute("cudnnSpatialTfGridGeneratorBackward", _ST, "dgrid dtheta", "", _grid_backward)
SAMPLER_FORWARD = Compute("cudnnSpatialTfSamplerForward", dict(**_ST, xDesc=TENSOR, yDesc=TENSOR), "x grid y",
                          "alpha beta", _sampler_forward)
SAMPLER_BACKWARD = Compute("cudnnSpatialTfSamplerBackward",
                           dict(**_ST, xDesc=TENSOR, dxDesc=TENSOR, dyDesc=TENSOR), "x dy grid dx dgrid",
                           "alpha beta alphaDgrid=alpha_dgrid betaDgrid=beta_dgrid", _sampler_backward)


@public("g121")
def spatialTfGridGeneratorForward(handle, stDesc, theta, grid):
    """grid[n, i, j] = theta[n] @ (x, y, 1) with x and y from -1 to 1 over the output; x comes first.

    >>> cudnn.spatialTfGridGeneratorForward(handle, stDesc, turned, grid)
    >>> grid.tolist()
    [[[1.0, -1.0], [1.0, 1.0]], [[-1.0, -1.0], [-1.0, 1.0]]]
    """
    compute(GRID_FORWARD, handle, (stDesc,), (theta, grid), ())


@public("g122")
def spatialTfGridGeneratorBackward(handle, stDesc, dgrid, dtheta):
    """dtheta, overwritten: the sum of dgrid * (x, y, 1) over all points. Always in one order.

    >>> dtheta = np.zeros((2, 3), np.float32)
    >>> cudnn.spatialTfGridGeneratorBackward(handle, stDesc, np.ones((2, 2, 2), np.float32), dtheta)
    >>> dtheta.tolist()
    [[0.0, 0.0, 4.0], [0.0, 0.0, 4.0]]
    """
    compute(GRID_BACKWARD, handle, (stDesc,), (dgrid, dtheta), ())


@public("g123")
def spatialTfSamplerForward(handle, stDesc, alpha, xDesc, x, grid, beta, yDesc, y):
    """y = alpha * (x sampled bilinearly at grid) + beta * y; pixels outside of x are 0.

    >>> cudnn.spatialTfSamplerForward(handle, stDesc, 1.0, xDesc, x, grid, 0.0, yDesc, y)
    >>> y.tolist()
    [2.0, 8.0, 0.0, 6.0]
    """
    compute(SAMPLER_FORWARD, handle, (stDesc, xDesc, yDesc), (x, grid, y), (alpha, beta))


@public("g124")
def spatialTfSamplerBackward(handle, stDesc, alpha, xDesc, x, beta, dxDesc, dx, alphaDgrid, dyDesc, dy, grid,
                             betaDgrid, dgrid):
    """dx = alpha * gradient + beta * dx, dgrid = alphaDgrid * gradient + betaDgrid * dgrid; the same bits on
    every run. Mind the order.

    >>> dx, dy, dgrid = np.zeros(9, np.float32), np.ones(4, np.float32), np.zeros((2, 2, 2), np.float32)
    >>> cudnn.spatialTfSamplerBackward(handle, stDesc, 1.0, xDesc, x, 0.0, xDesc, dx, 1.0, yDesc, dy, grid,
    ...                                0.0, dgrid)
    >>> dx.tolist()
    [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0]
    """
    compute(SAMPLER_BACKWARD, handle, (stDesc, xDesc, dxDesc, dyDesc), (x, dy, grid, dx, dgrid),
            (alpha, beta, alphaDgrid, betaDgrid))
