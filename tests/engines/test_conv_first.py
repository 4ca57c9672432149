"""Convolutions of images of few channels on Hopper's tensor cores, on the interpreter: random problems and
graphs, corners with NaN and infinities, and what is refused."""
from __future__ import annotations

import random

import numpy as np
import pytest

from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.engines.engine import PLAIN
from cydnn.heuristics import best
from cydnn.ops import ConvFprop, Problem
from cydnn.tensor import TensorDesc, packed_strides
from support.check import hopper, matrix
from support.draw.alone import match, steps
from support.check.hopper import H200
from support.check.matrix import blended

FIRST = BY_INDEX[118]


def image(rng, kind, dims) -> TensorDesc:
    """Channels innermost, some with gaps of any size."""
    step, strides = 1, [0] * len(dims)
    for axis in (1, *range(len(dims) - 1, 1, -1), 0):
        strides[axis] = step
        step = step * dims[axis] + rng.choice([0, 0, 0, 1, 8])
    return TensorDesc(kind, dims, strides)


def drawn(rng) -> Problem:
    kind, rank = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2, 2])
    each = lambda values: tuple(rng.choice(values) for _ in range(rank))
    rows = lambda values: each(values)[1:]
    c, k = rng.randint(1, 8), rng.choice([8, 16, 21, 64, 72, 136])
    op = ConvFprop(pre_pad=each([0, 1, 3]), post_pad=each([0, 1, 4]), dilation=(*rows([1, 1, 2, 3]), 1),
                   stride=(*rows([1, 1, 2, 3]), rng.choice([1, 2, 2, 4, 8])),
                   mode=rng.choice(["cross_correlation"] * 2 + ["convolution"]))
    x = (rng.randint(1, 3), c, *rows([1, 3, 5, 8, 9]), rng.choice([5, 9, 30, 70, 140, 300]))
    w = (k, c, *rows([1, 2, 3]), rng.choice([1, 2, 3, 5, 7, 11]))
    y = op.out_dims(x, w)
    if min(y) < 1 or np.prod(y) * np.prod(w[1:]) > 3e6:
        return drawn(rng)
    out = rng.choice([kind, kind, kind, "f32", "f16", "bf16"])
    layout = rng.choice(["nhwc", "nhwc", "gaps", "any"])
    found = hopper.channels_last(rng, out, y) if layout == "gaps" else TensorDesc.packed(out, y, "nhwc")
    if layout == "any":
        found = TensorDesc(out, y, packed_strides(y))
    filters = TensorDesc(kind, w, packed_strides(w)) if rng.random() < 0.3 else image(rng, kind, w)
    return Problem(op, dict(x=image(rng, kind, x), w=filters, y=found))


@pytest.mark.share(10)
@pytest.mark.parametrize("seed", range(40))
def test_random_problems(seed):
    hopper.check_drawn(FIRST, drawn, seed)


def test_most_draws_are_taken():
    rng = random.Random(0)
    assert sum(FIRST.accepts(match(drawn(rng)), H200) for _ in range(200)) >= 140


CORNERS = {                                      # what each is there for -> problem
    "rows of nothing but padding": "conv_fprop n2c3h2w9 k8r3s3 pre_pad=5,7 post_pad=4,6 stride=1,2 f16 nhwc",
    "lines between taps that no tap reads": "conv_fprop n1c3h17w20 k8r3s3 dilation=4,1 stride=2 bf16 nhwc",
    "lines between rows that no row reads": "conv_fprop n2c3h17w20 k8r2s3 stride=5,2 f16 nhwc",
    "images of one row, strips": "conv_fprop n2c2w1500 k16s9 stride=2 pad=4 bf16 nhwc",
    "filters that a block has no room for": "conv_fprop n1c3h16w20 k328r11s11 stride=4 f16 nhwc",
    "one pixel, one filter": "conv_fprop n1c1w1 k1s1 f16 nhwc",
    "a step of 6 chunks": "conv_fprop n1c7h7w50 k8r3s7 stride=6 pad=2 bf16 nhwc",
    "a step of 16 chunks": "conv_fprop n1c3h8w200 k24r2s40 stride=32 pad=2 bf16 nhwc",
    "a window of one chunk": "conv_fprop n1c2h5w20 k8r2s2 stride=2 f16 nhwc",
    "a window of less than a chunk": "conv_fprop n1c2h5w40 k8r2s1 stride=2 f16 nhwc",
    "a row of y that is a strip": "conv_fprop n1c3h6w260 k8r3s3 pad=1 f16 nhwc",
    "the filter backwards": "conv_fprop n1c3h9w20 k8r3s4 stride=2 pad=1 mode=convolution bf16 nhwc",
}


def few(values, names, seed) -> dict:
    """Instead of half of them, one element of x in 60 is infinite or NaN."""
    gen, x = np.random.default_rng(seed), values["x"]
    odd = gen.choice([np.nan, np.inf, -np.inf], x.shape)
    return {**values, "x": np.where(gen.random(x.shape) < 1 / 60, odd, x)}


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("corner", CORNERS)
@pytest.mark.parametrize("is_finite", [True, False], ids=["finite", "infinite"])
def test_corners(monkeypatch, corner, is_finite):
    """What is not finite goes where it is read, not to who has it behind a window."""
    if not is_finite:
        monkeypatch.setattr(matrix, "with_nans", few)
    hopper.check(FIRST, Problem.parse(CORNERS[corner]), PLAIN)


@pytest.mark.parametrize("corner", [*CORNERS][::3])
def test_blends(corner):
    hopper.check(FIRST, Problem.parse(CORNERS[corner]), PLAIN, blended)


@pytest.mark.share(1)
@pytest.mark.parametrize("config", ["", "store=tma"])
@pytest.mark.parametrize("seed", [None, 3, 4])
def test_few_blocks_take_all_rows(config, seed):
    """Blocks begin within images, and warps run in any order."""
    for line in ("n5c3h21w90 k72r5s5 stride=2 pad=2 bf16 nhwc", "n3c8h9w300 k8r3s3 pad=1 f16 nhwc"):
        hopper.check_turns(FIRST, f"conv_fprop {line}", config, seed)


def test_graphs_around_it():
    hopper.check_graphs(FIRST, ConvFprop, seeds=3000)


# ---- Which it takes ----

REFUSED = [
    ("conv_fprop n1c3h9w9 k8r3s3 f32 nhwc", "x must be one of f16 bf16; got f32"),
    ("conv_fprop n1c9h9w9 k8r3s3 f16 nhwc", "c must be at most 8; got 9"),
    ("conv_fprop n1c3h9w9 k8r3s3 f16 nchw", "x must have contiguous channels; got strides (243, 81, 9, 1)"),
    ("conv_fprop n1c3h9w9 k8r3s3 dilation=1,2 f16 nhwc", "dilation along the last dim must be 1; got 2"),
    ("conv_fprop n1c3h9w9 k8r3s3 stride=3 f16 nhwc",
     "the stride along the last dim, times 1, 2, 4 or 8 but at least c, must be 8 or a multiple of 16; "
     "got stride 3 and c 3"),
    ("conv_fprop n1c4h9w9 k8r3s3 groups=2 f16 nhwc", "groups must be 1; got 2"),
    ("conv_fprop n1c3d4h9w9 k8t3r3s3 f16 nhwc", "images must have 1 or 2 spatial dims; got 3"),
    ("conv_fprop n1c3h224w224 k64r16s16 stride=16 f16 nhwc",
     "64 filters and the rows of x that they meet must take at most 196864 bytes; got 393216"),
    ("conv_fprop n1c3h9w9 k8r3s3 f16 nhwc align=8", "x must be aligned to 16 bytes; got 8"),
    ("conv_fprop n0c3h9w9 k8r3s3 f16 nhwc", "x must have elements; got dims"),
]


@pytest.mark.parametrize("line, sentence", REFUSED)
def test_refused(line, sentence):
    assert sentence in "; ".join(FIRST.reasons(match(Problem.parse(line)), H200))


def test_it_needs_hopper():
    p = match(Problem.parse("conv_fprop n1c3h9w9 k8r3s3 f16 nhwc"))
    assert list(FIRST.reasons(p, KNOWN["a100"])) == ["needs sm_90 or newer; device is sm_80"]
    assert list(FIRST.reasons(p, KNOWN["b200"])) == ["needs sm_90 itself (wgmma); device is sm_100"]
    assert FIRST.accepts(p, H200)


FASTEST = ["conv_fprop n256c3h224w224 k64r7s7 pad3 stride2 bf16 nhwc",
           "conv_fprop n32c3h224w224 k64r3s3 pad1 f16 nhwc",
           "conv_fprop n64c3h224w224 k128r4s4 stride4 bf16 nhwc"]


@pytest.mark.parametrize("line", FASTEST)
def test_first_layers_are_its_own(line):
    assert best(graph_of(Problem.parse(line)), H200).parts[0].engine is FIRST


def test_one_launch():
    """Rows are shared evenly; a block keeps its filters."""
    launch, = steps(FIRST, match(Problem.parse(FASTEST[0])), H200)
    assert launch.extra == {"blocks": 132} and launch.kernel == "conv_first_bf16"
    assert (launch.args["count"], launch.args["tiles"], launch.args["teams"]) == (256 * 112, 1, 1)
