"""Steps of a warp's clock that a part of the warp makes: a bar.warp.sync that names some lanes brings these
together; who arrives at an mbarrier, releases or fences alone tells others of what it has done itself, and of
what other lanes have done before they met it. A product of matrices takes what all lanes of a warp have read
into registers, so that behind it these reads are over."""
from __future__ import annotations

import numpy as np

from .gate import DONE
from .memory import ALL, CLOCK, NEVER


class Parts:
    """``met``, ``told``: {warp: {clock before: masks of who met there; mask of who told others}}. ``run``:
    for each warp and clock, how many steps before it were all made by parts. ``product``: the clock of a
    warp's last product."""

    def __init__(self, warps: int):
        self.met, self.told, self.run = {}, {}, np.zeros((warps, 64), np.int32)
        self.product = np.full(warps, -1)

    def __bool__(self):
        return bool(self.met or self.told)

    def meet(self, row: int, clock: int, mask: int):
        self.met.setdefault(row, {}).setdefault(clock, set()).add(mask)
        self._step(row, clock)

    def multiply(self, c):
        """The active lanes' warps, which are whole, have made a product."""
        rows = c.row[c.lanes()[::32]]
        self.product[rows] = c.known[rows, rows % c.warps_in_group]

    def speak(self, c, rows, lanes):
        """Of some warps ``lanes`` tell others what they know; where these are all that live, the warp
        does."""
        here, alive = np.zeros(c.L, bool), (c.key != DONE).reshape(-1, 32)[rows]
        here[lanes] = True
        here = here.reshape(-1, 32)[rows]
        for n in np.flatnonzero((alive & ~here).any(1)):
            row = int(rows[n])
            clock = int(c.known[row, row % c.warps_in_group])
            if self.product[row] != clock:
                self.told.setdefault(row, {})[clock] = int((1 << np.flatnonzero(here[n])).sum())
                self._step(row, clock)

    def _step(self, row, clock):
        while clock + 1 >= self.run.shape[1]:
            self.run = np.concatenate([self.run, np.zeros_like(self.run)], 1)
        self.run[row, clock + 1] = self.run[row, clock] + 1

    def apart(self, c, codes, mine, row, known, warps):
        """Which accesses ``codes`` that lie before ``known`` of their warps' clocks do not lie before
        ``mine``, of warps ``row``, as nobody they had met told of them. ``warps``: whose they are, in the
        group."""
        clock, there = codes >> CLOCK & NEVER, row - row % c.warps_in_group + warps
        end = self.run.shape[1] - 1                          # behind it no part has made a step
        streak = np.where(known <= end, self.run[there, np.minimum(known, end)], 0)
        doubt = (streak > 0) & (streak >= known - clock) & (clock < known) & (codes & ALL != ALL)
        bad, seen = np.zeros(codes.shape, bool), {}
        for at in map(tuple, np.argwhere(doubt)):
            key = (int(there[at]), int(clock[at]), int(known[at]), int(codes[at]) & 31,
                   int(mine[at]) & 31 if there[at] == row[at] else -1)
            if key not in seen:
                seen[key] = not self._reaches(*key)
            bad[at] = seen[key]
        return bad

    def _reaches(self, warp, clock, known, lane, reader) -> bool:
        """Do others (``reader``: -1), or that lane of the warp itself, know what a lane did at ``clock``?"""
        met, told, lanes = self.met.get(warp, {}), self.told.get(warp, {}), 1 << lane
        for step in range(clock, known):
            if reader < 0 and told.get(step, 0) & lanes or reader >= 0 and step in told:
                return True
            for mask in met.get(step, ()):
                lanes |= mask if mask & lanes else 0
        return reader >= 0 and bool(lanes >> reader & 1)
