"""Handles of the front end: an integer names a device and a stream."""
from __future__ import annotations

import sys

from .. import device as devices
from .._core import HandleBase, stream_of
from ..given import shown
from ..locks import numbers
from ..status import BadParam, NotInitialized


class Handle:
    """A device, and the stream that its work goes to."""
    __slots__ = ("device", "stream")

    def __init__(self, device=None):
        self.device, self.stream = devices.get(device if device is not None else current()), 0


class HandleNumber(int):
    """The number of a handle. ``with create_handle() as handle:`` destroys it behind the block."""
    __slots__ = ()

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError(f"pickle: a handle belongs to its process; got {self!r}: create_handle() gives one "
                        "there")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        HANDLES.pop(self, None)


HANDLES: dict[int, Handle] = {}
_serial = numbers()


def current() -> str | None:
    """The CUDA device that torch is at in this thread, when it uses one and none was chosen here; None (the
    default device) otherwise."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if devices.CHOSEN.get() is not None or cuda is None or not cuda.is_initialized():
        return None
    if not devices.default().name.startswith("cuda"):
        return None
    return f"cuda:{cuda.current_device()}"


def create_handle(device=None) -> HandleNumber:
    """A handle: an integer that names a device and a stream. ``device`` None: the one that torch is at,
    else the default. ``with create_handle() as handle:`` destroys it behind the block."""
    number = HandleNumber(next(_serial))
    HANDLES[number] = Handle(device)
    return number


def destroy_handle(handle: int):
    """The handle is gone; its number never comes again."""
    if not isinstance(handle, int) or HANDLES.pop(handle, None) is None:
        raise BadParam(f"destroy_handle: handle must be one of create_handle; got {shown(handle)}")


def set_stream(handle: int, stream):
    """Work of this handle goes to ``stream``: an int, or an object with __cuda_stream__."""
    found = _with_stream(handle)
    try:
        found.stream = stream_of(stream)
    except BadParam as error:
        raise BadParam(f"set_stream: {error.args[0]}") from None


def get_stream(handle: int) -> int:
    """The stream of a handle, as the driver's number."""
    return _with_stream(handle).stream


def _with_stream(handle):
    """A handle that keeps a stream: one of create_handle, or an object that has one."""
    try:
        if devices.is_device(handle.device) and hasattr(handle, "stream"):
            return handle
    except Exception:                            # its own methods may raise anything
        pass
    return _numbered(handle)


def _numbered(handle) -> Handle:
    is_number = type(handle) in (int, HandleNumber)          # True and 1.0 are equal to a number
    found = HANDLES.get(handle) if is_number else None
    if found is None:
        raise BadParam(f"handle: must be one of create_handle; got {shown(handle)}")
    return found


def get_handle(handle):
    """What a number names; a device or its name is a handle on its default stream; an object with a device,
    as a handle of the v5 API or a stream of torch, stands for that and for its stream."""
    if type(handle) in (int, HandleNumber):
        return _numbered(handle)
    if isinstance(handle, str) or devices.is_device(handle):
        return Handle(handle)
    if isinstance(handle, HandleBase) and handle.is_destroyed:
        raise BadParam(f"handle: must not be destroyed; got {handle!r}")
    try:
        place = getattr(handle, "device", None)
        if devices.is_device(place) and hasattr(handle, "stream"):
            return handle
        if str(place) == "cpu":                  # an array of the host
            raise ValueError
        found = Handle(place if devices.is_device(place) else str(place))
        has_stream = hasattr(handle, "__cuda_stream__") or hasattr(handle, "cuda_stream")
    except NotInitialized:                       # the name of a device that is not there
        raise
    except Exception:                            # its own methods may raise anything
        raise BadParam("handle: must be one of create_handle, a device or its name, or an object with the "
                       f".device that is meant; got {shown(handle)}") from None
    if has_stream:
        found.stream = stream_of(handle)
    return found
