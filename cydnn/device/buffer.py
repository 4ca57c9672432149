"""Memory that a device gave: what all kinds of it promise."""
from __future__ import annotations

from .. import given
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
