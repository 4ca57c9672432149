"""Convolutions with pointwise operations in front of x: spliced in, or rounded to the workspace; what is
rounded, and who says so."""
from __future__ import annotations

import re

import numpy as np
import pytest

from cydnn import device as devices, plan
from cydnn.bench import summed
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.graph import Graph, Match, Node, Tensor
from cydnn.heuristics import Wish, best, candidates
from cydnn.ops import Pointwise, Problem
from cydnn.tensor import TensorDesc
from support.check import hopper, sums
from support.draw import graphs

LINES = {"whole tiles": "conv_fprop n2c40h8w16 k128r1s1 bf16 nhwc",
         "padding": "conv_fprop n2c72h9w11 k136r1s2 pad1 f16 nhwc",
         "elements": "conv_fprop n1c24h9w11 k21r2s1 f16 nhwc",
         "groups": "conv_fprop n1c128h9w10 k144r3s3 pad1 groups=2 bf16 nhwc",
         "in space": "conv_fprop n2c16d3h5w6 k128t2r3s2 stride=2,1,3 dilation=1,2,1 pre_pad=1,0,2 "
                     "post_pad=0,2,1 mode=convolution f16 nhwc"}


def alone(line, between="f32", tail=""):
    """The same without sums behind it."""
    made = sums.fronted(sums.graph_of(Problem.parse(line), tail), between)
    return Graph(made.nodes[:-1], [t for t in made.tensors.values() if t.uid not in (sums.OUT, sums.SQUARES)])


def chosen(graph, engine, facts=hopper.H200):
    """The cheapest choice whose convolution an engine computes."""
    return candidates(graph, facts, Wish(engines=(engine, 490, 270, 271)))[0]


def differences(graph, engine) -> list:
    values, device = sums.values_of(graph, np.random.default_rng(0)), hopper.device(3)
    got = graphs.execute(plan.made(chosen(graph, engine, device.facts), device), values)
    return graphs.differences(graph, got, graphs.run(graph, values, devices.get("numpy")))


@pytest.mark.share(4)
@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.parametrize("engine", [160, 161, 162])
def test_values(line, engine):
    """The very bits of small whole numbers, with sums and without."""
    between = line.split()[-2] if engine == 160 else "f32"
    graph = sums.fronted(sums.graph_of(Problem.parse(line), "relu" if "c24" in line else ""), between)
    assert not differences(graph, engine)
    assert not differences(alone(line, between, "relu" if "c40" in line else ""), engine)


@pytest.mark.parametrize("engine", [161, 162])
def test_x_is_rounded_once(engine):
    """To the type of w, as a tensor of that type between the operations would; and no more than that."""
    graph, device = alone(LINES["whole tiles"]), hopper.device(3)
    rng = np.random.default_rng(1)
    values = sums.values_of(graph, rng, lambda dims: rng.normal(0.25, 1, dims))
    values = {uid: graph.tensors[uid].dtype.round(v) for uid, v in values.items()}
    choice = chosen(graph, engine, device.facts)
    got = graphs.execute(plan.made(choice, device), values)[sums.MADE]
    want, exact = (graphs.run(g, values, devices.get("numpy"))[sums.MADE].astype(np.float64)
                   for g in (graphs.rounded(graph, choice), graph))
    room = 2.0 ** -7 * np.abs(want) + 1e-3                    # the last place of y, and sums of f32
    assert (np.abs(got - want) <= room).all() and (want != exact).any()


def test_what_rounds_says_so_and_can_be_left_out():
    graph = summed(Problem.parse("conv_fprop n64c256h28w28 k128r1s1 f16 nhwc"), "prologue")
    wish = Wish(without_notes=("down_convert_inputs",))
    rounds, exact = best(graph, hopper.H200), best(graph, hopper.H200, wish)
    assert [p.engine.index for p in rounds.parts] == [161] and "down_convert_inputs" in rounds.notes
    assert "down_convert_inputs" in plan.explain(graph, "h200")
    assert exact.parts[0].engine.index == 100 and "down_convert_inputs" not in exact.notes
    line = "conv_fprop n64c256h28w28 k128r1s1 f16 nhwc"
    narrow = sums.fronted(sums.graph_of(Problem.parse(line), ""), "f16")
    assert [p.engine.index for p in best(narrow, hopper.H200).parts] == [160]


@pytest.mark.parametrize("line, first", [("conv_fprop n64c256h56w56 k64r1s1 f16 nhwc", 161),
                                         ("conv_fprop n64c64h56w56 k64r3s3 pad1 f16 nhwc", 162),
                                         ("conv_fprop n64c256h14w14 k256r3s3 pad1 bf16 nhwc", 162)])
def test_the_cheaper_way_is_chosen(line, first):
    """Spliced in where there is one tap; rounded apart where a pixel would be changed for each of nine."""
    assert best(summed(Problem.parse(line), "prologue"), hopper.H200).parts[0].engine.index == first


def test_older_cards_round_apart():
    graph = summed(Problem.parse("conv_fprop n64c256h28w28 k128r3s3 pad1 f16 nhwc"), "prologue")
    assert best(graph, KNOWN["a100"]).parts[0].engine.index == 162


def reasons(engine, graph) -> tuple:
    number = next(i for i, node in enumerate(graph.nodes) if node.op.name == "conv_fprop")
    before = {"x": (1 << number) - 1} if number else {}
    return BY_INDEX[engine].reasons(Match.around(graph, number, (1 << number + 1) - 1, before), hopper.H200)


def beside(line, where):
    """A graph whose x is made of another tensor of its dims, or of a value of each pixel."""
    graph = alone(line)
    x = graph.tensors[sums.X].desc
    dims = x.dims if where == "image" else tuple(1 if i < 2 else d for i, d in enumerate(x.dims))
    tensors = {**graph.tensors, sums.SHIFT: Tensor(sums.SHIFT, TensorDesc.packed(x.dtype, dims, "nhwc"))}
    return Graph(graph.nodes, tensors)


def computed(line, compute):
    graph = alone(line)
    nodes = [Node(Pointwise(mode="mul", compute=compute), n.operands) if n.op == Pointwise(mode="mul") else n
             for n in graph.nodes]
    return Graph(nodes, graph.tensors)


ODD = "conv_fprop x=1x12x4x4:f16@384,1,96,24 w=8x12x1x1:f16@16,1,16,16 y=1x8x4x4:f16@nhwc"
PLAIN = "conv_fprop n1c64h4w4 k64r1s1 f16 nhwc"
REFUSED = [(160, alone(PLAIN), "x must have the type of w, f16, between the operations; got f32"),
           (161, alone(PLAIN, "f16"), "x must be f32 between the operations, which is rounded to f16; got"),
           (162, alone(PLAIN, "f16"), "x must be f32 between the operations, which is rounded; got f16"),
           (161, beside(PLAIN, "image"), "must read one tensor of its dims"),
           (161, beside(PLAIN, "pixels"), "do not have the coordinates"),
           (161, computed(PLAIN, "f64"), "operations in front of x must compute in f32; got f32 f64"),
           (161, alone(ODD), "channels of a group must be a multiple of 8; got 12"),
           (161, alone("conv_fprop n1c64h40w40 k8r17s17 f16 nhwc"), "32 taps"),
           (162, alone("conv_fprop n1c8h4w4 k8r1s1 f32 nhwc"), "w must be one of f16 bf16; got f32"),
           (162, alone("conv_fprop n1c8h4w4 k8r1s1 f16 acc=f64 nhwc"), "conv_fprop on what is rounded: ")]


@pytest.mark.parametrize("engine, graph, sentence", REFUSED, ids=[f"{e} {s[-24:]}" for e, _, s in REFUSED])
def test_what_is_refused(engine, graph, sentence):
    found = reasons(engine, graph)
    assert any(re.search(re.escape(sentence), reason) for reason in found), found
