"""Execute: variant packs, handles, overrides, what is refused before anything runs, entry points of
extensions."""
from __future__ import annotations

import ctypes
import enum

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn import device as devices
from cydnn.status import BadParam
from support.guard.mirror import Mirror

from .conftest import floats
from .fakes import Plain, Tensor

IMAGE = np.ones((2, 8, 6, 6), np.float32)


@pytest.fixture
def built(g):
    """y = relu(x), its tensors."""
    x = g.tensor_like(IMAGE)
    y = g.relu(x, name="relu").set_output(True)
    g.build(cudnn.heur_mode.A)
    return g, x, y


@pytest.fixture
def chain(g):
    """y = exp(x) * number in two parts with a workspace, its tensors and sizes."""
    x = g.tensor([4, 8], [8, 1], uid=10)
    number = g.tensor([1, 1], [1, 1], is_pass_by_value=True, uid=11)
    y = g.mul(g.exp(x), number).set_output(True).set_uid(12)
    g.build([cudnn.heur_mode.A])
    assert g.get_workspace_size() > 0
    return g, x, number, y


# ---- Keys and values ----

def test_keys(chain):
    """Tensors, uids, whole numbers of other kinds, tensors of another graph with equal uids; None is
    skipped."""
    g, x, number, y = chain

    class Uid(enum.IntEnum):
        X, N, Y = 10, 11, 12
    other = floats(handle=g.own_handle)
    theirs = [other.tensor([1], [1], uid=uid) for uid in (10, 11, 12)]
    zeros, space = np.zeros((4, 8), np.float32), np.empty(g.get_workspace_size(), np.uint8)
    for a, n, b in ((x, number, y), (10, 11, 12), (x, 11, y), (Uid.X, Uid.N, Uid.Y),
                    tuple(np.int64([10, 11, 12])), theirs):
        out = np.empty((4, 8), np.float32)
        g.execute({a: zeros, n: 2.0, b: out, None: None, 99: "surplus"}, space)
        assert (out == 2).all()


def test_buffers_in_the_order_of_their_uids(chain):
    """A list of buffers, in any order of the uids; names as keys; nothing built ahead."""
    g, x, number, y = chain
    zeros, space = np.zeros((4, 8), np.float32), np.empty(g.get_workspace_size(), np.uint8)
    for call in (g.execute, g.execute_plan_at_index):
        out = np.empty((4, 8), np.float32)
        call([out, 2.0, zeros, object()], space, tensor_uids=(12, 11, 10, 99))
        assert (out == 2).all()
    for buffers, uids, sentence in (([out], [12, 10], "buffers must be 2, one for each of .*; got 1"),
                                    ([out, out], [12, 12], r"must hold each uid once; got \[12, 12\]"),
                                    ([out], [12], "the variant pack must hold .* got uids .12.")):
        with pytest.raises(BadParam, match=sentence):
            g.execute(buffers, space, tensor_uids=uids)


def test_a_graph_that_nobody_built_is_built_when_it_is_executed(handle):
    g, out = floats(handle=handle), np.empty(3, np.float32)
    g.exp(g.tensor([3], name="x"), name="e").set_output(True)
    g.execute({"x": np.zeros(3, np.float32), "e::OUT_0": out}, None)
    assert (out == 1).all() and g.get_execution_plan_count()


def test_values(built):
    """Addresses, arrays of any library, buffers."""
    g, x, y = built
    for give in (lambda a: a, lambda a: a.ctypes.data, Tensor, Plain):
        out = np.empty_like(IMAGE)
        g.execute({x: give(IMAGE), y: give(out)}, 0)
        assert (out == 1).all()
    buffer = devices.get("numpy").alloc(IMAGE.nbytes)
    g.execute({x: IMAGE, y: buffer}, 0)


def test_workspaces(chain):
    """An address, an array, garbage in it; one that is too small is refused."""
    g, x, number, y = chain
    size = g.get_workspace_size()
    pack = {x: np.zeros((4, 8), np.float32), number: 3.0, y: np.empty((4, 8), np.float32)}
    for space in (np.full(size, 0xFF, np.uint8), Tensor(np.full(size, 0xFF, np.uint8)),
                  np.full(size, np.nan)):
        for given in (space, space.ctypes.data if isinstance(space, np.ndarray) else space.data_ptr()):
            pack[y][:] = 0
            g.execute(pack, given)
            assert (pack[y] == 3).all()
    with pytest.raises(BadParam, match=f"workspace: it must have at least {size} bytes; got {size - 1}"):
        g.execute(pack, np.empty(size - 1, np.uint8))
    with pytest.raises(BadParam, match="workspace: it must have at least .* got a null pointer"):
        g.execute(pack, 0)


def frozen():
    array = np.empty_like(IMAGE)
    array.setflags(write=False)
    return array


PACKS = [
    (lambda x, y: {x: IMAGE},
     r"must hold tensor relu::OUT_0; got uids \[1\], missing a buffer for tensor uid 2"),
    (lambda x, y: {}, r"the variant pack must hold tensor .*, tensor relu::OUT_0; got uids \[\]"),
    (lambda x, y: {x: IMAGE, y: np.empty(3, np.float32)},
     r"array must have at least 2304 bytes, .*; got 12 bytes in shape \(3,\) of float32"),
    (lambda x, y: {x: np.ones(3, np.float64), y: np.empty_like(IMAGE)},
     r"array must have at least 2304 bytes, .*; got 24 bytes in shape \(3,\) of float64"),
    (lambda x, y: {x: IMAGE, y: devices.get("numpy").alloc(16)},
     "buffer must have at least 2304 bytes; got 16"),
    (lambda x, y: {x: IMAGE, y: frozen()}, "array must be writable, as it is an output; got a read-only one"),
    (lambda x, y: {x: IMAGE, y: -8}, "OUT_0: must be an address, from 0 to .*; got -8"),
    (lambda x, y: {x: IMAGE, y: 0}, "relu::OUT_0: pointer must not be null"),
    (lambda x, y: {2.5: IMAGE, y: IMAGE}, "keys of .* must be tensors, their names, or uids; got 2.5"),
    (lambda x, y: {"x": IMAGE, y: IMAGE}, "names in .* some of relu::OUT_0; got 'x', that of 0"),
    (lambda x, y: [IMAGE, IMAGE], "the variant pack must be a dict of tensor or uid to buffer; got list")]


@pytest.mark.parametrize("pack, sentence", PACKS, ids=[s[:40] for _, s in PACKS])
def test_what_is_refused(built, pack, sentence):
    g, x, y = built
    with pytest.raises(ValueError, match=sentence):
        g.execute(pack(x, y), 0)


def test_a_flat_array_is_memory(built):
    """Of the tensor's type or of bytes, as long as it says."""
    g, x, y = built
    store = np.full(2 * IMAGE.size, -1, np.float32)
    for given in (store[IMAGE.size:], store[IMAGE.size:].view(np.uint8)):
        store[:] = -1
        g.execute({x: IMAGE.reshape(-1), y: given})
        assert (store[:IMAGE.size] == -1).all() and (store[IMAGE.size:] == 1).all()
    with pytest.raises(BadParam, match=r"at least 2304 bytes, .*; got 4 bytes in shape \(1,\) of float32"):
        g.execute({x: IMAGE, y: store[:1]})


# ---- In place ----

def test_an_output_may_be_an_input(built):
    g, x, y = built
    data = np.linspace(-1, 1, IMAGE.size, dtype=np.float32).reshape(IMAGE.shape)
    want = np.maximum(data, 0)
    g.execute({x: data, y: data})
    np.testing.assert_array_equal(data, want)


def test_an_output_may_not_be_what_is_read_later(handle):
    """conv reads its neighbours, so its image cannot be its result."""
    g = floats(handle=handle)
    x, w = g.tensor([1, 4, 5, 5], [100, 25, 5, 1]), g.tensor([4, 4, 3, 3], [36, 9, 3, 1])
    y = g.conv_fprop(x, w, [1, 1], [1, 1], [1, 1]).set_stride([100, 25, 5, 1]).set_output(True)
    g.build([cudnn.heur_mode.A])
    data = np.ones((1, 4, 5, 5), np.float32)
    with pytest.raises(BadParam, match="output must not overlap"):
        g.execute({x: data, w: np.ones((4, 4, 3, 3), np.float32), y: data})


# ---- Handles ----

def test_the_handle_of_the_call_says_where_work_goes(built, monkeypatch):
    g, x, y = built
    seen = []
    from cydnn.device.numpy import NumpyExecutable
    was = NumpyExecutable.execute
    monkeypatch.setattr(NumpyExecutable, "execute", lambda self, *a: seen.append(a[-1]) or was(self, *a))
    g._plan().ready.clear()
    other, out = cudnn.create_handle("numpy"), np.empty_like(IMAGE)
    cudnn.set_stream(handle=other, stream=128)
    for handle in (None, other, None):
        g.execute({x: IMAGE, y: out}, 0, handle=handle)
    g.execute_plan_at_index({x: IMAGE, y: out}, 0, 0, other)
    assert seen == [0, 128, 0, 128]
    with pytest.raises(BadParam, match="handle: must be one of create_handle; got 12345"):
        g.execute({x: IMAGE, y: out}, 0, handle=12345)


def test_a_handle_of_another_device(built):
    """The same choice cannot run there when it is for another kind of device."""
    g, x, y = built
    with pytest.raises(cudnn.cudnnGraphNotSupportedError,
                       match=r"the plan is for numpy \(numpy\); it cannot run on mirror:sm_80"):
        g.execute({x: IMAGE, y: np.empty_like(IMAGE)}, 0, handle=cudnn.create_handle(Mirror("sm_80")))


def test_a_graph_without_a_handle_has_its_own():
    g = floats()
    x = g.tensor([4], [1])
    y = g.exp(x).set_output(True)
    g.build([cudnn.heur_mode.A])
    assert g.own_handle.device is devices.default() and g.own_handle.stream == 0
    if devices.default().context is None:
        out = np.empty(4, np.float32)
        g.execute({x: np.zeros(4, np.float32), y: out}, 0)
        assert (out == 1).all()


# ---- Overrides ----

def test_overrides_that_change_nothing(built):
    g, x, y = built
    out = np.empty_like(IMAGE)
    same = dict(override_uids=[1, 2], override_shapes=[[2, 8, 6, 6]] * 2,
                override_strides=[(288, 36, 6, 1)] * 2)
    g.execute({x: IMAGE, y: out}, 0, **same)
    g.execute_plan_at_index({x: IMAGE, y: out}, 0, 0, **same)
    g.execute({x: IMAGE, y: out}, 0, None, [], [], [])


def test_overrides_that_are_none(built):
    g, x, y = built
    for call in (lambda **kw: g.execute({}, 0, **kw), lambda **kw: g.execute_plan_at_index({}, 0, 0, **kw)):
        with pytest.raises(BadParam, match="override_uids, override_shapes and override_strides must have "
                           "equal lengths; got 1, 1 and 0"):
            call(override_uids=[1], override_shapes=[[2, 8, 6, 6]])
        with pytest.raises(BadParam, match="uid must be one of"):
            call(override_uids=[7], override_shapes=[[1]], override_strides=[[1]])


# ---- Extensions ----

def test_pointers_in_the_order_of_uids(chain):
    """Numbers stand at host addresses there, in the type of their tensor."""
    g, x, number, y = chain
    g._prepare_variant_pack_template()
    assert g._get_variant_pack_uids_sorted() == [10, 11, 12]
    zeros, out, space = np.zeros((4, 8), np.float32), np.empty((4, 8),
                                                               np.float32), np.empty(g.get_workspace_size(),
                                                                                     np.uint8)
    five = np.full((1, 1), 5, np.float32)
    pointers = [a.ctypes.data for a in (zeros, five, out)]
    handle = cudnn.create_handle("numpy")
    array = (ctypes.c_size_t * 3)(*pointers)
    pack = dict(zip((10, 11, 12), pointers))
    for call in (lambda: g._execute_with_ptrs(pointers, space.ctypes.data, handle),
                 lambda: g._execute_with_ptrs(pointers, space.ctypes.data, 0),
                 lambda: g._execute_with_raw_ptrs(ctypes.addressof(array), 3, space.ctypes.data, handle),
                 lambda: g._execute(pack, space.ctypes.data, handle),
                 lambda: g._execute_plan_at_index(pack, space.ctypes.data, 0, handle)):
        out[:] = 0
        call()
        assert (out == 5).all()
    with pytest.raises(BadParam, match=r"pointers must be 3, those of the uids \[10, 11, 12\]; got 2"):
        g._execute_with_ptrs(pointers[:2], 0, handle)


def test_numbers_of_the_graph_have_no_pointer(g):
    x = g.tensor([4], [1], uid=5)
    y = g.mul(x, g.tensor_scalar(2.0, cudnn.scalar_type.RUNTIME_PARAM)).set_output(True).set_uid(6)
    g.build([cudnn.heur_mode.A])
    assert g._get_variant_pack_uids_sorted() == [5, 6]
    ones, out = np.ones(4, np.float32), np.empty(4, np.float32)
    g._execute_with_ptrs([ones.ctypes.data, out.ctypes.data], 0, None)
    assert (out == 2).all() and y.get_uid() == 6


def test_tensors_of_extensions(g):
    t = g._make_tensor(dim=[2, 3], stride=[3, 1], data_type=cudnn.data_type.HALF, uid=4, name="x")
    assert t.get_uid() == 4 and t.get_data_type() is cudnn.data_type.HALF


# ---- Native CUDA graphs ----

@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80"])
def test_only_a_plan_for_a_gpu_becomes_nodes(device):
    g = floats(handle=cudnn.create_handle(device))
    x = g.tensor_like(IMAGE)
    y = g.relu(x).set_output(True)
    g.build([cudnn.heur_mode.A])
    for call in (g.populate_cuda_graph, g.update_cuda_graph):
        with pytest.raises(cudnn.cudnnGraphNotSupportedError,
                           match=f"cuda_graph: the plan must be for a GPU; got one for {device}") as error:
            call(None, {x: IMAGE, y: np.empty_like(IMAGE)}, 0, 1)
        assert error.value.status9 == 3013       # CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API
