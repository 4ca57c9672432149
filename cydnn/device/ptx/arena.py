"""Global memory: one class of memory with holes, whose allocations live as long as somebody holds them."""
from __future__ import annotations

import bisect
import collections
import gc
import mmap
import sys
import weakref
from typing import Any, NamedTuple

import numpy as np

from ...status import AllocFailed, BadParam
from ..buffer import Buffer, whole
from .memory import FAR, GLOBAL, WRITTEN, Memory

GAP = 512                                        # dead bytes on both sides of an allocation
# what registers hold that nothing has set
LEFT = {"bool": (True, False), "u1": (0xFF, 0x7F, 0x80, 0x5A), "u2": (0xFFFF, 0x7BFF, 0xFBFF, 0x5A5A),
        "u4": (0xFFFFFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x5A5A5A5A),
        "u8": (2**64 - 1, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x5A5A5A5A5A5A5A5A)}


def lazy(size: int, dtype=np.uint8) -> np.ndarray:
    """Zeros that cost nothing until they are touched: a tensor of 2^33 bytes
    costs the pages that are used. Raises AllocFailed."""
    is_linux = sys.platform == "linux"           # whose Python has no name for it before 3.11
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000 * is_linux)
    size *= np.dtype(dtype).itemsize
    try:
        return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype)
    except OSError as error:
        raise AllocFailed(f"device: an interpreter must have {size} bytes of address space; got "
                          f"{error.strerror}: free other devices, or raise ulimit -v") from None


class Allocation(Buffer):
    """Memory of an arena, dead when freed or forgotten: from the next call of the device on, as any thread
    may do that in the midst of another's."""

    def __init__(self, arena: "Arena", ptr: int, size: int):
        self.ptr, self.bytes, self.place = ptr, size, arena
        self._release = weakref.finalize(self, arena.freed.append, (ptr, size))

    def free(self):
        self.ptr = 0
        self._release()

    def __dlpack__(self, **how):
        raise BufferError(f"dlpack: memory of an interpreter is at addresses of its own; got {self!r}: its "
                          "device's copy_out gives the bytes")

    def __dlpack_device__(self):
        return 1, 0                              # of the host, as far as others can tell: see __dlpack__

    def __int__(self):
        return self.__cydnn_memory__()[0]

    __index__ = __int__


class CallTensor(NamedTuple):
    """A tensor of the call that runs, for findings: bytes from ``start`` on. ``desc``: None of a
    workspace."""
    label: str
    start: int
    bytes: int
    desc: Any = None

    def index(self, off: int) -> tuple | None:
        """The element that a byte belongs to; None in a gap."""
        if self.desc is None:
            return None
        d, index = self.desc, [0] * self.desc.rank
        place = (off - self.start) * 8 // (d.dtype.bits * d.vector)
        for axis in sorted(range(d.rank), key=lambda axis: -d.strides[axis]):
            if d.strides[axis] and d.dims[axis] > 1:
                index[axis], place = divmod(place, d.strides[axis])
        return tuple(index) if not place and all(i < n for i, n in zip(index, d.dims)) else None


class Arena(Memory):
    """Global memory: one for a device. Unlike other memories it has holes, and only
    what a launch may write is watched."""

    def __init__(self, capacity: int = 1 << 35):
        try:
            self._map(capacity)
        except AllocFailed:
            gc.collect()                                     # those of devices that nobody holds any more
            try:
                self._map(capacity)
            except AllocFailed:                              # a system that does not overcommit
                if capacity <= 1 << 26:
                    raise
                return self.__init__(capacity >> 3)
        self.tracked, self.owned = set(), None          # what the launch may write; whose the last access was
        self.live: list[tuple[int, int]] = []                # (start, end), sorted
        self.freed = collections.deque()                     # (address, bytes) that nobody holds any more
        self.operands: list[CallTensor] = []                 # of the call that runs
        self.pool: dict[str, np.ndarray] = {}                # for registers

    def _map(self, capacity: int):
        super().__init__("global", capacity, capacity, GLOBAL, grain=1, zeros=lazy)

    def __repr__(self):
        return "another interpreter"

    def __reduce__(self):
        raise TypeError(f"pickle: the memory of a device belongs to its process; got that of {self!r}")

    def alloc(self, size: int, skew: int = 0) -> Allocation:
        """Memory in the first hole that is large enough, ``skew`` bytes behind a multiple of GAP."""
        self.settle()
        start, size = GAP + skew, whole(size)
        for low, high in self.live:
            if start + size + GAP <= low:
                break
            start = -(-max(high, low + 1) // GAP) * GAP + GAP + skew
        if start + size + GAP > self.limit:
            raise AllocFailed(f"alloc: the arena has {self.limit} bytes; got a request for {size}")
        bisect.insort(self.live, (start, start + size))
        return Allocation(self, GLOBAL + start, size)

    def settle(self):
        """What nobody holds any more is free from here on."""
        while self.freed:
            self._release(*self.freed.popleft())

    def _release(self, ptr: int, size: int):
        """Free; what was written here is forgotten, and whole pages are given back."""
        start = low = high = ptr - GLOBAL
        if size > 1 << 24:
            low, high = (-(-start // mmap.PAGESIZE) * mmap.PAGESIZE,
                         (start + size) // mmap.PAGESIZE * mmap.PAGESIZE)
            for each in (self.data, self.state):
                each.base.obj.madvise(mmap.MADV_DONTNEED, low, high - low)
        self.state[start:low], self.state[high:start + size] = 0, 0
        self.live.remove((start, start + size))

    def owner(self, start: int):
        """The allocation that an offset lies in."""
        at = bisect.bisect_right(self.live, (start, FAR)) - 1
        return self.live[at] if at >= 0 and start < self.live[at][1] else None

    def span(self, ptr: int, size: int, what: str) -> slice:
        """The bytes of an access of the host, which must lie inside one allocation."""
        self.settle()
        start = ptr - GLOBAL
        if size and start + size > (self.owner(start) or (0, -FAR))[1]:
            raise BadParam(f"{what}: {size} bytes at {ptr:#x} must lie inside a live allocation")
        return slice(start, start + size)

    def write_host(self, ptr, data: np.ndarray, what="copy_in"):
        where = self.span(ptr, data.size, what)
        self.data[where] = data
        self.state[where] |= WRITTEN

    def read_host(self, ptr, size) -> np.ndarray:
        return self.data[self.span(ptr, size, "copy_out")]

    def registers(self, kind, count, lanes, turn=0) -> np.ndarray:
        """Rows of registers, in memory that is used again by the next launch. They hold what shows: NaN, the
        largest numbers of both signs, some bits; each lane another, from ``turn`` on."""
        if kind not in self.pool or self.pool[kind].size < count * lanes:
            self.pool[kind] = np.empty(count * lanes, kind)
        block = self.pool[kind][:count * lanes].reshape(count, lanes)
        block[:] = np.resize(np.roll(np.array(LEFT[kind], kind), turn), lanes)
        return block

    def reach(self, c, address, width, verb, lanes, need=0):
        if c.early is not None and c.early[lanes].any() and "const" not in c.code_of.instructions[c.at].words:
            c.fault("dependent", f"{verb} global memory before griddepcontrol.wait, when the launch before "
                    "may still run", lanes[c.early[lanes]])
        return super().reach(c, address, width, verb, lanes, need)

    def outside(self, off, width):
        owner = self.owner(int(off.min(initial=FAR)))
        self.owned = owner if owner and int(off.max(initial=0)) + width <= owner[1] else None
        if self.owned:
            return ()
        starts, ends = np.array([(-FAR, -FAR), *self.live], np.int64).T
        return off + width > ends[np.searchsorted(starts, off, "right") - 1]

    def watched(self, c, off, width):
        if not c.checks.races or self.owned:
            return c.checks.races and self.owned in self.tracked
        return any(((off >= low) & (off < high)).any() for low, high in self.tracked)

    def whose(self, off: int) -> dict:
        """The operand that a byte lies in, or next to, and which element of it."""
        mine = self.owner(off)
        near = [o for o in self.operands if self.owner(o.start) == mine or mine is None]
        if not near:
            return {}
        one = min(near, key=lambda o: max(o.start - off, off - o.start - o.bytes + 1, 0))
        end = one.start + one.bytes
        distance = off - one.start if off < one.start else off - end + 1 if off >= end else 0
        return {"operand": one.label, "index": None if distance else one.index(off), "distance": distance}

    def _operand(self, off: int) -> str:
        """The same in words."""
        found = self.whose(off)
        if not found:
            return ""
        label, index, distance = found.values()
        where = (f"element {index} of" if index else f"{-distance} bytes before the start of" if distance < 0
                 else f"{distance} bytes behind the end of" if distance else "in")
        return f", {where} {label}"

    def place(self, off: int) -> str:
        return f" at {GLOBAL + off:#x}{self._operand(off)},"

    def describe(self, start: int) -> str:
        if not self.live:
            return "and there is no allocation"
        low, high = min(self.live, key=lambda a: min(abs(start - a[0]), abs(start - a[1])))
        where = (f"{start - high} bytes behind the end" if start >= high
                 else f"{low - start} bytes before the start" if start < low else f"byte {start - low}")
        return f"{self._operand(start)}, {where} of the allocation of {high - low} bytes at {GLOBAL + low:#x}"
