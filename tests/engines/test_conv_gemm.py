"""Convolutions as im2col and a product, forward and of the filter, on the interpreter: random problems, and
who computes patches of images."""
from __future__ import annotations

import pytest

from cydnn.bench import graph_of
from cydnn.engines import BY_INDEX
from cydnn.heuristics import best
from cydnn.ops import ConvFprop, ConvWgrad, Problem
from cydnn.tensor import TensorDesc
from support.check import hopper
from support.check.hopper import H200
from support.draw.alone import match

ENGINES = {ConvFprop: BY_INDEX[102], ConvWgrad: BY_INDEX[172]}
EACH = pytest.mark.parametrize("op", ENGINES, ids=lambda op: op.name)


def drawn(rng, op_class) -> Problem:
    """Windows, or patches beside each other."""
    kind, rank, groups = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2, 3]), rng.choice([1, 1, 2])
    each = lambda *values: tuple(rng.choice(values) for _ in range(rank))
    op = op_class(pre_pad=each(0, 1, 2), post_pad=each(0, 1), stride=each(1, 2, 3), dilation=each(1, 1, 2),
                  mode=rng.choice(["cross_correlation", "convolution"]))
    taps, c, k = each(1, 2, 3, 4), groups * rng.choice([1, 3, 5, 8]), groups * rng.choice([7, 8, 40])
    image = [(n - 1) * gap + rng.randint(1, 7) for n, gap in zip(taps, op.dilation)]
    if rng.random() < 0.5:
        taps, c = each(2, 4), groups * rng.choice([1, 3, 4])
        op, image = op_class(stride=taps, mode=op.mode), [n * rng.choice([1, 2, 3]) for n in taps]
    x, w = (rng.randint(1, 3), c, *image), (k, c // groups, *taps)
    dims, layout = dict(zip(op.parts, (x, w, op.out_dims(x, w)))), rng.choice(["nchw", "nhwc"])
    desc = lambda name: TensorDesc.packed(kind, dims[name], layout)
    return Problem(op, {name: desc(name) for name in (*op.reads, *op.writes)})


@pytest.mark.share(3)
@EACH
@pytest.mark.parametrize("seed", range(8))
def test_random_problems(op, seed):
    hopper.check_drawn(ENGINES[op], lambda rng: drawn(rng, op), seed)


@EACH
@pytest.mark.parametrize("form, neighbours", [
    ("n1c3h28w28 k8r14s14 stride14 bf16 nhwc", 2), ("n1c3h32w32 k8r16s16 stride16 f16", 8),
    ("n1c3h32w32 k8r16s16 stride16 mode=convolution f16", 1), ("n1c4h8w8 k8r3s3 pad1 f16 nhwc", 4),
    ("n1c3h9w8 k8r4s4 stride=3,4 pad=1,0 bf16 nhwc", 4), ("n1c3h8w8 k8r4s4 stride=4,2 pad=0,1 bf16 nhwc", 1),
    ("n1c3h8w8 k8r4s4 stride4 align=2 bf16 nhwc", 1)])
def test_neighbours_of_a_load(op, form, neighbours):
    p = match(Problem.parse(f"{op.name} {form}"))
    unfold = ENGINES[op].plan(p, H200, ENGINES[op].best(p, H200))[0]
    assert unfold.kernel == f"conv_im2col_{p.x.dtype}_{neighbours}"


@EACH
@pytest.mark.parametrize("line", ["n64c3h224w224 k1024r14s14 stride14 bf16 nhwc",     # rows of 84 bytes
                                  "n64c3h224w224 k768r32s32 stride32 bf16 nhwc",
                                  "n64c1h128w1024 k768r16s16 stride10 bf16 nhwc",
                                  "n64c3h224w224 k768r16s16 stride16 f16",
                                  "n16c1w160000 k512s10 stride=5, bf16 nhwc"])
def test_patches(op, line):
    found = best(graph_of(Problem.parse(f"{op.name} {line}")), H200)
    assert [part.engine for part in found.parts] == [ENGINES[op]]


@pytest.mark.parametrize("form, sentence", [
    ("x=2x3x8x8:f16 dy=2x8x3x3:f16@100,9,3,1 dw=8x3x4x4:f16@96,1,24,6 stride=2", "dw must be packed"),
    ("x=2x3x8x8:f16 dy=2x8x3x3:f16@200,1,48,8 dw=8x3x4x4:f16 stride=2", "dy must have its pixels at one"),
    ("n2c3h8w8 k8r4s4 stride2 f32", "no matmul engine takes the product: a must be one of f16 bf16")])
def test_refusals(form, sentence):
    p = match(Problem.parse(f"conv_wgrad {form}"))
    reasons = list(ENGINES[ConvWgrad].refuse(p, H200))
    assert any(sentence in reason for reason in reasons), reasons
