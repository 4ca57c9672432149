"""Buffers to try algorithms on: random numbers, between zones that nothing may write."""
from __future__ import annotations

import numpy as np

from ..tensor import TensorDesc

ZONE, MARK = 256, 0xA5                           # bytes on each side, and what is in each of them
BLOCK = 1 << 20                                  # random elements; larger tensors repeat them


class TrialBuffer:
    """Device memory of ``size`` bytes at ``ptr``."""

    def __init__(self, handle, size: int):
        self.handle, self.size = handle, size
        self.whole = handle.device.alloc(size + 2 * ZONE)
        self.ptr = self.whole.ptr + ZONE
        self._mark()

    def _zones(self) -> tuple:
        return self.whole.ptr, self.ptr + self.size

    def _mark(self) -> None:
        for zone in self._zones():
            self.handle.device.memset(zone, MARK, ZONE, self.handle.stream)

    def fill(self, desc: TensorDesc, seed: int) -> None:
        """Uniform numbers between -1 and 1 everywhere, also between the elements."""
        raw = np.random.default_rng(seed).random(min(desc.extent, BLOCK)) * 2 - 1
        raw = desc.dtype.encode(raw).reshape(-1).view(np.uint8)
        for start in range(0, self.size, max(raw.nbytes, 1)):
            self.handle.device.copy_in(self.ptr + start, raw[:self.size - start], self.handle.stream)

    def stray_bytes(self) -> int:
        """Bytes of the zones that were written since this was last asked."""
        read = lambda zone: self.handle.device.copy_out(zone, np.empty(ZONE, np.uint8), self.handle.stream)
        found = sum(int((read(zone) != MARK).sum()) for zone in self._zones())
        if found:
            self._mark()
        return found

    def free(self) -> None:
        self.whole.free()
