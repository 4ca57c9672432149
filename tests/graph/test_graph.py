"""Graphs: their own order, what nodes and tensors may be, keys, slots. What is refused, by its sentence."""
from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from nodes import binary, t, tensors, unary, v
from cydnn.graph import FromTensor, Graph, Node, Tensor, every
from cydnn.ops import ConvFprop, Matmul, Pointwise, Reduction, ScaleTensor, SoftmaxFwd
from cydnn.status import BadParam
from cydnn.steps import Scalar
from cydnn.tensor import TensorDesc
from support.draw import graphs


# ---- Order ----

def test_nodes_are_sorted():
    graph = Graph([unary(3, 4, "sqrt"), unary(1, 2, "abs"), unary(2, 3, "identity")],
                  tensors(a="memory", b="virtual", c="virtual", d="memory"))
    assert [n.name for n in graph.nodes] == ["abs12", "identity23", "sqrt34"]
    assert str(graph) == "abs12 -> identity23 -> sqrt34"


def test_ties_go_to_the_lower_output():
    nodes = [unary(1, 4, "neg"), unary(1, 3, "exp"), unary(1, 2, "abs"), binary(4, 3, 5)]
    for order in itertools.permutations(nodes):
        graph = Graph(order, [t(1), t(2), v(3), v(4), t(5)])
        assert [n.name for n in graph.nodes] == ["abs12", "exp13", "neg14", "add5"]


@pytest.mark.parametrize("seed", range(30))
def test_the_order_does_not_depend_on_insertion(seed):
    drawn = graphs.region(random.Random(seed), count=7)
    graph = drawn.graph()
    for _ in range(4):
        again = drawn.graph(shuffled=True)
        assert again.key == graph.key and hash(again.key) == hash(graph.key)
        assert [n.name for n in again.nodes] == [n.name for n in graph.nodes]
    for i, node in enumerate(graph.nodes):
        assert all(graph.producer[u] < i for u in node.reads if u in graph.producer)


# ---- What is refused ----

@pytest.mark.parametrize("nodes, kinds, sentence", [
    ([], dict(a="memory"), "graph: it must have at least one operation; got none"),
    ([unary(1, 9)], dict(a="memory"), "abs19: y must be a tensor of the graph; got uid 9"),
    ([unary(9, 1)], dict(a="memory"), "abs91: x must be a tensor of the graph; got uid 9"),
    ([unary(1, 2, alpha=FromTensor(9))], dict(a="memory", b="memory"),
     "abs12: alpha must be a tensor of the graph; got uid 9"),
    ([unary(1, 2, alpha=FromTensor(1))], dict(a="memory", b="memory"),
     r"abs12: alpha must be a tensor of one element; got a of dims \(2, 4\)"),
    ([unary(1, 2), unary(1, 2, "neg")], dict(a="memory", b="memory"),
     "graph: tensor b must be written by one node; got abs12 and neg12"),
    ([unary(1, 2)], dict(a="virtual", b="memory"),
     "graph: virtual tensor a must be the output of a node; nothing writes it"),
    ([unary(1, 2)], dict(a="memory", b="memory", c="virtual"),
     "graph: virtual tensor c must be the output of a node; nothing writes it"),
    ([unary(1, 2), unary(2, 1)], dict(a="virtual", b="virtual"),
     "graph: it must have no cycle; got one through abs12, abs21"),
    ([unary(1, 1)], dict(a="memory"), "graph: it must have no cycle; got one through abs11"),
    ([unary(1, 2)], dict(a="memory", b="virtual"),
     r"graph: a tensor that is written must be an output \(not virtual: set_output\(True\)\); "
      r"got only virtual ones"),
    ([unary(1, 2)], dict(a="memory", b="value"),
     r"abs12: y must be in memory; got pass-by-value tensor b of dims \(1, 1\)"),
    ([unary(1, 2, beta=1.0), unary(2, 3)], dict(a="memory", b="virtual", c="memory"),
     "abs12: beta must be 0 where y is virtual: it holds nothing to blend with; got 1.0"),
    ([Node(ScaleTensor(), dict(y=1)), unary(1, 2)], dict(a="virtual", b="memory"),
     "scale_tensor: y must be in memory, as what it holds is read; got a virtual tensor"),
])
def test_refusals(nodes, kinds, sentence):
    with pytest.raises(BadParam, match=sentence):
        Graph(nodes, tensors(**kinds))


def test_rules_of_the_op_name_the_node():
    nodes = [Node(ConvFprop(), dict(x=1, w=2, y=3), name="stem")]
    with pytest.raises(BadParam, match="^stem: w.c must divide x.c=3; got w.c=2"):
        Graph(nodes, [t(1, (1, 3, 4, 4)), t(2, (4, 2, 3, 3)), t(3, (1, 4, 2, 2))])
    with pytest.raises(BadParam, match=r"^stem: y must have dims \(1, 4, 2, 2\); got \(1, 4, 2, 3\)"):
        Graph(nodes, [t(1, (1, 2, 4, 4)), t(2, (4, 2, 3, 3)), t(3, (1, 4, 2, 3))])


def test_a_value_is_read_by_pointwise_nodes_only():
    """Single numbers that pointwise operations read, and scalars of any operation."""
    Graph([binary(1, 2, 3)], tensors(a="memory", b="value", c="memory"))
    matmul = Node(Matmul(), dict(a=1, b=2, c=3), dict(alpha=FromTensor(4)))
    Graph([matmul], [t(1, (1, 1)), t(2, (1, 1)), t(3, (1, 1)), t(4, (1, 1), kind="value")])
    with pytest.raises(BadParam, match="matmul: b must be in memory; got pass-by-value tensor uid 2"):
        Graph([Node(Matmul(), dict(a=1, b=2, c=3))], [t(1, (1, 1)), t(2, (1, 1), kind="value"), t(3, (1, 1))])


def test_a_uid_belongs_to_one_tensor():
    with pytest.raises(BadParam, match="graph: a uid must belong to one tensor; got 2 for b and c"):
        Graph([unary(1, 2)], [t(1), t(2, name="b"), t(2, dtype="f16", name="c")])
    Graph([unary(0, -7)], [t(0), t(-7)])         # any whole number is a uid


@pytest.mark.parametrize("facts, sentence", [
    (dict(kind="real"), "tensor a: kind must be one of memory virtual value; got 'real'"),
    (dict(alignment=12), "tensor a: alignment must be a power of two; got 12"),
    (dict(alignment=0), "tensor a: alignment must be a power of two; got 0"),
    (dict(reordering="rows"), "tensor a: reordering must be one of none int8x32 f16x16 f8_128x4; got 'rows'"),
])
def test_tensors_that_cannot_be(facts, sentence):
    with pytest.raises(BadParam, match=sentence):
        t(1, name="a", **facts)


# ---- Tensors, nodes ----

def test_a_tensor_answers_for_its_description():
    x = t(5, (2, 8, 3, 3), "bf16", layout="nhwc", name="x")
    assert (x.dtype.name, x.dims, x.n, x.c, x.rank, x.count,
            x.layout) == ("bf16", (2, 8, 3, 3), 2, 8, 4, 144, "nhwc")
    assert x.label == "x" and t(5).label == "uid 5" and x == x.replace(name="y")
    assert hash(x) == hash(x.replace(name="y"))
    assert x.replace(alignment=4,
                     dims=(1, 8, 3, 3)) == Tensor(5, x.desc.replace(dims=(1, 8, 3, 3)), alignment=4)
    assert t(1, reordering="int8x32").features == ("reordering",)
    assert Tensor(1, TensorDesc("i8", (2, 1, 3, 3), (9, 9, 3, 1), 32)).features == ("vector",)
    with pytest.raises(AttributeError):
        x.nothing


def test_nodes_read_and_write_each_tensor_once():
    node = binary(1, 1, 2, "mul", alpha1=FromTensor(3), alpha2=FromTensor(1), beta=0.5)
    assert (node.reads, node.writes, every(7), every((1, 2))) == ((1, 3), (2,), (7,), (1, 2))
    with pytest.raises(BadParam,
                       match="abs12: gamma is no scalar of pointwise; scalars are alpha1 alpha2 alpha beta"):
        unary(1, 2, gamma=1.0)
    assert Node(Pointwise(mode="abs"), dict(x=1, b=None, y=2)).operands == dict(x=1, y=2)


def test_consumers_count_a_reader_once():
    graph = Graph([binary(1, 1, 2, "mul"), unary(2, 3)], [t(1), v(2), t(3)])
    assert graph.consumers == {1: (0,), 2: (1,), 3: ()} and graph.producer == {2: 0, 3: 1}


def test_above_is_everything_that_a_node_waits_for():
    graph = Graph([unary(1, 2), unary(2, 3), unary(1, 4), binary(3, 4, 5)], [t(1), v(2), v(3), v(4), t(5)])
    assert [n.name for n in graph.nodes] == ["abs12", "abs23", "abs14", "add5"]
    assert graph.above == (0b0000, 0b0001, 0b0000, 0b0111)


def test_nodes_that_stay_are_not_checked_again(monkeypatch):
    nodes, checked = [unary(1, 2), unary(2, 3)], []
    graph = Graph(nodes, [t(1), v(2), t(3)])
    monkeypatch.setattr(Graph, "complete", lambda self, node: checked.append(node))
    new = unary(3, 4)
    other = graph.changed([new, *nodes], [*graph.tensors.values(), t(4)])
    assert other.nodes == (*nodes, new) and other.name == graph.name and checked == [new]


def test_what_an_operation_stands_between():
    """A reduction between two functions, and one beside it."""
    nodes = [unary(1, 2), Node(Reduction(mode="add"), dict(x=2, y=3)), unary(3, 4), unary(2, 5)]
    graph = Graph(nodes, [t(1), v(2), v(3, (1, 1)), t(4, (1, 1)), t(5)])
    assert graph.nodes == tuple(nodes)
    assert graph.users == (0b1010, 0b0100, 0, 0) and graph.apart == (0b0100, 0, 0b0001, 0)


# ---- Keys, slots ----

def test_keys_are_what_must_be_equal_for_a_plan_to_serve():
    base = dict(nodes=[unary(1, 2, alpha=2.0)], tensors=[t(1), t(2)])
    same = Graph([Node(Pointwise(mode="abs"), dict(x=1, y=2), dict(alpha=2.0),
                       "another name")], [t(2, name="y"), t(1)])
    assert Graph(**base).key == same.key
    for other in (dict(base, nodes=[unary(1, 2)]), dict(base, nodes=[unary(1, 2, "neg", alpha=2.0)]),
                  dict(base, tensors=[t(1, alignment=4), t(2)]),
                  dict(base, tensors=[t(1, dtype="f16"), t(2)]),
                  dict(base, tensors=[t(1), t(2, layout=(1, 0))]),
                  dict(base, nodes=[unary(1, 2, alpha=FromTensor(3))],
                       tensors=[t(1), t(2), t(3, (1, 1), kind="value")])):
        assert Graph(**other).key != same.key


def test_slots_are_what_a_caller_has_pointers_for():
    graph = Graph([binary(7, 3, 5), unary(5, 2, alpha=FromTensor(4)), unary(5, 9)],
                  [t(7), t(3, (1, 1), kind="value"), v(5), t(2), t(4, (1, 1)), t(9), t(11)])
    assert graph.slots == (2, 4, 7, 9)


def test_a_graph_of_one_op():
    graph = Graph.single(SoftmaxFwd(), dict(x=TensorDesc.packed("f16", (4, 8))), dict(alpha=0.5), alignment=4)
    assert [(u, x.name, x.alignment) for u, x in graph.tensors.items()] == [(1, "x", 4), (2, "y", 4)]
    assert graph.nodes[0].scalars == dict(alpha=0.5) and graph.tensors[2].dims == (4, 8)


def test_values_stand_for_a_number_or_one_that_must_be_given():
    assert t(1, (1, 1), kind="value", scalar=Scalar(1, 2.5)).scalar.default == 2.5
    assert t(1, (1, 1), kind="value").scalar is None and t(1, (1, 1), kind="value").is_by_value
