"""Which choices there are for a graph, in what order, within what workspace, after which changes of it: with
engines whose costs are made up."""
from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from cydnn.device.facts import KNOWN
from cydnn.engines import Config
from cydnn.graph import Graph, Match, Node, core, many
from cydnn.heuristics import Choice, Wish, best, candidates
from cydnn.heuristics.candidates import checked, slimmer
from cydnn.heuristics.choice import Part
from cydnn.ops import Matmul, Pointwise, Reduction
from cydnn.status import BadParam, NotSupported
from cydnn.tensor import TensorDesc

from . import graphs
from .made_up import ALONE, BEHIND, BYTES, FACTS, Made, PRODUCT, graph, named, said, use

REGION = many(Pointwise)
AREA = 256                                       # what areas of a workspace are multiples of


def ranked(made, wish=Wish(), facts=FACTS) -> list:
    """[(microseconds, parts)] of the candidates but the one node by node; the first is the best."""
    found = candidates(made, facts, wish)
    assert best(made, facts, wish) == found[0]
    assert [c.us for c in found] == sorted(c.us for c in found)
    return [(c.us, said(c.parts)) for c in found if not c.is_composite]


# ---- Who else could compute the costliest part ----

def test_one_choice_for_each_other_engine(monkeypatch):
    use(monkeypatch, Made(2, BEHIND, {"A": 5.0}), Made(3, BEHIND, {"A": 4.0}),
        Made(4, BEHIND, {"A p": 8.0}), Made(5, BEHIND, {"A": 7.0}), Made(9, REGION, {"p": 1.0}))
    assert ranked(graph("A x, p A")) == [
        (5.0, [(3, "A"), (9, "p")]), (6.0, [(2, "A"), (9, "p")]), (8.0, [(4, "A p")]),
        (8.0, [(5, "A"), (9, "p")])]
    use(monkeypatch, Made(2, BEHIND, {"A": 5.0}), Made(3, BEHIND, {"A": 4.0, "A p": 4.5}),
        Made(9, REGION, {"p": 1.0}))
    assert ranked(graph("A x, p A")) == [(4.5, [(3, "A p")]), (6.0, [(2, "A"), (9, "p")])]


def test_the_costliest_anchor_is_the_one_that_others_compute(monkeypatch):
    use(monkeypatch, Made(2, ALONE, {"A": 5.0, "B": 6.0}), Made(3, ALONE, {"A": 7.0}),
        Made(4, ALONE, {"B": 8.0}), Made(9, REGION, {"p": 50.0}), Made(8, REGION, {"p": 60.0}))
    assert ranked(graph("A x, B A, p B")) == [
        (61.0, [(2, "A"), (2, "B"), (9, "p")]), (63.0, [(2, "A"), (4, "B"), (9, "p")])]


def test_without_an_anchor_it_is_the_costliest_region(monkeypatch):
    use(monkeypatch, Made(8, REGION, {"p": 2.0, "q": 4.0}), Made(9, REGION, {"p": 3.0, "q": 5.0}))
    assert ranked(graph("p x, q p")) == [(6.0, [(8, "p"), (8, "q")]), (7.0, [(8, "p"), (9, "q")])]
    use(monkeypatch, Made(8, REGION, {"p q": 2.0, "p": 5.0, "q": 5.0}), Made(9, REGION, {"p q": 3.0}))
    assert ranked(graph("p x, q p")) == [(2.0, [(8, "p q")]), (3.0, [(9, "p q")])]


def test_another_engine_may_take_the_anchor_with_more_or_less(monkeypatch):
    use(monkeypatch, Made(2, BEHIND, {"A p": 5.0}), Made(3, BEHIND, {"A": 6.0}), Made(9, REGION, {"p": 1.0}))
    assert ranked(graph("A x, p A")) == [(5.0, [(2, "A p")]), (7.0, [(3, "A"), (9, "p")])]


# ---- Node by node ----

def test_node_by_node_is_a_candidate_too(monkeypatch):
    use(monkeypatch, Made(2, BEHIND, {"A": 5.0, "A p": 5.5}), Made(9, REGION, {"p": 1.0}))
    made = graph("A x, p A")
    whole, apart = candidates(made, FACTS)
    assert (whole.mode, whole.name, whole.is_composite) == ("a", "2:made", False)
    assert (apart.mode, apart.name, apart.is_composite) == ("fallback", "1:composite", True)
    assert apart.text == "composite\npart 0: 2\npart 1: 9" and apart.engine.index == 1
    assert whole.engine.index == 2 and apart != whole and whole != "part 0 1: 2" and whole is not None
    assert candidates(made, FACTS, Wish(mode="fallback")) == [apart]
    assert best(made, FACTS, Wish(mode="fallback")) == apart and apart.asked is made


def test_a_part_of_several_is_named_with_the_others(monkeypatch):
    use(monkeypatch, Made(2, BEHIND, {"A": 5.0}), Made(9, REGION, {"p": 1.0}))
    first = best(graph("A x, p A"), FACTS)
    assert first.name == "2:made+9:made" and first.text == "part 0: 2\npart 1: 9" and first.us == 6.0
    single = best(graph("A x"), FACTS, Wish(mode="fallback"))
    assert not single.is_composite and single.name == "2:made" and single.text == "part 0: 2"


# ---- Configurations ----

def test_a_configuration_that_is_wished_for(monkeypatch):
    use(monkeypatch, Made(2, BEHIND, {"A": {1: (5.0, 0), 2: (4.0, 999)}}),
        Made(3, BEHIND, {"A": 6.0}), Made(9, REGION, {"p": 1.0}))
    assert [c.text for c in candidates(graph("A x"), FACTS)] == ["part 0: 2 n=1", "part 0: 3"]
    [only] = candidates(graph("A x"), FACTS, Wish(config=Config(n=2)))
    assert (only.text, only.us) == ("part 0: 2 n=2", 4.0)
    assert only == best(graph("A x"), FACTS, Wish(config=Config(n=2)))
    with pytest.raises(NotSupported, match="needs at most 1000 bytes of workspace; the least is 1024 bytes"):
        candidates(graph("A x"), FACTS, Wish(config=Config(n=2), workspace_bytes=1000))
    [only] = candidates(graph("A x"), FACTS, Wish(config=Config(n=2), workspace_bytes=1024))
    assert only.text == "part 0: 2 n=2"
    with pytest.raises(BadParam, match="config must belong to one engine; got n=1 for the engines 2:m.* 9:m"):
        candidates(graph("A x, p A"), FACTS, Wish(config=Config(n=1)))


@pytest.mark.parametrize("count, said", [(1, "n=0"), (8, " ".join(f"n={i}," for i in range(8))[:-1]),
                                         (9, " ".join(f"n={i}," for i in range(8))[:-1] + " …")])
def test_a_configuration_that_is_not_offered(count, said):
    engine = Made(2, ALONE, {"A": {i: (5.0 + i, 0) for i in range(count)}})
    match = Match.single(graph("A x"))
    with pytest.raises(BadParam) as caught:
        checked(match, engine, Config(n=50), FACTS)
    assert caught.value.args[0] == f"build: config of 2:made must be one of {said}; got n=50"
    config, estimate = checked(match, engine, Config(n=count - 1), FACTS)
    assert config == Config(n=count - 1) and estimate() == 4.0 + count
    with pytest.raises(BadParam, match=r"must be one of \(none\); got n=1"):
        checked(match, Made(2, ALONE, {"A": 5.0}), Config(n=1), FACTS)


# ---- Workspace ----

WAYS = {1: (5.0, 4 * AREA), 2: (9.0, AREA), 3: (7.0, 2 * AREA), 4: (6.0, 3 * AREA)}    # the best guess first


@pytest.mark.parametrize("limit, n", [(4, 1), (3, 4), (2, 3), (1, 2)])
def test_the_cheapest_configuration_within_a_workspace(limit, n, monkeypatch):
    use(monkeypatch, Made(2, ALONE, {"A": WAYS}), Made(3, ALONE, {"A": 20.0}))
    found = candidates(graph("A x"), FACTS, Wish(workspace_bytes=limit * AREA))
    assert [c.text for c in found] == [f"part 0: 2 n={n}", "part 0: 3"]
    assert found[0].workspace_bytes == limit * AREA and found[0].us == WAYS[n][0]
    assert best(graph("A x"), FACTS, Wish(workspace_bytes=limit * AREA)) == found[0]


def test_where_none_is_small_enough(monkeypatch):
    use(monkeypatch, Made(2, ALONE, {"A": WAYS}), Made(3, ALONE, {"A": {1: (8.0, 5 * AREA)}}))
    with pytest.raises(NotSupported, match=f"at most {AREA - 1} bytes of workspace; the least is {AREA} b"):
        candidates(graph("A x"), FACTS, Wish(workspace_bytes=AREA - 1))
    assert [c.text for c in candidates(graph("A x"), FACTS, Wish(workspace_bytes=AREA))] == ["part 0: 2 n=2"]
    assert len(candidates(graph("A x"), FACTS, Wish(workspace_bytes=5 * AREA))) == 2


def test_a_choice_that_fits_stays_as_it_is(monkeypatch):
    """The best guess is the engine's own, though another configuration has a lower estimate."""
    ways = {1: (5.0, 2 * AREA), 2: (4.0, AREA)}
    use(monkeypatch, Made(2, ALONE, {"A": ways}))
    for limit in (2 * AREA, 2 * AREA + 1, None):
        [only] = candidates(graph("A x"), FACTS, Wish(workspace_bytes=limit))
        assert only.text == "part 0: 2 n=1"
    monkeypatch.setattr(sys.modules["cydnn.heuristics.candidates"], "candidates", None)     # not needed
    assert best(graph("A x"), FACTS, Wish(workspace_bytes=2 * AREA)).text == "part 0: 2 n=1"
    assert best(graph("A x"), FACTS).text == "part 0: 2 n=1"


def test_parts_become_no_slimmer_than_they_must(monkeypatch):
    ways = {1: (5.0, 40 * AREA), 2: (6.0, 30 * AREA), 3: (7.0, 20 * AREA)}
    use(monkeypatch, Made(2, ALONE, {"A": ways, "B": ways, "C": ways}))
    made = graph("A x, B A, C B")
    first = best(made, FACTS)
    assert [p.config.n for p in first.parts] == [1, 1, 1]
    room = first.workspace_bytes - 40 * AREA     # for the values in between
    assert room == 2 * AREA
    for limit, want in ((40, [1, 1, 1]), (39, [1, 2, 2]), (38, [2, 2, 2]), (30, [2, 2, 2]), (29, [2, 3, 3]),
                        (28, [3, 3, 3]), (1, [3, 3, 3])):
        slim = slimmer(first, room + limit * AREA)
        assert [p.config.n for p in slim.parts] == want, limit
        assert [p.us for p in slim.parts] == [ways[n][0] for n in want]
        assert [named(made, p.region.mask) for p in slim.parts] == ["A", "B", "C"]
    use(monkeypatch, Made(2, ALONE, {"A": ways, "B": {1: (5.0, 60 * AREA)}, "C": ways}))
    # what B alone needs is too much: all at their least
    slim = slimmer(best(made, FACTS), 50 * AREA)
    assert [p.config.n for p in slim.parts] == [3, 1, 3]


def test_areas_of_values_and_scratch_share_what_is_free(monkeypatch):
    """A value lives from the part that makes it to the last that reads it; scratch during its part."""
    use(monkeypatch, Made(2, ALONE, {n: {1: (5.0, size)} for n, size in zip("ABCD", (4 * BYTES, 0, 0, 0))}))
    choice = best(graph("A x, B A, C B, D C"), FACTS)
    offsets, size = choice.areas
    values = {node.name: node.writes[0] for node in choice.graph.nodes}
    assert offsets.keys() - {k for k in offsets if not isinstance(k, int)} == {values[n] for n in "ABC"}
    assert size == choice.workspace_bytes == 5 * BYTES       # scratch of A beside its result; then it is free
    assert offsets[values["A"]] == 4 * BYTES and {offsets[values["B"]], offsets[values["C"]]} == {0, BYTES}


# ---- Notes ----

def test_notes_of_several_engines(monkeypatch):
    one, other = ("deterministic", "tensor_core", "x"), ("deterministic", "y")
    for fuses in (False, True):
        use(monkeypatch, Made(2, ALONE, {"A": 5.0}, notes=one, does_fuse=fuses),
            Made(9, REGION, {"p": 1.0}, notes=other))
        assert best(graph("A x, p A"), FACTS).notes == (
            "deterministic", *["runtime_compilation"] * fuses, "strict_nan_prop",
            "supports_cuda_graph_native_api", "tensor_core")
    use(monkeypatch, Made(2, ALONE, {"A": 5.0}, notes=("x",)), Made(9, REGION, {"p": 1.0}, notes=other))
    found = ("strict_nan_prop", "supports_cuda_graph_native_api")
    assert best(graph("A x, p A"), FACTS).notes == found
    assert best(graph("A x"), FACTS).notes == (*found, "x")


# ---- Graphs that are changed ----

def test_a_composed_operation_is_taken_where_it_is_cheaper(monkeypatch):
    made = graphs.softmax_of_scores()
    matmul = Made(2, core(Matmul), {"*": 5.0})
    fold, point = Made(3, core(Reduction), {"*": 2.0}), Made(9, REGION, {"*": 1.0})
    for us, is_composed in ((5.9, True), (6.0, False), (6.1, False)):     # two folds, two regions: 6 us
        use(monkeypatch, matmul, fold, point, Made(4, ALONE, {"*": us}))
        choice = best(made, FACTS)
        assert choice.changes == (("compose 5",) if is_composed else ()), us
        assert choice.us == pytest.approx(5.0 + min(us, 6.0))
        assert choice.asked is made and (choice.graph is made) != is_composed
        assert best(made, FACTS, Wish(mode="fallback")).changes == ()
    numpy = replace(FACTS, kind="numpy")
    use(monkeypatch, matmul, fold, point, Made(4, ALONE, {"*": 0.1}))
    assert best(made, numpy).changes == () and best(made, FACTS).changes == ("compose 5",)


@pytest.mark.parametrize("us", [(5.9, 9.0), (9.0, 5.9), (9.0, 9.0), (5.9, 5.9)])
def test_each_composed_operation_is_taken_where_it_is_cheaper(us, monkeypatch):
    class Sized(Made):
        def cost(self, p, dev, config):
            return us[p.x.dims[0] - 2]
    one, nodes, tensors = graphs.softmax_of_scores(), [], []
    for k in (0, 1):                             # uids and the number of rows are apart
        sized = lambda desc: TensorDesc.packed(desc.dtype, (2 + k, *desc.dims[1:]))
        tensors += [t.replace(uid=t.uid + 100 * k, desc=sized(t.desc)) for t in one.tensors.values()]
        nodes += [Node(n.op, {o: u + 100 * k for o, u in n.operands.items()}) for n in one.nodes]
    use(monkeypatch, Made(2, core(Matmul), {"*": 5.0}), Made(3, core(Reduction), {"*": 2.0}),
        Sized(4, ALONE, {"*": 1.0}), Made(9, REGION, {"*": 1.0}))
    choice = best(Graph(nodes, tensors), FACTS)
    assert choice.us == pytest.approx(10.0 + sum(min(cost, 6.0) for cost in us))
    assert [p.us for p in choice.parts if p.engine.index == 4] == [cost for cost in us if cost < 6.0]


def softmax_i8(count: int):
    """So many nodes of a type that engines may not take."""
    rows = ", ".join(f"{n} {n.lower() * 2}" for n in "ABCD"[:count])
    return graph(rows, dtype="i8")


class Typed(Made):
    """Takes f32 alone."""
    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if p.node and any(d.dtype.name != "f32" for d in p.descs) and not isinstance(p.op, Pointwise):
            yield "takes f32"


def test_of_two_ways_around_what_no_engine_takes_the_cheaper_is_taken(monkeypatch):
    cast, fold, point = Typed(4, ALONE, {"*": 5.0}), Made(3, core(Reduction), {"*": 1.0}), \
        Made(9, REGION, {"*": 1.0})
    use(monkeypatch, cast, fold, point)
    choice = best(softmax_i8(1), FACTS)          # two casts and itself, or two folds and two regions
    assert choice.changes == ("lower 0",) and choice.us < 7.0
    cast.us["*"] = 0.5
    use(monkeypatch, cast, fold, point)
    assert best(softmax_i8(1), FACTS).changes == ("cast 0",)
    use(monkeypatch, fold, point)                # none takes it in f32 either: casts would be in vain
    assert best(softmax_i8(1), FACTS).changes == ("lower 0",)
    use(monkeypatch, cast, point)
    assert best(softmax_i8(1), FACTS).changes == ("cast 0",)
    use(monkeypatch, fold)
    with pytest.raises(NotSupported, match=r"^A: no engine takes .*\n  made of others, A\.\d: no"):
        best(softmax_i8(1), FACTS)


def test_both_ways_are_followed_for_two_nodes_then_the_first(monkeypatch):
    use(monkeypatch, Typed(4, ALONE, {"*": 50.0}), Made(3, core(Reduction), {"*": 1.0}),
        Made(9, REGION, {"*": 1.0}))
    words = lambda count: [change.split()[0] for change in best(softmax_i8(count), FACTS).changes]
    for count, want in ((1, ["lower"]), (2, ["lower"] * 2), (3, ["lower", "lower", "cast"])):
        assert words(count) == want
    use(monkeypatch, Made(3, core(Reduction), {"*": 1.0}), Made(9, REGION, {"*": 1.0}))
    assert words(3) == ["lower"] * 3             # a cast before what no engine takes then is no way


def test_a_region_that_no_engine_takes_names_its_node(monkeypatch):
    use(monkeypatch, Made(2, BEHIND, {"A": 5.0}), Made(9, REGION, {"p": 1.0}))
    with pytest.raises(NotSupported, match="^q: no engine takes .*\n  9:made: has no cost") as error:
        best(graph("A x, p A, q x"), FACTS)
    assert [(e.index, why) for e, why in error.value.facts["reasons"]] == [(9, "has no cost for it")]
    with pytest.raises(NotSupported, match=r"^p: no engine takes .* \(2\) computes this operation"):
        best(graph("A x, p A"), FACTS, Wish(engines=(2,)))


# ---- Who refused ----

def test_who_refused_a_part(monkeypatch):
    table = (Made(2, BEHIND, {"A p": 5.0}), Made(3, ALONE, {"A": 1.0}), Made(4, PRODUCT, {"*": 1.0}),
             Made(5, BEHIND, {"A": 9.0}), Made(9, REGION, {"q": 1.0, "q r": 3.0}),
             Made(8, REGION, {"r": 2.0}))
    use(monkeypatch, *table)
    made = graph("q x, r q, A r, p A")
    choice = Choice(made, made, FACTS, (
        Part(Match.elementwise(made, 3), table[4], Config(), 3.0),
        Part(Match.around(made, 2, 12), table[0], Config(), 5.0)))
    region, whole = ([(e.index, sentences) for e, sentences in choice.refused(p)] for p in choice.parts)
    assert region == [(8, ("has no cost for it",))]
    assert whole == [(3, ("takes no operations around it",)), (5, ("has no cost for it",))]
    share = lambda p: 100 * p.bytes / (p.us * 1e3 * FACTS.bandwidth_gbs)
    moved, whole_moved = (f"    {p.bytes:,} bytes ({share(p):.0f} % of the bandwidth)" for p in choice.parts)
    assert choice.explain().splitlines() == [
        "3.0 us  9:made: q, r", moved, "    8:made refused: has no cost for it",
        "5.0 us  2:made: A, p", whole_moved, "    3:made refused: takes no operations around it",
        "    5:made refused: has no cost for it", f"notes: {' '.join(choice.notes)}",
        f"8.0 us in all, {choice.workspace_bytes} bytes of workspace"]
    part = Part(Match.single(made, 2), Made(7, ALONE, {"A": {3: (1.0, 0)}}), Config(n=3), 1.0)
    said = replace(choice, parts=(part,), changes=("cast 4", "lower 2")).explain().splitlines()
    assert said[:3] == ["cast 4", "lower 2", "1.0 us  7:made n=3: A"]


def test_devices_are_part_of_a_choice(monkeypatch):
    use(monkeypatch, Made(2, ALONE, {"*": 5.0}))
    one, other = (best(graph("A x"), facts) for facts in (FACTS, KNOWN["a100"]))
    assert one.text == other.text and one != other and one == best(graph("A x"), FACTS)
    assert hash(one) == hash(best(graph("A x"), FACTS))
