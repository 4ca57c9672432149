"""Convolutions of volumes as those of images, on the interpreter: random problems, who is chosen, where a NaN
goes, and what is refused."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn import device as devices, plan
from cydnn.bench import graph_of
from cydnn.engines import BY_INDEX
from cydnn.engines.conv import folded
from cydnn.graph import Graph, Match, Node, Tensor
from cydnn.heuristics import Wish, best
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad, Pointwise, Problem
from cydnn.tensor import TensorDesc
from support.check import fused, hopper
from support.check.hopper import H200
from support.check.matrix import blended
from support.draw import graphs
from support.draw.alone import match

ENGINES = {ConvFprop: BY_INDEX[173], ConvDgrad: BY_INDEX[174], ConvWgrad: BY_INDEX[175]}
EACH = pytest.mark.parametrize("op", ENGINES, ids=lambda op: op.name)


def drawn(rng, op_class) -> Problem:
    """Filters along the depth, or along height and width; of few channels, of 64, or of one each."""
    kind, along = rng.choice(["f16", "bf16"]), rng.choice([(0,), (1, 2)])
    groups = rng.choice([1, 1, 32])
    c, k = rng.choice([(3, 16), (64, 64), (8, 8)]) if groups == 1 else (32, 32)
    taps, pads, stride = [1] * 3, [0] * 3, [1] * 3
    step = rng.choice([1, 1, 2])
    for i in along:
        taps[i], pads[i], stride[i] = rng.choice([3, 3, 5]), rng.randint(0, 2), step
    op = op_class(pre_pad=pads, post_pad=pads, stride=stride,
                  mode=rng.choice(["cross_correlation", "convolution"]))
    x, w = (rng.randint(1, 3), c, *(rng.randint(5, 9) for _ in "dhw")), (k, c // groups, *taps)
    dims = dict(zip(op.parts, (x, w, op.out_dims(x, w))))
    layout = rng.choice(["nhwc", "nhwc", "nchw"]) if groups > 1 else "nhwc"
    return Problem(op, {name: TensorDesc.packed(kind, dims[name], layout)
                        for name in (*op.reads, *op.writes)})


@pytest.mark.share(3)
@EACH
@pytest.mark.parametrize("seed", range(8))
def test_random_problems(op, seed):
    hopper.check_drawn(ENGINES[op], lambda rng: drawn(rng, op), seed)


@EACH
def test_the_first_layer_of_a_video(op):
    graph = graph_of(Problem.parse(f"{op.name} n8c3d32h224w224 k64t1r7s7 pad=0,3,3 stride=1,2,2 bf16 nhwc"))
    assert [part.engine for part in best(graph, H200).parts] == [ENGINES[op]]


@EACH
@pytest.mark.parametrize("form", ["n2c3d2h6w8 k8t1r3s3 pad=0,1,1 stride=1,2,2 f16 nhwc",
                                  "n1c8d6h3w4 k8t3r1s1 f16 nhwc"])
def test_nan_stays_with_its_windows(op, form):
    problem = Problem.parse(f"{op.name} {form}")
    outcome = hopper.watched.run(problem, hopper.device(3), 1, [ENGINES[op]], nans=(op.reads[0],))
    assert outcome.ran and not outcome.findings, outcome


@pytest.mark.parametrize("form, pair", [("n2c3d2h6w8 k8t1r3s3 pad=0,1,1 stride=1,2,2", folded.IMAGES),
                                        ("n1c3d9h4w4 k16t5r1s1 pad=2,0,0 stride=3,1,1", folded.PIXELS)])
def test_magnitudes_are_those_of_the_images(form, pair):
    problem, gen = Problem.parse(f"conv_dgrad {form} f16 nhwc"), np.random.default_rng(1)
    arrays = {name: gen.normal(size=desc.dims) for name, desc in problem.operands.items()}
    arrays["dy"][0, 0, 1, 0, 0] = np.nan
    scalars = dict(alpha=1.0, beta=0.0)
    results = problem.op.evaluate(arrays, scalars)
    found = ENGINES[ConvDgrad].magnitude(problem.op, arrays, scalars, results)["dx"]
    images = {name: folded.folded(values, pair) for name, values in {**arrays, **results}.items()}
    images["w"] = arrays["w"][:, :, 0] if pair == folded.IMAGES else arrays["w"][..., 0]
    want = BY_INDEX[138].magnitude(folded.flat(problem.op, pair), images, scalars, {"dx": images["dx"]})["dx"]
    np.testing.assert_array_equal(folded.folded(found, pair), want)
    assert np.isnan(found[np.isnan(results["dx"])]).all()


@pytest.mark.parametrize("line", ["conv_fprop n1c3d2h6w8 k16t1r3s3 pad=0,1,1 stride=1,2,2 f16 nhwc",
                                  "conv_fprop n1c64d4h3w4 k64t3r1s1 pad=1,0,0 bf16 nhwc",
                                  "conv_dgrad n1c64d2h5w6 k64t1r3s3 pad=0,1,1 bf16 nhwc"])
def test_what_is_fused(line):
    graph = fused.graph_of(problem := Problem.parse(line), alpha=2.0)
    values, wish = fused.values_of(graph), Wish(engines=(ENGINES[type(problem.op)].index,))
    choice = best(graph, H200, wish)
    assert len(choice.parts) == 1
    got = graphs.execute(plan.build(graph, hopper.device(3), wish), values)
    assert not graphs.differences(graph, got, graphs.run(graph, values, devices.get("numpy")))


@pytest.mark.parametrize("other, sentence", [
    (dict(mode="gen_index", axis=2), "what is behind y must not count a dim of the volume; got gen_index"),
    (dict(mode="add"), "and of what is behind them, that become one must be one in memory; got taps (1, 3")],
    ids=["counted", "a depth"])
def test_what_does_not_fold(other, sentence):
    """A dim that is counted; a number for each depth."""
    desc = Problem.parse("conv_fprop n2c64d4h6w8 k64t1r3s3 pad=0,1,1 f16 nhwc").operands
    depths = TensorDesc.packed("f16", (1, 1, 4, 1, 1))
    tensors = [Tensor(1, desc["x"]), Tensor(2, desc["w"]), Tensor(3, desc["y"], "virtual"),
               Tensor(4, desc["y"]), Tensor(5, depths)]
    reads = dict(x=3) if "axis" in other else dict(x=3, b=5)
    nodes = [Node(ConvFprop(pre_pad=(0, 1, 1), post_pad=(0, 1, 1)), dict(x=1, w=2, y=3)),
             Node(Pointwise(**other), dict(reads, y=4))]
    graph = Graph(nodes, tensors[:5 if "axis" not in other else 4])
    assert sentence in "; ".join(ENGINES[ConvFprop].reasons(Match.around(graph, 0, 3), H200))


@pytest.mark.parametrize("layout, leaves, is_taken", [("nhwc", True, True), ("nchw", True, False),
                                                      ("nchw", False, True)])
def test_what_lies_between_nodes(layout, leaves, is_taken):
    """A tensor inside of a graph is in memory, in its own layout, where it leaves the region."""
    desc = Problem.parse("conv_fprop n2c64d4h6w8 k64t1r3s3 pad=0,1,1 f16 nhwc").operands
    between = TensorDesc.packed("f16", desc["y"].dims, layout)
    tensors = [Tensor(1, desc["x"]), Tensor(2, desc["w"]), Tensor(3, between, "virtual"),
               Tensor(4, desc["y"])]
    graph = Graph([Node(ConvFprop(pre_pad=(0, 1, 1), post_pad=(0, 1, 1)), dict(x=1, w=2, y=3)),
                   Node(Pointwise(mode="relu_fwd"), dict(x=3, y=4))], tensors)
    found = Match.around(graph, 0, 1 if leaves else 3)
    assert ENGINES[ConvFprop].accepts(found, H200) == is_taken


@EACH
def test_blended(op):
    problem = Problem.parse(f"{op.name} n2c64d3h6w8 k64t1r3s3 pad=0,1,1 f16 nhwc")
    hopper.check(ENGINES[op], problem, ENGINES[op].best(match(problem), H200), blended)


@EACH
@pytest.mark.parametrize("form, sentence", [
    ("n1c64h8w8 k64r3s3 pad1 f16 nhwc", "images must have 3 spatial dims; got 2"),
    ("n1c64d4h8w8 k64t3r3s3 pad1 f16 nhwc", " must have one tap along the depth, or along height and width,"),
    ("n1c64d4h8w8 k64t1r3s3 pad1 f16 nhwc", "unit strides and without padding there"),
    ("n2c64d4h8w8 k64t1r3s3 pad=0,1,1 f16", "must be one in memory; got taps (1, 3, 3), strides (16384, "),
    ("n1c64d4h8w8 k64t1r3s3 pad=0,1,1 f16 nhwc acc=f64", "no engine takes the convolution of images: ")])
def test_refusals(op, form, sentence):
    p = match(Problem.parse(f"{op.name} {form}"))
    assert any(sentence in reason for reason in ENGINES[op].refuse(p, H200))
