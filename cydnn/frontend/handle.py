"""Handles of the front end: an integer names a device and a stream."""
from __future__ import annotations

import itertools
import sys

from .. import device as devices
from .._core import stream_of
from ..status import BadParam


class Handle:
    """A device, and the stream that its work goes to."""
    __slots__ = ("device", "stream")

    def __init__(self, device=None):
        self.device, self.stream = devices.get(device if device is not None else current()), 0


HANDLES: dict[int, Handle] = {}
_serial = itertools.count(1)


def current() -> str | None:
    """The CUDA device that torch is at in this thread, when it uses one; None (the default device)
    otherwise."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized() or not devices.default().name.startswith("cuda"):
        return None
    return f"cuda:{cuda.current_device()}"


def create_handle(device=None) -> int:
    """A handle: an integer that names a device and a stream. ``device`` None: the one that torch is at,
    else the default."""
    number = next(_serial)
    HANDLES[number] = Handle(device)
    return number


def destroy_handle(handle: int):
    """The handle is gone; its number never comes again."""
    if HANDLES.pop(handle, None) is None:
        raise BadParam(f"destroy_handle: handle must be one of create_handle; got {handle!r}")


def set_stream(handle: int, stream):
    """Work of this handle goes to ``stream``: an int, or an object with __cuda_stream__."""
    get_handle(handle).stream = stream_of(stream)


def get_stream(handle: int) -> int:
    """The stream of a handle, as the driver's number."""
    return get_handle(handle).stream


def get_handle(handle):
    """What a number names; an object that has a device and a stream itself (a handle of the v5 API) stands
    for itself."""
    if isinstance(handle, int) and handle in HANDLES:
        return HANDLES[handle]
    if hasattr(handle, "device") and hasattr(handle, "stream"):
        return handle
    raise BadParam(f"handle: must be one of create_handle; got {handle!r}")
