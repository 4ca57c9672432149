"""Copies that land later: cp.async and its groups. Bytes under way may not be touched; they land when somebody has waited for them."""
from __future__ import annotations

import numpy as np

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
        """Nothing runs: let what is under way land, if somebody waits for it."""
        return False

    def finish(self, c):
        """The end of a batch."""


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
                    unit = int(n & -n) if n % size else size
                    parts = [c.memory["global"].load(c, at[some] + i, unit if unit <= 8 else 8, 1 if unit <= 8 else 2) for i in range(0, int(n), unit)]
                    data[some, :n] = np.ascontiguousarray(np.stack([p for part in parts for p in part], 1)).view(np.uint8).reshape(len(at[some]), -1)
        cells = memory.cells(off, size)
        memory.shadow.write(c, cells, lanes, True)
        memory.shadow.writes[cells] = -1
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
