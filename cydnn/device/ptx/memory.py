"""The memories of the machine. One class: bytes, a byte of state for each, and who touched each cell when;
one routine checks every access.

Addresses: global from GLOBAL on, generic addresses of shared and local memory from SHARED and LOCAL on,
parameters from PARAM on. Order in time: every warp counts its synchronisations (its clock). ``known[row, w]``
says up to which clock warp ``w`` of the same group (block, or cluster) is known to lie before now.
The blocks of a cooperative launch are one group. An access is a code ``group << 42 | clock << 20 | lane``;
ALL as the lane means several.
"""
from __future__ import annotations

import numpy as np

GLOBAL, SHARED, LOCAL, PARAM = 1 << 36, 1 << 44, 1 << 45, 1 << 46
SPACE_END = 1 << 40                              # bytes of a window
RANK_BIT = 24               # from here on an address of shared memory names a block of the cluster (rank + 1)
# state of a byte: outside after all, written, will be written by a copy that is under way, is read by one,
# was written by an ordinary instruction and not fenced since
DEAD, WRITTEN, FLYING, LENT, RAW = 1, 2, 4, 8, 16
CHANGES = ("writes", "updates", "initialises")               # verbs of accesses that change memory
UINT = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
FAR, WORD = 1 << 60, 4                           # beyond every address; bytes
# of n bytes
STATE = {(n, bits): UINT[n].type(sum(bits << 8 * i for i in range(n))) for n in UINT for bits in range(32)}
GROUP, CLOCK, ALL = 42, 20, 0xFFFFF
NEVER = (1 << (GROUP - CLOCK)) - 1               # the clock of a read that has not ended
THREAD = ~(NEVER << CLOCK)                       # the bits of a code without its clock


class Memory:
    """``limit`` bytes, or for shared and local memory as many each ``pitch`` bytes for each block or lane.
    ``base``: the address of the first. ``grain``: bytes of a cell, 0 where nobody looks for races.
    ``ways``: 1, or the warps of a group when each keeps its own last read."""

    def __init__(self, name: str, total: int, limit: int, base=0, pitch=0,
                 grain=0, ways=1, cluster=1, zeros=np.zeros):
        self.name, self.limit, self.base, self.pitch, self.grain, self.ways, self.cluster = (
            name, limit, base, pitch, grain, ways, cluster)
        self.data, self.state = zeros(total, np.uint8), zeros(total, np.uint8)
        self.view, self.flags = ({n: array[:total // 8 * 8].view(t) for n, t in UINT.items()}
                                 for array in (self.data, self.state))
        self.zeros = zeros
        self.cell_zeros = lambda ways, dtype: zeros(total // grain * ways if grain else 0, dtype)
        # instructions of the last accesses
        self.write_at, self.read_at = self.cell_zeros(1, np.int32), self.cell_zeros(1, np.int32)
        self.forget_accesses()

    def forget_accesses(self):
        """No access has been."""
        self.writes, self.reads = self.cell_zeros(1, np.int64), self.cell_zeros(self.ways, np.int64)  # codes
        self.updates = self.update_at = None                 # of atomics, from the first one on
        self.constants = self.constant_at = None             # of reads by .nc, where writes are looked for

    def describe(self, off: int) -> str:
        """Where a bad access lies."""
        return f"of {self.limit} bytes of {self.name} memory"

    def whose(self, off: int) -> dict:
        """Facts of a finding about a byte here."""
        return {}

    def place(self, off: int) -> str:
        """Where two accesses meet."""
        return f" at byte {off % self.pitch if self.pitch else off} of {self.name} memory"

    def outside(self, off, width):
        """Which accesses do not lie in the memory."""
        return (off.view(np.uint64) > np.uint64(self.limit - width) if self.limit >= width
                else np.ones(off.shape, bool))

    def watched(self, c, off, width):
        """Are races looked for here?"""
        return self.grain and c.checks.races

    def reach(self, c, address, width, verb, lanes, need=0):
        """Places in ``data`` of accesses of ``width`` bytes. Checks, here for all: bounds, alignment,
        under way, and ``need`` (written)."""
        off, owner, gone = address - self.base, lanes, ()
        if self.name == "shared":
            owner = c.block[lanes]
            if self.cluster > 1 or np.count_nonzero(off >> RANK_BIT):
                rank = (off >> RANK_BIT) - 1
                owner = np.where(rank >= 0, owner // self.cluster * self.cluster + rank, owner)
                off = np.where((rank >= self.cluster) | (rank < -1), -1, off & (1 << RANK_BIT) - 1)
                gone = c.gone[np.minimum(owner, len(c.gone) - 1)]
        for kind, bad, where in (("address", gone, " in a block that has left,"),
                                 ("address", self.outside(off, width), ""),
                                 ("misaligned", off & (width - 1) if width > 1 else (), "")):
            if np.count_nonzero(bad):
                self.fault(c, kind, bad, address, off, f"{verb} {width} bytes{where}", lanes)
        off = off + owner * self.pitch if self.pitch else off
        step = min(width, 8)
        at = off // step
        state = (self.flags[step][at] if width <= 8
                 else np.stack([self.flags[step][at + i] for i in range(width // 8)]))
        flying = FLYING | LENT if verb in CHANGES else FLYING
        care = DEAD | need | (flying if c.checks.in_flight else 0)
        if np.count_nonzero(state & STATE[step, care] != STATE[step, need]):
            for kind, bit, what in (("address", DEAD, f"{verb} {width} bytes"),
                                    ("in flight", FLYING, f"{verb} what an asynchronous copy is writing"),
                                    ("in flight", LENT, f"{verb} what an asynchronous copy still reads"),
                                    ("unwritten", WRITTEN, f"{verb} {width} bytes that nothing has written")):
                bad = (state & STATE[step, bit & care]
                       != STATE[step, bit & need]).reshape(-1, len(off)).any(0)
                if np.count_nonzero(bad):
                    start = int(off[np.flatnonzero(bad)[0]])
                    wrong = (self.state[start:start + width] ^ need) & bit & care
                    self.fault(c, kind, bad, address, off, what, lanes, int(np.flatnonzero(wrong)[0]))
        return off

    def fault(self, c, kind, bad, address, off, what, lanes, more=0):
        """About the first of ``bad``, whose byte number ``more`` is the first that is wrong."""
        lane = np.flatnonzero(bad)[0]
        at = int(off[lane]) + more
        c.fault(kind, f"{what} at {int(address[lane]):#x} {self.describe(at)}", lanes[lane:lane + 1],
                **self.whose(at))

    # ---- Accesses: ``address`` (n,) of ``lanes`` (n,) ----

    def load(self, c, address, size, count, lanes, constant=False, ahead=False, strong=False):
        """``count`` neighbours of ``size`` bytes for each address, as raw unsigned integers
        (a list of arrays). ``constant``: by .nc. ``ahead``: pipelines read ahead so; what was never
        written is NaN, and only its use shows. ``strong``: other strong accesses may meet it at any time."""
        width, checked = (size * count, not ahead
                          and (c.checks.unwritten_shared if self.name == "shared" else c.checks.unwritten))
        off = self.reach(c, address, width, "reads", lanes, WRITTEN if checked else 0)
        if self.watched(c, off, width):
            cells = self.cells(off, width)
            if strong:
                self.ordered(c, self.writes[cells], cells, lanes, c.code[lanes][:, None], "read", "written")
            else:
                self.read(c, cells, lanes)
            if constant:
                self._constant(c, cells, lanes)
        view, at = self.view[size], off // size
        found = [view[at + i] if i else view[at] for i in range(count)]
        return c.signals.past.load(c, self, off, found, lanes) if strong and self.has_past(c, size) else found

    def store(self, c, address, size, values, lanes, strong=False):
        """Write the arrays ``values`` side by side at each address. ``strong`` as in ``load``."""
        width = size * len(values)
        off = self.reach(c, address, width, "writes", lanes)
        clash = self.grain and c.checks.races and self.write(
            c, self.cells(off, width), lanes, strong=strong)
        self.mark(off, width, WRITTEN | c.raw if self.name == "shared" else WRITTEN)
        if strong and self.has_past(c, size):
            c.signals.past.store(c, self, off, values, lanes)
        view, at = self.view[size], off // size
        for i, value in enumerate(values):
            view[at + i] = value
        for i, value in enumerate(values if clash else ()):
            if np.count_nonzero(differ := view[at + i] != value):
                c.fault("race",
                        "threads write different values to one address in this instruction", lanes[differ])

    def has_past(self, c, size) -> bool:
        """May strong loads of ``size`` bytes here see what was stored before?"""
        return self.name == "global" and size == WORD and c.signals.past is not None

    def mark(self, off, width, state=WRITTEN):
        """These bytes are written now, or will be."""
        step = min(width, 8)
        for i in range(max(width // 8, 1)):
            self.flags[step][off // step + i] = STATE[step, state]

    def update(self, c, address, size, change, lanes):
        """``change(old, positions) -> new`` at each address, one lane after another where addresses
        meet; returns the old values."""
        off = self.reach(c, address, size, "updates", lanes,
                         WRITTEN if self.name != "shared" and c.checks.unwritten else 0)
        if self.watched(c, off, size):
            self.note_update(c, self.cells(off, size), lanes)
        self.mark(off, size, WRITTEN | c.raw if self.name == "shared" else WRITTEN)
        view, at = self.view[size], off // size
        old, left = np.empty(at.shape, view.dtype), np.arange(at.size)
        while left.size:
            first = np.unique(at[left], return_index=True)[1]
            now = left[first]
            old[now] = view[at[now]]
            view[at[now]] = change(old[now], now)
            left = np.delete(left, first)
        return old

    # ---- Who touched what ----

    def cells(self, off, width):
        """The cells that accesses touch: (n, cells of one)."""
        cells = off // self.grain
        return cells[:, None] if width <= self.grain else cells[:, None] + np.arange(width // self.grain)

    def settled(self, c, codes, mine) -> bool:
        """Do all accesses ``codes`` lie before the last barrier of their block? The short answer, where its
        warps have one clock and no other block comes; False also means that it is not known."""
        return (c.uniform and self.name == "shared" and self.cluster == 1
                and not np.count_nonzero(codes >= (mine & ~ALL)))

    def before(self, c, codes, mine, row, warps=None):
        """Which accesses ``codes`` lie before now, as seen by the accesses ``mine`` of warps ``row``: same
        thread, or synchronised with since."""
        ours = (codes ^ mine) >> GROUP == 0
        if c.uniform:                                        # all warps of a block have one clock
            return ((codes ^ mine) & THREAD == 0) | (codes < (mine | ALL) - ALL) & ours | (codes < c.first)
        last = c.warps_in_group - 1
        whose = np.minimum((codes & ALL) >> 5, last) if warps is None else warps % (last + 1)
        known = told = c.known[row, whose]
        if warps is None and self.ways == 1:
            told = np.where(codes & ALL == ALL, c.known.max(1)[row], known)
        met = (codes ^ mine) & THREAD == 0
        synchronised = (codes >> CLOCK & NEVER < told) & ours
        if c.parts and np.count_nonzero(synchronised):
            synchronised &= ~c.parts.apart(c, *np.broadcast_arrays(codes, mine, row, known, whose))
        return met | synchronised | (codes < c.first)

    def read(self, c, cells, lanes):
        """``cells`` (n, k) are read by ``lanes`` (n,)."""
        mine = c.code[lanes][:, None]
        self.ordered(c, self.writes[cells], cells, lanes, mine, "read", "written")
        if self.updates is not None:
            self.ordered(c, self.updates[cells], cells, lanes, mine, "read", "updated")
        at = cells if self.ways == 1 else cells * self.ways + (c.row[lanes] % self.ways)[:, None]
        old, new = self.reads[at], mine
        # else nobody has read here in this launch
        if not self.settled(c, old, mine) and old.max(initial=0) >= c.first:
            alike = (old ^ mine) >> GROUP == 0
            several = alike & (old >= (mine | ALL) - ALL) & ((old ^ mine) & ALL != 0)
            # last: of several blocks
            new = np.where(several, mine | ALL, np.where(alike | (old < c.first), mine, c.first | ALL))
        self.reads[at] = new
        again = self.reads[at]
        several = again != new                               # of the lanes of this instruction
        if np.count_nonzero(several):
            self.reads[at[several]] = np.where((again ^ new) >> GROUP == 0,
                                               again | ALL, c.first | ALL)[several]
        self.read_at[cells] = c.at

    def write(self, c, cells, lanes, strong=False) -> bool:
        """``cells`` (n, k) are written by ``lanes``. True when several lanes write one cell now. ``strong``:
        other strong accesses may meet it; only those that are not are looked for, and it leaves no trace."""
        mine = self._changes(c, cells, lanes, "written")
        if strong:
            return False
        if self.updates is not None:
            self.ordered(c, self.updates[cells], cells, lanes, mine, "written", "updated")
        self.writes[cells], self.write_at[cells] = mine, c.at
        return bool(np.count_nonzero(self.writes[cells] != mine))

    def note_update(self, c, cells, lanes):
        """``cells`` (n, k) are changed by atomics of ``lanes``, which may meet each other."""
        if self.updates is None:
            self.updates, self.update_at = self.cell_zeros(1, np.int64), self.cell_zeros(1, np.int32)
        mine = self._changes(c, cells, lanes, "updated")
        self.updates[cells], self.update_at[cells] = mine, c.at

    def _changes(self, c, cells, lanes, verb):
        """Plain accesses to what is about to change lie before; returns the codes of this one."""
        mine = np.broadcast_to(c.code[lanes][:, None], cells.shape)
        self.ordered(c, self.writes[cells], cells, lanes, mine, verb, "written")
        last = self.reads[cells] if self.ways == 1 else self.reads.reshape(-1, self.ways)[cells]
        self.ordered(c, last, cells, lanes, mine, verb, "read")
        if self.constants is not None and self.constants[cells].max(initial=0) >= c.first and c.checks.races:
            bad = (self.constants[cells] >= c.first).any(1)
            there = self.constant_at[cells[bad][0]].max()
            c.fault("race", "writes what this launch has read with .nc", lanes[bad], int(there))
        return mine

    def _constant(self, c, cells, lanes):
        """``cells`` are read with .nc: nobody may write them in this launch, before or after."""
        if np.count_nonzero(written := (self.last_change(cells) >= c.first).any(1)):
            c.fault("race", "reads with .nc what this launch has written", lanes[written])
        if self.constants is None:
            self.constants, self.constant_at = self.cell_zeros(1, np.int64), self.cell_zeros(1, np.int32)
        self.constants[cells], self.constant_at[cells] = c.code[lanes][:, None], c.at

    def last_change(self, cells):
        """The codes of the last stores or atomics."""
        return (self.writes[cells] if self.updates is None
                else np.maximum(self.writes[cells], self.updates[cells]))

    def ordered(self, c, codes, cells, lanes, mine, verb, other):
        """All of ``codes`` (n, k), or (n, k, ways), lie before now."""
        if not c.checks.races or self.settled(c, codes, mine) or codes.max(initial=0) < c.first:
            return
        each, row = codes.ndim == 3, c.row[lanes].reshape(-1, *[1] * (codes.ndim - 1))
        bad = ~self.before(c, codes, mine[..., None] if each else mine, row,
                           row - row % self.ways + np.arange(self.ways) if each else None)
        if np.count_nonzero(bad):
            at = tuple(np.argwhere(bad)[0])
            there = {"written": self.write_at, "read": self.read_at, "updated": self.update_at}[other][
                cells[at[:2]]]
            off = int(cells[at[:2]]) * self.grain
            what = (f"memory {verb} here{self.place(off)} was {other} by {c.name_of(int(codes[at]))} with no "
                    "synchronisation between")
            c.fault("race", what, lanes[at[0]:at[0] + 1], int(there), **self.whose(off))


def parameters(data: bytes) -> Memory:
    """The parameter block; read only."""
    memory = Memory("param", len(data) + 16, len(data), PARAM)
    memory.data[:len(data)], memory.state[:] = np.frombuffer(data, np.uint8), WRITTEN
    return memory


def spaces(c, name: str, address):
    """Where accesses of the active lanes go: (memory, which of them, their addresses there, their lanes);
    a generic address names its space."""
    if name != "generic":
        yield c.memory[name], slice(None), address, c.lanes()
        return
    window = np.searchsorted((SHARED, LOCAL, PARAM), address, "right")
    for n, (space, base) in enumerate((("global", 0), ("shared", SHARED), ("local", LOCAL), ("param", 0))):
        mine = np.flatnonzero(window == n)
        if len(mine):
            yield c.memory[space], mine, address[mine] - base, c.lanes()[mine]
