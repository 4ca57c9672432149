"""Copies that land later: cp.async and its groups, mbarriers, bulk copies and the tensor memory accelerator. Bytes under way may not be touched:
cp.async lands when somebody waits for it, the others when nothing else can run, which is the last moment."""
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .gate import Mbarrier
from .memory import FLYING, PARAM, SPACE_END
from .table import row

RANK_BIT = 24                                    # from here on an address of shared memory names a block of the cluster (rank + 1)


@dataclass
class TensorMap:
    """What cuTensorMapEncode says, as an object: innermost dim first. ``strides``: bytes of the outer dims. ``swizzle``: 0, 32, 64 or 128 bytes."""
    ptr: int
    bytes: int
    dims: tuple
    strides: tuple
    box: tuple
    swizzle: int = 0
    steps: tuple = ()
    corners: tuple = ()                          # im2col: (lower corner, upper corner) of w, h, d
    fill: int = 0


@dataclass
class Copy:
    """Bytes on their way: ``data`` (n, size) to the places ``off`` of shared memory in the name of ``lanes``; all (n,). ``group``: of cp.async;
    ``gate``: the mbarrier that counts them."""
    lanes: np.ndarray
    off: np.ndarray
    data: np.ndarray
    at: int
    group: np.ndarray
    gate: object = None


class Flight(NamedTuple):
    """A wgmma under way: registers and cells of the shadow that it uses, its first lane, its group."""
    registers: set
    cells: np.ndarray
    lane: int
    group: int


class Copies:
    """What is under way in a batch of blocks."""

    def __init__(self, lanes: int):
        self.copies, self.transfers, self.flights = [], [], []
        self.group, self.flight_group = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)      # the group that a lane's next ones go to

    def start(self, c, address, data, lanes, gate=None):
        """Queue bytes for shared memory: checked as writes of the lanes now, untouchable until they land."""
        shared, size = c.memory["shared"], data.shape[1]
        off = shared.reach(c, address, size, "writes", lanes)
        shared.write(c, shared.cells(off, size), lanes)
        shared.mark(off, size, FLYING)
        (self.transfers if gate else self.copies).append(Copy(lanes, off, data, c.at, self.group[lanes], gate))

    def land(self, c, copy: Copy, done):
        """Some rows of a copy land; returns those that are still under way."""
        shared, off, size = c.memory["shared"], copy.off[done], copy.data.shape[1]
        cells = shared.cells(off, size)
        shared.data[off[:, None] + np.arange(size)] = copy.data[done]
        shared.mark(off, size)
        shared.writes[cells], shared.write_at[cells] = c.code[copy.lanes[done]][:, None], copy.at
        return [] if done.all() else [Copy(copy.lanes[~done], copy.off[~done], copy.data[~done], copy.at, copy.group[~done])]

    def wait(self, c, left: int | None = None):
        """The copies of the active lanes land, but for those of the last ``left`` groups (None: all, committed or not)."""
        active = np.zeros(c.L, bool)
        active[c.lanes()] = True
        older = [active[copy.lanes] & (left is None or copy.group < self.group[copy.lanes] - left) for copy in self.copies]
        self.copies = [rest for copy, done in zip(self.copies, older) for rest in (self.land(c, copy, done) if done.any() else [copy])]

    def deliver(self, c) -> bool:
        """Nothing runs: the oldest transfer (or, at random, any) lands and is counted; who waits for the barrier knows of it."""
        if not self.transfers:
            return False
        copy = self.transfers.pop(0 if c.rng is None else int(c.rng.integers(len(self.transfers))))
        self.land(c, copy, np.ones(len(copy.off), bool))
        copy.gate.gathering = np.maximum(copy.gate.gathering, c.tick(copy.lanes[:1]))
        copy.gate.bytes -= copy.data.size
        copy.gate.release(c)
        return True

    def leave(self, c, lanes):
        """Lanes exit, or the last of a batch have: nothing of theirs may be under way."""
        late = [copy for copy in self.copies if lanes[copy.lanes].any()] or ([] if c.live else self.transfers)
        if late and c.checks.in_flight:
            c.at, owners = late[0].at, late[0].lanes
            owners = owners[lanes[owners]] if c.live else owners
            c.fault("in flight", "leaves while its asynchronous copy is under way; nothing waited for it", owners)

    def untouched(self, c, registers):
        """No instruction but wgmma may name registers of one that is under way."""
        groups = np.unique(c.lanes() // 128) if c.checks.in_flight else ()
        if any(flight.lane // 128 in groups and flight.registers & registers for flight in self.flights):
            c.fault("in flight", "touches registers of a wgmma that was not waited for", c.lanes())


# ---- cp.async ----

def copy_async(c, m, to, source, size, given=None, hint=None):
    """cp.async.ca|cg [shared], [global], size{, source size, or predicate to ignore it}: the rest of ``size`` bytes is zeros."""
    lanes = c.lanes()
    if size not in ((16,) if m["cop"] == "cg" else (4, 8, 16)):
        c.fault("copy", "has a size that is not 16 (.cg), or 4, 8 or 16 (.ca)", lanes)
    length = np.full(c.n, size) if given is None else np.where(given, 0, size) if given.dtype == bool else given.astype(np.int64)
    if (length > size).any():
        c.fault("address", f"copies more than {size} bytes", lanes[length > size])
    data = np.zeros((c.n, size), np.uint8)
    for n in np.unique(length[length > 0]).tolist():
        some, unit = length == n, n & -n                     # a short copy is read in its largest aligned pieces
        for i in range(0, n, unit):
            parts = c.memory["global"].load(c, source[some] + i, min(unit, 8), max(unit // 8, 1), lanes[some])
            data[some, i:i + unit] = np.ascontiguousarray(np.stack(parts, 1)).view(np.uint8)
    c.copies.start(c, to, data, lanes)


def commit(c, m):
    c.copies.group[c.lanes()] += 1


HINT = "cache:L2::cache_hint?"
CP_ASYNC = f"cp async cop:ca|cg space:shared|shared::cta from:global {HINT} fetch:L2::64B|L2::128B|L2::256B?"
row(CP_ASYNC, "=@,@,#,*?,b64?", copy_async)
row("cp async commit_group", "=", commit)
row("cp async wait_group", "=#", lambda c, m, left: c.copies.wait(c, left))
row("cp async wait_all", "=", lambda c, m: c.copies.wait(c))


# ---- mbarrier ----

def mbarriers(c, address, verb, lanes=None):
    """(lane, mbarrier that it means) of the active lanes."""
    lanes, shared = c.lanes() if lanes is None else lanes, c.memory["shared"]
    off = shared.reach(c, address, 8, verb, lanes)
    codes = shared.writes[off // shared.grain]
    bad = (codes > 0) & ~shared.before(c, codes, c.code[lanes], c.row[lanes]) & c.checks.races
    if bad.any():
        there = int(shared.write_at[off[bad][0] // shared.grain])
        c.fault("race", "uses an mbarrier with no synchronisation since it was initialised", lanes[bad], there)
    for lane, place in zip(lanes, off.tolist()):
        yield lane, c.gates.get(place) or c.fault("mbarrier", "uses an mbarrier that was not initialised", lane)


def initialise(c, m, address, count=None):
    """mbarrier.init and .inval."""
    shared = c.memory["shared"]
    off = shared.reach(c, address, 8, "initialises", c.lanes())
    shared.write(c, shared.cells(off, 8), c.lanes())
    shared.mark(off, 8)
    for n, place in enumerate(off.tolist()):
        c.gates[place] = Mbarrier(int(count[n])) if m["act"] == "init" else None


def arrive(c, m, address, given=None):
    """mbarrier.arrive[.expect_tx] [a]{, count or bytes}: the state is the phase the arrival belongs to."""
    c.tick(c.lanes())
    phases, expects = np.zeros(c.n, np.uint64), "expect_tx" in m
    for n, (lane, gate) in enumerate(mbarriers(c, address, "arrives at")):
        phases[n], value = gate.phase, 1 if given is None else int(given[n])
        gate.arrive(c, lane, 1 if expects else value, value if expects else 0)
        gate.count -= m["act"] == "arrive_drop"
    return phases,


def expect(c, m, address, given):
    for n, (_, gate) in enumerate(mbarriers(c, address, "announces bytes to")):
        gate.bytes += int(given[n]) if m["act"] == "expect_tx" else -int(given[n])
        gate.advance(c)


def wait(c, m, address, named, hint=None):
    """test_wait, try_wait: lanes wait until the phase they name has ended."""
    for n, (lane, gate) in enumerate(mbarriers(c, address, "waits at")):
        gate.wait(c, np.array([lane]), int(named[n]))
        gate.release(c)


def signal(c, m, address):
    """cp.async.mbarrier.arrive: the barrier hears of the lane's copies; they land now, the last moment at which somebody may learn of it."""
    c.copies.wait(c)
    c.tick(c.lanes())
    for lane, gate in mbarriers(c, address, "signals"):
        gate.left += "noinc" not in m
        gate.arrive(c, lane)


SPACE, ORDER = "space:shared|shared::cta|shared::cluster?", "order:relaxed|acquire|release? scope:cta|cluster?"
row(f"mbarrier act:init {SPACE} b64", "=@,u32", initialise)
row(f"mbarrier act:inval {SPACE} b64", "=@", initialise)
row(f"mbarrier act:arrive|arrive_drop expect_tx? {ORDER} {SPACE} b64", "b64=@,u32?", arrive)
row(f"mbarrier act:expect_tx|complete_tx {ORDER} {SPACE} b64", "=@,u32", expect)
row(f"mbarrier act:test_wait|try_wait parity {ORDER} {SPACE} b64", "pred=@,u32,u32?", wait)
row(f"mbarrier act:test_wait|try_wait {ORDER} {SPACE} b64", "pred=@,b64,u32?", wait)
row("cp async mbarrier arrive noinc? space:shared|shared::cta? b64", "=@", signal)


# ---- Bulk copies ----

def send(c, lane, to, data, barrier, mask=None):
    """Bytes for shared memory, in pieces at the addresses ``to``: into this block, or at the same place into the blocks of ``mask``."""
    blocks = [(rank + 1) << RANK_BIT for rank in range(16) if int(mask) >> rank & 1] if mask is not None and c.cluster > 1 else [None]
    for block in blocks:
        at, gate_at = ((x if block is None else x & (1 << RANK_BIT) - 1 | block) for x in (to, barrier))
        gate = next(mbarriers(c, np.array([gate_at]), "signals", np.array([lane])))[1]
        c.copies.start(c, at, data, np.full(len(at), lane), gate)


def pieces(start, length, unit=16):
    return start + np.arange(0, length, unit)


def read(c, space, address, lane, unit=16) -> np.ndarray:
    """Bytes of memory in pieces of ``unit``, read (and checked) in the name of one lane."""
    parts = c.memory[space].load(c, address, min(unit, 8), max(unit // 8, 1), np.full(len(address), lane))
    return np.ascontiguousarray(np.stack(parts, 1)).view(np.uint8)


def write(c, address, data, lane):
    words = np.ascontiguousarray(data).view(f"u{min(data.shape[1], 8)}")
    c.memory["global"].store(c, address, words.itemsize, list(words.T), np.full(len(address), lane))


def bulk_load(c, m, to, source, size, barrier, mask=None, hint=None):
    for n, lane in enumerate(c.lanes()):
        data = read(c, "global", pieces(source[n], size[n]), lane)
        send(c, lane, pieces(to[n], size[n]), data, barrier[n], mask[n] if "multicast::cluster" in m else None)


def bulk_store(c, m, to, source, size, hint=None):
    for n, lane in enumerate(c.lanes()):
        write(c, pieces(to[n], size[n]), read(c, "shared", pieces(source[n], size[n]), lane), lane)


# ---- Tensor copies ----

def swizzled(at, width: int):
    """The 16-byte chunk of an address exchanged as the swizzle of ``width`` bytes has it."""
    return at ^ ((at >> 7) & (width // 16 - 1)) << 4 if width else at


def tile(map_: TensorMap, start):
    """Coordinates of a box, innermost first, in the order it has in shared memory."""
    axes = [s + k * np.arange(-(-b // k)) for s, b, k in zip(start, map_.box, map_.steps or (1,) * len(start))]
    return np.meshgrid(*axes[::-1], indexing="ij")[::-1]


def im2col(map_: TensorMap, start, shifts):
    """Pixels from ``start`` on, wrapping at the bounding box; ``box`` = (channels, pixels). Order of dims: c, w, h, …, n."""
    (channels, pixels), (lower, upper) = map_.box, map_.corners
    sizes, index = np.array(map_.dims[1:-1]) + np.array(upper) - np.array(lower), start[-1]
    for s, low, n in list(zip(start[1:-1], lower, sizes))[::-1]:
        index = index * n + s - low
    index, coordinates = index + np.arange(pixels), []
    for n, low, shift in zip(sizes, lower, shifts):
        coordinates.append(index % n + low + shift)
        index = index // n
    return np.broadcast_arrays(start[0] + np.arange(channels)[None], *(x[:, None] for x in (*coordinates, index)))


def box_of(c, m, n, lane, near, box, shifts):
    """(tensor map, element addresses, inside?, addresses in shared memory of the pieces) of a lane's tensor copy, and bytes of a piece."""
    key = int(box[0][n]) - (PARAM if PARAM <= box[0][n] < PARAM + SPACE_END else 0)
    map_, start = c.tensor_maps.get(key), [int(x[n]) for x in box[1]]
    if map_ is None:
        c.fault("tensor map", f"names no tensor map ({'parameter offset' if box[0][n] >= PARAM else 'address'} {key:#x})", lane)
    grid = im2col(map_, start, [int(s[n]) for s in shifts]) if "im2col" in m else tile(map_, start)
    inside = np.logical_and.reduce([(g >= 0) & (g < d) for g, d in zip(grid, map_.dims)]).ravel()
    at = (map_.ptr + sum(g.astype(np.int64) * s for g, s in zip(grid, (map_.bytes, *map_.strides)))).ravel()
    if near[n] % 128:
        c.fault("misaligned", "a tensor copy needs shared memory aligned to 128 bytes", lane)
    unit = 16 if len(at) * map_.bytes % 16 == 0 else map_.bytes
    return map_, at, inside, swizzled(pieces(near[n], len(at) * map_.bytes, unit), map_.swizzle), unit


def tensor_load(c, m, near, box, barrier, *more):
    """A box of a tensor into shared memory; outside the tensor it reads ``fill``. ``more``: im2col offsets, multicast mask, cache hint."""
    more = list(more)
    shifts, mask = more.pop(0) if "im2col" in m else (), more.pop(0) if "multicast::cluster" in m else None
    for n, lane in enumerate(c.lanes()):
        map_, at, inside, to, unit = box_of(c, m, n, lane, near, box, shifts)
        data = np.full((len(at), map_.bytes), map_.fill, np.uint8)
        data[inside] = read(c, "global", at[inside], lane, map_.bytes)
        send(c, lane, to, data.reshape(-1, unit), barrier[n], None if mask is None else mask[n])


def tensor_store(c, m, box, near, hint=None):
    for n, lane in enumerate(c.lanes()):
        map_, at, inside, source, unit = box_of(c, m, n, lane, near, box, ())
        write(c, at[inside], read(c, "shared", source, lane, unit).reshape(-1, map_.bytes)[inside], lane)


TENSOR, NEAR = "cp async bulk tensor rank:1d|2d|3d|4d|5d", "to:shared::cluster|shared::cta from:global"
for cast, mask in (("", ""), ("multicast::cluster ", ",u16")):
    row(f"cp async bulk {NEAR} mbarrier::complete_tx::bytes {cast}{HINT}", f"=@,@,u32,@{mask},b64?", bulk_load)
    for how, shifts in (("tile?", ""), ("im2col", ",[u16]")):
        row(f"{TENSOR} {NEAR} {how} mbarrier::complete_tx::bytes {cast}{HINT}", f"=@,box,@{shifts}{mask},b64?", tensor_load)
row(f"cp async bulk to:global from:shared::cta bulk_group {HINT}", "=@,@,u32,b64?", bulk_store)
row(f"{TENSOR} to:global from:shared::cta tile? bulk_group {HINT}", "=box,@,b64?", tensor_store)
for pattern, signature in (("cp async bulk commit_group", "="), ("cp async bulk wait_group read?", "=#"),
                           (f"cp async bulk prefetch L2 global {HINT}", "=@,u32,b64?"), ("prefetch space:param? tensormap", "=@")):
    row(pattern, signature, lambda c, m, *operands: None)
