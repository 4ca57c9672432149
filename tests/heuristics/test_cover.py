"""The cheapest cover, against trying all of them; who comes first at equal cost; the order of parts."""
from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from cydnn.graph import Region, bits, grow, many
from cydnn.heuristics import Wish, cover
from cydnn.heuristics.cover import cheapest, in_order
from cydnn.ops import Pointwise

from .made_up import ALONE, AROUND, BEHIND, Made, PRODUCT, graph, mask_of, named, offered, said, use

REGION = many(Pointwise)
SHAPES = ("A x, p A", "p x, A p, q A, r q, B r", "A x, p A, B y, q p B, r q",
          "p x, q p, A q, r A p, B r", "p x, q y, A p q, r A, B r, s B p",
          "A x, B x, p A B, C p, q C A, r q", "A x, B A, C A, p B C, q p A", "p x, q y, r z, A p q")


def put(text: str):
    """The mask of every node of a graph by itself."""
    made = graph(text)
    return made, [1 << i for i in range(len(made.nodes))]


# ---- Order ----

def ordered(graph, masks) -> list | None:
    """By the rule alone: of what has all that it reads, what has the lowest node."""
    alone = set(range(len(graph.nodes))) - {i for mask in masks for i in bits(mask)}
    groups = [(set(bits(mask)), k) for k, mask in enumerate(masks)] + [({i}, None) for i in alone]
    needs = lambda group: {graph.producer[u] for i in group for u in graph.nodes[i].reads
                           if u in graph.producer} - group
    done, order = set(), []
    while groups:
        ready = [row for row in groups if needs(row[0]) <= done]
        if not ready:
            return None
        first = min(ready, key=lambda row: min(row[0]))
        groups.remove(first)
        done |= first[0]
        order += [first[1]] if first[1] is not None else []
    return order


@pytest.mark.parametrize("text", SHAPES)
def test_order(text):
    made, found, waits = graph(text), [], set()
    count, rng = len(made.nodes), random.Random(text)
    for _ in range(60):
        place = [rng.randrange(4) for _ in range(count)]
        masks = [sum(1 << i for i in range(count) if place[i] == k) for k in range(3)]
        masks = rng.sample(masks, 3)
        masks = [mask for mask in masks if mask]
        found.append(in_order(made, masks))
        assert found[-1] == ordered(made, masks), (masks, place)
        if in_order(made, masks[1:]) is not None and masks:
            parts = [SimpleNamespace(region=Region(made, mask)) for mask in masks[1:]]
            comes_back = cover.waits_for_itself(parts, sum(masks[1:]), Region(made, masks[0]))
            waits.add(comes_back)
            assert comes_back == (found[-1] is None)
    assert waits == {False, True} or len(made.anchors) == 1
    assert any(found) and (None in found or len(made.anchors) == 1)


# ---- Cost ----

def every_cover(offers, parts, taken=(), allows=lambda part: True):
    """All sets of parts that are a cover and can run."""
    covered = sum(p.region.mask for p in taken)
    if covered == (1 << len(offers.graph.nodes)) - 1:
        if in_order(offers.graph, [p.region.mask for p in taken]) is not None:
            yield taken
        return
    first = next(i for i in range(len(offers.graph.nodes)) if not covered >> i & 1)
    for part in parts:
        if part.region.mask >> first & 1 and not part.region.mask & covered and allows(part):
            yield from every_cover(offers, parts, (*taken, part), allows)


def drawn(rng, text) -> list:
    """Engines that take some regions, at whatever cost; pointwise nodes one by one."""
    made = graph(text)
    names = [node.name for node in made.nodes]
    subsets = [" ".join(sorted(n for i, n in enumerate(names) if mask >> i & 1))
               for mask in range(1, 1 << len(names))]
    engines = []
    for index, takes in enumerate((AROUND, BEHIND, PRODUCT, BEHIND), 2):
        us = {s: rng.uniform(5, 20) * (1 + s.count(" ")) ** 0.5 for s in subsets if rng.random() < 0.8}
        engines.append(Made(index, takes, {**us, **{n: rng.uniform(5, 30) for n in names}}))
    return [*engines, Made(9, REGION, {n: rng.uniform(1, 9) for n in names})]


@pytest.mark.parametrize("text", SHAPES)
def test_nothing_is_cheaper(text, monkeypatch):
    made, rng, limited = graph(text), random.Random(text), 0
    for _ in range(25):
        use(monkeypatch, *drawn(rng, text))
        offers = offered(made)
        parts = [p for i in offers.anchors for p in offers.anchored(i)]
        parts += [p for i in bits(offers.pointwise) for p in offers.single(i)]
        first = made.nodes[offers.anchors[0]].name
        for allows in (lambda part: True,
                       lambda part: first not in named(made, part.region.mask) or part.engine.index == 3,
                       lambda part: part.engine.index != 9):
            best = cheapest(offers, allows)
            costs = [sum(p.us for p in each) for each in every_cover(offers, parts, (), allows)]
            limited += not costs
            assert (best is None) == (not costs)
            if best is not None:
                assert all(map(allows, best)) and sum(p.us for p in best) == pytest.approx(min(costs))
                masks = [p.region.mask for p in best]
                assert in_order(made, masks) == list(range(len(masks)))
                assert sum(masks) == (1 << len(made.nodes)) - 1
    assert limited < 60


def test_equal_engines_come_in_the_order_of_the_table(monkeypatch):
    for takes, text, names in ((BEHIND, "A x, p A", "A p"), (BEHIND, "A x", "A"), (REGION, "p x", "p"),
                               (REGION, "p x, q p", "p q")):
        for indices in ((5, 6), (6, 5)):
            use(monkeypatch, *(Made(i, takes, {names: 4.0}) for i in indices))
            assert said(cheapest(offered(graph(text)))) == [(indices[0], names)]


def test_of_equal_covers_the_one_with_the_cheaper_anchors_is_taken(monkeypatch):
    use(monkeypatch, Made(2, BEHIND, {"A p": 8.0, "A": 5.0}), Made(3, BEHIND, {"A": 5.5}),
        Made(9, REGION, {"p": 3.0}))
    made = graph("A x, p A")
    assert said(cheapest(offered(made))) == [(2, "A p")]     # alone it is not asked, as it takes the wider
    use(monkeypatch, Made(2, BEHIND, {"A p": 8.5, "A": 5.5}), Made(3, BEHIND, {"A": 5.5}),
        Made(9, REGION, {"p": 3.0}))
    assert said(cheapest(offered(made))) == [(3, "A"), (9, "p")]


def test_of_equal_covers_the_first_found_stays(monkeypatch):
    """The one with the cheaper anchors is looked at first."""
    use(monkeypatch, Made(2, BEHIND, {"A": 5.0}), Made(3, BEHIND, {"A p": 6.0, "A": 50.0}),
        Made(9, REGION, {"p": 4.0, "q": 3.0, "p q": 4.0}))
    assert said(cheapest(offered(graph("A x, p A, q p")))) == [(2, "A"), (9, "p q")]


def test_parts_that_wait_for_each_other_are_no_cover(monkeypatch):
    """A with q would wait for B, which waits for p, if p and q are one part with A or B with both."""
    use(monkeypatch, Made(2, BEHIND, {"A q": 1.0, "A p": 7.0, "A": 9.0, "B": 5.0, "B q": 6.0}),
        Made(9, REGION, {"p": 5.0, "q": 5.0, "p q": 1.0}))
    made = graph("A x, p A, B p, q B A")
    best = cheapest(offered(made))
    assert said(best) == [(2, "A p"), (2, "B q")]


# ---- Covers that are followed ----

def test_only_the_most_promising_covers_are_followed(monkeypatch):
    made = graph("A x, p A, q p, r q")
    use(monkeypatch, Made(9, REGION, {n: 1.0 for n in "pqr"}))
    offers = offered(made)
    least = offers.least_us(mask_of(made, "p").bit_length() - 1)
    states = {mask_of(made, names): cover.State(us * least, left * least, ())
              for names, us, left in (("A", 4, 3), ("A p q r", 5, 0), ("A p", 6, 2))}
    keys = list(states)
    for beam, kept in ((1, keys[1:2]), (2, [keys[1], keys[0]]), (3, keys), (4, keys)):
        monkeypatch.setattr(cover, "BEAM", beam)
        assert list(cover._cheapest_states(states)) == kept
        assert all(cover._cheapest_states(states)[key] == states[key] for key in kept)


# ---- Regions of pointwise nodes ----

CHAIN = "p x, q p, r q"


@pytest.mark.parametrize("us, want", [
    ({"p": 4, "q": 4, "r": 4, "p q": 5, "p q r": 20}, [(9, "p q"), (9, "r")]),
    ({"p": 4, "q": 4, "r": 4, "p q": 5, "p q r": 6}, [(9, "p q r")]),
    ({"p": 4, "q": 4, "r": 4, "p q": 8, "p q r": 12}, [(9, "p q r")]),              # equal: the widest
    ({"p": 4, "q": 4, "r": 4, "p q": 7.5, "p q r": 13}, [(9, "p q"), (9, "r")]),
    ({"p": 4, "q": 4, "r": 4, "p q": 8.5, "p q r": 12.5}, [(9, "p"), (9, "q"), (9, "r")]),
    ({"p": 4, "r": 4, "p q": 50}, [(9, "p q"), (9, "r")]),                          # q is not taken alone
    ({"p q r": 90}, [(9, "p q r")]),
    ({"p": 4, "q": 4, "r": 4}, [(9, "p"), (9, "q"), (9, "r")]),
    ({"p": 4, "q": 4}, None),
    ({"q": 4, "r": 4}, None),
])
def test_regions_save_most(us, want, monkeypatch):
    use(monkeypatch, Made(9, REGION, us))
    found = cheapest(offered(graph(CHAIN)))
    assert (found and said(found)) == want


def test_a_region_below_every_cost_of_its_nodes_is_taken_at_once(monkeypatch):
    engine = Made(9, REGION, {"p": 4.0, "q": 4.0, "r": 4.0, "p q": 5.0, "p q r": 0.0})
    use(monkeypatch, engine)
    assert said(cheapest(offered(graph(CHAIN)))) == [(9, "p q r")] and engine.asked == ["p q r"]


def test_node_by_node(monkeypatch):
    use(monkeypatch, Made(2, AROUND, {"A": 5, "A p q": 1}), Made(9, REGION, {"p": 1, "q": 1, "p q": 1}))
    for text, alone in (("p x, A p, q A", ["p", "A", "q"]), ("p x, q p", ["p", "q"])):
        found = cheapest(offered(graph(text), Wish(mode="fallback")))
        assert [names for _, names in said(found)] == alone


def test_a_region_that_others_come_back_into_is_left_apart(monkeypatch):
    """p and q may be one launch, but for the anchor that needs p and makes what q reads."""
    use(monkeypatch, Made(2, BEHIND, {"A": 5}), Made(9, REGION, {"p": 4, "q": 4, "p q": 1}))
    made = graph("p x, A p, q p A")
    assert said(cheapest(offered(made))) == [(9, "p"), (2, "A"), (9, "q")]


def test_groups_are_what_no_part_has_together(monkeypatch):
    use(monkeypatch, Made(2, AROUND, {"*": 5}), Made(3, ALONE, {"*": 5}), Made(9, REGION, {"*": 1}))
    for text, want in (("A x, p A, B p, q B", "A B p q"), ("A x, B A, p x", "A,B,p"), ("p x, q y", "p,q"),
                       ("p x, q x, r q", "p q r"), ("p x, A p, B p, q x B", "A,B q,p")):
        made = graph(text)
        assert sorted(named(made, mask) for mask in offered(made).groups) == want.split(","), text


def test_groups_that_would_wait_for_each_other_are_covered_together(monkeypatch):
    """a and b would wait for B, which waits for d, if c is with it: for A, which waits for a."""
    use(monkeypatch, Made(2, ALONE, {"*": 5}),
        Made(9, REGION, {**dict.fromkeys("abcd", 4), "a b": 5, "c d": 6}))
    made = graph("a x, b x B, c y A, d y, A a, B d")
    assert len(offered(made).groups) == 4
    found = said(cheapest(offered(made)))
    assert (9, "a b") in found and (9, "c d") not in found and len(found) == 5


def test_a_region_that_one_cover_leaves_apart_is_whole_in_another(monkeypatch):
    """p and q would wait for B with w and u, which wait for p and make what q reads; not for C with them."""
    use(monkeypatch, Made(2, BEHIND, {"B": 5, "C": 5, "D": 1, "B u w": 5, "C s u w": 7}),
        Made(9, REGION, {"p": 4, "q": 4, "s": 1, "p q": 3}))
    found = cheapest(offered(graph("p x, B y, C z, D p, w B p, u w C, s u, q x B")))
    assert sorted(said(found)) == [(2, "B"), (2, "C s u w"), (2, "D"), (9, "p q")]


def test_regions_that_covers_share_grow_once(monkeypatch):
    """Eight anchors, each alone or with the first of the two nodes behind it: 32 covers of 16 regions."""
    us = {**dict.fromkeys("ABCDEFGH", 3.0), **{f"{p.upper()} {p}": 3.9 for p in "abcdefgh"}}
    use(monkeypatch, Made(2, BEHIND, us), Made(9, REGION, {"*": 2.0}))
    grown, plain = [], grow.pointwise
    monkeypatch.setattr(grow, "pointwise", lambda *given: grown.append(given) or plain(*given))
    text = ", ".join(f"{a} x, {p} {a}, {q} {p}" for a, p, q in zip("ABCDEFGH", "abcdefgh", "ijklmnop"))
    assert len(cheapest(offered(graph(text)))) == 16
    assert len(grown) <= 16


def test_which_parts_may_be_in_it_holds_for_regions_too(monkeypatch):
    use(monkeypatch, Made(8, REGION, {"p": 1, "q": 1, "p q": 1}), Made(9, REGION, {"p": 3, "q": 3, "p q": 4}))
    made = graph("p x, q p")
    assert said(cheapest(offered(made), lambda part: part.engine.index == 9)) == [(9, "p q")]
    assert said(cheapest(offered(made), lambda part: len(part.region.nodes) < 2)) == [(8, "p"), (8, "q")]
    assert cheapest(offered(made), lambda part: False) is None
