"""Sliding depthwise convolutions on the interpreter: random problems in three directions, corners, graphs
behind them, and what is refused."""
from __future__ import annotations

import pytest

from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad, Problem
from cydnn.tensor import TensorDesc
from support.check import hopper
from support.draw.alone import match
from support.check.hopper import H200
from support.check.matrix import blended

ENGINES = {ConvFprop: BY_INDEX[103], ConvDgrad: BY_INDEX[121], ConvWgrad: BY_INDEX[141]}
EACH = pytest.mark.parametrize("op", ENGINES, ids=lambda op: op.name)


def drawn(rng, op_class) -> Problem:
    """Images of rows that no strip divides, with other strides between pixels than their channels."""
    kind, taps, channels = rng.choice(["f32", "f16", "bf16"]), rng.choice([3, 5, 7]), 8 * rng.randint(1, 9)
    pads = lambda: (rng.randint(0, 4), rng.randint(0, 4))
    op = op_class(pre_pad=pads(), post_pad=pads(),
                  stride=(rng.choice([1, 2]),) * 2, dilation=(1, 1),
                  mode=rng.choice(["cross_correlation"] * 2 + ["convolution"]))
    x, w = (rng.randint(1, 3), channels, rng.randint(1, 20), rng.randint(1, 24)), (channels, 1, taps, taps)
    y = op.out_dims(x, w)
    if min(y) < 1:
        return drawn(rng, op_class)
    pitch = channels + rng.choice([0, 0, 8])
    lies = lambda d: TensorDesc(kind, d, (pitch * d[2] * d[3], 1, pitch * d[3], pitch))
    image, filters, out = lies(x), TensorDesc.packed(kind, w, rng.choice(["nchw", "nhwc"])), lies(y)
    operands = dict(zip(op.parts, (image, filters, out)))
    return Problem(op, {name: operands[name] for name in (*op.reads, *op.writes)})


@pytest.mark.share(4)
@EACH
@pytest.mark.parametrize("seed", range(24))
def test_random_problems(op, seed):
    hopper.check_drawn(ENGINES[op], lambda rng: drawn(rng, op), seed)


CORNERS = {                                      # what each is there for -> problem
    "one pixel": "n1c8h1w1 k8r3s3 pad1",
    "nothing but padding for some pixels": "n2c8h3w4 k8r3s3 pre_pad=5,4 post_pad=4,4",
    "channels behind the last": "n1c40h9w8 k40r5s5 pad2",
    "a row wider than a strip": "n1c8h3w35 k8r7s7 pad3",
    "strips that end in the middle": "n3c16h7w9 k16r3s3 pad1 stride2",
    "the filter backwards": "n2c8h12w11 k8r5s5 pre_pad=1,3 post_pad=2,0 stride2 mode=convolution",
}


@EACH
@pytest.mark.parametrize("corner", CORNERS)
def test_corners(op, corner):
    groups = CORNERS[corner].split("c")[1].split("h")[0]
    problem = Problem.parse(f"{op.name} {CORNERS[corner]} groups={groups} f16 nhwc")
    engine = ENGINES[op]
    for config in list(engine.configs(match(problem), H200))[:2]:
        hopper.check(engine, problem, config, blended)


@pytest.mark.parametrize("op", [ConvFprop, ConvDgrad], ids=lambda op: op.name)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("taps", [3, 5, 7])
def test_nan_of_a_filter_and_padding(op, stride, taps):
    """The forward multiplies zeros; the gradient leaves out what is outside dy."""
    problem = Problem.parse(f"{op.name} n1c8h6w9 k8r{taps}s{taps} pad{taps // 2} "
                            f"stride{stride} groups=8 f16 nhwc")
    engine = ENGINES[op]
    outcome = hopper.watched.run(problem, hopper.device(3), 1, [engine], nans=("w",))
    assert outcome.ran and not outcome.findings, outcome


@EACH
@pytest.mark.parametrize("form, sentence", [
    ("n2c16h8w8 k16r3s3 f16", "each group must have one channel and one filter; got 16 and 16"),
    ("n2c16h8w8 k16r3s5 groups=16 f16", "the filter must be square, of 3 5 7 taps; got (1, 3, 5)"),
    ("n2c16h9w9 k16r3s3 stride=2,1 groups=16 f16", "strides must be equal, 1 or 2, of two spatial dims; "
                                                  "got (1, 2, 1)"),
    ("n2c16h9w9 k16r3s3 dilation=2 groups=16 f16", "dilation must be 1; got (1, 2, 2)"),
    ("n2c12h8w8 k12r3s3 groups=12 f16", "groups must be a multiple of 8, a channel each (16-byte copies); "
                                       "got 12"),
    ("n2c16h8w8 k16r3s3 groups=16 f16 align=2", "must be aligned to 16 bytes; got 2"),
])
def test_refusals(op, form, sentence):
    p = match(Problem.parse(f"{op.name} {form} nhwc"))
    assert any(sentence in reason for reason in ENGINES[op].refuse(p, H200))


def test_shared_memory_that_a_device_lacks():
    p = match(Problem.parse("conv_wgrad n2c8h20w20 k8r7s7 stride2 groups=8 f32 nhwc"))
    assert any("bytes of shared memory" in r for r in ENGINES[ConvWgrad].refuse(p, KNOWN["rtx4090"]))
    assert ENGINES[ConvWgrad].accepts(p, H200)


def test_the_estimate_grows_with_the_filter():
    costs = [ENGINES[ConvFprop].cost(p, H200, ENGINES[ConvFprop].best(p, H200)) for p in (
        match(Problem.parse(f"conv_fprop n64c96h56w56 k96r{k}s{k} pad{k // 2} groups=96 bf16 nhwc"))
        for k in (3, 5, 7))]
    assert costs == sorted(costs)
