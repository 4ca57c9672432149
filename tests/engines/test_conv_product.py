"""Convolutions with one tap as products of NCHW images and of groups, on the interpreter: random problems in
three directions and what is refused."""
from __future__ import annotations

import pytest

from cydnn.engines import BY_INDEX
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad, Problem
from cydnn.tensor import TensorDesc
from support.check import hopper
from support.check.hopper import H200
from support.check.matrix import blended
from support.draw.alone import match

ENGINES = {ConvFprop: BY_INDEX[105], ConvDgrad: BY_INDEX[123], ConvWgrad: BY_INDEX[143]}
EACH = pytest.mark.parametrize("op", ENGINES, ids=lambda op: op.name)


def drawn(rng, op_class) -> Problem:
    """One to three dims, groups, images with gaps between channels and of any number of pixels."""
    kind, rank, groups = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2, 3]), rng.choice([1, 1, 2, 3])
    spatial = tuple(rng.randint(1, 8) for _ in range(rank))
    c, k, n, taps = groups * rng.randint(1, 40), groups * rng.randint(1, 40), rng.randint(1, 3), (1,) * rank
    gap, is_nhwc = rng.choice([0, 0, 8]), groups > 1 and rng.random() < 0.5

    def lies(channels):
        if is_nhwc:
            return TensorDesc.packed(kind, (n, channels, *spatial), "nhwc")
        packed = TensorDesc.packed(kind, (n, channels, *spatial))
        step = packed.strides[1] + gap if channels > 1 else packed.strides[1]
        return TensorDesc(kind, packed.dims, (step * channels, step, *packed.strides[2:]))
    op = op_class(mode=rng.choice(["cross_correlation", "convolution"]))
    tensors = dict(zip(op.parts, (lies(c), TensorDesc.packed(kind, (k, c // groups, *taps)), lies(k))))
    return Problem(op, {name: tensors[name] for name in (*op.reads, *op.writes)})


@pytest.mark.share(2)
@EACH
@pytest.mark.parametrize("seed", range(12))
def test_random_problems(op, seed):
    hopper.check_drawn(ENGINES[op], lambda rng: drawn(rng, op), seed)


@EACH
@pytest.mark.parametrize("form", ["n2c24h4w8 k40r1s1", "n1c16h5w5 k8r1s1 groups=2"])
def test_blended(op, form):
    problem = Problem.parse(f"{op.name} {form} f16")
    hopper.check(ENGINES[op], problem, ENGINES[op].best(match(problem), H200), blended)


@EACH
@pytest.mark.parametrize("form, sentence", [
    ("n2c16h8w8 k16r3s3 pad1 f16", "must have one tap, without padding and with unit strides; got (3, 3)"),
    ("n2c16h8w8 k16r1s1 stride2 f16", "strides (2, 2)"),
    ("n2c16h8w8 k16r1s1 f16 nhwc", "are packed NHWC"),
    ("n2c16h8w8 k16r1s1 f32", "must be one of f16 bf16; got f32"),
    ("n2c16h8w8 k16r1s1 f16 acc=f64", "compute must be f32 for f16 tensors; got f64")])
def test_refusals(op, form, sentence):
    p = match(Problem.parse(f"{op.name} {form}"))
    assert any(sentence in reason for reason in ENGINES[op].refuse(p, H200))


def test_products_that_the_workspace_does_not_hold():
    p = match(Problem.parse("conv_wgrad n256c512h8w8 k2048r1s1 bf16"))
    assert any("products of all images" in reason for reason in ENGINES[ConvWgrad].refuse(p, H200))
