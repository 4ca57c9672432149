"""What is said of a program that breaks its context or its memory, and what CYDNN_DEBUG adds. The kernels are
texts by names that the fake driver knows: illegal_, before_, behind_, nan_."""
import re

import numpy as np
import pytest

from cydnn import _core, cudnn as c, device, plan
from cydnn.device import guarded
from cydnn.device.cuda import CudaDevice
from cydnn.operand import Operand
from cydnn.status import BadParam, ExecutionFailed
from cydnn.tensor import TensorDesc

from conftest import PTX
from paths import Calls
from support.guard import fills

DESC = TensorDesc.packed("f32", (4, 8))
PROBLEM = "scale_tensor 4x8 f32"


@pytest.fixture
def armed(fake, monkeypatch):
    """armed("nan") -> a device that was made with CYDNN_DEBUG=nan."""
    def make(words):
        monkeypatch.setenv("CYDNN_DEBUG", words)
        return CudaDevice(0)
    yield make
    _core.wait_for_every_step(False)


def tape_of(place, *names, workspace_bytes=0):
    """Launches that are given y and its size, in order; then x."""
    tape = _core.Tape(place.context, [Operand("y", DESC.bytes, 16, True, desc=DESC),
                                      Operand("x", DESC.bytes, 16, desc=DESC)], [],
                      workspace_bytes, problem=PROBLEM)
    for name in names:
        tape.launch(place.context.load(PTX % name.encode(), name), 1, 32, 0,
                    bytes(8) + DESC.bytes.to_bytes(8, "little") + bytes(8), [(0, 0, 0), (16, 1, 0)])
    return tape


def ran(place, tape, *extra):
    y, x = place.alloc(DESC.bytes), place.alloc(DESC.bytes)
    place.memset(y, 0, DESC.bytes), place.memset(x, 0, DESC.bytes)
    tape.execute((y, x), *extra)
    return y, x


def test_an_illegal_access_is_told_later_with_the_last_launches(fake):
    """At the next call that waits: the last 16 kernels, by what they were for."""
    place = CudaDevice(0)
    first, second = tape_of(place, *(f"k{i}" for i in range(12))), tape_of(place, "illegal_k", "after")
    nameless = _core.Tape(place.context, [])
    nameless.launch(place.context.load(PTX % b"bare", "bare"), 1, 32, 0, b"")
    ran(place, first), ran(place, second), nameless.execute(()), ran(place, first)
    with pytest.raises(ExecutionFailed) as found:
        place.synchronize()
    launches = ", ".join(f"k{i}" for i in range(12))
    sentence = (f"Last launches (newest last): k11 of {PROBLEM}; illegal_k, after of {PROBLEM}; bare; "
                f"{launches} of {PROBLEM}")
    assert str(found.value).startswith("cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)")
    assert sentence in str(found.value)
    with pytest.raises(ExecutionFailed, match="failed earlier: .*" + re.escape(sentence)):
        place.alloc(16)


def test_every_path_names_its_problem(fake, monkeypatch):
    """Plans of all APIs: what failed is in words that ``Problem.parse`` reads."""
    calls = Calls()
    calls.run()
    for name, call in calls.paths.items():
        fake.reset()
        call()
        launch = next((n for n in ("cuLaunchKernelEx", "cuLaunchKernel") if fake.count(n)), None)
        if launch is None:
            continue
        fake.reset()
        fake.fail(launch, 1, 1)
        with pytest.raises(ExecutionFailed, match=r"; kernel \w+( with [\w= ]+)? of \w+ .*(f32|u8)") as found:
            call()
        fake.reset()
        assert "\n" not in str(found.value), name


def test_sync_finds_the_very_launch(fake, armed):
    place = armed("sync")
    tape = tape_of(place, "one", "two", "illegal_k", "four")
    y, x = place.alloc(DESC.bytes), place.alloc(DESC.bytes)
    fake.reset()
    with pytest.raises(ExecutionFailed, match=r"^cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS \(700\): as "
                       rf"the test asked; kernel illegal_k of {PROBLEM}, step 3 of 4, each waited for"):
        tape.execute((y, x))
    assert fake.count("cuLaunchKernel") == 3


def test_sync_tells_what_was_broken_before(fake, armed):
    """By other work on the stream: no step of this plan's."""
    place = armed("sync")
    tape, (y, x) = tape_of(place, "one"), (place.alloc(DESC.bytes), place.alloc(DESC.bytes))
    fake.reset()
    fake.fail("cuStreamSynchronize", 1, 719)
    with pytest.raises(ExecutionFailed, match=r"\(719\).*; before the first step of <tape of 1 .*by other"):
        tape.execute((y, x))
    assert fake.count("cuLaunchKernel") == 0


def test_two_fills_show_what_is_read_outside(fake):
    """And what is not gives its bits; what is written outside is said of both."""
    place = CudaDevice(0)
    fine, peeks, writes = (fills.Twice(tape_of(place, name, workspace_bytes=64), place, True)
                           for name in ("fine_k", "peek_k", "behind_k"))
    work = place.alloc(64)
    ran(place, fine, None, work, 64)
    with pytest.raises(AssertionError, match=f"^{PROBLEM}: other bits beside other memory"):
        ran(place, peeks, None, work, 64)
    with pytest.raises(ExecutionFailed, match="y: 1 bytes behind it were written"):
        ran(place, writes, None, work, 64)


def test_calls_of_every_path_are_made_twice(fake, monkeypatch):
    launches = lambda: fake.count("cuLaunchKernel") + fake.count("cuLaunchKernelEx")
    counts = []
    for twice in (False, True):
        if twice:
            plan.forget()
            fills.on_gpus(monkeypatch)
        calls = Calls()
        fake.reset()
        calls.run()
        counts.append(launches())
    plan.forget()
    assert counts[1] == 2 * counts[0] > 0


@pytest.mark.parametrize("kernel, words, sentence", [
    ("before_k", "redzone", "y: 1 bytes in front of it were written, the nearest 1 away"),
    ("behind_k", "redzone", "y: 1 bytes behind it were written, the nearest 1 away"),
    ("nan_k", "nan", r"y: 1 elements are NaN, the first \(0, 0\), and no input has one; 0 of them were NaN"),
])
def test_a_guard_finds_it(fake, armed, kernel, words, sentence):
    place = armed(words)
    tape = tape_of(place, "one", kernel)
    with pytest.raises(ExecutionFailed, match=rf"^{PROBLEM}: CYDNN_DEBUG={words}: {sentence}.*; "
                       f"kernels one, {kernel}"):
        ran(place, guarded.Guarded(tape, place, place.guards))
    others = guarded.WORDS - {words, "sync"}
    ran(place, guarded.Guarded(tape, place, others))         # not asked for: not looked for


def test_nan_of_an_input_is_no_finding(fake, armed):
    place = armed("nan")
    tape = guarded.Guarded(tape_of(place, "nan_k"), place, place.guards)
    y, x = place.alloc(DESC.bytes), place.alloc(DESC.bytes)
    place.memset(y, 0, DESC.bytes), place.memset(x, 0xFF, DESC.bytes)
    tape.execute((y, x))


def test_init_fills_what_is_ours(fake, armed):
    """Buffers, and the workspace of every call, whatever the caller's held."""
    place = armed("init")
    buffer = place.alloc(100)
    assert (place.copy_out(buffer, np.empty(100, np.uint8)) == 0xFF).all()
    tape = guarded.Guarded(tape_of(place, "one", workspace_bytes=64), place, place.guards)
    tape.tape.launch(place.context.load(PTX % b"sum_k", "sum_k"), 1, 32, 0, bytes(8) + bytes(8), [(0, -1, 0)])
    space = place.alloc(64)
    place.memset(space, 0, 64)
    ran(place, tape, None, space, 64)
    assert not place.copy_out(space, np.empty(64, np.uint8)).any(), "the kernels work on a copy"


def test_results_and_refusals_are_those_without_guards(fake, armed):
    place = armed("redzone,init")         # what sum_k writes may be any bits
    made = guarded.Guarded(tape_of(place, "sum_k"), place, place.guards)
    y, x = place.alloc(DESC.bytes), place.alloc(DESC.bytes)
    place.memset(x, 1, DESC.bytes), place.memset(y, 0, DESC.bytes)
    made.execute((y, x))
    assert made.names == ("y", "x") and made.workspace_bytes == 0
    assert place.copy_out(y, np.empty(1, np.uint64))[0] > DESC.bytes, "what was written came back"
    for given, sentence in (((y, 0), "x: must not be null"), ((y, y.ptr + 16), "y: must not overlap x"),
                            ((y, fake.memory(128, 1)), "x: must be memory of cuda:0")):
        with pytest.raises(BadParam, match=sentence):
            made.execute(given)


def test_every_path_runs_between_guards(fake, monkeypatch):
    monkeypatch.setenv("CYDNN_DEBUG", "sync,redzone,init")
    monkeypatch.setattr(device, "_devices", {})
    plan.forget()
    try:
        calls = Calls()
        assert "Guarded" in type(calls.plan.executable).__name__
        calls.run(2)
    finally:
        plan.forget()
        _core.wait_for_every_step(False)
    c.destroy(calls.handle)


def test_words_that_are_none_are_warned_of(fake, caplog):
    assert guarded.asked("nan, redzone,") == {"nan", "redzone"} and guarded.asked("") == frozenset()
    assert guarded.asked("asan,sync") == {"sync"}
    assert [r.message for r in caplog.records] == [
        "CYDNN_DEBUG must be words of init, nan, redzone, sync; got 'asan,sync'"]
