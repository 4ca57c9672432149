"""Convolutions of few channels on one side that engines of first layers compute, on the interpreter: random
problems, what is fused, who is chosen, where a NaN goes, and what is refused."""
from __future__ import annotations

import pytest

from cydnn import device as devices, plan
from cydnn.bench import graph_of
from cydnn.engines import BY_INDEX
from cydnn.heuristics import Wish, best
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad, Problem
from cydnn.tensor import TensorDesc
from support.check import fused, hopper
from support.check.hopper import H200
from support.check.matrix import blended
from support.draw import graphs
from support.draw.alone import match

ENGINES = {ConvFprop: BY_INDEX[168], ConvDgrad: BY_INDEX[169], ConvWgrad: BY_INDEX[170]}
EACH = pytest.mark.parametrize("op", ENGINES, ids=lambda op: op.name)


def drawn(rng, op_class) -> Problem:
    """Few filters; gaps between taps along the height alone, which all engines of first layers take."""
    kind, rank = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2])
    c, k = rng.choice([8, 16, 40, 64, 72]), rng.randint(1, 8)
    taps = [rng.randint(1, 4) for _ in range(rank)]
    gaps = [*(rng.choice([1, 2]) for _ in range(rank - 1)), 1]
    far = [(n - 1) * gap for n, gap in zip(taps, gaps)]
    pads = [tuple(rng.randint(0, most) for most in far) for _ in "ab"]
    image = [rng.randint(most + 1, 12) for most in far]
    op = op_class(pre_pad=pads[0], post_pad=pads[1], dilation=tuple(gaps),
                  mode=rng.choice(["cross_correlation", "convolution"]))
    x, w = (rng.randint(1, 3), c, *image), (k, c, *taps)
    dims = dict(zip(op.parts, (x, w, op.out_dims(x, w))))
    layout = lambda name: rng.choice(["nchw", "nhwc"]) if name == op.parts[1] else "nhwc"
    return Problem(op, {name: TensorDesc.packed(kind, dims[name], layout(name))
                        for name in (*op.reads, *op.writes)})


@pytest.mark.share(3)
@EACH
@pytest.mark.parametrize("seed", range(8))
def test_random_problems(op, seed):
    hopper.check_drawn(ENGINES[op], lambda rng: drawn(rng, op), seed)


@pytest.mark.parametrize("line", ["conv_fprop n1c40h5w9 k3r3s3 pad1 f16 nhwc",
                                  "conv_dgrad n1c40h5w9 k3r3s3 pad1 bf16 nhwc"])
def test_what_is_fused(line):
    graph = fused.graph_of(problem := Problem.parse(line), alpha=2.0)
    values, wish = fused.values_of(graph), Wish(engines=(ENGINES[type(problem.op)].index,))
    got = graphs.execute(plan.build(graph, hopper.device(3), wish), values)
    assert not graphs.differences(graph, got, graphs.run(graph, values, devices.get("numpy")))


@EACH
def test_the_last_layer_of_a_decoder(op):
    graph = graph_of(Problem.parse(f"{op.name} n1c128h512w512 k3r3s3 pad1 f16 nhwc"))
    assert [part.engine for part in best(graph, H200).parts] == [ENGINES[op]]


@pytest.mark.parametrize("line, name", [("conv_fprop n2c40h6w8 k3r3s3 pad1 f16 nhwc", "x"),
                                        ("conv_dgrad n1c40h7w8 k4r3s2 bf16 nhwc", "dy"),
                                        ("conv_wgrad n1c16h6w8 k2r2s3 f16 nhwc", "x")])
def test_nan_stays_with_its_windows(line, name):
    problem = Problem.parse(line)
    outcome = hopper.watched.run(problem, hopper.device(3), 1, [ENGINES[type(problem.op)]], nans=(name,))
    assert outcome.ran and not outcome.findings, outcome


@EACH
def test_blended(op):
    problem = Problem.parse(f"{op.name} n1c16h6w8 k3r3s3 pad1 f16 nhwc")
    hopper.check(ENGINES[op], problem, ENGINES[op].best(match(problem), H200), blended)


@EACH
@pytest.mark.parametrize("form, sentence", [
    ("n1c16h8w8 k3r3s3 pad1 stride2 f16 nhwc", "stride must be 1; got (2, 2)"),
    ("n1c16h8w8 k4r3s3 pad1 groups=2 f16 nhwc", "groups must be 1; got 2"),
    ("n1c16h8w8 k9r3s3 pad1 f16 nhwc", " must be at most 8; got 9"),
    ("n1c16h8w8 k3r3s3 pad=3,1 f16 nhwc", "padding must be at most dilation * (taps - 1), (2, 2); got"),
    ("n1c16h8w8 k3r3s3 f16 nhwc acc=f64", "no engine takes the mirrored convolution: compute must be f32")])
def test_refusals(op, form, sentence):
    p = match(Problem.parse(f"{op.name} {form}"))
    assert any(sentence in reason for reason in ENGINES[op].refuse(p, H200))
