"""What lanes do together: shuffles, votes, matches, warp reductions, barriers."""
from __future__ import annotations

import numpy as np

from .check import ALL, CLOCK
from .table import DTYPE, kind_of, row

U32 = np.uint32
BITS = U32(1) << np.arange(32, dtype=U32)
CLUSTER = 16                                     # the id of barrier.cluster
WAITS, DONE = 1 << 29, 1 << 30


def members(op, operand):
    """Tell the machine which operand names the partners of this instruction."""
    op.decoder.members[len(op.decoder.steps)] = op.source(operand, "u32")


def gather(c, predicate):
    """For every lane, the bits of a predicate over the active lanes of its warp."""
    held = np.broadcast_to(predicate, (c.L,))
    if c.mask is not None:
        held = held & c.mask
    return (held.reshape(-1, 32) * BITS).sum(1, dtype=U32)[c.row]


def _shfl(op, m):
    """shfl.sync d[|p], a, b, c, members: lane j of the segment, or the lane's own value when j is outside."""
    op.need(5)
    members(op, op.operands[4])
    outs = op.operands[0].value if op.operands[0].kind == "pair" else [op.operands[0]]
    target, flag = op.target(outs[0], "b32"), op.target(outs[1], "pred") if len(outs) > 1 else None
    value, by, clamp = op.source(op.operands[1], "b32"), op.source(op.operands[2], "u32"), op.source(op.operands[3], "u32")
    mode = m["mode"]

    def step(V, c):
        lanes = c.lanes()
        lane = lanes & 31
        b, limit = (np.asarray(c.at_lanes(V[s])).astype(np.int64) for s in (by, clamp))
        b, segment, limit = b & 31, limit >> 8 & 31, limit & 31
        low, high = lane & segment, lane & segment | limit & ~segment & 31
        j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": low | b & ~segment & 31}[mode]
        inside = j >= high if mode == "up" else j <= high
        source = lanes - lane + np.where(inside, j, lane)
        if c.mask is not None and c.checks.barriers and not c.mask[source].all():
            c.fault("shuffle", "reads the register of a lane that is not here", lanes[~c.mask[source]])
        values = np.broadcast_to(V[value], (c.L,))[source]
        c.put(target, values)
        if flag is not None:
            c.put(flag, inside)
    return step


row("shfl sync mode:up|down|bfly|idx b32", None, _shfl)


def _vote(op, m):
    op.need(3)
    members(op, op.operands[2])
    negate = op.operands[1].kind == "not"
    flag = op.decoder.slot(op.operands[1].value, "bool") if negate else op.source(op.operands[1], "pred")
    target, named = op.target(op.operands[0], m["t"]), op.source(op.operands[2], "u32")
    mode = m["mode"]

    def step(V, c):
        bits = gather(c, ~V[flag] if negate else V[flag]) & V[named]
        here = gather(c, True) & V[named]
        answer = {"ballot": bits, "any": bits != 0, "all": bits == here, "uni": (bits == here) | (bits == 0)}[mode]
        np.copyto(V[target], answer, where=c.where)
    return step


row("vote sync mode:all|any|uni t:pred", None, _vote)
row("vote sync mode:ballot t:b32", None, _vote)


def _activemask(op, m):
    target = op.target(op.operands[0], "b32")
    return lambda V, c: np.copyto(V[target], gather(c, True), where=c.where)


row("activemask b32", None, _activemask)


def _elect(op, m):
    members(op, op.operands[1])
    lane_out, flag = op.operands[0].value if op.operands[0].kind == "pair" else (None, op.operands[0])
    target = None if lane_out is None or lane_out.kind == "sink" else op.target(lane_out, "b32")
    chosen = op.target(flag, "pred")

    def step(V, c):
        here = gather(c, True)
        leader = np.log2((here & (~here + U32(1))).astype(np.float64)).astype(np.int64)
        np.copyto(V[chosen], np.arange(c.L) % 32 == leader, where=c.where)
        if target is not None:
            np.copyto(V[target], leader.astype(U32), where=c.where)
    return step


row("elect sync", None, _elect)


def _match(op, m):
    members(op, op.operands[2])
    outs = op.operands[0].value if op.operands[0].kind == "pair" else [op.operands[0]]
    target, value = op.target(outs[0], "b32"), op.source(op.operands[1], m["t"])
    flag = op.target(outs[1], "pred") if len(outs) > 1 else None

    def step(V, c):
        v, here = np.broadcast_to(V[value], (c.L,)).reshape(-1, 32), gather(c, True)
        same = ((v[:, :, None] == v[:, None, :]) * BITS).sum(2, dtype=U32).reshape(-1) & here
        if m["mode"] == "all":
            np.copyto(V[target], np.where(same == here, here, U32(0)), where=c.where)
            if flag is not None:
                np.copyto(V[flag], same == here, where=c.where)
        else:
            np.copyto(V[target], same, where=c.where)
    return step


row("match mode:any|all sync t:b32|b64", None, _match)


def _redux(op, m):
    op.need(3)
    members(op, op.operands[2])
    value, target = op.source(op.operands[1], m["t"]), op.target(op.operands[0], m["t"])
    fold, kind = m["op"], DTYPE[kind_of(m["t"])]
    start = {"add": 0, "or": 0, "xor": 0, "and": -1, "min": None, "max": None}[fold]
    info = None if kind == np.float32 else np.iinfo(kind)
    if start is None:
        start = (np.inf if fold == "min" else -np.inf) if info is None else info.max if fold == "min" else info.min
    ufunc = {"add": np.add, "or": np.bitwise_or, "xor": np.bitwise_xor, "and": np.bitwise_and, "min": np.minimum, "max": np.maximum}[fold]

    def step(V, c):
        v = np.broadcast_to(V[value], (c.L,))
        neutral = np.array(start).astype(kind)
        if c.mask is not None:
            v = np.where(c.mask, v, neutral)
        if "abs" in m:
            v = np.abs(v)
        np.copyto(V[target], ufunc.reduce(v.reshape(-1, 32), axis=1, dtype=kind)[c.row], where=c.where)
    return step


row("redux sync op:add|min|max t:u32|s32", None, _redux)
row("redux sync op:and|or|xor t:b32", None, _redux)
row("redux sync op:min|max abs? NaN? t:f32", None, _redux)


def _warp_barrier(op, m):
    members(op, op.operands[0])
    return lambda V, c: c.tick(np.unique(c.row[c.lanes()]))


row("bar warp sync", None, _warp_barrier)


# ---- Barriers of a block: [red.op] d, id[, count][, {!}p] ----

def _barrier(op, m):
    """A step (V, c, lanes, whole): True when everybody is here and has passed; else the lanes are parked with what they wait for."""
    operands = list(op.operands)
    reduce = m.get("red")
    answer = operands.pop(0) if reduce else None
    predicate = operands.pop() if reduce else None
    name = op.source(operands[0], "u32") if operands else op.decoder.constant(U32(0))
    count = op.source(operands[1], "u32") if len(operands) > 1 else None
    index = len(op.decoder.steps)
    if reduce:
        negate = predicate.kind == "not"
        flag = op.decoder.slot(predicate.value, "bool") if negate else op.source(predicate, "pred")
        op.decoder.reductions[index] = (m["fold"], flag, negate, op.target(answer, m["t"]))

    def step(V, c, lanes, whole):
        if whole and count is None and reduce is None and np.ndim(V[name]) == 0 and not c.arrived:
            c.meet(c.warps_in_block)
            return True
        where = np.flatnonzero(lanes)
        c.wait_id[where] = np.broadcast_to(V[name], (c.L,))[where] & 15
        c.wait_count[where] = 0 if count is None else np.broadcast_to(V[count], (c.L,))[where]
        return False
    return step


for form in ("bar cta?", "barrier cta?"):
    row(f"{form} sync aligned?", None, _barrier)
    row(f"{form} red:red fold:popc aligned? t:u32", None, _barrier)
    row(f"{form} red:red fold:and|or aligned? t:pred", None, _barrier)


def _arrive(op, m):
    name, count = op.source(op.operands[0], "u32"), op.source(op.operands[1], "u32")

    def step(V, c):
        lanes = c.lanes()
        for key in np.unique(c.block[lanes] * 16 + np.broadcast_to(V[name], (c.L,))[lanes]):
            mine = lanes[c.block[lanes] * 16 + np.broadcast_to(V[name], (c.L,))[lanes] == key]
            n, known = c.arrived.get(int(key), (0, 0))
            rows = np.unique(c.row[mine])
            c.tick(rows)
            c.arrived[int(key)] = n + len(mine), np.maximum(known, c.known[rows].max(0))
    return step


row("bar cta? arrive", None, _arrive)
row("barrier cta? arrive aligned?", None, _arrive)


def release(c, waits) -> bool:
    """Open every barrier whose threads have all come; True when one did."""
    lanes = np.flatnonzero(waits & (c.wait_id >= 0) & (c.wait_id < CLUSTER))
    if not lanes.size:
        return release_clusters(c, waits)
    total = len(c.blocks) * 16
    place = c.block[lanes] * 16 + c.wait_id[lanes]
    come = np.bincount(place, minlength=total)
    for key, (n, _) in c.arrived.items():
        come[key] += n
    alive = np.bincount(c.block[c.key != DONE], minlength=len(c.blocks))
    counted = c.wait_count[lanes] > 0
    padded = -(-c.wait_count[lanes] // 32) * 32 - c.wait_count[lanes] if c.threads % 32 else 0
    need = np.where(counted, c.wait_count[lanes] - padded, alive[c.block[lanes]])
    go = come[place] >= need
    if not go.any():
        return release_clusters(c, waits)
    lanes, place, counted = lanes[go], place[go], counted[go]
    if c.checks.barriers:
        _together(c, lanes, place, counted)
    for i in np.unique(c.pc[lanes]):
        if int(i) in c.code_of.reductions:
            _reduce(c, int(i), lanes, place)
    for key in np.unique(place):
        mine = lanes[place == key]
        _join(c, np.unique(c.row[mine]), c.arrived.pop(int(key), (0, 0))[1])
    c.key[lanes] = c.pc[lanes] + 1
    c.wait_id[lanes] = -1
    c._stamp()
    return True


def _join(c, rows, more):
    c.known[rows, rows % c.warps_in_group] += 1
    c.known[rows] = np.maximum(c.known[rows].max(0), more)


def _together(c, lanes, place, counted):
    """Threads of one barrier must wait at one instruction (with a thread count: whole warps must)."""
    owner = np.where(counted, c.row[lanes] + (1 << 20), place)
    first = np.full(1 << 21, -1, np.int64)
    first[owner] = c.pc[lanes]
    apart = first[owner] != c.pc[lanes]
    if apart.any():
        lane, other = lanes[apart][0], int(first[owner[apart][0]])
        c.at = int(c.pc[lane])
        c.fault("divergent barrier", "waits at this barrier while others of its block wait at another instruction", lane, other)


def _reduce(c, i, lanes, place):
    fold, flag, negate, target = c.code_of.reductions[i]
    held = np.broadcast_to(~c.V[flag] if negate else c.V[flag], (c.L,))[lanes]
    ones, all_ = np.bincount(place, held, minlength=place.max() + 1), np.bincount(place, minlength=place.max() + 1)
    answer = {"popc": ones, "or": ones > 0, "and": ones == all_}[fold]
    mine = c.pc[lanes] == i
    c.V[target][lanes[mine]] = answer[place[mine]]


# ---- Barriers of a cluster ----

def _cluster_arrive(op, m):
    def step(V, c):
        lanes = c.lanes()
        _in_turn(c, lanes, 0, "arrives at the cluster's barrier again, and has not waited since")
        c.cluster_arrivals[lanes] += 1
        c.tick(np.unique(c.row[lanes]))
    return step


def _cluster_wait(op, m):
    def step(V, c, lanes, whole):
        together = (c.cluster_arrivals[lanes] == c.cluster_arrivals[lanes][0]).all()
        if whole and not together:
            return False
        _in_turn(c, np.flatnonzero(lanes), 1, "waits at the cluster's barrier, and has not arrived")
        c.cluster_waits[lanes] += 1
        if whole:
            c.meet(c.warps_in_group)
            return True
        c.wait_id[lanes] = CLUSTER
        return False
    return step


def _in_turn(c, lanes, ahead, what):
    """A thread arrives, waits, arrives, waits. PTX ISA, barrier.cluster: anything else is undefined."""
    bad = c.cluster_arrivals[lanes] - c.cluster_waits[lanes] != ahead
    if c.checks.barriers and bad.any():
        c.fault("cluster barrier", what, lanes[bad])


def leave_cluster(c):
    """The shared memory of a block ends with its last thread: what other blocks did there must lie before."""
    gone = (c.key.reshape(-1, c.width) == DONE).all(1)
    for block in np.flatnonzero(gone & ~c.gone_blocks) if c.checks.races else ():
        shared, first = c.memory["shared"], block % c.cluster * c.warps_in_block
        cells = slice(block * shared.pitch // shared.grain, (block + 1) * shared.pitch // shared.grain)
        reads = shared.shadow.reads.reshape(-1, shared.shadow.ways)[cells]
        known = c.known[block * c.warps_in_block:(block + 1) * c.warps_in_block].max(0)
        bad = (reads >= c.first) & ((reads >> CLOCK) & 0xFFFFFF >= known)
        bad[:, first:first + c.warps_in_block] = False
        for cell, warp in np.argwhere(bad)[:1]:
            code = int(reads[cell, warp])
            who = "several threads" if code & ALL == ALL else f"thread {c.name_of(code)}"
            c.fault("race", f"leaves, and its shared memory with it, which {who} read with no synchronisation between", block * c.width,
                    int(shared.shadow.read_at[cells][cell]))
    c.gone_blocks = gone


def release_clusters(c, waits) -> bool:
    """A lane passes when every living lane of its cluster has arrived as often as it has."""
    lanes = np.flatnonzero(waits & (c.wait_id == CLUSTER))
    if not lanes.size:
        return False
    size = c.width * c.cluster
    least = np.where(c.key == DONE, 1 << 30, c.cluster_arrivals).reshape(-1, size).min(1)
    go = c.cluster_arrivals[lanes] <= least[lanes // size]
    if not go.any():
        return False
    lanes = lanes[go]
    for group in np.unique(lanes // size):
        rows = np.unique(c.row[lanes[lanes // size == group]])
        everyone = np.arange(group * size // 32, (group + 1) * size // 32)
        c.known[rows] = np.maximum(c.known[rows], c.known[everyone, everyone % c.warps_in_group])
        c.known[rows, rows % c.warps_in_group] += 1
    c.key[lanes], c.wait_id[lanes] = c.pc[lanes] + 1, -1
    c._stamp()
    return True


row("barrier cluster arrive order:release|relaxed? aligned?", None, _cluster_arrive)
row("barrier cluster wait order:acquire? aligned?", None, _cluster_wait)


def _mapa(op, m):
    """mapa: the address of the same place in the shared memory of another block of the cluster."""
    target, at, rank = op.target(op.operands[0], m["t"]), op.source(op.operands[1], m["t"]), op.source(op.operands[2], "u32")
    wide = DTYPE[kind_of(m["t"])]

    def step(V, c):
        np.copyto(V[target], V[at] + ((np.asarray(V[rank]).astype(wide) + wide(1)) << wide(24)), where=c.where)
    return step


row("mapa space:shared::cluster? t:u32|u64", None, _mapa)
