"""Graphs through descriptors: right on every device, and the plan that the other doors make."""
from __future__ import annotations

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn import backend, plan as plans
from cydnn.backend import constant
from cydnn.ops import ConvFprop, Pointwise
from cydnn.graph import Graph, Node, Tensor
from cydnn.status import BadParam, NotSupported
from cydnn.tensor import TensorDesc

from descriptors import conv_graph, convolution, forward, make, packed, planned, pointwise, tensor

DEVICES = ("numpy", "ptx:sm_80", "ptx:sm_90")
NCHW, NHWC = None, "nhwc"


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("f")


def product(x, w, pad=1):
    """A convolution in float64."""
    x = np.pad(np.float64(x), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    p, q = x.shape[2] - w.shape[2] + 1, x.shape[3] - w.shape[3] + 1
    return sum(np.einsum("nchw,kc->nkhw", x[:, :, i:i + p, j:j + q], np.float64(w[:, :, i, j]))
               for i in range(w.shape[2]) for j in range(w.shape[3]))


@pytest.mark.parametrize("device", DEVICES)
def test_a_convolution_with_a_bias(device):
    found = conv_graph(device)
    x, w, b = numbers(2, 8, 6, 6), numbers(4, 8, 3, 3), numbers(1, 4, 1, 1)
    y = np.full((2, 4, 6, 6), np.nan, "f")
    plan = found["EXECUTION_PLAN"]
    pack = packed({1: x, 2: w, 4: b, 5: y}, plan)
    for _ in range(2):                           # the second knows what the first looked up
        backend.cudnnBackendExecute(device, plan, pack)
        assert np.abs(y - product(x, w) - b).max() < 1e-4
        y[:] = np.nan


def test_one_plan_through_three_doors():
    device = "ptx:sm_80"
    ours = conv_graph(device)["EXECUTION_PLAN"].made.layout
    g = cudnn.pygraph(handle=device, io_data_type=cudnn.data_type.FLOAT,
                      intermediate_data_type=cudnn.data_type.FLOAT, compute_data_type=cudnn.data_type.FLOAT)
    t = lambda uid, dims: g.tensor(dim=dims, stride=list(np.cumprod([1, *dims[:0:-1]])[::-1]), uid=uid)
    y = g.conv_fprop(t(1, [2, 8, 6, 6]), t(2, [4, 8, 3, 3]), padding=[1, 1], stride=[1, 1], dilation=[1, 1])
    y.set_uid(3).set_stride([144, 36, 6, 1]).set_dim([2, 4, 6, 6])
    out = g.add(y, t(4, [1, 4, 1, 1])).set_uid(5).set_output(True).set_stride([144, 36, 6, 1])
    out.set_dim([2, 4, 6, 6])
    g.build([cudnn.heur_mode.A])
    theirs = g.chosen_on[next(iter(g.chosen_on))].plan.layout
    of = lambda uid, *dims, kind="memory": Tensor(uid, TensorDesc.packed("f32", dims), kind=kind)
    tensors = [of(1, 2, 8, 6, 6), of(2, 4, 8, 3, 3), of(3, 2, 4, 6, 6, kind="virtual"), of(4, 1, 4, 1, 1),
               of(5, 2, 4, 6, 6)]
    native = plans.build(Graph([
        Node(ConvFprop(pre_pad=(1, 1), post_pad=(1, 1), stride=(1, 1), dilation=(1, 1)), dict(x=1, w=2, y=3)),
        Node(Pointwise(mode="add"), dict(x=3, b=4, y=5))], tensors), device).layout
    assert ours.choice.text == theirs.choice.text == native.choice.text
    assert [str(s) for s in ours.steps] == [str(s) for s in theirs.steps] == [str(s) for s in native.steps]


@pytest.mark.parametrize("device", DEVICES[:2])
def test_groups_as_a_dim_of_their_own(device):
    """x [N,G,C,…], w [G,K,C,…], y [N,G,K,…], and the usual form: one result."""
    x, w = numbers(2, 2 * 3, 5, 5), numbers(2 * 4, 3, 3, 3, seed=1)
    results = []
    for dims in (((2, 2, 3, 5, 5), (2, 4, 3, 3, 3), (2, 2, 4, 5, 5)),
                 ((2, 6, 5, 5), (8, 3, 3, 3), (2, 8, 5, 5))):
        ts = [tensor(uid, d) for uid, d in enumerate(dims, 1)]
        op = forward(*ts, convolution(PRE_PADDINGS=[1, 1], POST_PADDINGS=[1, 1])).finalize()
        _, plan = planned([op], device)
        y = np.full((2, 8, 5, 5), np.nan, "f")
        backend.cudnnBackendExecute(device, plan, packed({1: x, 2: w, 3: y}, plan))
        results.append(y)
    assert (results[0] == results[1]).all()
    assert np.abs(results[0][:, 4:] - product(x[:, 3:], w[4:])).max() < 1e-4


def test_what_a_convolution_refuses():
    x, w, y = tensor(1, (2, 8, 6, 6)), tensor(2, (4, 8, 3, 3)), tensor(3, (2, 4, 5, 5))
    with pytest.raises(BadParam, match=r"SPATIAL_DIMS must have 1 elements \(the number of spatial dims: 1, "
                                       r"2 or 3\); got 2 elements \[56, 56\]; did you mean 2\?"):
        make("CONVOLUTION", SPATIAL_DIMS=[56, 56])
    with pytest.raises(BadParam, match="must have 2 elements like CONVOLUTION_SPATIAL_DIMS; got 3"):
        forward(x, w, y, convolution(PRE_PADDINGS=[1, 1, 1])).finalize()
    for name, given, sentence in (("SPATIAL_DIMS", 4, "must be 1 to 3; got 4"),
                                  ("DILATIONS", [0, 1], ">= 1; got 0"),
                                  ("PRE_PADDINGS", [-1, 0], "must be >= 0; got -1")):
        with pytest.raises(BadParam, match=rf"set\(CONVOLUTION\): CONVOLUTION_{name} .*{sentence}"):
            make("CONVOLUTION", **{name: given})
    with pytest.raises(BadParam, match="must have rank 3, or 4 with groups as a dim of their own"):
        forward(x, w, tensor(3, (2, 4, 5)), convolution(1)).finalize()
    op = forward(x, w, y, convolution(PRE_PADDINGS=[1, 1], POST_PADDINGS=[1, 1]))
    with pytest.raises(BadParam, match=r"finalize\(OPERATION_CONVOLUTION_FORWARD\): CONVOLUTION_FORWARD_Y "
                                       r"must have dims \(2, 4, 6, 6\); got \(2, 4, 5, 5\)") as found:
        op.finalize()
    assert "w  uid 2" in str(found.value) and not op.is_finalized
    strided = tensor(1, (2, 2, 3, 5, 5), strides=(150, 15, 25, 5, 1))
    with pytest.raises(NotSupported, match="must have strides that put groups before their channels"):
        forward(strided, tensor(2, (2, 4, 3, 3, 3)), tensor(3, (2, 2, 4, 3, 3)), convolution()).finalize()


@pytest.mark.parametrize("device", DEVICES[:2])
def test_a_backward_mode_and_a_number(device):
    """dx = relu_bwd(dy, x), then times a number that the pack gives."""
    dims = (2, 3, 4)
    dy, x, dx, n, z = (tensor(1, dims), tensor(2, dims), tensor(3, dims, IS_VIRTUAL=True),
                       tensor(4, (1, 1, 1), IS_BY_VALUE=True), tensor(5, dims))
    ops = [pointwise("RELU_BWD", x=x, dy=dy, dx=dx), pointwise("MUL", z, dx, n)]
    _, plan = planned(ops, device)
    a, b, out = numbers(*dims), numbers(*dims, seed=1), np.full(dims, np.nan, "f")
    for factor in (2.0, np.array([3.0], "f")):
        backend.cudnnBackendExecute(device, plan, packed({1: a, 2: b, 4: factor, 5: out}, plan))
        assert (out == a * (b > 0) * np.float32(factor)).all()


def test_what_a_pointwise_operation_refuses():
    t = tensor(1, (2, 3))
    for given, sentence in ((dict(x=t), "POINTWISE_YDESC must be set for mode add"),
                            (dict(x=t, y=t, dy=t), "POINTWISE_DYDESC must not be set for mode add")):
        with pytest.raises(BadParam, match=sentence):
            pointwise("ADD", **given)
    with pytest.raises(BadParam, match="POINTWISE_XDESC must be set for mode relu_bwd, the forward's input"):
        pointwise("RELU_BWD", dy=t, dx=t)
    with pytest.raises(BadParam, match="POINTWISE_MATH_PREC must be one of .*; got CUDNN_DATA_INT8"):
        pointwise("ADD", t, t, t, compute="INT8")


@pytest.mark.parametrize("device", DEVICES[:2])
def test_batch_norm(device):
    x, y, one = tensor(1, (4, 3, 2, 2)), tensor(2, (4, 3, 2, 2)), (1, 3, 1, 1)
    norm = {f"OPERATION_NORM_FWD_{n}": d for n, d in dict(
        XDESC=x, YDESC=y, SCALE_DESC=tensor(3, one), BIAS_DESC=tensor(4, one), MEAN_DESC=tensor(5, one),
        INV_VARIANCE_DESC=tensor(6, one), EPSILON_DESC=tensor(7, (1, 1, 1, 1), IS_BY_VALUE=True),
        MODE=constant("CUDNN_BATCH_NORM"), PHASE=constant("CUDNN_NORM_FWD_TRAINING")).items()}
    op = make("OPERATION_NORM_FORWARD", **norm).finalize()
    _, plan = planned([op], device)
    values, out = numbers(4, 3, 2, 2), np.full((4, 3, 2, 2), np.nan, "f")
    keep = [np.full(one, 1.0, "f"), np.full(one, 0.5, "f"), np.zeros(one, "f"), np.zeros(one, "f")]
    backend.cudnnBackendExecute(device, plan, packed(
        {1: values, 2: out, 3: keep[0], 4: keep[1], 5: keep[2], 6: keep[3], 7: 1e-3}, plan))
    mean, var = values.mean((0, 2, 3), keepdims=True), values.var((0, 2, 3), keepdims=True)
    assert np.abs(out - (values - mean) / np.sqrt(var + 1e-3) - 0.5).max() < 1e-4
    with pytest.raises(NotSupported, match="OPERATION_NORM_FWD_MODE must be one of .*CUDNN_BATCH_NORM"):
        make("OPERATION_NORM_FORWARD", **norm | dict(
            OPERATION_NORM_FWD_MODE=constant("CUDNN_GROUP_NORM"))).finalize()
    with pytest.raises(NotSupported, match="OPERATION_NORM_FWD_PEER_STAT_DESCS must not be set but for "):
        make("OPERATION_NORM_FORWARD", **norm | dict(OPERATION_NORM_FWD_MODE=constant("CUDNN_LAYER_NORM")),
             OPERATION_NORM_FWD_PEER_STAT_DESCS=[x]).finalize()
    with pytest.raises(BadParam, match="NORM_FWD_PEER_STAT_DESCS must each be 12 packed elements of f32, 4 "):
        make("OPERATION_NORM_FORWARD", **norm, OPERATION_NORM_FWD_PEER_STAT_DESCS=[x]).finalize()
    alone, two = ([tensor(10 + i, (n, 12)) for i in range(n)] for n in (1, 2))
    op = make("OPERATION_NORM_FORWARD", **norm, OPERATION_NORM_FWD_PEER_STAT_DESCS=alone).finalize()
    again, (_, plan) = np.full_like(out, np.nan), planned([op], device)
    pack = {1: values, 2: again, 3: keep[0], 4: keep[1], 5: keep[2], 6: keep[3], 7: 1e-3}
    backend.cudnnBackendExecute(device, plan, packed(pack | {10: np.zeros(12, "f")}, plan))
    assert np.abs(again - out).max() < 1e-4
    op = make("OPERATION_NORM_FORWARD", **norm, OPERATION_NORM_FWD_PEER_STAT_DESCS=two).finalize()
    with pytest.raises(BadParam, match="OPERATIONGRAPH_HANDLE must be a handle of a GPU, as its number says "
                                       "which of 2 peer tensors is its own; got"):
        planned([op], device)


# ---- Engines, knobs, plans on paper ----

def test_engines_and_knobs():
    found = conv_graph("ptx:sm_80")
    graph = found["OPERATIONGRAPH"]
    count, = graph.get("OPERATIONGRAPH_ENGINE_GLOBAL_COUNT")
    engine = make("ENGINE", OPERATION_GRAPH=graph, GLOBAL_INDEX=0).finalize()
    infos = engine.get("ENGINE_KNOB_INFO")
    assert count > 1 and infos and all(n.name.startswith("CUDNN_")
                                       for n in engine.get("ENGINE_NUMERICAL_NOTE"))
    knob = infos[-1]
    number = knob.get("KNOB_INFO_MAXIMUM_VALUE")[0]
    turn = lambda type_, value: make("KNOB_CHOICE", KNOB_TYPE=type_, KNOB_VALUE=value).finalize()
    one = turn(knob.get("KNOB_INFO_TYPE")[0], number)
    config = make("ENGINECFG", ENGINECFG_ENGINE=engine, KNOB_CHOICES=[one]).finalize()
    assert config.get("ENGINECFG_WORKSPACE_SIZE")[0] >= 0 <= config.get("ENGINECFG_SHARED_MEMORY_USED")[0]
    with pytest.raises(BadParam, match="ENGINE_GLOBAL_INDEX must be below"):
        make("ENGINE", OPERATION_GRAPH=graph, GLOBAL_INDEX=count + 7).finalize()
    for choices, sentence in (([one, one], "must have each knob once"),
                              ([turn(constant("CUDNN_KNOB_TYPE_WINO_TILE"), 1)],
                               r"finalize\(ENGINECFG\): knobs of .* are KERNEL_CFG.*; got WINO_TILE"),
                              ([turn(one.get("KNOB_CHOICE_KNOB_TYPE")[0], number + 1)], f"to {number}; got")):
        with pytest.raises(BadParam, match=sentence):
            make("ENGINECFG", ENGINECFG_ENGINE=engine, KNOB_CHOICES=choices).finalize()


def test_a_plan_on_paper():
    """JSON out and in; facts of a device in place of a handle; a kernel cache."""
    found = conv_graph("ptx:sm_80")
    text, = found["EXECUTION_PLAN"].get("EXECUTION_PLAN_JSON_REPRESENTATION")
    again = make("EXECUTION_PLAN", JSON_REPRESENTATION=text, EXECUTION_PLAN_HANDLE="ptx:sm_80").finalize()
    assert again.get("EXECUTION_PLAN_JSON_REPRESENTATION") == [text]
    facts = make("DEVICEPROP", DEVICEPROP_HANDLE="ptx:sm_80").finalize()
    json, = facts.get("DEVICEPROP_JSON_REPRESENTATION")
    facts = make("DEVICEPROP", DEVICEPROP_JSON_REPRESENTATION=json).finalize()
    alone = make("OPERATIONGRAPH", OPS=found["OPERATION"]).finalize() if False else found["OPERATIONGRAPH"]
    heur = make("ENGINEHEUR", OPERATION_GRAPH=alone, MODE=constant("CUDNN_HEUR_MODE_FALLBACK"),
                ENGINEHEUR_DEVICEPROP=facts, SM_COUNT_TARGET=4).finalize()
    config = heur.get("ENGINEHEUR_RESULTS")[0]
    cache = make("KERNEL_CACHE").finalize()
    assert cache.get("KERNEL_CACHE_IS_ENGINECFG_KERNEL_CACHED") == [False]
    plan = make("EXECUTION_PLAN", ENGINE_CONFIG=config, KERNEL_CACHE=cache).finalize()
    assert plan.made.layout.choice.facts.sms == 4
    with pytest.raises(BadParam, match="EXECUTION_PLAN_ENGINE_CONFIG must be set, or .*; got both"):
        make("EXECUTION_PLAN", ENGINE_CONFIG=config, JSON_REPRESENTATION=text).finalize()
    with pytest.raises(BadParam, match="DEVICEPROP_DEVICE_ID must be set, or .*; got none of them"):
        make("DEVICEPROP").finalize()


def test_graphs_and_packs_that_are_none():
    x, w, y = tensor(1, (2, 8, 6, 6)), tensor(2, (4, 8, 1, 1)), tensor(3, (2, 4, 6, 6))
    op = forward(x, w, y, convolution()).finalize()
    again, one = tensor(3, (2, 4, 6, 6), "HALF"), tensor(5, (1, 1, 1, 1))
    other = pointwise("ADD", tensor(4, (2, 4, 6, 6)), again, one)
    with pytest.raises(BadParam, match="TENSOR_UNIQUE_ID must belong to one tensor in a graph; got 3 for "
                                       ".*f32.* and .*f16"):
        make("OPERATIONGRAPH", OPS=[op, other]).finalize()
    graph = make("OPERATIONGRAPH", OPS=op).finalize()
    with pytest.raises(BadParam, match="OPERATIONGRAPH_HANDLE must be set, or a DEVICEPROP; got neither"):
        make("ENGINE", OPERATION_GRAPH=graph, GLOBAL_INDEX=0).finalize()
    for uids, pointers, sentence in (([1, 2], [0], "must have 2 elements"),
                                     ([1, 1], [0, 0], "must have each uid once")):
        with pytest.raises(BadParam, match=sentence):
            make("VARIANT_PACK", UNIQUE_IDS=uids, DATA_POINTERS=pointers).finalize()
    with pytest.raises(BadParam, match="TENSOR_IS_BY_VALUE must be False where"):
        tensor(1, (1,), IS_VIRTUAL=True, IS_BY_VALUE=True)
    for more, sentence in ((dict(VECTOR_COUNT=4, VECTORIZED_DIMENSION=0), "VECTORIZED_DIMENSION must be 1"),):
        with pytest.raises(BadParam, match=sentence):
            tensor(1, (1, 4, 2, 2), "INT8", **more)
    with pytest.raises(BadParam, match="VECTOR_COUNT must be 4, that of its type; got 32"):
        tensor(1, (1, 4, 2, 2), "INT8x4", VECTOR_COUNT=32)


def test_the_names_of_c():
    create, set_, finalize, get = (backend.cudnnBackendCreateDescriptor, backend.cudnnBackendSetAttribute,
                                   backend.cudnnBackendFinalize, backend.cudnnBackendGetAttribute)
    t = create(backend.CUDNN_BACKEND_TENSOR_DESCRIPTOR)
    set_(t, backend.CUDNN_ATTR_TENSOR_DATA_TYPE, backend.CUDNN_TYPE_DATA_TYPE, 1, backend.CUDNN_DATA_HALF)
    backend.cudnnBackendInitialize(t)
    assert not t.values
    for name, type_, values in (("DATA_TYPE", "DATA_TYPE", backend.CUDNN_DATA_HALF),
                                ("DIMENSIONS", "INT64", np.array([2, 3])), ("STRIDES", "INT64", [3, 1]),
                                ("UNIQUE_ID", "INT64", -5), ("BYTE_ALIGNMENT", "INT64", 16)):
        type_ = constant(f"CUDNN_TYPE_{type_}")
        set_(t, constant(f"CUDNN_ATTR_TENSOR_{name}"), type_, np.size(values), values)
    finalize(t)
    room = [0] * 8
    assert get(t, backend.CUDNN_ATTR_TENSOR_DIMENSIONS, backend.CUDNN_TYPE_INT64, 8, room) == 2
    assert room[:3] == [2, 3, 0] and get(t, backend.CUDNN_ATTR_TENSOR_STRIDES, None, 1) == [3]
    found = conv_graph("numpy")
    results = [create(backend.CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) for _ in range(3)]
    count = get(found["ENGINEHEUR"], backend.CUDNN_ATTR_ENGINEHEUR_RESULTS, None, 3, results)
    assert 0 < count and results[0].is_finalized
    for call in (lambda: finalize(1), lambda: backend.cudnnBackendExecute("numpy", 1, 2),
                 lambda: get(t, "TENSOR_STRIDES", None, 2, []),
                 lambda: backend.cudnnBackendExecute("numpy", found["EXECUTION_PLAN"], t),
                 lambda: get(found["ENGINEHEUR"], "ENGINEHEUR_RESULTS", None, 1, [create("TENSOR")])):
        with pytest.raises(BadParam):
            call()
    plan = found["EXECUTION_PLAN"]
    pack = packed({t.uid: np.ones(t.desc.dims, "f") for t in plan.made.layout.slots}, plan)
    for call in (backend.cudnnBackendPopulateCudaGraph, backend.cudnnBackendUpdateCudaGraph):
        with pytest.raises(NotSupported, match="cuda_graph: the plan must be for a GPU; got one for numpy"):
            call("numpy", plan, pack, 1)
        with pytest.raises(BadParam, match="CudaGraph: variantPack must be a descriptor"):
            call("numpy", plan, None, 1)
    with pytest.raises(backend.descriptor.NotInitialized, match="must not be finalized"):
        backend.cudnnBackendInitialize(t)


def test_a_destroyed_descriptor_is_refused():
    """Also behind a pack that was executed; what it is set in keeps what it needs."""
    found = conv_graph("numpy")
    plan = found["EXECUTION_PLAN"]
    pack = packed({t.uid: np.ones(t.desc.dims, "f") for t in plan.made.layout.slots}, plan)
    backend.cudnnBackendExecute("numpy", plan, pack)
    for one in (found["ENGINEHEUR"], found["OPERATIONGRAPH"]):
        backend.cudnnBackendDestroyDescriptor(one)
        with pytest.raises(BadParam, match=r"descriptor must not be destroyed; got <\w+ destroyed"):
            backend.cudnnBackendFinalize(one)
    with pytest.raises(BadParam, match="ENGINE_OPERATION_GRAPH must not be destroyed; got <OPERATIONGRAPH"):
        backend.Descriptor("ENGINE").set("ENGINE_OPERATION_GRAPH", found["OPERATIONGRAPH"])
    backend.cudnnBackendExecute("numpy", plan, pack)
    backend.cudnnBackendDestroyDescriptor(plan)
    for call in (lambda: backend.cudnnBackendExecute("numpy", plan, pack),
                 lambda: backend.cudnnBackendDestroyDescriptor(plan)):
        with pytest.raises(BadParam, match="must not be destroyed; got <EXECUTION_PLAN destroyed"):
            call()


def test_names_that_left_the_api():
    with pytest.raises(AttributeError, match="CUDNN_TYPE_OPERATION left the API in 8.0; use CUDNN_TYPE_BACK"):
        backend.CUDNN_TYPE_OPERATION
    with pytest.raises(BadParam, match="CUDNN_TYPE_OPERATION left the API in 8.0"):
        constant("CUDNN_TYPE_OPERATION")
    with pytest.raises(AttributeError, match="has no attribute"):
        backend.CUDNN_NONSENSE
    assert "CUDNN_TYPE_INT64" in dir(backend) and int(backend.CUDNN_TYPE_INT64) == 3
