"""Gates: where threads wait. Barriers of a block or a cluster, and mbarriers: arrivals end a phase,
and who waited for it goes on, knowing what all who arrived knew."""
from __future__ import annotations

import numpy as np

WAITS, DONE = 1 << 29, 1 << 30                   # keys of lanes that have no next instruction


class Gate:
    """``phase`` counts what has ended. ``gathering``: what the arrivals of this phase knew,
    ``known``: those of all ended phases."""

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
        go = self.over()
        if not np.count_nonzero(go):
            return False
        lanes, until = self.lanes[go], self.until[go]
        self.lanes, self.until = self.lanes[~go], self.until[~go]
        for phase in np.unique(until).tolist():
            self._open(c, lanes[until == phase], *self.outcome(phase))
        return True

    def over(self):
        """Whose phase has ended: a parity is all that an mbarrier tells."""
        return (self.until ^ self.phase) & 1 == 1

    def outcome(self, phase):
        """What those learn who have waited for the end of a phase, and what their instruction gives."""
        return self.known, True

    @staticmethod
    def _open(c, lanes, known, answer):
        c.learn(lanes, known)
        for at in np.unique(c.pc[lanes]):
            for slot in c.code_of.targets.get(int(at), ()):
                c.V[slot][lanes[c.pc[lanes] == at]] = answer
        c.key[lanes] = c.pc[lanes] + 1


class Barrier(Gate):
    """A barrier of the lanes ``scope``: opens when all that live have arrived, or ``need`` of them.
    ``aligned``: warps come whole."""

    def __init__(self, scope: slice):
        super().__init__()
        # met: do those who wait arrive by that?
        self.scope, self.need, self.met, self.fold = scope, 0, False, None
        self.aligned, self.at, self.ended, self.passed = False, 0, {}, None
        self.come, self.held = np.zeros((2, scope.stop - scope.start), bool)
        # of a lane's last arrival; of a cluster: -1 when it has waited since
        self.phase_of = np.full(scope.stop - scope.start, -1)

    def arrive(self, c, lanes, need=0, aligned=False):
        """``need``: how many threads the instruction names, 0 for all of the block."""
        threads = -(-c.threads // 32) * 32
        what = (f"names {need} threads, which is no multiple of 32" if need % 32
                else f"names {need or threads} threads, and others of this barrier {self.need or threads}"
                if self in c.coming and (need or threads) != (self.need or threads) else "")
        if what and c.checks.barriers:
            c.fault("divergent barrier", what, lanes, self.at if self in c.coming else None)
        if self.passed and need and c.checks.barriers:
            self._in_time(c, lanes)
        c.coming.add(self)
        self.need, self.aligned, self.at = need, aligned, c.at
        self.come[lanes - self.scope.start], self.phase_of[lanes - self.scope.start] = True, self.phase

    def _rows(self, c):
        """For each warp, which lanes have come, which have left, and is nobody missing?"""
        come, done = (x.reshape(-1, 32) for x in (self.come, c.key[self.scope] == DONE))
        return come, done, come.any(1) & (come | done).all(1)

    def complete(self, c):
        come, done, whole = self._rows(c)
        if not self.need:
            return come.any() and (come | done).all()
        # lanes that have left count with their warp
        return (np.count_nonzero((come | done)[whole if self.aligned else come.any(1)])) >= self.need

    def close(self, c):
        come, done, whole = self._rows(c)
        if self.aligned:
            self._whole(c, come, done & ~come & c.born[self.scope].reshape(-1, 32))
        here = np.repeat(whole | (not self.aligned), 32)     # others have come for the next phase
        lanes = self.lanes[self.until == self.phase] if self.met else self.lanes[:0]
        lanes, late = lanes[here[lanes - self.scope.start]], lanes[~here[lanes - self.scope.start]]
        if len(lanes):
            self._together(c, lanes)
            self.gathering = np.maximum(self.gathering, c.tick(lanes))
            ones, all_ = (np.count_nonzero(x & self.come & here) for x in (self.held, True))
            warps = np.unique(c.row[lanes]) % c.warps_in_group
            self.passed = warps, self.gathering[warps]
            self.ended[self.phase] = self.gathering, {"popc": ones, "or": ones > 0, "and": ones == all_,
                                                      None: True}[self.fold]
        self.until[np.isin(self.lanes, late)] += 1
        self.come &= ~here
        if not self.come.any():
            c.coming.discard(self)

    def _in_time(self, c, lanes):
        """Who comes next must know that the last phase has ended, or it might have been one of those that
        ended it."""
        warps, clocks = self.passed
        ignorant = ~(c.known[c.row[lanes]][:, warps] >= clocks).any(1)
        if ignorant.any():
            c.fault("divergent barrier", f"comes to a barrier of {self.need} threads that others have passed "
                    "and that it might have passed in place of one of them", lanes[ignorant], self.at)

    def over(self):
        return self.until < self.phase

    def outcome(self, phase):
        return self.ended.pop(phase, (self.known, True))     # of a cluster: who comes late knows all before

    def _whole(self, c, come, left):
        """No thread that has come may be of a warp that others have left: an aligned barrier is executed by
        all that the warp was started with."""
        torn = np.flatnonzero((come.any(1) & left.any(1))[:, None] & come)
        if len(torn) and c.checks.barriers:
            lane, c.at = self.scope.start + torn[0], self.at
            c.fault("divergent barrier", "comes to this aligned barrier when a part of its warp has left",
                    lane)

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
    """``count`` arrivals end a phase, once ``bytes`` announced bytes have landed too. ``waited``: how many
    phases had ended when somebody last went on: of each phase that must be known before the next one ends.
    ``made``: (lane, instruction) of its initialisation; ``is_fenced``: that lane has fenced it since."""

    def __init__(self, count: int, made: tuple):
        super().__init__()
        self.made, self.is_fenced = made, False
        self.count = self.left = count
        self.bytes = self.waited = 0
        self.last = None                         # (lane, instruction) of the last arrival

    def arrive(self, c, lane, count=1, announced=0, known=None):
        """``known``: what who waits is told; None: all that the lane's warp knows."""
        self.gathering = np.maximum(self.gathering, c.known[c.row[lane]] if known is None else known)
        self.bytes, self.left, self.last = self.bytes + announced, self.left - count, (lane, c.at)
        if self.left < 0:
            c.fault("mbarrier", f"arrives more often than the {self.count} times of a phase", lane)
        self.advance(c)

    def complete(self, c):
        return self.left == 0 and self.bytes == 0

    def close(self, c):
        if self.waited < self.phase and c.checks.barriers:
            lane, c.at = self.last
            c.fault("missed wait", "ends a phase, and nobody has waited for the one before", lane)
        self.left = self.count

    def outcome(self, phase):
        self.waited = self.phase
        return super().outcome(phase)
