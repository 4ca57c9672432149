"""Filter gradients on Hopper's tensor cores, on the interpreter: random problems and graphs in random
configurations, more tiles than blocks, tails of pixels and columns, and what is refused."""
from __future__ import annotations

import random

import pytest

from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.ops import ConvWgrad, Problem
from support.check import hopper
from support.draw.alone import match, steps
from support.check.hopper import H200
from support.check.matrix import blended

WGRAD = BY_INDEX[157]


drawn = hopper.wgrad


@pytest.mark.share(20)
@pytest.mark.parametrize("seed", range(60))
def test_random_problems(seed):
    hopper.check_drawn(WGRAD, drawn, seed)


def test_most_draws_are_taken():
    rng = random.Random(0)
    assert sum(WGRAD.accepts(match(drawn(rng)), H200) for _ in range(200)) >= 110


CORNERS = {                                      # what each is there for -> problem
    "steps cross images and rows": "conv_wgrad n9c64h5w5 k64r3s3 pad1 bf16 nhwc",
    "patches": "conv_wgrad n2c8h16w16 k8r8s8 stride=8 f16 nhwc",
    "nothing but padding in reach of some pixels": "conv_wgrad n1c8h3w3 k8r3s3 pre_pad=5 post_pad=4 f16 nhwc",
    "pixels that no step divides": "conv_wgrad n3c64h7w7 k40r1s1 f16 nhwc",
    "one step and a pixel": "conv_wgrad n5c128h1w13 k24r1s2 post_pad=0,1 bf16 nhwc",
    "taps of one tile, and its rest": "conv_wgrad n1c64h6w6 k8r3s3 pad1 bf16 nhwc",
    "chunks of one tap, and the next": "conv_wgrad n1c192h4w4 k8r2s2 bf16 nhwc",
    "padded channels": "conv_wgrad n1c72h4w5 k24r2s3 f16 nhwc",
    "in depth": "conv_wgrad n1c64d2h3w3 k8t2r2s2 pre_pad=2,1,1 post_pad=1,1,1 mode=convolution f16 nhwc",
    "stride 2, dilation 3, flipped":
        "conv_wgrad n1c64h14w13 k8r3s2 stride=2 dilation=3 mode=convolution pre_pad=4,1 bf16 nhwc",
    "an image of one pixel": "conv_wgrad n70c64h1w1 k40r3s3 pad1 f16 nhwc",
    "far apart": "conv_wgrad n1c8h20w50 k8r2s3 pad=0,24 dilation=17,24 f16 nhwc",
    "groups that end inside a tile": "conv_wgrad n1c192h3w5 k120r1s2 groups=3 f16 nhwc",
    "groups of few channels": "conv_wgrad n2c48h5w5 k24r2s2 groups=3 f16 nhwc",
    "filters of any layout": "conv_wgrad n2c64h5w5 k24r2s2 dw=24x64x2x2:f16 f16 nhwc",
    "filters with gaps": "conv_wgrad n2c64h5w5 k24r1s2 dw=24x64x1x2:f16@131,1,128,64 f16 nhwc",
    "one pixel, one filter": "conv_wgrad n1c8w1 k1s1 f16 nhwc",
}


@pytest.mark.share(10)
@pytest.mark.parametrize("tile", ["128x256", "64x128", "128x64"])
@pytest.mark.parametrize("corner", CORNERS)
def test_corners(corner, tile):
    problem = Problem.parse(CORNERS[corner])
    found = [c for c in WGRAD.configs(match(problem), H200) if c.tile == tile]
    for config in {found[0], found[-1]}:
        hopper.check(WGRAD, problem, config, blended)


@pytest.mark.parametrize("splits", [2, 4, 8])
@pytest.mark.parametrize("channels", [64, 24])
def test_many_splits(splits, channels):
    """A thread adds a few splits, eight warps many."""
    problem = Problem.parse(f"conv_wgrad n11c{channels}h10w10 k24r1s2 bf16 nhwc")
    config = type(WGRAD.best(match(problem), H200)).parse(
        f"tile=64x128 splits={splits} store=rows cluster_k=1", WGRAD.knobs)
    product, total = steps(WGRAD, match(problem), H200, config)
    assert product.args["splits"] == splits
    is_few = splits < 8 and channels == 64
    assert total.kernel == ("matmul_sum_bf16" if is_few else "conv_wgrad_mma_sum_bf16")
    hopper.check(WGRAD, problem, config, blended)


@pytest.mark.share(2)
@pytest.mark.parametrize("config", [
    "tile=64x128 splits=1 store=tma cluster_k=1", "tile=128x256 splits=2 store=tma cluster_k=1",
    "tile=64x256 splits=1 store=rows cluster_k=1", "tile=128x64 splits=2 store=tma cluster_k=1",
    "tile=128x128 splits=1 store=rows cluster_k=2", "tile=64x128 splits=1 store=rows cluster_k=2"])
@pytest.mark.parametrize("seed", [None, 3])
def test_more_tiles_than_blocks(config, seed):
    hopper.check_turns(WGRAD, "conv_wgrad n3c128h9w11 k136r2s3 pad1 bf16 nhwc", config, seed)


def test_graphs_behind_it():
    hopper.check_graphs(WGRAD, ConvWgrad, seeds=1200)


def test_nan_stays_with_its_filters_and_channels():
    """Behind the last pixel nothing is read; NaN of an image is in its channels alone."""
    line = "conv_wgrad n2c64h7w9 k40r3s3 pad1 bf16 nhwc"
    for name in ("x", "dy"):
        outcome = hopper.watched.run(Problem.parse(line), hopper.device(), 1, [WGRAD], nans=(name,))
        assert outcome.ran and not outcome.findings, outcome


REFUSED = [
    ("conv_wgrad n1c8h4w4 k8r1s1 f32 nhwc", "x must be one of f16 bf16; got f32"),
    ("conv_wgrad n1c8h4w4 k8r1s1 f16 nchw", "x must have contiguous channels, and other strides that are "
     "multiples of 8 (16 bytes); got strides (128, 16, 4, 1)"),
    ("conv_wgrad n1c8h4w4 k12r1s1 f16 nhwc", "dy must have contiguous channels, and other strides that are "
     "multiples of 8 (16 bytes); got strides (192, 1, 48, 12)"),
    ("conv_wgrad x=1x8x4x4:f16@128,1,32,8 dy=1x8x4x4:f16@256,1,64,8 dw=8x8x1x1:f16",
     "dy must have its pixels at one distance; got strides (256, 1, 64, 8)"),
    ("conv_wgrad n1c8h40w40 k8r2s2 dilation=1,39 pad=0,129 f16 nhwc",
     "x: corners must be in -128 … 127 for 2 spatial dims; got ((-129, 0), (90, -1))"),
    ("conv_wgrad n1c8d40h4w4 k8t2r1s1 dilation=32,1,1 f16 nhwc",
     "(size - 1) * dilation of dw must be at most 31 in 3 dims; got (32, 0, 0)"),
    ("conv_wgrad n1c8h40w40 k8r1s1 stride=9 f16 nhwc", "x: steps must be in 1 … 8; got (1, 9, 9, 1)"),
    ("conv_wgrad n1c8h4w4 k8r1s1 f16 nhwc align=8", "dy must be aligned to 16 bytes; got 8"),
    ("conv_wgrad n0c8h4w4 k8r1s1 f16 nhwc", "x must have elements; got dims"),
    ("conv_wgrad n1c8h4w4 k32r1s1 groups=4 f16 nhwc",
     "channels of a group must be a multiple of 8 (16 bytes); got 2"),
    ("conv_wgrad n1c32h4w4 k8r1s1 groups=4 f16 nhwc",
     "filters of a group must be a multiple of 8 (16 bytes); got 2"),
]


@pytest.mark.parametrize("line, sentence", REFUSED)
def test_refused(line, sentence):
    assert sentence in "; ".join(WGRAD.reasons(match(Problem.parse(line)), H200))


def test_it_needs_hopper():
    p = match(Problem.parse("conv_wgrad n1c8h4w4 k8r1s1 f16 nhwc"))
    assert list(WGRAD.reasons(p, KNOWN["a100"])) == ["needs sm_90 or newer; device is sm_80"]
    assert list(WGRAD.reasons(p, KNOWN["b200"])) == ["needs sm_90 itself (wgmma); device is sm_100"]


def test_few_tiles_are_split_and_teams_write_the_filters():
    deep = match(Problem.parse("conv_wgrad n64c64h56w56 k64r1s1 f16 nhwc"))
    product, total = steps(WGRAD, deep, H200)
    assert product.args["splits"] > 64 and total.kernel == "conv_wgrad_mma_sum_f16"
    config = next(c for c in WGRAD.configs(deep, H200) if c.cluster_k == 4)
    launch, = steps(WGRAD, deep, H200, config)
    assert launch.args["team"] == 4 and launch.args["parts"] is None
    padded = match(Problem.parse("conv_wgrad n64c72h56w56 k64r1s1 f16 nhwc"))
    assert {c.cluster_k for c in WGRAD.configs(padded, H200)} == {1}
