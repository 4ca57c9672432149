"""Nodes made of others: lowering, casts, and composed operations recognised in the nodes that they are made
of."""
from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from nodes import binary, t, unary, v, values_for
from cydnn.bench import graph_of
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.graph import FromTensor, Graph, Node, Region, rules
from cydnn.graph.lower import cast, lowered
from cydnn.graph.rules import recognised
from cydnn.heuristics import Wish, best
from cydnn.ops import (OPS, BatchNormInference, BatchNormTraining, ConvBgrad, Matmul, Op, Pointwise,
                       Problem, Reduction, ScaleTensor, SoftmaxFwd)
from cydnn.steps import Scalar
from cydnn.tensor import TensorDesc
from support.draw import graphs
from support.check import matrix
from support.guard.buffers import FILLS
from support.draw import draw

H200 = KNOWN["h200"]


def alone(graph) -> Graph:
    """A lowered graph as one that somebody asked for: numbers that its nodes inherited are what they are by
    default."""
    plain = lambda value: value.default if isinstance(value, Scalar) else value
    nodes = [Node(n.op, n.operands, {k: plain(x) for k, x in n.scalars.items()}, n.name) for n in graph.nodes]
    return Graph(nodes, graph.tensors)


# ---- Lowering ----

MADE = [op for op in OPS if op is not ConvBgrad and op(**({"mode": "abs"} if op is Pointwise else {})).lower(
    {o: () if o in op.variadic else TensorDesc.packed("f32", (2, 4, 3, 3))
     for o in op.operands()}) is not None]


@pytest.mark.parametrize("op", [ConvBgrad, *MADE], ids=lambda o: o.name)
@pytest.mark.parametrize("seed", range(8))
def test_an_op_means_what_it_is_lowered_to(op, seed):
    """Node by node on the NumPy device, with numbers that are not the defaults."""
    rng = random.Random(f"{op.name} {seed}")
    problem = draw(op, rng)
    while {d.dtype.kind for d in problem.descs} != {"float"} or problem.op.compute not in ("f32", "f64"):
        problem = draw(op, rng)
    scalars = {name: 0.5 if name.startswith("alpha") else value for name,
               value in op.scalars.items()} if seed % 2 else {}
    graph = Graph.single(problem.op, problem.operands, scalars)
    apart = lowered(graph, 0)
    if apart is None:
        return
    assert all(type(n.op) is not op for n in apart.nodes) and apart.slots == graph.slots
    values = values_for(problem, seed)
    want, got = (graphs.run(g, values, get("numpy")) for g in (graph, alone(apart)))
    for uid, x in want.items():
        scale = np.abs(x[np.isfinite(x)]).max(initial=1.0)
        room = (4 * graph.tensors[uid].dtype.eps + 1e-5) * scale
        with np.errstate(invalid="ignore"):
            wrong = np.where(got[uid] == x, 0.0, np.abs(got[uid] - x))
        assert wrong.max(initial=0.0) <= room, (str(problem), uid)


def test_an_output_is_read_again_before_it_is_rounded():
    """Statistics of i8 would be 0 or 1; of the compute type, they are read where they are written."""
    def made(kind):
        x, thin = TensorDesc.packed("f32", (4, 3, 2, 2)), TensorDesc.packed(kind, (1, 3, 1, 1))
        operands = dict(x=x, scale=thin, bias=thin, y=x, mean=thin, rstd=thin)
        apart = lowered(Graph.single(BatchNormTraining(), operands), 0)
        both = {u for n in apart.nodes for u in n.reads} & {u for n in apart.nodes for u in n.writes}
        return {apart.tensors[u].dtype.name for u in both}, len(apart.nodes)
    (types, count), plain = made("i8"), made("f32")
    assert types == {"f32"} and plain == ({"f32"}, count - 2)


def test_lowering_keeps_the_rest_of_the_graph():
    graph = Graph([Node(SoftmaxFwd(), dict(x=1, y=2), dict(alpha=FromTensor(9)), name="attention"),
                   unary(2, 3)],
                  [t(1), v(2), t(3), t(9, (1, 1), kind="value")], name="all")
    apart = lowered(graph, 0)
    assert [n.name for n in apart.nodes][:2] == ["attention.0", "attention.1"]
    assert apart.nodes[-1].name == "abs23"
    assert {x.name for x in apart.tensors.values() if x.uid > 9} and all(
        x.name.startswith("attention::") for x in apart.tensors.values() if x.uid > 9)
    numbers = [value for n in apart.nodes for value in n.scalars.values()
               if isinstance(value, (FromTensor, Scalar))]
    assert numbers == [FromTensor(9), Scalar((2, "beta"), 0.0)] and apart.name == "all"
    assert lowered(graph, 1) is None


# ---- Casts ----

def test_a_cast_is_around_what_is_not_of_the_math_type():
    graph = Graph([Node(Matmul(), dict(a=1, b=2, c=3), dict(alpha=0.5, beta=2.0), name="product")],
                  [t(1, (4, 8), "i8"), t(2, (8, 4)), t(3, (4, 4), "f16")])
    between = cast(graph, 0)
    assert [n.name for n in between.nodes] == ["product.a", "product", "product.c"]
    a, product, c = between.nodes
    assert (a.op.mode, product.operands["b"], c.operands["y"]) == ("identity", 2, 3)
    assert product.scalars == dict(alpha=1.0, beta=0.0)
    assert c.scalars == dict(alpha=Scalar((3, "alpha"), 0.5), beta=Scalar((3, "beta"), 2.0))
    assert {between.tensors[u].dtype.name for u in product.operands.values()} == {"f32"}


@pytest.mark.parametrize("line", [
    "divisive_norm_bwd x=2x3x4x4 dy=2x3x4x4:i8 dx=2x3x4x4 dmeans=2x3x4x4:f64 window=2",
    "divisive_norm_bwd x=2x3x4x4 dy=2x3x4x4 dx=2x3x4x4:f64 dmeans=2x3x4x4 window=2",
    "spatial_sampler_bwd x=1x2x4x4 dy=1x2x3x3 grid=1x3x3x2 dx=1x2x4x4 dgrid=1x3x3x2:f64",
    "batch_norm_bwd x=3x4x5x2 dy=3x4x5x2 scale=1x4x1x1 mean=1x4x1x1 rstd=1x4x1x1 dx=3x4x5x2 "
    "dscale=1x4x1x1:f64 dbias=1x4x1x1"])
def test_outputs_that_blend_are_cast_together(line):
    """They may share a number, and it counts once."""
    problem = Problem.parse(line)
    numbers = {name: 2.0 if name.startswith("alpha") else value for name, value in problem.op.scalars.items()}
    between = cast(graph_of(problem, numbers), 0)
    node = next(n for n in between.nodes if n.op == problem.op)
    assert {between.tensors[node.operands[name]].kind for name in node.op.blends} == {"virtual"}
    outcome = matrix.run(problem, get("ptx:sm_80"), scalars=numbers)
    assert list(outcome.ran) == ["composite"] and not outcome.findings, outcome


def test_what_has_nothing_to_cast():
    assert cast(Graph.single(Matmul(), dict(a=TensorDesc.packed("f32", (2, 2)),
                                            b=TensorDesc.packed("f32", (2, 2)))), 0) is None
    assert cast(Graph([unary(1, 2)], [t(1, dtype="i8"), t(2, dtype="f16")]), 0) is None
    assert cast(Graph.single(ScaleTensor(), dict(y=TensorDesc.packed("i8", (2, 2)))), 0) is None


# ---- Recognition ----

def softmax(swapped=(), keep=(), dims=(2, 6, 3), dtype="f32", virtual="f32", log=False, axis=1, tail=()):
    """max, sub, exp, sum, div by hand. ``swapped``: outputs whose operands change places; ``keep``: uids that
    are kept."""
    small = tuple(1 if i == axis else d for i, d in enumerate(dims))
    kinds = {2: (small, virtual), 3: (dims, virtual), 4: (dims, virtual), 5: (small, virtual),
             7: (small, virtual)}
    order = lambda y, a, b: dict(x=b, b=a, y=y) if y in swapped else dict(x=a, b=b, y=y)
    nodes = [Node(Reduction(mode="max"), dict(x=1, y=2)), Node(Pointwise(mode="sub"), order(3, 1, 2)),
             Node(Pointwise(mode="exp"), dict(x=3, y=4)), Node(Reduction(mode="add"), dict(x=4, y=5))]
    if log:
        nodes += [Node(Pointwise(mode="log"), dict(x=5, y=7)), Node(Pointwise(mode="sub"), order(6, 3, 7))]
    else:
        nodes += [Node(Pointwise(mode="div"), order(6, 4, 5))]
        kinds.pop(7)
    tensors = [t(u, d, k, "memory" if u in keep else "virtual") for u, (d, k) in kinds.items()]
    return Graph([*nodes, *tail], [t(1, dims, dtype), *tensors,
                                   t(6, dims, dtype, "virtual" if tail else "memory"),
                                   *([t(8, dims, dtype)] if tail else [])])


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("log", [False, True])
def test_softmax_is_recognised_backwards(axis, log):
    graph = softmax(axis=axis, log=log)
    ((number, node, mask),) = recognised(graph)
    assert number == len(graph.nodes) - 1 and mask == (1 << len(graph.nodes)) - 1
    assert node.operands == dict(x=1, y=6)
    assert (node.op.algorithm, node.op.axis) == ("log" if log else "accurate", axis)
    assert Region(graph, mask).outputs == (6,)


@pytest.mark.parametrize("first, second", itertools.product([False, True], repeat=2))
def test_what_stands_in_front_takes_no_part(first, second):
    """One softmax of another."""
    one, two = softmax(log=first), softmax(log=second)
    behind = [Node(n.op, {o: u + 5 if u == 1 else u + 10 for o, u in n.operands.items()}) for n in two.nodes]
    tensors = [u.replace(kind="virtual") if u.uid == 6 else u for u in one.tensors.values()]
    graph = Graph([*one.nodes, *behind], [*tensors, *(u.replace(uid=u.uid + 10) for u in two.tensors.values()
                                                      if u.uid != 1)])
    assert [node.op.algorithm == "log" for _, node, _ in recognised(graph)] == [first, second]


@pytest.mark.parametrize("shuffle", range(4))
def test_recognition_is_the_lowering_read_backwards(shuffle):
    """Whatever a softmax is lowered to is a softmax again, in whichever order its nodes were added."""
    for op in (SoftmaxFwd(), SoftmaxFwd(algorithm="log"), SoftmaxFwd(mode="instance")):
        single = Graph.single(op, dict(x=TensorDesc.packed("f32", (3, 5, 2))))
        apart = lowered(single, 0)
        nodes = random.Random(shuffle).sample(apart.nodes, len(apart.nodes))
        graph = Graph(nodes, apart.tensors)
        ((_, node, mask),) = recognised(graph)
        assert mask == (1 << len(nodes)) - 1
        values = {1: np.random.default_rng(1).normal(size=(3, 5, 2)).astype(np.float32).astype(float)}
        again = alone(Graph([node], [graph.tensors[1], graph.tensors[2]]))
        want, got = (graphs.run(g, values, get("numpy"))[2] for g in (single, again))
        assert (want == got).all()


@pytest.mark.parametrize("graph", [
    softmax(swapped=(3,)), softmax(swapped=(6,)),                   # the other difference, the other quotient
    softmax(keep=(4,)),                                             # an inner value is kept
    softmax(virtual="f16"),                                         # inner values are rounded
    # an inner value is needed elsewhere
    softmax(tail=(Node(Pointwise(mode="add"), dict(x=6, b=4, y=8)),)),
], ids=range(5))
def test_what_is_no_softmax(graph):
    assert list(recognised(graph)) == []


def with_number(graph, number, name, value) -> Graph:
    """The graph with another number in one of its nodes."""
    node = graph.nodes[number]
    changed = Node(node.op, node.operands, {**node.scalars, name: value}, node.name)
    return Graph([*graph.nodes[:number], changed, *graph.nodes[number + 1:]], graph.tensors)


def recognised_alone(graph) -> Graph | None:
    """The graph of the one op that all its nodes amount to."""
    for _, node, mask in recognised(graph):
        if mask == (1 << len(graph.nodes)) - 1:
            used = {*node.reads, *node.writes}
            return alone(Graph([node], [x for u, x in graph.tensors.items() if u in used]))
    return None


def drawn(op, seed):
    """A drawn problem of real numbers as what its op is made of, and the problem."""
    rng = random.Random(f"{op.name} {seed}")
    problem = draw(op, rng)
    while {d.dtype.name for d in problem.descs} != {"f32"} or problem.op.compute != "f32":
        problem = draw(op, rng)
    return alone(lowered(Graph.single(problem.op, problem.operands), 0)), problem


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.op.name)
@pytest.mark.parametrize("seed", range(4))
def test_a_graph_with_other_numbers_only_resembles(rule, seed):
    """Each number of each node in turn: the op has it too, or is not recognised."""
    graph, problem = drawn(rule.op, seed)
    values = values_for(problem, seed)
    same = with_number(graph, 0, "alpha", 1.0)               # said aloud
    assert recognised_alone(graph) and recognised_alone(same)
    own = set()
    for number, node in enumerate(graph.nodes):
        for name in set(node.op.scalars) - ({"beta"} if graph.tensors[node.writes[0]].is_virtual else set()):
            other = with_number(graph, number, name, 0.25)
            found = recognised_alone(other)
            if found is not None:
                own.add((number, name))
                want, got = (graphs.run(g, values, get("numpy"), fill=FILLS[0]) for g in (other, found))
                for uid in want:
                    np.testing.assert_allclose(got[uid], want[uid], rtol=1e-5, atol=1e-5)
                assert found.nodes[0].scalars[name] == 0.25      # what beta blends with is NaN here
    last = graph.producer[next(u for u, x in graph.tensors.items() if x.name == "y")]
    assert own == ({(last, "alpha"), (last, "beta")} if rule.op.blends else set())


def test_numbers_from_tensors_are_followed(monkeypatch):
    """By a rule of a normalisation, which reads a number where its nodes have an operand."""
    modes = lambda dims, cone: [dict(mode=mode) for mode in ("spatial", "per_activation")]
    rule = rules.Rule(BatchNormInference, ("add",), 0, modes)
    monkeypatch.setattr(rules, "RULES", (rule,))
    x, thin = TensorDesc.packed("f32", (2, 3, 2, 2)), TensorDesc.packed("f32", (1, 3, 1, 1))
    single = Graph.single(BatchNormInference(), dict(x=x, scale=thin, bias=thin, mean=thin, var=thin))
    apart = lowered(single, 0)
    ((_, node, _),) = recognised(apart)
    epsilon = next(t for t in apart.tensors.values() if t.is_by_value)
    assert node.op == BatchNormInference() and node.operands == single.nodes[0].operands
    assert node.scalars["epsilon"] == FromTensor(epsilon.uid)
    least = next(i for i, n in enumerate(apart.nodes) if epsilon.uid in n.reads)
    assert not list(recognised(with_number(apart, least, "alpha2", 2.0)))
    assert not list(recognised(with_number(apart, least, "alpha", FromTensor(epsilon.uid))))


def test_a_number_of_a_row_is_that_of_its_node():
    """By a rule of y = weight * (weight * exp(share * (x + w)) - x): one of the two numbers is fixed."""
    class Shared(Op, reads="x w", writes="y", name="shared"):
        scalars = dict(weight=1.0)

        def infer(self, x, w):
            return {"y": x}

        def lower(self, descs, absent=()):
            share = 1 / descs["w"].dims[0]
            rows = [(Pointwise(mode="add"), dict(x="x", b="w", y="total"), dict(alpha=share)),
                    (Pointwise(mode="exp"), dict(x="total", y="raised"), dict(alpha="weight")),
                    (Pointwise(mode="sub"), dict(x="raised", b="x", y="y"), dict(alpha="weight"))]
            return rows, dict.fromkeys(("total", "raised"), descs["x"].replace(dtype="f32"))

    def found(share, first, second):
        nodes = [binary(1, 2, 3, alpha=share), unary(3, 4, "exp", alpha=first),
                 binary(4, 1, 5, "sub", alpha=second)]
        graph = Graph(nodes, [t(1), t(2), v(3), v(4), t(5), t(6, (1, 1))])
        return rules._unify(graph, Shared(), 2, (), rules._cone(graph, 2))
    (node, mask), elsewhere = found(0.5, 3.0, 3.0), FromTensor(6)
    assert mask == 0b111 and node.scalars == dict(weight=Scalar((4, "alpha"), 3.0))
    assert [found(1.0, 3.0, 3.0), found(0.5, 3.0, 2.0), found(0.5, 3.0, elsewhere)] == [None] * 3


def test_operands_of_commutative_nodes_may_be_reversed():
    """Rules see through them: here by a rule of a sum of squares, whose product and sum have two orders
    each."""
    made = [(Pointwise(mode="mul"), dict(x="a", b="b", y="product"), {}),
            (Pointwise(mode="add"), dict(x="product", b="t", y="y"), {})]

    class Fma(Op, reads="a b t", writes="y", name="fma"):
        scalars = dict(alpha=1.0, beta=0.0)

        def infer(self, a, b, t):
            return {"y": a}

        def lower(self, descs, absent=()):
            return made, {"product": descs["a"].replace(dtype="f32")}

    for swap_product, swap_sum in itertools.product([False, True], repeat=2):
        product = dict(x=2, b=1, y=4) if swap_product else dict(x=1, b=2, y=4)
        total = dict(x=3, b=4, y=5) if swap_sum else dict(x=4, b=3, y=5)
        graph = Graph([Node(Pointwise(mode="mul"), product), Node(Pointwise(mode="add"), total)],
                      [t(1), t(2), t(3), v(4), t(5)])
        found = rules._unify(graph, Fma(), 1, (), rules._cone(graph, 1))
        assert found and found[1] == 0b11 and set(found[0].operands.values()) == {1, 2, 3, 5}
        assert found[0].operands["t"] == 3


def test_a_recognised_softmax_is_one_part_where_that_is_cheaper():
    graph = softmax(dims=(4096, 1024), dtype="f16")
    choice = best(graph, H200)
    assert choice.changes == ("compose 4",) and len(choice.parts) == 1 and choice.engine.op is SoftmaxFwd
    assert choice.text.startswith("compose 4\npart 0: ") and choice.asked is graph
    assert choice.us < best(graph, H200, Wish(mode="fallback")).us
    with_tail = softmax(dims=(4096, 1024), dtype="f16", tail=(unary(6, 8, "exp"),))
    assert SoftmaxFwd in {e.op for e in best(with_tail, H200).engines}


@pytest.mark.parametrize("log", [False, True])
def test_a_recognised_softmax_computes_what_its_nodes_do(log):
    graph, device = softmax(dims=(4, 24, 1), dtype="f32", log=log), get("ptx:sm_80")
    values = {1: np.random.default_rng(2).normal(size=(4, 24, 1)).astype(np.float32).astype(float)}
    want = graphs.run(graph, values, get("numpy"))[6]
    assert best(graph, device.facts).changes == (f"compose {len(graph.nodes) - 1}",)
    np.testing.assert_allclose(graphs.run(graph, values, device)[6], want, rtol=1e-5, atol=1e-6)
