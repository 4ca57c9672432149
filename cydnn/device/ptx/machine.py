"""The machine: many blocks side by side, one array a register, the lanes at the lowest
instruction stepping together.

``Machine`` runs a launch in batches of blocks. A lane waits (at a gate, or for its warp), is done,
or has its next instruction in ``key``.
"""
from __future__ import annotations

import numpy as np

from . import bulk, copies, warp
from .check import Checks, Finding
from .code import BRANCH, EXIT, PLAIN, TABLE_BRANCH, WAIT, WARP, WARPGROUPS, Code
from .gate import DONE, WAITS
from .memory import ALL, CLOCK, GROUP, RAW, Memory, parameters
from .parts import Parts
from .signals import Signals
from .table import DTYPE
from .turns import TURN, Turns

LANES = 16384                                    # lanes of a batch, about
MOST_STEPS = 3_000_000                           # instructions of a batch before it counts as hanging
FOREVER = 1 << 60
BIT = np.uint32(1) << np.arange(32, dtype=np.uint32)


class Machine:
    """One launch. ``run`` interprets the grid; the attributes are what steps (``c``) work with."""

    def __init__(self, code: Code, arena, grid, block, smem: int, params: bytes, checks: Checks,
                 first_group: int, clusters, seed=None, cluster=(1, 1, 1), tensor_maps=None,
                 cooperative=False, dependent=False, counter=0, registers=0):
        self.code_of, self.arena, self.grid, self.block_dim, self.smem = code, arena, grid, block, smem
        self.clusters = clusters                             # which of the grid are run
        self.checks, self.uniform, self.cluster_dim, self.tensor_maps = (
            checks, code.uniform and not cooperative, cluster, tensor_maps or {})
        self.params = parameters(params)
        self.rng = None if seed is None else np.random.default_rng(seed)
        self.threads, self.cluster = block[0] * block[1] * block[2], cluster[0] * cluster[1] * cluster[2]
        self.width = -(-self.threads // code.unit) * code.unit           # lanes of a block
        self.first_group, self.first = first_group, first_group << GROUP
        self.at, self.time = 0, 0
        self.cooperative, self.dependent, self.counter = cooperative, dependent, counter
        self.registers = registers                           # of a thread; 0: unknown
        self.raw = RAW if code.proxies and checks.races else 0       # what ordinary stores leave behind

    def run(self):
        batch = max(LANES // (self.width * self.cluster), 1)
        if self.cooperative:                                 # blocks that wait for each other
            batch = max(len(self.clusters), 1)
        with np.errstate(all="ignore"):
            for start in range(0, len(self.clusters), batch):
                self._set_up(self.blocks_of(self.clusters[start:start + batch]).ravel(), start)
                self._interpret()

    def blocks_of(self, clusters):
        """(n, blocks of a cluster): their numbers in the grid."""
        corner = self._coordinates(clusters[:, None], [g // c for g, c in zip(self.grid, self.cluster_dim)])
        x, y, z = (at * c + r for at, c, r in zip(
            corner, self.cluster_dim, self._coordinates(np.arange(self.cluster), self.cluster_dim)))
        return x + self.grid[0] * (y + self.grid[1] * z)

    @staticmethod
    def _coordinates(n, dims):
        return n % dims[0], n // dims[0] % dims[1], n // (dims[0] * dims[1])

    # ---- State of a batch ----

    def _set_up(self, blocks, start):
        code, width, count = self.code_of, self.width, len(blocks)
        self.L = L = count * width
        thread = np.tile(np.arange(width), count)
        self.blocks, self.block, self.all_lanes, self.row = (blocks, np.repeat(np.arange(count), width),
                                                             np.arange(L), np.arange(L) // 32)
        self.joint = count if self.cooperative else self.cluster         # blocks that may know of each other
        self.warps_in_block, self.warps_in_group = width // 32, width // 32 * self.joint
        self.key = np.where(thread < self.threads, 0, DONE).astype(np.int32)
        self.born = thread < self.threads
        self.live = int(np.count_nonzero(self.born))
        self.torn = False                                    # has a part of a warp left?
        self.parts = Parts(L // 32)
        self.turns = Turns(L, self.rng is not None) if self.cooperative else None
        self.gone = np.zeros(count, bool)                    # blocks of which no thread is left
        self.early = np.ones(L, bool) if self.dependent else None    # has not waited for the launch before
        # where a lane waits; is it for its warp?
        self.pc, self.partner = np.zeros(L, np.int32), np.zeros(L, bool)
        self.gates, self.coming = {}, set()                  # place -> Gate; barriers that a part has come to
        self.group = self.first_group + 1 + start + self.block // self.joint
        self.in_group = (self.block % self.joint) * width + thread
        self.known = np.zeros((L // 32, self.warps_in_group), np.int32)
        self.own = (np.arange(L // 32), np.arange(L // 32) % self.warps_in_group)
        self.stamp()
        sizes = {"shared": code.program.bytes["shared"] + self.smem, "local": code.program.bytes["local"]}
        pitch = {space: -(-size // 128) * 128 + 128 * (space == "shared") for space, size in sizes.items()}
        shared = Memory("shared", count * pitch["shared"], sizes["shared"], 0, pitch["shared"],
                        code.grains["shared"], 1 if self.uniform else self.warps_in_block * self.cluster,
                        self.cluster)
        shared.data.fill(0xFF)                          # what nothing has written is NaN in every float type
        self.arena.grain = code.grains["global"]
        self.memory = ({"global": self.arena, "const": self.arena, "shared": shared,
                        "local": Memory("local", L * pitch["local"], sizes["local"], 0, pitch["local"]),
                        "param": self.params})
        self.copies, self.stores, self.signals = copies.Copies(L), bulk.Stores(L), Signals(self)
        self.V = self._registers(self._specials(thread, blocks[self.block]))

    def _registers(self, specials) -> list:
        """What the slots of the code stand for: constants, and rows of one block for each width of registers,
        seen as they are read."""
        code, turn = self.code_of, 0 if self.rng is None else int(self.rng.integers(4))
        blocks = {width: self.arena.registers(width, count, self.L, turn)
                  for width, count in code.widths.items()}
        for name, register in code.program.specials.items():
            (base, _, axis), (width, at) = name.lstrip("%").partition("."), code.rows[register]
            # clocks are read by mov; gridid is 0
            blocks[width][at] = specials[base]["xyz".index(axis)] if axis else specials.get(base, 0)
        views = {seen: _view(blocks[seen[0]], seen[1]) for seen in code.seen}
        slots = [value if seen is None else views[seen][value] for seen, value in code.places]
        return warp.name_blocks(self, slots, specials["cluster_ctarank"]) if self.cluster > 1 else slots

    def _specials(self, thread, block):
        """What the special registers hold."""
        where, one, lane, cluster = (self._coordinates(block, self.grid), np.uint32(1),
                                     (thread % 32).astype(np.uint32), self.cluster_dim)
        rank = [w % n for w, n in zip(where, cluster)]
        return {
            "tid": self._coordinates(thread, self.block_dim), "ntid": self.block_dim, "ctaid": where,
            "nctaid": self.grid, "laneid": lane, "warpid": thread // 32, "nwarpid": -(-self.threads // 32),
            "smid": block % 4, "nsmid": 4, "cluster_ctaid": rank, "cluster_nctaid": cluster,
            "clusterid": [w // n for w, n in zip(where, cluster)],
            "nclusterid": [g // n for g, n in zip(self.grid, cluster)],
            "cluster_ctarank": rank[0] + cluster[0] * (rank[1] + cluster[1] * rank[2]),
            "cluster_nctarank": self.cluster, "is_explicit_cluster": int(self.cluster > 1),
            # kernels_src/lib/grid.cuh
            "envreg1": self.counter >> 32, "envreg2": self.counter & 0xFFFFFFFF,
            "dynamic_smem_size": self.smem, "total_smem_size": self.memory["shared"].limit,
            "lanemask_eq": one << lane, "lanemask_lt": (one << lane) - one,
            "lanemask_le": (one << lane) * 2 - one, "lanemask_gt": ~((one << lane) * 2 - one),
            "lanemask_ge": ~((one << lane) - one), "WARP_SZ": 32}

    # ---- Clocks ----

    def stamp(self):
        """Codes of the lanes after clocks have moved."""
        self.code = ((self.group.astype(np.int64) << GROUP)
                     | (self.known[self.own].astype(np.int64)[self.row] << CLOCK) | self.in_group)

    def tick(self, lanes, have_met=False):
        """The clocks of the warps of some lanes move on; all of a group know of it only when told.
        Returns what these warps know. ``have_met``: else who is a part of its warp speaks for that part."""
        rows = np.unique(self.row[lanes])
        if not have_met and len(lanes) < 32 * len(rows):
            self.parts.speak(self, rows, lanes)
        self.known[rows, rows % self.warps_in_group] += 1
        self.stamp()
        return self.known[rows].max(0)

    def own_clock(self):
        """The clock of every warp."""
        return self.known[self.own]

    def learn(self, lanes, known):
        """What lies before now for the warps of some lanes."""
        rows = np.unique(self.row[lanes])
        self.known[rows] = np.maximum(self.known[rows], known)

    def meet(self):
        """Everybody in every block learns what anybody there knows; then all clocks move on."""
        self.known[self.own] += 1
        known = self.known.reshape(-1, self.warps_in_block, self.warps_in_group)
        known[...] = known.max(1, keepdims=True)
        self.stamp()

    # ---- Who is active ----

    def _activate(self, mask, n):
        self.mask, self.n, self.where = (None if n == self.L else mask), n, (True if n == self.live else mask)
        self._lanes = self.all_lanes if n == self.L else None

    def lanes(self) -> np.ndarray:
        """Indices of the active lanes."""
        if self._lanes is None:
            self._lanes = np.flatnonzero(self.mask)
        return self._lanes

    def warps(self) -> np.ndarray:
        """The active lanes as rows of 32, for instructions that whole warps execute."""
        lanes = self.lanes()
        if self.mask is not None and (len(lanes) % 32 or (lanes[::32] % 32).any()
                                      or (lanes[31::32] - lanes[::32] != 31).any()):
            self.fault("warp", "is executed by a part of a warp; all 32 lanes must", lanes)
        return lanes.reshape(-1, 32)

    def active(self, array):
        """The active lanes' part of an array, or of a number."""
        if np.ndim(array) == 0:
            return np.broadcast_to(array, self.n)
        return array if self.mask is None else array[self.lanes()]

    def spread(self, values, rest=0):
        """The active lanes' values in rows of whole warps, ``rest`` for other lanes."""
        if self.mask is not None:
            full = np.full(self.L, rest, np.asarray(values).dtype)
            full[self.lanes()] = values
            values = full
        return np.broadcast_to(values, self.L).reshape(-1, 32)

    def put(self, slot: int, values):
        """Write values, one for each active lane."""
        if self.mask is None:
            self.V[slot][...] = values
        else:
            self.V[slot][self.lanes()] = values

    # ---- Findings ----

    def name_of(self, code: int) -> str:
        """Who made an access."""
        if code & ALL == ALL:
            return "several threads"
        group, lane = ((code >> GROUP) - self.first_group - 1) * (self.joint // self.cluster), code & ALL
        block = self.blocks_of(self.clusters[group:group + self.joint // self.cluster]).flat[
            lane // self.width]
        return (f"thread {self._name(lane % self.width, self.block_dim)} of "
                f"block {self._name(block, self.grid)}")

    def _name(self, n, dims):
        return "({},{},{})".format(*self._coordinates(int(n), dims))

    def fault(self, kind: str, what: str, lanes, other: int | None = None, **facts):
        """Raise a Finding about the first of ``lanes``."""
        code, lane = self.code_of, int(np.atleast_1d(lanes)[0])
        i, there = code.instructions[self.at], None if other is None else code.instructions[other]
        thread, block = (self._name(lane % self.width, self.block_dim),
                         self._name(self.blocks[self.block[lane]], self.grid))
        also = "" if there is None else f"; the other is {code.place(there)}"
        raise Finding(
            kind, f"{code.program.name}: {kind}: block {block} thread {thread} {what}; {code.place(i)}{also}",
            kernel=code.program.name, block=block, thread=thread, line=code.line(i), text=i.text,
            source=i.source, other=there and (code.line(there), there.text), **facts)

    # ---- The loop ----

    def _interpret(self):
        steps, kinds, guards, executed, jumped, uses = (
            getattr(self.code_of, n) for n in ("steps", "kinds", "guards", "executed", "jumped", "uses"))
        V, key, left = self.V, self.key, MOST_STEPS
        while True:
            i, mask, bound, patience = self._pick()
            if i is None:
                return
            n = int(np.count_nonzero(mask))
            self._activate(mask, n)
            while True:
                executed[i], self.at, kind, guard, take, taken = True, i, kinds[i], guards[i], mask, n
                left, patience, self.time = left - 1, patience - 1, self.time + 1
                if left < 0:
                    self.fault("hang", f"has run {MOST_STEPS} instructions", self.lanes())
                if uses and self.copies.flights and uses[i]:
                    self.copies.untouched(self, uses[i])
                if guard is not None:
                    take = mask & (~V[guard[0]] if guard[1] else V[guard[0]])
                    taken = int(np.count_nonzero(take))
                if taken == 0 or kind == PLAIN:
                    if taken == n:
                        steps[i](V, self)
                    elif taken:
                        self._activate(take, taken)
                        steps[i](V, self)
                        self._activate(mask, n)
                    i += 1
                elif kind == BRANCH and taken == n:
                    jumped[i], i = True, steps[i]
                else:
                    key[mask] = i + 1
                    i = self._divert(i, kind, steps[i], take, taken, n)
                    if i is None:
                        break
                if i >= bound or patience <= 0:
                    key[mask] = i
                    break

    def _divert(self, i, kind, step, take, taken, n):
        """An instruction after which the ``taken`` of ``n`` lanes may go another way than the rest: their
        keys say where. When they all go on together, returns the next instruction."""
        if kind == BRANCH:
            self.key[take], self.code_of.jumped[i] = step, True
        elif kind == TABLE_BRANCH:
            index, targets = step
            at = np.broadcast_to(self.V[index], take.shape)[take]
            if (at >= len(targets)).any():
                self.fault("branch", "takes an entry beyond its table",
                           np.flatnonzero(take)[at >= len(targets)])
            self.key[take] = targets[at]
        elif kind == EXIT:
            self.key[take] = DONE
            self.live -= taken
            left = (self.key == DONE).reshape(-1, 32)
            self.torn = bool((~left.all(1) & (left & self.born.reshape(-1, 32)).any(1)).any())
            self.copies.leave(self, take)
            self.stores.leave(self, take)
            if self.cluster > 1:
                warp.leave_cluster(self)
            # partners of a warp instruction may be complete now
            self.key[self.partner] = self.pc[self.partner]
            self.partner[:] = False
        elif kind == WAIT:
            self._activate(take, taken)
            step(self.V, self)
        else:
            ready = self._whole(take, i, taken)
            count = int(np.count_nonzero(ready))
            if count:
                self.key[ready] = i + 1
                self._activate(ready, count)
                step(self.V, self)
            return i + 1 if ready is take and taken == n and kind == WARP else None
        return None

    def _pick(self):
        """The next instruction, its lanes, the first instruction another lane waits
        at, and for how many steps."""
        key = self.key
        while (i := int(key.min())) >= WAITS:
            if not self._resolve():
                return None, None, 0, 0
        if self.turns is not None:
            key = self.turns.keys(key, self.time, self._open)
            i = int(key.min())
        if self.rng is None:
            mask = key == i
            return self._taking(mask, i, key, FOREVER if self.turns is None else TURN)
        least = key.reshape(-1, 32).min(1)
        i = int(least[self.rng.choice(np.flatnonzero(least < WAITS))])
        chosen = (least == i) & (self.rng.random(len(least)) < 0.6)
        chosen = np.repeat(chosen if chosen.any() else least == i, 32)
        mask = (key == i) & chosen
        return self._taking(mask, i, np.where(chosen, key, DONE), int(self.rng.integers(1, 60)))

    def _taking(self, mask, i, key, patience) -> tuple:
        if self.turns is not None:
            self.turns.ran |= mask
        return i, mask, int(np.where(mask, DONE, key).min()), patience

    def _whole(self, take, i, taken):
        """Of the lanes at a warp instruction (those of ``take`` and those that wait there),
        the ones whose partners are here too: the lanes named by its member mask, or the warpgroup.
        The others wait for them."""
        if i in self.code_of.masked and self.checks.barriers:
            self._named(take, i)
        if taken == self.L:
            return take
        waiting = self.partner & (self.pc == i)
        here = take | waiting
        missing = (self.key != DONE) & ~here
        if self.code_of.instructions[i].words[0] in WARPGROUPS:
            bad = here & np.repeat(missing.reshape(-1, 128).any(1), 128)
        else:
            slot = self.code_of.members.get(i)
            named = np.uint32(0xFFFFFFFF) if slot is None else self.V[slot]
            bad = here & (((missing.reshape(-1, 32) * BIT).sum(1, dtype=np.uint32)[self.row] & named) != 0)
        if not np.count_nonzero(bad) and not np.count_nonzero(waiting):
            return take
        self.partner[here] = bad[here]
        self.key[bad], self.pc[bad] = WAITS, i
        return here & ~bad

    def _open(self) -> bool:
        """Open what can be opened, or let a copy land; False where neither can be."""
        return any([gate.release(self) for gate in list(self.gates.values())]) or self.copies.deliver(self)

    def _named(self, take, i):
        """Every lane that executes a warp instruction is named by its own member mask."""
        named = self.V[self.code_of.members[i]]
        bad = take & ((named >> (np.arange(self.L, dtype=np.uint32) & np.uint32(31)) & np.uint32(1)) == 0)
        if np.count_nonzero(bad):
            self.fault("members", "executes this with a member mask that does not name its lane",
                       np.flatnonzero(bad))

    def _resolve(self) -> bool:
        """Nothing can run: let something go on. False when all lanes are done."""
        waits = self.key == WAITS
        if not np.count_nonzero(waits):
            return False
        if self._open():
            return True
        lane = np.flatnonzero(waits)[0]
        self.at = int(self.pc[lane])
        places = ", ".join(f"{np.count_nonzero(waits & (self.pc == i))} at line "
                           f"{self.code_of.line(self.code_of.instructions[i])}"
                           for i in np.unique(self.pc[waits]))
        self.fault("deadlock", f"waits for ever; of {np.count_nonzero(self.key != DONE)} threads "
                               f"that have not left, {places}", lane)


def _view(block, kind: str):
    """Registers seen as another type; narrower types are their low part."""
    if block.dtype == np.bool_:
        return block
    view = block.view(DTYPE[kind])
    return view.reshape(*block.shape, -1) if "x" in kind else view[:, ::view.shape[1] // block.shape[1]]
