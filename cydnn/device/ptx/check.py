"""What is checked, how a finding reads, and who touched which cell of memory when.

Order in time: every warp counts its synchronisations (its clock). ``known[row, w]`` says up to which clock warp ``w`` of the same group
(block, or cluster) is known to lie before now. An access is a code ``group << 40 | clock << 16 | lane``; ALL as the lane means several.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...status import ExecutionFailed

GROUP, CLOCK, ALL = 40, 16, 0xFFFF
NEVER = (1 << (GROUP - CLOCK)) - 1                           # the clock of a read that has not ended
THREAD = ~(NEVER << CLOCK)                                   # the bits of a code without its clock


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

    def before(self, c, codes, mine, row, warps=None):
        """Which accesses ``codes`` lie before now, as seen by the accesses ``mine`` of warps ``row``: same thread, or synchronised with since."""
        same = ((codes ^ mine) & THREAD) == 0
        if c.uniform:                                        # all warps of a block have one clock
            return same | (codes < (mine | ALL) - ALL) & ((codes ^ mine) >> GROUP == 0) | (codes < c.first)
        who = (codes & ALL) >> 5 if warps is None else warps
        known = c.known[row, np.minimum(who, c.known.shape[1] - 1)]
        if warps is None and self.ways == 1:
            known = np.where(codes & ALL == ALL, c.known.max(1)[row], known)
        return same | (codes >> CLOCK & NEVER < known) & ((codes ^ mine) >> GROUP == 0) | (codes < c.first)

    def read(self, c, cells, lanes):
        """``cells`` (n, k) are read by ``lanes`` (n,)."""
        mine = c.code[lanes][:, None]
        self._ordered(c, self.writes[cells], cells, lanes, mine, "read", "written")
        at = cells if self.ways == 1 else cells * self.ways + (c.in_group[lanes] >> 5)[:, None]
        old, new = self.reads[at], np.broadcast_to(mine, at.shape)
        if old.max(initial=0) >= c.first:                    # else nobody has read here in this launch
            alike = (old ^ mine) >> GROUP == 0
            several = alike & (old >= (mine | ALL) - ALL) & ((old ^ mine) & ALL != 0)
            new = np.where(several, mine | ALL, np.where(alike | (old < c.first), mine, c.first | ALL))      # last: of several blocks
        self.reads[at] = new
        again = self.reads[at]
        several = again != new                               # of the lanes of this instruction
        if np.count_nonzero(several):
            self.reads[at[several]] = np.where((again ^ new) >> GROUP == 0, again | ALL, c.first | ALL)[several]
        self.read_at[cells] = c.at

    def write(self, c, cells, lanes, atomic=False) -> bool:
        """``cells`` (n, k) are written by ``lanes``. True when several lanes write one cell now."""
        if not c.checks.races:
            return False
        mine = np.broadcast_to(c.code[lanes][:, None], cells.shape)
        if not atomic:
            self._ordered(c, self.writes[cells], cells, lanes, mine, "written", "written")
        last = self.reads[cells] if self.ways == 1 else self.reads.reshape(-1, self.ways)[cells]
        self._ordered(c, last, cells, lanes, mine, "written", "read")
        self.writes[cells] = mine
        self.write_at[cells] = c.at
        return not atomic and bool(np.count_nonzero(self.writes[cells] != mine))

    def _ordered(self, c, codes, cells, lanes, mine, verb, other):
        """All of ``codes`` (n, k), or (n, k, ways), lie before now."""
        if codes.max(initial=0) < c.first:
            return
        each = codes.ndim == 3
        bad = ~self.before(c, codes, mine[..., None] if each else mine, c.row[lanes].reshape(-1, *[1] * (codes.ndim - 1)),
                           np.arange(self.ways) if each else None)
        if not np.count_nonzero(bad):
            return
        at = tuple(np.argwhere(bad)[0])
        code = int(codes[at])
        who = "several threads" if code & ALL == ALL else f"thread {c.name_of(code)}"
        there = (self.write_at if other == "written" else self.read_at)[cells[at[:2]]]
        c.fault("race", f"memory {verb} here was {other} by {who} with no synchronisation between", lanes[at[0]:at[0] + 1], int(there))
