"""Copies that land later in shared memory: cp.async and its groups, mbarriers, and what counts there
(bulk.py). Bytes under way may not be touched: cp.async lands when somebody waits for it, the others when
nothing else can run, which is the last moment. A wgmma is waited for like a copy."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .gate import Mbarrier
from .memory import ALL, FLYING, RAW, WRITTEN
from .table import row


class Flight(NamedTuple):
    """In the name of ``lanes`` (n,), for their ``group`` (n,): ``data`` (n, size) on its way to the places
    ``off`` (n,) of shared memory, which the mbarrier ``gate`` counts; or wgmmas that use ``registers``,
    whose reads are noted at ``off`` (n, cells), without data (n, 0). ``known``: of st.async, what its warp
    knew when it sent."""
    lanes: np.ndarray
    group: np.ndarray
    off: np.ndarray
    data: np.ndarray
    at: int
    gate: object = None
    registers: frozenset = frozenset()
    known: np.ndarray | None = None


class Copies:
    """Asynchronous operations of a batch of blocks: copies and wgmmas, which are waited for by groups,
    and transfers, which count at mbarriers."""

    def __init__(self, lanes: int):
        self.copies, self.transfers, self.flights = [], [], []
        self.queues = {"cp": self.copies, "wgmma": self.flights}
        # that a lane's next ones go to
        self.group = {name: np.zeros(lanes, np.int64) for name in self.queues}

    def start(self, c, address, data, lanes, gate=None, known=None):
        """Queue bytes for shared memory: checked as writes of the lanes now, untouchable until they land."""
        shared, size = c.memory["shared"], data.shape[1]
        off = shared.reach(c, address, size, "writes", lanes)
        shared.write(c, shared.cells(off, size), lanes)
        if gate and known is None:
            fenced(c, off, size, lanes[0], "writes")
        shared.mark(off, size, FLYING)
        (self.transfers if gate else self.copies).append(
            Flight(lanes, self.group["cp"][lanes], off, data, c.at, gate, known=known))

    def land(self, c, flight, done) -> list:
        """Some rows of a flight land; returns those that are still under way."""
        shared, (lanes, _, off, data) = c.memory["shared"], (each[done] for each in flight[:4])
        if flight.registers:
            shared.reads[off] = c.code[lanes][:, None] | ALL
        else:
            cells, size = shared.cells(off, data.shape[1]), data.shape[1]
            shared.data[off[:, None] + np.arange(size)] = data
            is_bulk = flight.gate and flight.known is None
            shared.mark(off, size, WRITTEN if is_bulk else WRITTEN | c.raw)
            if flight.known is None:             # else it has been noted where it was sent
                shared.writes[cells], shared.write_at[cells] = c.code[lanes][:, None], flight.at
        return [] if done.all() else [Flight(*(each[~done] for each in flight[:4]), *flight[4:])]

    def wait(self, c, name, left: int | None = None):
        """What the active lanes have under way lands, but for the last ``left`` groups
        (None: all, committed or not)."""
        active, queue = np.ones(c.L, bool) if c.mask is None else c.mask, self.queues[name]
        older = [active[flight.lanes] & (left is None or flight.group < self.group[name][flight.lanes] - left)
                 for flight in queue]
        queue[:] = [rest for flight, done in zip(queue, older)
                    for rest in (self.land(c, flight, done) if done.any() else [flight])]

    def deliver(self, c) -> bool:
        """Nothing runs: the oldest transfer (or, at random, any) lands and is counted;
        who waits for the barrier knows of it."""
        if not self.transfers:
            return False
        copy = self.transfers.pop(0 if c.rng is None else int(c.rng.integers(len(self.transfers))))
        self.land(c, copy, np.ones(len(copy.off), bool))
        if copy.known is None:
            c.tick(copy.lanes[:1])
        copy.gate.arrive(c, copy.lanes[0], 0, -copy.data.size, copy.known)
        copy.gate.release(c)
        return True

    def leave(self, c, lanes):
        """Lanes exit, or the last of a batch have: nothing of theirs may be under way."""
        for copy in self.copies + ([] if c.live else self.transfers) if c.checks.in_flight else ():
            owners = copy.lanes[lanes[copy.lanes] | (c.live == 0)]
            if len(owners):
                c.at = copy.at
                c.fault("in flight",
                        "leaves while its asynchronous copy is under way; nothing waited for it", owners)

    def untouched(self, c, registers):
        """No instruction but wgmma may name registers of one that is under way."""
        touched = [flight.lanes for flight in self.flights if not registers.isdisjoint(flight.registers)]
        if not touched or not c.checks.in_flight:
            return
        here = np.ones(c.L // 128, bool) if c.mask is None else c.mask.reshape(-1, 128).any(1)
        if any(here[lanes // 128].any() for lanes in touched):
            c.fault("in flight", "touches registers of a wgmma that was not waited for", c.lanes())


def fenced(c, off, size, lane, verb):
    """What the async proxy is about to read or write here was not written by ordinary instructions, or their
    threads have said so since (fence.proxy.async)."""
    shared = c.memory["shared"]
    raw = (shared.state[off[:, None] + np.arange(size)] & RAW).any(1)
    if raw.any():
        place = int(off[np.flatnonzero(raw)[0]]) // shared.grain
        who = c.name_of(int(shared.writes[place]))
        c.fault("proxy", f"{verb} by the async proxy what {who} wrote, who has executed no fence.proxy.async "
                "since", np.array([lane]), int(shared.write_at[place]))


# ---- Groups, and cp.async ----

def read(c, space, address, lanes, unit):
    """Bytes of memory (n, unit), read and checked in the name of ``lanes``."""
    parts = c.memory[space].load(c, address, min(unit, 8), max(unit // 8, 1), lanes)
    return np.ascontiguousarray(np.stack(parts, 1)).view(np.uint8)


def copy_async(c, m, to, source, size, given=None, hint=None):
    """cp.async.ca|cg [shared], [global], size{, source size, or predicate to ignore it}: the rest
    of ``size`` bytes is zeros."""
    lanes = c.lanes()
    if size not in ((16,) if m["cop"] == "cg" else (4, 8, 16)):
        c.fault("copy", "has a size that is not 16 (.cg), or 4, 8 or 16 (.ca)", lanes)
    length = (np.full(c.n, size) if given is None else np.where(given, 0, size) if given.dtype == bool
              else given.astype(np.int64))
    if (length > size).any():
        c.fault("address", f"copies more than {size} bytes", lanes[length > size])
    data = np.zeros((c.n, size), np.uint8)
    for n in np.unique(length[length > 0]).tolist():
        some, unit = length == n, n & -n                # a short copy is read in its largest aligned pieces
        for i in range(0, n, unit):
            data[some, i:i + unit] = read(c, "global", source[some] + i, lanes[some], unit)
    c.copies.start(c, to, data, lanes)


HINT = "cache:L2::cache_hint?"
row(f"cp async cop:ca|cg space:shared|shared::cta from:global {HINT} fetch:L2::64B|L2::128B|L2::256B?",
    "=@,@,#,*?,b64?", copy_async)
row("cp async wait_all", "=", lambda c, m: c.copies.wait(c, "cp"))
for family, aligned in (("cp async", ""), ("wgmma", " sync aligned")):
    row(f"{family} commit_group{aligned}", "=",
        lambda c, m: np.add.at(c.copies.group[m["name"]], c.lanes(), 1))
    row(f"{family} wait_group{aligned}", "=#", lambda c, m, left: c.copies.wait(c, m["name"], left))


# ---- mbarrier ----

def mbarriers(c, address, verb, lanes=None):
    """(lane, mbarrier that it means) of the active lanes."""
    lanes, shared = c.lanes() if lanes is None else lanes, c.memory["shared"]
    off = shared.reach(c, address, 8, verb, lanes)
    cells = off[:, None] // shared.grain
    shared.ordered(c, shared.writes[cells], cells, lanes,
                   c.code[lanes][:, None], "used as an mbarrier", "written")
    for lane, place in zip(lanes, off.tolist()):
        gate = c.gates.get(place) or c.fault("mbarrier", "uses an mbarrier that was not initialised", lane)
        if not gate.is_fenced and place // shared.pitch != c.block[lane]:
            who, there = gate.made
            c.fault("mbarrier", f"{verb} an mbarrier of another block, which {c.name_of(int(c.code[who]))} "
                    "initialised, who has executed no fence.mbarrier_init since", lane, there)
        yield lane, gate


MOST_ARRIVALS = (1 << 20) - 1


def initialise(c, m, address, count=None):
    """mbarrier.init and .inval."""
    shared = c.memory["shared"]
    if m["act"] == "init" and (wrong := (count < 1) | (count > MOST_ARRIVALS)).any():
        lane = int(np.argmax(wrong))
        c.fault("mbarrier", f"is initialised with a count of {int(count[lane])}; it must be 1 to "
                f"{MOST_ARRIVALS}", c.lanes()[lane])
    shared.store(c, address, 8, [np.zeros(c.n, np.uint64)], c.lanes())
    for n, place in enumerate(shared.reach(c, address, 8, "initialises", c.lanes()).tolist()):
        made = int(c.lanes()[n]), c.at
        c.gates[place] = Mbarrier(int(count[n]), made) if m["act"] == "init" else None


def announce(c):
    """fence.mbarrier_init, and fences that do more: other blocks may use what the active lanes have
    initialised."""
    mine = set(c.lanes().tolist())
    for gate in c.gates.values():
        if isinstance(gate, Mbarrier) and gate.made[0] in mine:
            gate.is_fenced = True


def arrive(c, m, address, given=None):
    """mbarrier.arrive[.expect_tx] [a]{, count or bytes}: the state is the phase the arrival belongs to.
    cp.async.mbarrier.arrive: of the lane's copies, which land now, the last moment
    at which somebody may learn of it."""
    own, expects = m["name"] == "cp", "expect_tx" in m
    if own:
        c.copies.wait(c, "cp")
    c.tick(c.lanes())
    phases = np.zeros(c.n, np.uint64)
    for n, (lane, gate) in enumerate(mbarriers(c, address, "arrives at")):
        phases[n], value = gate.phase, 1 if given is None else int(given[n])
        gate.left += own and "noinc" not in m
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


def store_async(c, m, address, values, barrier):
    """st.async: stores that land later and are counted in bytes at an mbarrier, which lies in the same block.
    PTX ISA: the counting releases, at cluster scope, so who waits knows what the sender knew."""
    lanes, apart = c.lanes(), address >> 24 != barrier >> 24
    if apart.any():
        c.fault("mbarrier", "stores to one block, and counts at an mbarrier of another", lanes[apart])
    data = np.ascontiguousarray(np.stack(values, 1)).view(np.uint8)
    gates = [gate for _, gate in mbarriers(c, barrier, "signals")]
    _, which = np.unique([(lane >> 5, id(gate)) for lane, gate in zip(lanes, gates)], axis=0,
                         return_inverse=True)
    flights = [np.flatnonzero(which == n) for n in range(which.max() + 1)]
    for mine in flights:
        known = c.known[c.row[lanes[mine[0]]]].copy()
        known[c.row[lanes[mine[0]]] % c.warps_in_group] += 1             # this too lies before
        c.copies.start(c, address[mine], data[mine], lanes[mine], gates[mine[0]], known)
    c.tick(lanes)


SPACE, ORDER = ("space:shared|shared::cta|shared::cluster?",
                "order:relaxed|acquire|release? scope:cta|cluster?")
row(f"mbarrier act:init {SPACE} b64", "=@,u32", initialise)
row(f"mbarrier act:inval {SPACE} b64", "=@", initialise)
row(f"mbarrier act:arrive|arrive_drop expect_tx? {ORDER} {SPACE} b64", "b64=@,u32?", arrive)
row(f"mbarrier act:expect_tx|complete_tx {ORDER} {SPACE} b64", "=@,u32", expect)
row(f"mbarrier act:test_wait|try_wait parity {ORDER} {SPACE} b64", "pred=@,u32,u32?", wait)
row(f"mbarrier act:test_wait|try_wait {ORDER} {SPACE} b64", "pred=@,b64,u32?", wait)
row("st async weak? shared::cluster? mbarrier::complete_tx::bytes vec:v2|v4? "
    "t:b32|b64|u32|u64|s32|s64|f32|f64", "=@,[wt],@", store_async)
row("cp async mbarrier act:arrive noinc? space:shared|shared::cta? b64", "=@", arrive)
