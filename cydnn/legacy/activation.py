"""Activation: descriptors, forward and backward: cudnnActivationForward to cudnnActivationBackward_v4.
Spec: legacy API, 3.12 and 4.8.

>>> import numpy as np
>>> from cydnn import cudnn
>>> handle, activationDesc = cudnn.create("numpy"), cudnn.createActivationDescriptor()
>>> cudnn.setActivationDescriptor(activationDesc, cudnn.CUDNN_ACTIVATION_RELU, cudnn.CUDNN_PROPAGATE_NAN, 0.0)
>>> xDesc = cudnn.createTensorDescriptor()
>>> cudnn.setTensor4dDescriptor(xDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 1, 2, 2)
>>> x, y, dx = np.array([-2, -1, 1, 2], np.float32), np.zeros(4, np.float32), np.zeros(4, np.float32)
"""
from __future__ import annotations

from typing import NamedTuple

from .._core import compute
from ..ops import Pointwise
from ..status import BadParam, NotSupported
from .arguments import Kind, number, public
from .call import Compute, Work, packed_spatially, same_dims, same_strides, same_types, writable
from .enums import ACTIVATION_MODE, CONSTANTS, NAN
from .tensor import TENSOR


class Activation(NamedTuple):
    mode: int
    nan: int
    ceiling: float


def _text(fields: Activation) -> str:
    word = ACTIVATION_MODE.word(fields.mode)
    ceiling = f" ceiling={fields.ceiling}" if word == "clipped_relu" else ""
    return f"mode={word} nan={NAN.word(fields.nan)}{ceiling}"


ACTIVATION = Kind("activation descriptor", text=_text)

MODES = {                       # word: (forward mode of the op, backward mode, what backward reads beside dy)
    "sigmoid": ("sigmoid_fwd", "sigmoid_bwd_from_y", "y"),
    "tanh": ("tanh_fwd", "tanh_bwd_from_y", "y"),
    "relu": ("relu_fwd", "relu_bwd", "x"),
    "clipped_relu": ("relu_fwd", "relu_bwd", "x"),
}


@public("g79")
def createActivationDescriptor():
    """An activation descriptor that is not set yet.

    >>> cudnn.createActivationDescriptor()
    ActivationDescriptor(not set)
    """
    return ACTIVATION.create()


@public("g80")
def setActivationDescriptor(activationDesc, mode, reluNanOpt, reluCeiling) -> None:
    """``reluCeiling`` is used by CLIPPED_RELU only.

    >>> cudnn.setActivationDescriptor(activationDesc, cudnn.CUDNN_ACTIVATION_CLIPPED_RELU,
    ...                               cudnn.CUDNN_NOT_PROPAGATE_NAN, 6.0)
    >>> activationDesc
    ActivationDescriptor(mode=clipped_relu nan=ignore ceiling=6.0)
    """
    function = "cudnnSetActivationDescriptor"
    found = ACTIVATION.resolve(function, "activationDesc", activationDesc)
    ACTIVATION.set(found, Activation(ACTIVATION_MODE.check(function, "mode", mode),
                                     NAN.check(function, "reluNanOpt", reluNanOpt),
                                     number(function, "reluCeiling", reluCeiling)))


@public("g81")
def getActivationDescriptor(activationDesc):
    """(mode, reluNanOpt, reluCeiling)

    >>> cudnn.getActivationDescriptor(activationDesc)
    (1, 1, 0.0)
    """
    return tuple(ACTIVATION.fields("cudnnGetActivationDescriptor", "activationDesc", activationDesc))


@public("g82")
def destroyActivationDescriptor(activationDesc) -> None:
    """NULL is a no-op.

    >>> cudnn.destroyActivationDescriptor(activationDesc)
    >>> activationDesc
    ActivationDescriptor(destroyed)
    """
    ACTIVATION.destroy("cudnnDestroyActivationDescriptor", "activationDesc", activationDesc)


def _op(word, nan, ceiling, desc, backward: bool) -> Pointwise:
    clip = dict(relu_lower_clip=min(0.0, ceiling), relu_upper_clip=ceiling) if word == "clipped_relu" else {}
    return Pointwise(mode=MODES[word][backward], nan=nan, compute=desc.dtype.compute, **clip)


def _forward(call, activation, x, y) -> Work:
    same_dims(call, xDesc=x, yDesc=y)
    same_types(call, xDesc=x, yDesc=y)
    packed_spatially(call, xDesc=x, yDesc=y)
    writable(call, yDesc=y)
    word = ACTIVATION_MODE.word(activation.mode)
    return Work(_op(word, NAN.word(activation.nan), activation.ceiling, y, backward=False), dict(x=x, y=y))


def _backward(call, activation, y, dy, x, dx) -> Work:
    same_dims(call, NotSupported, yDesc=y, dyDesc=dy, xDesc=x, dxDesc=dx)
    same_types(call, NotSupported, yDesc=y, dyDesc=dy, xDesc=x, dxDesc=dx)
    same_strides(call, NotSupported, yDesc=y, dyDesc=dy)
    same_strides(call, NotSupported, xDesc=x, dxDesc=dx)
    packed_spatially(call, yDesc=y, xDesc=x)
    writable(call, dxDesc=dx)
    word = ACTIVATION_MODE.word(activation.mode)
    read = MODES[word][2]
    return Work(_op(word, NAN.word(activation.nan), activation.ceiling, y, backward=True),
                dict(x=dy, b=dict(x=x, y=y)[read], y=dx), unused=("x" if read == "y" else "y",))


def _without_ceiling(meaning):
    """The deprecated functions take a mode; there is no ceiling, and NaN is not propagated."""
    def plain(call, word, *descs) -> Work:
        call.require(word != "clipped_relu", "mode must not be CUDNN_ACTIVATION_CLIPPED_RELU, "
                                             "which needs a descriptor for its ceiling", BadParam)
        numbers = {name: number for number, name in ACTIVATION_MODE}
        return meaning(call, Activation(numbers[word], CONSTANTS["CUDNN_NOT_PROPAGATE_NAN"], 0.0), *descs)
    return plain


_TWO, _FOUR = dict(xDesc=TENSOR, yDesc=TENSOR), dict(yDesc=TENSOR, dyDesc=TENSOR, xDesc=TENSOR, dxDesc=TENSOR)
_SCALARS = "alpha1 alpha2 alpha beta"       # alpha1 and alpha2 scale the operands of the op; they are 1 here
FORWARD = Compute("cudnnActivationForward", dict(activationDesc=ACTIVATION, **_TWO),
                  "x y", _SCALARS, _forward)
BACKWARD = Compute("cudnnActivationBackward", dict(activationDesc=ACTIVATION, **_FOUR),
                   "dy x y dx", _SCALARS, _backward)
FORWARD_V3 = Compute("cudnnActivationForward_v3", dict(mode=ACTIVATION_MODE, **_TWO), "x y",
                     _SCALARS, _without_ceiling(_forward))
BACKWARD_V3 = Compute("cudnnActivationBackward_v3", dict(mode=ACTIVATION_MODE, **_FOUR), "dy x y dx",
                      _SCALARS, _without_ceiling(_backward))


@public("g77", activationForward_v4="g85")
def activationForward(handle, activationDesc, alpha, xDesc, x, beta, yDesc, y):
    """y = alpha * f(x) + beta * y. x may be y with an equal descriptor.

    >>> cudnn.activationForward(handle, activationDesc, 1.0, xDesc, x, 0.0, xDesc, y)
    >>> y.tolist()
    [0.0, 0.0, 1.0, 2.0]
    """
    compute(FORWARD, handle, (activationDesc, xDesc, yDesc), (x, y), (1.0, 1.0, alpha, beta))


@public("g78", activationBackward_v4="g86")
def activationBackward(handle, activationDesc, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc, dx):
    """dx = alpha * gradient + beta * dx, from y for SIGMOID and TANH, from x for the others.
    dx may be dy with an equal descriptor.

    >>> dy = np.array([1, 2, 3, 4], np.float32)
    >>> cudnn.activationBackward(handle, activationDesc, 1.0, xDesc, y, xDesc, dy, xDesc, x, 0.0, xDesc, dx)
    >>> dx.tolist()
    [0.0, 0.0, 3.0, 4.0]
    """
    compute(BACKWARD, handle, (activationDesc, yDesc, dyDesc, xDesc, dxDesc),
            (dy, x, y, dx), (1.0, 1.0, alpha, beta))


@public("g83")
def activationForward_v3(handle, mode, alpha, xDesc, x, beta, yDesc, y):
    """Deprecated: a mode in place of the descriptor.

    >>> cudnn.activationForward_v3(handle, cudnn.CUDNN_ACTIVATION_RELU, 2.0, xDesc, x, 0.0, xDesc, y)
    >>> y.tolist()
    [0.0, 0.0, 2.0, 4.0]
    """
    compute(FORWARD_V3, handle, (mode, xDesc, yDesc), (x, y), (1.0, 1.0, alpha, beta))


@public("g84")
def activationBackward_v3(handle, mode, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc, dx):
    """Deprecated: a mode in place of the descriptor.

    >>> dy = np.array([1, 2, 3, 4], np.float32)
    >>> cudnn.activationBackward_v3(handle, cudnn.CUDNN_ACTIVATION_RELU, 1.0, xDesc, y, xDesc, dy, xDesc, x,
    ...                             0.0, xDesc, dx)
    >>> dx.tolist()
    [0.0, 0.0, 3.0, 4.0]
    """
    compute(BACKWARD_V3, handle, (mode, yDesc, dyDesc, xDesc, dxDesc),
            (dy, x, y, dx), (1.0, 1.0, alpha, beta))
