"""Dropout: descriptors, sizes, forward and backward: cudnnCreateDropoutDescriptor to cudnnDropoutBackward.

The generator's states are in the caller's buffer on the device: a copy of it that is written back replays
masks, and descriptors that share it share one stream of numbers. Spec: legacy API, 3.17 and 4.13.

>>> import numpy as np
>>> from cydnn import cudnn
>>> handle, dropoutDesc = cudnn.create("numpy"), cudnn.createDropoutDescriptor()
>>> states = np.zeros(cudnn.dropoutGetStatesSize(handle), np.uint8)
>>> cudnn.setDropoutDescriptor(dropoutDesc, handle, 0.5, states, states.nbytes, 7)
>>> xDesc = cudnn.createTensorDescriptor()
>>> cudnn.setTensor4dDescriptor(xDesc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 8, 8, 8)
>>> x, y = np.ones(512, np.float32), np.zeros(512, np.float32)
>>> reserve = np.zeros(cudnn.dropoutGetReserveSpaceSize(xDesc), np.uint8)
"""
from __future__ import annotations

from typing import NamedTuple

from .._core import compute, memory_of
from ..ops import DropoutBwd, DropoutFwd, DropoutStates
from ..ops.dropout import mask_desc
from ..ops.philox import STATES, seeded
from ..plan import made
from ..status import BadParam, InvalidValue, require
from .arguments import Holder, Kind, each, is_given, number, public
from .call import Compute, Work, choose, same_types, writable
from .handle import HANDLE
from .tensor import TENSOR


class Dropout(NamedTuple):
    p: float


class DropoutDescriptor(Holder):
    """A dropout descriptor. ``states``: the address of its generator's states, 0 before there are any. Copies
    share them: they draw from one stream of numbers."""
    __slots__ = ("states",)

    def __init__(self):
        self.states = 0


DROPOUT = Kind("dropout descriptor", type_=DropoutDescriptor)


@public("g111")
def createDropoutDescriptor():
    """A dropout descriptor that is not set yet.

    >>> cudnn.createDropoutDescriptor()
    DropoutDescriptor(not set)
    """
    return DROPOUT.create()


@public("g112")
def destroyDropoutDescriptor(dropoutDesc) -> None:
    """NULL is a no-op.

    >>> cudnn.destroyDropoutDescriptor(dropoutDesc)
    >>> dropoutDesc
    DropoutDescriptor(destroyed)
    """
    DROPOUT.destroy("cudnnDestroyDropoutDescriptor", "dropoutDesc", dropoutDesc)


@public("g113")
def dropoutGetStatesSize(handle) -> int:
    """Bytes of a generator's states.

    >>> cudnn.dropoutGetStatesSize(handle) == states.nbytes
    True
    """
    HANDLE.resolve("cudnnDropoutGetStatesSize", "handle", handle)
    return STATES.bytes


def reserve_bytes(desc) -> int:
    """Bytes of the mask of a tensor."""
    return mask_desc(desc.count).bytes


@public("g114", getDropoutReserveSpaceSize="g114")
def dropoutGetReserveSpaceSize(xDesc) -> int:
    """Bytes of the mask that dropoutForward writes: one bit an element.

    >>> cudnn.dropoutGetReserveSpaceSize(xDesc) == reserve.nbytes
    True
    """
    return reserve_bytes(TENSOR.content("cudnnDropoutGetReserveSpaceSize", "xDesc", xDesc))


@public("g115")
def setDropoutDescriptor(dropoutDesc, handle, dropout, states, stateSizeInBytes, seed) -> None:
    """``dropout`` is the probability that an element is dropped. ``states``: device memory that a launch on
    the handle's stream fills from ``seed`` (64 bits); NULL changes the probability alone, and states that
    were set stay.

    >>> cudnn.setDropoutDescriptor(dropoutDesc, handle, 0.25, states, states.nbytes, 1234)
    >>> dropoutDesc
    DropoutDescriptor(p=0.25)
    """
    function = "cudnnSetDropoutDescriptor"
    found = DROPOUT.resolve(function, "dropoutDesc", dropoutDesc)
    handle = HANDLE.resolve(function, "handle", handle)
    p = number(function, "dropout", dropout)
    require(0 <= p <= 1, f"{function}: dropout must be in 0 to 1; got {dropout}")
    if is_given(states):
        found.states = _seeded(function, handle, states, *each(
            function, stateSizeInBytes=stateSizeInBytes, seed=seed))
    DROPOUT.set(found, Dropout(p))


def _seeded(function, handle, states, size_bytes: int, seed: int):
    """The memory of states that begin now."""
    require(size_bytes >= STATES.bytes, f"{function}: stateSizeInBytes must be at least {STATES.bytes}, "
                                        f"as dropoutGetStatesSize says; got {size_bytes}", InvalidValue)
    require(0 <= seed < 2 ** 64, f"{function}: seed must be in 0 to 2**64 - 1; got {seed}")
    work = Work(DropoutStates(), dict(states=STATES))
    executable = made(choose(work, handle.device.facts, labels=("states",)), handle.device).executable
    try:
        memory = states if type(states) is int else memory_of(states)
        executable.execute((memory,), (int(seeded(seed)[0]),), None, 0, handle.stream)
    except BadParam as error:
        raise error.within(function) from None
    return memory


def states_of(function: str, value):
    """The states of a dropout descriptor that draws, or drew. Raises BadParam where none were ever set."""
    found = value if type(value) is DropoutDescriptor else DROPOUT.resolve(function, "dropoutDesc", value)
    if not found.states and not found.is_destroyed:
        raise BadParam(f"{function}: dropoutDesc must have states; got a dropout descriptor that was "
                       "never given any")
    return found.states


def _checked(call, x, y, reserve_size, names) -> None:
    """The rules that both directions share. ``names`` of input and output."""
    first, second = names
    call.require(y.count == x.count,
                 f"{second} must have {x.count} elements like {first}; got {y.count}, dims {y.dims}")
    same_types(call, **{first: x, second: y})
    writable(call, **{second: y})
    need = reserve_bytes(x)
    call.require(reserve_size >= need, f"reserveSpaceSizeInBytes must be at least {need}, as "
                                       f"dropoutGetReserveSpaceSize says; got {reserve_size}")


def _forward(call, dropout, x, y, reserve_size) -> Work:
    _checked(call, x, y, reserve_size, ("xDesc", "yDesc"))
    return Work(DropoutFwd(p=dropout.p, compute=x.dtype.compute), dict(x=x, y=y))


def _backward(call, dropout, dy, dx, reserve_size) -> Work:
    _checked(call, dy, dx, reserve_size, ("dyDesc", "dxDesc"))
    return Work(DropoutBwd(p=dropout.p, compute=dy.dtype.compute),
                dict(dy=dy, mask=mask_desc(dy.count), dx=dx))


FORWARD = Compute("cudnnDropoutForward", dict(dropoutDesc=DROPOUT, xDesc=TENSOR, yDesc=TENSOR,
                                              reserveSpaceSizeInBytes=None),
                  "x y reserveSpace states", "", _forward)
BACKWARD = Compute("cudnnDropoutBackward", dict(dropoutDesc=DROPOUT, dyDesc=TENSOR, dxDesc=TENSOR,
                                                reserveSpaceSizeInBytes=None),
                   "dy reserveSpace dx", "", _backward)


@public("g116")
def dropoutForward(handle, dropoutDesc, xDesc, x, yDesc, y, reserveSpace, reserveSpaceSizeInBytes):
    """y = x / (1 - dropout) where a random bit keeps an element, else 0; the mask goes to ``reserveSpace``,
    the states move on. x may be y with equal strides.

    >>> cudnn.dropoutForward(handle, dropoutDesc, xDesc, x, xDesc, y, reserve, reserve.nbytes)
    >>> sorted(set(y.tolist()))
    [0.0, 2.0]
    """
    compute(FORWARD, handle, (dropoutDesc, xDesc, yDesc, reserveSpaceSizeInBytes),
            (x, y, reserveSpace, states_of("cudnnDropoutForward", dropoutDesc)), ())


@public("g117")
def dropoutBackward(handle, dropoutDesc, dyDesc, dy, dxDesc, dx, reserveSpace, reserveSpaceSizeInBytes):
    """dx = dy / (1 - dropout) where the forward pass kept an element, else 0. dx may be dy with equal
    strides. Mind the order: dy, dx, then the reserve.

    >>> cudnn.dropoutForward(handle, dropoutDesc, xDesc, x, xDesc, y, reserve, reserve.nbytes)
    >>> dy, dx = np.ones(512, np.float32), np.zeros(512, np.float32)
    >>> cudnn.dropoutBackward(handle, dropoutDesc, xDesc, dy, xDesc, dx, reserve, reserve.nbytes)
    >>> bool((dx == y).all())
    True
    """
    states_of("cudnnDropoutBackward", dropoutDesc)
    compute(BACKWARD, handle, (dropoutDesc, dyDesc, dxDesc, reserveSpaceSizeInBytes),
            (dy, reserveSpace, dx), ())
