"""Depthwise convolutions of NCHW images on the interpreter: random problems in three directions, corners,
and what is refused."""
from __future__ import annotations

import pytest

from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad, Problem
from cydnn.tensor import TensorDesc
from support.check import hopper
from support.check.hopper import H200
from support.check.matrix import blended
from support.draw.alone import match

ENGINES = {ConvFprop: BY_INDEX[107], ConvDgrad: BY_INDEX[125], ConvWgrad: BY_INDEX[145]}
EACH = pytest.mark.parametrize("op", ENGINES, ids=lambda op: op.name)


def drawn(rng, op_class) -> Problem:
    """Planes that begin anywhere between 16 bytes, any padding, filters in any layout."""
    kind, taps, channels = rng.choice(["f32", "f16", "bf16"]), rng.choice([3, 5, 7]), rng.randint(1, 9)
    pads = lambda: (rng.randint(0, 4), rng.randint(0, 4))
    op = op_class(pre_pad=pads(), post_pad=pads(), stride=(rng.choice([1, 2]),) * 2, dilation=(1, 1),
                  mode=rng.choice(["cross_correlation"] * 2 + ["convolution"]))
    x, w = (rng.randint(1, 3), channels, rng.randint(1, 20), rng.randint(1, 24)), (channels, 1, taps, taps)
    y = op.out_dims(x, w)
    if min(y) < 1:
        return drawn(rng, op_class)
    tensors = dict(zip(op.parts, (TensorDesc.packed(kind, x),
                                  TensorDesc.packed(kind, w, rng.choice(["nchw", "nhwc"])),
                                  TensorDesc.packed(kind, y))))
    return Problem(op, {name: tensors[name] for name in (*op.reads, *op.writes)})


@pytest.mark.share(4)
@EACH
@pytest.mark.parametrize("seed", range(24))
def test_random_problems(op, seed):
    hopper.check_drawn(ENGINES[op], lambda rng: drawn(rng, op), seed)


CORNERS = {                                      # what each is there for -> problem
    "one pixel": "n1c3h1w1 k3r3s3 pad1",
    "nothing but padding for some pixels": "n2c5h3w4 k5r3s3 pre_pad=5,4 post_pad=4,4",
    "more planes than a block has": "n3c33h7w7 k33r3s3 pad1",
    "a row wider than a block": "n1c2h3w261 k2r7s7 pad3",
    "bands of a plane": "n2c2h70w40 k2r5s5 pad2 stride2",
    "the filter backwards": "n2c8h12w11 k8r5s5 pre_pad=1,3 post_pad=2,0 stride2 mode=convolution",
}


@EACH
@pytest.mark.parametrize("corner", CORNERS)
def test_corners(op, corner):
    groups = CORNERS[corner].split("c")[1].split("h")[0]
    problem = Problem.parse(f"{op.name} {CORNERS[corner]} groups={groups} f16")
    engine = ENGINES[op]
    for config in list(engine.configs(match(problem), H200))[:2]:
        hopper.check(engine, problem, config, blended)


@EACH
@pytest.mark.parametrize("stride", [1, 2])
def test_nan(op, stride):
    """The forward multiplies zeros; the gradients leave out what is outside dy."""
    problem = Problem.parse(f"{op.name} n1c3h6w9 k3r3s3 pad1 stride{stride} groups=3 f16")
    for name in op.reads:
        outcome = hopper.watched.run(problem, hopper.device(3), 1, [ENGINES[op]], nans=(name,))
        assert outcome.ran and not outcome.findings, outcome


@EACH
@pytest.mark.parametrize("form, sentence", [
    ("n2c16h8w8 k16r3s3 f16", "each group must have one channel and one filter; got 16 and 16"),
    ("n2c16h8w8 k16r3s5 groups=16 f16", "the filter must be square, of 3 5 7 taps; got (1, 3, 5)"),
    ("n2c16h9w9 k16r3s3 stride=2,1 groups=16 f16", "strides must be equal, 1 or 2, of two spatial dims; "
                                                  "got (1, 2, 1)"),
    ("n2c16h9w9 k16r3s3 dilation=2 groups=16 f16", "dilation must be 1; got (1, 2, 2)"),
    ("n2c16h8w8 k16r3s3 groups=16 f16 nhwc", "must be packed NCHW"),
    ("n2c16h8w8 k16r3s3 groups=16 f16 align=2", "must be aligned to 16 bytes; got 2"),
    ("n2c16h8w8 k16r3s3 groups=16 f16 acc=f64", "compute must be f32 for f16 tensors; got f64"),
    ("n1c1h8w40000 k1r7s7 pad3 groups=1 f32", "bytes of shared memory; got (1, 1, 8, 40000)"),
])
def test_refusals(op, form, sentence):
    p = match(Problem.parse(f"{op.name} {form}"))
    assert any(sentence in reason for reason in ENGINES[op].refuse(p, H200))


def test_the_estimate_grows_with_the_filter():
    costs = [ENGINES[ConvFprop].cost(p, KNOWN["h100"], ENGINES[ConvFprop].best(p, KNOWN["h100"])) for p in (
        match(Problem.parse(f"conv_fprop n64c96h56w56 k96r{k}s{k} pad{k // 2} groups=96 bf16"))
        for k in (3, 5, 7))]
    assert costs == sorted(costs)
