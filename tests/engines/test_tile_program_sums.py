"""Sums of columns that Hopper's tile program makes of what leaves it: GenStats, the gradient of a bias."""
from __future__ import annotations

import re

import numpy as np
import pytest

from cydnn import plan
from cydnn.engines import BY_INDEX
from cydnn.graph import Graph, Match, Node, Tensor
from cydnn.heuristics import Wish, best
from cydnn.heuristics.offers import Offers
from cydnn.heuristics.read import parse
from cydnn.ops import Problem, Reduction
from cydnn.status import InternalError
from cydnn.tensor import TensorDesc
from support.draw import graphs
from support.check import hopper, sums

LINES = {"whole tiles": "conv_fprop n2c40h8w16 k128r1s1 bf16 nhwc",
         "parts of tiles": "conv_fprop n2c72h9w11 k136r1s2 pad1 f16 nhwc",
         "elements": "conv_fprop n1c24h9w11 k21r2s1 f16 nhwc",
         "groups": "conv_fprop n1c128h9w10 k144r1s1 groups=2 bf16 nhwc",
         "one dim": "conv_dgrad dy=2x40x1x90:f16@3600,1,3600,40 w=40x72x1x3:f16@216,1,216,72 "
                    "dx=2x72x1x90:f16@6480,1,6480,72 pre_pad=0,1 post_pad=0,1",
         "gradient": "conv_dgrad n2c136h9w10 k40r3s1 pad1 bf16 nhwc",
         "product": "matmul a=200x72 b=72x264 c=200x264 f16",
         "one row": "matmul a=1x72 b=72x136 c=1x136 bf16",
         "product across": "matmul a=130x72@1,136 b=72x200@1,72 c=130x200 bf16"}
FORMS = [("memory", "f32"), ("virtual", "f32"), ("virtual", "f16")]


@pytest.mark.share(4)
@pytest.mark.parametrize("end", sums.ENDS)
@pytest.mark.parametrize("tail", sums.TAILS)
@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_values(line, tail, end):
    """The very bits of small whole numbers, whether or not what is added up is stored."""
    kept, inner = FORMS[len(line + tail + end) % 3]
    graph = sums.graph_of(Problem.parse(line), tail, end, kept, inner)
    tile = ("128x256", "128x128")[len(line + tail) % 2]
    assert not sums.differences(hopper.device(3), graph, lambda c: c.tile == tile)


@pytest.mark.share(1)
@pytest.mark.parametrize("line", ["conv_fprop n1c24h9w16 k136r1s1 bf16 nhwc",
                                  "matmul a=130x72 b=72x136 c=130x136 f16"])
def test_random_numbers_and_the_same_bits(line):
    """The sums are those of what is stored; they do not depend on the tile, nor on the order of warps."""
    graph, machine, found = sums.graph_of(Problem.parse(line)), hopper.device(3), []
    rng = np.random.default_rng(1)
    values = sums.values_of(graph, rng, lambda dims: rng.normal(0.25, 1, dims))
    for tile, seed in (("128x256", 0), ("128x128", 1), ("128x128", 2)):
        machine.seed = seed
        choice = sums.choice_of(graph, machine.facts, is_meant=lambda c: c.tile == tile and c.store == "rows")
        found.append(graphs.execute(plan.made(choice, machine), values))
        assert not sums.too_far(graph, found[-1])
    for other in found[1:]:
        assert all((other[uid] == found[0][uid]).all() for uid in other)


def test_a_wrong_sum_is_seen():
    """What these tests compare by is not blind."""
    graph = sums.graph_of(Problem.parse(LINES["product"]))
    got = {sums.Y: np.ones((200, 264)), **dict.fromkeys((sums.OUT, sums.SQUARES), np.full((1, 264), 200.0))}
    assert not sums.too_far(graph, got)
    assert sums.too_far(graph, {**got, sums.SQUARES: got[sums.SQUARES] + 0.01})


PRODUCT = "matmul a=4x130x72 b=4x72x264 c=4x130x264 f16"
REFUSED = {                                      # (line, the last op, its dims, its numbers, sentence)
    "mode": (LINES["product"], Reduction(mode="max"), None, {}, "must add; got max"),
    "compute": (LINES["product"], Reduction(mode="add", compute="f64"), None, {}, "must be f32; got f64"),
    "numbers": (LINES["product"], Reduction(mode="add"), None, dict(alpha=2.0), r"1 and 0; got .*2\.0"),
    "another dim": (LINES["product"], Reduction(mode="add"), (200, 1), {},
                    r"must be of columns, of dims \(1, 264\); got \(200, 1\)"),
    "nothing": ("matmul a=0x72 b=72x264 c=0x264 f16", Reduction(mode="add"), None, {},
                r"must have elements; got dims \(0, 264\)"),
    "matrices": (PRODUCT, Reduction(mode="add"), None, {}, "must be of one matrix; got 4"),
    "stride": ("conv_dgrad n2c72h9w11 k64r3s3 pad1 stride2 f16 nhwc", Reduction(mode="add"), None, {},
               r"stride must be 1 .*; got \(1, 2, 2\)")}


@pytest.mark.parametrize("line, op, dims, numbers, sentence", REFUSED.values(), ids=REFUSED)
def test_what_is_refused_runs_in_parts(line, op, dims, numbers, sentence):
    made = sums.graph_of(Problem.parse(line), "relu", "bias")
    tensors = [t if t.uid != sums.OUT else Tensor(t.uid, TensorDesc.packed("f32", dims or t.dims))
               for t in made.tensors.values()]
    graph = Graph([*made.nodes[:-1], Node(op, dict(x=sums.Y, y=sums.OUT), numbers)], tensors)
    engine = BY_INDEX[sums.INDEX[graph.nodes[0].op.name]]
    reasons = engine.reasons(Match.around(graph, 0, 0b1111), hopper.H200)
    assert any(re.search(sentence, reason) for reason in reasons), reasons
    assert len(best(graph, hopper.H200).parts) > 1


def test_the_last_node_alone_is_taken():
    """One that reads something else beside, or a second one, is not."""
    made = sums.graph_of(Problem.parse(LINES["product"]), "relu")
    more = [Tensor(20, TensorDesc.packed("f32", (1, 264))), *made.tensors.values()]
    graph = Graph([*made.nodes, Node(Reduction(mode="add"), dict(x=sums.Y, y=20))], more)
    masks = {p.region.mask for p in Offers(graph, hopper.H200, Wish(engines=(189,))).anchored(0)}
    assert {0b1111, 0b10111} <= masks and 0b11111 not in masks
    text = "part 0 1 2 3: 189 tile=128x128 splits=1 store=tma cluster_k=1\npart 4: 281"
    assert not sums.differences(hopper.device(2), graph, choice=parse(text, graph, hopper.device(2).facts))


def test_rows_of_a_batch_are_of_one_matrix():
    """Where they lie behind each other, and b is one."""
    graph = sums.graph_of(Problem.parse("matmul a=3x70x72 b=1x72x136 c=3x70x136 f16"), "relu", "bias")
    assert not sums.differences(hopper.device(2), graph)
    alone = sums.graph_of(Problem.parse("matmul a=30x1x72 b=1x72x136 c=30x1x136@160,136,1 bf16"), "", "bias")
    assert not sums.differences(hopper.device(2), alone)


def test_a_plan_that_leaves_an_output_out_is_refused(monkeypatch):
    """Here of an engine that would launch its product alone."""
    graph = sums.graph_of(Problem.parse(LINES["product"]), "", "bias", "virtual")
    choice = sums.choice_of(graph, hopper.H200)
    monkeypatch.setattr(type(choice.engine), "plan", lambda self, p, dev, config: [])
    with pytest.raises(InternalError, match="every output of `part 0 1: 189 .*`; none writes uid 7"):
        choice.steps


def test_copies_of_operands():
    """Of strides that TMA cannot read."""
    graph = sums.graph_of(Problem.parse("matmul a=150x70 b=70x136 c=150x136 f16"))
    assert not sums.differences(hopper.device(2), graph, engine=BY_INDEX[187])


@pytest.mark.parametrize("line", ["conv_fprop n32c64h56w56 k256r1s1 f16 nhwc",
                                  "conv_dgrad n256c256h14w14 k256r3s3 pad1 bf16 nhwc",
                                  "matmul a=8192x4096 b=4096x1024 c=8192x1024 bf16"])
@pytest.mark.parametrize("tail, end", [("", "stats"), ("relu", "stats"), ("relu_bwd", "bias")])
def test_it_is_chosen(line, tail, end):
    """One part, of what the room that chooses takes for an H200; its text reads back."""
    graph = sums.graph_of(Problem.parse(line), tail, end)
    choice = best(graph, hopper.H200)
    assert [p.engine.index for p in choice.parts] == [sums.INDEX[graph.nodes[0].op.name]]
    assert parse(choice.text, graph, hopper.H200).text == choice.text


def test_node_by_node_nothing_is_last():
    graph = sums.graph_of(Problem.parse(LINES["product"]), "", "bias")
    parts = best(graph, hopper.H200, Wish(mode="fallback")).parts
    assert [part.match.last for part in parts] == [None, None]
    match = Match.around(graph, 0, 0b11)
    assert BY_INDEX[189].fits(match) and not BY_INDEX[190].fits(match)
