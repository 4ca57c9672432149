"""Eight threads on one device: no wrong result and no finding, whatever they do to its memory meanwhile."""
from __future__ import annotations

import gc

import numpy as np
import pytest

from cydnn import plan
from cydnn.bench import graph_of
from cydnn.device.numpy import read, write
from cydnn.device.ptx import PtxDevice
from cydnn.ops import Problem
from support.guard import threads

import snippet

LINES = ["softmax_fwd 8x64 f32", "matmul a=1x20x12:f32 b=1x12x16:f32 c=1x20x16:f32",
         "reduction x=12x40:f32 y=12x1:f32 mode=add", "softmax_fwd 5x70 f16",
         "transform x=1x7x6x11:f32 y=1x7x6x11:f32@nhwc"]
THREADS, ROUNDS = 8, 4


@pytest.fixture(autouse=True)
def quick_switches():
    """Threads change places often."""
    with threads.quick_switches():
        yield
    plan.forget()


def together(work):
    """Run ``work(n)`` in every thread at once; what went wrong."""
    wrong = []
    failed = threads.together(lambda n: work(n, wrong), THREADS)
    return wrong + [f"{type(error).__name__}: {str(error)[:200]}" for error in failed]


def once(device, line, seed) -> str:
    """Allocate, copy, run, copy back, free; what is wrong."""
    problem, gen = Problem.parse(line), np.random.default_rng(seed)
    built = plan.build(graph_of(problem), device)
    values = {n: gen.integers(-3, 4, d.dims).astype(float) for n, d in problem.tensors.items()}
    places = {}
    for d in built.slots:
        host = np.zeros(d.bytes, np.uint8)
        write(d, host.ctypes.data, values[d.name])
        places[d.name] = device.alloc(d.bytes)
        device.copy_in(places[d.name].ptr, host)
        if d.name in problem.op.writes:
            device.forget_contents(places[d.name].ptr, d.bytes)
    workspace = device.alloc(max(built.workspace_bytes, 1))
    built.execute([places[d.name].ptr for d in built.slots], workspace.ptr)
    wants = problem.op.run_reference(values, dict(problem.op.scalars))
    for d in built.slots:
        if d.name in wants:
            host = device.copy_out(places[d.name].ptr, np.empty(d.bytes, np.uint8))
            error = np.abs(read(d, host.ctypes.data) - wants[d.name]).max()
            if not error <= 1e-2:
                return f"{line}: {d.name} is off by {error}"
    return ""


def test_plans():
    device = PtxDevice("sm_80")

    def work(n, wrong):
        for i in range(ROUNDS):
            wrong += filter(None, [once(device, LINES[(n + i) % len(LINES)], 100 * n + i)])
    assert together(work) == []


def test_launches():
    """By hand, the same code in every thread; cycles of garbage free memory in the midst of it."""
    device = PtxDevice("sm_80")
    code = snippet.entry("""mad.wide.u32 %a0, %t, 4, %p0; mad.wide.u32 %a1, %t, 4, %p1;
                            ld.global.u32 %g, [%a0]; add.u32 %g, %g, %t; st.global.u32 [%a1], %g;""", 2)

    def work(n, wrong):
        for i in range(40):
            x, y = snippet.buffer(device, np.full(128, 1000 * n + i, np.uint32)), device.alloc(512)
            device.forget_contents(y.ptr, 512)
            snippet.launch(device, code, [x, y])
            got = device.copy_out(y.ptr, np.empty(128, np.uint32))
            if (got != 1000 * n + i + np.arange(128)).any():
                wrong.append(f"thread {n} round {i}: {got[:4]}")
            x.itself, x = x, None                # garbage that is collected some time
            if i % 10 == n:
                gc.collect()
    assert together(work) == []
    del work
    gc.collect()
    device.arena.settle()
    assert len(device.arena.live) <= len(device._kept)


def test_random_orders():
    """A seed is of the device: changed between calls, it changes no result of others."""
    device = PtxDevice("sm_80")

    def work(n, wrong):
        for i in range(2):
            device.seed = n
            wrong += filter(None, [once(device, LINES[n % 2], n)])
    assert together(work) == []
