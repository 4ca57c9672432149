"""Tensors too large to be looked at on the host: their slices repeat with a prime period, so must those of
the outputs, bit for bit; the first period is compared with float64. An offset that loses its upper bits, or a
part that is left out, breaks the period. Sums over all slices are those of one period, times how often it is
there.
"""
from __future__ import annotations

import re
import struct
from dataclasses import dataclass

import numpy as np

from cydnn import _core, plan as plans
from cydnn.bench import graph_of
from cydnn.device.numpy import read, write
from cydnn.heuristics import ANYTHING, Wish, best
from cydnn.ops import Problem
from cydnn.status import NotSupported

from ..draw import alone
from ..guard.buffers import GUARD, Space, fill_of
from .compare import compare, tolerance
from ..draw.large_lines import SIZES
from .matrix import Prepared, plain

PERIOD, SHARE = 1 << 16, 0.9                     # elements at least; of the memory at most
SUMMED = {"conv_wgrad": ("dw",), "conv_bgrad": ("db",), "batch_norm_bwd": ("dscale", "dbias"),
          "gen_stats": ("sum", "sq_sum"), "reduction": ("y",)}
OVER_ALL = {*SUMMED, "batch_norm_training"}      # ops whose outputs follow from all slices
EXACT = ("conv_fprop", "conv_dgrad", "matmul", "pooling_bwd")    # of small whole numbers, in any order
LIMIT = re.compile(r"2\^3[0-2]|2147\d{6}")       # of an engine, in its own words
APART = """.version 7.0
.target sm_75
.address_size 64
.visible .entry apart(.param .u64 apart_a, .param .u64 apart_b, .param .u64 apart_n, .param .u64 apart_told)
{ .reg .b64 %a, %b, %n, %i, %step, %t, %o, %told; .reg .b32 %x, %y, %z; .reg .b16 %p, %q; .reg .pred %w;
ld.param.u64 %a, [apart_a]; ld.param.u64 %b, [apart_b]; ld.param.u64 %n, [apart_n];
ld.param.u64 %told, [apart_told];
mov.u32 %x, %ctaid.x; mov.u32 %y, %ntid.x; mov.u32 %z, %tid.x; mul.wide.u32 %i, %x, %y;
cvt.u64.u32 %t, %z; add.u64 %i, %i, %t; mov.u32 %x, %nctaid.x; mul.wide.u32 %step, %x, %y;
L: setp.ge.u64 %w, %i, %n; @%w bra DONE; shl.b64 %o, %i, 1;
add.u64 %t, %a, %o; ld.global.u16 %p, [%t]; add.u64 %t, %b, %o; ld.global.u16 %q, [%t];
setp.eq.u16 %w, %p, %q; @%w bra NEXT;
atom.global.add.u64 %t, [%told], 1; atom.global.min.u64 %t, [%told+8], %i;
NEXT: add.u64 %i, %i, %step; bra L;
DONE: ret; }
"""


def prime(least: int) -> int:
    number = max(least, 3) | 1
    while any(number % by == 0 for by in range(3, int(number ** 0.5) + 1, 2)):
        number += 2
    return number


@dataclass
class Large:
    """A line with {n} slices, just as many that its largest operand has ``least`` elements or the first
    number above; below it where ``is_below``. Ops over all slices have whole periods."""
    line: str
    least: int
    is_below: bool = False

    def __post_init__(self):
        one, two = (Problem.parse(self.line.format(n=n)) for n in (1, 2))
        per = max(b.count - a.count for a, b in zip(one.descs, two.descs))
        self.period = prime(-(-min(PERIOD, self.least // 3) // per))
        step = self.period if one.op.name in OVER_ALL and not self.is_free(one) else 1
        times = self.least // (per * step) if self.is_below else -(-self.least // (per * step))
        self.count = times * step
        self.times = times if step > 1 else 1
        assert self.count >= 2 * self.period, "at least two periods"
        self.problem = Problem.parse(self.line.format(n=self.count))
        self.small = Problem.parse(self.line.format(n=self.period))

    def is_free(self, one) -> bool:
        """A reduction that keeps the slices apart."""
        if one.op.name != "reduction":
            return False
        return Problem.parse(self.line.format(n=2)).operands["y"].dims[0] == 2

    def axis(self, name) -> int | None:
        """The long axis of an operand, the first or the second; None where it has none."""
        large, small = self.problem.operands[name], self.small.operands[name]
        return next((a for a, n in enumerate(large.dims) if n != small.dims[a]), None) if large else None

    def is_long(self, name) -> bool:
        return self.axis(name) is not None

    def step(self, name) -> int:
        """Bytes of a slice."""
        d, axis = self.problem.operands[name], self.axis(name)
        apart = d.extent if axis == 0 else d.strides[0]
        assert d.strides[axis] * d.dims[axis] == apart and d.is_dense, "slices lie one behind the other"
        return d.strides[axis] * d.dims[axis] // self.count * d.dtype.bytes

    def rows(self, name, problem) -> list:
        """[(where the slices of an operand begin, their bytes)]: once, or for each index of the axis outside
        of the long one."""
        d = problem.operands[name]
        if not self.axis(name):
            return [(0, d.bytes)]
        each = d.strides[0] * d.dtype.bytes
        return [(each * i, each) for i in range(d.dims[0])]

    def bytes(self) -> int:
        return sum(d.bytes + 2 * GUARD for d in self.problem.descs)


def of_size(line: str, size: str) -> Large:
    """The problem of one of SIZES."""
    return Large(line, SIZES[size], is_below=size == "2^31-1")


def takers(problem, facts) -> list:
    """The engines that take it; None for what is made of others; nothing where that is refused with the
    number that is the most."""
    found = alone.takers(alone.match(problem), facts)
    if found:
        return found
    try:
        best(graph_of(problem), facts)
    except NotSupported as error:
        assert LIMIT.search(str(error).partition("\n")[2]), error
        return []
    return [None]


# ---- Memory ----

def spread(device, at: int, have: int, size: int):
    """The first ``have`` bytes again and again."""
    if device.context is None:
        whole = np.resize(device.copy_out(at, np.empty(have, np.uint8)), size)
        return device.copy_in(at, whole)
    while have < size:
        part = min(have, size - have)
        device.context.copy(at + have, at, part, 0)
        have += part


def apart(device, at: int, shift: int, size: int) -> tuple[int, int]:
    """(how many pairs of bytes differ from those ``shift`` bytes behind, the first one's number)."""
    if device.context is None:
        raw = device.copy_out(at, np.empty(size, np.uint8))
        other = np.flatnonzero(raw[shift:] != raw[:-shift])
        return len(other), int(other[0]) // 2 if len(other) else -1
    told = device.alloc(16)
    device.copy_in(told, np.array([0, 2 ** 64 - 1], np.uint64))
    tape = _core.Tape(device.context, [], problem="a comparison")
    tape.launch(device.context.load(APART.encode(), "apart"), 2112, 256, 0,
                struct.pack("<4Q", at, at + shift, (size - shift) // 2, told.ptr))
    tape.execute(())
    count, first = device.copy_out(told, np.empty(2, np.uint64)).tolist()
    return count, first


class Operand(Space):
    """An operand between guard zones; as poison, or as the values of the first period, repeated."""

    def __init__(self, device, large: Large, name: str, fill: int, values=None):
        self.large, self.name = large, name
        self.desc, self.small = large.problem.operands[name], large.small.operands[name]
        super().__init__(device, self.desc.bytes, fill=fill)
        if values is not None:
            raw = np.zeros(self.small.bytes, np.uint8)
            write(self.small, raw.ctypes.data, values)
            device.copy_in(self.ptr, raw)
            if large.is_long(name):
                assert large.axis(name) == 0, "one row"
                spread(device, self.ptr, self.small.bytes, self.desc.bytes)

    def first(self) -> np.ndarray:
        """The values of the first period, or all."""
        raw = np.empty(self.small.bytes, np.uint8)
        for (at, _), (to, size) in zip(*(self.large.rows(self.name, p)
                                         for p in (self.large.problem, self.large.small))):
            raw[to:to + size] = self.device.copy_out(self.ptr + at, np.empty(size, np.uint8))
        return read(self.small, raw.ctypes.data)

    def strays(self):
        """What is wrong with the zones and the period."""
        if beside := self.changed_beside():
            yield f"{self.name}: {beside} bytes written beside it"
        if not self.large.is_long(self.name):
            return
        step = self.large.step(self.name)
        for at, size in self.large.rows(self.name, self.large.problem):
            count, first = apart(self.device, self.ptr + at, step * self.large.period, size)
            if count:
                slice_ = 2 * first // step + self.large.period
                yield (f"{self.name}: {count} pairs of bytes are not those a period before, the first in "
                       f"slice {slice_} of {self.large.count}")


def run(large: Large, engine, device, seed=0, meddle=lambda operands: None) -> list[str]:
    """What is wrong with an engine's outputs; with those of whatever is chosen, for None. ``meddle``: changes
    them behind the run."""
    small, op = large.small, large.problem.op
    made = Prepared(small, seed, plain(op), exact=op.name in EXACT)
    fill = fill_of(f"{large.problem} {engine}")
    operands = {n: Operand(device, large, n, fill,
                           made.values[n] if n in op.reads or n in made.reads_old else None)
                for n, d in large.problem.operands.items() if d is not None}
    wish = Wish(engines=(engine.index,)) if engine else ANYTHING
    built = plans.build(graph_of(large.problem, made.scalars), device, wish)
    space = Space.for_plan(built, fill)
    built.execute([operands[t.name].ptr for t in built.slots], space.ptr)
    device.synchronize()
    plans.forget()
    meddle(operands)
    texts = [text for operand in operands.values() for text in operand.strays()]
    if beside := space.changed_beside():
        texts.append(f"{beside} bytes written beside the workspace")
    for name in (n for n in op.writes if n in operands):
        want, allowed = _wanted(large, made, name, built.choice.engine)
        report = compare(operands[name].first(), want, allowed, small.operands[name])
        texts += [] if report.ok else [f"{name}: {report.text}"]
    return texts


def _wanted(large, made, name, engine) -> tuple:
    """(values of the first period or of a sum over all, their absolute tolerance)."""
    op, desc = large.problem.op, large.small.operands[name]
    if op.name not in OVER_ALL:
        return made.want[name], made.allowed(name, desc, engine)
    is_sum = name in SUMMED.get(op.name, ()) and not large.is_long(name) and _adds(op)
    times = large.times if is_sum else 1
    magnitude = engine.magnitude(op, made.arrays, made.scalars, made.raw)[name]
    return made.want[name] * times, times * made.inner.get(name, 0.0) + tolerance(
        large.problem, name, desc, made.want[name] * times, magnitude * times, made.scalars,
        made.values[name])


def _adds(op) -> bool:
    return getattr(op, "mode", "add") in ("add", "norm1") or op.name != "reduction"


def fits(large: Large, total_bytes: int) -> bool:
    return large.bytes() < SHARE * total_bytes
