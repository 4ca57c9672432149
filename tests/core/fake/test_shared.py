"""What threads share on a device: limits of kernels, buffers, who listens to launches. CYDNN_ROUNDS: how many
rounds a thread does."""
import os
import sys

from cydnn import _core
from support.guard import threads

from conftest import PTX

THREADS, ROUNDS = 16, int(os.environ.get("CYDNN_ROUNDS", 200))


def together(work):
    with threads.quick_switches():
        assert threads.together(work, THREADS) == []


def tape_of(context, function, smem=0):
    tape = _core.Tape(context, [("y", 64, 16, True, False)])
    tape.launch(function, 1, 32, smem, bytes(8), [(0, 0, 0)])
    return tape


def test_shared_memory_that_was_allowed_stays(fake, context):
    """Of one kernel there may be several Functions, each with a limit of its own: the driver has one."""
    wide, narrow = (context.load(PTX % b"k", "k") for _ in range(2))
    y = _core.Buffer(context, 64)
    first = tape_of(context, wide, 100_000)
    second = tape_of(context, narrow, 60_000)
    second.execute((y.ptr,))
    first.execute((y.ptr,))
    assert fake.count("cuFuncSetAttribute") == 1 and narrow.smem_limit == 100_000

    def work(number):
        for i in range(ROUNDS // 10):
            name = f"k{i}"
            function = context.load(PTX % name.encode(), name)
            tape_of(context, function, 50_000 + 1000 * number).execute((y.ptr,))
    together(work)


def test_a_buffer_is_freed_once(fake, context):
    """The fake driver knows what was freed twice."""
    buffers = [_core.Buffer(context, 64) for _ in range(ROUNDS)]
    before = fake.count("cuMemFree_v2")
    together(lambda _: [buffer.free() for buffer in buffers])
    assert fake.count("cuMemFree_v2") - before == ROUNDS and all(buffer.ptr == 0 for buffer in buffers)


def test_who_listens_may_change(context, kernel, monkeypatch):
    """A launch is said to whoever listened when it was made, or to nobody: nothing is raised where nobody
    would see it."""
    tape, y, heard, lost = tape_of(context, kernel()), _core.Buffer(context, 64), [], []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)

    def work(number):
        for i in range(ROUNDS * 5):
            if number < 4:
                _core.log_launches(None if i % 2 else lambda name, *_: heard.append(name))
            else:
                tape.execute((y.ptr,))
    try:
        together(work)
    finally:
        _core.log_launches(None)
    assert not lost and set(heard) <= {"k"}
