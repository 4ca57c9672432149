"""Divisive normalization with means that are given: cudnnDivisiveNormalizationForward and …Backward.
Spec: legacy API, 3.14 and 4.10.

It uses an LRN descriptor. The two buffers that a caller must give are not needed, but for one: where y is x,
the windows read a copy of x, which the first of them holds.

>>> import numpy as np
>>> from cydnn import cudnn
>>> handle, normDesc = cudnn.create("numpy"), cudnn.createLRNDescriptor()
>>> cudnn.setLRNDescriptor(normDesc, 1, 1.0, 1.0, 1.0)
>>> xDesc, mode = cudnn.createTensorDescriptor(), cudnn.CUDNN_DIVNORM_PRECOMPUTED_MEANS
>>> cudnn.setTensor4dDescriptor(xDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 1, 1, 3)
>>> x, y, dx, dMeans, temp, temp2 = np.zeros((6, 3), np.float32)
>>> x[:] = 0, 1, 3
"""
from __future__ import annotations

from .._core import compute, pointer_of
from ..ops import DivisiveNormBwd, DivisiveNormFwd, Transform
from ..status import BadParam, NotSupported
from .arguments import is_given, public, scale
from .call import Compute, Work, same_dims, same_strides, same_types, writable
from .enums import DIV_NORM_MODE
from .lrn import NORM, attributes
from .tensor import TENSOR


def _rules(call, error, name, x, out) -> None:
    call.require(x.rank in (4, 5), f"xDesc must have rank 4 or 5; got {x.rank}")
    same_dims(call, xDesc=x, **{name: out})
    same_types(call, xDesc=x, **{name: out})
    same_strides(call, error, xDesc=x, **{name: out})
    writable(call, **{name: out})


def _forward(call, norm, mode, x, y, given) -> Work:
    _rules(call, NotSupported, "yDesc", x, y)
    means = dict(means=x) if "means" in given else {}
    return Work(DivisiveNormFwd(**attributes(norm, x)), dict(x=x, **means, y=y), unused=("temp", "temp2"))


def _backward(call, norm, mode, x, dx, given) -> Work:
    _rules(call, NotSupported, "dxDesc", x, dx)
    means = dict(means=x) if "means" in given else {}
    wanted = dict(dmeans=dx) if "dMeans" in given else {}
    return Work(DivisiveNormBwd(**attributes(norm, x)), dict(x=x, **means, dy=x, dx=dx, **wanted),
                absent=() if wanted else ("dmeans",), unused=("temp", "temp2"))


def _copy(call, x) -> Work:
    return Work(Transform(compute=x.dtype.compute), dict(x=x, y=x))


_KEYS = dict(normDesc=NORM, mode=DIV_NORM_MODE, xDesc=TENSOR)
FORWARD = Compute("cudnnDivisiveNormalizationForward", dict(**_KEYS, yDesc=TENSOR), "x means? temp temp2 y",
                  "alpha beta", _forward)
BACKWARD = Compute("cudnnDivisiveNormalizationBackward", dict(**_KEYS, dxDesc=TENSOR),
                   "x means? dy temp temp2 dx dMeans?", "alpha beta", _backward)
COPY = Compute("cudnnDivisiveNormalizationForward", dict(xDesc=TENSOR), "x temp", "alpha beta", _copy)


def _is_one(x, y) -> bool:
    """Whether two pointers are one address."""
    if type(x) is int or x is y:
        return x == y if type(y) is int else x is y
    try:
        return pointer_of(x) == pointer_of(y)
    except (BadParam, TypeError, OverflowError):
        return False                             # the call says what is wrong with them


@public("g93")
def divisiveNormalizationForward(handle, normDesc, mode, alpha, xDesc, x, means, temp, temp2, beta, yDesc, y):
    """y = alpha * x * s^-lrnBeta + beta * y, with s = lrnK + lrnAlpha / lrnN^d * the sum of (x - means)^2
    over the lrnN^d cells around an element; means may be NULL (zeros). y may be x with an equal descriptor.

    >>> cudnn.divisiveNormalizationForward(handle, normDesc, mode, 1.0, xDesc, x, None, temp, temp2, 0.0,
    ...                                    xDesc, y)
    >>> y.astype(float).round(3).tolist()
    [0.0, 0.5, 0.3]
    """
    keys = (normDesc, mode, xDesc, yDesc)
    if is_given(x) and _is_one(x, y):
        x_desc, y_desc = FORWARD.contents(keys)[2:]
        same_strides(FORWARD, xDesc=x_desc, yDesc=y_desc)
        FORWARD.require(is_given(temp2), "temp2 must not be NULL")
        alpha, beta = (scale(FORWARD.function, *pair) for pair in (("alpha", alpha), ("beta", beta)))
        compute(COPY, handle, (xDesc,), (x, temp), (1.0, 0.0))
        x = temp
    compute(FORWARD, handle, keys, (x, means, temp, temp2, y), (alpha, beta))


@public("g94")
def divisiveNormalizationBackward(handle, normDesc, mode, alpha, xDesc, x, means, dy, temp, temp2, beta,
                                  dxDesc, dx, dMeans):
    """dx = alpha * gradient of x + beta * dx, dMeans alike of means; means and dMeans may be NULL. xDesc is
    of x, means and dy, dxDesc of dx and dMeans.

    >>> dy = np.ones(3, np.float32)
    >>> cudnn.divisiveNormalizationBackward(handle, normDesc, mode, 1.0, xDesc, x, None, dy, temp, temp2, 0.0,
    ...                                     xDesc, dx, dMeans)
    >>> dx.astype(float).round(3).tolist(), dMeans.astype(float).round(3).tolist()
    ([1.0, 0.0, -0.08], [0.0, 0.5, 0.18])
    """
    compute(BACKWARD, handle, (normDesc, mode, xDesc, dxDesc), (x, means, dy, temp, temp2, dx, dMeans),
            (alpha, beta))
