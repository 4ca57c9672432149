"""Small problems whose tensors reach far: between two of their elements there are more than 2^32 others.

``stretched`` gives a problem in which an axis of every operand that its engine takes so has such a stride.
All blocks run, on sparse memory, and every element is compared.
"""
from __future__ import annotations

import functools
import itertools
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from cydnn import kernels, plan
from cydnn.bench import trial
from cydnn.device.ptx import PtxDevice
from cydnn.device.ptx.arena import Arena
from cydnn.device.ptx.memory import CHANGES, GLOBAL, WRITTEN
from cydnn.ops.problem import Problem
from cydnn.status import CydnnError
from cydnn.tensor import TensorDesc
from support.draw import extremes
from support.check import matrix

FAR = 2 ** 32                                    # elements from the first to the last, at least
STEPS = (0, 2 ** 31)                             # elements from one to the next, at least
GRAIN = 1024                                     # elements; more than a vector or a box has
MOST_BYTES = 1 << 39                             # of all operands together: half of the memory


class FarArena(Arena):
    """Global memory of 2^40 bytes, which knows who wrote where, and which kernels came to the far half of a
    tensor."""

    def __init__(self, capacity: int = 1 << 40):
        super().__init__(capacity)
        self.changed, self.far, self.reached = [], {}, set()             # far: name -> (first, end)

    def reach(self, c, address, width, verb, lanes, need=0):
        if verb in CHANGES:
            self.changed.append((address.copy(), width))
        for name, (first, end) in self.far.items():
            if ((address >= first) & (address < end)).any():
                self.reached.add((c.code_of.program.name, name))
        return super().reach(c, address, width, verb, lanes, need)


class FarBuffer:
    """What ``buffers.Guarded`` is, for a tensor of which only the elements are in memory."""

    def __init__(self, device, desc):
        self.device, self.desc, self.buffer = device, desc, device.alloc(desc.bytes)
        self.ptr = self.buffer.ptr
        self.before = self._elements()

    def _of(self, array) -> np.ndarray:
        """The bytes of every element."""
        size, start = self.desc.dtype.bytes, self.ptr - GLOBAL
        return np.lib.stride_tricks.as_strided(array[start:], (*self.desc.dims, size),
                                               [*(s * size for s in self.desc.strides), 1])

    def _elements(self) -> np.ndarray:
        return np.ascontiguousarray(self._of(self.device.arena.data))

    def write(self, values):
        raw = np.ascontiguousarray(np.broadcast_to(self.desc.dtype.encode(values), self.desc.dims))
        self._of(self.device.arena.data)[...] = raw.view(np.uint8).reshape(*self.desc.dims, -1)
        self._of(self.device.arena.state)[...] = WRITTEN
        self.before = self._elements()

    def read(self):
        raw = self._elements()
        values = raw.reshape(-1).view(self.desc.dtype.numpy).reshape(self.desc.dims)
        return self.desc.dtype.decode(values), raw

    def own_bits(self, with_spare=True):
        return np.uint8(0xFF)

    def stray_bytes(self, raw) -> int:
        """How many bytes of the allocation were written that are none of the tensor's elements."""
        size, mine = self.desc.dtype.bytes, np.zeros(1, np.int64)
        for n, stride in zip(self.desc.dims, self.desc.strides):
            mine = (mine[:, None] + np.arange(n, dtype=np.int64) * stride * size).ravel()
        found = [(a[:, None] + np.arange(w)).ravel() - self.ptr for a, w in self.device.arena.changed]
        found = np.unique(np.concatenate(found or [mine]))
        found = found[(found >= 0) & (found < self.desc.bytes)]
        return int((~np.isin(found // size * size, mine)).sum())


@contextmanager
def reaching(problem):
    """The matrix keeps those operands of the problem that are far in such buffers."""
    plain, turn = matrix.Guarded, itertools.cycle(problem.tensors)

    def buffer_of(device, desc, shift, fill):
        name = next(turn)
        if desc.extent <= FAR or desc.dtype.bits < 8:
            return plain(device, desc, shift, fill)
        made = FarBuffer(device, desc)
        device.arena.far[name] = made.ptr + FAR * desc.dtype.bytes, made.ptr + desc.bytes
        return made
    matrix.Guarded = buffer_of
    try:
        yield
    finally:
        matrix.Guarded = plain
        plan.forget()


class Stretched(NamedTuple):
    """A case whose operands ``far`` are."""
    case: trial.TrialCase
    far: tuple

    def run(self, device, numbers=matrix.blended) -> tuple:
        """(what is wrong, the far operands that the kernel came to). ``numbers``: of an op, its by-value
        ones."""
        arena, (name, problem, engine, config) = device.arena, self.case
        arena.changed.clear(), arena.far.clear(), arena.reached.clear()
        with reaching(problem):
            outcome = matrix.run(problem, device, 0, [engine], config=config, scalars=numbers(problem.op))
        return outcome.findings, {operand for kernel, operand in arena.reached if kernel == name}


def device_for(name: str) -> PtxDevice:
    """With far memory; of the target that has this kernel."""
    target = trial.serving_target(name)
    device = PtxDevice("sm_90a" if target == "sm_90" else target)
    device.arena = _arena()
    device.arena.settle()
    device.arena.forget_accesses()
    return device


@functools.lru_cache(maxsize=1)
def _arena() -> FarArena:
    """One for all: what is mapped is much."""
    return FarArena()


# ---- Problems ----

def axes_of(desc) -> list:
    """Axes of more than one element, from the outermost on."""
    return sorted((a for a in range(desc.rank) if desc.dims[a] > 1 and desc.strides[a]),
                  key=lambda a: -desc.strides[a])


def stretch(desc, depth: int, step: int = 0):
    """The tensor with its axis number ``depth`` from outside on, and those outside of it, so far apart that
    the last element is FAR behind the first, and the next one ``step`` or more; None where there is none.
    Strides stay what they were modulo GRAIN, and what could be seen as one axis still can."""
    axes = axes_of(desc)
    if len(axes) <= depth or desc.dtype.bits < 8 or desc.is_overlapping:
        return None
    strides, axis = list(desc.strides), axes[depth]
    more = max(-(-(FAR + GRAIN) // ((desc.dims[axis] - 1) * GRAIN)) * GRAIN, step + GRAIN if step else 0)
    for each in reversed(axes[:depth + 1]):
        strides[each] += more
        more *= desc.dims[each]
    return desc.replace(strides=tuple(strides))


def stretched(name: str, line: str, facts, depth: int, step: int = 0):
    """The problem with as many of its operands far as an engine takes that launches the kernel; None where
    it takes none."""
    problem, found, best = Problem.parse(line), {}, None
    for operand, d in problem.operands.items():
        far = stretch(d, depth, step) if isinstance(d, TensorDesc) else None
        if far is None or far.bytes + sum(d.bytes for d in found.values()) > MOST_BYTES:
            continue
        try:
            tried = {**found, operand: far}
            made = Problem(problem.op, {**problem.operands, **tried}, problem.alignment)
            case, _ = next(trial.of_problem(name, made, facts), (None, 0))
        except CydnnError:                       # the op wants another stride there
            continue
        if case:
            found, best = tried, Stretched(case, tuple(tried))
    return best


def of_lines(name: str, facts, depth: int, step: int = 0, more=()) -> list:
    """Of each line of the kernel's contract, and of more, the problem with most operands far."""
    found = (stretched(name, line, facts, depth, step) for line in (*kernels.get(name).problems, *more))
    return [s for s in found if s and all(d.count for d in s.case.problem.descs)]


def every_stretched(name: str, facts) -> list:
    """All of them, one axis after the other, with as many configurations as a contract's problems have; and
    of batch norm those whose columns have many digits."""
    known = map(Problem.parse, kernels.get(name).problems)
    more = dict.fromkeys(str(new) for problem in known for new in extremes.turned(problem))
    found = {str(s.case.problem): s for depth, step in itertools.product(range(4), STEPS)
             for s in of_lines(name, facts, depth, step, more)}
    return [Stretched(case, s.far) for line, s in found.items() for case in trial.cases(name, facts, [line])]


def most_stretched(name: str, facts, depth: int):
    """Of the lines of the kernel's contract the one with the most far operands, of these the smallest."""
    size = lambda s: (-len(s.far), s.case.problem.flops + s.case.problem.bytes)
    return min(of_lines(name, facts, depth), key=size, default=None)
