"""What is checked, how a finding reads, and who touched which cell of memory when.

Order in time: every warp counts its synchronisations (its clock). ``known[row, w]`` says up to which clock warp ``w`` of the same group
(block, or cluster) is known to lie before now. An access is a code ``group << 40 | clock << 16 | lane``; ALL as the lane means several.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...status import ExecutionFailed

GROUP, CLOCK, ALL = 40, 16, 0xFFFF
THREAD = ~(((1 << (GROUP - CLOCK)) - 1) << CLOCK)            # the bits of a code without its clock
IN_FLIGHT = -1                                               # a cell that an asynchronous copy will write


@dataclass
class Checks:
    """Each can be switched off. Place and alignment of an access are always checked."""
    unwritten: bool = True                       # of global and local memory
    unwritten_shared: bool = True                # off: such a read gives NaN, so only its use shows
    races: bool = True
    in_flight: bool = True
    barriers: bool = True


class Finding(ExecutionFailed):
    """A fault of a kernel: ``kind``, kernel, block, thread, the instruction (and the other one of a race)."""

    def __init__(self, kind, message, **facts):
        super().__init__(message, kind=kind, **facts)
        self.kind = kind


class Shadow:
    """Last writer and last readers of every cell. ``ways`` is 1, or the warps of a group when each keeps its own last read."""

    def __init__(self, writes, reads, write_at, read_at, ways: int = 1):
        self.writes, self.reads, self.write_at, self.read_at, self.ways = writes, reads, write_at, read_at, ways

    def before(self, c, codes, lanes, mine, warps=None):
        """Which accesses lie before now, as seen by ``lanes``: same thread, or synchronised with since."""
        same = ((codes ^ mine) & THREAD) == 0
        if c.uniform:
            return same | (codes < (mine | ALL) - ALL) & ((codes ^ mine) >> GROUP == 0) | (codes < c.first)
        who = (codes & ALL) >> 5 if warps is None else warps
        row = c.row[lanes] if codes.ndim == 1 else c.row[lanes][:, None]
        known = c.known[row, np.minimum(who, c.known.shape[1] - 1)]
        known = np.where((codes & ALL == ALL) & (self.ways == 1), c.known.max(1)[row], known) if warps is None else known
        return same | ((codes >> CLOCK) & ((1 << (GROUP - CLOCK)) - 1) < known) & ((codes ^ mine) >> GROUP == 0) | (codes < c.first)

    def read(self, c, cells, lanes, shared: bool, ahead=False):
        """``cells`` (n, k) are read by ``lanes`` (n,). ``ahead``: an instruction that pipelines use to read ahead; what was never written
        is NaN, and only its use shows."""
        mine = c.code[lanes][:, None]
        written = self.writes[cells]
        if shared:
            self._unready(c, written, lanes, ahead)
        if not c.checks.races:
            return
        if written.max(initial=0) >= c.first:
            flat = np.broadcast_to(mine, cells.shape)
            bad = ~self.before(c, written.ravel(), np.repeat(lanes, cells.shape[1]), flat.ravel())
            self._report(c, bad.reshape(cells.shape), lanes, cells, written, self.writes, "read", "written")
        at = cells if self.ways == 1 else cells * self.ways + (c.in_group[lanes] >> 5)[:, None]
        old = self.reads[at]
        floor = (mine | ALL) - ALL
        other = (old >= floor) & ((old ^ mine) & ALL != 0) & (old >> GROUP == mine >> GROUP)
        new = np.where(other, mine | ALL, mine)
        new = np.where((old >= c.first) & (old >> GROUP != mine >> GROUP), c.first | ALL, new)
        self.reads[at] = new
        several = self.reads[at] != new
        if np.count_nonzero(several):
            again = self.reads[at]
            self.reads[at[several]] = np.where((again ^ new) >> GROUP == 0, again | ALL, c.first | ALL)[several]
        self.read_at[cells] = c.at

    def write(self, c, cells, lanes, shared: bool, code=None, atomic=False):
        """``cells`` (n, k) are written by ``lanes``; ``code`` replaces the lanes' own codes (copies that land later)."""
        mine = (c.code[lanes] if code is None else code)[:, None]
        mine = np.broadcast_to(mine, cells.shape)
        if not c.checks.races:
            self.writes[cells] = mine
            return
        old, rows = self.writes[cells], np.repeat(lanes, cells.shape[1])
        if shared and c.checks.in_flight and old.min(initial=0) < 0:
            c.fault("in flight", "writes shared memory that an asynchronous copy is still writing", lanes[(old < 0).any(1)])
        if not atomic and old.max(initial=0) >= c.first:
            bad = ~self.before(c, old.ravel(), rows, mine.ravel())
            self._report(c, bad.reshape(cells.shape), lanes, cells, old, self.writes, "written", "written")
        if self.ways == 1:
            last = self.reads[cells]
            if last.max(initial=0) >= c.first:
                bad = ~self.before(c, last.ravel(), rows, mine.ravel())
                self._report(c, bad.reshape(cells.shape), lanes, cells, last, self.reads, "written", "read")
        else:
            last = self.reads.reshape(-1, self.ways)[cells.ravel()]
            if last.max(initial=0) >= c.first:
                bad = ~self.before(c, last, rows, mine.reshape(-1, 1), np.arange(self.ways)[None])
                self._report(c, bad.any(1).reshape(cells.shape), lanes, cells, last.max(1).reshape(cells.shape), self.reads, "written", "read")
        self.writes[cells] = mine
        self.write_at[cells] = c.at
        if not atomic and np.count_nonzero(self.writes[cells] != mine):
            return self.writes[cells] != mine

    def _unready(self, c, written, lanes, ahead):
        low = written.min(initial=1)
        if low > 0:
            return
        if low < 0 and c.checks.in_flight:
            c.fault("in flight", "reads shared memory before the asynchronous copy into it was waited for", lanes[(written < 0).any(1)])
        if c.checks.unwritten_shared and not ahead and np.count_nonzero(written == 0):
            c.fault("unwritten", "reads shared memory that nothing has written", lanes[(written == 0).any(1)])

    def _report(self, c, bad, lanes, cells, codes, table, verb, other):
        if not np.count_nonzero(bad):
            return
        at = np.argwhere(bad)[0]
        code, cell = int(codes[tuple(at)]), int(cells[tuple(at)])
        who = "several threads" if code & ALL == ALL else f"thread {c.name_of(code)}"
        there = (self.write_at if table is self.writes else self.read_at)[cell]
        c.fault("race", f"memory {verb} here was {other} by {who} with no synchronisation between", lanes[at[0]:at[0] + 1], int(there))
