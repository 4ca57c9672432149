"""An engine run again and again on streams of a GPU: the same bits, under load, behind a producer that is
late, replayed from a graph. What comes out is kept on the device and looked at when all is done."""
from __future__ import annotations

import struct
from functools import partial

import numpy as np

from cydnn import _core, bench
from cydnn.bench.run import fill as fill_randomly
from cydnn.device.numpy import read
from cydnn.engines import TABLE
from cydnn.heuristics import Wish
from cydnn.ops import Problem

from .sums import FRONTED
from ..guard.buffers import FILLS
from ..guard.zones import Zoned

def of_peers(engine) -> bool:
    """It runs beside others, which bring it messages."""
    op = engine.op
    return bool(op.shared - op.optional or engine.understands & {op.special.get(name) for name in op.shared})


# Engines that take one operation, and more than once without others
ALONE = [e for e in TABLE if e.index not in FRONTED and not of_peers(e)]

ROOM = 64 << 20                                  # bytes of results that are looked at together
NEAR = 0.01                                      # of the largest value: engines that keep no order of sums
SPIN = b""".version 7.0
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 spin_param_0)
{ .reg .b64 %since, %now, %wait; .reg .pred %q; ld.param.u64 %wait, [spin_param_0];
mov.u64 %since, %globaltimer;
L: mov.u64 %now, %globaltimer; sub.u64 %now, %now, %since; setp.lt.u64 %q, %now, %wait; @%q bra L; ret; }
"""


def stream_of(device):
    """A stream that does not wait for the default one."""
    return _core.Stream(device.context, 0, False)


def spinner(device, milliseconds: float):
    """spin(stream): a kernel that does nothing for so long."""
    tape = _core.Tape(device.context, [], problem="a late producer")
    tape.launch(device.context.load(SPIN, "spin"), 1, 1, 0, struct.pack("<Q", int(milliseconds * 1e6)))
    return lambda stream: tape.execute((), stream=stream)


class Load:
    """Another stream that always has work: copies and sums that fill the memory, products that fill the
    cores."""
    BYTES = 1 << 27
    LINES = ("reduction x=4096x4096:f32 y=1x1:f32 mode=add", "matmul 512x1024 1024x2048 f16")

    def __init__(self, device, lines=LINES, size=BYTES):
        self.device, self.stream, self.size = device, stream_of(device), size
        self.places = [device.alloc(size) for _ in range(2)]
        self.cases = [bench.Case(Problem.parse(line), device) for line in lines]

    def __call__(self, number):
        which = number % (len(self.cases) + 1)
        if which == len(self.cases):
            self.device.context.copy(self.places[0].ptr, self.places[1].ptr, self.size, self.stream)
        else:
            case = self.cases[which]
            case.plan.execute(case.pointers, int(case.workspace.ptr), stream=self.stream)


class Runs:
    """A problem by one engine, in buffers of its own, between zones. Two sets of inputs. Before a run every
    byte that is written is as before the first: what the op keeps or adds to, else 0xFF; the workspace holds
    what the zones do."""

    def __init__(self, problem, engine, device, config=None, fill=FILLS[0]):
        self.device, self.is_exact = device, "deterministic" in engine.notes
        self.case = Zoned(problem, device, Wish(engines=(engine.index,), config=config), fill=fill)
        rows = list(zip(self.case.names, self.case.plan.slots, self.case.pointers))
        written = self.case.plan.layout.written
        self.ins = [(at, d.bytes) for i, (_, d, at) in enumerate(rows) if i not in written and d.bytes]
        outs = [row for i, row in enumerate(rows) if i in written and row[1].bytes]
        self.outs = [(at, d.bytes) for _, d, at in outs]
        self.descs = [problem.operands[name] for name, _, _ in outs]
        blended = {o for o, (_, beta) in problem.op.blends.items() if problem.op.scalars.get(beta, 0.0)}
        for name, d, at in outs:
            if name not in problem.op.keeps | blended:
                device.memset(at, 0xFF, d.bytes)
        self.fresh, self.sets = self._copies(self.outs), [self._copies(self.ins)]
        for seed, (name, d, at) in enumerate(rows):
            if (at, d.bytes) in self.ins:
                fill_randomly(device, at, d, seed + 100, partial(problem.op.admit, name))
        self.sets.append(self._copies(self.ins))
        device.synchronize()                     # other streams read them
        self.bytes = sum(size for _, size in self.outs)
        self.kept = None

    def _copies(self, places):
        found = [self.device.alloc(size) for _, size in places]
        for buffer, (at, size) in zip(found, places):
            self.device.context.copy(buffer.ptr, at, size, 0)
        return found

    def give(self, which: int, stream):
        """The inputs of a set."""
        for buffer, (at, size) in zip(self.sets[which], self.ins):
            self.device.context.copy(at, buffer.ptr, size, stream)

    def clear(self, stream):
        for buffer, (at, size) in zip(self.fresh, self.outs):
            self.device.context.copy(at, buffer.ptr, size, stream)
        if size := self.case.plan.workspace_bytes:
            self.device.memset(self.case.workspace.ptr, self.case.fill, size, stream)

    def execute(self, stream):
        self.case.plan.execute(self.case.pointers, int(self.case.workspace.ptr), stream=stream)

    def populate(self, graph):
        self.case.plan.populate(graph, self.case.pointers, int(self.case.workspace.ptr))

    def update(self, graph):
        self.case.plan.update(graph, self.case.pointers, int(self.case.workspace.ptr))

    def keep(self, number: int, stream, of: int):
        """What came out, as number ``number`` of ``of``."""
        if self.kept is None or self.kept.bytes < of * self.bytes:
            self.kept = self.device.alloc(of * self.bytes)
        to = self.kept.ptr + number * self.bytes
        for at, size in self.outs:
            self.device.context.copy(to, at, size, stream)
            to += size

    def found(self, count: int, stream) -> np.ndarray:
        """What was kept, a row each. Waits."""
        rows = self.device.copy_out(self.kept.ptr, np.empty((count, self.bytes), np.uint8), stream)
        self.device.synchronize(stream)
        return rows

    def wants(self, stream) -> np.ndarray:
        """What comes out of each set of inputs, run alone."""
        for which in range(2):
            self.give(which, stream), self.clear(stream), self.execute(stream)
            self.keep(which, stream, 2)
            self.device.synchronize(stream)
        return self.found(2, stream)

    def other(self, rows, wants) -> list[int]:
        """The numbers of the rows that are not as wanted: in turns of the first set and of the second."""
        if self.is_exact:
            return [i for i, row in enumerate(rows) if not np.array_equal(row, wants[i % 2])]
        wants = [self._values(want) for want in wants]
        return [i for i, row in enumerate(rows) if not all(
            np.allclose(got, want, rtol=0, atol=NEAR * np.abs(want).max(initial=0), equal_nan=True)
            for got, want in zip(self._values(row), wants[i % 2]))]

    def _values(self, row) -> list:
        found, at = [], row.ctypes.data
        for d, (_, size) in zip(self.descs, self.outs):
            found.append(read(d, at))
            at += size
        return found


def places(problem, engine, device, config=None) -> list[Runs]:
    """The problem twice, beside memory of either fill."""
    return [Runs(problem, engine, device, config, fill) for fill in FILLS]


def beside(both) -> list[str]:
    """What was written beside their operands and workspaces."""
    return [text for runs in both for text in runs.case.beside()]


def repeated(both, load, stream, times: int) -> list:
    """The numbers of the runs whose bits are others than those of the first, half of the runs in either
    place; and what was written beside."""
    first, others, half = None, [], -(-times // 2)
    for runs, start, stop in zip(both, (0, half), (half, times)):
        per = max(1, min(half, ROOM // max(runs.bytes, 1)))
        runs.give(0, stream)
        for begin in range(start, stop, per):
            count = min(per, stop - begin)
            for i in range(count):
                load(begin + i), load(begin + i + 1)
                runs.clear(stream), runs.execute(stream), runs.keep(i, stream, per)
            rows = runs.found(count, stream)
            first = rows[0].copy() if first is None else first
            others += (begin + np.flatnonzero((rows != first).any(1))).tolist()
    return others + beside(both)


def delayed(both, spin, times: int, waits: bool = True) -> tuple[list, bool]:
    """(runs that are not as wanted, half of them in either place, and what was written beside; whether the
    two sets of inputs give other results). The inputs come late, on another stream; only events are between
    that, the run, and what reads its results. Not ``waits``: no event before the run."""
    producer, consumer, reader = (stream_of(both[0].device) for _ in range(3))
    wrong, half, (wants, again) = [], times // 2, (runs.wants(consumer) for runs in both)
    if both[0].other(again, wants):
        return ["the other place, alone"], True
    for part, runs in enumerate(both):           # whose inputs are now those of the second set
        ready, done, gone = (runs.device.create_event() for _ in range(3))
        for i in range(half):
            if i:
                producer.wait(gone)
            runs.clear(producer), spin(producer), runs.give(i % 2, producer)
            ready.record(producer)
            if waits:
                consumer.wait(ready)
            runs.execute(consumer)
            done.record(consumer)
            reader.wait(done)
            runs.keep(i, reader, half)
            gone.record(reader)
        runs.device.synchronize()
        wrong += [part * half + i for i in runs.other(runs.found(half, reader), wants)]
    return wrong + beside(both), not np.array_equal(*wants)
