"""Memory on a GPU that says what it is, against the tensors of a tape: before anything is launched."""
import copy

import numpy as np
import pytest

from cydnn import _core
from cydnn.operand import Operand
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc

DESC = TensorDesc.packed("f32", (2, 8, 6, 6), "nhwc")
SIZE = DESC.bytes


@pytest.fixture
def tape(context, kernel):
    found = _core.Tape(context, [Operand("x", SIZE, 16, desc=DESC), Operand("y", SIZE, 16, True, desc=DESC)],
                       workspace_bytes=64)
    found.launch(kernel(), 1, 32, 0, bytes(16), [(0, 0, 0), (8, 1, 0)])
    return found


class Array:
    """Of a library with ``__cuda_array_interface__``."""

    def __init__(self, address, dims=(2, 8, 6, 6), strides=(1152, 4, 192, 32), type_="<f4", is_frozen=False):
        self.__cuda_array_interface__ = dict(shape=dims, strides=strides, typestr=type_, version=3,
                                             data=(address, is_frozen))


@pytest.fixture
def places(fake):
    return [fake.memory(4096) for _ in range(3)]


def test_what_fits_is_launched(fake, tape, places, context):
    x, y, space = places
    buffers = [_core.Buffer(context, SIZE) for _ in range(2)]
    for a, b in ((x, y), buffers, (Array(x), Array(y)), (Array(x, (2, 6, 6, 8), None), y),
                 (Array(x, (576,), None), Array(y, (4096,), None, "|u1")), (_core.memory_of(Array(x)), y)):
        fake.reset()
        tape.execute((a, b), None, space, 64)
        tape.execute([a, b], None, Array(space, (64,), None, "|u1"), 64)
        assert fake.count("cuLaunchKernel") == 2
        assert bytes(fake.last().data[:8]) == _core.pointer_of(a).to_bytes(8, "little")


MISFITS = {
    "type": (dict(type_="<f8", strides=(2304, 8, 384, 64)), "array must be of type float32, .*; got float64"),
    "order": (dict(type_=">f4"), "array must be of type float32, .*; got byte-swapped float32"),
    "layout": (dict(strides=None), r"array must have shape .*; got shape \(2, 8, 6, 6\) and strides \(288,"),
    "dims": (dict(dims=(2, 8, 6, 5)), "array must have shape"),
    "length": (dict(dims=(575,), strides=None), "array must have at least 2304 bytes, .*; got 2300 bytes"),
    "odd strides": (dict(strides=(1152, 2, 192, 32)), "array must have shape"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_is_refused(fake, tape, places, name):
    facts, sentence = MISFITS[name]
    x, y, space = places
    table, desc = _core.PlanTable(), _core.Descriptor()
    desc.set("tensor", (1,))
    table.put(7, (desc,), True, tape)
    for i, operand in enumerate("xy"):
        given = [x, y]
        given[i] = Array(given[i], **facts)
        for call in (lambda: tape.execute(given, None, space, 64),
                     lambda: table.run(7, (desc,), tuple(given), None, space, 64, 0)):
            with pytest.raises(BadParam, match=f"{operand}: {sentence}"):
                call()
    assert fake.count("cuLaunchKernel") == 0


def test_read_only_outputs_and_workspaces(tape, places):
    x, y, space = places
    tape.execute((Array(x, is_frozen=True), y), None, space, 64)
    with pytest.raises(BadParam, match="y: array must be writable"):
        tape.execute((x, Array(y, is_frozen=True)), None, space, 64)
    for given, sentence in ((Array(space, (63,), None, "|u1"), "must have the 64 bytes that are said; got 6"),
                            (Array(space, (64,), None, "|u1", True), "must be writable"),
                            (Array(space, (64,), (2,), "|u1"), "must have no gaps")):
        with pytest.raises(BadParam, match=f"workspace: {sentence}"):
            tape.execute((x, y), None, given, 64)


def test_optional_operands_that_are_absent(fake, context, kernel, places):
    """What is compared is the operand that the pointer stands for."""
    x, y, _ = places
    tape = _core.Tape(context, [Operand("x", SIZE, 16, desc=DESC), Operand("y", SIZE, 16, True, desc=DESC)])
    tape.launch(kernel(), 1, 32, 0, bytes(16), [(0, 0, 0), (8, 1, 0)])
    table, desc, number = _core.PlanTable(), _core.Descriptor(), _core.nullable(7, [1])
    desc.set("tensor", (1,))
    table.put(number, (desc,), True, tape, 2)
    assert table.run(number, (desc,), (Array(x), None, Array(y)), None, 0, 0, 0)
    with pytest.raises(BadParam, match="y: array must be of type float32"):
        table.run(number, (desc,), (Array(x), None, Array(y, type_="<i4")), None, 0, 0, 0)


def test_packed_booleans(context, kernel, places):
    desc = TensorDesc.packed("bool", (4, 64))
    tape = _core.Tape(context, [Operand("x", desc.bytes, 16, desc=desc)])
    tape.launch(kernel(), 1, 32, 0, bytes(8), [(0, 0, 0)])
    tape.execute((Array(places[0], (32,), None, "|u1"),))
    for dims, type_ in (((4, 64), "|b1"), ((4, 8), "|u1")):
        with pytest.raises(BadParam, match="x: array must .*np.packbits"):
            tape.execute((Array(places[0], dims, None, type_),))


def test_buffers(context, tape, places):
    x, y, space = places
    small, freed = _core.Buffer(context, 16), _core.Buffer(context, SIZE)
    freed.free()
    with pytest.raises(BadParam, match="y: buffer must have at least 2304 bytes; got 16"):
        tape.execute((x, small), None, space, 64)
    with pytest.raises(BadParam, match="must be memory that was not freed; got <buffer of 2304 bytes at 0x0"):
        tape.execute((freed, y), None, space, 64)
    for size in (-1, 1 << 63, -2 ** 70):
        with pytest.raises(BadParam, match="alloc: bytes must be >= 0 and below"):
            _core.Buffer(context, size)
    with pytest.raises(TypeError):
        copy.copy(small)


@pytest.mark.parametrize("strict", ["0", "1"])
def test_a_plan_of_a_graph_compares_what_it_is_given(fake, monkeypatch, strict):
    """What does not fit is refused where CYDNN_STRICT=1; else it is launched, and said once."""
    import cydnn.frontend as cudnn
    monkeypatch.setenv("CYDNN_STRICT", strict)
    kind = cudnn.data_type.FLOAT
    g = cudnn.pygraph(io_data_type=kind, intermediate_data_type=kind, compute_data_type=kind,
                      handle=cudnn.create_handle("cuda:0"))
    x = g.tensor([2, 8, 6, 6], [288, 1, 48, 8], name="x")
    y = g.relu(x).set_output(True)
    g.build([cudnn.heur_mode.A])
    a, b = fake.memory(4096), fake.memory(4096)
    g.execute({x: Array(a), y: Array(b)}, 0)
    launches = fake.count("cuLaunchKernel")
    packs = {x: Array(a, type_="<i4"), y: b}, {x.get_uid(): Array(a, strides=None), y.get_uid(): b}
    if strict == "0":
        with pytest.warns(UserWarning, match="execute: x: array must") as said:
            for pack in packs:
                g.execute(pack, 0)
        assert len(said) == 1 and fake.count("cuLaunchKernel") == launches + 2
    else:
        for pack in packs:
            with pytest.raises(BadParam, match="x: array must"):
                g.execute(pack, 0)
        assert fake.count("cuLaunchKernel") == launches
    with pytest.raises(BadParam, match="x: must be memory that cuda:0 can reach"):
        g.execute({x: np.zeros(576, np.float32), y: b}, 0)


def test_booleans_of_one_byte_are_packed_by_launches_of_their_own(fake):
    import cydnn.frontend as cudnn
    kinds = cudnn.data_type
    g = cudnn.pygraph(io_data_type=kinds.BOOLEAN, intermediate_data_type=kinds.BOOLEAN,
                      compute_data_type=kinds.FLOAT, handle=cudnn.create_handle("cuda:0"))
    x = g.tensor([2, 8, 6, 6], [288, 1, 48, 8], name="x")
    y = g.logical_not(x).set_output(True)
    g.build([cudnn.heur_mode.A])
    a, b, space = (fake.memory(4096) for _ in range(3))
    size, values = g.get_workspace_size(), dict(type_="|b1", strides=(288, 1, 48, 8))
    for pack, launches in (({x: a, y: b}, 1), ({x: Array(a, **values), y: b}, 2),
                           ({x: Array(a, **values), y: Array(b, **values)}, 3)):
        fake.reset()
        g.execute(pack, Array(space, (size,), None, "|u1"))
        assert fake.count("cuLaunchKernel") == launches


def test_a_ragged_operand_has_no_extent(context, kernel):
    """It lies where it may, in arrays of any shape; it is there, aligned, of its type and not in the way."""
    x, y = (Operand(name, 0, 16, name == "y", desc=TensorDesc.packed("f16", (4, 64, 8)), is_ragged=True)
            for name in "xy")
    tape = _core.Tape(context, [x, y], (), 256)
    tape.launch(kernel(), 1, 32, 0, bytes(24), [(0, 0, 0), (8, 1, 0), (16, -1, 0)])
    (buffer, work), short = (_core.Buffer(context, 512) for _ in range(2)), np.zeros((3, 8), "f2")
    at = buffer.ptr
    for pair in ((at, at), (at, at + 16), (buffer, at)):
        tape.execute(pair, None, work, 256)
    _core.Operands([x]).memories([short])
    for pair, sentence in (((0, at), "x: must not be null"), ((at, at + 8), "y: must be aligned to 16"),
                           ((work.ptr + 16, at), "x: must not overlap workspace"),
                           ((short.ctypes.data // 16 * 16, at), "x: must be memory that cuda:0 can reach"),
                           ((short.astype("f4"), at), "x: array must be of type float16")):
        with pytest.raises(BadParam, match=f"^{sentence}"):
            tape.execute(pair, None, work, 256)
