"""Data gradients of strides other than 1 on the tile program of Hopper, on the interpreter: classes of
pixels, more tiles than blocks, random problems, graphs."""
from __future__ import annotations

import random

import pytest

from cydnn.engines import BY_INDEX
from cydnn.engines.conv.dgrad_wgmma import Classes
from cydnn.ops import ConvDgrad, Problem
from support.check import hopper
from support.draw.alone import match, steps
from support.check.hopper import H200
from support.check.matrix import blended, plain
from test_conv_wgmma import drawn

ENGINE = BY_INDEX[137]


def classes(problem) -> Classes | None:
    found = ENGINE.windows(match(problem))
    return found if isinstance(found, Classes) else None


def strided(rng) -> Problem:
    while True:
        problem = drawn(rng, ConvDgrad)
        if classes(problem):
            return problem


@pytest.mark.share(20)
@pytest.mark.parametrize("seed", range(60))
def test_random_problems(seed):
    hopper.check_drawn(ENGINE, strided, seed)


def test_most_draws_are_taken():
    rng = random.Random(0)
    assert sum(ENGINE.accepts(match(strided(rng)), H200) for _ in range(200)) >= 120


CORNERS = {                                      # what each is there for -> problem
    "classes of all sizes": "conv_dgrad n2c16h9w7 k24r3s3 pad1 stride2 bf16 nhwc",
    "three of four classes have no taps": "conv_dgrad n2c40h8w9 k72r1s1 stride2 f16 nhwc",
    "classes without pixels": "conv_dgrad n3c16h2w1 k8r3s3 stride=3,2 pre_pad=1 post_pad=2 f16 nhwc",
    "stride 2 on one side": "conv_dgrad n2c24h9w5 k16r3s2 stride=2,1 pad=1,0 bf16 nhwc",
    "dilation 3, flipped":
        "conv_dgrad n1c16h14w13 k8r3s2 stride=2 dilation=3 mode=convolution pre_pad=4,1 bf16 nhwc",
    "rows that no window met": "conv_dgrad n2c16h10w11 k16r1s1 stride=4,3 bf16 nhwc",
    "a stride beyond TMA's": "conv_dgrad n1c8h20w9 k8r2s2 stride=9,5 f16 nhwc",
    "far padding": "conv_dgrad n1c8h3w3 k8r3s3 stride2 pre_pad=5 post_pad=4 f16 nhwc",
    "all strides of 3 dims": "conv_dgrad n1c8d5h4w7 k8t3r2s3 stride=2,3,2 pad=1,0,1 f16 nhwc",
    "one dim, flipped": "conv_dgrad n2c9w17 k40s5 stride=3 pad=3 mode=convolution bf16 nhwc",
    "few channels": "conv_dgrad n2c3h9w8 k24r3s3 stride2 pad1 bf16 nhwc",
    "groups": "conv_dgrad n1c48h5w6 k192r3s1 stride2 pad=1,0 groups=3 f16 nhwc",
}


@pytest.mark.share(8)
@pytest.mark.parametrize("tile", ["128x256", "64x128", "128x64"])
@pytest.mark.parametrize("corner", CORNERS)
def test_corners(corner, tile):
    problem = Problem.parse(CORNERS[corner])
    config = next(c for c in ENGINE.configs(match(problem), H200) if c.tile == tile)
    assert classes(problem)
    hopper.check(ENGINE, problem, config, blended)


@pytest.mark.share(2)
@pytest.mark.parametrize("config", [
    "tile=64x128 splits=1 store=rows cluster_k=1", "tile=128x64 splits=1 store=rows cluster_k=1",
    "tile=128x128 splits=1 store=rows cluster_k=2"])
@pytest.mark.parametrize("shape", ["n3c72h17w19 k72r3s3 stride2 pad1", "n2c136h18w17 k136r1s1 stride=2,1"])
@pytest.mark.parametrize("seed", [None, 3])
def test_more_tiles_than_blocks(config, shape, seed):
    hopper.check_turns(ENGINE, f"conv_dgrad {shape} bf16 nhwc", config, seed)


@pytest.mark.parametrize("seed", [None, 3])
def test_more_tiles_in_boxes_than_blocks(seed):
    config = "tile=64x128 splits=1 store=tma cluster_k=1"
    hopper.check_turns(ENGINE, "conv_dgrad n3c64h16w18 k72r3s3 stride2 pad1 bf16 nhwc", config, seed)


BOXES = {                                        # classes that leave through TMA -> problem
    "tiles cross images": "conv_dgrad n5c64h14w14 k72r3s3 stride2 pad1 bf16 nhwc",
    "no taps, far fewer rows than a tile": "conv_dgrad n3c128h6w4 k40r1s1 stride2 f16 nhwc",
    "one dim": "conv_dgrad n2c192w24 k16s3 stride=3 pad=1 bf16 nhwc",
    "stride 4 along h, gaps": "conv_dgrad dy=2x72x2x5:f16@1200,1,600,120 w=72x64x3x2:f16@nhwc "
                              "dx=2x64x8x6:f16@6144,1,768,128 stride=4,1",
    "groups": "conv_dgrad n2c128h8w8 k128r3s3 stride2 pad1 groups=2 bf16 nhwc",
}


@pytest.mark.share(2)
@pytest.mark.parametrize("numbers", [plain, blended])
@pytest.mark.parametrize("corner", BOXES)
def test_classes_in_boxes(corner, numbers):
    """Where they blend with what was there they take the other way."""
    problem = Problem.parse(BOXES[corner])
    for config in (c for c in ENGINE.configs(match(problem), H200) if c.store == "tma"):
        hopper.check(ENGINE, problem, config, numbers)


def test_classes_of_other_sizes_have_no_boxes():
    for line in ("n2c64h9w8 k8r3s3 pad1 stride2", "n2c72h8w8 k8r3s3 stride2", "n2c64h9w8 k8r3s3 stride3"):
        assert ENGINE.boxes(match(Problem.parse(f"conv_dgrad {line} f16 nhwc"))) is None


@pytest.mark.parametrize("team", [2, 4])
def test_teams_share_each_class(team):
    """A class may have fewer steps than the team has blocks."""
    problem = Problem.parse("conv_dgrad n1c40h6w5 k136r3s3 pad1 stride2 f16 nhwc")
    config = next(c for c in ENGINE.configs(match(problem), H200) if c.cluster_k == team)
    hopper.check(ENGINE, problem, config, blended)


def test_graphs_around_it():
    hopper.check_graphs(ENGINE, ConvDgrad, seeds=2400, wanted=lambda m: ENGINE.windows(m).classes > 1)


def test_pixels_without_taps_are_zeros_among_nan():
    problem = Problem.parse("conv_dgrad n1c8h4w4 k8r1s1 stride2 f16 nhwc")
    hopper.check(ENGINE, problem, ENGINE.best(match(problem), H200), nans=("dy", "w"))


def test_one_launch_that_stays():
    p = match(Problem.parse("conv_dgrad n256c128h56w56 k128r3s3 pad1 stride2 bf16 nhwc"))
    launch, = steps(ENGINE, p, H200)
    assert launch.kernel == "conv_dgrad_wgmma_bf16_128x128" and launch.extra == {"blocks": 132}
    assert launch.args["classes"] == 4 and launch.args["out"] == (1, 28, 28)
