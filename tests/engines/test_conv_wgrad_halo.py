"""Filter gradients of unit stride from rows of an image that are read once, on the interpreter: random
problems and graphs in random configurations, and what is refused."""
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

HALO = BY_INDEX[159]


def drawn(rng) -> Problem:
    return hopper.wgrad(rng, strides=[1], sides=[1, 3, 5, 8, 19], taps=[1, 2, 3, 3, 5])


@pytest.mark.share(10)
@pytest.mark.parametrize("seed", range(40))
def test_random_problems(seed):
    hopper.check_drawn(HALO, drawn, seed)


def test_most_draws_are_taken():
    rng = random.Random(0)
    assert sum(HALO.accepts(match(drawn(rng)), H200) for _ in range(200)) >= 110


CORNERS = {                                      # what each is there for -> problem
    "works of many images": "conv_wgrad n9c64h5w5 k64r3s3 pad1 bf16 nhwc",
    "rows in parts": "conv_wgrad n2c16h3w260 k24r3s3 pad1 bf16 nhwc",
    "parts of which the last is short": "conv_wgrad n1c8d2h2w530 k8t2r1s4 pad=1,0,2 dilation=1,1,3 f16 nhwc",
    "more taps than a block has": "conv_wgrad n2c8h16w16 k8r5s7 pad=2,3 f16 nhwc",
    "nothing but padding in reach of some pixels": "conv_wgrad n1c8h3w3 k8r3s3 pre_pad=5 post_pad=4 f16 nhwc",
    "one step and a pixel": "conv_wgrad n5c128h1w17 k24r1s1 bf16 nhwc",
    "in depth": "conv_wgrad n1c64d2h3w3 k8t2r2s2 pre_pad=2,1,1 post_pad=1,1,1 mode=convolution f16 nhwc",
    "dilation 3, flipped": "conv_wgrad n1c64h14w13 k8r3s2 dilation=3 mode=convolution pre_pad=4,1 bf16 nhwc",
    "far apart": "conv_wgrad n1c8h20w20 k8r2s3 pad=0,24 dilation=3,24 f16 nhwc",
    "groups that end inside a tile": "conv_wgrad n1c192h3w5 k120r1s2 groups=3 f16 nhwc",
    "rows of whole boxes": "conv_wgrad n1c8h2w254 k8r1s2 pad=0,1 f16 nhwc",
    "one pixel, one filter": "conv_wgrad n1c8w1 k1s1 f16 nhwc",
}


@pytest.mark.share(5)
@pytest.mark.parametrize("corner", CORNERS)
def test_corners(corner):
    problem = Problem.parse(CORNERS[corner])
    found = list(HALO.configs(match(problem), H200))
    for config in {found[0], found[-1]}:
        hopper.check(HALO, problem, config, blended)


def test_graphs_behind_it():
    hopper.check_graphs(HALO, ConvWgrad, count=6, seeds=1200)


def test_nan_stays_with_its_filters_and_channels():
    line = "conv_wgrad n2c64h7w9 k40r3s3 pad1 bf16 nhwc"
    for name in ("x", "dy"):
        outcome = hopper.watched.run(Problem.parse(line), hopper.device(), 1, [HALO], nans=(name,))
        assert outcome.ran and not outcome.findings, outcome


REFUSED = [
    ("conv_wgrad n1c8h4w4 k8r1s1 f32 nhwc", "x must be one of f16 bf16; got f32"),
    ("conv_wgrad n1c8h4w4 k8r2s2 stride=2,1 f16 nhwc", "stride must be 1; got (2, 1)"),
    ("conv_wgrad n1c8h4w4 k8r1s1 f16 nchw", "x must have contiguous channels, and other strides that are "
     "multiples of 8 (16 bytes); got strides (128, 16, 4, 1)"),
    ("conv_wgrad n1c8h4w4 k12r1s1 f16 nhwc", "dy must have contiguous channels, and other strides that are "
     "multiples of 8 (16 bytes); got strides (192, 1, 48, 12)"),
    ("conv_wgrad n1c8h4w4200 k8r1s1 f16 nhwc", "two stages of a 16th of a row of dy and the rows of x that "
     "its taps meet must fit into 231168 bytes and boxes of 256; got rows of 4200 and taps of (1, 1, 1)"),
    ("conv_wgrad n1c8h4w4 k8r1s1 f16 nhwc align=8", "dy must be aligned to 16 bytes; got 8"),
    ("conv_wgrad n0c8h4w4 k8r1s1 f16 nhwc", "x must have elements; got dims"),
    ("conv_wgrad n1c8h4w4 k32r1s1 groups=4 f16 nhwc",
     "channels of a group must be a multiple of 8 (16 bytes); got 2"),
]


@pytest.mark.parametrize("line, sentence", REFUSED)
def test_refused(line, sentence):
    assert sentence in "; ".join(HALO.reasons(match(Problem.parse(line)), H200))


def test_it_needs_hopper():
    p = match(Problem.parse("conv_wgrad n1c8h4w4 k8r1s1 f16 nhwc"))
    assert list(HALO.reasons(p, KNOWN["a100"])) == ["needs sm_90 or newer; device is sm_80"]
    assert list(HALO.reasons(p, KNOWN["b200"])) == ["needs sm_90 itself (wgmma); device is sm_100"]


def test_all_sms_have_work():
    problem = match(Problem.parse("conv_wgrad n256c64h56w56 k64r3s3 pad1 bf16 nhwc"))
    product, total = steps(HALO, problem, H200)
    assert 120 <= product.args["splits"] <= 264 and product.args["stages"] >= 2
    assert total.kernel == "conv_wgrad_mma_sum_bf16"
