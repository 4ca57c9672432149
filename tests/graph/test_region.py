"""Regions: what crosses their border, convexity; how they grow around anchors; matches, and the output a
kernel walks."""
from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from nodes import binary, t, unary, v
from cydnn.graph import (FromTensor, Graph, Lead, Match, Node, Region, bits, core, grow, many, scalar_of,
                         source_of)
from cydnn.ops import ConvFprop, GenStats, Matmul, Pointwise, SoftmaxFwd
from cydnn.steps import Pointer, Scalar, Scratch
from cydnn.tensor import TensorDesc
from support.draw import graphs

POINTWISE = (Pointwise,)
FRONT, KEPT = many(Pointwise, at="x"), many(Pointwise, at="x", leaves=True)


def all_of(graph) -> int:
    return (1 << len(graph.nodes)) - 1


def names(graph, mask) -> str:
    return " ".join(graph.nodes[i].name for i in bits(mask))


def diamond() -> Graph:
    """abs12 -> neg23 -> add5 <- exp24 <- abs12, and abs12's value is kept."""
    return Graph([unary(1, 2), unary(2, 3, "neg"), unary(2, 4, "exp"),
                  binary(3, 4, 5)], [t(1), t(2), v(3), v(4), t(5)])


# ---- Regions ----

def test_what_crosses_the_border():
    graph = diamond()
    whole = Region(graph, 0b1111)
    assert (whole.nodes, whole.inputs, whole.outputs, whole.inner) == ((0, 1, 2, 3), (1,), (2, 5), (3, 4))
    tail = Region(graph, 0b1110)
    assert (tail.inputs, tail.outputs, tail.inner) == ((2,), (5,), (3, 4))
    head = Region(graph, 0b0011)
    assert (head.inputs, head.outputs, head.inner) == ((1,), (2, 3), ())
    assert 1 in head and 2 not in head


def test_traffic_is_what_must_move():
    """Every tensor in memory at the border, once; numbers given at execute are none; virtual values that
    others need are."""
    graph = Graph([binary(1, 1, 2), binary(2, 9, 3),
                   unary(3, 4)], [t(1, dtype="f16"), v(2), v(3), t(4), t(9, (1, 1), kind="value")])
    assert Region(graph, 0b111).traffic_bytes == 8 * 2 + 8 * 4
    assert Region(graph, 0b011).traffic_bytes == 8 * 2 + 8 * 4
    assert Region(graph, 0b100).traffic_bytes == 2 * 8 * 4
    bits_of = Graph([unary(1, 2, "logical_not")], [t(1, (3, 3), "bool"), t(2, (3, 3), "bool")])
    assert Region(bits_of, 1).traffic_bytes == 2 + 2


@pytest.mark.parametrize("mask, is_convex", [(0b0001, True), (0b0011, True), (0b1001, False),
                                             (0b1011, False), (0b1101, False),
                                             (0b1110, True), (0b0110, True), (0b1111, True)])
def test_nothing_that_leaves_a_convex_region_comes_back(mask, is_convex):
    assert Region(diamond(), mask).is_convex == is_convex


# ---- Growing behind ----

def test_behind_takes_forks_and_kept_values():
    """Once a virtual value read twice ended a chain; now what reads it is taken too, and what is kept is
    stored."""
    graph = diamond()
    assert [names(graph, m) for m in grow.behind(graph, 0, POINTWISE, 0b1110)] == [
        "abs12 neg23", "abs12 neg23 exp24", "abs12 neg23 exp24 add5"]


def test_behind_takes_nodes_that_make_values_for_it_alone():
    graph = Graph([unary(1, 2), unary(6, 7, "exp"), binary(2, 7, 3), unary(8, 9, "exp"), binary(3, 9, 5)],
                  [t(1), v(2), t(6), v(7), v(3), t(8, (1, 4)), t(9, (1, 4)), t(5)])
    first = next(i for i, n in enumerate(graph.nodes) if n.name == "abs12")
    masks = grow.behind(graph, first, POINTWISE, all_of(graph) & ~(1 << first))
    # 9 is kept: read from memory
    assert [names(graph, m) for m in masks] == ["abs12 exp67 add3", "abs12 exp67 add3 add5"]


def test_behind_stops_at_other_dims_and_other_ops():
    wide = Graph([unary(1, 2), binary(2, 3, 4)], [t(1, (1, 4)), v(2, (1, 4)), t(3), t(4)])
    assert grow.behind(wide, 0, POINTWISE, 0b10) == []
    softmax = Node(SoftmaxFwd(), dict(x=2, y=3), name="softmax")
    graph = Graph([unary(1, 2), softmax, unary(3, 4)], [t(1), v(2), v(3), t(4)])
    assert grow.behind(graph, 0, POINTWISE, 0b100) == []


def test_behind_does_not_take_what_comes_back_through_others():
    """add5 reads the core and a softmax of it: taking it would wait for a node outside that waits for the
    core."""
    softmax = Node(SoftmaxFwd(), dict(x=2, y=3), name="softmax")
    graph = Graph([unary(1, 2), softmax, binary(2, 3, 5), unary(2, 6)], [t(1), v(2), v(3), t(5), t(6)])
    masks = grow.behind(graph, 0, POINTWISE, all_of(graph) & ~0b0011)
    assert [names(graph, m) for m in masks] == ["abs12 abs26"]


def test_behind_leaves_what_the_core_waits_for():
    """Its operands' makers have the dims of its output here, and no other readers."""
    graph = Graph([unary(1, 2, "exp"), Node(Matmul(), dict(a=2, b=3, c=4), name="matmul"), unary(4, 5)],
                  [t(1, (4, 4)), v(2, (4, 4)), t(3, (4, 4)), v(4, (4, 4)), t(5, (4, 4))])
    assert [names(graph, m) for m in grow.behind(graph, 1, POINTWISE, 0b101)] == ["matmul abs45"]


def test_behind_leaves_what_reads_another_output():
    """The kernel does not have its values where it has those of the first."""
    stats = Node(GenStats(), dict(x=1, sum=2, sq_sum=3), name="stats")
    graph = Graph([stats, unary(2, 4), binary(2, 3, 5), unary(3, 6)],
                  [t(1, (2, 4, 1, 1)), *(t(uid, (1, 4, 1, 1)) for uid in range(2, 7))])
    masks = grow.behind(graph, 0, POINTWISE, all_of(graph) & ~1)
    assert [names(graph, m) for m in masks] == ["stats abs24"]


def test_behind_takes_only_free_nodes():
    graph = diamond()
    assert [names(graph, m) for m in grow.behind(graph, 0, POINTWISE, 0b0100)] == ["abs12 exp24"]


# ---- Growing before ----

def conv(pre, **tensors) -> Graph:
    """A convolution (uids x 3, w 4, y 5) behind the nodes ``pre``."""
    dims = {3: (1, 2, 4, 4), 4: (3, 2, 3, 3), 5: (1, 3, 2, 2)}
    made = {u for n in pre for u in n.writes}
    mine = [t(u, d, kind="virtual" if u in made else "memory") for u, d in dims.items()]
    return Graph([*pre, Node(ConvFprop(), dict(x=3, w=4, y=5), name="conv")], [*mine, *tensors.values()])


def test_before_takes_what_makes_an_operand_for_it_alone():
    scale = binary(1, 2, 3, "mul")
    graph = conv([unary(0, 1), scale, unary(9, 2)], a=t(0, (1, 2, 4, 4)), b=v(1, (1, 2, 4, 4)),
                 c=t(2, (1, 2, 1, 1)),
                 d=t(9, (1, 2, 1, 1)))
    number = next(i for i, n in enumerate(graph.nodes) if n.name == "conv")
    free = all_of(graph) & ~(1 << number)
    assert names(graph, grow.before(graph, number, "x", FRONT, free)) == "abs01 mul3"      # uid 2 is kept
    assert grow.before(graph, number, "w", FRONT, free) == 0
    assert grow.before(graph, number, "x", FRONT, 0) == 0


def test_before_leaves_values_that_others_read():
    graph = conv([unary(1, 3), unary(3, 7, "exp")], a=t(1, (1, 2, 4, 4)), b=t(7, (1, 2, 4, 4)))
    number = next(i for i, n in enumerate(graph.nodes) if n.name == "conv")
    assert grow.before(graph, number, "x", FRONT, all_of(graph)) == 0
    assert grow.before(graph, number, "x", KEPT, all_of(graph)) == 0          # it is virtual


def test_before_takes_what_leaves_where_the_engine_does():
    graph = conv([unary(0, 1), unary(1, 3), unary(3, 7, "exp")], a=t(0, (1, 2, 4, 4)), b=v(1, (1, 2, 4, 4)),
                 c=t(7, (1, 2, 4, 4)))
    kept = Graph(graph.nodes, [x.replace(kind="memory") if x.uid == 3 else x for x in graph.tensors.values()])
    number = next(i for i, n in enumerate(kept.nodes) if n.name == "conv")
    assert grow.before(kept, number, "x", FRONT, all_of(kept)) == 0
    assert names(kept, grow.before(kept, number, "x", KEPT, all_of(kept))) == "abs01 abs13"


def test_before_leaves_an_operand_that_is_read_twice():
    graph = Graph([unary(1, 2), Node(Matmul(), dict(a=2, b=2, c=3),
                                     name="square")], [t(1, (4, 4)), v(2, (4, 4)), t(3, (4, 4))])
    assert grow.before(graph, 1, "a", FRONT, 0b01) == 0


# ---- Regions without an anchor ----

@pytest.mark.parametrize("seed", range(40))
def test_grown_regions_are_convex_and_nested(seed):
    graph = graphs.region(random.Random(seed), wide=False).graph()
    free, closed = all_of(graph), lambda region, more: Region(graph, region.mask | more).is_convex
    for first in range(len(graph.nodes)):
        masks = list(grow.pointwise(graph, first, POINTWISE, free, closed))
        assert masks[0] >> first & 1 and all(a & b == a and a != b for a, b in zip(masks, masks[1:]))
        for mask in masks:
            region = Region(graph, mask)
            assert region.is_convex
            dims = graph.tensors[graph.nodes[first].writes[0]].dims
            assert all(grow.fits(graph.tensors[u].dims, dims) for u in region.writes)
            assert all(graph.tensors[u].dims == dims for u in region.outputs), "what is smaller lives inside"


def test_fits():
    assert grow.fits((1, 4), (2, 4)) and grow.fits((2, 4), (2, 4)) and not grow.fits((4,), (2, 4))
    assert not grow.fits((2, 3), (2, 4))


# ---- Matches ----

def test_a_match_of_one_node():
    graph = Graph([Node(Matmul(), dict(a=1, b=2, c=3), dict(alpha=FromTensor(4), beta=0.5), name="product")],
                  [t(1, (2, 3)), t(2, (3, 4)), t(3), t(4, (1, 1), kind="value", scalar=Scalar(4, 2.0))])
    p = Match.single(graph)
    assert (p.a, p.c, p.op, p.dtypes, p.before, p.behind) == (
        graph.tensors[1], graph.tensors[3], Matmul(), {"f32"}, {}, ())
    assert p.ptr("a", 8) == Pointer(1, 8) and p.source("b") == Pointer(2)
    assert (p.scalar("alpha"), p.value("alpha"), p.scalar("beta"), p.value("beta")) == (
        Scalar(4, 2.0), None, Scalar((3, "beta"), 0.5), 0.5)
    assert source_of(graph.tensors[4]) == Scalar(4, 2.0)
    assert scalar_of(graph.nodes[0], "beta") == Scalar((3, "beta"), 0.5)
    assert isinstance(p.scratch(100).uid, Scratch) and p.scratch(100).uid is not p.scratch(100).uid
    with pytest.raises(AttributeError, match="matmul has no operand x"):
        p.x


def test_a_match_with_nodes_around_it():
    graph = conv([unary(1, 3)], a=t(1, (1, 2, 4, 4)))
    graph = Graph([*graph.nodes, unary(5, 6)], [*graph.tensors.values(), t(6, (1, 3, 2, 2))])
    order = {n.name: i for i, n in enumerate(graph.nodes)}
    p = Match.around(graph, order["conv"], 0b111, {"x": 1 << order["abs13"]})
    assert ([n.name for n in p.before["x"]], [n.name for n in p.behind]) == (["abs13"], ["abs56"])
    assert p.region.inputs == (1, 4) and set(p.region.outputs) == {5, 6}
    region = Match.elementwise(diamond(), 0b1110)
    assert region.node is None and region.op is None
    assert [n.name for n in region.behind] == ["neg23", "exp24", "add5"]
    assert Match.elementwise(diamond(), 0b0010).node.name == "neg23"
    with pytest.raises(AttributeError, match="a region has no operand x"):
        region.x


def test_features_are_those_of_every_tensor_inside():
    vector = TensorDesc("i8", (2, 1, 4), (4, 4, 1), 4)
    graph = Graph([Node(Pointwise(mode="abs"), dict(x=1, y=2), dict(alpha=FromTensor(3)))],
                  [t(1, (2, 1, 4), ragged=4), t(2, (2, 1, 4)).replace(desc=vector), t(3, (1, 1, 1)),
                   t(4, (3, 1, 1), "i32")])
    assert Match.single(graph).features == {"ragged": "uid 1", "vector": "uid 2",
                                            "f32 numbers in memory": "alpha"}


@pytest.mark.parametrize("stored, native, lead", [
    (dict(a="f16", b="f32"), ("f32",), (7, True)), (dict(a="f32", b="f16"), ("f32",), (6, True)),
    (dict(a="f16", b="f16"), ("f32",), (7, False)), (dict(a="i8", b="bool"), ("f32",), (6, False)),
    (dict(a="bool", b="bool"), ("f32",), (7, False)),
])
def test_the_lead_is_the_last_output_that_a_kernel_stores_itself(stored, native, lead):
    """Else the last that is not packed, which spliced code stores."""
    graph = Graph([Node(SoftmaxFwd(), dict(x=1, y=5), name="softmax"), unary(5, 6), unary(6, 7, "neg")],
                  [t(1), v(5), t(6, dtype=stored["a"]), t(7, dtype=stored["b"])])
    p = Match.around(graph, 0, 0b111)
    found = p.lead(*native)
    assert (found.uid, found.is_native) == lead and isinstance(found, Lead)
    assert found.store(p) == (dict(y=Pointer(found.uid), beta=Scalar((5, "beta"), 0.0)) if lead[1]
                              else dict(y=None, beta=0.0))


# ---- Patterns ----

def test_patterns_say_themselves():
    takes = core(ConvFprop, before=many(Pointwise, at="x w"), behind=many(Pointwise))
    assert str(takes) == "many(pointwise at x w) -> conv_fprop -> many(pointwise)"
    assert many(Pointwise).op is Pointwise
    assert takes.before.at == ("x", "w")
