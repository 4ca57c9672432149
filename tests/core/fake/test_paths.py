"""What every way to run something asks of the driver: the launches, and nothing else."""
import sys

import pytest

from cydnn import _core, cudnn as c
from cydnn.core._driver import ERRORS
from cydnn.device.cuda import CudaDevice
from cydnn.log import LAUNCHES, watch_launches
from cydnn.status import BadParam, CydnnError, ExecutionFailed

from paths import STREAM, Calls
from support.guard import threads

OF_EXECUTE = {"cuCtxGetCurrent", "cuLaunchKernel", "cuLaunchKernelEx", "cuMemsetD8Async",
              "cuTensorMapReplaceAddress"}
# What an address is: asked once, and again where three that are in use have one of 256 places.
ADDRESS = {"cuPointerGetAttributes"}
NAMES = tuple(Calls().paths)


@pytest.fixture(scope="module")
def calls():
    made = Calls()
    made.run()
    return made


@pytest.mark.parametrize("name", NAMES)
def test_execute_asks_for_launches_only(fake, calls, name):
    """No allocation, no free, no wait, no module, nothing on the default stream."""
    fake.reset()
    calls.paths[name]()
    called = fake.called()
    assert called.keys() <= OF_EXECUTE | ADDRESS, called
    assert any("Launch" in function or "Memset" in function for function in called)
    assert called["cuCtxGetCurrent"][0] == 1 and fake.on_default() == 0
    assert not fake.last().name or fake.last().stream == STREAM


def test_a_call_on_the_default_stream_is_seen(fake, calls):
    """What the test above would say."""
    with_default = Calls(stream=0)
    with_default.run()
    fake.reset()
    with_default.run()
    assert fake.on_default() >= len(NAMES)
    with_default.place.alloc(16).free()
    assert not fake.called().keys() <= OF_EXECUTE | ADDRESS


def python_in(call):
    """Modules of the Python functions, and names of the others, that run in a call."""
    seen = set()

    def watch(frame, event, what):
        if event in ("call", "c_call"):
            seen.add(frame.f_globals.get("__name__", "") if event == "call" else what.__name__)
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {"logging" if name.startswith("logging") else name for name in seen}


LOGGING = {"logging", "cydnn.log", "format", "warnings"}


@pytest.mark.parametrize("name", NAMES)
def test_logging_that_is_off_costs_nothing(calls, name):
    """No function of a log runs, no text is made."""
    assert not python_in(calls.paths[name]) & LOGGING


@pytest.mark.parametrize("name", NAMES)
def test_logging_that_is_on_gives_one_line_a_launch(fake, calls, name, caplog):
    with caplog.at_level(LAUNCHES, "cydnn"):
        watch_launches()
        try:
            fake.reset()
            assert LOGGING & python_in(calls.paths[name]) or not fake.last().name
        finally:
            _core.log_launches(None)
    launches = sum(fake.called().get(n, (0,))[0] for n in ("cuLaunchKernel", "cuLaunchKernelEx"))
    assert len(caplog.records) == launches and all(r.message.startswith("launch ") for r in caplog.records)
    assert all("\n" not in r.message for r in caplog.records)


# -- Two devices, and no context -----------------------------------------------------------------------------

def test_two_devices_in_one_process(fake, calls):
    """Each works in its own context, whatever is current; memory of the other one is refused by name."""
    other = Calls(1)
    for current in (0, 1):
        with fake.under(current):
            for name in NAMES:
                for mine in (calls, other):
                    mine.paths[name]()
            assert fake.depth() <= 2
    assert threads.together(lambda number: (calls, other)[number].run(), 2) == []        # none is current
    launches = {**calls.with_memory_of(other), **other.with_memory_of(calls)}
    fake.reset()
    for name, (call, sentence) in launches.items():
        with pytest.raises(BadParam, match=sentence):
            call()
    assert not any("Launch" in name or "Memset" in name for name in fake.called()) and len(launches) == 10


# -- What fails ----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", NAMES)
def test_a_failing_call_is_named_and_the_next_one_works(fake, calls, name):
    """Of a plan that is known; nothing is done after the call that failed, and nothing twice."""
    call = calls.paths[name]
    fake.reset()
    call()
    for function, (count, _) in fake.called().items():
        for nth in sorted({1, count} if function not in ADDRESS else ()):
            for status in (1, 2, 201, 720, 912):
                fake.reset()
                fake.fail(function, nth, status)
                with pytest.raises(CydnnError, match=rf"^{function}: .* \({status}\)") as found:
                    call()
                assert type(found.value) is ERRORS.get(status, ExecutionFailed)
                assert fake.count(function) == nth, "it was tried again"
                fake.reset()
                call()
                assert fake.count(function) == count


def cold(place):
    """From nothing: a handle, memory, plans, what a handle lends, and all given back."""
    handle = c.create(place)
    try:
        x, row = c.createTensorDescriptor(), c.createTensorDescriptor()
        c.setTensor4dDescriptor(x, 0, 0, 64, 8, 30, 30), c.setTensor4dDescriptor(row, 0, 0, 1, 8, 1, 1)
        a, b, *p = [place.alloc(x_bytes) for x_bytes in (2 << 20, 2 << 20, 64, 64, 64, 64, 64, 64)]
        c.softmaxForward(handle, 1, 0, 1.0, x, a.ptr, 0.0, x, b.ptr)
        c.batchNormalizationForwardTraining(handle, 1, 1, 0, x, a, x, b, row, *p[:2], 1.0, *p[2:4], 1e-3,
                                            *p[4:])
        handle.reserve(100_000)
    finally:
        c.destroy(handle)


def test_what_fails_on_the_way_to_a_first_call_is_named_and_leaves_nothing(fake):
    fake.reset()
    cold(CudaDevice(0))
    for function, (count, _) in fake.called().items():
        if function in ("cuCtxPopCurrent_v2", "cuDevicePrimaryCtxRelease_v2", "cuModuleUnload"):
            continue                             # of destructors: test_faults.py
        for nth in sorted({1, min(2, count), 2 if function in ADDRESS else count}):
            for status in (2, 700):              # what is lost is not given back
                before = fake.books()
                check_cold(fake, function, nth, status)
                assert status == 700 or function in MAY_KEEP or fake.books() == before, (function, nth)


MAY_KEEP = {"cuCtxPushCurrent_v2", "cuMemFree_v2"}          # in destructors, what was to be given back


def check_cold(fake, function, nth, status):
    place = None
    fake.reset()
    fake.fail(function, nth, status)
    name = function.removesuffix("_v2")
    try:
        place = CudaDevice(0)
        cold(place)
    except CydnnError as error:
        assert str(error).startswith(name) and f"({status})" in str(error), (nth, str(error))
    else:
        assert function in MAY_KEEP, (function, nth, status)
    fake.fail(function, 0, 0)
    if place is not None and place.context.lost is None:
        cold(place)
    elif place is not None:
        with pytest.raises(ExecutionFailed, match="failed earlier"):
            cold(place)
