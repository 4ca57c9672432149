"""Memory that a device gives: sizes, what is freed, copies of the object, copies of the bytes."""
import copy
import pickle
import gc
import sys
import weakref
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest

from cydnn import _core, device as devices, plan
from cydnn.bench import graph_of
from cydnn.device.ptx import floating
from cydnn.heuristics import best
from cydnn.ops import Problem
from cydnn.status import AllocFailed, BadParam, NotSupported


@pytest.fixture(params=["numpy", "ptx:sm_80"])
def device(request):
    return devices.get(request.param)


def test_sizes(device):
    for size in (-1, -100, -2 ** 70):
        with pytest.raises(BadParam, match=f"alloc: bytes must be .*; got {size}"):
            device.alloc(size)
    for size in (1.5, "8", None):
        with pytest.raises(BadParam, match="alloc: bytes must be a whole number"):
            device.alloc(size)
    with pytest.raises(AllocFailed, match="alloc: "):
        device.alloc(1 << 62)
    empty, one = device.alloc(0), device.alloc(np.int64(1))
    assert (empty.bytes, one.bytes) == (0, 1) and empty.ptr and one.ptr


def test_a_freed_buffer_is_no_memory(device):
    buffer, array = device.alloc(64), np.zeros(16, np.float32)
    assert _core.pointer_of(buffer) == buffer.ptr
    assert repr(buffer) == f"<buffer of 64 bytes, at {buffer.ptr:#x}>"
    buffer.free()
    buffer.free()
    for call in (lambda: device.copy_in(buffer, array), lambda: device.copy_out(buffer, array),
                 lambda: device.memset(buffer, 0, 4), lambda: _core.pointer_of(buffer),
                 lambda: _core.memory_of(buffer)):
        with pytest.raises(BadParam, match="memory that was not freed; got <buffer of 64 bytes, freed>"):
            call()
    assert buffer.ptr == 0


def test_a_block_frees_it(device):
    with device.alloc(16) as buffer:
        assert buffer.ptr
    assert not buffer.ptr


def test_memory_of_the_host_is_given_to_others():
    """By DLPack and as an array; what was given stays when the buffer is freed, and a freed one gives
    nothing."""
    with devices.get("numpy").alloc(8) as buffer:
        view, array = np.from_dlpack(buffer), np.asarray(buffer)
        view[:] = range(8)
        assert view.ctypes.data == array.ctypes.data == buffer.ptr and array.flags.writeable
        store = weakref.ref(buffer._store)
    del view
    gc.collect()
    assert store() is not None and list(array) == list(range(8)) and buffer.__dlpack_device__() == (1, 0)
    del array
    assert store() is None and np.asarray(devices.get("numpy").alloc(0)).shape == (0,)
    with pytest.raises(BadParam, match="must be memory that was not freed"):
        np.from_dlpack(buffer)


class Exported:
    """Memory of the host as a capsule of ours: of the values 0 to 5, transposed."""

    def __init__(self):
        self.values = np.arange(6, dtype="f4")

    def __dlpack__(self, **how):
        return _core.capsule_of(self, self.values.ctypes.data, (1, 0), (2, 32), (3, 2), (1, 3))

    def __dlpack_device__(self):
        return 1, 0


def test_capsules_keep_their_owner_as_long_as_someone_has_them():
    one = Exported()
    count = sys.getrefcount(one)
    view = np.from_dlpack(one)
    assert sys.getrefcount(one) == count + 1 and view.tolist() == [[0, 3], [1, 4], [2, 5]]
    del view
    assert sys.getrefcount(one) == count
    one.__dlpack__()                             # nobody takes it
    assert sys.getrefcount(one) == count
    with pytest.raises(TypeError):
        _core.capsule_of(one, 8, (1, 0), (2, 32), ("3",), (1,))
    assert sys.getrefcount(one) == count


@pytest.mark.gpu
def test_memory_of_a_gpu_is_given_to_others(gpu):
    cupy = pytest.importorskip("cupy")
    with gpu.alloc(8) as buffer:
        gpu.memset(buffer, 3, 8)
        view = cupy.from_dlpack(buffer)
        assert view.data.ptr == buffer.ptr and view.tolist() == 8 * [3]
        del view
    assert buffer.__dlpack_device__() == (2, 0)
    with pytest.raises(BadParam, match="must be memory that was not freed"):
        buffer.__dlpack__()


def test_a_buffer_has_one_owner(device):
    buffer = device.alloc(64)
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copy: a buffer has one owner; got <buffer of 64 bytes"):
            call(buffer)


def test_copies_stay_inside(device):
    """What is known of the memory is kept to; an address of the host is only an address."""
    buffer, large = device.alloc(16), np.zeros(17, np.uint8)
    for call in (lambda: device.copy_in(buffer, large), lambda: device.copy_out(buffer, large),
                 lambda: device.memset(buffer, 1, 17)):
        with pytest.raises(BadParam, match="(copy_in|copy_out|memset): .*"):
            call()
    device.memset(buffer, 7, 16)
    assert (device.copy_out(buffer, np.empty(16, np.uint8)) == 7).all()


@pytest.mark.parametrize("array, sentence", [
    (np.zeros((4, 8), np.float32)[:, ::2], r"must be C-contiguous; got strides \(32, 8\)"),
    (np.zeros((2, 3), order="F"), "must be C-contiguous; got strides"),
    (np.frombuffer(bytes(8), np.uint8), "must be writable; got a read-only one"),
    (np.zeros(2, object), "must be a NumPy array of numbers; got array"),
    ([1, 2], "must be a NumPy array of numbers; got .1, 2.")])
def test_what_is_copied_out_arrives(device, array, sentence):
    """An array that could not be filled was returned as it was."""
    buffer = device.alloc(256)
    device.memset(buffer, 1, 256)
    with pytest.raises(BadParam, match=f"copy_out: array {sentence}"):
        device.copy_out(buffer, array)


class Unreadable:
    def __array__(self, *more, **options):
        raise RuntimeError("lost")


@pytest.mark.parametrize("array", ["text", None, np.zeros(2, object), [1, [2, 3]], Unreadable()],
                         ids=lambda x: type(x).__name__)
def test_what_is_copied_in_is_numbers(device, array):
    with pytest.raises(BadParam, match="copy_in: array must be one of numbers, on the host; got "):
        device.copy_in(device.alloc(64), array)


def test_what_memory_is_set_to(device):
    buffer = device.alloc(64)
    for value, size, sentence in ((256, 4, "value must be from 0 to 255; got 256"), (-1, 4, "value must be"),
                                  (1.5, 4, "value must be a whole number"), ("x", 4, "value must be"),
                                  (1, -4, "size_bytes must be >= 0; got -4"),
                                  (1, 2 ** 70, "size_bytes must be"), (1, 1.5, "size_bytes must be")):
        with pytest.raises(BadParam, match=f"memset: {sentence}"):
            device.memset(buffer, value, size)
    for call in (lambda: device.memset(None, 1, 4), lambda: device.copy_in(0, np.zeros(4))):
        with pytest.raises(BadParam, match="(memset|copy_in): (memory must not be null|.* live allocation)"):
            call()


def test_memory_of_another_device():
    host, guest = devices.get("numpy"), devices.get("ptx:sm_80").alloc(16)
    with pytest.raises(BadParam, match="copy_in: must be memory of the host; got memory of another"):
        host.copy_in(guest, np.zeros(16, np.uint8))


def test_memory_that_an_interpreter_does_not_have():
    one, other = devices.get("ptx:sm_80"), devices.get("ptx:sm_90")
    p = plan.build(graph_of(Problem.parse("softmax_fwd 4x8 f32")), one)
    x, foreign = one.alloc(128), other.alloc(128)
    with pytest.raises(BadParam, match="y: must be an array of the host or memory of ptx:sm_80; got memory"):
        p.execute([x, foreign])
    with pytest.raises(BadParam, match="y: must be an array of the host, or 128 bytes of one buffer of ptx:sm"
                                       "_80; got 0x10, where they are not"):
        p.execute([x, 16])


def test_a_plan_of_another_kind_of_device():
    graph, numpy = graph_of(Problem.parse("softmax_fwd 4x8 f32")), devices.get("numpy")
    with pytest.raises(NotSupported, match="ptx:sm_80: a step must be one of Launch, Memset; got Reference"):
        plan.made(best(graph, numpy.facts), devices.get("ptx:sm_80"))


def test_memory_of_an_interpreter_is_no_array():
    with pytest.raises(BufferError, match="addresses of its own; got <buffer of 8 bytes.*copy_out gives"):
        np.from_dlpack(devices.get("ptx:sm_80").alloc(8))


def test_a_processor_whose_rounding_is_not_known(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(NotSupported, match="by the processor .* x86_64, aarch64, arm64; got Linux on ris"):
        spec = spec_from_file_location("cydnn.device.ptx.elsewhere", floating.__file__)
        spec.loader.exec_module(module_from_spec(spec))


def test_what_memory_says():
    array = np.zeros((3, 4), np.float16)[:, ::2]
    found = _core.memory_of(array)
    assert ((found.address, found.bytes, found.place, found.dims, found.strides, found.type, found.is_frozen)
            == (array.ctypes.data, 22, "host", (3, 2), (4, 2), "float16", False))
    known = _core.memory_of(0x1230)
    assert (known.address, known.bytes, known.place, known.dims) == (0x1230, None, None, ())
    times = _core.memory_of(np.zeros(3, "M8[s]"))
    assert (times.type, times.bytes) == ("the type <M8[s]", 24)
    part = _core.memory_of(bytearray(10)).part(4)
    assert (part.bytes, part.type, part.place) == (6, "bytes", "host") and part.part(20).bytes == 0
    assert _core.memory_of(found) is found


def test_a_copy_lives_as_long_as_what_is_known_of_it():
    """An object may hand out another array each time."""
    class Copied:
        def __dlpack__(self, **_):
            return np.ones(1000, np.float32).__dlpack__()
    found = [_core.memory_of(Copied()) for _ in range(20)]
    assert len({m.address for m in found}) == 20


def test_objects_that_fail_to_say():
    class Torn:
        def __dlpack__(self, **_):
            raise BufferError("requires grad")

    class Odd:
        def __init__(self, **facts):
            self.__cuda_array_interface__ = facts
    fine = dict(data=(16, False), typestr="<f4")
    for x, words in ((Torn(), "requires grad"), (Odd(shape=(1,)), "data"),
                     (Odd(data=(None, False)), "None"),
                     (Odd(**fine, shape=4), "tuple"), (Odd(**fine, shape=(2 ** 70,)), "large")):
        with pytest.raises(BadParam, match=f"{type(x).__name__} does not give its memory: .*{words}"):
            _core.pointer_of(x)
    with pytest.raises(BadParam, match=f"pointer: must be an address, from 0 to .*; got {2 ** 70}"):
        _core.pointer_of(Odd(data=(2 ** 70, False)))


@pytest.mark.parametrize("number", [-8, 2 ** 64, 2 ** 70])
def test_numbers_that_are_no_address(number):
    with pytest.raises(BadParam, match=f"pointer: must be an address, from 0 to .*; got {number}"):
        _core.memory_of(number)
