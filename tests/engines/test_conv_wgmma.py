"""Convolutions on Hopper's tensor cores, on the interpreter: random problems and graphs in random
configurations, more tiles than blocks, and what is refused."""
from __future__ import annotations

import random
import re

import numpy as np
import pytest

from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX, Config
from cydnn.ops import ConvDgrad, ConvFprop, Problem
from cydnn.tensor import TensorDesc, packed_strides
from support.check import hopper
from support.draw.alone import match, steps
from support.check.hopper import H200, channels_last
from support.check.matrix import blended, plain

FPROP, DGRAD = ENGINES = BY_INDEX[117], BY_INDEX[137]
both = pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.name)


def drawn(rng, op_class) -> Problem:
    kind, rank = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2, 2, 3])
    groups, is_forward = rng.choice([1, 1, 1, 1, 2]), op_class is ConvFprop
    read = rng.choice([64, 40, 72]) if groups > 1 else rng.choice([3, 8, 40, 64, 72, rng.randint(1, 130)])
    written = rng.choice([8, 16, 40, rng.randint(1, 20), 72, 136, 64, 128])
    c, k = (read, written) if is_forward else (written, read)
    each = lambda values: tuple(rng.choice(values) for _ in range(rank))
    op = op_class(pre_pad=each([0, 1, 2]), post_pad=each([0, 1, 3]),
                  stride=each([1, 1, 2, 3]), dilation=each([1, 1, 2]),
                  mode=rng.choice(["cross_correlation"] * 2 + ["convolution"]))
    x = (rng.randint(1, 3), c * groups, *each([2, 3, 4] if rank == 3 else [1, 3, 5, 8, 9]))
    w = (k * groups, c, *each([1, 1, 2, 3]))
    y = op.out_dims(x, w)
    if min(y) < 1 or np.prod(y) * np.prod(w[1:]) > 2e6:
        return drawn(rng, op_class)
    source, target = (x, y) if is_forward else (y, x)
    out = rng.choice([kind, kind, kind, "f32", "f16", "bf16"])
    layout = rng.choice(["nhwc", "nhwc", "nhwc", "gaps", "any"])
    found = channels_last(rng, out, target) if layout == "gaps" else TensorDesc.packed(out, target, "nhwc")
    if layout == "any" and target[0] == 1:
        found = TensorDesc(out, target, packed_strides(target))
    return Problem(op, {op.reads[0]: channels_last(rng, kind, source), "w": channels_last(rng, kind, w),
                        op.writes[0]: found})


@pytest.mark.share(26)
@both
@pytest.mark.parametrize("seed", range(40))
def test_random_problems(engine, seed):
    hopper.check_drawn(engine, lambda rng: drawn(rng, engine.op), seed)


@both
def test_most_draws_are_taken(engine):
    rng = random.Random(0)
    assert sum(engine.accepts(match(drawn(rng, engine.op)), H200) for _ in range(200)) >= 140


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


@pytest.mark.share(8)
@pytest.mark.parametrize("tile", ["128x256", "128x192", "64x128", "128x64"])
@pytest.mark.parametrize("corner", CORNERS)
def test_corners(corner, tile):
    """Forward and the gradient."""
    line = CORNERS[corner]
    for engine in ENGINES:
        problem = Problem.parse(line if engine is FPROP else line.replace("fprop", "dgrad"))
        config = next(c for c in engine.configs(match(problem), H200) if c.get("tile") == tile)
        hopper.check(engine, problem, config, blended)


@pytest.mark.share(2)
@both
@pytest.mark.parametrize("config", [
    "tile=64x128 splits=1 store=tma cluster_k=1", "tile=128x256 splits=2 store=tma cluster_k=1",
    "tile=64x256 splits=1 store=rows cluster_k=1", "tile=128x64 splits=2 store=tma cluster_k=1",
    "tile=128x128 splits=1 store=rows cluster_k=2", "tile=192x128 splits=1 store=tma cluster_k=1",
    "tile=192x128 splits=2 store=rows cluster_k=1", "tile=128x192 splits=2 store=tma cluster_k=1"])
@pytest.mark.parametrize("seed", [None, 3])
def test_more_tiles_than_blocks(engine, config, seed):
    channels = "n3c72h9w11 k136r2s3" if engine is FPROP else "n3c136h9w11 k72r2s3"
    hopper.check_turns(engine, f"{engine.op.name} {channels} pad1 bf16 nhwc", config, seed)


@pytest.mark.share(3)
@both
@pytest.mark.parametrize("resident", [128, 64])
@pytest.mark.parametrize("line", ["n5c64h9w11 k128r1s1 f16", "n3c72h9w11 k128r1s1 bf16",
                                  "n2c40h9w7 k128r2s3 pad1 f16",
                                  "n2c16d3h5w6 k128t2r1s2 dilation=1,2,1 pre_pad=1,0,2 post_pad=0,2,1 bf16",
                                  "n1c128h5w7 k128r2s2 f16"],
                         ids=["a stage", "two", "the ring", "three dims", "deeper"])
@pytest.mark.parametrize("numbers", [plain, blended], ids=["plain", "blended"])
@pytest.mark.parametrize("seed", [None, 3])
def test_filters_that_stay(engine, resident, line, numbers, seed):
    """Four warpgroups, each with a ring of its own, on three multiprocessors."""
    if engine is not FPROP:
        line = re.sub(r"c(\d+)(.*) k(\d+)", r"c\3\2 k\1", line)
    small = hopper.device(3)
    small.seed = seed
    problem = Problem.parse(f"{engine.op.name} {line} nhwc")
    hopper.check(engine, problem, Config(resident=resident), numbers, small)


@both
def test_graphs_around_it(engine):
    hopper.check_graphs(engine, engine.op, seeds=1200)


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
    ("conv_fprop n1c24h4w4 k16r1s1 groups=2 f16 nhwc",
     "channels of x in a group must be a multiple of 8; got 12 in 2 groups"),
    ("conv_dgrad n1c16h4w4 k24r1s1 groups=2 f16 nhwc",
     "channels of dy in a group must be a multiple of 8; got 12 in 2 groups"),
    ("conv_dgrad n1c16h4w4 k80r2s2 stride2 groups=2 f16 nhwc",
     "channels of dy in a group must be a multiple of 64; got 40 in 2 groups"),
    ("conv_dgrad n1c8h4w4 k8r2s2 stride=1,2 dilation=1,2 f16 nhwc",
     "stride and dilation must have no common factor; got 2 and 2"),
    ("conv_dgrad n1c8h4w600 k8r1s600 stride=1,2 pad=0,0 f16 nhwc",
     "the distance of pixels that meet taps of w must be at most 255 in 2 dims; got (0, 0, 299)"),
    ("conv_dgrad n1c8d40h4w4 k8t2r1s1 stride=1,1,2 dilation=32,1,1 f16 nhwc",
     "the distance of pixels that meet taps of w must be at most 31 in 3 dims; got (32, 0, 0)"),
    ("conv_fprop x=1x8x4x4:f16@128,1,32,8 w=8x8x2x2:f16@48,6,3,1 y=1x8x3x3:f16@72,1,24,8",
     "w must have dense pixels (NCHW, or NHWC with gaps between pixels); got strides (48, 6, 3, 1)"),
    ("conv_fprop x=2x8x4x4:f16@128,1,32,8 w=8x8x1x1:f16@8,1,8,8 y=2x8x4x4:f16@128,16,4,1",
     "y must have its pixels at one distance; got strides (128, 16, 4, 1)"),
    ("conv_fprop n1c8h4w4 k8r1s1 f16 nhwc align=8", "x must be aligned to 16 bytes; got 8"),
    ("conv_fprop n0c8h4w4 k8r1s1 f16 nhwc", "x must have elements; got dims"),
]


@pytest.mark.parametrize("line, sentence", REFUSED)
def test_refused(line, sentence):
    p = match(Problem.parse(line))
    assert sentence in "; ".join((FPROP if p.op.name == "conv_fprop" else DGRAD).reasons(p, H200))


def test_it_needs_hopper():
    p = match(Problem.parse("conv_fprop n1c8h4w4 k8r1s1 f16 nhwc"))
    assert list(FPROP.reasons(p, KNOWN["a100"])) == ["needs sm_90 or newer; device is sm_80"]
    assert list(FPROP.reasons(p, KNOWN["b200"])) == ["needs sm_90 itself (wgmma); device is sm_100"]
    assert FPROP.accepts(p, H200)


COPIED = ["conv_fprop x=2x72x5x6:bf16@2160,1,432,72 w=24x72x2x3:bf16 y=2x24x4x4:bf16@384,1,96,24",
          "conv_fprop x=2x3x5x6:f16@240,1,48,8 w=24x3x2x1:f16@6,1,3,3 y=2x24x4x6:f16@576,1,144,24",
          "conv_dgrad dy=1x72x4x4:bf16@1152,1,288,72 w=72x24x2x3:bf16 dx=1x24x5x6:bf16@720,1,144,24",
          "conv_dgrad n1c20h4w4 k8r2s2 f16 nhwc"]


@pytest.mark.share(2)
@pytest.mark.parametrize("line", COPIED)
def test_filters_that_tma_cannot_read_are_copied(line):
    problem = Problem.parse(line)
    engine = FPROP if problem.op.name == "conv_fprop" else DGRAD
    p = match(problem)
    assert steps(engine, p, H200)[0].kernel.startswith("conv_mma_pack")
    for config in list(engine.configs(p, H200))[::4]:
        hopper.check(engine, problem, config, blended)


def test_groups_are_not_split():
    """The sum of the splits would not know which channel it has."""
    p = match(Problem.parse("conv_fprop n1c256h4w4 k16r3s3 groups=2 f16 nhwc"))
    assert {config.splits for config in FPROP.configs(p, H200)} == {1}


@both
def test_nan_reaches_the_group_whose_line_has_it(engine):
    """And no other: of groups of 40 channels a line of one has those of the next."""
    problem = Problem.parse(f"{engine.op.name} n1c120h4w4 k120r2s2 groups=3 f16 nhwc")
    outcome = hopper.watched.run(problem, hopper.device(3), 1, [engine], nans=(engine.op.reads[0],))
    assert outcome.ran and not outcome.findings, outcome


def test_one_launch_where_the_depth_is_whole():
    deep = match(Problem.parse("conv_fprop n1c2048h7w7 k512r3s3 pad1 bf16 nhwc"))
    cut = next(c for c in FPROP.configs(deep, H200) if c.splits > 1)
    assert [s.kernel for s in FPROP.plan(deep, H200, cut)][1:] == ["matmul_sum_bf16"]
    launch, = steps(FPROP, match(Problem.parse("conv_fprop n64c128h28w28 k128r3s3 pad1 f16 nhwc")), H200)
    assert launch.extra == {"blocks": 132} and launch.args["parts"] is None
    assert launch.kernel == "conv_wgmma_f16_192x128_bk"
    launch, = steps(FPROP, match(Problem.parse("conv_fprop n64c64h56w56 k64r1s1 f16 nhwc")), H200)
    assert launch.extra == {"blocks": 132} and launch.kernel == "conv_wgmma_kept_f16_64_bk"
