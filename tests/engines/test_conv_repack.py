"""Convolutions on copies of images, on the interpreter: random problems in three directions, blending, and
what is refused."""
from __future__ import annotations

import random

import pytest

from cydnn.bench import graph_of
from cydnn.engines import BY_INDEX, PLAIN
from cydnn.graph import Match
from cydnn.heuristics import best
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad, Problem
from cydnn.tensor import TensorDesc
from support.check import hopper
from support.check.hopper import H200
from support.check.matrix import blended
from support.draw.alone import match

ENGINES = {ConvFprop: BY_INDEX[106], ConvDgrad: BY_INDEX[124], ConvWgrad: BY_INDEX[144]}
EACH = pytest.mark.parametrize("op", ENGINES, ids=lambda op: op.name)


def drawn(rng, op_class) -> Problem:
    """Images NCHW or of odd channels; any padding, strides and dilation."""
    kind, rank = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2])
    each = lambda values: tuple(rng.choice(values) for _ in range(rank))
    op = op_class(pre_pad=each([0, 1, 2]), post_pad=each([0, 1]), stride=each([1, 1, 2]),
                  dilation=each([1, 1, 2]), mode=rng.choice(["cross_correlation"] * 2 + ["convolution"]))
    groups, unit = rng.choice([(1, 8), (1, 8), (1, 6), (2, 8)])
    c, k = unit * groups * rng.randint(1, 9), unit * groups * rng.randint(1, 9)
    x, w = (rng.randint(1, 3), c, *each([3, 5, 9])), (k, c // groups, *each([1, 2, 3]))
    y = op.out_dims(x, w)
    if min(y) < 1:
        return drawn(rng, op_class)
    layouts = rng.choice([("nchw", "nchw"), ("nchw", "nhwc"), ("nhwc", "nchw"), ("nhwc", "nhwc")])
    tensors = dict(zip(op.parts, (TensorDesc.packed(kind, x, layouts[0]),
                                  TensorDesc.packed(kind, w, rng.choice(["nchw", "nhwc"])),
                                  TensorDesc.packed(kind, y, layouts[1]))))
    return Problem(op, {name: tensors[name] for name in (*op.reads, *op.writes)})


@pytest.mark.share(3)
@EACH
@pytest.mark.parametrize("seed", range(10))
def test_random_problems(op, seed):
    rng = random.Random(seed)
    problem = next(p for p in iter(lambda: drawn(rng, op), None) if ENGINES[op].accepts(match(p), H200))
    hopper.check(ENGINES[op], problem, PLAIN, seed=seed)


@pytest.mark.parametrize("line", ["conv_fprop n8c12h320w320 k48r3s3", "conv_dgrad n16c64h128w128 k12r3s3",
                                  "conv_wgrad n16c64h128w128 k12r3s3"])
def test_odd_channels(line):
    """Rows of 24 bytes, which TMA cannot read."""
    problem = Problem.parse(f"{line} pad1 bf16 nhwc")
    assert [part.engine for part in best(graph_of(problem), H200).parts] == [ENGINES[type(problem.op)]]


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
