"""Tensor operations and op-tensor descriptors: cudnnTransformTensor to cudnnScaleTensor.
Spec: legacy API, 3.3 and 4.3.

>>> import numpy as np
>>> from cydnn import cudnn
>>> handle, opTensorDesc = cudnn.create("numpy"), cudnn.createOpTensorDescriptor()
>>> cudnn.setOpTensorDescriptor(opTensorDesc, cudnn.CUDNN_OP_TENSOR_MAX, cudnn.CUDNN_DATA_FLOAT,
...                             cudnn.CUDNN_PROPAGATE_NAN)
>>> xDesc, biasDesc = cudnn.createTensorDescriptor(), cudnn.createTensorDescriptor()
>>> cudnn.setTensor4dDescriptor(xDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 2, 1, 2)
>>> cudnn.setTensor4dDescriptor(biasDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 2, 1, 1)
>>> x, bias = np.array([1, 2, 3, 4], np.float32), np.array([10, 20], np.float32)
"""
from __future__ import annotations

from typing import NamedTuple

from .._core import compute, pointer_of
from ..dtypes import f64
from ..ops import AddTensor, OpTensor, ScaleTensor, SetTensor, Transform
from ..status import BadParam, NotSupported
from .arguments import Kind, public
from .call import Compute, Work, same_dims, same_types, writable
from .enums import DATA_TYPE, NAN, OP_TENSOR
from .tensor import TENSOR


class OpTensorFields(NamedTuple):
    op: int
    compute: int
    nan: int


def _text(fields: OpTensorFields) -> str:
    return f"mode={OP_TENSOR.word(fields.op)} nan={NAN.word(fields.nan)} acc={DATA_TYPE.word(fields.compute)}"


OP_DESCRIPTOR = Kind("op tensor descriptor", text=_text)


@public("v5.0.4")
def createOpTensorDescriptor():
    """An op-tensor descriptor that is not set yet.

    >>> cudnn.createOpTensorDescriptor()
    OpTensorDescriptor(not set)
    """
    return OP_DESCRIPTOR.create()


@public("v5.0.4")
def setOpTensorDescriptor(opTensorDesc, opTensorOp, opTensorCompType, opTensorNanOpt) -> None:
    """The operation, its math type, and what MIN and MAX do with NaN.

    >>> cudnn.setOpTensorDescriptor(opTensorDesc, cudnn.CUDNN_OP_TENSOR_MUL, cudnn.CUDNN_DATA_FLOAT,
    ...                             cudnn.CUDNN_NOT_PROPAGATE_NAN)
    >>> opTensorDesc
    OpTensorDescriptor(mode=mul nan=ignore acc=f32)
    """
    function = "cudnnSetOpTensorDescriptor"
    found = OP_DESCRIPTOR.resolve(function, "opTensorDesc", opTensorDesc)
    OP_DESCRIPTOR.set(found, OpTensorFields(OP_TENSOR.check(function, "opTensorOp", opTensorOp),
                                            DATA_TYPE.check(function, "opTensorCompType", opTensorCompType),
                                            NAN.check(function, "opTensorNanOpt", opTensorNanOpt)))


@public("v5.0.4")
def getOpTensorDescriptor(opTensorDesc):
    """(opTensorOp, opTensorCompType, opTensorNanOpt)

    >>> cudnn.getOpTensorDescriptor(opTensorDesc)
    (3, 0, 1)
    """
    return tuple(OP_DESCRIPTOR.fields("cudnnGetOpTensorDescriptor", "opTensorDesc", opTensorDesc))


@public("v5.0.4")
def destroyOpTensorDescriptor(opTensorDesc) -> None:
    """NULL is a no-op.

    >>> cudnn.destroyOpTensorDescriptor(opTensorDesc)
    >>> opTensorDesc
    OpTensorDescriptor(destroyed)
    """
    OP_DESCRIPTOR.destroy("cudnnDestroyOpTensorDescriptor", "opTensorDesc", opTensorDesc)


def _transform(call, x, y) -> Work:
    same_dims(call, xDesc=x, yDesc=y)
    same_types(call, xDesc=x, yDesc=y)
    writable(call, yDesc=y)
    return Work(Transform(compute=y.dtype.compute), dict(x=x, y=y))


def _broadcast(call, name, small, full_name, full) -> None:
    call.require(small.rank == full.rank,
                 f"{name} must have rank {full.rank} like {full_name}; got {small.rank}")
    call.require(all(s in (f, 1) for s, f in zip(small.dims, full.dims)),
                 f"{name} must have dims equal to those of {full_name} {full.dims} or 1; got {small.dims}")


def _at_most_5(call, **descs) -> None:
    for name, d in descs.items():
        call.require(d.rank <= 5, f"{name} must have rank <= 5; got {d.rank}", NotSupported)


def _add(call, a, c) -> Work:
    _broadcast(call, "aDesc", a, "cDesc", c)
    same_types(call, cDesc=c, aDesc=a)
    _at_most_5(call, cDesc=c)
    writable(call, cDesc=c)
    return Work(AddTensor(compute=c.dtype.compute), dict(a=a, c=c))


def _op(call, op, a, b, c) -> Work:
    same_dims(call, cDesc=c, aDesc=a)
    _broadcast(call, "bDesc", b, "cDesc", c)
    same_types(call, aDesc=a, bDesc=b)
    call.require((c.dtype is f64) == (a.dtype is f64),
                 f"aDesc, bDesc and cDesc must all be DOUBLE or none; got {a.dtype}, {b.dtype}, {c.dtype}")
    _at_most_5(call, cDesc=c)
    compute = DATA_TYPE.word(op.compute)
    call.require(compute == c.dtype.compute,
                 f"opTensorCompType must be {c.dtype.compute} for a C of {c.dtype}; got {compute}",
                 NotSupported)
    writable(call, cDesc=c)
    return Work(OpTensor(mode=OP_TENSOR.word(op.op), nan=NAN.word(op.nan), compute=compute),
                dict(a=a, b=b, c=c))


def _set(call, y) -> Work:
    writable(call, yDesc=y)
    return Work(SetTensor(compute=y.dtype.compute), dict(y=y))


def _scale(call, y) -> Work:
    writable(call, yDesc=y)
    return Work(ScaleTensor(compute=y.dtype.compute), dict(y=y))


TRANSFORM = Compute("cudnnTransformTensor", dict(xDesc=TENSOR, yDesc=TENSOR), "x y", "alpha beta", _transform)
ADD = Compute("cudnnAddTensor", dict(aDesc=TENSOR, cDesc=TENSOR), "A C", "alpha beta", _add)
OP = Compute("cudnnOpTensor", dict(opTensorDesc=OP_DESCRIPTOR, aDesc=TENSOR, bDesc=TENSOR, cDesc=TENSOR),
             "A B C", "alpha1 alpha2 beta", _op)
SET = Compute("cudnnSetTensor", dict(yDesc=TENSOR), "y", "value", _set)
SCALE = Compute("cudnnScaleTensor", dict(yDesc=TENSOR), "y", "alpha", _scale)


@public("g14")
def transformTensor(handle, alpha, xDesc, x, beta, yDesc, y):
    """y = alpha * x + beta * y between two layouts of equal dims and type; never in place.

    >>> nhwcDesc, y = cudnn.createTensorDescriptor(), np.zeros(4, np.float32)
    >>> cudnn.setTensor4dDescriptor(nhwcDesc, cudnn.CUDNN_TENSOR_NHWC, cudnn.CUDNN_DATA_FLOAT, 1, 2, 1, 2)
    >>> cudnn.transformTensor(handle, 1.0, xDesc, x, 0.0, nhwcDesc, y)
    >>> y.tolist()
    [1.0, 3.0, 2.0, 4.0]
    """
    compute(TRANSFORM, handle, (xDesc, yDesc), (x, y), (alpha, beta))


@public("g15", addTensor_v3="")
def addTensor(handle, alpha, aDesc, A, beta, cDesc, C):
    """C = alpha * A + beta * C; every dim of A equals C's or is 1.

    >>> cudnn.addTensor(handle, 1.0, biasDesc, bias, 1.0, xDesc, x)
    >>> x.tolist()
    [11.0, 12.0, 23.0, 24.0]
    """
    compute(ADD, handle, (aDesc, cDesc), (A, C), (alpha, beta))


@public("g16")
def opTensor(handle, opTensorDesc, alpha1, aDesc, A, alpha2, bDesc, B, beta, cDesc, C):
    """C = op(alpha1 * A, alpha2 * B) + beta * C; A may be C, B may be C only if A is too;
    every dim of B equals C's or is 1.

    >>> y = np.zeros(4, np.float32)
    >>> cudnn.opTensor(handle, opTensorDesc, 5.0, xDesc, x, 1.0, biasDesc, bias, 0.0, xDesc, y)
    >>> y.tolist()
    [10.0, 10.0, 20.0, 20.0]
    """
    if _is_one(B, C):
        OP.require(_is_one(A, C), "B must not be C, unless A is C too")
        return OP.run(handle, (opTensorDesc, aDesc, bDesc, cDesc), (A, B, C), (alpha1, alpha2, beta))
    compute(OP, handle, (opTensorDesc, aDesc, bDesc, cDesc), (A, B, C), (alpha1, alpha2, beta))


def _is_one(a, b) -> bool:
    """Two pointers have one address; False when one of them is no pointer, which the checks will say."""
    try:
        return pointer_of(a) == pointer_of(b)
    except (BadParam, TypeError, OverflowError):
        return False


@public("g17")
def setTensor(handle, yDesc, y, value):
    """Every element of y becomes ``value``, a number, converted to y's type; gaps are not written.

    >>> cudnn.setTensor(handle, xDesc, x, 7)
    >>> x.tolist()
    [7.0, 7.0, 7.0, 7.0]
    """
    compute(SET, handle, (yDesc,), (y,), (value,))


@public("g18")
def scaleTensor(handle, yDesc, y, alpha):
    """y = alpha * y; y is always read.

    >>> cudnn.scaleTensor(handle, xDesc, x, 0.5)
    >>> x.tolist()
    [0.5, 1.0, 1.5, 2.0]
    """
    compute(SCALE, handle, (yDesc,), (y,), (alpha,))
