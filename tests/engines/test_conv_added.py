"""Gradients whose sums are added atomically, and tables of offsets: results, refusals, who may ask."""
from __future__ import annotations

import pytest

from cydnn.bench import graph_of
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.heuristics import Wish, best, candidates
from cydnn.ops.problem import Problem
from cydnn.steps import Launch, Memset
from support.draw.alone import match, steps
from support.check.matrix import blended, run

H200 = KNOWN["h200"]
INDEXED = {116: "conv_fprop"}
ATOMIC = {136: "conv_dgrad", 154: "conv_wgrad", 155: "conv_wgrad"}
LINES = ["n2c5h7w6 k6r3s3 pad1 f32", "n2c8h9w5 k4r3s3 pre_pad=0,2 post_pad=3,0 stride2 f32 nhwc",
         "n1c3h8w8 k5r3s2 pad3 f16 mode=convolution", "n2c4h8w8 k8r3s3 groups=2 pad1 bf16 nhwc",
         "n1c1h1w1 k1r3s3 pad1 f64 acc=f64", "n3c7h9 k5r3 dil2 pad2 f32",
         "n2c3d3h4w5 k5t2r2s2 pre_pad=1,0,2 post_pad=0,2,1 stride=2,2,1 dilation=1,2,1 mode=convolution f32",
         "n0c4h4w4 k4r3s3 f32"]


@pytest.mark.parametrize("index, op", [*ATOMIC.items(), *INDEXED.items()])
@pytest.mark.parametrize("line", LINES)
def test_on_the_interpreter(index, op, line):
    problem = Problem.parse(f"{op} {line}")
    for numbers in (dict(problem.op.scalars), blended(problem.op)):
        outcome = run(problem, get("ptx:sm_80"), 5, [BY_INDEX[index]], scalars=numbers)
        assert list(outcome.ran) == [BY_INDEX[index].name] and not outcome.findings


@pytest.mark.parametrize("index, line", [
    (136, "conv_dgrad dy=2x6x5x5:f16 w=6x4x3x3:f16 dx=2x4x7x7:f32"),
    (154, "conv_wgrad x=2x4x7x7:f16 dy=2x6x5x5:f16 dw=6x4x3x3:f32"),
    (154, "conv_wgrad x=2x4x7x7:f32 dy=2x6x5x5:f32 dw=6x4x3x3:f32@40,10,3,1"),
    (136, "conv_dgrad dy=2x6x5x5:f32 w=6x4x3x3:f32 dx=2x4x7x7:f32@1,200,2,15")])
def test_outputs_of_the_sums_type_and_with_gaps(index, line):
    problem = Problem.parse(line)
    outcome = run(problem, get("ptx:sm_80"), 2, [BY_INDEX[index]], scalars=blended(problem.op))
    assert outcome.ran and not outcome.findings


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_a_factor_counts_where_nothing_is_added(kind):
    """Three of four pixels get no sum: they are alpha times 0."""
    problem = Problem.parse(f"conv_dgrad n2c4h8w8 k4r1s1 stride2 {kind}")
    outcome = run(problem, get("ptx:sm_80"), 3, [BY_INDEX[136]], scalars=dict(alpha=float("nan"), beta=0.0))
    assert outcome.ran and not outcome.findings


@pytest.mark.parametrize("index, op", ATOMIC.items())
def test_where_they_add(index, op):
    """16-bit outputs get an f32 image of themselves, which begins at 0 and is blended at the end;
    others are scaled first, by a launch that does not read them where beta is 0."""
    kinds = lambda t: [type(s) if isinstance(s, Memset) else s.kernel for s in steps(
        BY_INDEX[index], match(Problem.parse(f"{op} n4c8h9w9 k8r3s3 pad1 {t}")), H200)
        if isinstance(s, Memset) or s.kernel.startswith("conv_blend")]
    assert kinds("f32") == ["conv_blend_f32"] and kinds("f16") == [Memset, "conv_blend_f16"]
    plan = steps(BY_INDEX[index], match(Problem.parse(f"{op} n4c8h9w9 k8r3s3 pad1 f32")), H200)
    assert isinstance(plan[0], Launch) and plan[0].args["sums"] is None


def test_who_may_ask():
    for index, op in ATOMIC.items():
        graph = graph_of(Problem.parse(f"{op} n64c512h7w7 k512r3s3 pad1 f32"))
        found = lambda wish: {c.engine.index for c in candidates(graph, H200, wish)}
        assert index not in found(Wish()) and index in found(Wish(notes=("nondeterministic",)))
        choice = best(graph, H200, Wish(engines=(index,)))
        assert choice.engine.index == index and "deterministic" not in choice.notes


@pytest.mark.parametrize("index, line, sentence", [
    (136, "conv_dgrad dy=2x6x5x5:f32 w=6x4x3x3:f32 dx=2x4x7x7:f16",
     "dx must be f32 like dy, or f32; got f16"),
    (154, "conv_wgrad n2c4h7w7 k6r3s3 i8", "x must be one of f64 f32 f16 bf16; got i8"),
    (155, "conv_wgrad n2c4h7w7 k6r3s3 f16 acc=f64", "compute must be f32 for f16 tensors; got f64")])
def test_refusals(index, line, sentence):
    assert sentence in list(BY_INDEX[index].refuse(match(Problem.parse(line)), H200))
