"""The machine: many blocks side by side, one array a register, the lanes at the lowest instruction stepping together.

``Machine`` runs a launch in batches of blocks. A lane waits (at a barrier, for its warp, for an mbarrier), is done, or has its next
instruction in ``key``.
"""
from __future__ import annotations

from contextlib import contextmanager

import numpy as np

from . import asynchronous, warp
from . import memory as memories
from .check import CLOCK, GROUP, Checks, Finding
from .code import BARRIER, BRANCH, EXIT, PLAIN, TABLE_BRANCH, Code
from .table import DTYPE

WAITS, DONE = 1 << 29, 1 << 30                   # keys of lanes that have no next instruction
LANES = 4096                                     # lanes of a batch, about
MOST_STEPS = 3_000_000                           # instructions of a batch before it counts as hanging


class Machine:
    """One launch. ``run`` interprets the grid; the attributes are what steps (``c``) work with."""

    def __init__(self, code: Code, arena, grid, block, smem: int, params: bytes, checks: Checks, sm: int, first_group: int, seed=None,
                 cluster=(1, 1, 1), tensor_maps=None):
        self.code_of, self.arena, self.grid, self.block_dim, self.smem = code, arena, grid, block, smem
        self.checks, self.sm, self.uniform, self.cluster_dim = checks, sm, code.uniform, cluster
        self.params, self.tensor_maps = memories.Parameters(params), tensor_maps or {}
        self.rng = None if seed is None else np.random.default_rng(seed)
        self.threads = block[0] * block[1] * block[2]
        self.width = -(-self.threads // 32) * 32             # lanes of a block
        self.cluster = cluster[0] * cluster[1] * cluster[2]
        self.first_group = first_group
        self.first = first_group << GROUP
        self.at, self.time = 0, 0

    def run(self):
        total = self.grid[0] * self.grid[1] * self.grid[2]
        blocks = self.order = self._block_order(total)
        batch = max(LANES // (self.width * self.cluster), 1) * self.cluster
        with np.errstate(all="ignore"):
            for start in range(0, total, batch):
                self._set_up(blocks[start:start + batch], start)
                self._interpret()

    def _block_order(self, total):
        """Linear block numbers, the blocks of a cluster side by side."""
        order = np.arange(total)
        if self.cluster == 1:
            return order
        (gx, gy, _), (cx, cy, cz) = self.grid, self.cluster_dim
        x, y, z = order % gx, order // gx % gy, order // (gx * gy)
        return np.lexsort((x % cx, y % cy, z % cz, x // cx, y // cy, z // cz))

    # ---- State of a batch ----

    def _set_up(self, blocks, start):
        code, width = self.code_of, self.width
        count = len(blocks)
        self.L = L = count * width
        thread = np.tile(np.arange(width), count)
        self.blocks, self.block = blocks, np.repeat(np.arange(count), width)
        self.all_lanes, self.warps_in_block = np.arange(L), width // 32
        self.warps_in_group = self.warps_in_block * self.cluster
        self.key = np.where(thread < self.threads, 0, DONE).astype(np.int32)
        self.live = int(np.count_nonzero(self.key == 0))
        self.pc, self.wait_id, self.wait_count = np.zeros(L, np.int32), np.full(L, -1), np.zeros(L, np.int64)
        self.arrived: dict = {}                  # block * 16 + barrier -> (threads that arrived without waiting, what they knew)
        self.cluster_arrivals, self.cluster_waits, self.gone_blocks = np.zeros(L, np.int64), np.zeros(L, np.int64), np.zeros(count, bool)
        self.group = self.first_group + 1 + (start + self.block) // self.cluster
        self.in_group = (self.block % self.cluster) * width + thread
        self.row = np.arange(L) // 32
        self.known = np.zeros((L // 32, self.warps_in_group), np.int32)
        self.own = (np.arange(L // 32), np.arange(L // 32) % self.warps_in_group)
        self._stamp()
        ways = 1 if self.uniform else self.warps_in_group
        size = code.program.bytes["shared"] + self.smem
        self.memory = {"global": self.arena, "shared": memories.Shared(count, size, code.shared_grain, ways, self.cluster),
                       "local": memories.Local(L, code.program.bytes["local"]), "param": self.params}
        self.memory["generic"] = memories.Generic(self)
        self.pending, self.flights = asynchronous.Pending(self), {}
        self._registers(thread, blocks[self.block])

    def _registers(self, thread, block):
        code, L = self.code_of, self.L
        raw = [np.zeros(L, np.bool_ if size == 1 and not name.startswith("_") else memories.UINT[min(size, 8)])
               if size <= 8 else np.zeros((L, 2), np.uint64) for name, size in code.program.registers]
        for name, register in code.program.specials.items():
            raw[register][:] = self._special(name, thread, block)
        self.raw, self.V = raw, [value if register is None else _view(raw[register], value) for register, value in code.recipe]

    def _special(self, name, thread, block):
        base, _, axis = name[1:].partition(".")
        bx, by, bz = self.block_dim
        gx, gy, gz = self.grid
        cx, cy, cz = self.cluster_dim
        at = "xyz".find(axis) if axis else 0
        where = (block % gx, block // gx % gy, block // (gx * gy))
        lane = (thread % 32).astype(np.uint32)
        rows = {
            "tid": lambda: (thread % bx, thread // bx % by, thread // (bx * by))[at], "ntid": lambda: self.block_dim[at],
            "ctaid": lambda: where[at], "nctaid": lambda: self.grid[at], "laneid": lambda: lane, "warpid": lambda: thread // 32,
            "nwarpid": lambda: self.warps_in_block, "smid": lambda: block % 4, "nsmid": lambda: 4, "gridid": lambda: 0,
            "clusterid": lambda: where[at] // self.cluster_dim[at], "nclusterid": lambda: self.grid[at] // self.cluster_dim[at],
            "cluster_ctaid": lambda: where[at] % self.cluster_dim[at], "cluster_nctaid": lambda: self.cluster_dim[at],
            "cluster_ctarank": lambda: where[0] % cx + cx * (where[1] % cy + cy * (where[2] % cz)), "cluster_nctarank": lambda: self.cluster,
            "is_explicit_cluster": lambda: int(self.cluster > 1), "dynamic_smem_size": lambda: self.smem,
            "total_smem_size": lambda: self.memory["shared"].size,
            "lanemask_eq": lambda: np.uint32(1) << lane, "lanemask_lt": lambda: (np.uint32(1) << lane) - np.uint32(1),
            "lanemask_le": lambda: (np.uint32(2) << lane) - np.uint32(1), "lanemask_gt": lambda: ~((np.uint32(2) << lane) - np.uint32(1)),
            "lanemask_ge": lambda: ~((np.uint32(1) << lane) - np.uint32(1)), "clock": lambda: 0, "clock64": lambda: 0, "clock_hi": lambda: 0,
            "globaltimer": lambda: 0, "globaltimer_lo": lambda: 0, "globaltimer_hi": lambda: 0, "ARP_SZ": lambda: 32}
        return rows[base]()

    def _stamp(self):
        """Codes of the lanes after clocks have moved."""
        clock = self.known[self.own].astype(np.int64)[self.row]
        self.code = (self.group.astype(np.int64) << GROUP) | (clock << CLOCK) | self.in_group

    # ---- Who is active ----

    def _activate(self, mask, n):
        self.mask, self.n = (None if n == self.L else mask), n
        self.where = True if n == self.live else mask
        self._lanes = self.all_lanes if n == self.L else None

    def lanes(self) -> np.ndarray:
        """Indices of the active lanes."""
        if self._lanes is None:
            self._lanes = np.flatnonzero(self.mask)
        return self._lanes

    def warps(self) -> np.ndarray:
        """Rows of the active warps, for instructions that whole warps execute."""
        if self.mask is None:
            return self.all_lanes[:self.L // 32]
        lanes = self.lanes()
        rows = lanes[::32] // 32
        if len(lanes) % 32 or (lanes.reshape(-1, 32) // 32 != rows[:, None]).any():
            self.fault("warp", "is executed by a part of a warp; all 32 lanes must", lanes)
        return rows

    def warpgroup(self, lanes):
        """A number for the warpgroup of lanes."""
        return lanes // self.width * 8 + lanes % self.width // 128

    def only(self, position) -> np.ndarray:
        """The lane at a position among the active ones."""
        return self.lanes()[int(position):int(position) + 1]

    def at_lanes(self, array):
        """The active lanes' part of an array (numbers pass)."""
        return array if self.mask is None or np.ndim(array) == 0 else array[self.lanes()]

    def put(self, slot: int, values):
        """Write values, one for each active lane."""
        if self.mask is None:
            self.V[slot][...] = values
        else:
            self.V[slot][self.lanes()] = values

    @contextmanager
    def narrowed(self, mine):
        """Only some of the active lanes, for a while."""
        saved = self.mask, self.n, self.where, self._lanes
        if not mine.all():
            lanes = self.lanes()[mine]
            mask = np.zeros(self.L, bool)
            mask[lanes] = True
            self.mask, self.n, self.where, self._lanes = mask, len(lanes), mask, lanes
        yield
        self.mask, self.n, self.where, self._lanes = saved

    @contextmanager
    def standing_for(self, lane: int, count: int):
        """``count`` accesses in the name of one lane."""
        saved = self.mask, self.n, self.where, self._lanes
        self.mask, self.n, self._lanes = self.where, count, np.full(count, lane)
        yield
        self.mask, self.n, self.where, self._lanes = saved

    # ---- Findings ----

    def name_of(self, code: int) -> str:
        """Block and thread of an access code."""
        group, lane = (code >> GROUP) - self.first_group - 1, code & 0xFFFF
        block = int(self.order[group * self.cluster + lane // self.width])
        return f"{self._coordinates(lane % self.width, self.block_dim)} of block {self._coordinates(block, self.grid)}"

    @staticmethod
    def _coordinates(n, dims):
        return f"({n % dims[0]},{n // dims[0] % dims[1]},{n // (dims[0] * dims[1])})"

    def fault(self, kind: str, what: str, lanes, other: int | None = None):
        """Raise a Finding about the first of ``lanes``."""
        lane = int(np.atleast_1d(lanes)[0])
        i = self.code_of.instructions[self.at]
        thread, block = self._coordinates(lane % self.width, self.block_dim), self._coordinates(int(self.blocks[self.block[lane]]), self.grid)
        line = self.code_of.line(i)
        there = self.code_of.instructions[other] if other is not None else None
        also = f"; the other is line {self.code_of.line(there)} `{there.text}`" if there is not None else ""
        raise Finding(kind, f"{self.code_of.program.name}: {kind}: block {block} thread {thread} {what}; line {line} `{i.text}`{also}",
                      kernel=self.code_of.program.name, block=block, thread=thread, line=line, text=i.text,
                      other=there and (self.code_of.line(there), there.text))

    # ---- The loop ----

    def _interpret(self):
        steps, kinds, guards, executed = (getattr(self.code_of, n) for n in ("steps", "kinds", "guards", "executed"))
        V, key, left, uses = self.V, self.key, MOST_STEPS, self.code_of.uses
        while True:
            i, mask, bound, patience = self._pick()
            if i is None:
                break
            n = int(np.count_nonzero(mask))
            self._activate(mask, n)
            while True:
                executed[i] = True
                self.at, kind, guard = i, kinds[i], guards[i]
                left -= 1
                patience -= 1
                self.time += 1
                if self.flights and uses[i]:
                    self._untouched(uses[i])
                if left < 0:
                    self.fault("hang", f"has run {MOST_STEPS} instructions", self.lanes())
                if kind == PLAIN and guard is None:
                    steps[i](V, self)
                    i += 1
                elif kind == PLAIN:
                    self._guarded(steps[i], V, guard, mask)
                    i += 1
                else:
                    take = mask
                    if guard is not None:
                        take = mask & (~V[guard[0]] if guard[1] else V[guard[0]])
                        taken = int(np.count_nonzero(take))
                        if taken == 0:
                            i += 1
                            if i >= bound or patience <= 0:
                                key[mask] = i
                                break
                            continue
                    else:
                        taken = n
                    if kind == BRANCH:
                        if taken == n:
                            i = steps[i]
                        else:
                            key[mask] = i + 1
                            key[take] = steps[i]
                            break
                    elif kind == EXIT:
                        key[mask] = i + 1
                        key[take] = DONE
                        self.live -= taken
                        self.pending.leave(self, take)
                        if self.cluster > 1:
                            warp.leave_cluster(self)
                        break
                    elif kind == TABLE_BRANCH:
                        index, targets = steps[i]
                        at = np.broadcast_to(V[index], mask.shape)
                        if (at[take] >= len(targets)).any():
                            self.fault("branch", "takes an entry beyond its table", np.flatnonzero(take & (at >= len(targets))))
                        key[mask] = i + 1
                        key[take] = targets[at[take]]
                        break
                    elif kind == BARRIER:
                        if taken == n == self.live and steps[i](V, self, take, True):
                            i += 1
                        else:
                            key[mask] = i + 1
                            key[take], self.pc[take] = WAITS, i
                            self._activate(take, taken)
                            steps[i](V, self, take, False)
                            break
                    else:
                        ready = self._whole(take, i, taken)
                        if uses is not None and self.code_of.instructions[i].words[0] == "wgmma":
                            ready = self._warpgroups(ready, i)
                        if taken != n or ready is not take:
                            key[mask & ~take] = i + 1
                            if not np.count_nonzero(ready):
                                break
                            self._activate(ready, int(np.count_nonzero(ready)))
                            steps[i](V, self)
                            key[ready] = i + 1
                            break
                        steps[i](V, self)
                        i += 1
                if i >= bound or patience <= 0:
                    key[mask] = i
                    break
        self.pending.finish(self)

    def _untouched(self, registers):
        """No instruction but wgmma may name registers of one that is under way."""
        for group in np.unique(self.warpgroup(self.lanes())) if self.checks.in_flight else ():
            if group in self.flights and self.flights[group].registers() & registers:
                self.fault("in flight", "touches registers of a wgmma that was not waited for", self.lanes())

    def _guarded(self, step, V, guard, mask):
        """Run a step for the lanes whose guard holds."""
        take = ~V[guard[0]] if guard[1] else V[guard[0]]
        if self.mask is not None:
            take = take & mask
        taken = int(np.count_nonzero(take))
        if not taken:
            return
        if taken == self.n:
            return step(V, self)
        saved = self.mask, self.n, self.where, self._lanes
        self.mask, self.n, self.where, self._lanes = take, taken, take, None
        step(V, self)
        self.mask, self.n, self.where, self._lanes = saved

    def _pick(self):
        """The next instruction, its lanes, the first instruction another lane waits at, and for how many steps."""
        key = self.key
        while True:
            i = int(key.min())
            if i < WAITS:
                break
            if not self._resolve():
                return None, None, 0, 0
        if self.rng is None:
            mask = key == i
            others = np.where(mask, DONE, key)
            return i, mask, int(others.min()), 1 << 60
        least = key.reshape(-1, 32).min(1)
        runnable = np.flatnonzero(least < WAITS)
        i = int(least[self.rng.choice(runnable)])
        chosen = (least == i) & (self.rng.random(len(least)) < 0.6)
        if not chosen.any():
            chosen = least == i
        chosen = np.repeat(chosen, 32)
        mask = (key == i) & chosen
        others = np.where(mask | ~chosen, DONE, key)
        return i, mask, int(others.min()), int(self.rng.integers(1, 60))

    def _whole(self, take, i, taken):
        """Of the lanes at a warp instruction, those whose named partners are here too; the others wait for them."""
        slot = self.code_of.members.get(i)
        if taken == self.L:
            return take
        bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
        waiting = (self.key == WAITS) & (self.pc == i) & (self.wait_id == -2)
        here = take | waiting
        present = (here.reshape(-1, 32) * bits).sum(1, dtype=np.uint32)
        alive = ((self.key != DONE).reshape(-1, 32) * bits).sum(1, dtype=np.uint32)
        missing = (alive & ~present)[self.row]
        named = np.uint32(0xFFFFFFFF) if slot is None else self.V[slot]
        bad = here & ((missing & named) != 0)
        if not np.count_nonzero(bad):
            if np.count_nonzero(waiting):
                self.wait_id[waiting] = -1
                return here
            return take
        self.key[bad], self.pc[bad], self.wait_id[bad] = WAITS, i, -2
        good = here & ~bad
        self.wait_id[good] = -1
        return good

    def _warpgroups(self, ready, i):
        """For wgmma: of whole warps, those whose warpgroup is whole too; the others wait."""
        whole = np.repeat(ready.reshape(-1, 128).all(1), 128) if self.width % 128 == 0 else _whole_groups(ready, self.width)
        rest = ready & ~whole
        if np.count_nonzero(rest):
            self.key[rest], self.pc[rest], self.wait_id[rest] = WAITS, i, -2
        return whole & ready

    # ---- Waiting ----

    def _resolve(self) -> bool:
        """Nothing can run: open what can be opened. False when all lanes are done."""
        waits = self.key == WAITS
        if not np.count_nonzero(waits):
            return False
        if warp.release(self, waits) or self.pending.wake(self, waits):
            return True
        retry = waits & (self.wait_id == -2)
        alive = self.key != DONE
        for i in np.unique(self.pc[retry]):                  # partners of a warp instruction have left since
            here = retry & (self.pc == i)
            whole = np.repeat((here | ~alive).reshape(-1, 32).all(1), 32) & here
            if whole.any():
                self.key[whole], self.wait_id[whole] = i, -1
                return True
        lane = np.flatnonzero(waits)[0]
        self.at = int(self.pc[lane])
        places = ", ".join(f"{np.count_nonzero(waits & (self.pc == i))} at line {self.code_of.line(self.code_of.instructions[i])}"
                           for i in np.unique(self.pc[waits]))
        self.fault("deadlock", f"waits for ever; of {np.count_nonzero(self.key != DONE)} threads that have not left, {places}", lane)

    def tick(self, rows=None):
        """The clocks of some warps (all, for None) move on; all of a group know of it only when told (``meet``)."""
        if rows is None:
            self.known[self.own] += 1
        else:
            self.known[rows, rows % self.warps_in_group] += 1
        self._stamp()

    def meet(self, warps: int):
        """Everybody in every block (``warps`` = warps_in_block) or group learns what anybody there knows; then all clocks move on."""
        self.known[self.own] += 1
        known = self.known.reshape(-1, warps, self.warps_in_group)
        known[...] = known.max(1, keepdims=True)
        self._stamp()


def _whole_groups(ready, width):
    """Lanes of whole warpgroups, where blocks are not a multiple of 128 lanes."""
    blocks = ready.reshape(-1, width)
    out = np.zeros_like(blocks)
    for start in range(0, width - 127, 128):
        out[:, start:start + 128] = blocks[:, start:start + 128].all(1, keepdims=True)
    return out.reshape(-1)


def _view(raw, kind: str):
    """One register's array seen as another type; narrower types are its low part."""
    if kind == "bool" or raw.dtype == np.bool_:
        return raw
    if "x" in kind:
        return raw.view(DTYPE[kind]).reshape(len(raw), -1)
    view = raw.view(DTYPE[kind])
    return view[::view.size // raw.size] if view.size != len(raw) else view
