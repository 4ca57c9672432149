"""Guarded buffers: a tensor between two guard zones, NaN-poisoned, so that a test sees every
byte a kernel should not have touched."""
from __future__ import annotations

import numpy as np

GUARD = 4096                                     # bytes on each side
POISON = 0xFF                                    # all ones is a NaN in every float type


class Guarded:
    """Device memory for one tensor. ``shift`` elements move it off its 256-byte boundary."""

    def __init__(self, device, desc, shift=0):
        self.device, self.desc = device, desc
        self.start = GUARD + shift * desc.dtype.bytes
        self.total = self.start + desc.bytes + GUARD
        self.buffer = device.alloc(self.total)
        self.before = np.full(self.total, POISON, np.uint8)
        device.copy_in(self.buffer.ptr, self.before)

    @property
    def ptr(self) -> int:
        return self.buffer.ptr + self.start

    def _view(self, raw):
        flat = raw[self.start:self.start + self.desc.bytes].view(self.desc.dtype.numpy)
        return np.lib.stride_tricks.as_strided(flat, self.desc.dims,
                                               [s * self.desc.dtype.bytes for s in self.desc.strides])

    def write(self, values):
        """Store values (encoded) in the tensor's elements; gaps keep the poison."""
        if self.desc.count:
            self._view(self.before)[...] = self.desc.dtype.encode(values)
        self.device.copy_in(self.buffer.ptr, self.before)

    def read(self):
        """(values as float64, raw bytes of the whole allocation)."""
        raw = self.device.copy_out(self.buffer.ptr, np.empty(self.total, np.uint8))
        values = self.desc.dtype.decode(self._view(raw)) if self.desc.count else np.empty(self.desc.dims)
        return values, raw

    def stray_bytes(self, raw) -> int:
        """How many bytes outside the tensor's elements differ from before."""
        if not self.desc.count:
            return int((raw != self.before).sum())
        mine = np.zeros(self.total, bool)
        inside = mine[self.start:self.start + self.desc.bytes]
        size = self.desc.dtype.bytes
        cells = np.lib.stride_tricks.as_strided(inside, (*self.desc.dims, size),
                                                [*(s * size for s in self.desc.strides), 1])
        cells[...] = True
        return int(((raw != self.before) & ~mine).sum())
