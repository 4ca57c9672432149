"""Problems that are long in one dim, on sparse memory: what a block reads is filled when it is read.

A line has {n} where the long dim is. A slice is one index of it; of an operand whose dim is a multiple, as
many neighbours. What the blocks wrote is compared with the reference of those slices alone.
"""
from __future__ import annotations

import functools

import numpy as np

from cydnn import plan
from cydnn.bench import graph_of
from cydnn.device.ptx.arena import Arena, lazy
from cydnn.device.ptx.memory import CHANGES, GLOBAL, WRITTEN
from cydnn.heuristics import Wish
from cydnn.ops.problem import Problem
from cydnn.steps import Launch
from support.check.compare import compare, tolerance


class Place:
    """An operand in memory: where it begins, its long axis (None: it has none), neighbours of a slice."""

    def __init__(self, name, memory, desc, count):
        self.name, self.memory, self.ptr, self.desc = name, memory, memory.ptr, desc
        self.axis = next((a for a, n in enumerate(desc.dims) if n >= count and n % count == 0), None)
        self.each = desc.dims[self.axis] // count if self.is_long else 1
        self.count = count if self.is_long else 1
        self.filled = lazy(self.count, np.bool_)

    @property
    def is_long(self) -> bool:
        return self.axis is not None

    def view(self, data) -> np.ndarray:
        """(slices, neighbours of one, the other dims)."""
        d, size, axis = self.desc, self.desc.dtype.bytes, self.axis or 0
        flat = data[self.ptr - GLOBAL:self.ptr - GLOBAL + d.bytes].view(d.dtype.numpy)
        long, step = (d.dims[axis], d.strides[axis]) if self.is_long else (1, 0)
        every = enumerate(zip(d.dims, d.strides))
        rest = [each for a, each in every if a != axis or not self.is_long]
        dims, strides = zip((long // self.each, step * self.each), (self.each, step), *rest)
        return np.lib.stride_tricks.as_strided(flat, dims, [s * size for s in strides])

    def slices(self, address, width) -> np.ndarray:
        """Which slices accesses of so many bytes lie in."""
        inside = address[(address >= self.ptr) & (address < self.ptr + self.desc.bytes)] - self.ptr
        if not inside.size or not self.is_long:
            return np.zeros(min(inside.size, 1), np.int64)
        size = self.desc.dtype.bytes
        element = (inside[:, None] + np.arange(0, width, size)).ravel() // size
        index = element // self.desc.strides[self.axis] % self.desc.dims[self.axis]
        return np.unique(index // self.each)

    def dims(self, count) -> tuple:
        """Of the operand with so many slices."""
        return tuple(count * self.each if a == self.axis else n for a, n in enumerate(self.desc.dims))

    def take(self, data, numbers) -> np.ndarray:
        """Some slices, in the operand's order of dims."""
        if not self.is_long:
            return self.view(data)[0, 0]
        some = self.view(data)[numbers]
        return np.moveaxis(some.reshape(-1, *some.shape[2:]), 0, self.axis)


class SparseArena(Arena):
    """Global memory whose ``inputs`` are filled slice by slice as they are read."""

    def __init__(self, capacity=1 << 39):
        super().__init__(capacity)
        self.begin(None)

    def begin(self, admit):
        """Nothing is there, and nothing has been. ``admit``: of the op whose inputs are filled."""
        self.settle()
        self.forget_accesses()
        self.inputs, self.written, self.rng, self.admit = [], [], np.random.default_rng(0), admit

    def reach(self, c, address, width, verb, lanes, need=0):
        if verb in CHANGES:
            self.written.append((address.copy(), width))
        else:
            for place in self.inputs:
                self.fill(place, place.slices(address, width))
        return super().reach(c, address, width, verb, lanes, need)

    def fill(self, place, slices):
        new = slices[~place.filled[slices]]
        if new.size:
            view = place.view(self.data)
            raw = self.rng.uniform(-1, 1, (len(new), *view.shape[1:]))
            view[new] = place.desc.dtype.encode(self.admit(place.name, raw))
            size = place.desc.dtype.bytes
            place.view(self.state)[new] = np.frombuffer(
                bytes([WRITTEN] * size), place.desc.dtype.numpy)[0]
            place.filled[new] = True


@functools.lru_cache(maxsize=1)
def the_arena() -> SparseArena:
    """One for all: of several the addresses run out, and the last ones are smaller."""
    return SparseArena()


# Blocks at either end of a launch, by how many launches are behind it.
BEFORE = (1, 256, 256, 2048)


class Ends:
    """The blocks of one launch after the other: of a single one the first, the last and three random ones.
    Of the last of several the first and the last; those before it make what these read."""

    def __init__(self, launches: int):
        self.launches = self.left = launches

    def __call__(self, count: int) -> list:
        self.left -= 1
        if self.launches == 1:
            return some(count)
        each = BEFORE[min(self.left, len(BEFORE) - 1)]
        return [*range(min(each, count)), *range(max(count - each, 0), count)]


def some(count):
    """The first, the last and three random ones."""
    return [0, min(1, count - 1), max(count - 2, 0), count - 1,
            *np.random.default_rng(count).integers(0, count, 3)]


def long_problem(line: str, least: int):
    """(the problem with just more elements than that in its longest operand, its long dim), a multiple of
    eight for operands that are bits."""
    one, two = ([d.count for d in Problem.parse(line.format(n=n)).descs] for n in (64, 128))
    count = -(-64 * least // max(b - a for a, b in zip(one, two)) // 8) * 8 + 8
    return Problem.parse(line.format(n=count)), count


def execute(problem, count, engine, config, device, given=()) -> dict:
    """Run the sampled blocks; the operands by name. ``given``: values of some that are not long."""
    arena, op, scalars = the_arena(), problem.op, dict(problem.op.scalars)
    arena.begin(op.admit)
    device.arena = arena
    built = plan.build(graph_of(problem, scalars), device, Wish(engines=(engine.index,), config=config))
    device.blocks = Ends(sum(isinstance(step, Launch) for step in built.steps))
    memory = {d.name: device.alloc(d.bytes) for d in built.slots}
    places = {name: Place(name, m, problem.operands[name], count) for name, m in memory.items()}
    arena.inputs = [place for name, place in places.items() if name in {*op.reads, *op.keeps}]
    for place in arena.inputs:
        if not place.is_long:
            arena.fill(place, np.zeros(1, np.int64))
            if place.name in given:
                place.view(arena.data)[0] = given[place.name]
    workspace = device.alloc(built.workspace_bytes + 512)
    built.execute([memory[d.name].ptr for d in built.slots], workspace.ptr)
    plan.forget()
    return places


def run(line, problem, count, engine, config, device) -> list[str]:
    """The sampled blocks; what is wrong with what they wrote."""
    places = execute(problem, count, engine, config, device)
    outputs = [places[name] for name in problem.op.writes if name in places and places[name].is_long]
    return [f"{problem} {engine} {config or ''}: {text}"
            for text in check(line, problem, places, outputs, engine, device.arena)]


def check(line, problem, places, outputs, engine, arena):
    """What is wrong with the outputs."""
    scalars = dict(problem.op.scalars)
    slices = {p.name: np.unique(np.concatenate([p.slices(a, w) for a, w in arena.written])) for p in outputs}
    touched = np.unique(np.concatenate([*slices.values()]))
    for name, found in slices.items():
        if found[0] > 0 or found[-1] < places[name].count - 1:
            yield f"{name}: the first and the last slice must be written; got {found[0]} to {found[-1]}"
    small = Problem.parse(line.format(n=len(touched)))
    values = {p.name: np.full(p.dims(len(touched)), np.nan) for p in places.values()}
    for p in arena.inputs:
        if p.is_long:
            arena.fill(p, touched)
        values[p.name] = p.desc.dtype.decode(p.take(arena.data, touched))
    raw = small.op.evaluate(values, scalars)
    want, magnitude = small.op.blend(raw, values, scalars), engine.magnitude(small.op, values, scalars, raw)
    inner = small.op.inner_error(values, scalars, small.operands)
    for p in outputs:
        name, desc, mine = p.name, small.operands[p.name], p.take(arena.state, touched) != 0
        allowed = inner.get(name, 0.0) + tolerance(small, name, desc, want[name], magnitude[name], scalars,
                                                   None)
        got = p.desc.dtype.decode(p.take(arena.data, touched))
        report = compare(got[mine], want[name][mine], np.broadcast_to(allowed, mine.shape)[mine], desc)
        if not report.ok:
            yield f"{name}: {report.text}"
