"""Local response normalization across channels: descriptors, forward and backward: cudnnCreateLRNDescriptor
to cudnnLRNCrossChannelBackward. Spec: legacy API, 3.13 and 4.9.

>>> import numpy as np
>>> from cydnn import cudnn
>>> handle, normDesc = cudnn.create("numpy"), cudnn.createLRNDescriptor()
>>> cudnn.setLRNDescriptor(normDesc, 1, 1.0, 1.0, 1.0)
>>> xDesc = cudnn.createTensorDescriptor()
>>> cudnn.setTensor4dDescriptor(xDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 3, 1, 1)
>>> x, y, dx = np.array([0, 1, 3], np.float32), np.zeros(3, np.float32), np.zeros(3, np.float32)
"""
from __future__ import annotations

from typing import NamedTuple

from .._core import compute
from ..ops import LrnBwd, LrnFwd
from ..status import NotSupported, require
from .arguments import Kind, integer, number, public
from .call import Compute, Work, same_dims, same_types, writable
from .enums import CONSTANTS, LRN_MODE
from .tensor import TENSOR


class LRN(NamedTuple):
    n: int
    alpha: float
    beta: float
    k: float


NORM = Kind("LRN descriptor")
DEFAULT = LRN(5, 1e-4, 0.75, 2.0)


@public("g87")
def createLRNDescriptor():
    """An LRN descriptor that is usable at once: lrnN 5, lrnAlpha 1e-4, lrnBeta 0.75, lrnK 2.

    >>> cudnn.createLRNDescriptor()
    LRNDescriptor(n=5 alpha=0.0001 beta=0.75 k=2.0)
    """
    found = NORM.create()
    NORM.set(found, DEFAULT)
    return found


@public("g88")
def setLRNDescriptor(normDesc, lrnN, lrnAlpha, lrnBeta, lrnK) -> None:
    """A window of lrnN (1 to 16) channels, or cells in each spatial dim; lrnBeta >= 0.01, lrnK >= 1e-5.

    >>> cudnn.setLRNDescriptor(normDesc, 3, 1e-4, 0.5, 1.0)
    >>> normDesc
    LRNDescriptor(n=3 alpha=0.0001 beta=0.5 k=1.0)
    """
    function = "cudnnSetLRNDescriptor"
    least, most = CONSTANTS["CUDNN_LRN_MIN_N"], CONSTANTS["CUDNN_LRN_MAX_N"]
    found = NORM.resolve(function, "normDesc", normDesc)
    n, alpha, beta, k = integer(function, "lrnN", lrnN), *(number(function, *pair) for pair in (
        ("lrnAlpha", lrnAlpha), ("lrnBeta", lrnBeta), ("lrnK", lrnK)))
    require(least <= n <= most, f"{function}: lrnN must be {least} to {most}; got {n}")
    for name, value, low in (("lrnBeta", beta, CONSTANTS["CUDNN_LRN_MIN_BETA"]),
                             ("lrnK", k, CONSTANTS["CUDNN_LRN_MIN_K"])):
        require(value >= low, f"{function}: {name} must be >= {low}; got {value}")
    NORM.set(found, LRN(n, alpha, beta, k))


@public("g89")
def getLRNDescriptor(normDesc):
    """(lrnN, lrnAlpha, lrnBeta, lrnK)

    >>> cudnn.getLRNDescriptor(normDesc)
    (1, 1.0, 1.0, 1.0)
    """
    return tuple(NORM.fields("cudnnGetLRNDescriptor", "normDesc", normDesc))


@public("g90")
def destroyLRNDescriptor(lrnDesc) -> None:
    """NULL is a no-op.

    >>> cudnn.destroyLRNDescriptor(normDesc)
    >>> normDesc
    LRNDescriptor(destroyed)
    """
    NORM.destroy("cudnnDestroyLRNDescriptor", "lrnDesc", lrnDesc)


def attributes(norm: LRN, desc) -> dict:
    """Of an op with such a window."""
    return dict(window=norm.n, scale=norm.alpha, power=norm.beta, offset=norm.k, compute=desc.dtype.compute)


def _rules(call, outputs: dict, **descs) -> None:
    for name, d in descs.items():
        call.require(d.rank <= 5, f"{name} must have rank 3 to 5; got {d.rank}", NotSupported)
    same_dims(call, NotSupported, **descs)
    same_types(call, NotSupported, **descs)
    for name, d in descs.items():
        spatial = list(zip(d.dims[2:], d.strides[2:], d.packed(d.dtype, d.dims).strides[2:]))
        call.require(d.rank < 5 or all(size == 1 or have == want for size, have, want in spatial),
                     f"{name} must be packed in its spatial dims, as its rank is 5; got dims {d.dims}, "
                     f"strides {d.strides}")
    writable(call, **outputs)


def _forward(call, norm, mode, x, y) -> Work:
    _rules(call, dict(yDesc=y), xDesc=x, yDesc=y)
    return Work(LrnFwd(**attributes(norm, x)), dict(x=x, y=y))


def _backward(call, norm, mode, y, dy, x, dx) -> Work:
    _rules(call, dict(dxDesc=dx), xDesc=x, yDesc=y, dyDesc=dy, dxDesc=dx)
    return Work(LrnBwd(**attributes(norm, x)), dict(x=x, dy=dy, dx=dx), unused=("y",))


FORWARD = Compute("cudnnLRNCrossChannelForward",
                  dict(normDesc=NORM, lrnMode=LRN_MODE, xDesc=TENSOR, yDesc=TENSOR), "x y", "alpha beta",
                  _forward)
BACKWARD = Compute("cudnnLRNCrossChannelBackward",
                   dict(normDesc=NORM, lrnMode=LRN_MODE, yDesc=TENSOR, dyDesc=TENSOR, xDesc=TENSOR,
                        dxDesc=TENSOR), "x y dy dx", "alpha beta", _backward)


@public("g91", lrnCrossChannelForward="")
def LRNCrossChannelForward(handle, normDesc, lrnMode, alpha, xDesc, x, beta, yDesc, y):
    """y = alpha * x * s^-lrnBeta + beta * y, with s = lrnK + lrnAlpha / lrnN * the sum of x^2 over a window
    of lrnN channels.

    >>> cudnn.LRNCrossChannelForward(handle, normDesc, cudnn.CUDNN_LRN_CROSS_CHANNEL_DIM1, 1.0, xDesc, x,
    ...                              0.0, xDesc, y)
    >>> y.round(3).astype(float).round(3).tolist()
    [0.0, 0.5, 0.3]
    """
    compute(FORWARD, handle, (normDesc, lrnMode, xDesc, yDesc), (x, y), (alpha, beta))


@public("g92", lrnCrossChannelBackward="")
def LRNCrossChannelBackward(handle, normDesc, lrnMode, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc,
                            dx):
    """dx = alpha * gradient + beta * dx, from x and dy; y must be given and is not read.
    Mind the order: y, dy, x, dx.

    >>> dy = np.ones(3, np.float32)
    >>> cudnn.LRNCrossChannelBackward(handle, normDesc, cudnn.CUDNN_LRN_CROSS_CHANNEL_DIM1, 1.0, xDesc, y,
    ...                               xDesc, dy, xDesc, x, 0.0, xDesc, dx)
    >>> dx.astype(float).round(3).tolist()
    [1.0, 0.0, -0.08]
    """
    compute(BACKWARD, handle, (normDesc, lrnMode, yDesc, dyDesc, xDesc, dxDesc), (x, y, dy, dx),
            (alpha, beta))
