"""The PTX device behind host addresses, so that tests of the v5 functions run on it as on NumPy."""
from __future__ import annotations

import threading

from cydnn.device.numpy import NumpyDevice, memory, refuse_memory
from cydnn.device.ptx import PtxDevice
from cydnn.device.ptx.device import PtxExecutable

LINE = 256                                       # bytes: an address keeps its place in a line of this size


class Mirror(NumpyDevice):
    """Host memory outside, the interpreter inside: what a call reads and writes is copied there and back.
    One call at a time, as the interpreter has one set of registers."""

    def __init__(self, target: str, facts=None):
        self.inner, self.lock = PtxDevice(target, facts), threading.Lock()
        self.name, self.facts = f"mirror:{target}", self.inner.facts

    def compile(self, plan):
        with self.lock:
            return Mirrored(self, plan)


class Mirrored(PtxExecutable):
    """Checks the host's pointers, then runs on copies that lie to each other as the originals do."""

    def __init__(self, mirror: Mirror, plan):
        super().__init__(mirror.inner, plan)
        self.lock = mirror.lock

    def execute(self, pointers, scalars=None, workspace=0, workspace_bytes=0, stream=0):
        addresses, _, base = self._bind(pointers, scalars, workspace)
        for i, (slot, pointer) in enumerate(zip(self.plan.slots, pointers)):
            refuse_memory(slot, pointer, i in self.plan.written)
        self._check(addresses, base, workspace_bytes)
        ranges = [(a, a + slot.bytes) for a, slot in zip(addresses, self.plan.slots) if a and slot.bytes]
        if base and workspace_bytes:
            ranges.append((base, base + workspace_bytes))
        with self.lock:
            self._run(_merged(ranges), addresses, scalars, base, workspace_bytes)

    def _run(self, ranges, addresses, scalars, base, workspace_bytes):
        copies = [(start, stop, self.device.alloc(start % LINE + stop - start)) for start, stop in ranges]

        def there(address):
            return next((copy.ptr + start % LINE + address - start
                         for start, stop, copy in copies if start <= address < stop), address)
        for start, stop, _ in copies:
            self.device.copy_in(there(start), memory(start, stop - start))
        super().execute([there(a) for a in addresses], scalars, there(base), workspace_bytes)
        for start, stop, copy in copies:
            self.device.copy_out(there(start), memory(start, stop - start))
            copy.free()


def _merged(ranges) -> list:
    """Ranges that touch become one."""
    found: list = []
    for start, stop in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return found
