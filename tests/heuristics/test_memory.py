"""What is remembered of choices and of what engines said: for whom, under which names, how long."""
from __future__ import annotations

import numpy as np
import pytest

import cydnn
from cydnn import cudnn, device, plan
from cydnn.device.facts import KNOWN
from cydnn.graph import Graph, Node, Tensor
from cydnn.heuristics import Wish, best, candidates, changes, memory, offers, parse
from cydnn.ops import Matmul
from cydnn.tensor import TensorDesc
from support.guard.threads import quick_switches, together

from . import graphs
from .graphs import LISTED

H200, SM80 = KNOWN["h200"], device.get("ptx:sm_80")


@pytest.fixture
def searches(monkeypatch) -> list:
    """The graphs whose nodes are given to engines."""
    found, plain = [], changes.Offers.__init__
    monkeypatch.setattr(changes.Offers, "__init__",
                        lambda self, graph, *given: found.append(graph) or plain(self, graph, *given))
    return found


def named(graph: Graph, word: str) -> Graph:
    """An equal graph whose names are others."""
    nodes = [Node(n.op, n.operands, n.scalars, f"{n.name}{word}") for n in graph.nodes]
    return Graph(nodes[::-1], [t.replace(name=f"t{t.uid}{word}") for t in graph.tensors.values()], word)


@pytest.mark.parametrize("ask", [best, candidates, lambda *given: plan.build(given[0], SM80, *given[2:])])
def test_an_equal_graph_is_not_searched_again(ask, searches):
    first = ask(LISTED["softmax_of_scores"](), H200)
    count = len(searches)
    again = ask(LISTED["softmax_of_scores"](), H200)
    assert count > 1 and len(searches) == count and again == first
    for given in ((graphs.silu(), H200), (LISTED["softmax_of_scores"](), H200, Wish(mode="fallback"))):
        ask(*given)
        assert len(searches) > count
        count = len(searches)
    plan.forget()
    assert ask(LISTED["softmax_of_scores"](), H200) is not first and len(searches) > count


def test_devices_are_asked_apart(searches):
    for facts in (H200, KNOWN["a100"], H200):
        assert best(graphs.silu(), facts).facts is facts
    assert len(searches) == 2


@pytest.mark.parametrize("name", LISTED)
def test_an_equal_graph_keeps_its_names(name, searches):
    graph = LISTED[name]()
    one, count = candidates(graph, H200), len(searches)
    other = candidates(named(graph, "!"), H200)
    assert len(searches) == count and other == one
    for choice, mine in zip(one, other):
        assert mine.explain() == parse(choice.text, named(graph, "!"), H200).explain() != choice.explain()
        assert [str(step) for step in mine.steps] == [str(step) for step in choice.steps]
        assert {id(p.match.graph) for p in mine.parts} == {id(mine.graph)} != {id(choice.graph)}
    assert candidates(named(graph, "!"), H200)[0] is other[0]


def test_engines_are_asked_once_in_a_process(monkeypatch):
    asked, ask = [], offers.Offers._ask
    monkeypatch.setattr(offers.Offers, "_ask", lambda self, *given: asked.append(given) or ask(self, *given))
    desc = TensorDesc.packed("f16", (64, 64))
    product = lambda by: Graph([Node(Matmul(), dict(a=by, b=by + 1, c=by + 2))],
                               [Tensor(by + i, desc) for i in range(3)])
    text, count = best(product(1), H200).text, len(asked)
    assert best(product(7), H200).text == text and 0 < count == len(asked)
    best(product(7), KNOWN["a100"])
    assert len(asked) > count


def test_what_is_remembered_is_bounded(monkeypatch, searches):
    monkeypatch.setattr(memory.CHOICES, "most", 2)
    for name in ("silu", "dgrad_mul", "wgrad_mul", "silu", "wgrad_mul"):
        best(LISTED[name](), KNOWN["t4"])
    assert [g.key for g in searches] == [LISTED[name]().key for name in (
        "silu", "dgrad_mul", "wgrad_mul", "silu")] and len(memory.CHOICES) == 2


def by_pygraph():
    graph = cydnn.pygraph(io_data_type=cydnn.data_type.HALF, handle=cydnn.create_handle("ptx:sm_80"))
    graph.relu(graph.tensor([8, 8], [8, 1])).set_output(True)
    graph.build([cydnn.heur_mode.A])
    return graph.get_engine_count(), graph.get_execution_plan_count()


def by_functions():
    handle, desc = cudnn.create("ptx:sm_80"), cudnn.createTensorDescriptor()
    cudnn.setTensor4dDescriptor(desc, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 2, 3, 1, 1)
    x, y = np.ones((2, 2, 3), np.float32)
    cudnn.softmaxForward(handle, cudnn.CUDNN_SOFTMAX_ACCURATE, cudnn.CUDNN_SOFTMAX_MODE_CHANNEL,
                         1.0, desc, x, 0.0, desc, y)
    return y.tolist()


@pytest.mark.parametrize("door", [by_pygraph, by_functions])
def test_other_doors_search_once(door, searches):
    first, count = door(), len(searches)
    assert door() == first and len(searches) == count > 0


def test_threads_share_what_is_remembered():
    found: dict = {}

    def work(number):
        for name in LISTED:
            word = str(number % 2)
            choice = best(named(LISTED[name](), word), H200)
            found.setdefault((name, choice.text), set()).add(word)
            assert all(t.name.endswith(word) for t in choice.asked.tensors.values())
    with quick_switches():
        assert together(work, 4) == []
    assert len(found) == len(LISTED)
