"""Bulk copies and the tensor memory accelerator, into shared memory and out of it.

They work in the async proxy: what ordinary instructions wrote must be fenced before they read it. A copy out
of shared memory reads it until its thread waits for that (wait_group.read), and has not written global memory
before its thread waits for that too (wait_group), or everybody has left.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .copies import HINT, announce, fenced, mbarriers, read
from .gate import Mbarrier
from .memory import ALL, FLYING, GROUP, LENT, PARAM, RANK_BIT, RAW, WRITTEN
from .table import row


class DecodedMap(NamedTuple):
    """A decoded tensor map (cuTensorMapEncode): innermost dim first. ``strides``: bytes of the outer dims.
    ``swizzle``: 0, 32, 64 or 128 bytes."""
    ptr: int
    bytes: int
    dims: tuple
    strides: tuple
    box: tuple
    swizzle: int = 0
    steps: tuple = ()
    corners: tuple = ()                          # im2col: (lower corner, upper corner) of w, h, d
    fill: int = 0


# ---- What is on its way out ----

class Outgoing(NamedTuple):
    """Elements of ``size`` bytes from the places ``off`` of shared memory to the places ``to`` of global
    memory, in the name of ``lane``, for its ``group``. ``data``: once they have been read."""
    lane: int
    group: int
    off: np.ndarray
    to: np.ndarray
    size: int
    at: int
    data: np.ndarray | None = None


class Stores:
    """The bulk copies out of shared memory that a batch of blocks has under way."""

    def __init__(self, lanes: int):
        self.reading, self.writing = [], []
        self.group = np.zeros(lanes, np.int64)   # that a lane's next ones go to

    def start(self, c, source, address, size, lane):
        """Check both sides now; until it is done, the source is lent and the destination in flight."""
        shared, memory, lanes = c.memory["shared"], c.memory["global"], np.full(len(source), lane)
        off = shared.reach(c, source, size, "reads", lanes, WRITTEN if c.checks.unwritten_shared else 0)
        if shared.watched(c, off, size):
            shared.read(c, shared.cells(off, size), lanes)
        fenced(c, off, size, lane, "reads")
        to = memory.reach(c, address, size, "writes", lanes)
        if memory.watched(c, to, size):
            memory.write(c, memory.cells(to, size), lanes)
        memory.mark(to, size, FLYING)
        self.reading.append(Outgoing(int(lane), int(self.group[lane]), off, to, size, c.at))
        self._lend(c)

    def _lend(self, c):
        shared = c.memory["shared"]
        for each in self.reading:
            shared.state[_bytes(each.off, each.size)] |= LENT

    def _read(self, c, done):
        """These have read shared memory."""
        shared = c.memory["shared"]
        for each in done:
            where = _bytes(each.off, each.size)
            shared.state[where] &= ~np.uint8(LENT)
            self.writing.append(each._replace(data=shared.data[where]))
        self.reading = [each for each in self.reading if not any(each is other for other in done)]
        self._lend(c)

    def _write(self, c, done):
        """These have written global memory."""
        memory = c.memory["global"]
        for each in done:
            memory.data[_bytes(each.to, each.size)] = each.data
            memory.mark(each.to, each.size)
            if memory.watched(c, each.to, each.size):
                cells = memory.cells(each.to, each.size)
                memory.writes[cells], memory.write_at[cells] = c.code[each.lane], each.at
        self.writing = [each for each in self.writing if not any(each is other for other in done)]

    def commit(self, c):
        np.add.at(self.group, c.lanes(), 1)

    def wait(self, c, left: int, is_read: bool):
        """The active lanes' groups, but for the last ``left``, have been read; and written, unless
        ``is_read``."""
        active = np.zeros(len(self.group), bool)
        active[c.lanes()] = True
        old = lambda queue: [e for e in queue if active[e.lane] and e.group < self.group[e.lane] - left]
        self._read(c, old(self.reading))
        if not is_read:
            self._write(c, old(self.writing))

    def leave(self, c, lanes):
        """Lanes exit: shared memory goes with the last thread of a block, so nothing may still read it."""
        late = [each for each in self.reading if lanes[each.lane]]
        if late and c.checks.in_flight:
            c.at = late[0].at
            c.fault("in flight", "leaves while its bulk copy reads shared memory; nothing waited for it",
                    np.array([late[0].lane]))
        self._read(c, late)
        if not c.live:
            self._write(c, list(self.writing))


def _bytes(off, size):
    return off[:, None] + np.arange(size)


# ---- The async proxy ----

def fence(c, m):
    """fence.proxy.async: what the active lanes have written to shared memory is seen by the async proxy.
    fence.mbarrier_init: the mbarriers that they have initialised."""
    if m.get("space") == "global":
        return
    announce(c)
    if not c.raw:
        return
    shared, mine, only = c.memory["shared"], np.zeros(c.L, bool), "mbarrier_init" in m
    mine[c.lanes()] = True
    raw = np.flatnonzero(shared.state & RAW)
    if only:
        there = [place for place, gate in c.gates.items() if isinstance(gate, Mbarrier)]
        raw = raw[np.isin(raw // 8 * 8, there)]
    codes = shared.last_change(raw // shared.grain)
    lanes = ((codes >> GROUP) - int(c.group[0])) * (c.joint * c.width) + (codes & ALL)
    shared.state[raw[mine[lanes]]] &= ~np.uint8(RAW)


row("fence proxy async space:global|shared::cta|shared::cluster?", "=", fence)
row("fence mbarrier_init order:release scope:cluster", "=", fence)


# ---- Boxes: a bulk copy is one of a flat tensor of 16-byte elements ----

def swizzled(at, width: int):
    """The 16-byte chunk of an address exchanged as the swizzle of ``width`` bytes has it."""
    return at ^ ((at >> 7) & (width // 16 - 1)) << 4 if width else at


def tile(map_: DecodedMap, start):
    """Coordinates of a box, innermost first, in the order it has in shared memory."""
    axes = [s + k * np.arange(-(-b // k))
            for s, b, k in zip(start, map_.box, map_.steps or (1,) * len(start))]
    return np.meshgrid(*axes[::-1], indexing="ij")[::-1]


def im2col(map_: DecodedMap, start, shifts):
    """Pixels from ``start`` on, wrapping at the bounding box; ``box`` = (channels, pixels).
    Order of dims: c, w, h, …, n. None where ``start`` is no base pixel."""
    (channels, pixels), (lower, upper) = map_.box, np.array(map_.corners)
    every = np.array(map_.steps[1:-1] or (1,) * len(lower))
    sizes = (map_.dims[1:-1] + upper - lower - 1) // every + 1
    first, rest = np.divmod(start[1:-1] - lower, every)
    if rest.any() or (first < 0).any() or (first >= sizes).any():
        return None
    steps = np.cumprod([1, *sizes])
    pixel = steps @ [*first, start[-1]] + np.arange(pixels)[:, None]
    inner = [pixel // step % size * by + low + shift
             for step, size, by, low, shift in zip(steps, sizes, every, lower, shifts)]
    return np.broadcast_arrays(start[0] + np.arange(channels), *inner, pixel // steps[-1])


def boxes(c, m, near, far, shifts=(), unit=1):
    """For each lane: its position and number, the tensor map, addresses of the elements and which are inside.
    ``far``: (tensor map, coordinates), or (address, [bytes]). Rows end at multiples of ``unit`` bytes."""
    for n, lane in enumerate(c.lanes()):
        address, start = int(far[0][n]), [int(x[n]) for x in far[1]]
        map_ = c.tensor_maps.get(address % PARAM)
        if "rank" not in m:
            map_, start = DecodedMap(address, 16, (-(-start[0] // 16),), (), (-(-start[0] // 16),)), [0]
        elif map_ is None:
            c.fault("tensor map", f"names no tensor map (parameter or address {address % PARAM:#x})", lane)
        elif len(start) != len(map_.dims):
            c.fault("tensor map",
                    f"names {len(start)} coordinates of a tensor map of {len(map_.dims)} dims", lane)
        elif bool(map_.corners) != bool(shifts):
            c.fault("tensor map", f"names a tensor map of {'pixels' if map_.corners else 'boxes'}", lane)
        elif (map_.swizzle or map_.corners) and start[0] * map_.bytes % 16:
            what = "swizzled tensor copy" if map_.swizzle else "tensor copy of pixels"
            c.fault("misaligned", f"begins at element {start[0]} of a row; a {what} needs whole 16 bytes",
                    lane)                        # an illegal instruction, on an H200
        elif near[n] % 128:
            c.fault("misaligned", "a tensor copy needs shared memory aligned to 128 bytes", lane)
        grid = im2col(map_, start, [int(s[n]) for s in shifts]) if shifts else tile(map_, start)
        if grid is None:
            c.fault("tensor map", f"begins at {start}, no base pixel of dims {map_.dims}, corners "
                    f"{map_.corners}, steps {map_.steps}", lane)
        row = -(-map_.dims[0] * map_.bytes // unit) * unit // map_.bytes
        inside = np.logical_and.reduce(
            [(g >= 0) & (g < d) for g, d in zip(grid, (row, *map_.dims[1:]))]).ravel()
        at = (map_.ptr
              + sum(g.astype(np.int64) * s for g, s in zip(grid, (map_.bytes, *map_.strides)))).ravel()
        yield n, lane, map_, at, inside


def load(c, m, near, far, barrier, *more):
    """Into shared memory, ``fill`` for what lies outside. ``more``: im2col offsets, mask of the blocks
    that get it (at the same place), hint."""
    more = iter(more)
    shifts, mask = next(more) if "im2col" in m else (), next(more) if "multicast::cluster" in m else None
    for n, lane, map_, at, inside in boxes(c, m, near, far, shifts):
        data = np.full((len(at), map_.bytes), map_.fill, np.uint8)
        data[inside] = read(c, "global", at[inside], np.full(np.count_nonzero(inside), lane), map_.bytes)
        unit = np.gcd(16, data.size)
        to = swizzled(near[n] + np.arange(0, data.size, unit), map_.swizzle)
        ranks = (-1,) if mask is None else [rank for rank in range(16) if int(mask[n]) >> rank & 1]
        for keep, block in (((1 << RANK_BIT) - 1 if mask is not None else -1, rank + 1 << RANK_BIT)
                            for rank in ranks):
            place = barrier[n:n + 1] & keep | block
            gate = next(mbarriers(c, place, "signals", np.array([lane])))[1]
            fenced(c, c.memory["shared"].reach(c, place, 8, "signals", np.array([lane])), 8, lane, "signals")
            c.copies.start(c, to & keep | block, data.reshape(-1, unit), np.full(len(to), lane), gate)


def store(c, m, far, near, hint=None):
    """Out of shared memory: the elements that lie inside, and those behind a row that share its last 16
    bytes, as the hardware writes no less."""
    still = [np.zeros(len(near), int)] * 3 if "im2col_no_offs" in m else ()
    for n, lane, map_, at, inside in boxes(c, m, near, far, still, 16):
        if map_.corners and (min(map_.corners[0]) < 0 or max(map_.corners[1]) > 0):
            c.fault("tensor map", f"stores pixels whose corners {map_.corners} lie outside the tensor", lane)
        source = swizzled(near[n] + np.arange(0, len(at) * map_.bytes, map_.bytes), map_.swizzle)
        c.stores.start(c, source[inside], at[inside], map_.bytes, lane)


BULK, TENSOR, NEAR = ("cp async bulk", "cp async bulk tensor rank:1d|2d|3d|4d|5d",
                      "to:shared::cluster|shared::cta from:global")
for cast, mask in (("", ""), ("multicast::cluster ", ",u16")):
    row(f"{BULK} {NEAR} mbarrier::complete_tx::bytes {cast}{HINT}", f"=@,@,u32,@{mask},b64?",
        lambda c, m, near, source, size, *more: load(c, m, near, (source, [size]), *more))
    for how, shifts in (("tile?", ""), ("im2col", ",[u16]")):
        row(f"{TENSOR} {NEAR} {how} mbarrier::complete_tx::bytes {cast}{HINT}",
            f"=@,box,@{shifts}{mask},b64?", load)
row(f"{BULK} to:global from:shared::cta bulk_group {HINT}", "=@,@,u32,b64?",
    lambda c, m, to, near, size, hint: store(c, m, (to, [size]), near))
for how in ("tile?", "im2col_no_offs"):
    row(f"{TENSOR} to:global from:shared::cta {how} bulk_group {HINT}", "=box,@,b64?", store)
row(f"{BULK} commit_group", "=", lambda c, m: c.stores.commit(c))
row(f"{BULK} wait_group read?", "=#", lambda c, m, left: c.stores.wait(c, left, "read" in m))
for pattern, signature in ((f"{BULK} prefetch L2 global {HINT}", "=@,u32,b64?"),
                           ("prefetch space:param? tensormap", "=@")):
    row(pattern, signature, lambda c, m, *operands: None)
