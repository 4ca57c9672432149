"""The NumPy device: every op by its reference, on host memory. The oracle of all tests,
and the default where there is no GPU.

Pointers are addresses of host buffers, so that a program runs here by changing one word.
A call runs at once; streams are ignored.
"""
from __future__ import annotations

import ctypes

import numpy as np

from .. import _core
from ..given import several, shown
from ..steps import Scalar
from ..status import AllocFailed, BadParam, CydnnError
from .buffer import HOST, Buffer, byte, count, filled, packed, whole
from .facts import DeviceFacts

ALIGNMENT = 16                                   # of a workspace, on every device


class HostBuffer(Buffer):
    """``bytes`` bytes of host memory, aligned to 256. Keeps its memory alive."""
    place = HOST

    def __init__(self, size_bytes: int):
        self.bytes = whole(size_bytes)
        try:
            self._store = np.empty(self.bytes + 256, np.uint8)
        except (MemoryError, ValueError):
            raise AllocFailed(f"alloc: {self.bytes} bytes could not be had on the host") from None
        self.ptr = -(-self._store.ctypes.data // 256) * 256

    def _array(self) -> np.ndarray:
        """The memory, which outlives ``free`` with it."""
        ptr, size, _ = self.__cydnn_memory__()
        start = ptr - self._store.ctypes.data
        return self._store[start:start + size]

    @property
    def __array_interface__(self):
        return {"shape": (self.bytes,), "typestr": "|u1", "data": self._array(), "version": 3}

    def __dlpack__(self, **how):
        return self._array().__dlpack__(**how)

    def __dlpack_device__(self):
        return self._store.__dlpack_device__() if self.ptr else (1, 0)

    def free(self):
        self._store, self.ptr = None, 0


def memory(address: int, size_bytes: int) -> np.ndarray:
    """Host memory as an array of bytes."""
    if not size_bytes:
        return np.empty(0, np.uint8)
    return np.frombuffer((ctypes.c_uint8 * size_bytes).from_address(address), np.uint8)


def view(desc, address: int) -> np.ndarray:
    """The tensor at ``address`` in its storage type, with its strides. Writable.
    Of types that have whole bytes."""
    flat = memory(address, desc.bytes).view(desc.dtype.numpy)
    strides = [s * desc.dtype.bytes for s in desc.strides]
    return (np.lib.stride_tricks.as_strided(flat, desc.dims, strides) if desc.count
            else np.empty(desc.dims, desc.dtype.numpy))


def _places(dims, starts) -> np.ndarray:
    """The sum of an entry of ``starts`` for each dim, for all elements."""
    if 0 in dims:                                # beside a dim of 0 another may have any size
        return np.empty(dims, np.int64)
    index = np.zeros(dims, np.int64)
    for axis, steps in enumerate(starts):
        index += steps.reshape([-1 if a == axis else 1 for a in range(len(dims))])
    return index


def _bits(desc) -> np.ndarray:
    """The number of the bit of each element of a packed tensor."""
    return _places(desc.dims, [np.arange(n) * stride for n, stride in zip(desc.dims, desc.strides)])


def _taken(dtype, flat: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The values of some elements of an array of bytes."""
    if dtype.bits >= 8:
        return dtype.decode(flat.view(dtype.numpy)[index])
    return (flat[index >> 3] >> (index & 7) & 1).astype(np.int64)


def _put(dtype, flat: np.ndarray, index: np.ndarray, stored: np.ndarray):
    """Store some elements in an array of bytes; packed neighbours keep their bits."""
    if dtype.bits >= 8:
        flat.view(dtype.numpy)[index] = stored
        return
    np.bitwise_and.at(flat, index >> 3, np.uint8(255) ^ (np.uint8(1) << (index & 7).astype(np.uint8)))
    np.bitwise_or.at(flat, index >> 3, stored.astype(np.uint8) << (index & 7).astype(np.uint8))


def read(desc, address: int) -> np.ndarray:
    """The values of the tensor at ``address``, as float64 or int64."""
    if desc.dtype.bits >= 8:
        return desc.dtype.decode(view(desc, address))
    return _taken(desc.dtype, memory(address, desc.bytes), _bits(desc))


def write(desc, address: int, values: np.ndarray):
    """Round values to the type of the tensor at ``address`` and store them."""
    if not desc.count:
        return
    stored = desc.dtype.encode(values)
    if desc.dtype.bits >= 8:
        view(desc, address)[...] = stored
        return
    _put(desc.dtype, memory(address, desc.bytes), _bits(desc).ravel(),
         np.broadcast_to(stored, desc.dims).ravel())


class Ragged:
    """A ragged tensor at ``address``. ``offsets``: where in it each batch begins, in elements, and where the
    last one ends. An element that lies at or behind the next batch's begin is not there.

    ``room``: bytes that the memory has; None where nothing is known of it.
    """

    def __init__(self, label: str, desc, address: int, offsets: np.ndarray, room=None):
        self.desc = desc
        inner = [np.arange(n) * stride for n, stride in zip(desc.dims[1:], desc.strides[1:])]
        index, ends = _places(desc.dims, [offsets[:-1], *inner]), offsets[1:]
        self.there = index < ends.reshape(-1, *[1] * (desc.rank - 1))
        self.index = index[self.there]
        size = desc.dtype.bytes_of(int(self.index.max(initial=-1)) + 1)
        if self.index.min(initial=0) < 0:
            raise BadParam(f"{label}: ragged offsets must be >= 0; got {shown(offsets.tolist())}")
        if room is not None and size > room:
            raise BadParam(f"{label}: must have at least {size} bytes, as far as its ragged offsets "
                           f"{shown(offsets.tolist())} reach; got {room}")
        self.flat = memory(address, size)

    def read(self) -> np.ndarray:
        """The values as float64 or int64; 0 for what is not there."""
        taken = _taken(self.desc.dtype, self.flat, self.index)
        values = np.zeros(self.desc.dims, taken.dtype)
        values[self.there] = taken
        return values

    def write(self, values: np.ndarray):
        """Round and store the values that are there."""
        stored = np.broadcast_to(self.desc.dtype.encode(values), self.desc.dims)
        _put(self.desc.dtype, self.flat, self.index, stored[self.there])


def place_of(x, size_bytes: int, what: str) -> int:
    """The host address of memory of at least so many bytes, or of which nothing is said."""
    found = _core.memory_of(x)
    if found.place not in (None, HOST):
        raise BadParam(f"{what}: must be memory of the host; got memory of {found.place}")
    if not found.address and size_bytes:
        raise BadParam(f"{what}: memory must not be null; got 0")
    if found.bytes is not None and found.bytes < size_bytes:
        raise BadParam(f"{what}: must have at least {size_bytes} bytes; got {found.bytes}")
    return found.address


class NumpyDevice:
    """Runs plans through the references. ``device="numpy"``."""
    name = "numpy"
    context = None

    def __init__(self):
        self.facts = DeviceFacts(kind="numpy", name="numpy", sm=0, sms=1,
                                 smem_bytes=0, l2_bytes=0, bandwidth_gbs=10.0)

    def __repr__(self):
        return "NumpyDevice()"

    def __reduce__(self):
        from . import get                        # the room's own, which knows this one
        return get, (self.name,)

    def alloc(self, size_bytes: int) -> HostBuffer:
        return HostBuffer(size_bytes)

    def copy_in(self, ptr, array: np.ndarray, stream=0):
        """Copy a NumPy array to ``ptr``."""
        values = packed(array)
        memory(place_of(ptr, values.size, "copy_in"), values.size)[:] = values

    def copy_out(self, ptr, array: np.ndarray, stream=0) -> np.ndarray:
        """Fill a C-contiguous NumPy array from ``ptr``; returns it."""
        values = filled(array)
        values[:] = memory(place_of(ptr, values.size, "copy_out"), values.size)
        return array

    def memset(self, ptr, value: int, size_bytes: int, stream=0):
        size = count(size_bytes)
        memory(place_of(ptr, size, "memset"), size)[:] = byte(value)

    def synchronize(self, stream=0):
        """Nothing to wait for."""

    def create_stream(self) -> int:
        return 0

    def compile(self, plan) -> "NumpyExecutable":
        return NumpyExecutable(plan)


def _as_math(op, value: float) -> float:
    """A number as a kernel gets it: rounded to f32 where that is the math type. Whole numbers stay exact."""
    if isinstance(value, int):
        return value
    return float(np.float32(value)) if op.math == "f32" else value


def _between(at: int, start: int, period) -> bool:
    """Two tensors with a common period share no byte: each lies where the other has gaps."""
    if period is None:
        return False
    length, run, other_run = period
    return (at - start) % length >= other_run and (at - start) % length + run <= length


class NumpyExecutable:
    """A plan on host memory; ``execute`` has the arguments, checks and refusals of a CUDA tape."""

    def __init__(self, plan):
        self.plan, self.operands = plan, _core.Operands(plan.operands)
        self.workspace_bytes = plan.workspace_bytes
        self.numbers = _core.Numbers([default for _, default in plan.scalars],
                                     [key for key, _ in plan.scalars])

    def execute(self, pointers, scalars=None, workspace=0, workspace_bytes=0, stream=0):
        values = self.numbers.given(scalars)
        memories, space = self._given(pointers, workspace, workspace_bytes)
        with np.errstate(all="ignore"):          # inf and NaN are results, whatever the program asks of NumPy
            for step in self.plan.steps:
                self._run(step, memories, values, space.address)

    def _given(self, pointers, workspace, workspace_bytes) -> tuple:
        """(Memory of each operand, that of the workspace) of a call, with every check."""
        pointers = tuple(several("execute: pointers", pointers, "pointers"))
        memories, space = self.operands.memories(pointers), _core.scratch_of(workspace, workspace_bytes)
        for row, memory_ in zip(self.operands.rows, memories):
            if memory_.address and (row.bytes or row.is_ragged):
                self._reach(row.name, memory_, row.bytes or 1)
        self._check([m.address for m in memories])
        if self.workspace_bytes:
            self._check_workspace(memories, space, workspace_bytes)
        return memories, space

    def _alignment(self, i: int) -> int:
        """Bytes that the address of an operand must be a multiple of: what is promised of it beyond an
        element is for kernels."""
        return self.plan.slots[i].dtype.bytes_of(1)

    def _reach(self, name: str, memory_, size_bytes: int):
        """Refuse memory that this device cannot reach."""
        if memory_.place not in (None, HOST):
            raise BadParam(f"{name}: must be memory of the host, as the device is numpy; got memory of "
                           f"{memory_.place}: copy it to the host first")

    def _check_workspace(self, memories, space, workspace_bytes):
        need, base = self.workspace_bytes, space.address
        if not base or workspace_bytes < need:
            raise BadParam(f"workspace: it must have at least {need} bytes; "
                           f"got {workspace_bytes if base else 'a null pointer'}")
        if base % ALIGNMENT:
            raise BadParam(f"workspace: must be aligned to {ALIGNMENT} bytes; got {base:#x}")
        self._reach("workspace", space, need)
        for row, memory_ in zip(self.operands.rows, memories):
            at = memory_.address
            if at and row.bytes and at < base + need and base < at + row.bytes:
                raise BadParam(f"{row.name}: must not overlap workspace; got {row.name} = {at:#x} + "
                               f"{row.bytes} bytes, workspace = {base:#x} + {need} bytes")

    def _check(self, addresses):
        plan, rows = self.plan, self.operands.rows
        for i, (row, address) in enumerate(zip(rows, addresses)):
            if not address and i not in plan.optional:
                raise BadParam(f"{row.name}: pointer must not be null; got 0")
            size = self._alignment(i)
            if address % size:
                raise BadParam(f"{row.name}: pointer must be aligned to {size} bytes; got {address:#x}")
        for i in plan.written:
            for j, (other, start) in enumerate(zip(rows, addresses)):
                mine, at = rows[i], addresses[i]
                if (i == j or not (mine.bytes and other.bytes)
                        or (at == start and (i, j) in plan.inplace)
                        or (at == start and (j, i) in plan.inplace)
                        or start - at == plan.inside.get((i, j))):
                    continue
                if (at < start + other.bytes and start < at + mine.bytes
                        and not _between(at, start, plan.periods.get((i, j)))):
                    raise BadParam(
                        f"{mine.name}: output must not overlap {other.name}; "
                        f"got {at:#x} with {mine.bytes} bytes and {start:#x} with {other.bytes} bytes")

    def _run(self, step, memories, values, base):
        try:
            self._call(step, memories, values, base)
        except (MemoryError, ValueError) as error:           # NumPy's own; the references work in float64
            if isinstance(error, CydnnError) or (isinstance(error, ValueError)
                                                 and "array is too big" not in str(error)):
                raise
            raise AllocFailed(f"{step.op.name}: the host must have the memory that the reference needs; "
                              f"got: {error}") from None

    def _call(self, step, memories, values, base):
        """One op: decode what it reads, run the reference, encode what it writes."""
        op = step.op
        written = {name: step.operands[name] for name in op.writes if step.operands.get(name)}
        if not any(desc.count for desc, *_ in written.values()):
            return                                        # a reference may pad what is empty, at any cost
        at = lambda p: (base if p.uid == -1 else memories[p.uid].address) + p.addend
        ragged = lambda desc, p, offsets: Ragged(self.plan.slots[p.uid].label, desc, at(p), read(
            offsets[0], at(offsets[1])).reshape(-1), memories[p.uid].bytes)
        scalars = {name: _number(op, source, values, at) for name, source in step.scalars.items()}
        arrays = {}
        for name, given in step.operands.items():
            if given is None:
                continue
            is_read = (name in op.reads or name in op.keeps
                       or scalars.get(op.blends.get(name, (0, 0))[1], 0.0) != 0)
            get = lambda d, source, *offsets: (
                _given(d, values[source.key]) if isinstance(source, Scalar)
                else np.broadcast_to(np.nan, d.dims) if not is_read
                else ragged(d, source, *offsets).read() if offsets
                else view(d, at(source)) if name in op.shared else read(d, at(source)))
            arrays[name] = get(*given) if name not in op.variadic else tuple([get(*one) for one in given])
        results = op.evaluate(arrays, scalars)
        results = {name: written[name][0].dtype.settle(value) if name in written and value is not None
                   else value for name, value in results.items()}
        for name, value in op.blend(results, arrays, scalars).items():
            if name in written:
                desc, pointer, *offsets = written[name]
                if offsets:
                    ragged(desc, pointer, *offsets).write(value)
                else:
                    write(desc, at(pointer), value)


def _given(desc, number):
    """A tensor of one element whose value is a number."""
    return np.full(desc.dims, desc.dtype.round(np.array(number)))


def _number(op, source, values, at):
    """A number of an op: given at execute, in memory, or fixed."""
    if isinstance(source, Scalar):
        return _as_math(op, values[source.key])
    if not isinstance(source, tuple):
        return _as_math(op, source)
    desc, pointer = source
    return _as_math(op, read(desc, at(pointer)).reshape(-1)[0].item())
