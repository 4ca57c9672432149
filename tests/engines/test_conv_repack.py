"""Convolutions on copies of images, on the interpreter: random problems in three directions, blending, and
what is refused."""
from __future__ import annotations

import random

import pytest

from cydnn.bench import graph_of
from cydnn.engines import BY_INDEX, PLAIN
from cydnn.graph import Match
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad, Problem
from cydnn.tensor import TensorDesc
from support.check import hopper
from support.check.hopper import H200
from support.check.matrix import blended
from support.draw.alone import match

ENGINES = {ConvFprop: BY_INDEX[106], ConvDgrad: BY_INDEX[124], ConvWgrad: BY_INDEX[144]}
EACH = pytest.mark.parametrize("op", ENGINES, ids=lambda op: op.name)


def drawn(rng, op_class) -> Problem:
    """One or both images NCHW; any padding, strides and dilation."""
    kind, rank = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2])
    each = lambda values: tuple(rng.choice(values) for _ in range(rank))
    op = op_class(pre_pad=each([0, 1, 2]), post_pad=each([0, 1]), stride=each([1, 1, 2]),
                  dilation=each([1, 1, 2]), mode=rng.choice(["cross_correlation"] * 2 + ["convolution"]))
    groups = rng.choice([1, 1, 1, 2])
    c, k = 8 * groups * rng.randint(1, 9), 8 * groups * rng.randint(1, 9)
    x, w = (rng.randint(1, 3), c, *each([3, 5, 9])), (k, c // groups, *each([1, 2, 3]))
    y = op.out_dims(x, w)
    common = op_class is ConvDgrad and 2 in map(min, op.stride, op.dilation)     # no engine on copies does
    if min(y) < 1 or common:
        return drawn(rng, op_class)
    layouts = rng.choice([("nchw", "nchw"), ("nchw", "nhwc"), ("nhwc", "nchw"), ("nhwc", "nhwc")])
    if layouts == ("nhwc", "nhwc") and (op_class is ConvWgrad or groups > 1 or not c % 64 or not k % 64):
        return drawn(rng, op_class)
    tensors = dict(zip(op.parts, (TensorDesc.packed(kind, x, layouts[0]),
                                  TensorDesc.packed(kind, w, rng.choice(["nchw", "nhwc"])),
                                  TensorDesc.packed(kind, y, layouts[1]))))
    return Problem(op, {name: tensors[name] for name in (*op.reads, *op.writes)})


@pytest.mark.share(3)
@EACH
@pytest.mark.parametrize("seed", range(10))
def test_random_problems(op, seed):
    problem = drawn(random.Random(seed), op)
    hopper.check(ENGINES[op], problem, PLAIN, seed=seed)


def test_a_gradient_of_filters_is_blended():
    problem = Problem.parse("conv_wgrad n2c16h7w9 k24r3s3 pad1 f16")
    hopper.check(ENGINES[ConvWgrad], problem, PLAIN, blended)


@pytest.mark.parametrize("op", [ConvFprop, ConvDgrad], ids=lambda op: op.name)
def test_what_would_be_rounded_twice_is_refused(op):
    """An image that is copied back is rounded before it is blended."""
    problem = Problem.parse(f"{op.name} n2c16h7w9 k24r3s3 pad1 f16")
    p = Match.single(graph_of(problem, dict(alpha=1.0, beta=0.5)))
    assert any("beta must be 0" in reason for reason in ENGINES[op].refuse(p, H200))


@EACH
@pytest.mark.parametrize("form, sentence", [
    ("n2c64h8w8 k64r3s3 f16 nhwc", "are packed NHWC"),
    ("n2c16h8w8 k16r3s3 f32", "must be one of f16 bf16; got f32"),
    ("n2c16h8w8 k16r3s3 f16 acc=f64", "nobody computes it on copies: compute must be f32")])
def test_refusals(op, form, sentence):
    p = match(Problem.parse(f"{op.name} {form}"))
    assert any(sentence in reason for reason in ENGINES[op].refuse(p, H200))
