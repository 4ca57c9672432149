"""Contexts, streams, events, buffers, modules: what they own, what they give back, how their errors read."""
import copy
import gc
import os
import pickle
import sys

import numpy as np
import pytest

from cydnn import _core
from cydnn.device.cuda import CudaDevice
from cydnn.status import AllocFailed, BadParam, ExecutionFailed, NotInitialized, NotSupported

from conftest import PTX


def test_table_is_filled_and_speaks_to_the_driver(fake):
    assert _core.device_count() == 2 and _core.driver_version() == 13000


def test_context_tells_what_device_it_is_on(context):
    assert ((context.ordinal, context.name, context.total_bytes, context.attribute(16))
            == (0, "Fake GPU 0", 1 << 33, 132))
    assert context.memory_info() == (1 << 32, 1 << 33) and repr(context) == "<cydnn context of cuda:0>"


def test_ordinal_out_of_range_is_refused(fake):
    with pytest.raises(BadParam, match=r"device: ordinal must be in 0..1; got 7"):
        _core.Context(7)


def test_what_is_of_the_driver_stays_in_its_process(context, kernel):
    things = {"pickle: a context": context, "pickle: a stream": _core.Stream(context),
              "pickle: an event": _core.Event(context), "copy: a buffer has one": _core.Buffer(context, 8),
              "pickle: a loaded kernel": kernel(), "pickle: a device": CudaDevice(0)}
    for words, thing in things.items():
        for way in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=f"^{words} .*; got "):
                way(thing)


def test_every_handle_is_given_back(fake, tmp_path):
    gc.collect()
    before = {kind: fake.live(kind) for kind in ("contexts", "modules", "streams", "events", "blocks")}
    for _ in range(20):
        context = _core.Context(1)
        things = [_core.Stream(context), _core.Event(context),
                  _core.Buffer(context, 100), context.load(PTX % b"k", "k")]
        tape = _core.Tape(context, [("x", 16, 16, False, False)])
        del context, things, tape
    gc.collect()
    assert {kind: fake.live(kind) for kind in before} == before and fake.depth() <= 1


def test_handles_in_a_reference_cycle_are_given_back(fake):
    gc.collect()
    before = fake.live("streams"), fake.live("contexts")
    for _ in range(5):
        box = []
        box.append(_core.Stream(_core.Context(1), foreign=None))
        box.append(box)
        del box
    gc.collect()
    assert (fake.live("streams"), fake.live("contexts")) == before


def test_handles_outlive_the_name_of_their_context(fake):
    buffer = _core.Buffer(_core.Context(1), 64)
    gc.collect()
    buffer.context.memset(buffer, 7, 64)
    assert fake.count("cuDevicePrimaryCtxRelease_v2") == 0
    del buffer
    assert fake.count("cuDevicePrimaryCtxRelease_v2") == 1


def test_calls_leave_the_current_context_as_it_was(fake, context):
    buffer, other = _core.Buffer(context, 64), _core.Buffer(_core.Context(1), 64)
    for b in (buffer, other):
        b.context.memset(b, 0, 64), b.context.synchronize()
    fake.fail("cuMemsetD8Async", 1, 1)
    with pytest.raises(ExecutionFailed):
        context.memset(buffer, 0, 64)
    assert fake.depth() <= 1


def test_copies_and_memset(context):
    data, back = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    a, b = _core.Buffer(context, 200), _core.Buffer(context, 200)
    context.copy_in(a, data)
    context.copy(b.ptr, a.ptr, 200)
    context.memset(b.ptr, 0, 4)
    context.copy_out(back, b)
    assert back[0] == 0 and (back[1:] == data[1:]).all()


def test_buffer_is_a_view_for_others_and_is_freed_once(fake, context):
    buffer = _core.Buffer(context, 10)
    assert buffer.__cuda_array_interface__["data"] == (buffer.ptr, False) and buffer.bytes == 10
    frees = fake.count("cuMemFree_v2")
    with buffer:
        buffer.free()
    assert buffer.ptr == 0 and fake.count("cuMemFree_v2") == frees + 1


def test_out_of_memory_says_how_much_was_asked_for(context):
    with pytest.raises(AllocFailed, match=r"cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY \(2\).*1099511627776 bytes "
                                          "were asked for on cuda:0") as error:
        _core.Buffer(context, 1 << 40)
    assert isinstance(error.value, MemoryError) and error.value.status == 2


def test_streams_and_events(context):
    stream, start, end = _core.Stream(context, -1, False), _core.Event(context), _core.Event(context)
    start.record(stream), end.record(stream), stream.wait(end), end.synchronize(), stream.synchronize()
    assert end.elapsed(start) == 1.5 and stream.__cuda_stream__() == (0, stream.address)


def test_a_foreign_stream_is_wrapped_not_owned(fake, context):
    mine = _core.Stream(context)
    wrapped = _core.Stream(context, foreign=mine)
    assert wrapped.address == mine.address and wrapped.owner is mine
    assert repr(wrapped) == repr(mine) == f"<stream {mine.address:#x} on cuda:0>"
    del wrapped
    assert fake.count("cuStreamDestroy_v2") == 0


def test_an_image_is_loaded_once_a_context(fake, context):
    first, second = context.load(PTX % b"once", "once"), context.load(PTX % b"once", "once")
    assert (fake.count("cuModuleLoadDataEx") == 1 and first.name == second.name == "once"
            and first.registers == 32)
    _core.Context(1).load(PTX % b"once", "once")
    assert fake.count("cuModuleLoadDataEx") == 2


def test_a_bad_image_shows_what_the_assembler_said(context):
    with pytest.raises(NotSupported, match=r"cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX \(218\).*"
                                           "ptxas fatal: line 1; syntax error"):
        context.load(b"nonsense", "k")
    with pytest.raises(ExecutionFailed, match=r"cuModuleGetFunction: .*\(500\).*; kernel other"):
        context.load(PTX % b"k", "other")


def test_shared_memory_is_raised_on_demand_and_refused_beyond_the_device(context, kernel):
    function = kernel()
    assert repr(function) == "<kernel k on cuda:0>"
    function.allow_smem(1000)
    assert function.smem_limit == 49152
    function.allow_smem(100_000)
    assert function.smem_limit == 100_000
    with pytest.raises(NotSupported, match=r"k: smem must be <= 232448 bytes on this device; got 300000"):
        function.allow_smem(300_000)


@pytest.mark.parametrize("call, status, error", [
    ("cuCtxSynchronize", 1, ExecutionFailed), ("cuCtxSynchronize", 201, NotInitialized),
    ("cuCtxGetCurrent", 4, NotInitialized)])
def test_a_status_becomes_its_exception(fake, context, call, status, error):
    fake.fail(call, 1, status)
    with pytest.raises(error, match=rf"{call}: .*\({status}\): as the test asked"):
        context.synchronize()
    context.synchronize()


def test_a_forked_child_is_told(fake, context):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            fake.fail("cuCtxSynchronize", 1, 3)
            context.synchronize()
        except NotInitialized as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"this process was forked after CUDA was initialised" in os.read(read, 1000)


def test_a_buffer_is_given_to_others(fake, context):
    """By a capsule that keeps it; the stream that is told waits."""
    buffer, stream = _core.Buffer(context, 8), _core.Stream(context)
    before, held = fake.live("blocks"), sys.getrefcount(buffer)
    capsule = buffer.__dlpack__(stream=stream.address, max_version=(1, 0))
    assert "dltensor" in repr(capsule) and sys.getrefcount(buffer) == held + 1
    assert buffer.__dlpack_device__() == (2, 0) and fake.live("blocks") == before
    for how in (dict(copy=True), dict(dl_device=(1, 0))):
        with pytest.raises(BufferError, match=r"memory of device \(2, 0\) must be taken as it lies; got "):
            buffer.__dlpack__(**how)
    del capsule
    assert sys.getrefcount(buffer) == held
    buffer.free()
    with pytest.raises(BadParam, match="dlpack: must be memory that was not freed; got <buffer of 8 bytes"):
        buffer.__dlpack__()
