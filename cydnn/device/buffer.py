"""Memory that a device gave: what all kinds of it promise."""
from __future__ import annotations

import numpy as np

from .. import given
from ..given import shown, unmasked
from ..status import BadParam

HOST = "host"                                    # Memory.place of what the host reads and writes


class Buffer:
    """``bytes`` bytes at ``ptr``, 0 once freed. Has one owner: there are no copies of it."""
    ptr = bytes = 0
    place = None

    def __cydnn_memory__(self) -> tuple:
        """(address, bytes, whose) for whoever is given the buffer."""
        if not self.ptr:
            raise BadParam(f"pointer: must be memory that was not freed; got {self!r}")
        return self.ptr, self.bytes, self.place

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.free()

    def free(self):
        """Give the memory back now."""

    def __repr__(self):
        return f"<buffer of {self.bytes} bytes, {f'at {self.ptr:#x}' if self.ptr else 'freed'}>"

    def __reduce_ex__(self, protocol):
        raise TypeError(f"copy: a buffer has one owner; got {self!r}: allocate another and copy the bytes")


def whole(size_bytes) -> int:
    """A number of bytes to allocate."""
    size = given.whole("alloc: bytes", size_bytes)
    if size < 0:
        raise BadParam(f"alloc: bytes must be >= 0; got {size}")
    return size


# ---- Copies ----

NUMBERS = frozenset("?biufcV")                   # NumPy's kinds of types whose bytes are values


def packed(array) -> np.ndarray:
    """The bytes of an array that is copied in, in C order."""
    unmasked("copy_in", array)
    try:
        found = np.ascontiguousarray(array)
    except Exception:                            # its own methods may raise anything
        found = np.empty(0, object)
    if found.dtype.kind not in NUMBERS or found.dtype.hasobject:
        raise BadParam(f"copy_in: array must be one of numbers, on the host; got {shown(array)}")
    return found.reshape(-1).view(np.uint8)


def filled(array) -> np.ndarray:
    """The bytes of an array that is copied to; a view."""
    unmasked("copy_out", array)
    if not isinstance(array, np.ndarray) or array.dtype.hasobject:
        raise BadParam(f"copy_out: array must be a NumPy array of numbers; got {shown(array)}")
    if not array.flags.c_contiguous:
        raise BadParam(f"copy_out: array must be C-contiguous; got strides {array.strides}")
    if not array.flags.writeable:
        raise BadParam("copy_out: array must be writable; got a read-only one")
    return array.reshape(-1).view(np.uint8)


def byte(value) -> int:
    """What memory is set to."""
    number = given.whole("memset: value", value)
    if not 0 <= number <= 255:
        raise BadParam(f"memset: value must be from 0 to 255; got {number}")
    return number


def count(size_bytes) -> int:
    """How many bytes are set."""
    size = given.whole("memset: size_bytes", size_bytes)
    if size < 0:
        raise BadParam(f"memset: size_bytes must be >= 0; got {size}")
    return size
