"""Convolutions on Hopper's tensor cores, on the interpreter: random problems and graphs in random
configurations, more tiles than blocks, and what is refused."""
from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "device" / "ptx")]
import watched
from cydnn import device as devices, plan
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.heuristics import candidates
from cydnn.heuristics.choice import Part
from cydnn.ops import ConvFprop, Problem
from cydnn.tensor import TensorDesc, packed_strides
from support import graphs
from support.alone import match, steps
from support.matrix import blended, plain

ENGINE, H200 = BY_INDEX[117], KNOWN["h200"]


def device(sms=0):
    found = watched.WatchedDevice("sm_90")
    found.facts = replace(found.facts, sms=sms or found.facts.sms)
    return found


def channels_last(rng, kind, dims, gap=8) -> TensorDesc:
    """Channels innermost, some with ``gap`` elements between pixels, rows or images."""
    order = (0, *range(2, len(dims)), 1)
    step, strides = 1, [0] * len(dims)
    for axis in reversed(order):
        strides[axis] = step
        step = -(-step * dims[axis] // 8) * 8 + rng.choice([0, 0, 0, gap])
    return TensorDesc(kind, dims, strides)


def drawn(rng) -> Problem:
    kind, rank = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2, 2, 3])
    groups = rng.choice([1, 1, 1, 1, 2])
    c = 64 if groups > 1 else rng.choice([3, 8, 40, 64, 72, rng.randint(1, 130)])
    k = rng.choice([8, 16, 40, rng.randint(1, 20), 72, 136])
    each = lambda values: tuple(rng.choice(values) for _ in range(rank))
    op = ConvFprop(pre_pad=each([0, 1, 2]), post_pad=each([0, 1, 3]), stride=each([1, 1, 2, 3]),
                   dilation=each([1, 1, 2]), mode=rng.choice(["cross_correlation"] * 2 + ["convolution"]))
    x = (rng.randint(1, 3), c * groups, *each([2, 3, 4] if rank == 3 else [1, 3, 5, 8, 9]))
    w = (k * groups, c, *each([1, 1, 2, 3]))
    y = op.out_dims(x, w)
    if min(y) < 1 or np.prod(y) * np.prod(w[1:]) > 2e6:
        return drawn(rng)
    out = rng.choice([kind, kind, kind, "f32", "f16", "bf16"])
    layout = rng.choice(["nhwc", "nhwc", "nhwc", "gaps", "any"])
    found = channels_last(rng, out, y) if layout == "gaps" else TensorDesc.packed(out, y, "nhwc")
    if layout == "any" and y[0] == 1:
        found = TensorDesc(out, y, packed_strides(y))
    return Problem(op, dict(x=channels_last(rng, kind, x), w=channels_last(rng, kind, w), y=found))


def taken(rng) -> Problem:
    problem = drawn(rng)
    while not ENGINE.accepts(match(problem), H200):
        problem = drawn(rng)
    return problem


@pytest.mark.parametrize("seed", range(48))
def test_random_problems(seed):
    rng = random.Random(seed)
    problem = taken(rng)
    config = rng.choice(list(ENGINE.configs(match(problem), H200)))
    numbers = rng.choice([plain, plain, blended])(problem.op)
    outcome = watched.run(problem, device(), seed, [ENGINE], config=config, scalars=numbers)
    assert outcome.ran and not outcome.findings, (str(problem), str(config), outcome)


def test_most_draws_are_taken():
    rng = random.Random(0)
    assert sum(ENGINE.accepts(match(drawn(rng)), H200) for _ in range(200)) >= 160


CORNERS = {                                      # what each is there for -> problem
    "a tile crosses images and rows": "conv_fprop n9c64h5w5 k64r3s3 pad1 bf16 nhwc",
    "patches": "conv_fprop n2c8h16w16 k8r8s8 stride=8 f16 nhwc",
    "nothing but padding in reach of some rows": "conv_fprop n1c8h3w3 k8r3s3 pre_pad=5 post_pad=4 f16 nhwc",
    "depth of one tap with padding around":
        "conv_fprop n1c8d2h3w3 k8t1r3s3 pre_pad=2,1,1 post_pad=1,1,1 f16 nhwc",
    "stride 2, dilation 3, flipped":
        "conv_fprop n1c16h14w13 k8r3s2 stride=2 dilation=3 mode=convolution pre_pad=4,1 bf16 nhwc",
    "a window that is the image": "conv_fprop n3c72h4w5 k24r4s5 f16 nhwc",
    "an image of one pixel": "conv_fprop n70c64h1w1 k40r3s3 pad1 f16 nhwc",
    "far apart": "conv_fprop n1c8h20w50 k8r2s3 pad=0,24 dilation=17,24 f16 nhwc",
    "steps that leave pixels over": "conv_fprop n2c64h10w11 k16r1s1 stride=4,3 bf16 nhwc",
    "one pixel, one filter": "conv_fprop n1c8w1 k1s1 f16 nhwc",
}


@pytest.mark.parametrize("tile", ["128x256", "64x128", "128x64"])
@pytest.mark.parametrize("corner", CORNERS)
def test_corners(corner, tile):
    problem = Problem.parse(CORNERS[corner])
    config = next(c for c in ENGINE.configs(match(problem), H200) if c.tile == tile)
    outcome = watched.run(problem, device(), 1, [ENGINE], config=config, scalars=blended(problem.op))
    assert outcome.ran and not outcome.findings, outcome


@pytest.mark.parametrize("config", [
    "tile=64x128 splits=1 out=boxes team=1", "tile=128x256 splits=2 out=boxes team=1",
    "tile=64x256 splits=1 out=rows team=1", "tile=128x64 splits=2 out=boxes team=1",
    "tile=128x128 splits=1 out=rows team=2"])
@pytest.mark.parametrize("seed", [None, 3])
def test_more_tiles_than_blocks(config, seed):
    """Three blocks take all tiles, in any order of warps."""
    problem = Problem.parse("conv_fprop n3c72h9w11 k136r2s3 pad1 bf16 nhwc")
    small = device(3)
    small.seed = seed
    config = type(ENGINE.best(match(problem), H200)).parse(config, ENGINE.knobs)
    outcome = watched.run(problem, small, 1, [ENGINE], config=config, scalars=plain(problem.op))
    assert outcome.ran and not outcome.findings, outcome


def test_graphs_around_it():
    """Nodes behind it, extra tensors and outputs, in random configurations."""
    machine, numpy, found = device(), devices.get("numpy"), 0
    for seed in range(600):
        rng = random.Random(f"wgmma {seed}")
        drawing = graphs.anchored(rng, ConvFprop)
        graph = drawing.graph(shuffled=True)
        for choice in candidates(graph, machine.facts):
            ours = [p for p in choice.parts if p.engine is ENGINE and p.match.behind]
            if not ours:
                continue
            found += 1
            config = rng.choice(list(ENGINE.configs(ours[0].match, machine.facts)))
            chosen = Part(ours[0].match, ENGINE, config, ours[0].us)
            parts = tuple(chosen if p is ours[0] else p for p in choice.parts)
            with np.errstate(all="ignore"):
                want = graphs.run(graph, drawing.values, numpy)
            with watched.watching():
                got = graphs.execute(plan.made(replace(choice, parts=parts), machine), drawing.values)
            wrong = graphs.differences(graph, got, want)
            assert not wrong, f"{choice.text}\n" + "\n".join(wrong)
            break
        if found == 12:
            return
    raise AssertionError(f"12 graphs must have it; got {found}")


# ---- What it says no to ----

REFUSED = [
    ("conv_fprop n1c8h4w4 k8r1s1 f32 nhwc", "x must be one of f16 bf16; got f32"),
    ("conv_fprop n1c8h4w4 k8r1s1 f16 nchw", "x must have contiguous channels, and other strides that are "
     "multiples of 8 (16 bytes); got strides (128, 16, 4, 1)"),
    ("conv_fprop n1c12h4w4 k8r1s1 f16 nhwc", "multiples of 8 (16 bytes); got strides (192, 1, 48, 12)"),
    ("conv_fprop n1c8h40w40 k8r2s2 dilation=1,39 pad=0,129 f16 nhwc",
     "x: corners must be in -128 … 127 for 2 spatial dims; got ((-129, 0), (90, -1))"),
    ("conv_fprop n1c8d40h4w4 k8t2r1s1 dilation=32,1,1 f16 nhwc",
     "(size - 1) * dilation of w must be at most 31 in 3 dims; got (32, 0, 0)"),
    ("conv_fprop n1c8h40w40 k8r1s1 stride=9 f16 nhwc", "x: steps must be in 1 … 8; got (1, 9, 9, 1)"),
    ("conv_fprop n1c80h4w4 k16r1s1 groups=2 f16 nhwc",
     "c of a group must be a multiple of 64; got 40 in 2 groups"),
    ("conv_fprop x=2x8x4x4:f16@128,1,32,8 w=8x8x1x1:f16@8,1,8,8 y=2x8x4x4:f16@128,16,4,1",
     "y must have its pixels at one distance; got strides (128, 16, 4, 1)"),
    ("conv_fprop n1c8h4w4 k8r1s1 f16 nhwc align=8", "x must be aligned to 16 bytes; got 8"),
    ("conv_fprop n0c8h4w4 k8r1s1 f16 nhwc", "x is empty"),
]


@pytest.mark.parametrize("line, sentence", REFUSED)
def test_refused(line, sentence):
    assert sentence in "; ".join(ENGINE.reasons(match(Problem.parse(line)), H200))


def test_it_needs_hopper():
    p = match(Problem.parse("conv_fprop n1c8h4w4 k8r1s1 f16 nhwc"))
    assert list(ENGINE.reasons(p, KNOWN["a100"])) == ["needs sm_90 or newer; device is sm_80"]
    assert list(ENGINE.reasons(p, KNOWN["b200"])) == ["needs sm_90 itself (wgmma); device is sm_100"]
    assert ENGINE.accepts(p, H200)


def test_groups_are_not_split():
    """The sum of the splits would not know which channel it has."""
    p = match(Problem.parse("conv_fprop n1c256h4w4 k16r3s3 groups=2 f16 nhwc"))
    assert {config.splits for config in ENGINE.configs(p, H200)} == {1}


def test_one_launch_where_the_depth_is_whole():
    deep = match(Problem.parse("conv_fprop n1c2048h7w7 k512r3s3 pad1 bf16 nhwc"))
    assert [s.kernel for s in steps(ENGINE, deep, H200)][1:] == ["matmul_sum_bf16"]
    launch, = steps(ENGINE, match(Problem.parse("conv_fprop n64c64h56w56 k64r3s3 pad1 f16 nhwc")), H200)
    assert launch.extra == {"blocks": 132} and launch.args["parts"] is None
    assert launch.kernel == "conv_wgmma_f16_128x64_bk"
