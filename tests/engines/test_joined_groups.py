"""Grouped convolutions whose groups are joined, to whole lines or all, on the interpreter: random problems in
three directions, where a NaN goes, and what is refused."""
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

ENGINES = {ConvFprop: BY_INDEX[104], ConvDgrad: BY_INDEX[122], ConvWgrad: BY_INDEX[142]}
EACH = pytest.mark.parametrize("op", ENGINES, ids=lambda op: op.name)


def drawn(rng, op_class) -> Problem:
    """Groups of 2 to 48 channels, of any number, one or two dims, any padding, strides and dilation."""
    kind, rank = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2])
    each = lambda values: tuple(rng.choice(values) for _ in range(rank))
    channels = rng.choice([2, 4, 8, 16, 32, 48])
    groups = rng.choice([{48: 4}.get(channels, 64 // channels) * rng.randint(1, 2), rng.randint(2, 10)])
    filters = groups * channels * rng.choice([1, 1, 2])
    op = op_class(pre_pad=each([0, 1, 2]), post_pad=each([0, 1]), stride=each([1, 1, 2]),
                  dilation=each([1, 1, 2]), mode=rng.choice(["cross_correlation"] * 2 + ["convolution"]))
    x, w = (rng.randint(1, 3), groups * channels, *each([3, 5, 9])), (filters, channels, *each([1, 2, 3]))
    y = op.out_dims(x, w)
    if min(y) < 1:
        return drawn(rng, op_class)
    lies = dict(zip(op.parts, (TensorDesc.packed(kind, x, "nhwc"),
                               TensorDesc.packed(kind, w, rng.choice(["nchw", "nhwc"])),
                               TensorDesc.packed(kind, y, "nhwc"))))
    return Problem(op, {name: lies[name] for name in (*op.reads, *op.writes)})


@pytest.mark.share(3)
@EACH
@pytest.mark.parametrize("seed", range(12))
def test_random_problems(op, seed):
    hopper.check_drawn(ENGINES[op], lambda rng: drawn(rng, op), seed)


@pytest.mark.parametrize("line, name", [("conv_fprop n2c64h7w9 k64r3s3 pad1 groups=8 f16 nhwc", "x"),
                                        ("conv_fprop n2c40h7w9 k40r3s3 pad1 groups=5 f16 nhwc", "x"),
                                        ("conv_dgrad n1c64h7w9 k64r3s3 pad1 groups=16 bf16 nhwc", "dy")])
def test_nan_stays_with_its_pixels_and_joined_groups(line, name):
    problem = Problem.parse(line)
    outcome = hopper.watched.run(problem, hopper.device(3), 1, [ENGINES[type(problem.op)]], nans=(name,))
    assert outcome.ran and not outcome.findings, outcome


@EACH
def test_blended(op):
    problem = Problem.parse(f"{op.name} n1c128h6w7 k128r3s3 pad1 groups=32 f16 nhwc")
    hopper.check(ENGINES[op], problem, ENGINES[op].best(match(problem), H200), blended)


@EACH
@pytest.mark.parametrize("form, sentence", [
    ("n2c64h8w8 k64r3s3 nhwc", "got 1 groups of 64"),
    ("n2c549h8w8 k549r3s3 groups=61 nhwc", "got 61 groups of 9"),
    ("n2c64h8w8 k64r3s3 groups=8 nhwc align=2", "no engine takes the convolution of joined groups")])
def test_refusals(op, form, sentence):
    p = match(Problem.parse(f"{op.name} {form} f16"))
    assert any(sentence in reason for reason in ENGINES[op].refuse(p, H200))


@EACH
def test_an_older_device_takes_it_too(op):
    p = match(Problem.parse(f"{op.name} n2c64h8w8 k64r3s3 pad1 groups=8 f16 nhwc"))
    assert ENGINES[op].accepts(p, KNOWN["a100"]) and ENGINES[op].cost(p, KNOWN["a100"], None) > 0
