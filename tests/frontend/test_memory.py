"""Buffers that say what they are: taken where they fit the tensor; where they do not, refused in words if
CYDNN_STRICT=1, which most of this file sets, and else used and warned of. On every device that works on
memory of the host."""
from __future__ import annotations

import array
import ctypes
import warnings

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn import bench, device as devices, plan
from cydnn.ops import Problem
from cydnn.status import BadParam

from .conftest import floats, nhwc
from .fakes import CUDA, Plain, Tensor

DIMS = (2, 8, 6, 6)
X = np.linspace(-1, 1, 576, dtype=np.float32).reshape(DIMS)
WANT = np.maximum(X, 0)


class Torch(Tensor):
    """A torch tensor on the host: also an ``__index__``, good for whole numbers of one element."""

    def __index__(self):
        if self.array.size > 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return int(self.array.reshape(-1)[0])


class Cupy:
    """An array on a GPU."""

    def __init__(self, given):
        self.__cuda_array_interface__ = {**given.__array_interface__, "version": 3}


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    monkeypatch.setenv("CYDNN_STRICT", "1")


@pytest.fixture(params=["numpy", "ptx:sm_80"])
def relu(request):
    """y = relu(x), channels-last, of f32."""
    return built(request.param)


def built(device, layout=nhwc):
    g = floats(handle=cudnn.create_handle(device))
    x = g.tensor(*layout(*DIMS), name="x")
    y = g.relu(x).set_output(True).set_name("y")
    g.build([cudnn.heur_mode.A])
    return lambda a, b: g.execute({x: a, y: b}, np.empty(g.get_workspace_size(), np.uint8))


def last(values, dtype=np.float32):
    """An array of these dims, channels-last in memory."""
    return np.ascontiguousarray(values.transpose(0, 2, 3, 1), dtype).transpose(0, 3, 1, 2)


def test_what_fits(relu):
    """Arrays with the tensor's dims and strides, its memory with the dims in their order there, flat ones of
    its type or of bytes; of any library on the host."""
    x = last(X)
    inner = x.transpose(0, 2, 3, 1)                          # n h w c
    for given in (x, inner, inner.reshape(-1), inner.reshape(-1).view(np.uint8), Torch(x), Plain(x),
                  memoryview(inner), bytearray(inner), array.array("f", inner.reshape(-1)), bytes(inner)):
        y = last(np.zeros(DIMS))
        relu(given, y)
        np.testing.assert_array_equal(y, WANT)
    for wrap in (lambda a: a, Torch, Plain, lambda a: a.transpose(0, 2, 3, 1)):
        y = last(np.zeros(DIMS))
        relu(x, wrap(y))
        np.testing.assert_array_equal(y, WANT)


@pytest.mark.parametrize("dims, fits", [
    ((2, 288), True), ((16, 6, 6), True), ((2, 2, 4, 6, 6), True), ((576,), True), ((2, 1, 8, 36, 1), True),
    ((2, 6, 6, 8), False), ((2, 4, 12, 6), False), ((4, 4, 6, 6), False), ((2, 36, 8), False),
    ((2, 2, 4, 36), False)])
def test_neighbouring_dims_may_be_one(dims, fits):
    """Or several be one of the tensor's, where nothing lies between; never another cut of the same memory."""
    relu = built("numpy", lambda n, c, h, w: ((n, c, h, w), (c * h * w, h * w, w, 1)))
    y = np.zeros(DIMS, np.float32)
    if fits:
        relu(X.reshape(dims), y.reshape(dims))
        np.testing.assert_array_equal(y, WANT)
        with pytest.raises(BadParam, match="x: array must have shape"):
            relu(np.repeat(X.reshape(dims), 2, -1)[..., ::2], y)
    else:
        with pytest.raises(BadParam, match="x: array must have shape"):
            relu(X.reshape(dims), y)


@pytest.mark.parametrize("dims, fits", [((2, 4, 6, 4), True), ((2, 24, 4), True), ((8, 6, 4), True),
                                        ((8, 24), False), ((2, 96), False), ((2, 4, 24), False)])
def test_rows_of_a_channels_last_tensor(dims, fits):
    """An array whose dims may be those of the tensor as well as those of its memory is not guessed at."""
    own = (2, 4, 4, 6)                           # n c h w: n * c is n * h
    g = floats(handle=cudnn.create_handle("numpy"))
    x = g.tensor(*nhwc(*own), name="x")
    y = g.relu(x).set_output(True)
    g.build([cudnn.heur_mode.A])
    values = np.arange(192, dtype=np.float32)
    given, out = values.reshape(dims), np.empty(192, np.float32)
    if fits:
        g.execute({x: given, y: out}, 0)
        np.testing.assert_array_equal(out, values)
    else:
        with pytest.raises(BadParam, match="x: array must have shape .2, 4, 4, 6. and strides .96, 1, 24, 4"):
            g.execute({x: given, y: out}, 0)


@pytest.mark.parametrize("given, sentence", [
    ("text", "must be an int address, None, or an object with DLPack.*; got str"), (-8, "must be an address"),
    (Torch(np.zeros(1, object)), "Torch does not give its memory: BufferError")],
    ids=["text", "negative", "objects"])
def test_what_is_no_memory_is_named(relu, given, sentence):
    for pack, name in (((given, last(X)), "x"), ((last(X), given), "y")):
        with pytest.raises(BadParam, match=f"^{name}:? {sentence}"):
            relu(*pack)


def frozen():
    found = last(X)
    found.flags.writeable = False
    return found


MADE = r"np.empty\(\(2, 6, 6, 8\), 'float32'\).transpose\(0, 3, 1, 2\)"
MISFITS = {                                      # what is given, and the sentence
    "float64": (lambda: last(X, np.float64), "must be of type float32, .*; got float64: .*" + MADE),
    "byte order": (lambda: last(X, ">f4"), "must be of type float32, .*; got byte-swapped float32"),
    "int32": (lambda: last(X, np.int32), "must be of type float32, .*; got int32"),
    "objects": (lambda: last(X, object), "must be of type float32, .*; got the type O"),
    "complex": (lambda: last(X, np.complex64), "must be of type float32, .*; got complex64"),
    "every other": (lambda: np.repeat(last(X), 2, 3)[..., ::2],
                    r"must have shape \(2, 8, 6, 6\) and strides \(288, 1, 48, 8\) in elements, .*; got "
                    r"shape \(2, 8, 6, 6\) and strides .*: .*" + MADE),
    "row-major": (lambda: X.copy(), r"must have shape .*; got shape .* and strides \(288, 36, 6, 1\)"),
    "reversed": (lambda: last(X)[::-1], "must have shape .*; got .*"),
    "spread": (lambda: np.broadcast_to(np.float32(1), DIMS), "must have shape .*|must be writable"),
    "other dims": (lambda: np.zeros((2, 6, 8, 6), "f4"), r"must have shape .*; got shape \(2, 6, 8, 6\)"),
    "short": (lambda: np.zeros(575, np.float32), "must have at least 2304 bytes, .*; got 2300 bytes"),
    "one": (lambda: Torch(np.ones(1, np.float32)), "must have at least 2304 bytes, .*; got 4 bytes"),
    "short torch": (lambda: Torch(np.zeros((1, 8, 6, 6), "f4")), r"must .*; got shape \(1, 8, 6, 6\)"),
    "few bytes": (lambda: np.zeros(2303, np.uint8), "must have at least 2304 bytes, .*; got 2303 bytes"),
    "half a bfloat": (lambda: Plain(last(X).view(np.float32), kind=(4, 32)), "must be of type float32"),
    "on a GPU": (lambda: Plain(last(X), place=CUDA), "must be .*memory of .*; got memory of a GPU"),
    "of cupy": (lambda: Cupy(last(X)), "must be .*memory of .*; got memory of a GPU"),
}


@pytest.mark.parametrize("name", MISFITS)
@pytest.mark.parametrize("operand", "xy")
def test_what_does_not(relu, name, operand):
    """Neither is read nor written."""
    make, sentence = MISFITS[name]
    given = make()
    other = np.full(576, 7, np.float32)
    with pytest.raises(BadParam, match=f"{operand}: (array )?({sentence})"):
        relu(*((given, other) if operand == "x" else (other, given)))
    assert (other == 7).all()


TAKEN = ["float64", "int32", "complex", "every other", "row-major", "other dims", "half a bfloat"]


@pytest.mark.parametrize("name", [*TAKEN, "byte order", "objects", "reversed", "spread", "short torch"])
@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80"])
def test_what_does_not_fit_is_used(monkeypatch, device, name):
    """As it lies, with one warning for each tensor of a graph, where it is numbers and large enough."""
    monkeypatch.setenv("CYDNN_STRICT", "0")
    relu, given = built(device), MISFITS[name][0]()
    if name not in TAKEN:
        with pytest.raises(BadParam, match="x: array must (have at least 2304|be of type)"):
            relu(given, np.empty(576, np.float32))
        return
    memory = getattr(given, "array", given)
    lies = np.frombuffer((ctypes.c_char * 2304).from_address(memory.ctypes.data), np.float32)
    out = np.empty(576, np.float32)
    with pytest.warns(UserWarning, match=f"execute: x: array {MISFITS[name][1]}.*used as it lies") as said:
        relu(given, out)
    np.testing.assert_array_equal(out, np.maximum(lies, 0))
    assert len(said) == 1 and (device == "numpy" or said[0].filename == __file__)    # fills.py wraps numpy
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relu(given, out)
    with pytest.warns(UserWarning, match="execute: y: array must be of type float32"):
        relu(given, np.empty(576, np.float64))


def test_the_native_call_is_strict():
    """A plan that is built without the front end refuses what the front end uses."""
    made = plan.build(bench.graph_of(Problem.parse("softmax_fwd 4x8 f32")), "numpy")
    with pytest.raises(BadParam, match="array must be of type float32"):
        made.execute([np.ones((4, 8)), np.ones((4, 8), np.float32)])


def test_a_read_only_output(relu):
    with pytest.raises(BadParam, match="y: array must be writable, as it is an output; got a read-only one"):
        relu(last(X), frozen())
    y = last(np.zeros(DIMS))
    relu(frozen(), y)
    np.testing.assert_array_equal(y, WANT)
    with pytest.raises(BadParam, match="y: array must be writable"):
        relu(last(X), bytes(2304))


def test_a_square_image_is_not_taken_for_its_transpose():
    """Dims that are the tensor's are in the tensor's order."""
    for device in ("numpy", "ptx:sm_80"):
        g = floats(handle=cudnn.create_handle(device))
        x = g.tensor(*nhwc(1, 4, 4, 4), name="x")
        y = g.relu(x).set_output(True)
        g.build([cudnn.heur_mode.A])
        with pytest.raises(BadParam, match="x: array must have shape"):
            g.execute({x: np.ones((1, 4, 4, 4), np.float32), y: np.empty(64, np.float32)}, 0)


@pytest.mark.parametrize("name, storage", [("BFLOAT16", np.uint16), ("BOOLEAN", np.uint8), ("INT8", np.int8)])
def test_types_that_numpy_stores_otherwise(name, storage):
    g = floats(handle=cudnn.create_handle("numpy"))
    x = g.tensor([2, 16], [16, 1], cudnn.data_type[name], name="x")
    y = g.identity(x).set_output(True).set_data_type(cudnn.data_type[name])
    g.build([cudnn.heur_mode.A])
    size = (4,) if name == "BOOLEAN" else (2, 16)
    given, out = np.full(size, 3, storage), np.zeros(size, storage)
    g.execute({x: given, y: out}, np.empty(g.get_workspace_size(), np.uint8))
    assert (out == given).all()
    wrong = np.zeros((2, 16), np.float16)
    with pytest.raises(BadParam, match="x: array must be of type"):
        g.execute({x: wrong, y: out}, np.empty(g.get_workspace_size(), np.uint8))


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80"])
@pytest.mark.parametrize("of", [lambda a: a, Torch, Plain], ids=["numpy", "torch", "dlpack"])
def test_booleans_of_one_byte(device, of):
    """Arrays of booleans with a tensor's dims are its values, in and out, whatever their strides; packed ones
    are as they were."""
    g = floats(handle=cudnn.create_handle(device))
    x, mask = g.tensor(*nhwc(*DIMS)), g.tensor(*nhwc(*DIMS), cudnn.data_type.BOOLEAN)
    both = g.logical_and(g.cmp_gt(x, g.tensor_scalar(0.0, cudnn.scalar_type.COMPILE_TIME_CONST)), mask)
    both.set_output(True).set_data_type(cudnn.data_type.BOOLEAN)
    g.build([cudnn.heur_mode.A])
    given, out = np.random.default_rng(0).random(DIMS) < 0.5, last(np.zeros(DIMS), bool)
    space = np.empty(g.get_workspace_size(), np.uint8)
    for a, b in ((of(given), of(out)), (of(last(given, bool)), of(out))):
        out[:] = False
        g.execute({x: last(X), mask: a, both: b}, space)
        np.testing.assert_array_equal(out, (X > 0) & given)
    bits = lambda a: np.packbits(a.transpose(0, 2, 3, 1), bitorder="little")
    packed = np.empty(72, np.uint8)
    g.execute({x: last(X), mask: bits(given), both: packed}, space)
    np.testing.assert_array_equal(packed, bits(out))
    with pytest.raises(BadParam, match="workspace: must have at least .* bytes, as booleans of one"):
        g.execute({x: last(X), mask: given, both: packed}, space[:8])


# ---- Workspace ----

@pytest.fixture(params=["numpy", "ptx:sm_80"])
def chain(request):
    """y = exp(x) * exp(x) + x by parts that need a workspace, and its bytes."""
    g = floats(handle=cudnn.create_handle(request.param))
    x, w = g.tensor([4, 64], [64, 1], name="x"), g.tensor([64, 64], [64, 1], name="w")
    t = g.matmul(x, w)
    y = g.matmul(t, w).set_output(True).set_name("y")
    g.build([cudnn.heur_mode.A])
    a, b = np.ones((4, 64), np.float32), np.full((64, 64), 1 / 64, np.float32)

    def run(workspace, out=None, first=a):
        out = np.empty((4, 64), np.float32) if out is None else out
        g.execute({x: first, w: b, y: out}, workspace)
        return out
    return run, g.get_workspace_size()


def test_a_workspace_of_any_type(chain):
    run, size = chain
    assert size
    for space in (np.empty(size, np.uint8), np.empty((2, -(-size // 8)), np.float64), bytearray(size + 16),
                  Torch(np.empty(size, np.uint8)), Plain(np.empty(size, np.uint8))):
        np.testing.assert_allclose(run(space), 1)


def test_what_is_no_workspace(chain):
    run, size = chain
    space = np.zeros(2 * size + 2048, np.uint8)
    start = -space.ctypes.data % 16
    locked = space.copy()
    locked.flags.writeable = False
    for given, sentence in ((locked, "workspace: must be writable; got a read-only array"),
                            (space[start + 1:], "workspace: must be aligned to 16 bytes; got 0x"),
                            (space[::2], "workspace: must have no gaps; got shape"),
                            (np.empty(size, object), "workspace: must be an array of bytes or numbers"),
                            (space[:size - 1], "workspace: it must have at least"),
                            (Plain(space, place=CUDA), "workspace: must be .*; got memory of a GPU"),
                            (1.5, "workspace: must be an int address")):
        with pytest.raises(BadParam, match=sentence):
            run(given)
    out = space[start:start + 1024]
    first = out.view(np.float32).reshape(4, 64)
    for arguments in (dict(out=out), dict(first=first)):
        with pytest.raises(BadParam, match="[xy]: must not overlap workspace; got"):
            run(space[start:], **arguments)


# ---- Addresses ----

def test_a_program_runs_on_both_devices_by_changing_one_word():
    found = {}
    for device in ("numpy", "ptx:sm_80"):
        y = last(np.zeros(DIMS))
        built(device)(Torch(last(X)), y)
        found[device] = y
    np.testing.assert_array_equal(*found.values())


def test_a_graph_in_a_block_runs_on_an_interpreter():
    """It makes its results and its workspace where arrays are."""
    x, w = np.ones((4, 64), np.float32), np.full((64, 64), 1 / 64, np.float32)
    with cudnn.Graph(handle="ptx:sm_80", inputs=["mul::0", "mul::1"], outputs=["y"],
                     io_data_type=cudnn.data_type.FLOAT, intermediate_data_type=cudnn.data_type.FLOAT,
                     compute_data_type=cudnn.data_type.FLOAT) as g:
        y = g.matmul(x, w, name="mul")
        y.set_output(True).set_name("y")
    np.testing.assert_allclose(g(x, w), 1)


def test_what_an_interpreter_does_not_know():
    """Addresses of the host, memory of another, beyond a buffer's end; memory of it given elsewhere."""
    relu, device = built("ptx:sm_80"), devices.get("ptx:sm_80")
    mine, other = device.alloc(2304), devices.get("ptx:sm_90").alloc(2304)
    y, x = last(np.zeros(DIMS)), last(X)
    for given in (x.ctypes.data, 1 << 40, mine.ptr + 16, other):
        with pytest.raises(BadParam, match="x: must be an array of the host"):
            relu(given, y)
    device.copy_in(mine, x.transpose(0, 2, 3, 1))
    relu(mine, y)
    np.testing.assert_array_equal(y, WANT)
    with pytest.raises(BadParam, match="x: must be memory of the host, as the device is numpy"):
        built("numpy")(mine, y)


def test_arrays_of_an_interpreter_lie_as_on_the_host():
    """In place, and in the gaps of each other."""
    relu = built("ptx:sm_80")
    data = last(X)
    relu(data, data)
    np.testing.assert_array_equal(data, WANT)
    overlapping = np.zeros(580, np.float32)
    with pytest.raises(BadParam, match="y: output must not overlap x"):
        relu(overlapping[:576], overlapping[4:])


def test_a_fault_of_a_kernel_names_it_and_frees_everything(monkeypatch):
    device = devices.get("ptx:sm_80")
    relu = built("ptx:sm_80")
    device.arena.settle()
    before = len(device.arena.live)
    from cydnn.device.ptx.device import PtxDevice

    def fail(*arguments):
        raise RuntimeError("stop")
    monkeypatch.setattr(PtxDevice, "launch", fail)
    y = last(np.zeros(DIMS))
    with pytest.raises(RuntimeError, match="stop"):
        relu(last(X), y)
    device.arena.settle()                        # as the next call does
    assert len(device.arena.live) == before and not y.any()
