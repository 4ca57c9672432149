"""Holes: what lies between two values, whoever else reads of it."""
from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from nodes import binary, t, unary, v
from cydnn.graph import Graph, Node, hole
from cydnn.ops import Matmul, Pointwise, Reduction

FULL = (2, 4)
PRODUCT = Node(Matmul(), dict(a=1, b=2, c=3), name="product")
LAST = Node(Reduction(mode="max"), dict(x=9, y=20), name="last")
OWN = [t(1, (2, 3)), t(2, (3, 4)), v(3), v(9), t(20, (2, 1))]
BIAS = binary(3, 4, 9)                           # add9: what makes the value 9 of the product and tensor 4


def index(x, y, axis) -> Node:
    return Node(Pointwise(mode="gen_index", axis=axis), dict(x=x, y=y), name=f"index{y}")


def select(x, b, mask, y) -> Node:
    return Node(Pointwise(mode="binary_select"), dict(x=x, b=b, t=mask, y=y), name=f"select{y}")


def found(nodes, tensors, end=9) -> list:
    """[(start, names of the nodes, names of those that stay, inputs)] of the holes that end in front of the
    reduction."""
    graph = Graph([PRODUCT, LAST, *nodes], [*OWN, *tensors])
    readers = 1 << [n.name for n in graph.nodes].index("last")
    names = lambda numbers: " ".join(graph.nodes[i].name for i in numbers)
    return [(h.start, names(h.nodes), names(i for i in h.nodes if not h.mask >> i & 1), h.inputs)
            for h in hole.before(graph, end, readers, Matmul)]


CAUSAL = [index(3, 10, 0), index(3, 11, 1), binary(10, 11, 12, "cmp_ge"), select(3, 5, 12, 9)]
FILL = t(5, (1, 1), kind="value")
APART = Node(Matmul(), dict(a=1, b=2, c=13), name="apart")


@pytest.mark.parametrize("nodes, tensors, want", [
    ([BIAS], [t(4, (1, 4))], [(3, "add9", "", (4,))]),
    (CAUSAL, [FILL, v(10), v(11), v(12, dtype="bool")], [(3, "index10 index11 cmp_ge12 select9", "", (5,))]),
    # what is made for it alone goes, what others need or is kept is read
    ([unary(6, 4), BIAS], [v(4), t(6)], [(3, "abs64 add9", "", (6,))]),
    ([unary(6, 4), BIAS, unary(4, 21)], [v(4), t(6), t(21)], [(3, "add9", "", (4,))]),
    ([unary(6, 4), BIAS], [t(4), t(6)], [(3, "add9", "", (4,))]),
    # indices that others need are made twice
    ([index(6, 10, 1), unary(10, 4), unary(10, 21), BIAS], [v(10), v(4), t(6), t(21)],
     [(3, "index10 abs104 add9", "index10", ())]),
    ([index(6, 10, 1), unary(10, 4), unary(10, 21), BIAS], [t(10), v(4), t(6), t(21)],
     [(3, "abs104 add9", "", (10,))]),
    # a tensor that gives nothing but dims is not read, and what made it goes
    ([unary(6, 7), index(7, 4, 1), BIAS], [v(7), v(4), t(6)], [(3, "index4 add9", "", ())]),
    # of two products each may be the first
    ([APART, binary(3, 13, 9)], [v(13)], [(3, "add9", "", (13,)), (13, "add9", "", (3,))]),
    # values on the way leave
    ([BIAS, unary(3, 21)], [t(4), t(21)], []),
    ([BIAS, unary(9, 21)], [t(4), t(21)], []),
    ([unary(3, 8), binary(8, 4, 9)], [t(4), t(8)], []),
    ([unary(3, 8), binary(8, 4, 9), unary(8, 21)], [t(4), v(8), t(21)], []),
    ([unary(6, 9), unary(3, 21)], [t(6), t(21)], []),
])
def test_holes_in_front_of_a_value(nodes, tensors, want):
    assert found(nodes, tensors) == want


def test_there_may_be_nothing_in_a_hole():
    graph = Graph([PRODUCT, Node(Reduction(mode="max"), dict(x=3, y=20))], [x for x in OWN if x.uid != 9])
    assert list(hole.before(graph, 3, 0b10, Matmul)) == [hole.Hole(3, 3, (), 0, ())]
    assert not list(hole.before(graph, 3, 0, Matmul)) and not list(hole.before(graph, 3, 0b10, Reduction))


@pytest.mark.parametrize("nodes, tensors, want", [
    ([Node(Matmul(), dict(a=3, b=6, c=21), name="next")], [t(6, (4, 5)), t(21, (2, 5))], [("next", "")]),
    ([unary(3, 8), binary(8, 4, 9), Node(Matmul(), dict(a=9, b=6, c=21), name="next")],
     [t(4), v(8), v(9), t(6, (4, 5)), t(21, (2, 5))], [("next", "abs38 add9")]),
    ([Node(Matmul(), dict(a=6, b=3, c=21), name="next")], [t(6, (5, 2)), t(21, (5, 4))], []),
    ([unary(3, 8), unary(8, 22), Node(Matmul(), dict(a=8, b=6, c=21), name="next")],
     [v(8), t(22), t(6, (4, 5)), t(21, (2, 5))], []),
])
def test_holes_behind_a_value(nodes, tensors, want):
    graph = Graph([PRODUCT, *nodes], [*OWN[:3], *tensors])
    assert [(graph.nodes[i].name, " ".join(graph.nodes[j].name for j in h.nodes))
            for i, h in hole.behind(graph, 3, Matmul, "a")] == want
