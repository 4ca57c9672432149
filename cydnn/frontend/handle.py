"""Handles of the front end: an integer names a device and a stream."""
from __future__ import annotations

import itertools

from .. import device as devices
from .._core import stream_of
from ..status import BadParam


class Handle:
    def __init__(self, device):
        self.device, self.stream = devices.get(device), 0


HANDLES: dict[int, Handle] = {}
_serial = itertools.count(1)


def create_handle(device=None) -> int:
    """A handle: an integer that names a device (None: the default) and a stream."""
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


def get_handle(handle) -> Handle:
    if handle not in HANDLES:
        raise BadParam(f"handle must be one of create_handle; got {handle!r}")
    return HANDLES[handle]
