"""Guarded buffers: a tensor between two guard zones, NaN-poisoned, so that a test sees every
byte a kernel should not have touched."""
from __future__ import annotations

import numpy as np

from cydnn.device.numpy import read, write

GUARD = 4096                                     # bytes on each side
POISON = 0xFF                                    # all ones is a NaN in every float type


class Guarded:
    """Device memory for one tensor. ``shift`` elements move it off its 256-byte boundary."""

    def __init__(self, device, desc, shift=0):
        self.device, self.desc = device, desc
        self.start = GUARD + shift * desc.dtype.bytes_of(1)
        self.total = self.start + desc.bytes + GUARD
        self.buffer = device.alloc(self.total)
        self.before = np.full(self.total, POISON, np.uint8)
        device.copy_in(self.buffer.ptr, self.before)

    @property
    def ptr(self) -> int:
        return self.buffer.ptr + self.start

    def write(self, values):
        """Store values (encoded) in the tensor's elements; gaps keep the poison."""
        write(self.desc, self.before.ctypes.data + self.start, values)
        self.device.copy_in(self.buffer.ptr, self.before)

    def read(self):
        """(values as float64, raw bytes of the whole allocation)."""
        raw = self.device.copy_out(self.buffer.ptr, np.empty(self.total, np.uint8))
        values = read(self.desc, raw.ctypes.data
                      + self.start) if self.desc.count else np.empty(self.desc.dims)
        return values, raw

    def own_bits(self):
        """The bits of the allocation that are the tensor's elements, set. The bits behind the last packed
        boolean are nobody's: whoever writes its byte may write them."""
        mine, desc = np.zeros(self.total, np.uint8), self.desc
        if desc.count and desc.dtype.bits < 8:
            write(desc, mine.ctypes.data + self.start, np.ones(desc.dims))
            mine[self.start + desc.bytes - 1] |= 0xFF << (desc.extent - 1) % 8 & 0xFF
        elif desc.count:
            size = desc.dtype.bytes
            cells = np.lib.stride_tricks.as_strided(mine[self.start:], (*desc.dims, size),
                                                    [*(s * size for s in desc.strides), 1])
            cells[...] = 0xFF
        return mine

    def stray_bytes(self, raw) -> int:
        """How many bytes differ from before in a bit that is none of the tensor's elements."""
        return int(((raw ^ self.before) & ~self.own_bits() != 0).sum())
