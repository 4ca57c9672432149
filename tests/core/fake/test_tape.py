"""The tape: what it launches, byte for byte, and what it refuses, by its sentence."""
import gc
import struct
import sys
import threading

import numpy as np
import pytest

from cydnn import _core
from cydnn.status import BadParam, ExecutionFailed, NotSupported
from cydnn.core.symbols import SYMBOLS
from conftest import MANAGED, PINNED

SLOTS = [("x", 1024, 16, False, False), ("bias", 64, 4, False, True), ("y", 1024, 16, True, False)]


def place(ptr: int) -> int:
    """Where a context remembers an address that it knows: one of 256 pairs of places."""
    return (ptr * 0x9E3779B97F4A7C15 & 2**64 - 1) >> 56


@pytest.fixture
def memory(context):
    """Buffers x, bias, y and a workspace, remembered in four different places."""
    kept = []
    while len({place(b.ptr) for b in kept[-4:]}) < 4:
        kept += [_core.Buffer(context, n) for n in (1024, 64, 1024, 512)]
    yield kept[-4:]


@pytest.fixture
def tape(context, kernel):
    tape = _core.Tape(context, SLOTS, [1.0, 0.0], 256, [(2, 0)])
    tape.launch(kernel(), (4, 2), (128,), 0, bytes(range(48)),
                [(0, 0, 32), (8, 1, 0), (16, 2, 0), (24, -1, 64)], [(32, "f32", 0), (40, "f64", 1)])
    return tape


def pointers(memory):
    return tuple(b.ptr for b in memory[:3])


def test_two_buffers_of_one_pair_of_places_are_both_remembered(fake, context, tape):
    """The driver is asked once about each, however often they alternate."""
    found, kept = {}, [_core.Buffer(context, 512)]           # the first is the workspace, alone in its pair
    while True:
        kept.append(y := _core.Buffer(context, 1024))
        x = found.setdefault(place(y.ptr), y)
        if x is not y and place(y.ptr) != place(kept[0].ptr):
            break
    tape.execute((x, None, y), None, kept[0], 512)
    asked = fake.count("cuPointerGetAttributes")
    for _ in range(5):
        tape.execute((x, None, y), None, kept[0], 512)
    assert fake.count("cuPointerGetAttributes") == asked


def test_launch_gets_patched_parameters(fake, tape, memory):
    x, bias, y, work = (b.ptr for b in memory)
    tape.execute((x, bias, y), (0.5, 0.25), work, 512, 99)
    last = fake.last()
    assert ((last.name, tuple(last.grid), tuple(last.block), last.stream, last.bytes)
            == (b"k", (4, 2, 1), (128, 1, 1), 99, 48))
    assert struct.unpack("<4Qf4sd", bytes(last.data[:48])) == (x + 32, bias, y,
                                                               work + 64, 0.5, bytes(range(36, 40)), 0.25)
    assert tape.kernels == ("k",) and tape.names == ("x", "bias", "y")


def test_absent_optional_operand_stays_null_and_defaults_are_used(fake, tape, memory):
    x, _, y, work = memory
    tape.execute([x, None, y], None, work, 256)
    assert struct.unpack("<4Qf4xd", bytes(fake.last().data[:48]))[1::2] == (0, work.ptr + 64, 0.0)
    tape.execute((x, None, y), (None, 3), work, 256)
    assert struct.unpack("<32xf4xd", bytes(fake.last().data[:48])) == (1.0, 3.0)
    tape.update_scalars((7, None))
    tape.execute((x, None, y), None, work, 256)
    assert (struct.unpack("<32xf4xd", bytes(fake.last().data[:48])) == (7.0, 0.0)
            and tape.scalars == (7.0, 0.0))


def test_tensors_between_each_other(fake, context, kernel):
    """Runs of 16 and 32 bytes in a period of 48: y may start where x has its gap, and nowhere
    else; whichever comes first."""
    tape = _core.Tape(context, [("x", 1024, 4, False, False), ("y", 1024, 4, True, False)],
                      periods={(1, 0): (48, 32, 16)})
    tape.launch(kernel(), 1, 32, 0, bytes(16), [(0, 0, 0), (8, 1, 0)])
    buffer = _core.Buffer(context, 4096)
    at = buffer.ptr
    for gap in range(-96, 100, 4):
        if gap % 48 == 16:
            tape.execute((at + 480, at + 480 + gap))
        else:
            with pytest.raises(BadParam, match="y: must not overlap x"):
                tape.execute((at + 480, at + 480 + gap))


def test_whole_numbers_are_exact_and_also_written_as_reals(fake, context, kernel):
    tape = _core.Tape(context, [], [5, -3])
    tape.launch(kernel(), 1, 32, 0, bytes(40), [],
                [(0, "i32", 0), (8, "i64", 1), (16, "f32", 1), (24, "f64", 1)])
    tape.execute(())
    assert struct.unpack("<i4xqf4xd", bytes(fake.last().data[:32])) == (5, -3, -3.0, -3.0)
    for first, second in ((-2**31, 2**63 - 1), (2**31 - 1, -2**63), (0, 2**53 + 1)):
        tape.execute((), (first, second))
        assert struct.unpack("<i4xqf4xd", bytes(fake.last().data[:32])) == (
            first, second, np.float32(second), float(second))
    tape.update_scalars((9, 2**60 + 1))
    tape.execute((), (None, None))
    assert struct.unpack("<i4xq", bytes(fake.last().data[:16])) == tape.scalars == (9, 2**60 + 1)


def test_a_number_out_of_range_is_refused_before_any_launch(fake, context, kernel):
    tape = _core.Tape(context, [], [1.0, 2])
    tape.launch(kernel(), 1, 32, 0, bytes(16), [], [(0, "f32", 0)])
    tape.launch(kernel(), 1, 32, 0, bytes(16), [], [(0, "i32", 0), (8, "i64", 1)])
    assert tape.scalars == (1, 2)
    for scalars, sentence in (((2**31, 0), "^scalar 0: must be in -2147483648 … 2147483647; got 21474836"),
                              ((0, 2**63), "^scalar 1: must be in -9223372036854775808 … "),
                              ((0.5, 0), "^scalar 0: must be a whole number"),
                              ((0,), "^execute: scalars must have 2 entries; got 1")):
        refused(tape, sentence, (), scalars)
        with pytest.raises(BadParam, match=sentence):
            tape.update_scalars(scalars)
    assert fake.count("cuLaunchKernel") == 0
    with pytest.raises(BadParam, match="^scalar 0: must be a whole number.*; got 0.5"):
        fraction = _core.Tape(context, [], [0.5])
        fraction.launch(kernel(), 1, 32, 0, bytes(16), [], [(0, "i32", 0)])


def test_a_number_without_a_default_must_be_given(fake, context, kernel):
    tape = _core.Tape(context, [], [None])
    tape.launch(kernel(), 1, 32, 0, bytes(16), [], [(0, "i64", 0)])
    refused(tape, "^scalars: scalar 0 must be given; got None", ())
    tape.execute((), (2**40 + 1,))
    assert struct.unpack("<q", bytes(fake.last().data[:8])) == (2**40 + 1,) and tape.scalars == (None,)


def test_steps_run_in_order_with_memsets(fake, context, kernel):
    y = _core.Buffer(context, 64)
    context.memset(y, 1, 64)
    tape = _core.Tape(context, [("y", 64, 4, True, False)])
    tape.memset(0, 16, 8, 255)
    tape.launch(kernel("first"), 1, 32, 0, b"")
    tape.launch(kernel("second"), 1, 32, 60000, b"")
    tape.launch(kernel("nothing"), (0, 1, 1), 32, 0, b"")
    assert (tape.kernels, tape.step_count) == (("first", "second"), 3)
    fake.reset()
    tape.execute((y,))
    back = np.zeros(64, np.uint8)
    context.copy_out(back, y)
    assert (back[16:24] == 255).all() and (np.delete(back, range(16, 24)) == 1).all()
    assert fake.count("cuLaunchKernel") == 2 and fake.last().name == b"second" and fake.last().smem == 60000


def test_a_memset_of_nothing_is_none(fake, context, memory):
    """No bytes make no step; an operand that is left out is not written."""
    tape = _core.Tape(context, SLOTS)
    tape.memset(0, 0, 0, 1)
    assert tape.step_count == 0
    tape.memset(1, 0, 8, 1)
    x, bias, y = pointers(memory)
    fake.reset()
    tape.execute((x, None, y))
    assert (tape.step_count, fake.count("cuMemsetD8Async")) == (1, 0)
    tape.execute((x, bias, y))
    assert fake.count("cuMemsetD8Async") == 1


def test_a_later_plan_leaves_a_kernel_its_shared_memory(fake, context, kernel):
    large, small = _core.Tape(context, []), _core.Tape(context, [])
    large.launch(kernel("held"), 1, 32, 200000, b"")
    small.launch(kernel("held"), 1, 32, 100000, b"")
    for tape, smem in ((large, 200000), (small, 100000)):
        tape.execute(())
        assert fake.last().smem == smem


def refused(tape, sentence, *args, error=BadParam):
    with pytest.raises(error, match=sentence):
        tape.execute(*args)


def test_every_refusal_comes_before_any_launch(fake, tape, memory):
    x, bias, y = pointers(memory)
    work = memory[3].ptr
    host = np.zeros(2048, np.uint8)
    there = fake.memory(1024, 1)
    fake.reset()
    refused(tape, r"pointers: must be 3 \(x, bias, y\); got 2", (x, y), None, work, 512)
    refused(tape, r"execute: scalars must have 2 entries; got 1", (x, bias, y), (1.0,), work, 512)
    refused(tape, r"^x: must not be null; got 0", (0, bias, y), None, work, 512)
    refused(tape, r"^y: must be aligned to 16 bytes; got 0x[0-9a-f]+8", (x, bias, y + 8), None, work, 512)
    refused(tape, r"^workspace: must have at least 256 bytes; got 255", (x, bias, y), None, work, 255)
    refused(tape, r"^workspace: must not be null, 256 bytes are needed; got 0", (x, bias, y), None, None, 256)
    refused(tape, r"^workspace: must be aligned to 16 bytes; got 0x", (x, bias, y), None, work + 4, 256)
    refused(tape,
            rf"^y: must not overlap bias; got y = {y:#x} \+ 1024 bytes, bias = {y + 512:#x} \+ 64 bytes",
            (x, y + 512, y), None, work, 512)
    refused(tape, rf"^y: must not overlap x; got y = {x + 16:#x} \+ 1024", (x, None, x + 16), None, work, 512)
    refused(tape,
            rf"^x: must not overlap workspace; got x = {x:#x} \+ 1024 bytes, workspace = {x:#x} \+ 256 bytes",
            (x, None, y), None, x, 512)
    refused(tape,
            r"^x: must be memory that cuda:0 can reach; got pageable host memory at 0x.*use device=\"numpy\"",
            (host.ctypes.data // 16 * 16 + 16, None, y), None, work, 512)
    refused(tape, r"^workspace: must be memory of cuda:0; got memory of another device at 0x",
            (x, None, y), None, there, 512)
    refused(tape, r"^x: must be memory of cuda:0; got memory of another device at 0x",
            (there, None, y), None, work, 512)
    refused(tape, r"^x: must be an int address.*; got str", ("x", None, y), None, work, 512)
    refused(tape, r"stream: must be an int address.*; got list", (x, None, y), None, work, 512, [])
    refused(tape, "^scalar 0: must be a number, or an array of one in host memory; got 'a'",
            (x, None, y), ("a", 1.0), work, 512)
    assert fake.count("cuLaunchKernel") == 0 and fake.depth() <= 1


def test_numpy_arrays_are_refused_with_the_way_out(tape, memory):
    array = np.zeros(2048, np.uint8)
    array = array[-array.ctypes.data % 16:][:1024]
    refused(tape, "x: must be memory that cuda:0 can reach; got pageable host memory",
            (array, None, memory[2]), None, memory[3], 512)


def test_in_place_is_for_declared_pairs_only(context, tape, memory, kernel):
    x, bias, y = pointers(memory)
    tape.execute((y, bias, y), None, memory[3], 512)
    other = _core.Tape(context, SLOTS)
    other.launch(kernel(), 1, 32, 0, b"")
    refused(other, "^y: must not overlap x", (y, bias, y))


def test_pinned_and_managed_memory_is_taken(fake, tape, memory):
    tape.execute((fake.memory(1024, 0, PINNED), None, fake.memory(1024, 1, MANAGED)), None, memory[3], 512)
    assert fake.count("cuLaunchKernel") == 1


def test_known_pointers_cost_no_driver_call_and_freed_ones_are_forgotten(fake, context, tape, memory):
    args = pointers(memory), None, memory[3].ptr, 512
    tape.execute(*args)
    fake.reset()
    for _ in range(100):
        tape.execute(*args)
    assert fake.count("cuPointerGetAttributes") == 0 and fake.count("cuLaunchKernel") == 100
    memory[0].free()
    refused(tape, "^x: must be memory that cuda:0 can reach", *args)


def test_execute_makes_no_driver_call_but_the_launch(fake, tape, memory):
    args = pointers(memory), None, memory[3].ptr, 512
    tape.execute(*args)
    fake.reset()
    tape.execute(*args)
    calls = [row.name for row in SYMBOLS if fake.count(row.name) or fake.count(row.name + "_v2")]
    assert sorted(calls) == ["cuCtxGetCurrent", "cuLaunchKernel"]


def test_a_thread_without_a_context_keeps_ours_and_another_one_is_given_back(fake, tape, memory):
    args = pointers(memory), None, memory[3].ptr, 512

    def bare():
        tape.execute(*args)
        return fake.depth()

    def under_another():
        other = _core.Context(1)
        _core.Buffer(other, 8)                   # makes cuda:1 current in this fresh thread
        fake.reset()
        tape.execute(*args)
        return fake.count("cuCtxPushCurrent_v2"), fake.count("cuCtxPopCurrent_v2"), fake.depth()

    for work, want in ((bare, 1), (under_another, (1, 1, 1))):
        found = []
        thread = threading.Thread(target=lambda: found.append(work()))
        thread.start()
        thread.join()
        assert found == [want]


def test_empty_tensors_need_no_memory(fake, context, kernel):
    tape = _core.Tape(context, [("x", 0, 16, False, False), ("y", 64, 16, True, False)])
    tape.launch(kernel(), 1, 32, 0, bytes(16), [(0, 0, 0), (8, 1, 0)])
    tape.execute((None, _core.Buffer(context, 64)))


def test_a_tape_is_sealed_by_its_first_execute(tape, memory, kernel):
    tape.execute(pointers(memory), None, memory[3], 512)
    for add in (lambda: tape.memset(0, 0, 4, 0), lambda: tape.launch(kernel(), 1, 32, 0, b"")):
        with pytest.raises(BadParam, match="tape: is sealed by its first execute"):
            add()


@pytest.mark.parametrize("error, sentence, args", [
    (NotSupported, r"k: grid must be within \(2147483647, 65535, 65535\); got \(1, 65536, 1\)",
     ((1, 65536), 32, 0, b"")),
    (NotSupported, r"k: block must have 1..1024 threads; got 2048", (1, (1024, 2), 0, b"")),
    (NotSupported, r"k: smem must be <= 232448 bytes", (1, 32, 300000, b"")),
    (NotSupported, r"k: parameters must be <= 4096 bytes; got 5000", (1, 32, 0, bytes(5000))),
    (BadParam, r"patch: slot must be below 3; got 3", (1, 32, 0, bytes(8), [(0, 3, 0)])),
    (BadParam, r"patch: slot must be below 3; got -2", (1, 32, 0, bytes(8), [(0, -2, 0)])),
    (BadParam, r"patch: offset must lie within 8 bytes of parameters; got 4",
     (1, 32, 0, bytes(8), [(4, 0, 0)])),
    (BadParam, r"patch: scalar must be below 2; got 2", (1, 32, 0, bytes(8), [], [(0, "f32", 2)])),
    (NotSupported, r"k: params must be <= 64 offsets below 8; got \(0, 8\)",
     (1, 32, 0, bytes(8), [], [], [], (0, 8))),
])
def test_a_launch_that_cannot_be_is_refused_when_it_is_added(tape, kernel, error, sentence, args):
    with pytest.raises(error, match=sentence):
        tape.launch(kernel(), *args)
    assert tape.step_count == 1


def test_a_kernel_of_another_context_is_refused(tape):
    with pytest.raises(BadParam, match="k: must be a kernel on <cydnn context of cuda:0>; "
                                       "got one on <cydnn context of cuda:1>"):
        tape.launch(_core.Context(1).load(b".entry k(", "k"), 1, 32, 0, b"")


def test_more_slots_than_the_stack_holds_are_refused(context):
    with pytest.raises(NotSupported, match="tape: must have <= 1024 slots and scalars; got 1025 and 0"):
        _core.Tape(context, [("x", 4, 4, False, False)] * 1025)
    with pytest.raises(BadParam, match="x: alignment must be a power of two; got 12"):
        _core.Tape(context, [("x", 4, 12, False, False)])


def test_more_pointers_than_any_tape_has_are_refused(tape):
    with pytest.raises(BadParam, match="pointers: must be <= 1024; got 1025"):
        tape.execute([0] * 1025)


@pytest.mark.parametrize("slot", [3, -2])
def test_a_memset_of_no_slot_is_refused(tape, slot):
    with pytest.raises(BadParam, match=f"memset: slot must be below 3; got {slot}"):
        tape.memset(slot, 0, 8, 0)


def test_a_launch_failure_names_the_kernel(fake, tape, memory):
    fake.fail("cuLaunchKernel", 1, 1)
    refused(tape, r"cuLaunchKernel: .*\(1\): as the test asked; kernel k", pointers(memory), None,
            memory[3], 512, error=ExecutionFailed)
    tape.execute(pointers(memory), None, memory[3], 512)


def test_a_sticky_error_marks_the_context_lost_and_names_the_last_launches(fake, kernel):
    context = _core.Context(1)
    y = _core.Buffer(context, 64)
    tape = _core.Tape(context, [("y", 64, 4, True, False)])
    for name in ("scale", "softmax_fwd"):
        tape.launch(context.load(b".entry %s(" % name.encode(), name), 1, 32, 0, b"")
    tape.execute((y,))
    fake.fail("cuStreamSynchronize", 1, 700)
    with pytest.raises(ExecutionFailed, match=r"cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS \(700\).*"
                                              "context of cuda:1 is lost.*"
                                              r"Last launches \(newest last\): scale, softmax_fwd"):
        context.synchronize(0)
    refused(tape, "cuStreamSynchronize failed earlier: .*softmax_fwd", (y,), error=ExecutionFailed)
    assert "cuda:1 is lost" in context.lost


def test_threads_share_one_tape(context, kernel):
    """Each thread's launch must see its own pointers and scalars: the fake kernel
    sums its own parameter block."""
    tape = _core.Tape(context, [("out", 8, 8, True, False), ("a", 8, 8, False, False)], [0])
    tape.launch(kernel("sum_words"), 1, 32, 0, bytes(24), [(0, 0, 0), (8, 1, 0)], [(16, "i64", 0)])
    wrong = []

    def work(number):
        out, a, got = _core.Buffer(context, 8), _core.Buffer(context, 8), np.zeros(1, np.uint64)
        for i in range(2000):
            tape.execute((out.ptr, a.ptr), (float(number * 10000 + i),))
            context.copy_out(got, out)
            if got[0] != a.ptr + number * 10000 + i:
                wrong.append((number, i))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not wrong


def test_execute_allocates_no_python_object(tape, memory):
    args = (pointers(memory), (1.0, 0.0), memory[3].ptr, 512, 0)
    tape.execute(*args)
    before = sys.getallocatedblocks()
    for _ in range(10000):
        tape.execute(*args)
    assert sys.getallocatedblocks() - before < 10


def test_launches_can_be_logged(tape, memory):
    seen = []
    _core.log_launches(lambda *launch: seen.append(launch))
    try:
        tape.execute(pointers(memory), None, memory[3], 512)
    finally:
        _core.log_launches(None)
    tape.execute(pointers(memory), None, memory[3], 512)
    assert seen == [("k", (4, 2, 1), (128, 1, 1), 0, "")]
