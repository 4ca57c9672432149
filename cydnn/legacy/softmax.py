"""Softmax: cudnnSoftmaxForward and cudnnSoftmaxBackward. Spec: legacy API, 3.10 and 4.6.

>>> import numpy as np
>>> from cydnn import cudnn
>>> handle, xDesc = cudnn.create("numpy"), cudnn.createTensorDescriptor()
>>> cudnn.setTensor4dDescriptor(xDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 2, 2, 1, 1)
>>> x = np.array([[0, 0], [0, 100]], np.float32)
>>> y, dx = np.zeros_like(x), np.zeros_like(x)
"""
from __future__ import annotations

from .._core import compute
from ..ops import SoftmaxBwd, SoftmaxFwd
from .arguments import public
from .call import Compute, Work, packed_spatially, same_dims, same_strides, same_types, writable
from .enums import SOFTMAX_ALGORITHM, SOFTMAX_MODE
from .tensor import TENSOR


def _forward(call, algorithm, mode, x, y) -> Work:
    same_dims(call, xDesc=x, yDesc=y)
    same_types(call, xDesc=x, yDesc=y)
    packed_spatially(call, xDesc=x, yDesc=y)
    writable(call, yDesc=y)
    return Work(SoftmaxFwd(algorithm=algorithm, mode=mode, compute=y.dtype.compute), dict(x=x, y=y))


def _backward(call, algorithm, mode, y, dy, dx) -> Work:
    same_dims(call, yDesc=y, dyDesc=dy, dxDesc=dx)
    same_strides(call, yDesc=y, dyDesc=dy)
    same_types(call, yDesc=y, dyDesc=dy, dxDesc=dx)
    packed_spatially(call, yDesc=y, dyDesc=dy, dxDesc=dx)
    writable(call, dxDesc=dx)
    return Work(SoftmaxBwd(algorithm=algorithm, mode=mode, compute=y.dtype.compute), dict(y=y, dy=dy, dx=dx))


_ENUMS = dict(algorithm=SOFTMAX_ALGORITHM, mode=SOFTMAX_MODE)
FORWARD = Compute("cudnnSoftmaxForward", dict(**_ENUMS, xDesc=TENSOR, yDesc=TENSOR), "x y",
                  "alpha beta", _forward)
BACKWARD = Compute("cudnnSoftmaxBackward", dict(**_ENUMS, yDesc=TENSOR, dyDesc=TENSOR, dxDesc=TENSOR),
                   "y dy dx", "alpha beta", _backward)


@public("g57")
def softmaxForward(handle, algorithm, mode, alpha, xDesc, x, beta, yDesc, y):
    """y = alpha * softmax(x) + beta * y over the channels at each position, or over each image.
    x may be y with an equal descriptor.

    >>> cudnn.softmaxForward(handle, cudnn.CUDNN_SOFTMAX_ACCURATE, cudnn.CUDNN_SOFTMAX_MODE_CHANNEL,
    ...                      1.0, xDesc, x, 0.0, xDesc, y)
    >>> y.round(3).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    compute(FORWARD, handle, (algorithm, mode, xDesc, yDesc), (x, y), (alpha, beta))


@public("g58")
def softmaxBackward(handle, algorithm, mode, alpha, yDesc, y, dyDesc, dy, beta, dxDesc, dx):
    """dx = alpha * gradient + beta * dx, from y exactly as passed. dx may be dy with an equal descriptor.

    >>> y, dy = np.full((2, 2), 0.5, np.float32), np.array([[1, 0], [1, 1]], np.float32)
    >>> cudnn.softmaxBackward(handle, cudnn.CUDNN_SOFTMAX_ACCURATE, cudnn.CUDNN_SOFTMAX_MODE_CHANNEL,
    ...                       1.0, xDesc, y, xDesc, dy, 0.0, xDesc, dx)
    >>> dx.tolist()
    [[0.25, -0.25], [0.0, 0.0]]
    """
    compute(BACKWARD, handle, (algorithm, mode, yDesc, dyDesc, dxDesc), (y, dy, dx), (alpha, beta))
