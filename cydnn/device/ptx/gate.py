"""Gates: where threads wait. Barriers of a block or a cluster, and mbarriers: arrivals end a phase,
and who waited for it goes on, knowing what all who arrived knew."""
from __future__ import annotations

import numpy as np

WAITS, DONE = 1 << 29, 1 << 30                   # keys of lanes that have no next instruction


class Gate:
    """``phase`` counts what has ended. ``gathering``: what the arrivals of this phase knew,
    ``known``: those of all ended phases."""
    answer = True                                # what an instruction that waits here gives

    def __init__(self):
        self.phase, self.gathering, self.known = 0, 0, 0
        # who waits, for the end of which phase
        self.lanes, self.until = np.empty(0, np.int64), np.empty(0, np.int64)

    def wait(self, c, lanes, until):
        """Park lanes until phase ``until`` has ended."""
        c.key[lanes], c.pc[lanes] = WAITS, c.at
        self.lanes, self.until = (np.concatenate([self.lanes, lanes]),
                                  np.concatenate([self.until, np.broadcast_to(until, lanes.shape)]))

    def advance(self, c):
        """End the phase when everything has come."""
        if self.complete(c):
            self.close(c)
            self.known, self.gathering, self.phase = np.maximum(self.known, self.gathering), 0, self.phase + 1

    def release(self, c) -> bool:
        """Let those go on whose phase has ended; True when there are some."""
        self.advance(c)
        go = (self.until ^ self.phase) & 1 == 1              # a parity is all that an mbarrier tells
        if not np.count_nonzero(go):
            return False
        lanes, self.lanes, self.until = self.lanes[go], self.lanes[~go], self.until[~go]
        c.learn(lanes, self.known)
        for at in np.unique(c.pc[lanes]):
            for slot in c.code_of.targets.get(int(at), ()):
                c.V[slot][lanes[c.pc[lanes] == at]] = self.answer
        c.key[lanes] = c.pc[lanes] + 1
        return True


class Barrier(Gate):
    """Of the lanes ``scope``: opens when all that live have come, or ``need`` of them."""

    def __init__(self, scope: slice):
        super().__init__()
        # met: do those who wait arrive by that?
        self.scope, self.need, self.met, self.fold = scope, 0, False, None
        self.come, self.held = np.zeros((2, scope.stop - scope.start), bool)
        # of a lane's last arrival; of a cluster: -1 when it has waited since
        self.phase_of = np.full(scope.stop - scope.start, -1)

    def arrive(self, c, lanes, need=0):
        c.coming.add(self)
        self.need, self.come[lanes - self.scope.start], self.phase_of[lanes - self.scope.start] = (
            need, True, self.phase)

    def complete(self, c):
        come, done = (x.reshape(-1, 32) for x in (self.come, c.key[self.scope] == DONE))
        if not self.need:
            return come.any() and (come | done).all()
        # lanes that have left count with their warp
        return np.count_nonzero((come | done) & come.any(1)[:, None]) >= self.need

    def close(self, c):
        lanes = self.lanes[self.until == self.phase] if self.met else ()
        if len(lanes):
            self._together(c, lanes)
            self.gathering = np.maximum(self.gathering, c.tick(lanes))
        ones, all_ = np.count_nonzero(self.held & self.come), np.count_nonzero(self.come)
        self.answer = {"popc": ones, "or": ones > 0, "and": ones == all_, None: True}[self.fold]
        self.come[:] = False
        c.coming.discard(self)

    def _together(self, c, lanes):
        """Threads of one barrier must wait at one instruction (with a thread count: whole warps must)."""
        owner = c.row[lanes] if self.need else np.zeros(len(lanes), np.int64)
        _, first, which = np.unique(owner, return_index=True, return_inverse=True)
        apart = c.pc[lanes] != c.pc[lanes[first[which]]]
        if c.checks.barriers and apart.any():
            lane, other = lanes[apart][0], lanes[first[which[apart][0]]]
            c.at = int(c.pc[lane])
            c.fault("divergent barrier",
                    "waits at this barrier while others of its block wait at another instruction",
                    lane, int(c.pc[other]))


class Mbarrier(Gate):
    """``count`` arrivals end a phase, once ``bytes`` announced bytes have landed too."""

    def __init__(self, count: int):
        super().__init__()
        self.count = self.left = count
        self.bytes = 0

    def arrive(self, c, lane, count=1, announced=0):
        self.gathering = np.maximum(self.gathering, c.known[c.row[lane]])
        self.bytes, self.left = self.bytes + announced, self.left - count
        if self.left < 0:
            c.fault("mbarrier", f"arrives more often than the {self.count} times of a phase", lane)
        self.advance(c)

    def complete(self, c):
        return self.left == 0 and self.bytes == 0

    def close(self, c):
        self.left = self.count
