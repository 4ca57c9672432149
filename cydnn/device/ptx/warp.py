"""Warp-level instructions: shuffles, votes, matches, warp reductions, barriers."""
from __future__ import annotations

import numpy as np

from .gate import DONE, Barrier
from .memory import CLOCK, NEVER, RANK_BIT
from .table import DTYPE, kind_of, row

U32 = np.uint32
BITS = U32(1) << np.arange(32, dtype=U32)


def gather(c, predicate):
    """For every active lane, the bits of a predicate over the active lanes of its warp."""
    return (c.spread(predicate, False) * BITS).sum(1, dtype=U32)[c.row[c.lanes()]]


def here(c):
    return gather(c, np.ones(c.n, bool))


def shuffle(c, m, value, by, clamp, members):
    """shfl.sync d|p: the value of lane j of the segment, or the lane's own when j is outside."""
    lanes = c.lanes()
    lane, by, segment, limit = (lanes & 31, by.astype(np.int64) & 31, clamp.astype(np.int64) >> 8 & 31,
                                clamp.astype(np.int64) & 31)
    low, high = lane & segment, lane & segment | limit & ~segment & 31
    j = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": low | by & ~segment & 31}[m["mode"]]
    inside = j >= high if m["mode"] == "up" else j <= high
    source = lanes - lane + np.where(inside, j, lane)
    if c.mask is not None and c.checks.barriers and not c.mask[source].all():
        c.fault("shuffle", "reads the register of a lane that is not here", lanes[~c.mask[source]])
    return c.spread(value).reshape(-1)[source], inside


def vote(c, m, predicate, members):
    bits, all_ = gather(c, predicate) & members, here(c) & members
    return {"ballot": bits, "any": bits != 0, "all": bits == all_,
            "uni": (bits == all_) | (bits == 0)}[m["mode"]],


def elect(c, m, members):
    """The lowest lane, and whether it is this one."""
    leader = np.log2((here(c) & (~here(c) + U32(1))).astype(np.float64)).astype(U32)
    return leader, c.lanes() % 32 == leader


def match(c, m, value, members):
    rows, all_ = c.spread(value), here(c)
    same = ((rows[:, :, None] == rows[:, None, :]) * BITS).sum(2, dtype=U32).reshape(-1)[c.lanes()] & all_
    return ((same, same == all_) if m["mode"] == "any"
            else (np.where(same == all_, all_, U32(0)), same == all_))


FOLD = {"add": np.add, "or": np.bitwise_or, "xor": np.bitwise_xor, "and": np.bitwise_and,
        "min": np.minimum, "max": np.maximum}


def neutral(fold, dtype):
    """What changes nothing."""
    low, high = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return {"min": high, "max": low, "and": np.array(-1).astype(dtype)}.get(fold, 0)


def redux(c, m, value, members):
    dtype = DTYPE[kind_of(m["t"])]
    rows = c.spread(np.abs(value) if "abs" in m else value, neutral(m["op"], dtype))
    return FOLD[m["op"]].reduce(rows, axis=1, dtype=dtype)[c.row[c.lanes()]],


def sync_warp(c, m, members):
    """bar.warp.sync: those whom a mask names have met; only where it names all that live is that the warp."""
    lanes, before = c.lanes(), c.own_clock().copy()
    alive = ((c.key.reshape(-1, 32) != DONE) * BITS).sum(1, dtype=U32)[c.row[lanes]]
    c.tick(lanes, have_met=True)
    for n in np.flatnonzero(members & alive != alive):
        row = int(c.row[lanes[n]])
        c.parts.meet(row, int(before[row]), int(members[n]))


row("shfl sync mode:up|down|bfly|idx b32", "b32|pred=b32,u32,u32,members", shuffle)
row("vote sync mode:all|any|uni t:pred", "t=pred,members", vote)
row("vote sync mode:ballot t:b32", "t=pred,members", vote)
row("activemask b32", "b32=", lambda c, m: (here(c),))
row("elect sync", "b32|pred=members", elect)
row("match mode:any|all sync t:b32|b64", "b32|pred=t,members", match)
row("redux sync op:add|min|max t:u32|s32", "t=t,members", redux)
row("redux sync op:and|or|xor t:b32", "t=t,members", redux)
row("redux sync op:min|max abs? NaN? t:f32", "t=t,members", redux)
row("bar warp sync", "=members", sync_warp)


# ---- Barriers of a block and of a cluster ----

def barriers(c, m, name=None):
    """The barriers that the active lanes mean, each with its lanes and their positions.
    The cluster's has no name."""
    size = c.width * (c.cluster if "cluster" in m else 1)    # lanes of a scope
    place = c.lanes() // size * 32 + (16 if "cluster" in m
                                      else 0 if name is None else name.astype(np.int64) & 15)
    for each in np.unique(place).tolist():
        start, mine = each // 32 * size, place == each
        yield (c.gates.setdefault(("barrier", each), Barrier(slice(start, start + size))),
               c.lanes()[mine], mine)


def sync(c, m, name=None, count=None, held=None):
    """bar.sync and bar.red: arrive and wait. Blocks go on when all wait, so that they keep in step."""
    if (c.n == c.live and count is None and held is None and not c.torn
            and (name is None or not name.strides[0]) and not c.coming):
        return c.meet()                                      # everybody, at once
    for gate, lanes, mine in barriers(c, m, name):
        need = 0 if count is None else int(count[mine][0])
        gate.met = True
        if held is not None:
            gate.fold, gate.held[lanes - gate.scope.start] = m["fold"], held[mine]
        for part in in_turns(c, lanes, need):
            gate.arrive(c, part, need, aligned(m))
            gate.wait(c, part, gate.phase)
            if need:
                gate.advance(c)


def aligned(m) -> bool:
    return m["name"] == "bar" or "aligned" in m


def in_turns(c, lanes, need):
    """Lanes in the order in which they arrive: where a count opens the barrier, one warp after another."""
    if not need:
        return [lanes]
    parts = np.split(lanes, np.flatnonzero(np.diff(lanes >> 5)) + 1)
    return parts if c.rng is None else [parts[n] for n in c.rng.permutation(len(parts))]


def in_turn(c, gate, lanes, ahead, what):
    """A thread arrives at the cluster's barrier, waits, arrives, waits. PTX ISA, barrier.cluster:
    anything else is undefined."""
    bad = (gate.phase_of[lanes - gate.scope.start] >= 0) != ahead
    if c.checks.barriers and bad.any():
        c.fault("cluster barrier", what, lanes[bad])


def arrive(c, m, name=None, count=None):
    for gate, lanes, mine in barriers(c, m, name):
        if "cluster" in m:
            in_turn(c, gate, lanes, False, "arrives at the cluster's barrier again, and has not waited since")
        need = 0 if count is None else int(count[mine][0])
        for part in in_turns(c, lanes, need):
            gate.arrive(c, part, need, aligned(m))
            known = c.tick(part)
            if m.get("order") != "relaxed":                  # which tells nobody what lies before
                gate.gathering = np.maximum(gate.gathering, known)
            gate.advance(c)


def wait_cluster(c, m):
    for gate, lanes, _ in barriers(c, m):
        in_turn(c, gate, lanes, True, "waits at the cluster's barrier, and has not arrived")
        gate.wait(c, lanes, gate.phase_of[lanes - gate.scope.start])
        gate.phase_of[lanes - gate.scope.start] = -1
        gate.release(c)


def leave_cluster(c):
    """The shared memory of a block ends with its last thread: what other blocks did there must lie before."""
    gone, shared = (c.key.reshape(-1, c.width) == DONE).all(1), c.memory["shared"]
    for block in np.flatnonzero(gone & ~c.gone) if c.checks.races else ():
        cells = slice(block * shared.pitch // shared.grain, (block + 1) * shared.pitch // shared.grain)
        reads, first = shared.reads.reshape(-1, shared.ways)[cells], block % c.cluster * c.warps_in_block
        known = c.known[block * c.warps_in_block:(block + 1) * c.warps_in_block].max(0)
        known = known.reshape(-1, shared.ways)[block // c.cluster % (c.joint // c.cluster)]
        bad = (reads >= c.first) & (reads >> CLOCK & NEVER >= known)
        bad[:, first:first + c.warps_in_block] = False
        if bad.any():
            cell, warp = divmod(int(bad.argmax()), bad.shape[1])
            what = ("leaves, and its shared memory with it, "
                    f"which {c.name_of(int(reads[cell, warp]))} read with no synchronisation between")
            c.fault("race", what, block * c.width, int(shared.read_at[cells][cell]))
    c.gone = gone


for form in ("bar cta?", "barrier cta?"):
    row(f"{form} sync aligned?", "=u32?,u32?", sync)
    row(f"{form} red fold:popc aligned? t:u32", "t=u32,u32?,pred", sync)
    row(f"{form} red fold:and|or aligned? t:pred", "t=u32,u32?,pred", sync)
    row(f"{form} arrive aligned?", "=u32,u32", arrive)
row("barrier cluster arrive order:release|relaxed? aligned?", "=", arrive)
row("barrier cluster wait order:acquire? aligned?", "=", wait_cluster)


def name_blocks(c, slots: list, rank) -> list:
    """Addresses of shared memory have the rank of the block, as on hardware."""
    own = np.broadcast_to(rank + 1 << RANK_BIT, c.L)
    for slot in c.code_of.shared:
        slots[slot] = slots[slot] + own.astype(slots[slot].dtype)
    return slots


def map_rank(at, rank):
    """The same place in another block of the cluster."""
    rank = np.asarray(rank).astype(at.dtype) + at.dtype.type(1)
    return at & ~at.dtype.type(0xFF << RANK_BIT) | rank << at.dtype.type(RANK_BIT)


row("mapa space:shared::cluster? t:u32|u64", "t=t,u32", map_rank)
