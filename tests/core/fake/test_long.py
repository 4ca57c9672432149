"""Many calls: in many threads at once, and one after the other. CYDNN_CALLS: how many a thread, or in all
(ten thousand and a million where there is time)."""
import os
import struct

from cydnn import bench, cudnn as c, plan
from cydnn.ops import Problem
from support.guard import threads
from support.guard.leaks import check, growth

from paths import Calls

THREADS = 16
CALLS = int(os.environ.get("CYDNN_CALLS", 100))


def own(fake, mine, foreign, stream):
    """What is wrong with the last launch of this thread: nothing of other threads is in its parameters."""
    last = fake.mine()
    words = set(struct.unpack(f"<{last.bytes // 8}Q", bytes(last.data[:last.bytes // 8 * 8])))
    return last.stream != stream or words & foreign or not words & mine


def run_in_threads(fake, made):
    addresses = [{buffer.ptr + odd for buffer in calls.buffers for odd in (0, 4)} for calls in made]
    everything = set().union(*addresses)
    wrong, ran = [], []

    def work(number):
        calls, mine = made[number], addresses[number]
        foreign, names = everything - mine, list(calls.paths)
        for i in range(max(CALLS, len(names))):
            name = names[(i + number) % len(names)]
            calls.paths[name]()
            if own(fake, mine, foreign, calls.stream):
                wrong.append((number, name, i))
        ran.append(i + 1)
    fake.eager(4)
    with threads.quick_switches():
        assert threads.together(work, THREADS) == []
    assert not wrong and len(ran) == THREADS, wrong[:10]
    print(f"\n{sum(ran)} calls in {THREADS} threads")


def test_a_handle_in_each_thread(fake):
    """All begin at once, and no plan is there yet."""
    plan.forget()
    made = [None] * THREADS

    def work(number):
        made[number] = Calls(stream=0x100 * (number + 1))
        made[number].run()
    assert threads.together(work, THREADS) == []
    run_in_threads(fake, made)


def test_one_handle_in_all_threads(fake):
    handle = c.create("cuda:0")
    run_in_threads(fake, [Calls(stream=0x5500, handle=handle) for _ in range(THREADS)])


def test_executes_leave_nothing():
    """All paths in turn."""
    calls = Calls()
    check(growth(calls.run, max(CALLS // len(calls.paths), 10), traced=min(CALLS, 500)))


def test_building_and_destroying_leaves_nothing(fake):
    x = c.createTensorDescriptor()
    c.setTensor4dDescriptor(x, 0, 0, 2, 3, 4, 5)
    place = c.create("cuda:0").device
    a, b = place.alloc(1 << 12), place.alloc(1 << 12)

    def cycle():
        handle, stream, event = c.create("cuda:0"), place.create_stream(), place.create_event()
        c.setStream(handle, stream)
        c.softmaxForward(handle, 1, 0, 1.0, x, a.ptr, 0.0, x, b.ptr)
        handle.reserve(5000)
        event.record(stream)
        plan.build(bench.graph_of(Problem.parse("softmax_fwd 4x8 f32")),
                   place).execute([a.ptr, b.ptr])
        plan.forget()
        c.destroy(handle)
    cycle()
    before = fake.books()
    check(growth(cycle, max(CALLS // 10, 10), traced=min(CALLS // 10, 200)))
    assert fake.books() == before
