"""The memories of the machine. One class: bytes, a byte of state for each, and a shadow of who touched them; one routine checks every access.

Addresses: global from GLOBAL on, generic addresses of shared and local memory from SHARED and LOCAL on, parameters from PARAM on.
Global memory is mapped without being reserved, so a tensor of 2^33 bytes costs only the pages that are touched.
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
DEAD, WRITTEN, FLYING = 1, 2, 4                  # state of a byte: outside after all, written, will be written by a copy that is under way
SIZES = (1, 2, 4, 8)
UINT = {n: np.dtype(f"u{n}") for n in SIZES}
STATE = {(n, bits): UINT[n].type(sum(bits << 8 * i for i in range(n))) for n in SIZES for bits in range(8)}      # of n bytes
FIRST = 1 << 60


class Memory:
    """``limit`` bytes, or for shared and local memory as many each ``pitch`` bytes for each block or lane. ``base``: the address of the first."""

    def __init__(self, name: str, data, state, limit: int, base=0, pitch=0, grain=1, shadow=None, cluster=1):
        self.name, self.data, self.state, self.limit, self.base, self.pitch = name, data, state, limit, base, pitch
        self.grain, self.shadow, self.cluster = grain, shadow, cluster
        self.view, self.flags = ({n: array[:len(array) // 8 * 8].view(t) for n, t in UINT.items()} for array in (data, state))

    def describe(self, off: int) -> str:
        """Where a bad access lies."""
        return f"of {self.limit} bytes of {self.name} memory"

    def outside(self, off, width):
        """Which accesses do not lie in the memory."""
        return off.view(np.uint64) > np.uint64(self.limit - width) if self.limit >= width else np.ones(off.shape, bool)

    def reach(self, c, address, width, verb, lanes, need=0):
        """Places in ``data`` of accesses of ``width`` bytes. Checks, here for all: bounds, alignment, under way, and ``need`` (written)."""
        off = address - self.base
        block = None if self.name != "shared" else c.block[lanes]
        if block is not None and (self.cluster > 1 or np.count_nonzero(off >> 24)):      # bits from 24 on name a block of the cluster (rank + 1)
            rank = (off >> 24) - 1
            block = np.where(rank >= 0, block // self.cluster * self.cluster + rank, block)
            off = np.where((rank >= self.cluster) | (rank < -1), -1, off & 0xFFFFFF)
            bad = c.gone[np.minimum(block, len(c.gone) - 1)]
            if np.count_nonzero(bad):
                self.fault(c, "address", bad, address, off, f"{verb} {width} bytes in a block that has left,", lanes)
        bad = self.outside(off, width)
        if np.count_nonzero(bad):
            self.fault(c, "address", bad, address, off, f"{verb} {width} bytes", lanes)
        if width > 1:
            bad = off & (width - 1)
            if np.count_nonzero(bad):
                self.fault(c, "misaligned", bad, address, off, f"{verb} {width} bytes", lanes)
        off = off + (lanes if block is None else block) * self.pitch if self.pitch else off
        step = min(width, 8)
        at = off // step
        state = self.flags[step][at] if width <= 8 else np.stack([self.flags[step][at + i] for i in range(width // 8)])
        care = DEAD | need | (FLYING if c.checks.in_flight else 0)
        if np.count_nonzero(state & STATE[step, care] != STATE[step, need]):
            for kind, bit, what in (("address", DEAD, f"{verb} {width} bytes"), ("in flight", FLYING, f"{verb} what an asynchronous copy is writing"),
                                    ("unwritten", WRITTEN, f"{verb} {width} bytes that nothing has written")):
                bad = (state & STATE[step, bit & care] != STATE[step, bit & need]).reshape(-1, len(off)).any(0)
                if np.count_nonzero(bad):
                    self.fault(c, kind, bad, address, off, what, lanes)
        return off

    def fault(self, c, kind, bad, address, off, what, lanes):
        lane = np.flatnonzero(bad)[0]
        c.fault(kind, f"{what} at {int(address[lane]):#x} {self.describe(int(off[lane]))}", lanes[lane:lane + 1])

    def cells(self, off, width):
        """The cells of the shadow that accesses touch: (n, cells of one)."""
        cells = off // self.grain
        return cells[:, None] if width <= self.grain else cells[:, None] + np.arange(width // self.grain)

    def watched(self, c, off, width):
        """Are races looked for here?"""
        return self.shadow is not None and c.checks.races

    # ---- Accesses: ``address`` (n,) of ``lanes`` (n,; None: the active ones) ----

    def load(self, c, address, size, count=1, lanes=None, constant=False, ahead=False):
        """``count`` neighbours of ``size`` bytes for each address, as raw unsigned integers (a list of arrays). ``constant``: by .nc.
        ``ahead``: pipelines read ahead so; what was never written is NaN, and only its use shows."""
        lanes, width = c.lanes() if lanes is None else lanes, size * count
        checked = not ahead and (c.checks.unwritten_shared if self.name == "shared" else c.checks.unwritten)
        off = self.reach(c, address, width, "reads", lanes, WRITTEN if checked else 0)
        if self.watched(c, off, width):
            cells = self.cells(off, width)
            self.shadow.read(c, cells, lanes)
            written = constant and (self.shadow.writes[cells] >= c.first).any(1)
            if np.count_nonzero(written):
                c.fault("race", "reads with .nc what this launch has written", lanes[written])
        view, at = self.view[size], off // size
        return [view[at + i] if i else view[at] for i in range(count)]

    def store(self, c, address, size, values, lanes=None):
        """Write the arrays ``values`` side by side at each address."""
        lanes, width, clash = c.lanes() if lanes is None else lanes, size * len(values), None
        off = self.reach(c, address, width, "writes", lanes)
        if self.shadow is not None:
            clash = self.shadow.write(c, self.cells(off, width), lanes)
        self.mark(off, width)
        view, at = self.view[size], off // size
        for i, value in enumerate(values):
            view[at + i] = value
        for i, value in enumerate(values if clash else ()):
            differ = view[at + i] != value
            if np.count_nonzero(differ):
                c.fault("race", "threads write different values to one address in this instruction", lanes[differ])

    def mark(self, off, width, state=WRITTEN):
        """These bytes are written now, or will be."""
        step = min(width, 8)
        for i in range(max(width // 8, 1)):
            self.flags[step][off // step + i] = STATE[step, state]

    def update(self, c, address, size, change, lanes=None):
        """``change(old, positions) -> new`` at each address, one lane after another where addresses meet; returns the old values."""
        lanes = c.lanes() if lanes is None else lanes
        need = WRITTEN if self.name != "shared" and c.checks.unwritten else 0
        off = self.reach(c, address, size, "updates", lanes, need)
        if self.watched(c, off, size):
            self.shadow.write(c, self.cells(off, size), lanes, atomic=True)
        view, at = self.view[size], off // size
        old, left = np.empty(at.shape, view.dtype), np.arange(at.size)
        self.mark(off, size)
        while left.size:
            _, first = np.unique(at[left], return_index=True)
            now = left[first]
            old[now] = view[at[now]]
            view[at[now]] = change(old[now], now)
            left = np.delete(left, first)
        return old


def shared(blocks: int, size: int, grain: int, ways: int, cluster: int) -> Memory:
    """Shared memory of the blocks of a batch; what nothing has written is NaN in every float type."""
    pitch = -(-size // 128) * 128 + 128
    total, cells = blocks * pitch, blocks * pitch // grain
    shadow = Shadow(np.zeros(cells, np.int64), np.zeros(cells * ways, np.int64), np.zeros(cells, np.int32), np.zeros(cells, np.int32), ways)
    return Memory("shared", np.full(total, 0xFF, np.uint8), np.zeros(total, np.uint8), size, 0, pitch, grain, shadow, cluster)


def local(lanes: int, size: int) -> Memory:
    pitch = -(-size // 16) * 16
    return Memory("local", np.zeros(lanes * pitch, np.uint8), np.zeros(lanes * pitch, np.uint8), size, 0, pitch)


def parameters(data: bytes) -> Memory:
    """The parameter block; read only."""
    padded = np.frombuffer(data + bytes(16), np.uint8)
    return Memory("param", padded, np.full(len(padded), WRITTEN, np.uint8), len(data), PARAM)


def spaces(c, name: str, address):
    """Where accesses of the active lanes go: (memory, which of them, their addresses there, their lanes); a generic address names its space."""
    if name != "generic":
        yield c.memory[name], slice(None), address, c.lanes()
        return
    window = np.searchsorted((SHARED, LOCAL, PARAM), address, "right")
    for n, (space, base) in enumerate((("global", 0), ("shared", SHARED), ("local", LOCAL), ("param", 0))):
        mine = np.flatnonzero(window == n)
        if len(mine):
            yield c.memory[space], mine, address[mine] - base, c.lanes()[mine]


# ---- Global memory ----

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


class Arena(Memory):
    """Global memory: one for a device."""

    def __init__(self, capacity: int = 1 << 35):
        try:
            shadow = Shadow(lazy(capacity, np.int64), lazy(capacity, np.int64), lazy(capacity, np.int32), lazy(capacity, np.int32))
            super().__init__("global", lazy(capacity), lazy(capacity), capacity, GLOBAL, shadow=shadow)
        except OSError:                                      # a system that does not overcommit
            if capacity <= 1 << 26:
                raise
            return self.__init__(capacity >> 3)
        self.top, self.holes, self.tracked, self.owned = GAP, [], set(), None       # what the launch may write; whose the last access was
        self.live: list[tuple[int, int, int]] = []           # (start, end, bytes held), sorted
        self.pool: dict[str, np.ndarray] = {}                # for registers

    def alloc(self, size: int) -> Allocation:
        length = -(-max(size, 1) // GAP) * GAP + GAP
        hole = next((h for h in self.holes if h[1] >= length), None)
        if hole:
            self.holes.remove(hole)
        start, length = hole or (self.top, length)
        if start + length > self.limit:
            raise AllocFailed(f"alloc: the arena has {self.limit} bytes; got a request for {size}")
        self.top = max(self.top, start + length)
        bisect.insort(self.live, (start, start + size, length))
        return Allocation(self, GLOBAL + start, size)

    def release(self, ptr: int, size: int):
        """Free; what was written here is forgotten, and whole pages are given back."""
        start, page = ptr - GLOBAL, mmap.PAGESIZE
        self.holes.append((start, self.live.pop(bisect.bisect(self.live, (start, start + size)))[2]))
        low, high = -(-start // page) * page, (start + size) // page * page
        if size > 1 << 24:
            for each in (self.data, self.state):
                each.base.obj.madvise(mmap.MADV_DONTNEED, low, high - low)
            self.state[start:low], self.state[high:start + size] = 0, 0
        else:
            self.state[start:start + size] = 0

    def owner(self, start: int):
        """The allocation that an offset lies in."""
        at = bisect.bisect_right(self.live, (start, FIRST)) - 1
        return self.live[at] if at >= 0 and start < self.live[at][1] else None

    def span(self, ptr: int, size: int, what: str) -> slice:
        """The bytes of a host access, which must lie inside one allocation."""
        start = int(ptr) - GLOBAL
        if size and start + size > (self.owner(start) or (0, 0))[1]:
            raise BadParam(f"{what}: {size} bytes at {int(ptr):#x} must lie inside a live allocation")
        return slice(start, start + size)

    def write_host(self, ptr, data: np.ndarray):
        where = self.span(ptr, data.size, "copy_in")
        self.data[where] = data
        self.state[where] |= WRITTEN

    def read_host(self, ptr, size) -> np.ndarray:
        return self.data[self.span(ptr, size, "copy_out")]

    def zeros(self, kind, count, lanes) -> np.ndarray:
        """Rows of registers, in memory that is used again by the next launch."""
        if kind not in self.pool or self.pool[kind].size < count * lanes:
            self.pool[kind] = np.empty(count * lanes, kind)
        block = self.pool[kind][:count * lanes].reshape(count, lanes)
        block.fill(0)
        return block

    # ---- What differs from other memories: it has holes, and only what a launch may write is watched ----

    def outside(self, off, width):
        owner = self.owner(int(off.min(initial=FIRST)))
        self.owned = owner if owner and int(off.max(initial=0)) + width <= owner[1] else None
        if self.owned:
            return ()
        starts, ends, _ = np.array([(-1, -1, 0), *self.live], np.int64).T
        return off + width > ends[np.searchsorted(starts, off, "right") - 1]

    def watched(self, c, off, width):
        if not c.checks.races or self.owned:
            return c.checks.races and self.owned in self.tracked
        return any(((off >= low) & (off < high)).any() for low, high, _ in self.tracked)

    def describe(self, start: int) -> str:
        if not self.live:
            return "and there is no allocation"
        low, high, _ = min(self.live, key=lambda a: min(abs(start - a[0]), abs(start - a[1])))
        where = f"{start - high} bytes behind the end" if start >= high else f"{low - start} bytes before the start" if start < low \
            else f"byte {start - low}"
        return f", {where} of the allocation of {high - low} bytes at {GLOBAL + low:#x}"
