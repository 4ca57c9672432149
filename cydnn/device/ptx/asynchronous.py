"""Copies that land later: cp.async and its groups. Bytes under way may not be touched; they land when somebody has waited for them."""
from __future__ import annotations

import numpy as np

from .check import IN_FLIGHT
from .mbarrier import TRY, arrive, deliver, find, places
from .movement import address
from .table import row


class Copy:
    """One cp.async instruction of many lanes: what lands where."""
    __slots__ = ("lanes", "group", "off", "data", "at")

    def __init__(self, lanes, group, off, data, at):
        self.lanes, self.group, self.off, self.data, self.at = lanes, group, off, data, at


class Pending:
    """The copies under way in a batch of blocks."""

    def __init__(self, machine):
        self.copies: list[Copy] = []
        self.barriers: dict = {}                             # offset in shared memory -> Mbarrier
        self.transfers: list = []
        self.seen = 0
        self.group = np.zeros(machine.L, np.int64)           # the group a lane's copies go to now

    def land(self, c, left: int | None):
        """Let the copies of the active lanes land, but for those of the last ``left`` groups (None: all, committed or not)."""
        active = np.zeros(c.L, bool)
        active[c.lanes()] = True
        keep, memory = [], c.memory["shared"]
        for copy in self.copies:
            done = active[copy.lanes]
            if left is not None:
                done &= copy.group < self.group[copy.lanes] - left
            if done.any():
                off, lanes, data = copy.off[done], copy.lanes[done], copy.data[done]
                memory.data[off[:, None] + np.arange(data.shape[1])] = data
                memory.shadow.writes[memory.cells(off, data.shape[1])] = c.code[lanes][:, None]
                memory.shadow.write_at[memory.cells(off, data.shape[1])] = copy.at
            if not done.all():
                rest = ~done
                keep.append(Copy(copy.lanes[rest], copy.group[rest], copy.off[rest], copy.data[rest], copy.at))
        self.copies = keep

    def leave(self, c, lanes):
        """Lanes exit: nothing of theirs may be under way."""
        if not c.checks.in_flight:
            return
        for copy in self.copies:
            gone = lanes[copy.lanes]
            if gone.any():
                c.at = copy.at
                c.fault("in flight", "leaves while its asynchronous copy is under way; nothing waited for it", copy.lanes[gone])

    def wake(self, c, waits) -> bool:
        """Nothing runs: lanes whose phase has ended look again; else the oldest transfer (or, at random, any) lands."""
        trying = np.flatnonzero(waits & (c.wait_id == TRY))
        if not trying.size:
            return False
        landed = sum(b.phase for b in self.barriers.values())
        if landed != self.seen:
            self.seen = landed
            c.key[trying], c.wait_id[trying] = c.pc[trying], -1
            return True
        if not self.transfers:
            return False
        deliver(c, self.transfers.pop(0 if c.rng is None else int(c.rng.integers(len(self.transfers)))))
        return True

    def finish(self, c):
        """The end of a batch."""
        if self.transfers and c.checks.in_flight:
            c.at = self.transfers[0].at
            c.fault("in flight", "the kernel ends while its transfer is under way; nothing waited for it", self.transfers[0].lane)


def _cp_async(op, m):
    """cp.async.ca|cg [shared], [global], size{, source size or predicate}: the rest of ``size`` bytes is zeros."""
    op.need(3, 5)
    to, source = address(op, op.operands[0]), address(op, op.operands[1])
    size = op.operands[2].value
    if size not in ((16,) if m["cop"] == "cg" else (4, 8, 16)):
        op.fail("the size must be 16 (.cg), or 4, 8 or 16 (.ca)")
    extra = op.operands[3] if len(op.operands) > 3 else None
    ignore = extra is not None and extra.kind == "reg" and op.width(extra) == 1
    given = None if extra is None else op.source(extra, "pred" if ignore else "u32")

    def step(V, c):
        memory, lanes = c.memory["shared"], c.lanes()
        at = source(V, c)
        off = memory.place(c, to(V, c), size, "writes")
        length = np.full(len(lanes), size) if given is None else np.broadcast_to(c.at_lanes(V[given]), len(lanes)).astype(np.int64)
        if ignore:
            length = np.where(length, 0, size)
        if (length > size).any():
            c.fault("address", f"copies more than {size} bytes", lanes[length > size])
        data = np.zeros((len(lanes), size), np.uint8)
        for n in np.unique(length):
            some = length == n
            if n:
                with c.narrowed(some):
                    unit = size if n == size else int(n & -n)            # a short copy is read in its largest aligned pieces
                    word, count = min(unit, 8), max(unit // 8, 1)
                    parts = [p for i in range(0, int(n), unit) for p in c.memory["global"].load(c, at[some] + i, word, count)]
                    data[some, :n] = np.ascontiguousarray(np.stack(parts, 1)).view(np.uint8).reshape(-1, n)
        cells = memory.cells(off, size)
        memory.shadow.write(c, cells, lanes, True)
        memory.shadow.writes[cells] = IN_FLIGHT
        c.pending.copies.append(Copy(lanes.copy(), c.pending.group[lanes], off, data, c.at))
    return step


def _commit(op, m):
    def step(V, c):
        c.pending.group[c.lanes()] += 1
    return step


def _wait(op, m):
    left = op.operands[0].value if op.operands else None
    return lambda V, c: c.pending.land(c, left)


row("cp async cop:ca|cg space:shared|shared::cta from:global cache:L2::cache_hint? fetch:L2::64B|L2::128B|L2::256B?", None, _cp_async)
row("cp async act:commit_group", None, _commit)
row("cp async act:wait_group", None, _wait)
row("cp async act:wait_all", None, _wait)


def _signal(op, m):
    """cp.async.mbarrier.arrive: the barrier hears of the lane's copies; they land now, which is the last moment somebody may learn of it."""
    where = address(op, op.operands[0])

    def step(V, c):
        lanes, off = places(c, where(V, c), "signals")
        c.pending.land(c, None)
        c.tick(np.unique(c.row[lanes]))
        for n, place in enumerate(off):
            if "noinc" not in m:
                find(c, place, lanes, n).left += 1
            arrive(c, place, lanes, n, 1, 0, c.row[lanes[n]])
    return step


row("cp async mbarrier arrive noinc? space:shared|shared::cta? b64", None, _signal)
