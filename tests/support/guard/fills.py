"""Every call of a plan on the NumPy device, in every test: on copies of its operands and its workspace,
between zones of 64 KiB, twice: all around them, and the workspace, is 0xFF, then 0xA5. No zone changes, and
both calls give the same bits, or else the call fails: something was written or read outside, or read before
it was set.

On an interpreter the device itself does that: 512 dead bytes around all memory, and bytes that nobody has
set.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cydnn import _core
from cydnn.device.cuda import CudaDevice
from cydnn.device.guarded import Guarded
from cydnn.device.numpy import NumpyExecutable, memory
from cydnn.device.ptx.guests import _merged

from .buffers import FILLS, GUARD

LINE = 256                                       # a copy keeps its place in a line of so many bytes
plain = NumpyExecutable.execute                  # for what writes outside on purpose


class Copy(NamedTuple):
    """``size`` bytes of ``start`` on the host, at ``at`` in ``store``."""
    start: int
    size: int
    store: np.ndarray
    at: int

    def here(self) -> np.ndarray:
        return self.store[self.at:self.at + self.size]

    def is_whole(self, fill: int) -> bool:
        """Nothing was written beside it."""
        return bool((self.store[:self.at] == fill).all() and (self.store[self.at + self.size:] == fill).all())


def install():
    """From here on."""
    NumpyExecutable.execute = _twice


def on_gpus(monkeypatch):
    """On GPUs too; not for calls that are captured, counted or timed, as these wait and copy."""
    compiled = CudaDevice.compile

    def twice(device, layout):
        parts = layout.choice.parts if hasattr(layout, "choice") else ()
        return Twice(compiled(device, layout), device, all("deterministic" in p.engine.notes for p in parts))
    monkeypatch.setattr(CudaDevice, "compile", twice)


class Twice:
    """A tape on a GPU whose every call is made twice, as on the NumPy device; for all else it is the tape."""

    def __init__(self, tape, device, is_deterministic: bool):
        self.tape, self.device, self.is_deterministic = tape, device, is_deterministic

    def __getattr__(self, name):
        return getattr(self.tape, name)

    def execute(self, pointers, scalars=None, workspace=None, workspace_bytes=0, stream=None):
        self.tape.check(pointers, workspace, workspace_bytes)
        if any(row.is_shared for row in self.tape.operands.rows):
            return self.tape.execute(pointers, scalars, workspace, workspace_bytes, stream)
        rows = [(row, _core.memory_of(x).address) for row, x in zip(self.tape.operands.rows, pointers)]
        outputs = [(at, row.bytes) for row, at in rows if row.is_written and row.bytes and at]
        look = lambda: [self.device.copy_out(at, np.empty(size, np.uint8), stream) for at, size in outputs]
        before, found = look(), []
        for fill in FILLS:
            for (at, _), old in zip(outputs, before):
                self.device.copy_in(at, old, stream)
            Guarded(self.tape, self.device, {"redzone"}, fill).execute(pointers, scalars, workspace,
                                                                       workspace_bytes, stream)
            found.append(look())
        same = all(map(np.array_equal, *found))
        assert same or not self.is_deterministic, f"{self.tape.problem}: other bits beside other memory"


def copied(start: int, size: int, fill: int, with_contents=True) -> Copy:
    store = np.full(size + 2 * GUARD + LINE, fill, np.uint8)
    found = Copy(start, size, store, GUARD + (start - store.ctypes.data - GUARD) % LINE)
    if with_contents:
        found.here()[:] = memory(start, size)
    return found


def _twice(self, pointers, scalars=None, workspace=0, workspace_bytes=0, stream=0):
    numbers = self.numbers.given(scalars)
    memories, space = self._given(pointers, workspace, workspace_bytes)
    given = tuple(zip(self.operands.rows, memories))
    sizes = [m.bytes if row.is_ragged else row.bytes for row, m in given]
    # a ragged tensor's address, of unknown extent; memory that others write between two calls
    if None in sizes or any(row.is_shared for row, _ in given):
        return plain(self, pointers, scalars, workspace, workspace_bytes, stream)
    rows = [(row._replace(bytes=size), m.address) for (row, m), size in zip(given, sizes)]
    results = [_between_zones(self, rows, numbers, space.address, fill) for fill in FILLS]
    for (row, address), first, second in zip(rows, *results):
        assert first is None or np.array_equal(first, second), (
            f"{self.plan.text}: {row.name} has other bits where what is beside it, or in the workspace, has")
        if first is not None:
            memory(address, row.bytes)[:] = first


def _between_zones(self, rows, numbers, base: int, fill: int) -> list:
    """The bytes of each operand that is written, else None."""
    copies = [copied(start, stop - start, fill) for start, stop in
              _merged([(at, row.bytes, 0) for row, at in rows if at and row.bytes])]
    scratch = copied(base, self.workspace_bytes, fill, with_contents=False)
    plain(self, [_given(copies, row, at) if row.bytes else at for row, at in rows], numbers,
           scratch.store.ctypes.data + scratch.at if base else 0, self.workspace_bytes)
    assert all(one.is_whole(fill) for one in (*copies, scratch)), (
        f"{self.plan.text}: bytes were written beside an operand or the workspace")
    return [memory(_moved(copies, at), row.bytes).copy() if row.is_written and row.bytes and at else None
            for row, at in rows]


def _given(copies, row, address: int):
    """The copy of an operand; a ragged one says how long it is."""
    at = _moved(copies, address)
    return memory(at, row.bytes) if row.is_ragged else at


def _moved(copies, address: int) -> int:
    for one in copies:
        if one.start <= address < one.start + one.size:
            return one.store.ctypes.data + one.at + address - one.start
    return address
