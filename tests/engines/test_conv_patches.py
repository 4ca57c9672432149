"""Convolutions of patches whose taps along the width are channels, on the interpreter: random problems in
three directions, rows of patches far from each other, and what is refused."""
from __future__ import annotations

import pytest

from cydnn.engines import BY_INDEX
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad, Problem
from cydnn.tensor import TensorDesc
from support.check import hopper
from support.check.hopper import H200
from support.check.matrix import blended
from support.draw.alone import match

ENGINES = {ConvFprop: BY_INDEX[164], ConvDgrad: BY_INDEX[127], ConvWgrad: BY_INDEX[146]}
EACH = pytest.mark.parametrize("op", ENGINES, ids=lambda op: op.name)


def drawn(rng, op_class) -> Problem:
    """One to three dims; the outer ones have any taps, strides, padding and dilation."""
    kind, rank, taps = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2, 3]), rng.choice([2, 2, 4])
    c, k, count = rng.choice([4, 8, 24, 40]), rng.choice([8, 24, 72]), rng.randint(1, 9)
    each = lambda values, last: (*(rng.choice(values) for _ in range(rank - 1)), last)
    op = op_class(pre_pad=each([0, 1], 0), post_pad=each([0, 2], 0), stride=each([1, 2, 3], taps),
                  dilation=each([1, 1, 2], 1))
    beyond = 0 if op_class is ConvDgrad else rng.choice([0, 4 // taps])
    x, w = (rng.randint(1, 3), c, *each([3, 5, 6], taps * count + beyond)), (k, c, *each([1, 2, 3], taps))
    y = op.out_dims(x, w)
    if min(y) < 1:
        return drawn(rng, op_class)
    tensors = dict(zip(op.parts, (TensorDesc.packed(kind, dims, "nhwc") for dims in (x, w, y))))
    return Problem(op, {name: tensors[name] for name in (*op.reads, *op.writes)})


@pytest.mark.share(3)
@EACH
@pytest.mark.parametrize("seed", range(8))
def test_random_problems(op, seed):
    hopper.check_drawn(ENGINES[op], lambda rng: drawn(rng, op), seed)


@EACH
@pytest.mark.parametrize("form", ["n2c16h6w8 k32r2s2 stride2 f16 nhwc",
                                  "n2c3h35w48 k24r16s16 stride16 bf16 nhwc"])
def test_blended(op, form):
    problem = Problem.parse(f"{op.name} {form}")
    hopper.check(ENGINES[op], problem, ENGINES[op].best(match(problem), H200), blended)


@EACH
@pytest.mark.parametrize("form, sentence", [
    ("n1c16h8w8 k16r3s3 pad1 f16 nhwc", "taps of a row must be the stride of the width, 2 and more"),
    ("n1c16h8w8 k16r2s2 stride2 groups=2 f16 nhwc", "dilation 1, 2 groups"),
    ("n1c16h8w8 k16r2s2 stride2 post_pad=0,2 f16 nhwc", "the width must be 5 whole patches of 2; got 8"),
    ("n1c16h8w8 k16r2s2 stride2 mode=convolution f16 nhwc", "mode must be cross_correlation"),
    ("n1c16h8w8 k16r2s2 stride2 f16", "must have pixels of a row beside each other; got strides"),
    ("n1c16h8w8 k16r2s2 stride2 f16 nhwc acc=f64", "takes it with taps as channels: compute must be")])
def test_refusals(op, form, sentence):
    p = match(Problem.parse(f"{op.name} {form}"))
    assert any(sentence in reason for reason in ENGINES[op].refuse(p, H200))


def test_taps_apart():
    p = match(Problem.parse("conv_fprop n1c16h8w8 k16r2s2 stride2 w=16x16x2x2:f16@64,4,2,1 f16 nhwc"))
    assert any("w must have taps of a row beside each other" in s for s in ENGINES[ConvFprop].refuse(p, H200))
