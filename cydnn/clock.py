"""Times of calls on a device: by events and with a cold L2 on a GPU, by the wall clock elsewhere."""
from __future__ import annotations

import random
import statistics
import time

from . import plan as plans
from .graph import Graph
from .ops import Problem

SWEEP = "reduction x=8192x8192:f32 y=1x1:f32 mode=add"      # 268 MB, more than five times the largest L2
MOST_WALL = 3                                    # runs by the wall clock


class Clock:
    """Times calls on a device with a cold L2; on the NumPy device with the wall clock.

    Before each run a large tensor is read. (Writing one would leave the L2 full of lines that the timed call
    must first write back: a sum of 134 MB then pays for 50 MB more.)
    """

    def __init__(self, device):
        self.device = device
        self.is_cuda = device.context is not None
        if self.is_cuda:
            self.sweep = _sweep(device)

    def times(self, calls, repeat: int) -> list[list[float]]:
        """Microseconds of every run of each call, the calls alternating, each time in another order."""
        if not self.is_cuda:
            return [_wall(call, repeat) for call in calls]
        for call in calls:
            call()
        self.device.synchronize()
        marks, order = [[] for _ in calls], random.Random(0)
        for _ in range(repeat):
            for call, mine in order.sample(list(zip(calls, marks)), len(calls)):
                self.sweep()
                start, end = self.device.create_event(), self.device.create_event()
                start.record(0)
                call()
                end.record(0)
                mine.append((start, end))
        self.device.synchronize()
        return [[1e3 * end.elapsed(start) for start, end in mine] for mine in marks]

    def copy_us(self, moved_bytes: int, repeat=12) -> float:
        """Microseconds of a device-to-device copy by the driver that reads and writes ``moved_bytes``
        together; nan without a GPU."""
        if not self.is_cuda:
            return float("nan")
        half = max(moved_bytes // 2, 1)
        a, b = self.device.alloc(half), self.device.alloc(half)
        self.device.memset(a.ptr, 0x5A, half)
        return statistics.median(
            self.times([lambda: self.device.context.copy(b.ptr, a.ptr, half, 0)], repeat)[0])


def _sweep(device):
    """A call that reads more than the L2 holds."""
    problem = Problem.parse(SWEEP)
    plan = plans.build(Graph.single(problem.op, problem.operands), device)
    buffers = [device.alloc(t.desc.bytes) for t in plan.slots]
    for buffer in buffers:
        device.memset(buffer.ptr, 0x3C, buffer.bytes)
    pointers, space = tuple([int(b.ptr) for b in buffers]), device.alloc(max(plan.workspace_bytes, 1))

    def call(kept=buffers):
        plan.execute(pointers, int(space.ptr))
    return call


def _wall(call, repeat):
    found = []
    for _ in range(min(repeat, MOST_WALL)):
        start = time.perf_counter()
        call()
        found.append(1e6 * (time.perf_counter() - start))
    return found
