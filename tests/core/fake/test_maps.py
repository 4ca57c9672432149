"""Tensor maps: encoded once, the address replaced in each thread's own block, refused before any launch."""
import ctypes
import threading

import pytest

from cydnn import _core, device
from cydnn.status import BadParam, ExecutionFailed
from cydnn.steps import Launch, Pointer, TensorMap

from conftest import Map
from support.draw import handmade

SLOTS = [("x", 4096, 4, False, False), ("y", 4096, 16, True, True)]
ENCODING = (7, (100, 30), (400,), (32, 8), (1, 2), 3, True)


def map_at(launch, offset):
    return Map.from_buffer_copy(bytes(launch.data[offset:offset + ctypes.sizeof(Map)]))


@pytest.fixture
def tape(context, kernel):
    """A launch of two maps: of x, 32 bytes in, and of the workspace, 64 bytes in."""
    tape = _core.Tape(context, SLOTS, [0], 1024, workspace_alignment=4)
    block = bytearray(264)
    block[:128] = block[128:256] = context.tensor_map(*ENCODING)
    tape.launch(kernel(), 1, 32, 0, bytes(block), [], [(256, "i64", 0)], [(0, 0, 32), (128, -1, 64)],
                params=(0, 128, 256))
    return tape


def test_a_map_is_encoded_when_the_tape_is_made_and_has_the_address_of_each_execute(fake, context, tape):
    work, buffers = _core.Buffer(context, 1024), [_core.Buffer(context, 4096) for _ in range(3)]
    assert fake.count("cuTensorMapEncodeTiled") == 1 and fake.depth() <= 1
    for number, x in enumerate(buffers):
        tape.execute((x, None), (number,), work, 1024)
        first, second = (map_at(fake.last(), offset) for offset in (0, 128))
        assert (first.address, second.address) == (x.ptr + 32, work.ptr + 64)
        assert (first.type, first.rank, first.swizzle, first.fill) == (7, 2, 3, 1)
        assert (list(first.dims)[:2], first.strides[0], list(first.box)[:2], list(first.steps)[:2]) == (
            [100, 30], 400, [32, 8], [1, 2])
    assert fake.count("cuTensorMapEncodeTiled") == 1 and fake.count("cuTensorMapReplaceAddress") == 6


def test_an_absent_operand_keeps_a_map_of_address_zero(fake, context, kernel):
    tape = _core.Tape(context, SLOTS)
    tape.launch(kernel(), 1, 32, 0, context.tensor_map(*ENCODING), maps=[(0, 1, 16)], params=(0,))
    tape.execute((_core.Buffer(context, 4096), None))
    assert map_at(fake.last(), 0).address == 0 and fake.count("cuTensorMapReplaceAddress") == 0


def test_an_address_that_no_map_can_have_is_refused_before_any_launch(fake, context, tape, kernel):
    """The slot asks for 4 bytes, the map in it for 16."""
    tape.launch(kernel("second"), 1, 32, 0, bytes(8), [(0, 0, 0)])
    x, work = _core.Buffer(context, 8192), _core.Buffer(context, 2048)
    with pytest.raises(BadParam, match=r"^x: must be aligned to 16 bytes; got 0x[0-9a-f]+8"):
        tape.execute((x.ptr + 8, None), None, work, 1024)
    with pytest.raises(BadParam, match=r"^workspace: must be aligned to 16 bytes; got 0x[0-9a-f]+8"):
        tape.execute((x, None), None, work.ptr + 8, 1024)
    assert fake.count("cuLaunchKernelEx") == 0
    tape.execute((x.ptr + 16, None), None, work, 1024)


@pytest.mark.parametrize("offset, addend", [(32, 0), (0, 8)])
def test_a_map_that_the_hardware_cannot_read_is_refused_when_it_is_added(context, kernel, offset, addend):
    tape = _core.Tape(context, SLOTS)
    sentence = "a tensor map must lie at a multiple of 64 bytes and begin a multiple of 16 "
    with pytest.raises(BadParam, match=f"patch: {sentence}.*; got offset {offset}, addend {addend}"):
        tape.launch(kernel(), 1, 32, 0, bytes(256), maps=[(offset, 0, addend)], params=(0,))
    with pytest.raises(BadParam, match="patch: offset must lie within 127 bytes of parameters; got 0"):
        tape.launch(kernel(), 1, 32, 0, bytes(127), maps=[(0, 0, 0)], params=(0,))
    with pytest.raises(BadParam, match="k: params must be given for a launch with tensor maps; got none"):
        tape.launch(kernel(), 1, 32, 0, bytes(128), maps=[(0, 0, 0)])


def test_what_the_driver_refuses_names_what_it_was_given(fake, context):
    sentence = r"cuTensorMapEncodeTiled: .*\(1\).*; dims \(4,\), strides \(\), box \(300,\)"
    with pytest.raises(ExecutionFailed, match=sentence):
        context.tensor_map(7, (4,), (), (300,), (1,), 0, False)
    with pytest.raises(BadParam, match="tensor_map: dims must have 1 to 5 entries, strides one less"):
        context.tensor_map(7, (4, 4), (), (4, 4), (1, 1), 0, False)
    assert fake.depth() <= 1


def test_a_map_of_pixels(fake, context, kernel):
    tape = _core.Tape(context, SLOTS)
    block = context.tensor_map(6, (64, 9, 7, 2), (128, 1152, 8064), (32, 128), (1, 2, 1, 1), 3, False,
                               ((-1, -2), (3, -4)))
    tape.launch(kernel(), 1, 32, 0, block, maps=[(0, 0, 0)], params=(0,))
    x = _core.Buffer(context, 4096)
    tape.execute((x, None))
    found = map_at(fake.last(), 0)
    assert fake.count("cuTensorMapEncodeIm2col") == 1 and fake.count("cuTensorMapEncodeTiled") == 0
    assert (found.address, found.type, found.rank, found.swizzle) == (x.ptr, 6, 4, 3)
    assert (list(found.dims)[:4], list(found.strides)[:3], list(found.box)[:2], list(found.steps)[:4]) == (
        [64, 9, 7, 2], [128, 1152, 8064], [32, 128], [1, 2, 1, 1])
    assert (list(found.lower)[:2], list(found.upper)[:2]) == ([-1, -2], [3, -4])


def test_a_map_of_pixels_is_refused(context):
    sentence = r"cuTensorMapEncodeIm2col: .*\(1\).*; dims .*, corners \(\(-129,\), \(0,\)\)"
    with pytest.raises(ExecutionFailed, match=sentence):
        context.tensor_map(6, (64, 9, 2), (128, 1152), (32, 128), (1, 1, 1), 3, False, ((-129,), (0,)))
    with pytest.raises(BadParam, match=r"tensor_map: corners must be two of 1 entries; got \(\(0, 0\), \(0,"):
        context.tensor_map(6, (64, 9, 2), (128, 1152), (32, 8), (1, 1, 1), 3, False, ((0, 0), (0, 0)))


def test_a_failing_replacement_names_itself(fake, context, tape):
    x, work = _core.Buffer(context, 4096), _core.Buffer(context, 1024)
    fake.fail("cuTensorMapReplaceAddress", 2, 1)
    with pytest.raises(ExecutionFailed, match=r"^cuTensorMapReplaceAddress: .*; kernel k"):
        tape.execute((x, None), None, work, 1024)
    assert fake.count("cuLaunchKernel") == 0


def test_threads_replace_the_address_in_blocks_of_their_own(context, kernel):
    """The fake kernel sums its parameters: the address in the map is the only one that differs."""
    tape = _core.Tape(context, [("out", 8, 8, True, False), ("x", 4096, 16, False, False)])
    block = bytearray(264)
    block[128:256] = context.tensor_map(5, (8,), (), (8,), (1,), 0, False)
    rest = sum(int.from_bytes(block[i:i + 8], "little") for i in range(0, 264, 8))
    tape.launch(kernel("sum_words"), 1, 32, 0, bytes(block), [(0, 0, 0)], maps=[(128, 1, 16)],
                params=(0, 128, 256))
    wrong = []

    def work():
        out, x, got = _core.Buffer(context, 8), _core.Buffer(context, 4096), bytearray(8)
        for _ in range(1000):
            tape.execute((out, x))
            context.copy_out(got, out)
            wrong.extend([] if int.from_bytes(got, "little") == rest + x.ptr + 16 else [x.ptr])
    threads = [threading.Thread(target=work) for _ in range(8)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not wrong


def test_a_step_with_a_map_becomes_a_launch(fake, tmp_path):
    text = ".version 8.0\n.target sm_90\n.visible .entry tiles(\n)\n{ ret; }\n"
    gpu = device.get("cuda:0")
    x = TensorMap(Pointer(0, 64), "bf16", (64, 10), (256,), (64, 4), swizzle=128)
    plan = handmade.plan([handmade.tensor(1, "bf16", (64, 20)), handmade.tensor(2, "f32", (64,))],
                         [Launch("tiles", dict(rows=10, x=x, y=Pointer(1)))])
    with handmade.installed(tmp_path, tiles=(["int rows", "CUtensorMap x", "f32* y"], text, {})):
        tape = gpu.compile(plan)
    places = gpu.alloc(4096), gpu.alloc(4096)
    tape.execute(places)
    found = map_at(fake.last(), 128)
    assert (found.address, found.type, found.swizzle) == (places[0].ptr + 64, 9, 3)
    assert list(found.box)[:2] == [64, 4]
    assert fake.last().bytes == 264
