"""Tuning: the choices of a graph are run and measured against each other; the fastest that is right is kept.

Every choice writes into memory of ours, with guard zones on both sides, and what it gives is compared with
what the cost model's choice gives. One that writes beside its outputs, gives other numbers or cannot run is
reported and never taken. The runs of all alternate, with a cold L2.
"""
from __future__ import annotations

import os
import statistics
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from . import device as devices
from . import plan as plans
from ._core import memory_of
from .clock import Clock
from .device.buffer import HOST
from .device.numpy import memory
from .graph import Graph
from .heuristics import ANYTHING, Choice, Wish, tuned
from .heuristics.rivals import rivals
from .layout import Layout
from .log import progress
from .status import AllocFailed, BadParam, CydnnError, NotSupported

GUARD, FILL = 1 << 12, 0xFF                      # bytes of a guard zone, and what they hold
FIRST, REPEAT, FINALISTS = 3, 15, 6              # runs of everybody, and of those that are near the fastest
ROUNDED = 4.0                                    # roundings of values that are averaged then
NEAR, GAIN = 1.3, 1.02                           # who that is; what must be won over the default
ODD = 1e-3                                       # share of whole numbers that a last bit may turn
PIECE, THREADS = 1 << 23, min(os.cpu_count() or 1, 8)    # bytes that a thread copies and compares


@dataclass
class Run:
    """A choice that was measured: median and spread in microseconds; ``wrong``: why it is not taken, be it
    that it found no room (``has_room``)."""
    choice: Choice
    us: float = float("nan")
    spread: float = float("nan")
    wrong: str = ""
    has_room: bool = True


@dataclass
class TuneResult:
    """What ``tune`` found. ``runs``: all choices, the first the cost model's; ``best``: the one that is kept,
    which is the first unless another is faster by more than noise."""
    graph: Graph
    facts: object
    runs: list = field(default_factory=list)
    best: Run | None = None

    @property
    def default(self) -> Run:
        return self.runs[0]

    @property
    def gain(self) -> float:
        """How many times as fast as the default the best is."""
        return self.default.us / self.best.us

    def row(self) -> dict:
        """For the tuned table."""
        text = tuned.canonical_text(self.best.choice)
        version = tuned.version_of(self.best.choice, self.default.choice)
        row = tuned.TunedRow(text, self.best.us, self.default.us, version)
        return {tuned.key_of(self.graph, self.facts): row}

    def save(self, path=None):
        """Put the best choice into a tuned table (None: the user's), where mode B finds it; returns its
        file."""
        return tuned.save(self.row(), path)

    def as_data(self) -> dict:
        """As lists, dicts, numbers and strings."""
        number = lambda x: None if x != x else x
        return dict(problem=tuned.key_of(self.graph, self.facts)[0], device=self.facts.name, gain=self.gain,
                    best=self.best.choice.text,
                    runs=[dict(choice=run.choice.text, us=number(run.us), spread=number(run.spread),
                               predicted=run.choice.us, wrong=run.wrong) for run in self.runs])

    def __str__(self):
        """The ranking, the fastest first, and the gain."""
        ranked = sorted(self.runs, key=lambda run: (bool(run.wrong), run.us if run.us == run.us else 1e30))
        lines = [_line(run, "*" if run is self.best else "d" if run is self.default else " ")
                 for run in ranked]
        gain = (f"{100 * (self.gain - 1):.1f} % faster than mode A ({self.default.us:.2f} us)"
                if self.best is not self.default else "mode A's choice is not beaten")
        return "\n".join([*lines, f"{self.best.us:.2f} us, {gain}"])


def _line(run: Run, mark: str) -> str:
    choice = "; ".join(run.choice.text.split("\n"))
    if run.wrong:
        return f"  {'WRONG' if run.has_room else 'NOT RUN'}  {choice}: {run.wrong}"
    return f"{mark} {run.us:9.2f} us  predicted {run.choice.us:8.2f}  {choice}"


def tune(graph: Graph, pack: dict, device=None, wish: Wish = ANYTHING, most: int = 20, clock=None,
         scalars=None, lets=lambda choice: True, made=None) -> TuneResult:
    """Measure the choices of a graph, at most ``most``. ``pack``: {uid: memory} of its slots; what would be
    written stays as it was. ``scalars``: all by-value numbers in order, None for their defaults. ``clock``:
    what has ``times(calls, repeat)``; None: events on a GPU. ``lets``: which choices count. ``made(choice,
    device)``: their plans (None: as always). Raises NotSupported where none runs, or the device's times say
    nothing."""
    device = devices.get(device)
    clock = clock_of(device) if clock is None else clock
    runs = [Run(choice) for choice in rivals(graph, device.facts, wish, most) if lets(choice)]
    if not runs:
        raise NotSupported("tune: there must be a choice to measure; got none that was not deselected")
    found = TuneResult(graph, device.facts, runs)
    ground, first, lanes = Ground(found.default.choice, device, pack, scalars, made), None, {}
    _load(found.runs, device)
    for run in progress(found.runs, "tune: checked", is_usual=True):
        first = _checked(run, ground, lanes, first)
    right = [run for run in found.runs if not run.wrong]
    _measured(right, lanes, clock, FIRST)
    fastest = min(run.us for run in right)
    near = sorted((run for run in right if run.us <= NEAR * fastest), key=lambda run: run.us)[:FINALISTS]
    near = [found.default, *(run for run in near if run is not found.default)]
    _measured(near, lanes, clock, REPEAT)
    for run in sorted(near, key=lambda run: run.us):
        if run is found.default or run.us * GAIN < found.default.us:
            _checked(run, ground, lanes, first)              # once more: it may be wrong now and then
            if not run.wrong:
                found.best = run
                return found
    raise NotSupported(f"tune: the cost model's choice must run; got {found.default.wrong}")


def _load(runs, device):
    """Have the kernels of all choices loaded, by several threads: the driver takes longer to compile one than
    all else here. Who cannot be made says so when it is checked."""
    def load(run):
        with suppress(CydnnError):
            plans.made(run.choice, device)
    if device.context is not None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(load, runs))


def clock_of(device) -> Clock:
    """The clock of a GPU. Raises NotSupported for other devices."""
    if device.context is None:
        raise NotSupported(f"tune: device must be a GPU, or a clock be given; got {device.name}, whose times "
                           "are not those of a kernel")
    return Clock(device)


def _checked(run: Run, ground, lanes: dict, first):
    """Run a choice once and look at what it wrote; returns what the default wrote."""
    try:
        if id(run) not in lanes:
            lanes[id(run)] = Lane(ground.made(run.choice, ground.device), ground)
        run.wrong = ground.written(lanes[id(run)])
        if first is not None and not run.wrong:
            run.wrong = ground.other(first, run.choice)
    except CydnnError as error:
        run.wrong, run.has_room = error.args[0].split("\n")[0], not isinstance(error, AllocFailed)
    if first is None and run.wrong:
        raise NotSupported(f"tune: the cost model's choice must run; got {run.wrong}")
    return ground.contents_now() if first is None else first


def _measured(runs, lanes, clock, repeat: int):
    for run, times in zip(runs, clock.times([lanes[id(run)] for run in runs], repeat)):
        ordered, last = sorted(times), len(times) - 1
        run.us = statistics.median(times)
        run.spread = (ordered[int(0.8 * last)] - ordered[int(0.2 * last)]) / run.us


# ---- Memory of ours ----

class Area:
    """Memory between two guard zones: ``size`` bytes from ``at`` on."""

    def __init__(self, device, size: int):
        self.device, self.size = device, size
        self.buffer = device.alloc(size + 2 * GUARD)         # at a multiple of 256 bytes, as GUARD is
        self.at = int(self.buffer.ptr) + GUARD

    def fill(self, content: np.ndarray | int | None = None):
        """Guards and what nobody wrote hold the fill; then the content, of the host or at an address of the
        device."""
        self.device.memset(self.buffer.ptr, FILL, self.size + 2 * GUARD)
        if isinstance(content, int):
            self.device.context.copy(self.at, content, self.size, 0)
        elif content is not None:
            in_pieces(lambda at, n: self.device.copy_in(self.at + at, content[at:at + n]), self.size)

    def read(self) -> np.ndarray:
        found = np.empty(self.size, np.uint8)
        in_pieces(lambda at, n: self.device.copy_out(self.at + at, found[at:at + n]), self.size)
        return found

    def compared(self, want: np.ndarray, compare) -> list:
        """What ``compare(got, want)`` makes of each piece."""
        piece = lambda at, n: self.device.copy_out(self.at + at, np.empty(n, np.uint8))
        return in_pieces(lambda at, n: compare(piece(at, n), want[at:at + n]), self.size)

    def beside(self, size: int) -> int:
        """How many bytes of the guards were written, where ``size`` bytes may have been; of a larger area the
        first PIECE behind them counts."""
        zones = (self.at - GUARD, GUARD), (self.at + size, min(self.size - size, PIECE) + GUARD)
        return sum(int(np.count_nonzero(self.device.copy_out(at, np.empty(n, np.uint8)) != FILL))
                   for at, n in zones)


class Ground:
    """Where the choices of a graph run: inputs of the caller, outputs and a workspace of ours."""

    def __init__(self, choice: Choice, device, pack: dict, scalars, made):
        layout = self.layout = Layout(choice)
        self.made = made or plans.made
        self.device, self.scalars, self.space = device, scalars, Area(device, 0)
        missing = [t.label for i, t in enumerate(layout.slots) if t.uid not in pack]
        if missing:
            raise BadParam(f"tune: the variant pack must hold tensor {', '.join(missing)}; got uids "
                           f"{sorted(pack, key=str)}")
        ragged = [layout.slots[i].label for i in layout.written if layout.slots[i].ragged is not None]
        if ragged:
            raise NotSupported(f"tune: outputs must not be ragged, as nothing says how far they reach; got "
                               f"{', '.join(ragged)}")
        self.pointers, self.outputs, self.contents = [pack[t.uid] for t in layout.slots], {}, {}
        self.largest: dict = {}                  # values of outputs of the default
        for i in layout.written:
            size = layout.operands[i].bytes
            if size:
                self.contents[i] = self._held(layout.operands[i], self.pointers[i], size)
                self.outputs[i] = Area(device, size)
                self.pointers[i] = self.outputs[i].at
        self.pointers = tuple(self.pointers)

    def _held(self, operand, given, size: int) -> np.ndarray | int:
        """What an output of the caller holds, to which a graph may add; on a GPU, where it lies."""
        found = memory_of(given)
        if found.bytes is not None and found.bytes < size:
            raise BadParam(f"tune: {operand.name} must have at least {size} bytes; got {found.bytes}")
        if self.device.context is not None:
            return found.address
        if found.place == HOST:
            return memory(found.address, size).copy()
        return self.device.copy_out(found.address, np.empty(size, np.uint8))

    def written(self, lane) -> str:
        """Run a choice; what it wrote beside its outputs."""
        for i, area in self.outputs.items():
            area.fill(self.contents[i])
        size = lane.plan.workspace_bytes
        if self.space.size < size:
            self.space = Area(self.device, size)
        self.space.fill()
        lane()
        self.device.synchronize()
        found = [(self.layout.slots[i].label, area.beside(area.size)) for i, area in self.outputs.items()]
        found = [row for row in [*found, ("the workspace", self.space.beside(size))] if row[1]]
        said = ", ".join(f"{count} bytes beside {name}" for name, count in found)
        return said and f"writes {said}"

    def contents_now(self) -> dict:
        """{slot: bytes} of the outputs."""
        return {i: area.read() for i, area in self.outputs.items()}

    def other(self, first: dict, choice: Choice) -> str:
        """Which output of a choice is not what the default wrote, by more than sums in another order and
        roundings on the way explain."""
        for i, area in self.outputs.items():
            dtype, bound = self.layout.slots[i].dtype, self._bound(i, choice)
            if i not in self.largest:            # once: a pass over all in f64
                pieces = in_pieces(lambda at, n: _largest(dtype, first[i][at:at + n]), area.size)
                self.largest[i] = max(pieces) or 1.0
            compare = partial(Apart.of, dtype, bound=bound * self.largest[i])
            wrong = sum(area.compared(first[i], compare), Apart()).said(dtype, bound, self.largest[i])
            if wrong:
                return f"{self.layout.slots[i].label}: {wrong}"
        return ""

    def _bound(self, i: int, choice: Choice) -> float:
        """The largest error over the largest value: of the types that values pass through on their way, those
        that engines round them to by themselves, and of the lengths of the sums."""
        parts = (*self.layout.choice.parts, *choice.parts)
        kinds = [kind for part in parts if (kind := part.engine.rounded_to(part.match))]
        rounded = ROUNDED * max([kind.eps for kind in kinds], default=0.0)
        graph = self.layout.graph
        types = [t.dtype for t in graph.tensors.values() if t.is_virtual and t.dtype.kind == "float"]
        terms = sum(8 + 2 * node.op.terms(**graph.described(node)) ** 0.5 for node in graph.nodes)
        passed = 16 * max([self.layout.slots[i].dtype.eps, *(t.eps for t in types)])
        return max(passed, rounded) + terms * 2.0 ** -23


class Lane:
    """A choice made executable on the ground: a call runs it."""

    def __init__(self, plan: plans.ExecutionPlan, ground: Ground):
        self.plan, self.ground = plan, ground

    def __call__(self):
        size = self.plan.workspace_bytes
        self.plan.execute(self.ground.pointers, self.ground.space.at if size else 0, 0, self.ground.scalars,
                          size)


# ---- What two outputs have apart ----

def in_pieces(call, size: int) -> list:
    """``call(at, bytes)`` of every piece of so many bytes, by several threads at once."""
    starts = range(0, size, PIECE)
    if len(starts) < 2:
        return [call(at, size) for at in starts]
    with ThreadPoolExecutor(min(THREADS, len(starts))) as pool:
        return list(pool.map(lambda at: call(at, min(PIECE, size - at)), starts))


def _largest(dtype, content: np.ndarray) -> float:
    """The largest finite value of the bytes of an output; 0 where there is none."""
    if dtype.kind != "float":
        return 0.0
    with np.errstate(all="ignore"):
        values = dtype.decode(content.view(dtype.numpy))
        return np.abs(values[np.isfinite(values)]).max(initial=0.0)


@dataclass(frozen=True)
class Apart:
    """How many of so many elements, gaps included, are others, how many are further off than a bound, and how
    far at most."""
    count: int = 0
    odd: int = 0
    bad: int = 0
    worst: float = 0.0

    @classmethod
    def of(cls, dtype, got: np.ndarray, want: np.ndarray, bound: float) -> "Apart":
        if dtype.bits < 8:
            return cls(8 * got.size, int(np.unpackbits(got ^ want).sum()))
        got, want = got.view(dtype.numpy), want.view(dtype.numpy)
        where = np.flatnonzero(got.view(f"u{dtype.bytes}") != want.view(f"u{dtype.bytes}"))
        if dtype.kind != "float" or not where.size:
            return cls(got.size, where.size)
        with np.errstate(all="ignore"):
            mine, theirs = dtype.decode(got[where]), dtype.decode(want[where])
            error = np.where(np.isnan(mine) & np.isnan(theirs), 0.0, np.abs(mine - theirs))
        bad = error[~(error <= bound)]
        return cls(got.size, where.size, bad.size, float(np.nanmax(bad, initial=0.0)))

    def __add__(self, other: "Apart") -> "Apart":
        return Apart(self.count + other.count, self.odd + other.odd, self.bad + other.bad,
                     max(self.worst, other.worst))

    def said(self, dtype, bound: float, scale: float) -> str:
        """What is wrong, if anything is; ``scale``: the largest value."""
        if dtype.kind != "float":
            return f"{self.odd} of {self.count} elements are others" if self.odd > ODD * self.count else ""
        return (f"{self.bad} of {self.count} elements differ by up to {self.worst / scale:.2g} of the "
                f"largest value, more than {bound:.2g}" if self.bad else "")
