"""Buffers and a device for the matrix that let the interpreter see more: guard zones are dead,
gaps and outputs were never written."""
from __future__ import annotations

from contextlib import contextmanager

import numpy as np

from cydnn.device.ptx import Finding, PtxDevice  # noqa: F401
from cydnn.device.ptx.memory import DEAD, WRITTEN
from support import buffers


class WatchedDevice(PtxDevice):
    """Bytes that a test poisons with 0xFF count as never written."""

    def memset(self, ptr, value, size_bytes, stream=0):
        super().memset(ptr, value, size_bytes, stream)
        if value == buffers.POISON:
            self.forget_contents(ptr, size_bytes)


class WatchedBuffer(buffers.Guarded):
    """A guarded buffer whose guards may not be touched and whose elements count as written
    only when a test has written them."""

    def __init__(self, device, desc, shift=0):
        super().__init__(device, desc, shift)
        self._mark(np.zeros(desc.bytes, bool))

    def write(self, values):
        super().write(values)
        self._mark(self.own_bits()[self.start:self.start + self.desc.bytes] != 0)

    def _mark(self, written):
        state = self.device.arena.state[self.device.arena.span(self.buffer.ptr, self.total, "mark")]
        state[:] = DEAD
        state[self.start:self.start + self.desc.bytes] = np.where(written, WRITTEN, 0)


@contextmanager
def watching():
    """The matrix uses watched buffers."""
    from cydnn import plan                       # here, so that tests of the interpreter alone need no plans
    from support import matrix
    plain, matrix.Guarded = matrix.Guarded, WatchedBuffer
    try:
        yield
    finally:
        matrix.Guarded = plain
        plan.forget()                            # a finding leaves the plan in the cache


def run(problem, device, seed=0, engines=None, **more):
    """``matrix.run`` with watched buffers."""
    from support import matrix
    with watching():
        return matrix.run(problem, device, seed, engines, **more)
