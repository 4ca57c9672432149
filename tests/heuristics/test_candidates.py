"""The room that chooses: the cheapest cover whatever the order of insertion, what a wish changes, choices as
text."""
from __future__ import annotations

import itertools
import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "graph"))
from nodes import binary, t, unary, v
from cydnn.bench import graph_of
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX, COMPOSITE, Config, engines_for
from cydnn.graph import FromTensor, Graph, Match, Node
from cydnn.heuristics import ANYTHING, Choice, Wish, best, candidates, parse
from cydnn.heuristics.cover import in_order
from cydnn.ops import ConvFprop, ConvWgrad, Pointwise, Problem, Reduction, SoftmaxFwd
from cydnn.status import BadParam, NotSupported
from support.draw import graphs

H200, T4, A100 = KNOWN["h200"], KNOWN["t4"], KNOWN["a100"]
CARDS = (H200, T4, A100)
FALLBACK = Wish(mode="fallback")


def conv(n=256, c=64, size=28, k=64, dtype="f16", layout="nhwc", tail=(), **tensors) -> Graph:
    """conv (uids 1, 2 -> 3), then ``tail``; 3 is virtual where somebody reads it."""
    dims, reads = (n, k, size, size), {u for node in tail for u in node.reads}
    mine = [t(1, (n, c, size, size), dtype, layout=layout), t(2, (k, c, 3, 3), dtype, layout=layout),
            t(3, dims, "f32" if 3 in reads else dtype, "virtual" if 3 in reads else "memory", layout)]
    return Graph([Node(ConvFprop(pre_pad=1, post_pad=1), dict(x=1, w=2, y=3), name="conv"),
                  *tail], [*mine, *tensors.values()])


IMAGE = (256, 64, 28, 28)


# ---- Promises about every graph ----

def drawn_graphs():
    for seed in range(40):
        yield graphs.region(random.Random(seed), wide=seed % 2 == 0)
    for op in graphs.FORMS:
        yield from (graphs.anchored(random.Random(f"{op.name} {seed}"), op) for seed in range(12))


@pytest.fixture(scope="module")
def drawn():
    return list(drawn_graphs())


def test_insertion_changes_nothing(drawn):
    for each in drawn[::3]:
        want = best(each.graph(), H200)
        for _ in range(3):
            again = best(each.graph(shuffled=True), H200)
            assert again.text == want.text and again == want and hash(again) == hash(want)


def test_no_choice_is_dearer_than_node_by_node(drawn):
    for each, facts in zip(drawn, itertools.cycle(CARDS)):
        graph = each.graph()
        first, fallback = best(graph, facts), best(graph, facts, FALLBACK)
        assert first.us <= fallback.us * (1 + 1e-9), (first.text, fallback.text)
        assert first.us == pytest.approx(sum(part.us for part in first.parts))


def test_choices_are_whole_and_in_order(drawn):
    """Every node in one part, every part convex, none before what it reads; cheapest first, each once."""
    for each, facts in zip(drawn, itertools.cycle(CARDS)):
        graph = each.graph()
        found = candidates(graph, facts)
        assert found[0].text == best(graph, facts).text and len({c.text for c in found}) == len(found)
        assert [c.us for c in found] == sorted(c.us for c in found)
        for choice in found:
            masks = [part.region.mask for part in choice.parts]
            assert sum(masks) == (1 << len(choice.graph.nodes)) - 1
            assert in_order(choice.graph, masks) == list(range(len(masks)))
            assert all(part.region.is_convex for part in choice.parts)
            for part in choice.parts:
                assert not part.engine.reasons(part.match, facts) and part.engine.fits(part.match)
                assert part.us == part.engine.cost(part.match, facts, part.config)


def test_choices_read_back_from_their_text(drawn):
    for each, facts in zip(drawn, itertools.cycle(CARDS)):
        graph = each.graph()
        for choice in [*candidates(graph, facts), best(graph, facts, FALLBACK)]:
            again = parse(choice.text, graph, facts)
            assert again == choice and again.text == choice.text and again.us == pytest.approx(choice.us)
            assert again.workspace_bytes == choice.workspace_bytes and again.mode in (choice.mode, "a")


# ---- Wishes ----

def of(line) -> Graph:
    return graph_of(Problem.parse(line))


CONV = "conv_fprop n256c64h28w28 k64r3s3 pad1 f16 nhwc"


def test_engines_that_may_and_may_not_be_used():
    assert [c.engine.index for c in candidates(of(CONV), H200)][0] == 119
    assert best(of(CONV), H200, Wish(engines=(109,))).engine.index == 109
    assert best(of(CONV), H200, Wish(without=(110, 111))).engine.index not in (110, 111)
    with pytest.raises(NotSupported,
                       match="conv_fprop: no engine takes .*\n  108:conv_fprop_depthwise: each gr") as caught:
        best(of(CONV), H200, Wish(engines=(108,)))
    assert all(engine.index == 108 for engine, _ in caught.value.facts["reasons"])
    with pytest.raises(NotSupported, match=r"none of the engines you asked for \(199:matmul_simt\) computes "
                       "this operation; these do: 103:conv_fprop_depthwise_slide 107:"):
        best(of(CONV), H200, Wish(engines=(199,)))
    with pytest.raises(NotSupported, match=r"you asked for notes \('fft', 'winograd'\), which leaves out"):
        best(of(CONV), H200, Wish(notes=("fft", "winograd")))


def test_every_engine_that_takes_a_node_is_a_candidate():
    """Each once, in its best configuration, but for those that give other numbers."""
    for line in (CONV, "matmul 256x512 512x256 f16", "softmax_fwd 64x1000 f16"):
        graph = of(line)
        match = Match.single(graph, 0)
        takers = [e for e in engines_for(match.op) if not e.only_for and e.accepts(match, H200)]
        found = candidates(graph, H200)
        assert len(found) == len(takers) > 2
        assert {(c.engine, c.us) for c in found} == {
            (e, e.cost(match, H200, e.best(match, H200))) for e in takers}


@pytest.mark.parametrize("line, has_limit", [
    ("batch_norm_training n2c3h4w4 f32", True), ("batch_norm_bwd x=2x3x4x4 dy=2x3x4x4 scale=1x3x1x1", True),
    ("reduction x=4x16 y=4x1 mode=norm2", True), ("lrn_fwd n2c8h4w4 f32", True),
    ("divisive_norm_fwd n2c8h4w4 f32", True), ("reduction x=4x16 y=4x1 mode=avg", False),
    ("softmax_fwd 4x16 f32", False), ("gen_stats x=2x3x4x4", False)])
def test_sums_of_squares_have_a_note(line, has_limit):
    """Of 1e20, in f32: what kernels give is what NumPy gives, or the plan says that it may not be."""
    graph, rng = of(line), np.random.default_rng(0)
    values = {uid: (rng.normal(size=t.dims) * (1e20 if t.name == "x" else 1)).astype(np.float32)
              for uid, t in graph.tensors.items()}
    assert ("squares_in_compute_type" in best(graph, H200).notes) == has_limit
    assert "squares_in_compute_type" not in best(graph, get("numpy").facts).notes
    want, got = (graphs.run(graph, values, get(name)) for name in ("numpy", "ptx:sm_80"))
    alike = [np.allclose(got[u], want[u], 1e-4, 1e-5 * np.abs(want[u]).max()) for u in want]
    assert all(alike) != has_limit


def test_notes():
    assert "tensor_core" in best(of(CONV), H200).notes
    plain = best(of(CONV), H200, Wish(without_notes=("tensor_core", "winograd")))
    assert "tensor_core" not in plain.notes and plain.engine.index == 109
    assert "deterministic" in best(of(CONV), H200, Wish(deterministic=True)).notes
    with pytest.raises(NotSupported):
        best(of("softmax_fwd 64x64 f32"), H200, Wish(notes=("tensor_core",)))
    fused = conv(tail=[unary(3, 4, "relu_fwd")], y=t(4, IMAGE, "f16", layout="nhwc"))
    assert "runtime_compilation" in best(fused, H200).notes
    assert "runtime_compilation" not in best(of(CONV), H200).notes


def test_workspace_limits():
    """None needs more than is wished for; where none can, the least is said."""
    graph = of("matmul 16x8192 8192x512 f16")
    hungry = best(graph, H200)
    assert hungry.workspace_bytes > 0
    modest = best(graph, H200, Wish(workspace_bytes=hungry.workspace_bytes - 256))
    assert modest.workspace_bytes < hungry.workspace_bytes and modest.us >= hungry.us
    assert all(c.workspace_bytes <= 4096 for c in candidates(of(CONV), H200, Wish(workspace_bytes=4096)))
    with pytest.raises(NotSupported,
                       match="graph: no choice needs at most 0 bytes of workspace; the least is [1-9]"):
        best(of("conv_wgrad n64c64h56w56 k64r3s3 pad1 f16"), H200, Wish(engines=(151,), workspace_bytes=0))


def test_the_least_workspace_that_is_said_is_enough():
    graph, ask = of("conv_wgrad n64c64h56w56 k64r3s3 pad1 f16"), Wish(engines=(151,), workspace_bytes=0)
    with pytest.raises(NotSupported, match="the least is") as caught:
        best(graph, H200, ask)
    least = int(str(caught.value).split("the least is ")[1].split()[0])
    assert best(graph, H200, replace(ask, workspace_bytes=least)).workspace_bytes == least
    with pytest.raises(NotSupported, match=f"the least is {least} bytes"):
        best(graph, H200, replace(ask, workspace_bytes=least - 1))


def test_the_fallback_is_node_by_node():
    tail = [binary(3, 4, 5), unary(5, 6, "relu_fwd")]
    graph = conv(tail=tail, b=t(4, (1, 64, 1, 1)), s=v(5, IMAGE, layout="nhwc"),
                 y=t(6, IMAGE, "f16", layout="nhwc"))
    choice = best(graph, H200, FALLBACK)
    assert [p.region.nodes for p in choice.parts] == [(0,), (1,), (2,)]
    assert choice.engine is COMPOSITE and choice.name == "1:composite"
    assert choice.text.startswith("composite\npart 0: ")
    assert best(graph, H200, Wish(engines=(COMPOSITE.index,))) == choice
    assert best(of(CONV), H200, FALLBACK).engine.index == 119            # of one node nothing is composed
    assert choice in candidates(graph, H200)


def test_a_configuration_of_an_engine_that_has_none():
    with pytest.raises(BadParam, match=r"config of \S+ must be one of \(none\); got depth=2"):
        best(of("softmax_fwd 64x64 f16"), H200, Wish(engines=(211,), config=Config(depth=2)))


def test_without_engines_for_each_node_nothing_is_composed():
    graph = conv(tail=[unary(3, 4, "relu_fwd")], y=t(4, IMAGE, "f16", layout="nhwc"))
    found = candidates(graph, H200, Wish(engines=(110,)))
    assert [[part.engine.index for part in c.parts] for c in found] == [[110]]
    with pytest.raises(NotSupported):
        best(graph, H200, Wish(engines=(110,), mode="fallback"))


def test_configurations():
    graph = of(CONV)
    tile = Wish(engines=(110,), config=Config(tile="m64n64"))
    [only] = candidates(graph, H200, tile)
    assert only.text == "part 0: 110 tile=m64n64"
    assert only.us == BY_INDEX[110].cost(only.parts[0].match, H200, tile.config)
    with pytest.raises(BadParam,
                       match="build: config of 110:conv_fprop_mma must be one of tile=.*; got tile=m1n1"):
        best(graph, H200, Wish(engines=(110,), config=Config(tile="m1n1")))
    two = Graph([Node(SoftmaxFwd(), dict(x=1, y=2)), Node(SoftmaxFwd(), dict(x=2, y=3))], [t(1), v(2), t(3)])
    sentence = "build: config must belong to one engine; got cluster=2 for the engines"
    with pytest.raises(BadParam, match=sentence):
        best(two, H200, Wish(config=Config(cluster=2)))


def test_modes():
    assert best(of(CONV), H200, Wish(mode="b")).text == best(of(CONV), H200).text
    with pytest.raises(BadParam, match="wish: mode must be one of a b fallback; got 'c'"):
        Wish(mode="c")
    assert Wish(engines=(1,)) == FALLBACK and ANYTHING == Wish() and hash(Wish(notes=("tensor_core",)))


@pytest.mark.parametrize("asked, sentence", [
    (dict(engines=110), "engines must be a list of whole numbers of at most 64 bits; got 110"),
    (dict(engines="110"), "engines must be a list of whole numbers"),
    (dict(engines=(1.5,)), "engines must be a list of whole numbers"),
    (dict(without=None), "without must be a list of whole numbers of at most 64 bits; got None"),
    (dict(notes="tensor_core"), "notes must be a list of notes; got 'tensor_core'"),
    (dict(without_notes=[3]), "without_notes must be a text; got 3"),
    (dict(workspace_bytes="8"), "workspace_bytes must be a whole number"),
    (dict(mode=["a"]), "mode must be one of a b fallback; got .'a'."),
    (dict(config="tile=8"), "config must be a Config; got 'tile=8'")])
def test_what_is_no_wish(asked, sentence):
    with pytest.raises(BadParam, match=f"wish: {sentence}"):
        Wish(**asked)
    assert Wish(engines=[110, 111], notes=["winograd"]) == Wish(engines=(110, 111), notes=("winograd",))



# ---- What is made of others ----

def test_types_that_no_engine_takes_are_cast():
    choice = best(of("softmax_fwd x=64x64:i8 y=64x64:bool"), H200)
    assert choice.changes == ("cast 0",)
    assert [p.engine.op.name for p in choice.parts] == ["pointwise", "softmax_fwd", "pointwise"]
    assert parse(choice.text, choice.asked, H200) == choice


def test_no_cover_is_looked_for_while_an_engine_is_missing(monkeypatch):
    room, found = sys.modules["cydnn.heuristics.changes"], []
    plain = room.cheapest
    monkeypatch.setattr(room, "cheapest", lambda *given: found.append(plain(*given)) or found[-1])
    best(of("softmax_fwd x=64x64:i8 y=64x64:bool"), H200)
    assert found and None not in found


def test_casts_do_not_depend_on_names():
    """Of two nodes of one op, the one that was cast is asked for engines, whatever the other is called."""
    def twice(*names):
        nodes = [Node(SoftmaxFwd(), dict(x=x, y=x + 1), name=name) for x, name in zip((1, 3), names)]
        return Graph(nodes, [t(uid, (64, 512), "i8") for uid in (1, 2, 3, 4)])
    choices = [best(twice(*names), H200) for names in (("one", "other"), ("same", "same"))]
    assert [c.changes for c in choices] == [("cast 0", "cast 0")] * 2 and choices[0].us == choices[1].us


def test_ops_that_no_engine_takes_are_lowered():
    choice = best(of("conv_bgrad n8c64h28w28 f16"), T4)
    assert choice.changes == ("lower 0",) and all(p.engine.op is Reduction for p in choice.parts)
    assert choice.text.startswith("lower 0\npart 0: 28")


def test_no_engine_says_why():
    old = replace(T4, name="an old card", sm=61)
    with pytest.raises(NotSupported, match="conv_fprop: no engine takes .* on an old card") as caught:
        best(of("conv_fprop n2c8h5w5 k4r3s3"), old)
    said = str(caught.value)
    assert "109:conv_fprop_simt: needs sm_75 or newer; device is sm_61" in said
    assert "0:reference: runs on the NumPy device; device is cuda" in said
    ragged = Graph([unary(1, 2)], [t(1, ragged=3), t(2), t(3, (3, 1), "i32")])
    with pytest.raises(NotSupported, match="271:pointwise_any: does not understand ragged: uid 1"):
        best(ragged, H200)


# ---- Text ----

@pytest.mark.parametrize("text, sentence", [
    ("part 0: 999", "choice: there must be an engine 999; got 'part 0: 999'"),
    ("part 0: 1", "choice: there must be an engine 1; got"),
    ("part 0 110", r"choice: a line must be `part NODES: ENGINE \[knob=value …\]`; got 'part 0 110'"),
    ("part 5: 110", "choice: nodes must be below 2; got 'part 5: 110'"),
    ("part 0: 110 tile=m1n1\npart 1: 271", "choice: config: tile must be one of .*; got 'm1n1'"),
    ("part 0: 110 size=4\npart 1: 271", "choice: config: knob must be one of tile; got 'size'"),
    ("part 0: 111 tile=m64n64\npart 1: 271",
     "choice: 111:conv_fprop_mma_repack must take its nodes: x and y are packed NHWC"),
    ("part 0 1: 111 tile=m64n64",
     "111:conv_fprop_mma_repack must take its nodes: it does not take nodes like these"),
    ("part 0: 110 tile=m64n64", r"choice: every node must be in one part; got abs34 \(node 1\) in 0"),
    ("part 1: 271\npart 0: 110 tile=m64n64",
     "choice: its parts must stand in the order in which they run; got parts that run as 1, 0"),
    ("lower 7\npart 0: 110", "choice: lower must name one of the nodes 0 to 1; got 'lower 7'"),
    ("lower 0\npart 0: 110", "choice: conv has nothing to lower; got 'lower 0'"),
    ("compose 1\npart 0: 110", "choice: abs34 has nothing to compose; got 'compose 1'"),
    ("nonsense", "choice: a line must be"),
    ("", r"choice: every node must be in one part; got conv \(node 0\) in 0"),
])
def test_texts_that_are_no_choice(text, sentence):
    graph = conv(tail=[unary(3, 4)], y=t(4, IMAGE, "f16", layout="nhwc"))
    with pytest.raises(BadParam, match=sentence):
        parse(text, graph, H200)


def test_two_anchors_are_no_part():
    graph = Graph([Node(SoftmaxFwd(), dict(x=1, y=2), name="one"),
                   Node(SoftmaxFwd(), dict(x=2, y=3), name="two")], [t(1), v(2), t(3)])
    with pytest.raises(BadParam,
                       match="choice: at most one node may be no pointwise operation: one, two; got"):
        parse("part 0 1: 211", graph, H200)


def test_explanations():
    tail = [binary(3, 4, 5), unary(5, 6, "relu_fwd")]
    graph = conv(tail=tail, b=t(4, (1, 64, 1, 1)), s=v(5, IMAGE, layout="nhwc"),
                 y=t(6, IMAGE, "f16", layout="nhwc"))
    choice = best(graph, H200)
    said = choice.explain()
    assert "119:conv_fprop_halo: conv, add5, relu_fwd56" in said
    assert "    111:conv_fprop_mma_repack refused: takes no operations around it" in said
    assert said.endswith(f"{choice.us:.1f} us in all, {choice.workspace_bytes} bytes of workspace")


def test_numbers_in_memory_are_understood_by_regions():
    """A factor that a tensor in memory gives: behind an anchor and in a region, spliced code reads it."""
    tail = [Node(Pointwise(mode="abs"), dict(x=3, y=4), dict(alpha=FromTensor(9)))]
    graph = conv(tail=tail, y=t(4, IMAGE, "f16", layout="nhwc"), a=t(9, (1, 1, 1, 1)))
    (part,) = best(graph, H200).parts
    assert part.engine.index == 119


def test_equal_choices_of_other_graphs_differ():
    one, other = best(of(CONV), H200), best(of(CONV.replace("n256", "n257")), H200)
    assert one.text == other.text and one != other and isinstance(one, Choice)
    assert best(of("conv_wgrad n8c64h28w28 k64r3s3 pad1 f16 nhwc"), H200).engine.op is ConvWgrad


@pytest.mark.parametrize("line, wish, keeps", [
    (CONV, ANYTHING, True), (CONV, Wish(notes=("winograd",)), False), (CONV, Wish(notes=("fft",)), False),
    ("pooling_fwd n2c8h8w8 window=2 mode=max f32", ANYTHING, False),
    ("pooling_fwd n2c8h8w8 window=2 mode=max nan=propagate f32", ANYTHING, True)])
def test_where_a_nan_goes_has_a_note(line, wish, keeps):
    assert ("strict_nan_prop" in best(of(line), H200, wish).notes) == keeps
