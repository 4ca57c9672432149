"""Handles of the front end: an integer names a device and a stream."""
from __future__ import annotations

import itertools

from .. import device as devices
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
    if HANDLES.pop(handle, None) is None:
        raise BadParam(f"destroy_handle: handle must be one of create_handle; got {handle!r}")


def set_stream(handle: int, stream):
    """Work of this handle goes to ``stream``: an int, or an object with __cuda_stream__."""
    get_handle(handle).stream = stream.__cuda_stream__()[1] if hasattr(stream, "__cuda_stream__") else int(getattr(stream, "cuda_stream", stream))


def get_stream(handle: int) -> int:
    return get_handle(handle).stream


def get_handle(handle) -> Handle:
    if handle not in HANDLES:
        raise BadParam(f"handle must be one of create_handle; got {handle!r}")
    return HANDLES[handle]
