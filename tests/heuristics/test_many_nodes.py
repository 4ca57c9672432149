"""Graphs of many nodes and many tensors: what choosing them takes, and that they run."""
from __future__ import annotations

import sys

import numpy as np
import pytest

from cydnn import device, plan
from cydnn.device.facts import KNOWN
from cydnn.fusion import build
from cydnn.graph import Graph, Node, Region, Tensor
from cydnn.heuristics import Wish, best, candidates, cover, offers
from cydnn.layout import Layout
from cydnn.ops import Matmul, Pointwise, Problem, Reduction
from cydnn.tensor import TensorDesc
from support.draw import graphs
from support.draw.dags import dag

PLACES = {"numpy": device.get("numpy").facts, "h200": KNOWN["h200"]}
F32 = TensorDesc.packed("f32", (4, 64))


def summed(count: int) -> Graph:
    """The sum of so many tensors, one after the other."""
    nodes = [Node(Pointwise(mode="add"), dict(x=1000 + i if i > 1 else 1, b=i + 1, y=1001 + i))
             for i in range(1, count)]
    made = [Tensor(1001 + i, F32, "virtual" if i < count - 1 else "memory") for i in range(1, count)]
    return Graph(nodes, [*(Tensor(i, F32) for i in range(1, count + 1)), *made])


def kept(count: int) -> Graph:
    """Functions one behind the other; every fifth value is an output."""
    kind = lambda i: "virtual" if i % 5 and i < count else "memory"
    return Graph([Node(Pointwise(mode="relu_fwd"), dict(x=i, y=i + 1)) for i in range(count)],
                 [Tensor(i, F32, kind(i)) for i in range(count + 1)])


def products(count: int) -> Graph:
    """Products one behind the other, with a function behind each."""
    x, nodes, tensors = 1, [], [Tensor(1, TensorDesc.packed("f16", (64, 64)))]
    for i in range(count):
        w, c, y = (100 * (i + 1) + k for k in range(3))
        tensors += [tensors[0].replace(uid=w), tensors[0].replace(uid=c, kind="virtual"),
                    tensors[0].replace(uid=y, kind="virtual" if i < count - 1 else "memory")]
        nodes += [Node(Problem.parse("matmul 8x8 8x8 f16").op, dict(a=x, b=w, c=c)),
                  Node(Pointwise(mode="relu_fwd"), dict(x=c, y=y))]
        x = y
    return Graph(nodes, tensors)


def softmaxes(count: int) -> Graph:
    """Products one behind the other, and of each the softmax as the operations that it is made of."""
    whole, thin = (TensorDesc.packed("f32", dims) for dims in ((4, 128, 128), (4, 128, 1)))
    half, x = whole.replace(dtype="f16"), 1
    nodes, tensors = [], [Tensor(1, half)]
    for i in range(count):
        w, c, top, sub, exp, total, y = (10 * (i + 1) + k for k in range(7))
        tensors += [Tensor(w, half), *(Tensor(u, whole, "virtual") for u in (c, sub, exp)),
                    Tensor(top, thin, "virtual"), Tensor(total, thin, "virtual"),
                    Tensor(y, half, "virtual" if i < count - 1 else "memory")]
        nodes += [Node(Matmul(), dict(a=x, b=w, c=c)), Node(Reduction(mode="max"), dict(x=c, y=top)),
                  Node(Pointwise(mode="sub"), dict(x=c, b=top, y=sub)),
                  Node(Pointwise(mode="exp"), dict(x=sub, y=exp)),
                  Node(Reduction(mode="add"), dict(x=exp, y=total)),
                  Node(Pointwise(mode="div"), dict(x=exp, b=total, y=y))]
        x = y
    return Graph(nodes, tensors)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("make, size", [(summed, 30), (summed, 300), (products, 30), (softmaxes, 10)])
def test_work_grows_no_faster_than_the_graph(make, size, place, monkeypatch):
    """Twice the nodes: about twice the questions to engines and twice the regions looked at."""
    counts = []
    for size in (size, 2 * size):
        asked = dict(ask=0, regions=0)
        for owner, name, key in ((offers.Offers, "_ask", "ask"), (Region, "__init__", "regions")):
            plain = getattr(owner, name)

            def counted(*given, plain=plain, key=key, **more):
                asked[key] += 1
                return plain(*given, **more)
            monkeypatch.setattr(owner, name, counted)
        plan.forget()
        best(make(size), PLACES[place])
        monkeypatch.undo()
        counts.append(asked)
    assert all(0 < counts[1][key] <= 2.5 * counts[0][key] for key in counts[0]), counts


def calls(work) -> int:
    """How many functions are called."""
    found = [0]

    def seen(frame, event, arg):
        found[0] += event in ("call", "c_call")
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found[0]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("make", [summed, products, kept])
def test_layouts_take_work_in_proportion_to_the_graph(make, place):
    choices = [best(make(size), PLACES[place]) for size in (40, 80, 160)]
    _, few, many = (calls(lambda: Layout(choice)) for choice in choices)
    assert many < 2.4 * few


def test_engines_are_asked_once_of_what_looks_alike(monkeypatch):
    """Names and uids do not count, a number or a tensor of another kind does."""
    asked, ask = [], offers.Offers._ask
    monkeypatch.setattr(offers.Offers, "_ask", lambda self, *given: asked.append(given) or ask(self, *given))
    best(products(4), KNOWN["h200"])
    few = len(asked)
    best(products(12), KNOWN["h200"])
    assert len(asked) - few <= few, "those of a product in the middle are known"


@pytest.mark.parametrize("room, seed", [(16, 6), (16, 11), (16, 30), (16, 53), (24, 9), (24, 23)])
def test_no_region_is_missed_for_want_of_room(room, seed, monkeypatch):
    """Where hardly anything can be fused, the choices are those of a search that asks of every region."""
    monkeypatch.setattr(build, "MOST_BYTES", room)
    graph, _ = dag(seed)
    found = [choice.text for choice in candidates(graph, KNOWN["h200"])]
    for module in (cover, offers):
        monkeypatch.setattr(module, "has_room", lambda border: True)
    plan.forget()
    assert found == [choice.text for choice in candidates(graph, KNOWN["h200"])]


@pytest.mark.parametrize("mode", ["a", "fallback"])
@pytest.mark.parametrize("place", ["numpy", "ptx:sm_80"])
def test_more_inputs_than_a_launch_has_room_for(place, mode):
    graph, rng = summed(301), np.random.default_rng(1)
    values = {i: rng.integers(-3, 4, F32.dims).astype(np.float32) for i in range(1, 302)}
    built = plan.build(graph, place, Wish(mode=mode))
    assert len(built.slots) == 302 and len(built.parts) > 1
    assert (graphs.execute(built, values)[1301] == sum(values.values())).all()
