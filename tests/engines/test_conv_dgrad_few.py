"""Data gradients of few channels on Hopper's tensor cores, on the interpreter: random problems, all blocks of
columns, more items than blocks, graphs."""
from __future__ import annotations

import random

import numpy as np
import pytest

from cydnn import plan
from cydnn.bench.run import graph_of
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.heuristics import Wish
from cydnn.ops import ConvDgrad, Problem
from cydnn.tensor import TensorDesc, packed_strides
from support.check import hopper
from support.draw.alone import match, steps
from support.check.hopper import H200, channels_last
from support.check.matrix import blended, execute

ENGINE = BY_INDEX[138]


def drawn(rng) -> Problem:
    kind, rank = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2, 2])
    c, k = rng.choice([1, 2, 3, 3, 4, rng.randint(1, 24)]), rng.choice([8, 40, 64, 72, rng.randint(1, 140)])
    each = lambda values: tuple(rng.choice(values) for _ in range(rank))
    op = ConvDgrad(pre_pad=each([0, 1, 2, 3]), post_pad=each([0, 1, 3]), stride=each([1, 2, 2, 3]),
                   dilation=each([1, 1, 2]), mode=rng.choice(["cross_correlation"] * 2 + ["convolution"]))
    x = (rng.randint(1, 3), c, *each([1, 3, 5, 8, 9])[1:], rng.choice([2, 9, 31, 70, 140]))
    w = (k, c, *each([1, 2, 3, 3, 5, 7]))
    y = op.out_dims(x, w)
    if min(y) < 1 or np.prod(y) * np.prod(w[1:]) > 3e6:
        return drawn(rng)
    of = lambda kind, dims: (TensorDesc(kind, dims, packed_strides(dims)) if rng.random() < 0.2
                             else channels_last(rng, kind, dims, rng.choice([1, 2, 8])))
    return Problem(op, {"dy": channels_last(rng, kind, y), "w": of(kind, w),
                        "dx": of(rng.choice([kind, kind, kind, "f32", "f16", "bf16"]), x)})


@pytest.mark.share(14)
@pytest.mark.parametrize("seed", range(60))
def test_random_problems(seed):
    hopper.check_drawn(ENGINE, drawn, seed)


def test_many_draws_are_taken():
    rng = random.Random(0)
    assert sum(ENGINE.accepts(match(drawn(rng)), H200) for _ in range(200)) >= 80


CORNERS = {                                      # what each is there for -> (rows of blocks, problem)
    "a first layer": (4, "n2c3h14w140 k64r7s7 stride2 pad3 bf16 nhwc"),
    "patches": (1, "n2c3h16w24 k72r4s4 stride=4 f16 nhwc"),
    "a stride beyond the filter": (1, "n2c2h11w13 k8r1s2 stride=3,4 bf16 nhwc"),
    "unit stride": (4, "n2c3h9w66 k136r3s3 pad1 f16 nhwc"),
    "one channel": (8, "n1c1h9w20 k40r5s12 pre_pad=2,5 post_pad=2,6 bf16 nhwc"),
    "stride and dilation share a factor": (4, "n1c2h9w20 k16r3s3 stride=2 dilation=2 pad=2 f16 nhwc"),
    "an odd width": (4, "n2c3h9w37 k64r7s7 stride2 pad3 bf16 nhwc"),
    "rows that no window met": (1, "n1c3h12w9 k8r2s3 stride=3,2 post_pad=1 bf16 nhwc"),
    "far padding": (2, "n1c3h4w3 k8r3s3 stride2 pre_pad=5 post_pad=4 f16 nhwc"),
    "flipped": (4, "n1c4h8w9 k24r5s3 stride=2,1 pad=2,1 mode=convolution f16 nhwc"),
    "residues of the height apart": (4, "n2c3h30w33 k40r11s11 stride=4 pad=2 bf16 nhwc"),
    "three residues in two parts": (2, "n1c4h16w33 k16r4s7 stride=3,4 pad=1 f16 nhwc"),
    "one dim": (1, "n2c4w70 k256s5 stride=2 pad=2 bf16 nhwc"),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("corner", CORNERS)
def test_corners(corner):
    rows, line = CORNERS[corner]
    problem = Problem.parse(f"conv_dgrad {line}")
    launch, = steps(ENGINE, match(problem), H200)
    assert launch.kernel.endswith(f"_r{rows}")
    for config in ENGINE.configs(match(problem), H200):
        hopper.check(ENGINE, problem, config, blended)


def test_filters_in_no_whole_chunk():
    """dy is copied to channels in whole 16 bytes."""
    problem = Problem.parse("conv_dgrad n2c5h9w20 k13r3s3 pad1 bf16 nhwc")
    assert len(steps(ENGINE, match(problem), H200)) == 2
    hopper.check(ENGINE, problem, None, blended)


@pytest.mark.parametrize("seed", [None, 3])
def test_more_items_than_blocks(seed):
    hopper.check_turns(ENGINE, "conv_dgrad n5c3h10w70 k72r5s5 stride2 pad2 bf16 nhwc", "splits=2", seed)


def test_graphs_around_it():
    hopper.check_graphs(ENGINE, ConvDgrad, count=6, seeds=2400)


def test_nan_stays_near():
    """In pixels of dx that share a place in dy with one that meets it."""
    problem, machine = Problem.parse("conv_dgrad n1c3h20w40 k8r3s3 stride2 pad1 f16 nhwc"), hopper.device()
    values = {name: np.ones(problem.operands[name].dims, np.float32) for name in ("dy", "w")}
    values["dy"][0, 0, 5, 10] = np.nan
    built = plan.build(graph_of(problem), machine, Wish(engines=(138,)))
    dx, _ = execute(built, problem, values, {"dy", "w"}, machine)[0]["dx"].read()
    is_far = np.ones(dx.shape, bool)
    is_far[:, :, 8:12, 18:22] = False
    assert np.isnan(dx[:, :, 9:12, 19:22]).all() and np.isfinite(dx[is_far]).all()


REFUSED = {
    "n2c64h8w8 k64r3s3 pad1 stride2 f16 nhwc":
        "c * stride of the width must be at most 64, and the stride of the height 255; got 64 * 2, and 2",
    "n2c9h30w30 k64r11s11 stride=4,2 f16 nhwc":
        "c * stride of the width * ceil(stride of the height / 8) * rows of dy that a pixel meets (to the "
        "next power of 2) must be at most 64; got 9 * 2 * 1 * 3",
    "dy=2x8x3x5:f16@200,1,61,9 w=8x3x2x2:f16 dx=2x3x4x6:f16":
        "dy must have dense pixels (NCHW, or NHWC with gaps between pixels); got strides (200, 1, 61, 9)",
    "n1c3h9w9 k512r3s3 pad1 f16 nhwc":
        "pixels of a row of dy that a pixel meets * ceil(k / 64) must be at most 12; got 24",
    "n2c8h8w8 k64r1s1 f16 nhwc":
        "w has one tap and the strides are 1: a product without windows; conv_dgrad_wgmma takes it",
    "n1c8h8w8 k8r1s1 groups=4 f16 nhwc": "groups must be 1; got 4",
    f"n1c8h{2 ** 33}w8 k8r{2 ** 33}s1 f16 nhwc":             # nothing is made for each of its taps
        "c * stride of the width * ceil(stride of the height / 8) * rows of dy that a pixel meets (to the "
        f"next power of 2) must be at most 64; got 8 * 1 * 1 * {2 ** 33}",
    "n1c2d3h8w8 k8t1r1s1 f16 nhwc": "dx must have at most 2 spatial dims; got 3",
}


@pytest.mark.parametrize("line", REFUSED)
def test_refusals(line):
    assert REFUSED[line] in ENGINE.reasons(match(Problem.parse(f"conv_dgrad {line}")), H200)


def test_needs_hopper_itself():
    p = match(Problem.parse("conv_dgrad n2c3h8w8 k64r3s3 pad1 f16 nhwc"))
    assert list(ENGINE.reasons(p, KNOWN["b200"])) == ["needs sm_90 itself (wgmma); device is sm_100"]


def test_a_first_layer_is_one_launch_that_stays():
    p = match(Problem.parse("conv_dgrad n256c3h224w224 k64r7s7 stride2 pad3 bf16 nhwc"))
    launch, = steps(ENGINE, p, H200)
    assert launch.kernel == "conv_dgrad_few_bf16_r4" and launch.extra == {"blocks": 128}
    assert launch.args["window"] == (4, 4) and launch.args["in_pairs"]
