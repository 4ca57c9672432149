"""The parts that engines are asked for: the widest, those that leave off what others may take, what stands in
front; who is passed over; what a wish leaves out."""
from __future__ import annotations

import pytest

from cydnn.engines.engine import memory_us
from cydnn.graph import Match, many
from cydnn.heuristics import Wish, best, candidates, memory
from cydnn.heuristics.cover import cheapest
from cydnn.ops import Pointwise
from cydnn.status import NotSupported

from .made_up import ALONE, AROUND, BEHIND, FACTS, Made, PRODUCT, graph, mask_of, offered, said, use

REGION = many(Pointwise)


def parts(monkeypatch, text, takes, us, node="A", wish=Wish()) -> list:
    """The regions that an engine is offered around a node, in order, of those that it takes."""
    engine = Made(2, takes, us)
    use(monkeypatch, engine, Made(9, REGION, {"*": 1.0}))
    made = graph(text)
    offers = offered(made, wish)
    number = mask_of(made, node).bit_length() - 1
    found = offers.anchored(number)
    assert offers.anchored(number) is found                  # asked once
    return [names for _, names in said(found)]


CHAIN = "A x, p A, q p, r q"


@pytest.mark.parametrize("takes, us, want", [
    (BEHIND, "A, A p, A p q, A p q r", ["A p q r"]),
    (BEHIND, "A, A p, A p q", ["A p q", "A"]),
    (BEHIND, "A, A p", ["A p", "A"]),
    (BEHIND, "A", ["A"]),
    (BEHIND, "A p, A p q", []),                  # what it refuses alone is not in what follows
    (BEHIND, "A p q r", ["A p q r"]),
    (ALONE, "A, A p, A p q, A p q r", ["A"]),
    (ALONE, "A p", []),
])
def test_the_widest_that_is_taken(takes, us, want, monkeypatch):
    assert parts(monkeypatch, CHAIN, takes, dict.fromkeys(us.split(", "), 5.0)) == want


def test_node_by_node_it_is_the_node(monkeypatch):
    fallback = Wish(mode="fallback")
    assert parts(monkeypatch, CHAIN, BEHIND, {"*": 5.0}, wish=fallback) == ["A"]
    assert parts(monkeypatch, "p x, A p", AROUND, {"*": 5.0}, wish=fallback) == ["A"]


FORK = "A x, p A, B y, q p B, r q"               # q may stand behind A or B


@pytest.mark.parametrize("us, of_a, of_b", [
    ("*", ["A p q r", "A p q", "A p"], ["B p q r", "B p q", "B"]),
    ("A, A p q, A p, B, B p q", ["A p q", "A p", "A"], ["B p q", "B"]),
    ("A, A p", ["A p", "A"], []),
])
def test_less_where_another_anchor_may_take_the_rest(us, of_a, of_b, monkeypatch):
    costs = dict.fromkeys(us.split(", "), 5.0)
    assert parts(monkeypatch, FORK, BEHIND, costs) == of_a
    assert parts(monkeypatch, FORK, BEHIND, costs, "B") == of_b


def test_an_anchor_above_takes_nothing_of_what_stands_behind_the_next(monkeypatch):
    """Nodes behind B depend on A through B alone: B's region is offered whole."""
    assert parts(monkeypatch, "A x, B A, p B, q p", BEHIND, {"*": 5.0}, "B") == ["B p q"]
    assert parts(monkeypatch, "A x, B A, p B, q p", BEHIND, {"*": 5.0}, "A") == ["A"]


TWO = "p x, q y, A p q, r A"


@pytest.mark.parametrize("us, want", [
    ("*", ["A", "A p q"]),
    ("A, A p, A q", ["A", "A p"]),
    ("A, A q", ["A", "A q"]),
    ("A p q", ["A p q"]),
    ("A q, A r", ["A q"]),
    ("A", ["A"]),
])
def test_what_stands_in_front(us, want, monkeypatch):
    assert parts(monkeypatch, TWO, PRODUCT, dict.fromkeys(us.split(", "), 5.0)) == want


def test_in_front_and_behind(monkeypatch):
    assert parts(monkeypatch, "p x, A p, q A", AROUND, {"*": 5.0}) == ["A q", "A p q"]
    assert parts(monkeypatch, "A x, q A", AROUND, {"*": 5.0}) == ["A q"]
    assert parts(monkeypatch, "p x, A p, q A, r p", AROUND, {"*": 5.0}) == ["A q"]      # r reads it too
    assert parts(monkeypatch, "p x, A p, q A", BEHIND, {"*": 5.0}) == ["A q"]


# ---- Who is passed over ----

@pytest.mark.parametrize("least, cost, takes, text, us, is_asked", [
    (6.0, 7.0, BEHIND, "A x", {"A": 5.0}, False),
    (5.0, 7.0, BEHIND, "A x", {"A": 5.0}, True),             # it may cost as much, and stand first
    (4.0, 7.0, BEHIND, "A x", {"A": 5.0}, True),
    (0.0, 7.0, BEHIND, "A x", {"A": 5.0}, True),
    (6.0, 7.0, BEHIND, "A x, p A", {"A": 5.0}, True),        # it may take more
    (6.0, 7.0, BEHIND, "p x, A p", {"A": 5.0}, False),       # not what stands in front
    (6.0, 7.0, AROUND, "p x, A p", {"A": 5.0}, True),
    (6.0, 7.0, AROUND, "p x, A p", {"A": 5.5, "A p": 5.0}, False),
    (6.0, 7.0, AROUND, "p x, A p", {"A": 5.0, "A p": 6.5}, True),
    (6.0, 7.0, BEHIND, "A x, p A", {"A p": 5.0, "A": 5.0}, False),
    (6.0, 7.0, ALONE, "A x, p A", {"A p": 5.0, "A": 5.0}, False),
    (6.0, 7.0, PRODUCT, "p x, q y, A p q", {"A p q": 5.0}, False),
    (6.0, 7.0, PRODUCT, "p x, q y, A p q", {"A p": 5.0}, True),
])
def test_who_cannot_win_is_not_asked(least, cost, takes, text, us, is_asked, monkeypatch):
    other = PRODUCT if takes is PRODUCT else AROUND if any("p" in names for names in us) else BEHIND
    rival = Made(3, takes, {"*": cost}, least=least)
    use(monkeypatch, rival, Made(2, other, us), Made(9, REGION, {"*": 10.0}))
    made = graph(text)
    number, whole = mask_of(made, "A").bit_length() - 1, candidates(made, FACTS)[0]
    for ask, is_asked in ((lambda: offered(made, is_brief=True).anchored(number), is_asked),
                          (lambda: best(made, FACTS).text == whole.text, is_asked),
                          (lambda: offered(made).anchored(number), True)):
        rival.asked.clear()
        memory.forget()
        assert ask() and bool(rival.asked) == is_asked


def test_an_engine_at_its_least_that_stands_first_is_taken(monkeypatch):
    use(monkeypatch, Made(3, BEHIND, {"A": 5.0}, least=5.0), Made(2, BEHIND, {"A": 5.0}))
    assert best(graph("A x"), FACTS).engine.index == 3


def test_what_an_engine_costs_at_least_is_asked_of_the_node(monkeypatch):
    class Least(Made):
        def least_us(self, p, dev):
            return 9.0 if p.node.name == "B" else 1.0
    slow = Least(2, BEHIND, {"A": 7.0, "B": 9.5, "C": 7.0})
    use(monkeypatch, slow, Made(3, BEHIND, {"*": 8.0}))
    assert said(best(graph("A x, B A, C B"), FACTS).parts) == [(2, "A"), (3, "B"), (2, "C")]
    assert slow.asked == ["A", "C"]


def test_what_an_engine_costs_at_least_is_asked_of_what_fits(monkeypatch):
    class Whole(Made):
        def fits(self, p):
            return len(p.region.nodes) > 1 and super().fits(p)

        def least_us(self, p, dev):
            raise AssertionError("it takes no node alone")
    use(monkeypatch, Whole(2, BEHIND, {"A p": 5.0}), Made(3, BEHIND, {"A": 1.0}), Made(9, REGION, {"p": 9.0}))
    assert said(best(graph("A x, p A"), FACTS).parts) == [(2, "A p")]


# ---- One match ----

def test_offers_of_a_match(monkeypatch):
    class Hungry(Made):
        def best(self, p, dev):
            raise NotSupported("no configuration fits")
    engines = (Made(2, ALONE, {"*": 7.0}), Made(3, BEHIND, {"*": 5.0}), Made(4, BEHIND, {"A": 6.0}),
               Hungry(5, BEHIND, {"*": 1.0}), Made(6, BEHIND, {"A p": 6.0}), Made(9, REGION, {"p": 2.0}))
    use(monkeypatch, *engines)
    made = graph("A x, p A")
    offers = offered(made)
    assert [p.engine.index for p in offers.single(0)] == [3, 4, 2]
    assert [p.us for p in offers.single(0)] == [5.0, 6.0, 7.0]
    assert [p.engine.index for p in offers.of(Match.around(made, 0, 3))] == [3, 6]
    assert [p.engine.index for p in offers.elementwise(2)] == [9]
    assert offers.single(0) is offers.single(0)
    assert [e.index for e in offers.engines(None)] == [9]
    assert [e.index for e in offers.engines(made.nodes[0].op)] == [2, 3, 4, 5, 6]


def test_what_a_node_costs_at_least():
    made = graph("A x, p A, B y z")
    offers = offered(made)
    for number in range(3):
        want = memory_us(Match.single(made, number), FACTS, efficiency=1.0)
        assert offers.least_us(number) == offers.least_us(number) == want > 0


def test_another_graph_on_the_same_terms():
    wish = Wish(without=(3,))
    again = offered(graph("A x"), wish, is_brief=True).of_graph(graph("B y z"))
    assert again.graph.nodes[0].name == "B" and again.wish is wish and again.is_brief
    assert again.facts is FACTS


# ---- Wishes ----

@pytest.mark.parametrize("wish, allowed", [
    (Wish(), [2, 3, 5]),
    (Wish(engines=(2, 4)), [2, 4]),
    (Wish(engines=(2, 4), without=(2,)), [4]),
    (Wish(without=(2, 3)), [5]),
    (Wish(deterministic=True), [2, 3]),
    (Wish(notes=("deterministic",)), [2, 3]),
    (Wish(notes=("tensor_core",)), [3, 5]),
    (Wish(notes=("deterministic", "tensor_core")), [3]),
    (Wish(notes=("tensor_core",), deterministic=True), [3]),
    (Wish(notes=("winograd",)), [4]),
    (Wish(notes=("winograd",), without_notes=("deterministic",)), []),
    (Wish(without_notes=("tensor_core",)), [2]),
    (Wish(without_notes=("tensor_core", "winograd"), engines=(2, 3, 4)), [2]),
    (Wish(without_notes=("deterministic",)), [5]),
    (Wish(engines=()), []),
])
def test_who_is_allowed(wish, allowed):
    table = [Made(2, ALONE, {}, notes=("deterministic",)),
             Made(3, ALONE, {}, notes=("deterministic", "tensor_core")),
             Made(4, ALONE, {}, notes=("deterministic", "winograd"), only_for=("winograd", "other")),
             Made(5, ALONE, {}, notes=("tensor_core",))]
    found = [(engine.index, wish.allows(engine)) for engine in table]
    assert found == [(engine.index, engine.index in allowed) for engine in table]


def test_only_what_is_wished_for_is_in_the_cover(monkeypatch):
    use(monkeypatch, Made(2, BEHIND, {"A": 1.0}), Made(3, BEHIND, {"A": 2.0}))
    assert said(cheapest(offered(graph("A x"), Wish(without=(2,))))) == [(3, "A")]
