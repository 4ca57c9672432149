"""mbarrier objects, bulk copies and the tensor memory accelerator. A transfer lands at the last moment: when nothing else can run."""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .check import IN_FLIGHT
from .memory import PARAM, SPACE_END
from .movement import address
from .table import row

TRY = -3                                         # wait_id of lanes that wait for a phase
WAITS = 1 << 29
SPACE = "space:shared|shared::cta|shared::cluster?"
ORDER = "order:relaxed|acquire|release? scope:cta|cluster?"


@dataclass
class Mbarrier:
    """``count`` arrivals end a phase, once ``bytes`` announced bytes have landed too."""
    count: int
    left: int
    bytes: int = 0
    phase: int = 0
    gathering: object = 0                        # what the arrivals of this phase knew
    known: object = 0                            # what those of all ended phases knew


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
class Transfer:
    """Bytes on their way into shared memory, and the barrier that counts them."""
    lane: int
    off: np.ndarray
    data: np.ndarray
    barrier: object
    at: int
    cells: np.ndarray = field(default=None)


def swizzled(at, width: int):
    """The 16-byte chunk of an address exchanged as the swizzle of ``width`` bytes has it."""
    return at ^ ((at >> 7) & (width // 16 - 1)) << 4 if width else at


# ---- Barrier objects ----

def places(c, at, verb):
    """Which barrier each active lane means: (lanes, offsets in shared memory)."""
    lanes, shared = c.lanes(), c.memory["shared"]
    off = shared.place(c, at, 8, verb)
    if verb != "initialises" and c.checks.races:
        codes = shared.shadow.writes[off // shared.grain]
        bad = (codes > 0) & ~shared.shadow.before(c, codes, lanes, c.code[lanes])
        if bad.any():
            c.fault("race", "uses an mbarrier with no synchronisation since it was initialised", lanes[bad],
                    int(shared.shadow.write_at[off[bad][0] // shared.grain]))
    return lanes, off


def find(c, off, lanes, position) -> Mbarrier:
    barrier = c.pending.barriers.get(int(off))
    if barrier is None:
        c.fault("mbarrier", "uses an mbarrier that was not initialised", lanes[position:position + 1])
    return barrier


def advance(barrier: Mbarrier):
    if barrier.left == 0 and barrier.bytes == 0:
        barrier.left, barrier.phase = barrier.count, barrier.phase + 1
        barrier.known, barrier.gathering = np.maximum(barrier.known, barrier.gathering), 0


def _init(op, m):
    where, count = address(op, op.operands[0]), op.source(op.operands[1], "u32")

    def step(V, c):
        lanes, off = places(c, where(V, c), "initialises")
        shared = c.memory["shared"]
        shared.shadow.write(c, shared.cells(off, 8), lanes, True)
        for place, n in zip(off, np.broadcast_to(c.at_lanes(V[count]), off.shape)):
            c.pending.barriers[int(place)] = Mbarrier(int(n), int(n))
    return step


def _inval(op, m):
    where = address(op, op.operands[0])

    def step(V, c):
        for place in places(c, where(V, c), "invalidates")[1]:
            c.pending.barriers.pop(int(place), None)
    return step


def arrive(c, place, lanes, position, count, announced, row_):
    barrier = find(c, place, lanes, position)
    barrier.gathering = np.maximum(barrier.gathering, c.known[row_])
    barrier.bytes += announced
    barrier.left -= count
    if barrier.left < 0:
        c.fault("mbarrier", f"arrives more often than the {barrier.count} times of a phase", lanes[position:position + 1])
    advance(barrier)


def _arrive(op, m):
    """mbarrier.arrive[.expect_tx] state, [a]{, count or bytes}; the state is the phase the arrival belongs to."""
    first = 0 if op.operands[0].kind == "mem" else 1
    target = op.target(op.operands[0], "b64") if first and op.operands[0].kind != "sink" else None
    where, expects = address(op, op.operands[first]), "expect_tx" in m
    given = op.source(op.operands[first + 1], "u32") if len(op.operands) > first + 1 else None

    def step(V, c):
        lanes, off = places(c, where(V, c), "arrives at")
        values = np.broadcast_to(1 if given is None else c.at_lanes(V[given]), off.shape)
        phases = np.zeros(off.shape, np.uint64)
        c.tick(np.unique(c.row[lanes]))
        for n, (place, value) in enumerate(zip(off, values)):
            phases[n] = find(c, place, lanes, n).phase
            arrive(c, place, lanes, n, 1 if expects else int(value), int(value) if expects else 0, c.row[lanes[n]])
            if "drop" in m:
                c.pending.barriers[int(place)].count -= 1
        if target is not None:
            c.put(target, phases)
    return step


def _expect(op, m):
    where, count, sign = address(op, op.operands[0]), op.source(op.operands[1], "u32"), 1 if m["act"] == "expect_tx" else -1

    def step(V, c):
        lanes, off = places(c, where(V, c), "announces bytes to")
        for n, (place, value) in enumerate(zip(off, np.broadcast_to(c.at_lanes(V[count]), off.shape))):
            barrier = find(c, place, lanes, n)
            barrier.bytes += sign * int(value)
            advance(barrier)
    return step


def _wait(op, m):
    """test_wait, try_wait: lanes wait (the machine parks them) until the phase they name has ended."""
    where, flag = address(op, op.operands[1]), op.target(op.operands[0], "pred")
    parity, named = "parity" in m, op.source(op.operands[2], "u32" if "parity" in m else "b64")

    def step(V, c, take, whole):
        lanes, off = places(c, where(V, c), "waits at")
        want = np.broadcast_to(c.at_lanes(V[named]), off.shape).astype(np.int64)
        phase = np.array([find(c, place, lanes, n).phase for n, place in enumerate(off)])
        done = (phase & 1) != (want & 1) if parity else phase > want
        if done.any():
            for n in np.flatnonzero(done):
                row_ = c.row[lanes[n]]
                c.known[row_] = np.maximum(c.known[row_], c.pending.barriers[int(off[n])].known)
            c._stamp()
            V[flag][lanes[done]] = True
        if whole and done.all():
            return True
        c.key[lanes[done]] = c.at + 1
        c.wait_id[lanes[~done]] = TRY
        if whole:
            c.key[lanes[~done]], c.pc[lanes[~done]] = WAITS, c.at
        return False
    return step


row(f"mbarrier act:init {SPACE} b64", None, _init)
row(f"mbarrier act:inval {SPACE} b64", None, _inval)
row(f"mbarrier arrive expect_tx? {ORDER} {SPACE} b64", None, _arrive)
row(f"mbarrier drop:arrive_drop expect_tx? {ORDER} {SPACE} b64", None, lambda op, m: _arrive(op, {**m, "drop": 1}))
row(f"mbarrier act:expect_tx|complete_tx {ORDER} {SPACE} b64", None, _expect)
row(f"mbarrier act:test_wait|try_wait parity? {ORDER} {SPACE} b64", None, _wait)


# ---- Bulk copies ----

def send(c, lane, off, data, place, lanes, position):
    """Queue bytes for shared memory: checked as writes of the lane now, untouchable until they land."""
    shared = c.memory["shared"]
    cells = np.unique(off // shared.grain)[None]
    shared.shadow.write(c, cells, c.all_lanes[lane:lane + 1], True)
    shared.shadow.writes[cells] = IN_FLIGHT
    c.pending.transfers.append(Transfer(lane, off, data, find(c, place, lanes, position), c.at, cells))


def deliver(c, transfer: Transfer):
    """Bytes land and are counted; who waits for the barrier knows of them."""
    shared, row_ = c.memory["shared"], c.row[transfer.lane]
    shared.data[transfer.off] = transfer.data
    shared.shadow.writes[transfer.cells] = c.code[transfer.lane]
    shared.shadow.write_at[transfer.cells] = transfer.at
    c.tick(np.array([row_]))
    transfer.barrier.gathering = np.maximum(transfer.barrier.gathering, c.known[row_])
    transfer.barrier.bytes -= len(transfer.data)
    advance(transfer.barrier)


def _bulk_load(op, m):
    to, source, barrier = (address(op, op.operands[n]) for n in (0, 1, 3))
    size = op.source(op.operands[2], "u32")

    def step(V, c):
        lanes, off = c.lanes(), c.memory["shared"].place(c, to(V, c), 16, "writes")
        _, places_ = places(c, barrier(V, c), "signals")
        for n, (lane, start, length) in enumerate(zip(lanes, source(V, c), np.broadcast_to(c.at_lanes(V[size]), off.shape))):
            if length % 16 or start % 16:
                c.fault("misaligned", f"copies {length} bytes from {int(start):#x}; both must be multiples of 16", lanes[n:n + 1])
            data = read_global(c, start + np.arange(0, length, 16), lane)
            send(c, lane, off[n] + np.arange(length), data, places_[n], lanes, n)
    return step


def read_global(c, addresses, lane, size=16) -> np.ndarray:
    """Bytes of global memory, read (and checked) in the name of one lane."""
    with c.standing_for(lane, len(addresses)):
        parts = c.memory["global"].load(c, np.asarray(addresses, np.int64), min(size, 8), max(size // 8, 1))
    return np.ascontiguousarray(np.stack(parts, 1)).view(np.uint8).reshape(-1)


def _bulk_store(op, m):
    to, source, size = address(op, op.operands[0]), address(op, op.operands[1]), op.source(op.operands[2], "u32")

    def step(V, c):
        shared, lanes = c.memory["shared"], c.lanes()
        off = shared.place(c, source(V, c), 16, "reads")
        for n, (lane, start, length) in enumerate(zip(lanes, to(V, c), np.broadcast_to(c.at_lanes(V[size]), off.shape))):
            write_global(c, start + np.arange(0, length, 16), read_shared(c, off[n] + np.arange(length), lane), lane)
    return step


def read_shared(c, off, lane) -> np.ndarray:
    shared = c.memory["shared"]
    shared.shadow.read(c, np.unique(off // shared.grain)[None], c.all_lanes[lane:lane + 1], True)
    return shared.data[off]


def write_global(c, addresses, data, lane, size=16):
    words = data.view("u%d" % min(size, 8)).reshape(len(addresses), -1)
    with c.standing_for(lane, len(addresses)):
        c.memory["global"].store(c, np.asarray(addresses, np.int64), min(size, 8), list(words.T))


BULK = "mbarrier::complete_tx::bytes multicast::cluster? cache:L2::cache_hint?"
row(f"cp async bulk to:shared::cluster|shared::cta from:global {BULK}", None, _bulk_load)
row("cp async bulk to:global from:shared::cta bulk_group cache:L2::cache_hint?", None, _bulk_store)
row("cp async bulk act:commit_group", None, lambda op, m: lambda V, c: None)
row("cp async bulk act:wait_group read?", None, lambda op, m: lambda V, c: None)
row("cp async bulk prefetch L2 global cache:L2::cache_hint?", None, lambda op, m: lambda V, c: None)
row("prefetch space:param? tensormap", None, lambda op, m: lambda V, c: None)


# ---- Tensor copies ----

def map_of(c, at, lanes, n) -> TensorMap:
    """The tensor map that a kernel parameter or an address in global memory stands for."""
    key = int(at) - PARAM if PARAM <= at < PARAM + SPACE_END else int(at)
    if key not in c.tensor_maps:
        c.fault("tensor map", f"names no tensor map ({'parameter offset' if at >= PARAM else 'address'} {key:#x})", lanes[n:n + 1])
    return c.tensor_maps[key]


def boxes(map_: TensorMap, start):
    """(element addresses, inside?) of a box whose first coordinates are ``start``, in the order it has in shared memory."""
    steps = map_.steps or (1,) * len(map_.dims)
    axes = [s + k * np.arange(-(-b // k)) for s, b, k in zip(start, map_.box, steps)]
    grids = np.meshgrid(*axes[::-1], indexing="ij")[::-1]
    inside = np.logical_and.reduce([(g >= 0) & (g < d) for g, d in zip(grids, map_.dims)])
    at = map_.ptr + sum(g.astype(np.int64) * s for g, s in zip(grids, (map_.bytes, *map_.strides)))
    return at.ravel(), inside.ravel()


def im2col(map_: TensorMap, start, offsets):
    """Pixels from ``start`` on, wrapping at the bounding box; ``box`` = (channels, pixels). Order of dims: c, w, h, …, n."""
    channels, pixels = map_.box
    lower, upper = map_.corners
    spatial = len(map_.dims) - 2
    low, size = np.array(lower), np.array(map_.dims[1:-1]) + np.array(upper) - np.array(lower)
    base = [s - l for s, l in zip(start[1:-1], low)]
    linear = start[-1]
    for b, n in zip(base[::-1], size[::-1]):
        linear = linear * n + b
    index, coordinates = linear + np.arange(pixels), []
    for n in size:
        coordinates.append(index % n)
        index = index // n
    coordinates = [x + l + o for x, l, o in zip(coordinates, low, offsets)]
    grid = [np.repeat(x[:, None], channels, 1) for x in (*coordinates, index)]
    c_ = np.repeat(start[0] + np.arange(channels)[None], pixels, 0)
    full = [c_, *grid]
    assert len(full) == spatial + 2
    inside = np.logical_and.reduce([(g >= 0) & (g < d) for g, d in zip(full, map_.dims)])
    at = map_.ptr + sum(g.astype(np.int64) * s for g, s in zip(full, (map_.bytes, *map_.strides)))
    return at.ravel(), inside.ravel()


def _tensor(op, m):
    """cp.async.bulk.tensor, either way: a box of a tensor from or to shared memory; outside the tensor it reads ``fill``."""
    load = m["from"] == "global"
    memory = op.operands[1 if load else 0]
    near, map_at = address(op, op.operands[0 if load else 1]), address(op, memory._replace(more=(memory.more[0], [])))
    coordinates = [op.source(o, "s32") for o in memory.more[1][0].value]
    barrier = address(op, op.operands[2]) if load else None
    extra = [op.source(o, "u16") for o in op.operands[3].value] if "im2col" in m and load else []

    def step(V, c):
        lanes, shared = c.lanes(), c.memory["shared"]
        off, maps = shared.place(c, near(V, c), 16, "copies"), map_at(V, c)
        signals = places(c, barrier(V, c), "signals")[1] if load else None
        values = [np.broadcast_to(c.at_lanes(V[s]), lanes.shape) for s in coordinates]
        shifts = [np.broadcast_to(c.at_lanes(V[s]), lanes.shape) for s in extra]
        for n, lane in enumerate(lanes):
            map_, start = map_of(c, maps[n], lanes, n), [int(v[n]) for v in values]
            at, inside = im2col(map_, start, [int(s[n]) for s in shifts]) if "im2col" in m else boxes(map_, start)
            relative = int(off[n]) % shared.pitch
            if relative % 128:
                c.fault("misaligned", "a tensor copy needs shared memory aligned to 128 bytes", lanes[n:n + 1])
            if relative + len(at) * map_.bytes > shared.size:
                c.fault("address", f"copies {len(at) * map_.bytes} bytes to {relative} of {shared.size} bytes of shared memory", lanes[n:n + 1])
            place = off[n] - relative + swizzled(relative + np.arange(len(at) * map_.bytes), map_.swizzle)
            if load:
                data = np.full((len(at), map_.bytes), map_.fill, np.uint8)
                if inside.any():
                    data[inside] = read_global(c, at[inside], lane, map_.bytes).reshape(-1, map_.bytes)
                send(c, lane, place, data.reshape(-1), signals[n], lanes, n)
            else:
                data = read_shared(c, place, lane).reshape(-1, map_.bytes)
                if inside.any():
                    write_global(c, at[inside], np.ascontiguousarray(data[inside]).reshape(-1), lane, map_.bytes)
    return step


RANK = "rank:1d|2d|3d|4d|5d"
row(f"cp async bulk tensor {RANK} to:shared::cluster|shared::cta from:global how:tile? im2col? {BULK}", None, _tensor)
row(f"cp async bulk tensor {RANK} to:global from:shared::cta how:tile? bulk_group cache:L2::cache_hint?", None, _tensor)
