"""Graphs: order, claims, chains; plans: workspace by liveness, slots, scalars;
what is refused, by its sentence."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn import plan as plans
from cydnn.graph import ByValue, Graph, Node
from cydnn.ops import ConvFprop, Pointwise, SoftmaxFwd, Transform
from cydnn.status import BadParam, NotSupported
from cydnn.tensor import TensorDesc, collapse, common_period


def tensors(**kinds):
    return {uid: TensorDesc.packed("f32", (2, 4), uid=uid, name=name, is_virtual=kind == "virtual",
                                   is_by_value=kind == "value")
            for uid, (name, kind) in enumerate(kinds.items(), 1)}


def unary(x, y, mode="abs", **scalars):
    return Node(Pointwise(mode=mode), dict(x=x, y=y), scalars, name=f"{mode}{x}{y}")


def test_nodes_are_sorted_and_run_in_order(numpy_device):
    t = tensors(a="real", b="virtual", c="virtual", d="real")
    graph = Graph([unary(3, 4, "sqrt"), unary(1, 2, "abs"), unary(2, 3, "identity")], t)
    assert [n.name for n in graph.nodes] == ["abs12", "identity23", "sqrt34"]
    plan = plans.build(graph, numpy_device)
    x, y = np.full((2, 4), -9, np.float32), np.empty((2, 4), np.float32)
    workspace = np.empty(plan.workspace_bytes, np.uint8)
    plan.run({1: x, 4: y}, workspace)
    assert (y == 3).all() and plan.workspace_bytes == 512


def test_workspace_is_shared_by_liveness(numpy_device):
    t = tensors(a="real", b="virtual", c="virtual", d="virtual", e="virtual", f="real")
    graph = Graph([unary(i, i + 1) for i in range(1, 6)], t)
    assert plans.build(graph, numpy_device).workspace_bytes == 512


@pytest.mark.parametrize("nodes, kinds, sentence", [
    ([], dict(a="real"), "graph: it must have at least one operation; got none"),
    ([unary(1, 9)], dict(a="real"), "abs19: y must be a tensor of the graph; got uid 9"),
    ([unary(1, 2), unary(1, 2, "neg")], dict(a="real", b="real"),
     "tensor b must be written by one node; got abs12 and neg12"),
    ([unary(1, 2)], dict(a="virtual", b="real"),
     "virtual tensor a must be the output of a node; nothing writes it"),
    ([unary(1, 2), unary(2, 1)], dict(a="virtual", b="virtual"),
     "it must have no cycle; got one through abs12, abs21"),
])
def test_refusals(nodes, kinds, sentence):
    with pytest.raises(BadParam, match=sentence):
        Graph(nodes, tensors(**kinds))


def test_scalars_by_value(numpy_device):
    t = tensors(a="real", b="real", s="value")
    plan = plans.build(Graph([unary(1, 2, alpha=ByValue(3))], t), numpy_device)
    x, y = -np.ones((2, 4), np.float32), np.empty((2, 4), np.float32)
    plan.run({1: x, 2: y, 3: 2.5})
    assert (y == 2.5).all()
    with pytest.raises(BadParam,
                       match="gamma is no scalar of pointwise; scalars are alpha1 alpha2 alpha beta"):
        unary(1, 2, gamma=1.0)


def test_chain_behind_stops_where_a_value_is_needed_twice():
    t = tensors(a="real", b="virtual", c="virtual", d="real", e="real")
    linear = Graph([unary(1, 2), unary(2, 3, "neg"), unary(3, 4, "exp")], {k: t[k] for k in (1, 2, 3, 4)})
    assert [n.name for n in linear.chain_behind(linear.nodes[0])] == ["neg23", "exp34"]
    forked = Graph([unary(1, 2), unary(2, 4, "neg"), unary(2, 5, "exp")], {k: t[k] for k in (1, 2, 4, 5)})
    assert forked.chain_behind(forked.nodes[0]) == []


def test_execute_checks_before_it_runs(numpy_device):
    desc = TensorDesc.packed("f32", (4, 8))
    plan = plans.build(Graph.single(SoftmaxFwd(), dict(x=desc)), numpy_device)
    buffer = np.zeros(65, np.float32)
    address = buffer.ctypes.data
    for pointers, sentence in [((0, address), "x: pointer must not be null"),
                               ((address + 2, address + 128), "x: pointer must be aligned to 4 bytes"),
                               ((address, address + 64), "y: output must not overlap x"),
                               ((address,), "pointers must have 2 entries; got 1")]:
        with pytest.raises(BadParam, match=sentence):
            plan.execute(pointers)
    plan.execute((address, address))             # in place is allowed for softmax
    assert np.allclose(buffer[:32], 1 / 8)


@pytest.mark.parametrize("a,b,period", [
    (((2, 3, 4, 5), (160, 1, 40, 8)), ((2, 5, 4, 5), (160, 1, 40, 8)), (32, 12, 20)),       # channels of NHWC
    (((2, 3, 4, 5), (160, 20, 5, 1)), ((2, 5, 4, 5), (160, 20, 5, 1)), (640, 240, 400)),    # channels of NCHW
    (((2, 3, 4, 5), (160, 1, 40, 8)), ((2, 6, 4, 5), (160, 1, 40, 8)), None),               # 9 of 8 channels
    (((2, 3, 4, 5), (160, 1, 40, 8)), ((2, 3, 4, 5), (160, 20, 5, 1)), None),                  # two layouts
    (((4, 8), (8, 1)), ((4, 8), (8, 1)), None)])                                            # packed: no gaps
def test_slices_of_one_buffer_have_a_period(a, b, period):
    assert common_period(*(TensorDesc("f32", *d) for d in (a, b))) == period


def test_an_output_may_lie_in_the_gaps_of_an_input(numpy_device):
    """Channels 0 to 2 of an NHWC buffer become channels 3 to 5 of it; one channel less
    of distance is an overlap."""
    desc = TensorDesc("f32", (2, 3, 4, 4), (96, 1, 24, 6))
    plan = plans.build(Graph.single(Pointwise(mode="neg"), dict(x=desc, y=desc)), numpy_device)
    image = np.random.default_rng(0).standard_normal((2, 4, 4, 6)).astype(np.float32)
    before, at = image.copy(), image.ctypes.data
    plan.execute((at, at + 12))
    assert (image[..., 3:] == -before[..., :3]).all() and (image[..., :3] == before[..., :3]).all()
    with pytest.raises(BadParam, match="y: output must not overlap x"):
        plan.execute((at, at + 8))


def test_no_engine_says_why(numpy_device):
    class Facts:
        kind, name, sm, sms, smem_bytes, l2_bytes, bandwidth_gbs = (
            "cuda", "an old card", 61, 20, 49152, 1 << 20, 300.0)

    from cydnn.heuristics import partition
    desc = TensorDesc.packed("f32", (2, 8, 5, 5))
    graph = Graph.single(ConvFprop(), dict(x=desc, w=TensorDesc.packed("f32", (4, 8, 3, 3))))
    with pytest.raises(NotSupported, match=r"conv_fprop: no engine takes .* on an old card") as caught:
        partition(graph, Facts)
    assert "needs sm_75 or newer; device is sm_61" in str(caught.value)
    assert "reference: runs on the NumPy device" in str(caught.value)


def test_collapse_merges_what_is_contiguous_everywhere():
    a = TensorDesc.packed("f32", (4, 6, 5, 7), "nhwc")
    b = TensorDesc.packed("f32", (1, 6, 1, 1))
    assert collapse(a, a) == ((4 * 6 * 5 * 7,), [(1,), (1,)])
    assert collapse(b, a) == ((6, 4 * 5 * 7), [(1, 0), (1, 6)])
    x, y = TensorDesc.packed("f32", (2, 3, 4, 5)), TensorDesc.packed("f32", (2, 3, 4, 5), "nhwc")
    dims, (sx, sy) = collapse(x, y)
    assert dims == (3, 20, 2) and sx == (20, 1, 60) and sy == (1, 3, 60)


def test_transform_between_layouts_and_types(numpy_device):
    x, y = TensorDesc.packed("f32", (2, 3, 2, 2)), TensorDesc.packed("bf16", (2, 3, 2, 2), "nhwc")
    plan = plans.build(Graph.single(Transform(), dict(x=x, y=y)), numpy_device)
    a, b = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2), np.empty((2, 2, 2, 3), np.uint16)
    plan.run({1: a, 2: b})
    assert ((b.astype(np.uint32) << 16).view(np.float32) == a.transpose(0, 2, 3, 1)).all()
