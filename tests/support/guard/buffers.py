"""Guarded buffers: a tensor or a workspace between two guard zones, filled, so that a test sees every byte a
kernel should not have touched, and by another fill what it should not have read."""
from __future__ import annotations

import os
import zlib

import numpy as np

from cydnn.device.numpy import read, write
from cydnn.device.ptx.memory import DEAD, WRITTEN
from cydnn.steps import Scratch

GUARD, NEAR = 1 << 16, 512                       # bytes on each side; on an interpreter, which sees all
FILLS = (0xFF, 0xA5)                             # what nobody has written holds: NaN, or small numbers
WORKSPACE_SHIFT = 16                             # a workspace is aligned to that, and to no more


def fill_of(key: str) -> int:
    """One of the fills, drawn anew for every state of the library."""
    return FILLS[zlib.crc32(f"{os.environ.get('CYDNN_SEED', '')} {key}".encode()) % 2]


def shift_of(name: str, desc, alignment: int, key: str) -> int:
    """Elements that a tensor begins behind a boundary of 256 bytes, at most 15: its address is a multiple of
    ``alignment`` and of no more; of 16, or now and then of 256. ``key``: the same gives the same."""
    unit = max(alignment // desc.dtype.bytes_of(1), 1)
    odd = [*range(unit, 16, 2 * unit)]
    if alignment >= 16:
        odd += [0] * len(odd)
    return odd[zlib.crc32(f"{key} {name}".encode()) % len(odd)] if odd else unit % 16


def kept(desc, values) -> np.ndarray:
    """What memory holds where elements that share an address were stored."""
    if not desc.is_overlapping:
        return values
    memory = np.zeros(desc.bytes + 8, np.uint8)
    write(desc, memory.ctypes.data, values)
    return read(desc, memory.ctypes.data).astype(values.dtype)


class Space:
    """``size`` bytes of device memory between guard zones, ``shift`` bytes behind a boundary of 256, all of
    one ``fill``. On an interpreter the zones are dead and the bytes count as never written."""

    def __init__(self, device, size: int, shift: int = WORKSPACE_SHIFT, fill: int = FILLS[0]):
        guard = NEAR if hasattr(device, "arena") else GUARD
        self.device, self.size, self.fill, self.start = device, size, fill, guard + shift
        self.total = self.start + size + guard
        self.buffer = device.alloc(self.total)
        device.memset(self.buffer.ptr, fill, self.total)
        self.mark(np.zeros(size, bool))

    @property
    def ptr(self) -> int:
        return self.buffer.ptr + self.start

    def mark(self, written):
        """Tell an interpreter which of the bytes are written."""
        if hasattr(self.device, "arena"):
            arena = self.device.arena
            state = arena.state[arena.span(self.buffer.ptr, self.total, "mark")]
            state[:] = DEAD
            state[self.start:self.start + self.size] = np.where(written, WRITTEN, 0)

    @classmethod
    def for_plan(cls, built, fill: int):
        """A plan's workspace; on an interpreter what lies in none of its areas is dead, too."""
        made = cls(built.device, built.workspace_bytes, fill=fill)
        made._mark_areas(built.choice)
        return made

    def _mark_areas(self, choice):
        if self.size and hasattr(self.device, "arena"):
            spare, (offsets, _) = np.ones(self.size, bool), choice.areas
            for area, at in offsets.items():
                known = area if isinstance(area, Scratch) else choice.graph.tensors[area]
                spare[at:at + known.bytes] = False
            arena = self.device.arena
            arena.state[arena.span(self.ptr, self.size, "mark")][spare] = DEAD

    def changed_beside(self) -> int:
        """How many bytes of the zones were written."""
        end = self.start + self.size
        zones = [self.device.copy_out(self.buffer.ptr + at, np.empty(size, np.uint8))
                 for at, size in ((0, self.start), (end, self.total - end))]
        return sum(int((zone != self.fill).sum()) for zone in zones)

    def raw(self) -> np.ndarray:
        """The bytes of the whole allocation."""
        return self.device.copy_out(self.buffer.ptr, np.empty(self.total, np.uint8))

    def clear(self):
        """As nobody has written it."""
        self.device.memset(self.buffer.ptr, self.fill, self.total)
        self.mark(np.zeros(self.size, bool))


class Guarded(Space):
    """Memory of one tensor, ``shift`` elements off its boundary of 256 bytes."""

    def __init__(self, device, desc, shift=0, fill=FILLS[0]):
        super().__init__(device, desc.bytes, shift * desc.dtype.bytes_of(1), fill)
        self.desc, self.before = desc, np.full(self.total, fill, np.uint8)

    def write(self, values):
        """Store values (encoded) in the tensor's elements; gaps keep the fill."""
        write(self.desc, self.before.ctypes.data + self.start, values)
        self.device.copy_in(self.buffer.ptr, self.before)
        self.mark(self.own_bits()[self.start:self.start + self.size] != 0)

    def read(self):
        """(values as float64, raw bytes of the whole allocation)."""
        raw = self.raw()
        values = read(self.desc, raw.ctypes.data
                      + self.start) if self.desc.count else np.empty(self.desc.dims)
        return values, raw

    def own_bytes(self) -> bytes:
        """The bytes of the tensor's elements; bits that are nobody's are 0."""
        raw = self.raw()
        return (raw & self.own_bits(with_spare=False))[self.start:self.start + self.size].tobytes()

    def own_bits(self, with_spare=True):
        """The bits of the allocation that are the tensor's elements, set. The bits behind the last packed
        boolean are nobody's (``with_spare``: set): whoever writes its byte may write them."""
        mine, desc = np.zeros(self.total, np.uint8), self.desc
        if desc.count and desc.dtype.bits < 8:
            write(desc, mine.ctypes.data + self.start, np.ones(desc.dims))
            if with_spare:
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
