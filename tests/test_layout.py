"""Layouts: slots, numbers, workspace by liveness, which buffers may be one, steps; on paper and back, for a
GPU that is not here."""
from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "graph"))
from nodes import binary, t, unary, v
from cydnn import device, plan
from cydnn.arena import arrange
from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.graph import FromTensor, Graph, Match, Node, Tensor, inplace
from cydnn.engines import COMPOSITE
from cydnn.heuristics import Choice, Wish, best
from cydnn.heuristics.choice import Part
from cydnn.layout import Layout
from cydnn.ops import BatchNormTraining, Matmul, Pointwise, Problem, Reduction, SoftmaxFwd, Transform
from cydnn.status import BadParam
from cydnn.steps import Launch, Pointer, Scalar, pointers
from cydnn.tensor import TensorDesc
from heuristics.graphs import point
from support.draw import graphs
from support.draw.dags import dag

H200 = KNOWN["h200"]
NUMPY = type(H200)("numpy", "numpy", 0, 1, 0, 0, 10.0)


def of(line, facts=H200, wish=Wish()) -> Layout:
    return Layout.of(graph_of(Problem.parse(line)), facts, wish)


# ---- Slots and numbers ----

def test_slots_are_in_uid_order_and_steps_name_their_places():
    graph = Graph([binary(9, 4, 7), unary(7, 2, "exp")], [t(9), t(4), v(7), t(2)])
    layout = Layout.of(graph, H200)
    assert ([x.uid for x in layout.slots], layout.uids, layout.written) == ([2, 4, 9], (2, 4, 9), {0})
    places = {p.uid for step in layout.steps for p in pointers(step)}
    assert places == {0, 1, 2}


def test_numbers_are_those_of_nodes_and_those_given_at_execute():
    graph = Graph([binary(1, 8, 2, alpha=2.0), unary(2, 3, alpha=FromTensor(9))],
                  [t(1), t(8, (1, 1), kind="value", scalar=Scalar(8, 1.5)), t(2), t(3),
                   t(9, (1, 1), kind="value")])
    layout = Layout.of(graph, H200, Wish(mode="fallback"))
    assert dict(layout.scalars) == {(2, "alpha"): 2.0, 8: 1.5, 9: 0.0}
    used = {s.key for step in layout.steps for fused in step.fuse.values() for s in fused.scalars
            if hasattr(s, "key")}
    assert used <= set(range(len(layout.scalars)))


def test_numbers_of_nodes_in_between_are_what_they_are():
    """A cast's own factors are no business of the caller's."""
    layout = of("softmax_fwd x=64x64:i8 y=64x64:f8_e5m2")
    assert [key for key, _ in layout.scalars] == [(2, "alpha"), (2, "beta")]


@pytest.mark.parametrize("name", ["numpy", "ptx:sm_80"])
def test_factors_that_do_nothing_are_no_numbers_of_a_plan(name):
    """Spliced code is without them, so nobody can give others. A node alone has all of its own."""
    two = Graph([unary(1, 2, "identity"), unary(2, 3, "identity", alpha=2.0)], [t(1), v(2), t(3)])
    made = plan.build(two, name)
    assert made.scalars == [((3, "alpha"), 2.0)]
    values = np.arange(8.0).reshape(2, 4)
    (got,) = graphs.run(two, {1: values}, device.get(name)).values()
    assert (got == 2 * values).all()
    one = Graph([unary(1, 2, "identity")], [t(1), t(2)])
    assert len(plan.build(one, name).scalars) == 4


def test_empty_tensors_need_no_pointer():
    assert of("conv_wgrad n0c8h4w4 k8r3s3 pad1 f32").optional == {0, 1}


# ---- Workspace ----

@pytest.mark.parametrize("seed", range(40))
def test_areas_that_live_at_one_time_lie_apart(seed):
    rng = random.Random(seed)
    rows = [(i, rng.randint(0, 3000), first, first + rng.randint(0, 4)) for i in range(12)
            for first in [rng.randint(0, 9)]]
    offsets, size = arrange(rows)
    assert all(offset % 256 == 0 and offset + length <= size for (_, length, *_),
               offset in zip(rows, map(offsets.get, range(12))))
    for i, a, first, last in rows:
        for j, b, start, end in rows:
            if i < j and first <= end and start <= last:
                assert offsets[i] + max(a, 1) <= offsets[j] or offsets[j] + max(b, 1) <= offsets[i]
    assert size <= sum(-(-max(length, 1) // 256) * 256 for _, length, *_ in rows)


def test_the_workspace_is_shared_by_liveness():
    chain = Graph([unary(i, i + 1) for i in range(1, 6)], [t(1), v(2), v(3), v(4), v(5), t(6)])
    assert Layout.of(chain, NUMPY).workspace_bytes == 512
    # one region: nothing lives in between
    assert Layout.of(chain, H200).workspace_bytes == 0
    assert Layout.of(chain, H200, Wish(mode="fallback")).workspace_bytes == 512


@pytest.mark.parametrize("seed", range(12))
def test_no_step_reads_what_a_later_one_overwrote(seed):
    """Areas of different values in one place: each is written, then read, before the next is written
    there."""
    rng = random.Random(seed)
    drawn = graphs.region(rng, count=6) if seed % 2 else graphs.anchored(
        rng, list(graphs.FORMS)[seed // 2 % 5])
    choice = best(drawn.graph(), H200, Wish(mode="fallback"))
    offsets, size = choice.areas
    life: dict = {}
    for number, step in choice.steps:
        for p in pointers(step):
            if p.uid in offsets:
                life[p.uid] = (life.get(p.uid, (number,))[0], number)
    extent = lambda area: getattr(area, "bytes", None) or choice.graph.tensors[area].bytes
    for a, (first, last) in life.items():
        assert 0 <= offsets[a] and offsets[a] + extent(a) <= size
        for b, (start, end) in life.items():
            if a is not b and a != b and first <= end and start <= last:
                assert offsets[a] + extent(a) <= offsets[b] or offsets[b] + extent(b) <= offsets[a]


# ---- Which buffers may be one ----

def test_in_place_where_each_element_is_read_before_it_is_written():
    assert of("softmax_fwd 64x64 f16").inplace == [(1, 0)]
    assert of("matmul 64x64 64x64 f16").inplace == []
    assert of("transform x=8x8:f32 y=8x8:f16").inplace == []                 # not byte for byte


def test_in_place_in_graphs_of_several_nodes():
    """What two operations stand behind has been read by then; what one product reads has not."""
    graph = Graph([Node(SoftmaxFwd(), dict(x=1, y=2)), Node(Matmul(), dict(a=2, b=3, c=4)), unary(4, 5)],
                  [t(1, (4, 4)), v(2, (4, 4)), t(3, (4, 4)), v(4, (4, 4)), t(5, (4, 4))])
    layout = Layout.of(graph, H200)
    pairs = {(layout.uids[a], layout.uids[b]) for a, b in layout.inplace}
    assert (5, 1) in pairs and (5, 3) not in pairs
    chain = Layout.of(Graph([binary(1, 2, 3), unary(3, 4)], [t(1), t(2, (1, 4)), v(3), t(4)]), H200)
    assert {(chain.uids[a], chain.uids[b]) for a, b in chain.inplace} == {(4, 1)}


def norm_then_relu() -> Graph:
    dims, one = (2, 4, 3, 3), (1, 4, 1, 1)
    t = lambda uid, d, kind="memory": Tensor(uid, TensorDesc.packed("f32", d), kind)
    norm = Node(BatchNormTraining(),
                dict(x=1, scale=2, bias=3, running_mean=4, running_var=5, y=6, mean=7, rstd=8,
                                          next_running_mean=9, next_running_var=10), dict(factor=0.5))
    tensors = [t(1, dims), *(t(u, one) for u in (2, 3, 4, 5, 7, 8, 9, 10)),
               t(6, dims, "virtual"), t(11, dims)]
    return Graph([norm, Node(Pointwise(mode="relu_fwd"), dict(x=6, y=11))], tensors)


@pytest.mark.parametrize("name", ["numpy", "ptx:sm_80"])
def test_running_statistics_in_place_in_a_graph_of_two_nodes(name):
    dev, graph = device.get(name), norm_then_relu()
    built, gen = plan.build(graph, dev), np.random.default_rng(0)
    values = {t.uid: gen.uniform(0.5, 1, t.dims).astype(np.float32) for t in built.slots}
    buffers = {u: dev.alloc(v.nbytes) for u, v in values.items()}
    for uid, value in values.items():
        dev.copy_in(buffers[uid].ptr, value)
    buffers[9], buffers[10] = buffers[4], buffers[5]
    workspace = dev.alloc(max(built.workspace_bytes, 1))
    built.run({u: b.ptr for u, b in buffers.items()}, workspace.ptr)
    mean = dev.copy_out(buffers[4].ptr, np.empty((1, 4, 1, 1), np.float32))
    want = 0.5 * values[4] + 0.5 * values[1].mean(axis=(0, 2, 3), keepdims=True)
    np.testing.assert_allclose(mean, want, rtol=1e-5)


def pairs(layout: Layout) -> set:
    return {(layout.slots[i].uid, layout.slots[j].uid) for i, j in layout.inplace}


def test_in_place_follows_the_order_of_reads_and_writes():
    t = lambda uid, dims=(4, 8), kind="memory", dtype="f32": Tensor(uid, TensorDesc.packed(dtype, dims), kind)
    elementwise = Graph([point("add", 1, 2, 3),
                         point("relu_fwd", 3, 4)], [t(1), t(2, (1, 8)), t(3, kind="virtual"), t(4)])
    assert pairs(Layout.of(elementwise, H200)) == {(4, 1)}              # 2 is read again for the next row
    node_by_node = Layout(best(elementwise, H200, Wish(mode="fallback")))
    assert pairs(node_by_node) == {(4, 1)}
    late = Graph([point("relu_fwd", 1, 3), point("add", 1, 2, 4)], [t(1), t(2), t(3), t(4)])
    assert pairs(Layout.of(late, H200)) == {(3, 1), (3, 2), (4, 1), (4, 2)}
    apart = best(late, H200, Wish(mode="fallback"))
    assert pairs(Layout(apart)) == pairs(Layout.of(late, H200)) and apart.held == (3,)   # 1 is read again
    other = Graph([point("relu_fwd", 1, 2)], [t(1), t(2, dtype="f16")])
    assert pairs(Layout.of(other, H200)) == set()
    assert pairs(Layout.of(Graph.single(Transform(), dict(x=t(1).desc)), H200)) == set()


def rotated() -> Graph:
    """A rotary embedding: halves a (1) and b (2) turned by c (3) and s (4) to 10 and 11."""
    t = lambda uid, kind="memory": Tensor(uid, TensorDesc.packed("f32", (4, 8)), kind)
    rows = [("mul", 1, 3, 5), ("mul", 2, 4, 6), ("sub", 5, 6, 10), ("mul", 2, 3, 7), ("mul", 1, 4, 8),
            ("add", 7, 8, 11)]
    return Graph([point(*row) for row in rows],
                 [*map(t, (1, 2, 3, 4, 10, 11)), *(t(uid, "virtual") for uid in (5, 6, 7, 8))])


@pytest.mark.parametrize("mode", ["a", "fallback"])
@pytest.mark.parametrize("name", ["numpy", "ptx:sm_80"])
def test_what_may_lie_in_place_does_whatever_the_plan(name, mode):
    """Both outputs, the one a part reads from once more after it is written, too."""
    dev, rng = device.get(name), np.random.default_rng(0)
    built = plan.build(rotated(), dev, Wish(mode=mode))
    assert {(10, 1), (10, 2), (11, 1), (11, 2)} <= pairs(built.layout)
    values = {uid: rng.integers(-4, 5, (4, 8)).astype(np.float32) for uid in (1, 2, 3, 4)}
    buffers = {uid: dev.alloc(128) for uid in values}
    for uid, value in values.items():
        dev.copy_in(buffers[uid].ptr, value)
    workspace = dev.alloc(max(built.workspace_bytes, 1))
    pack = {uid: buffer.ptr for uid, buffer in buffers.items()}
    built.run(pack | {10: pack[1], 11: pack[2]}, workspace.ptr)
    a, b, c, s = values.values()
    for uid, want in ((1, a * c - b * s), (2, b * c + a * s)):
        assert (dev.copy_out(buffers[uid].ptr, np.empty((4, 8), np.float32)) == want).all()


@pytest.mark.parametrize("rows, want", [
    ([("relu_fwd", 1, 3), ("tanh_fwd", 3, 4)], {(3, 1), (4, 1)}),                # both elementwise
    ([("relu_fwd", 1, 5), ("matmul", 5, 2, 3)], set()),                          # in front of a product
    ([("matmul", 1, 2, 5), ("relu_fwd", 5, 3)], set()),                          # behind one
    ([("matmul", 1, 2, 5), ("relu_fwd", 1, 3), ("add", 5, 2, 4)], set()),              # beside one
    ([("matmul", 1, 2, 5), ("matmul", 5, 2, 6), ("add", 6, 1, 3)], {(3, 1)}),    # two are between
    ([("relu_fwd", 1, 3), ("matmul", 3, 2, 5), ("add", 5, 1, 4)], set())])
def test_products_on_the_way(rows, want):
    t = lambda uid, kind="memory": Tensor(uid, TensorDesc.packed("f32", (8, 8)), kind)
    nodes = [Node(Matmul(), dict(a=row[1], b=row[2], c=row[3])) if row[0] == "matmul" else point(*row)
             for row in rows]
    used = {uid for row in rows for uid in row[1:]}
    graph = Graph(nodes, [t(uid, "virtual" if uid > 4 else "memory") for uid in used])
    assert set(inplace.pairs(graph)) == want


def test_what_a_core_reads_through_others_is_not_read_first():
    """A part of a pointwise node in front of a product and a sum behind it, which writes over what that node
    reads."""
    t = lambda uid, dims, kind="memory": Tensor(uid, TensorDesc.packed("f32", dims), kind)
    nodes = [point("add", 1, 2, 5), Node(Matmul(), dict(a=5, b=3, c=6)), Node(Reduction(), dict(x=6, y=4))]
    graph = Graph(nodes,
                  [*(t(uid, (8, 8)) for uid in (1, 3)), *(t(uid, (8, 8), "virtual") for uid in (5, 6)),
                   *(t(uid, (1, 8)) for uid in (2, 4))])
    part = Part(Match.around(graph, 1, 0b111, {"a": 0b1}), COMPOSITE, None, 0.0)
    assert (4, 2) in inplace.pairs(graph) and Choice(graph, graph, H200, (part,)).held == (4,)


def test_an_overlapping_input_does_not_make_an_overlapping_output():
    x = TensorDesc("f32", (3, 4), (0, 1))
    y = Pointwise(mode="relu_fwd").complete(dict(x=x))["y"]
    assert y.dims == (3, 4) and not y.is_overlapping


def test_tensors_between_each_other_have_a_period():
    desc = TensorDesc("f32", (2, 3, 4, 4), (96, 1, 24, 6))
    layout = Layout.of(Graph.single(Pointwise(mode="neg"), dict(x=desc, y=desc)), NUMPY)
    assert layout.periods == {(1, 0): (24, 12, 12)}


# ---- On paper ----

LINES = ["conv_fprop n8c64h28w28 k64r3s3 pad1 f16 nhwc", "conv_wgrad n8c5h28w28 k6r3s3 pad1 f16",
         "matmul 64x70 70x64 i8 acc=i32",
         "softmax_fwd 4x4096 bf16", "batch_norm_training n8c16h4w4 f16 nhwc",
         "pooling_bwd n2c8h9w9 window=3 stride=2 f16 nhwc",
         "conv_bgrad n8c64h9w9 f16", "softmax_fwd x=64x64:i8 y=64x64:bool", "set_tensor 4x4 f16",
         "conv_fprop n0c4h8w8 k4r3s3"]


@pytest.mark.parametrize("card", ["h200", "a100", "t4"])
@pytest.mark.parametrize("line", LINES)
def test_layouts_read_back(line, card):
    layout = of(line, KNOWN[card])
    text = layout.to_json()
    again = Layout.from_json(text)
    assert again.to_json() == text and again.choice == layout.choice
    assert again.workspace_bytes == layout.workspace_bytes
    assert [s.kernel for s in again.steps
            if isinstance(s, Launch)] == [s.kernel for s in layout.steps if isinstance(s, Launch)]


@pytest.mark.parametrize("seed", range(30))
def test_layouts_of_random_graphs_read_back(seed):
    graph, _ = dag(seed)
    layout = Layout.of(graph, H200)
    text = layout.to_json()
    again = Layout.from_json(text)
    assert again.to_json() == text and again.choice == layout.choice
    assert again.workspace_bytes == layout.workspace_bytes
    assert [t.uid for t in again.slots] == [t.uid for t in layout.slots]


def test_layouts_of_the_numpy_device_read_back():
    layout = of(LINES[0], NUMPY)
    assert Layout.from_json(layout.to_json()).to_json() == layout.to_json()
    assert "reference of conv_fprop" in layout.explain()


def test_explanations_end_with_the_steps():
    tail = [unary(3, 4, "relu_fwd")]
    graph = Graph([Node(Matmul(), dict(a=1, b=2, c=3)), *tail],
                  [t(1, (1024, 1024), "f16"), t(2, (1024, 1024), "f16"), v(3, (1024, 1024)),
                   t(4, (1024, 1024), "f16")])
    said = Layout.of(graph, H200).explain()
    assert "189:matmul_wgmma" in said and said.splitlines()[-2] == "steps:"
    assert said.splitlines()[-1].startswith("    part 0: matmul_wgmma_f16_")
    assert said.endswith("with epilogue spliced")


@pytest.mark.parametrize("change, sentence", [
    (lambda r: r.update(format=99), "plan: format must be 1; got 99"),
    (lambda r: r.update(workspace_bytes=7),
     "plan: workspace_bytes must be what this version of cydnn makes of graph and choice"),
    (lambda r: r.update(choice=["part 0: 999"]), "choice: there must be an engine 999"),
    (lambda r: r["steps"].pop(), "plan: steps must be what this version"),
    (lambda r: r["device"].update(colour="red"),
     "plan: it must be JSON that a plan was written as; got TypeError"),
    (lambda r: r["device"].update(registers=48), "facts: registers of a GPU must be at least 65536; got 48"),
    (lambda r: r.pop("graph"), "plan: it must be JSON that a plan was written as; got KeyError: 'graph'"),
    (lambda r: r.update(more=1), "plan: more must be what this version"),
])
def test_changed_texts_are_refused(change, sentence):
    row = json.loads(of(LINES[0]).to_json())
    change(row)
    with pytest.raises(BadParam, match=sentence):
        Layout.from_json(json.dumps(row))


def test_texts_that_are_no_json():
    with pytest.raises(BadParam,
                       match="plan: it must be JSON that a plan was written as; got JSONDecodeError"):
        Layout.from_json("{")


def test_pointers_into_the_workspace_have_slot_minus_1():
    layout = of("conv_wgrad n8c64h28w28 k64r3s3 pad1 f16 nhwc")
    inside = [p for step in layout.steps for p in pointers(step) if p.uid == -1]
    assert inside and all(0 <= p.addend < layout.workspace_bytes and isinstance(p, Pointer) for p in inside)
