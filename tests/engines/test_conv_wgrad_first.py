"""Filter gradients of first layers by overlapping windows, on the interpreter: random problems and graphs in
random configurations, tiles of all kinds, strips and their ends, and what is refused."""
from __future__ import annotations

import random

import numpy as np
import pytest

from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.engines.conv.wgrad_first import TILES, lanes_of
from cydnn.ops import ConvWgrad, Problem
from cydnn.tensor import TensorDesc, packed_strides
from support.check import hopper
from support.draw.alone import match, steps
from support.check.hopper import H200, channels_last
from support.check.matrix import blended

FIRST = BY_INDEX[158]


def drawn(rng) -> Problem:
    kind, rank = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2, 2])
    c, k = rng.choice([1, 3, 3, 4, rng.randint(1, 8)]), rng.choice([8, 64, rng.randint(1, 20), 72, 136])
    each = lambda values: tuple(rng.choice(values) for _ in range(rank - 1))
    op = ConvWgrad(pre_pad=(*each([0, 1, 3]), rng.choice([0, 1, 2, 4])),
                   post_pad=(*each([0, 1, 2]), rng.choice([0, 1, 3])),
                   stride=(*each([1, 1, 2, 3]), rng.choice([1, 2, 2, 4])),
                   dilation=(*each([1, 1, 2]), 1), mode=rng.choice(["cross_correlation", "convolution"]))
    x = (rng.randint(1, 4), c, *each([1, 3, 6, 9]), rng.choice([5, 9, 20, 33, 70]))
    dw = (k, c, *each([1, 2, 3, 5]), rng.choice([1, 2, 3, 5, 7, 9]))
    dy = op.out_dims(x, dw)
    if min(dy) < 1 or np.prod(dy) * np.prod(dw[1:]) > 2e6:
        return drawn(rng)
    out = rng.choice([kind, kind, kind, "f32", "f16", "bf16"])
    layout = rng.choice(["nhwc", "nhwc", "gaps", "any"])
    found = channels_last(rng, out, dw, rng.choice([3, 8])) if layout == "gaps" else (
        TensorDesc(out, dw, packed_strides(dw)) if layout == "any" else TensorDesc.packed(out, dw, "nhwc"))
    image = channels_last(rng, kind, x) if rng.random() < 0.3 else TensorDesc.packed(kind, x, "nhwc")
    return Problem(op, dict(x=image, dy=channels_last(rng, kind, dy), dw=found))


@pytest.mark.share(8)
@pytest.mark.parametrize("seed", range(24))
def test_random_problems(seed):
    hopper.check_drawn(FIRST, drawn, seed)


def test_most_draws_are_taken():
    rng = random.Random(0)
    assert sum(FIRST.accepts(match(drawn(rng)), H200) for _ in range(200)) >= 130


CORNERS = {                                      # what each is there for -> problem
    "images follow each other": "conv_wgrad n9c3h5w5 k64r7s7 pad3 stride2 bf16 nhwc",
    "the first layer of ResNet, small": "conv_wgrad n2c3h20w36 k64r7s7 pad3 stride2 f16 nhwc",
    "strips of a row, and a short one": "conv_wgrad n2c3h3w530 k8r3s3 pad1 stride2 f16 nhwc",
    "nothing but padding in reach of some pixels": "conv_wgrad n1c3h3w3 k8r3s3 pre_pad=5 post_pad=4 f16 nhwc",
    "a stride higher than the filter": "conv_wgrad n2c3h16w16 k8r2s2 stride=5,2 f16 nhwc",
    "pixels that no window meets": "conv_wgrad n2c3h9w23 k8r3s3 stride=4,4 f16 nhwc",
    "patches": "conv_wgrad n2c3h16w16 k96r4s4 stride4 bf16 nhwc",
    "patches of 8": "conv_wgrad n2c3h17w25 k8r8s8 stride8 f16 nhwc",
    "chunks in four parts": "conv_wgrad n1c7h5w30 k8r2s6 pad2,0 stride=1,4 f16 nhwc",
    "chunks in two parts": "conv_wgrad n1c3h23w43 k16r11s11 pad2 stride4 f16 nhwc",
    "two lanes": "conv_wgrad n2c2w300 k24s20 pad10 stride4 bf16 nhwc",
    "one channel": "conv_wgrad n2c1h9w28 k24r5s5 pad2 f16 nhwc",
    "eight channels": "conv_wgrad n1c8h5w20 k24r3s3 pad1 bf16 nhwc",
    "more columns than a tile": "conv_wgrad n1c3h5w30 k8r2s15 pad7 f16 nhwc",
    "rows far apart": "conv_wgrad n1c3h40w9 k8r3s3 pad=9,1 dilation=13,1 stride=1,2 f16 nhwc",
    "flipped": "conv_wgrad n2c3h14w13 k8r3s2 stride=2 dilation=3,1 mode=convolution pad=4,1 f16 nhwc",
    "tiles of filters": "conv_wgrad n2c3h5w9 k200r3s3 pad1 stride2 f16 nhwc",
    "one pixel, one filter": "conv_wgrad n1c1w2 k1s2 stride4 f16 nhwc",
}


@pytest.mark.share(6)
@pytest.mark.parametrize("corner", CORNERS)
def test_corners(corner):
    """Each in one tile, all tiles in turn."""
    problem, tile = Problem.parse(CORNERS[corner]), list(TILES)[list(CORNERS).index(corner) % len(TILES)]
    found = [c for c in FIRST.configs(match(problem), H200) if c.tile == tile]
    hopper.check(FIRST, problem, found[-1], blended)


def test_products_go_down_the_filter_or_along_it():
    """Whichever has fewer tiles, then fewer lines."""
    for line, down in (("n1c3h9w9 k8r7s7 stride2", 1), ("n1c3h9w9 k8r1s5 stride2", 0),
                       ("n1c1w90 k8s9 stride4", 0)):
        p = match(Problem.parse(f"conv_wgrad {line} f16 nhwc"))
        config = next(c for c in FIRST.configs(p, H200) if c.tile == "56x4")
        assert steps(FIRST, p, H200, config)[0].args["down"] == down


@pytest.mark.parametrize("splits", [1, 2, 4])
@pytest.mark.parametrize("seed", [None, 3])
def test_many_splits(splits, seed):
    """Ranges begin and end inside images; three SMs take the blocks in any order of warps."""
    hopper.check_turns(FIRST, "conv_wgrad n3c3h15w21 k40r7s7 pad3 stride2 bf16 nhwc",
                       f"tile=56x4 splits={splits}", seed)


def test_graphs_behind_it():
    hopper.check_graphs(FIRST, ConvWgrad, count=4, seeds=1200)


def test_nan_stays_with_its_filters():
    """Pixels that no window meets are not read into any sum."""
    line = "conv_wgrad n2c3h7w33 k40r3s3 pad1 stride2 bf16 nhwc"
    for name in ("x", "dy"):
        outcome = hopper.watched.run(Problem.parse(line), hopper.device(), 1, [FIRST], nans=(name,))
        assert outcome.ran and not outcome.findings, outcome


REFUSED = [
    ("conv_wgrad n1c3h9w9 k8r3s3 f32 nhwc", "x must be one of f16 bf16; got f32"),
    ("conv_wgrad n1c3h9w9 k8r3s3 stride2 f16 nchw",
     "x must have contiguous channels; got strides (243, 81, 9, 1)"),
    ("conv_wgrad n1c3h9w9 k12r3s3 f16 nhwc", "dy must have contiguous channels, and other strides that are "
     "multiples of 8 (16 bytes); got strides (588, 1, 84, 12)"),
    ("conv_wgrad n1c16h9w9 k8r3s3 f16 nhwc", "channels of x must be at most 8; got 16"),
    ("conv_wgrad n1c8h9w9 k8r3s3 groups=2 f16 nhwc", "groups must be 1; got 2"),
    ("conv_wgrad n1c3d5h9w9 k8t3r3s3 f16 nhwc", "x must have one or two spatial dims; got 3"),
    ("conv_wgrad n1c3h9w9 k8r3s3 stride3 f16 nhwc",
     "stride of the width must be 1, 2 or 4, or 8 for at most 4 channels; got 3"),
    ("conv_wgrad n1c5h19w19 k8r3s3 stride8 f16 nhwc",
     "stride of the width must be 1, 2 or 4, or 8 for at most 4 channels; got 8"),
    ("conv_wgrad n1c3h9w9 k8r3s3 dilation=2 f16 nhwc", "dilation of the width must be 1; got 2"),
    ("conv_wgrad n1c3h3000w9 k8r3s3 dilation=1400,1 f16 nhwc",
     "lines of x for a row of dy must fit into shared memory; got dilation 1400"),
    ("conv_wgrad n1c3h9w9 k8r3s3 f16 nhwc align=8", "dy must be aligned to 16 bytes; got 8"),
    ("conv_wgrad n0c3h9w9 k8r3s3 f16 nhwc", "x must have elements; got dims"),
]


@pytest.mark.parametrize("line, sentence", REFUSED)
def test_refused(line, sentence):
    assert sentence in "; ".join(FIRST.reasons(match(Problem.parse(line)), H200))


def test_it_needs_hopper():
    p = match(Problem.parse("conv_wgrad n1c3h9w9 k8r3s3 f16 nhwc"))
    assert list(FIRST.reasons(p, KNOWN["a100"])) == ["needs sm_90 or newer; device is sm_80"]
    assert list(FIRST.reasons(p, KNOWN["b200"])) == ["needs sm_90 itself (wgmma); device is sm_100"]


def test_windows_begin_at_whole_chunks():
    found = {(c, s): lanes_of(c, s) for c in (1, 3, 4, 8) for s in (1, 2, 4, 8)}
    assert [n for n in found.values()] == [8, 4, 2, 2, 8, 4, 4, 4, 8, 4, 4, 4, 8, 8, 8, None]


def test_the_first_layer_of_resnet():
    """dy is read once: the sums of all filter rows are one tile, and every SM has a share."""
    p = match(Problem.parse("conv_wgrad n256c3h224w224 k64r7s7 pad3 stride2 bf16 nhwc"))
    assert FIRST.best(p, H200).tile == "56x4"
    product, total = steps(FIRST, p, H200)
    assert product.args["splits"] == H200.sms and total.kernel == "conv_wgrad_mma_sum_bf16"
