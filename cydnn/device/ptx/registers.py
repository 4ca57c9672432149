"""setmaxnreg: a warpgroup gives registers back to its block, or waits until the block has as many as it
wants. PTX ISA §setmaxnreg. A kernel is launched with what ptxas says it uses, or with the bound that its
directives set: without one ptxas leaves the instruction out."""
from __future__ import annotations

import math

import numpy as np

from .gate import Gate
from .table import row

LEAST, MOST, UNIT = 24, 256, 8                   # registers of a thread
OF_SM = 1 << 16                                  # registers, on every target that has the instruction


class Pool(Gate):
    """The register pool of a block (setmaxnreg): ``free`` registers of one lane of a warp each; ``owned``:
    what the lanes of each warp have; ``since``: the clock of a warp when it last asked, -1 before."""

    def __init__(self, warps: int, count: int):
        super().__init__()
        self.free, self.owned, self.since = 0, np.full(warps, count), np.full(warps, -1)

    def release(self, c) -> bool:
        """Warps that wait get what they want while there is enough: those first that give some back."""
        warps, wanted = c.row[self.lanes[::32]] % len(self.owned), self.until[::32]
        more, done = wanted - self.owned[warps], np.zeros(len(warps), bool)
        for n in np.argsort(more):
            done[n] = more[n] <= self.free
            self.free -= int(more[n] * done[n])
        self.owned[warps[done]] = wanted[done]
        go = np.repeat(done, 32)
        c.key[self.lanes[go]] = c.pc[self.lanes[go]] + 1
        self.lanes, self.until = self.lanes[~go], self.until[~go]
        return bool(done.any())


def at_entry(c) -> int:
    """Registers of each thread of a launch; 0 where nothing sets a bound."""
    limits = c.code_of.program.limits
    block, blocks = limits.get("maxntid") or limits.get("reqntid"), limits.get("minnctapersm")
    bound = (limits["maxnreg"][0] if "maxnreg" in limits
             else OF_SM // (math.prod(block) * blocks[0]) // UNIT * UNIT if block and blocks else 0)
    return bound and min(-(-(c.registers or bound) // UNIT) * UNIT, MOST)


def set_most(c, m, count):
    lanes, start = c.lanes(), at_entry(c)
    part = np.ones((1, 128), bool) if c.mask is None else c.mask.reshape(-1, 128)
    if count % UNIT or not LEAST <= count <= MOST:
        c.fault("registers", f"asks for {count} registers; it must be a multiple of {UNIT} from {LEAST} to "
                f"{MOST}", lanes)
    if not start:
        c.fault("registers", "has no effect without .maxnreg, or .maxntid and .minnctapersm", lanes)
    if (part.any(1) != part.all(1)).any():
        c.fault("registers", "is executed by a part of a warpgroup; its four warps must", lanes)
    for block in np.unique(c.block[lanes]).tolist():
        mine = lanes[c.block[lanes] == block]
        pool = c.gates.setdefault(("registers", block), Pool(c.warps_in_block, start))
        _in_turn(c, m, pool, mine, count)
        pool.wait(c, mine, count)
        pool.release(c)


def _in_turn(c, m, pool, lanes, count):
    """Nobody gives what it has not, or takes what it has; and the warps of a warpgroup have met since the
    last time."""
    first, rows = lanes[::32], c.row[lanes[::32]]
    warps = rows % c.warps_in_block
    wrong = pool.owned[warps] < count if m["way"] == "dec" else pool.owned[warps] > count
    if wrong.any():
        has = pool.owned[warps[wrong][0]]
        c.fault("registers", f"asks for {count} registers of a thread, which has {has}", first[wrong])
    for four in np.arange(len(rows)).reshape(-1, 4):
        known = c.known[rows[four]][:, rows[four] % c.warps_in_group]
        if not (known > pool.since[warps[four]]).all():
            c.fault("registers", "asks again, and the warps of its warpgroup have not met since", first[four])
    pool.since[warps] = c.own_clock()[rows]
    c.tick(lanes)


row("setmaxnreg way:inc|dec sync aligned t:u32", "=#", set_most)
