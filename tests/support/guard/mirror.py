"""The PTX device behind host addresses, so that tests of the v5 functions run on it as on NumPy."""
from __future__ import annotations

from cydnn.device.buffer import HOST
from cydnn.device.numpy import NumpyDevice
from cydnn.device.ptx import PtxDevice
from cydnn.device.ptx.device import PtxExecutable


class Mirror(NumpyDevice):
    """Host memory outside, the interpreter inside: what a call reads and writes is copied there and back,
    as is done with arrays."""

    def __init__(self, target: str, facts=None):
        self.inner = PtxDevice(target, facts)
        self.name, self.facts = f"mirror:{target}", self.inner.facts

    def compile(self, plan):
        with self.inner.lock:
            return Mirrored(self.inner, plan)


class Mirrored(PtxExecutable):
    """Every address is one of the host."""

    @staticmethod
    def _is_guest(memory):
        return memory.place in (None, HOST)
