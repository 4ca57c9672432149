"""The memories of the machine: global (one arena for a device), shared, local and parameters, each with what is known of its bytes.

Addresses: global from GLOBAL on, generic addresses of shared and local memory from SHARED and LOCAL on, parameters from PARAM on.
Everything is mapped without being reserved, so a tensor of 2^33 bytes costs only the pages that are touched.
"""
from __future__ import annotations

import bisect
import mmap
import weakref

import numpy as np

from ...status import AllocFailed, BadParam
from .check import Shadow

GLOBAL, SHARED, LOCAL, PARAM = 1 << 36, 1 << 44, 1 << 45, 1 << 46
SPACE_END = 1 << 40                              # bytes of a window
GAP = 512                                        # dead bytes on both sides of an allocation
LIVE, WRITTEN, TRACKED = 1, 2, 4                 # bits of a byte's state; TRACKED: the kernel may write this allocation
UINT = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
ONES = {n: dtype(sum(1 << 8 * i for i in range(n))) for n, dtype in UINT.items()}


def lazy(size: int, dtype=np.uint8) -> np.ndarray:
    """Zeros that cost nothing until they are touched."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    return np.frombuffer(mmap.mmap(-1, size * np.dtype(dtype).itemsize, flags=flags), dtype)


class Allocation:
    """``bytes`` bytes at ``ptr``, dead when freed or forgotten."""

    def __init__(self, arena: "Arena", ptr: int, size: int):
        self.ptr, self.bytes = ptr, size
        self.free = weakref.finalize(self, arena.release, ptr, size)

    def __int__(self):
        return self.ptr

    __index__ = __int__


class Arena:
    """Global memory: bytes, their state, and who touched them in the launch under way."""

    def __init__(self, capacity: int = 1 << 35):
        try:
            self.data, self.state = lazy(capacity), lazy(capacity)
            self.shadow = Shadow(lazy(capacity, np.int64), lazy(capacity, np.int64), lazy(capacity, np.int32), lazy(capacity, np.int32))
        except OSError:                                      # a system that does not overcommit
            if capacity <= 1 << 26:
                raise
            return self.__init__(capacity >> 3)
        self.capacity, self.top, self.holes = capacity, GAP, []
        self.view = {n: self.data.view(t) for n, t in UINT.items()}
        self.flags = {n: self.state.view(t) for n, t in UINT.items()}
        self.live: list[tuple[int, int]] = []    # (start, end), sorted

    # ---- The host's side ----

    def alloc(self, size: int) -> Allocation:
        length = -(-max(size, 1) // GAP) * GAP + GAP
        hole = next((h for h in self.holes if h[1] >= length), None)
        if hole:
            self.holes.remove(hole)
            start, length = hole
        else:
            start, self.top = self.top, self.top + length
            if self.top > self.capacity:
                raise AllocFailed(f"alloc: the arena has {self.capacity} bytes; got a request for {size}")
        self.state[start:start + size] = LIVE
        bisect.insort(self.live, (start, start + size, length))
        return Allocation(self, GLOBAL + start, size)

    def release(self, ptr: int, size: int):
        start = ptr - GLOBAL
        at = bisect.bisect(self.live, (start, start + size))
        length = self.live.pop(at)[2]
        self.state[start:start + size] = 0
        self.holes.append((start, length))

    def span(self, ptr: int, size: int, what: str) -> slice:
        """The bytes of a host access, which must lie inside one allocation."""
        start = int(ptr) - GLOBAL
        if size and (start < 0 or start + size > self.capacity or not self.owner(start) or start + size > self.owner(start)[1]):
            raise BadParam(f"{what}: {size} bytes at {int(ptr):#x} must lie inside a live allocation")
        return slice(start, start + size)

    def owner(self, start: int):
        at = bisect.bisect_right(self.live, (start, 1 << 60)) - 1
        return self.live[at] if at >= 0 and self.live[at][0] <= start < self.live[at][1] else None

    def describe(self, start: int) -> str:
        """Where an offset lies: in or beyond which allocation."""
        at = bisect.bisect_right(self.live, (start, 1 << 60)) - 1
        near = [self.live[i] for i in (at, at + 1) if 0 <= i < len(self.live)]
        if not near:
            return "there is no allocation"
        low, high, _ = min(near, key=lambda a: min(abs(start - a[0]), abs(start - a[1])))
        where = f"{start - high} bytes behind the end" if start >= high else f"{low - start} bytes before the start" if start < low \
            else f"byte {start - low}"
        return f"{where} of the allocation of {high - low} bytes at {GLOBAL + low:#x}"

    def write_host(self, ptr, data: np.ndarray):
        where = self.span(ptr, data.size, "copy_in")
        self.data[where] = data
        self.state[where] |= WRITTEN

    def read_host(self, ptr, size) -> np.ndarray:
        return self.data[self.span(ptr, size, "copy_out")]

    # ---- The kernel's side ----

    def _reach(self, c, address, width, size, verb):
        """Offsets in the arena of an access of ``width`` bytes, after the checks of place and alignment; and the state of its bytes."""
        off = address - GLOBAL
        outside = off.view(np.uint64) > np.uint64(self.capacity - width)
        if np.count_nonzero(outside):
            lane = np.flatnonzero(outside)[0]
            c.fault("address", f"{verb} {width} bytes at {int(address[lane]):#x}, which is no global address", c.only(lane))
        if width > 1:
            odd = off & (width - 1)
            if np.count_nonzero(odd):
                lane = np.flatnonzero(odd)[0]
                c.fault("misaligned", f"{verb} {width} bytes at {int(address[lane]):#x}", c.only(lane))
        step = min(width, 8)
        flags, at = self.flags[step], off // step
        state = flags[at] if width <= 8 else np.stack([flags[at + i] for i in range(width // 8)])
        alive = state & ONES[step]
        if np.count_nonzero(alive != ONES[step]):
            dead = alive != ONES[step]
            lane = np.flatnonzero(dead.any(0) if dead.ndim > 1 else dead)[0]
            c.fault("address", f"{verb} {width} bytes at {int(address[lane]):#x}, {self.describe(int(off[lane]))}", c.only(lane))
        return off, at, state, step

    def _cells(self, c, off, width):
        grain = c.code_of.global_grain
        cells = off // grain
        return cells[:, None] if width <= grain else cells[:, None] + np.arange(width // grain)

    def load(self, c, address, size, count, constant=False, atomic=False):
        """``count`` neighbours of ``size`` bytes for each address, as raw unsigned integers (a list of arrays)."""
        width = size * count
        off, _, state, step = self._reach(c, address, width, size, "reads")
        if c.checks.unwritten:
            fresh = (state & (ONES[step] * UINT[step](WRITTEN))) != ONES[step] * UINT[step](WRITTEN)
            if np.count_nonzero(fresh):
                lane = np.flatnonzero(fresh.any(0) if fresh.ndim > 1 else fresh)[0]
                c.fault("unwritten", f"reads {width} bytes that nothing has written, {self.describe(int(off[lane]))}", c.only(lane))
        if c.checks.races and not atomic and np.count_nonzero(state & (ONES[step] * UINT[step](TRACKED))):
            cells = self._cells(c, off, width)
            self.shadow.read(c, cells, c.lanes(), False)
            written = constant and (self.shadow.writes[cells] >= c.first).any(1)
            if np.count_nonzero(written):
                c.fault("race", "reads with .nc what this launch has written", c.only(np.flatnonzero(written)[0]))
        view, at = self.view[size], off // size
        return [view[at + i] if i else view[at] for i in range(count)]

    def store(self, c, address, size, values, atomic=False):
        """Write the arrays ``values`` side by side at each address."""
        width = size * len(values)
        off, at, state, step = self._reach(c, address, width, size, "writes")
        if not atomic and c.checks.races:
            cells = self._cells(c, off, width)
            clash = self.shadow.write(c, cells, c.lanes(), False)
        else:
            clash = None
        full = ONES[step] * UINT[step](WRITTEN)
        for i in range(max(width // 8, 1)):
            self.flags[step][at + i] |= full
        view, place = self.view[size], off // size
        for i, value in enumerate(values):
            view[place + i] = value
        if clash is not None:
            _same_values(c, [view[place + i] for i in range(len(values))], values)

    def atomic(self, c, address, size, change):
        """``change(old) -> new`` at each address, one lane after another where addresses meet; returns the old values."""
        off, at, state, step = self._reach(c, address, size, size, "updates")
        if c.checks.unwritten:
            self.load(c, address, size, 1, atomic=True)
        if c.checks.races:
            self.shadow.write(c, self._cells(c, off, size), c.lanes(), False, atomic=True)
        return _serial(self.view[size], off // size, change)


def _same_values(c, found, values):
    for a, b in zip(found, values):
        differ = a != b
        if np.count_nonzero(differ):
            c.fault("race", "threads write different values to one address in this instruction", c.only(np.flatnonzero(differ)[0]))


def _serial(view, at, change):
    """Apply ``change(old, lanes)`` where every address is met once at a time."""
    old = np.empty(at.shape, view.dtype)
    left = np.arange(at.size)
    while left.size:
        _, first = np.unique(at[left], return_index=True)
        now = left[first]
        old[now] = view[at[now]]
        view[at[now]] = change(old[now], now)
        left = np.delete(left, first)
    return old


class Shared:
    """Shared memory of the blocks of a batch. ``size`` bytes a block; address bits from 24 on name a block of the cluster (rank + 1)."""

    def __init__(self, blocks: int, size: int, grain: int, ways: int, cluster: int):
        self.size, self.pitch, self.grain, self.cluster = size, -(-size // 128) * 128 + 128, grain, cluster
        total = blocks * self.pitch
        self.data = np.full(total, 0xFF, np.uint8)           # NaN in every float type
        self.view = {n: self.data.view(t) for n, t in UINT.items()}
        cells = total // grain
        self.shadow = Shadow(np.zeros(cells, np.int64), np.zeros(cells * ways, np.int64), np.zeros(cells, np.int32),
                             np.zeros(cells, np.int32), ways)

    def place(self, c, address, width, verb, lanes=None):
        """Offsets in the arena of block-relative addresses, checked."""
        lanes = c.lanes() if lanes is None else lanes
        block = c.block[lanes]
        if self.cluster > 1 or np.count_nonzero(address >> 24):
            rank = (address >> 24) - 1
            named = (rank >= 0) & (rank < self.cluster)
            block = np.where(named, block // self.cluster * self.cluster + rank, block)
            address = np.where(named, address & 0xFFFFFF, address)
            if np.count_nonzero(c.gone_blocks[block]):
                lane = np.flatnonzero(c.gone_blocks[block])[0]
                c.fault("address", f"{verb} {width} bytes of the shared memory of a block that has left", lanes[lane:lane + 1])
        outside = (address < 0) | (address > self.size - width)
        if np.count_nonzero(outside):
            lane = np.flatnonzero(outside)[0]
            c.fault("address", f"{verb} {width} bytes at {int(address[lane])} of {self.size} bytes of shared memory", lanes[lane:lane + 1])
        if width > 1:
            odd = address & (width - 1)
            if np.count_nonzero(odd):
                lane = np.flatnonzero(odd)[0]
                c.fault("misaligned", f"{verb} {width} bytes at {int(address[lane])} of shared memory", lanes[lane:lane + 1])
        return block * self.pitch + address

    def cells(self, off, width):
        cells = off // self.grain
        return cells[:, None] if width <= self.grain else cells[:, None] + np.arange(width // self.grain)

    def load(self, c, address, size, count, constant=False):
        width = size * count
        off = self.place(c, address, width, "reads")
        self.shadow.read(c, self.cells(off, width), c.lanes(), True)
        view, at = self.view[size], off // size
        return [view[at + i] if i else view[at] for i in range(count)]

    def store(self, c, address, size, values):
        width = size * len(values)
        off = self.place(c, address, width, "writes")
        clash = self.shadow.write(c, self.cells(off, width), c.lanes(), True)
        view, at = self.view[size], off // size
        for i, value in enumerate(values):
            view[at + i] = value
        if clash is not None:
            _same_values(c, [view[at + i] for i in range(len(values))], values)

    def atomic(self, c, address, size, change):
        off = self.place(c, address, size, "updates")
        self.shadow.write(c, self.cells(off, size), c.lanes(), True, atomic=True)
        return _serial(self.view[size], off // size, change)


class Local:
    """Local memory: ``size`` bytes a lane."""

    def __init__(self, lanes: int, size: int):
        self.size, self.pitch = size, -(-size // 16) * 16
        self.data, self.written = np.zeros(lanes * self.pitch, np.uint8), np.zeros(lanes * self.pitch, np.uint8)
        self.view = {n: self.data.view(t) for n, t in UINT.items()}
        self.flags = {n: self.written.view(t) for n, t in UINT.items()}

    def _place(self, c, address, width, verb):
        bad = (address < 0) | (address > self.size - width)
        if np.count_nonzero(bad):
            c.fault("address", f"{verb} {width} bytes at {int(address[bad][0])} of {self.size} bytes of local memory", c.only(np.flatnonzero(bad)[0]))
        odd = address & (width - 1)
        if np.count_nonzero(odd):
            c.fault("misaligned", f"{verb} {width} bytes of local memory", c.only(np.flatnonzero(odd)[0]))
        return c.lanes() * self.pitch + address

    def load(self, c, address, size, count, constant=False):
        at = self._place(c, address, size * count, "reads") // size
        if c.checks.unwritten:
            for i in range(count):
                fresh = self.flags[size][at + i] != ONES[size]
                if np.count_nonzero(fresh):
                    c.fault("unwritten", "reads local memory that it has not written", c.only(np.flatnonzero(fresh)[0]))
        return [self.view[size][at + i] for i in range(count)]

    def store(self, c, address, size, values):
        at = self._place(c, address, size * len(values), "writes") // size
        for i, value in enumerate(values):
            self.view[size][at + i] = value
            self.flags[size][at + i] = ONES[size]


class Parameters:
    """The parameter block; read only."""

    def __init__(self, data: bytes):
        self.data = np.frombuffer(data + bytes(16), np.uint8)

    def load(self, c, address, size, count, constant=False):
        address = address - PARAM
        bad = (address < 0) | (address > self.data.size - 16 - size * count)
        if np.count_nonzero(bad):
            c.fault("address", f"reads {size * count} bytes at {int(address[bad][0])} of {self.data.size - 16} bytes of parameters",
                    c.only(np.flatnonzero(bad)[0]))
        view = self.data[:self.data.size // size * size].view(UINT[size])
        return [view[address // size + i] for i in range(count)]


class Generic:
    """The generic address space: lanes are sent to the memory their address lies in."""

    def __init__(self, c):
        self.c = c

    def _split(self, c, address):
        for base, name in ((GLOBAL, "global"), (SHARED, "shared"), (LOCAL, "local"), (PARAM, "param")):
            end = SHARED if name == "global" else base + SPACE_END
            mine = (address >= base) & (address < end) if base != GLOBAL else address < SHARED
            if np.count_nonzero(mine):
                yield mine, c.memory[name], base if name in ("shared", "local") else 0

    def load(self, c, address, size, count, constant=False):
        out = [np.empty(address.shape, UINT[size]) for _ in range(count)]
        for mine, memory, base in self._split(c, address):
            with c.narrowed(mine):
                for to, value in zip(out, memory.load(c, address[mine] - base, size, count)):
                    to[mine] = value
        return out

    def store(self, c, address, size, values):
        for mine, memory, base in self._split(c, address):
            with c.narrowed(mine):
                memory.store(c, address[mine] - base, size, [v[mine] if np.ndim(v) else v for v in values])

    def atomic(self, c, address, size, change):
        old = np.empty(address.shape, UINT[size])
        for mine, memory, base in self._split(c, address):
            where = np.flatnonzero(mine)
            with c.narrowed(mine):
                old[mine] = memory.atomic(c, address[mine] - base, size, lambda before, now: change(before, where[now]))
        return old
