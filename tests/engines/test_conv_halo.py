"""Convolutions of few channels whose tiles are read once, forward and back, on the interpreter: random
problems and graphs, corners with NaN and infinities, and what is refused."""
from __future__ import annotations

import random

import numpy as np
import pytest

from cydnn import device as devices, plan
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.engines.conv.halo import PLACES, tiles_of
from cydnn.engines.engine import PLAIN
from cydnn.heuristics import candidates
from cydnn.ops import ConvDgrad, ConvFprop, Problem
from cydnn.tensor import TensorDesc
from support.check import fused, hopper
from support.draw import graphs
from support.draw.alone import match, steps
from support.check.hopper import H200, channels_last
from support.check.matrix import blended

FPROP, DGRAD = BY_INDEX[119], BY_INDEX[139]
BOTH = pytest.mark.parametrize("engine", [FPROP, DGRAD], ids=str)


def engine_of(line):
    return FPROP if line.startswith("conv_fprop") else DGRAD


def drawn(rng, engine) -> Problem:
    """Sides that are no multiples of anything; widths up to two strips."""
    kind, rank = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2, 2])
    each = lambda values: tuple(rng.choice(values) for _ in range(rank))
    few, many = rng.choice([8, 40, 64, rng.randint(1, 64)]), rng.choice([8, 16, 64, 72, 136])
    op = (ConvFprop if engine is FPROP else ConvDgrad)(
        pre_pad=each([0, 1, 2]), post_pad=each([0, 1, 3]), stride=(1,) * rank, dilation=each([1, 1, 2, 3]),
        mode=rng.choice(["cross_correlation"] * 2 + ["convolution"]))
    taps, n = each([1, 2, 3, 3, 5]), rng.randint(1, 3)
    sides = (*each([1, 3, 5, 8, 19])[1:], rng.choice([2, 9, 23, 57, 130, 250, 270]))
    c, k = (few, many) if engine is FPROP else (many, few)
    x, w = (n, c, *sides), (k, c, *taps)
    y = op.out_dims(x, w)
    if min(y) < 1 or np.prod(y) * np.prod(w[1:]) > 2e7:
        return drawn(rng, engine)
    out = rng.choice([kind, kind, kind, "f32", "f16", "bf16"])
    filters = TensorDesc.packed(kind, w, "nhwc") if rng.random() < 0.6 else channels_last(rng, kind, w)
    if engine is FPROP:
        tensors = dict(x=channels_last(rng, kind, x), w=filters, y=channels_last(rng, out, y))
    else:
        tensors = dict(w=filters, dy=channels_last(rng, kind, y), dx=channels_last(rng, out, x))
    return Problem(op, tensors)


@pytest.mark.share(6)
@BOTH
@pytest.mark.parametrize("seed", range(40))
def test_random_problems(engine, seed):
    hopper.check_drawn(engine, lambda rng: drawn(rng, engine), seed)


@BOTH
def test_most_draws_are_taken(engine):
    rng = random.Random(0)
    assert sum(engine.accepts(match(drawn(rng, engine)), H200) for _ in range(200)) >= 110


CORNERS = {                                      # what each is there for -> problem
    "a row wider than a tile": "conv_fprop n1c8h2w300 k8r2s3 pad=1 bf16 nhwc",
    "rows of one tile and a pixel": "conv_fprop n1c40w241 k8s1 f16 nhwc",
    "nothing but padding for some pixels": "conv_fprop n2c8h3w4 k8r3s3 pre_pad=5,4 post_pad=4 f16 nhwc",
    "one pixel": "conv_fprop n1c8w1 k8s1 bf16 nhwc",
    "blocks with filters behind the last": "conv_fprop n2c64h9w9 k136r3s3 pad=1 f16 nhwc",
    "taps far apart": "conv_fprop n1c16h30w33 k8r3s3 dilation=4,9 pad=4,9 bf16 nhwc",
    "the filter backwards": "conv_fprop n1c24h9w7 k16r3s2 pad=1,0 mode=convolution f16 nhwc",
    "channels that end inside 16 bytes": "conv_fprop x=2x13x6x9:f16@864,1,144,16 w=8x13x3x3:f16@144,1,48,16 "
                                         "y=2x8x4x7:f16@224,1,56,8",
    "as many taps as there is room for": "conv_fprop n1c8h6w9 k8r3s5 pad=1,2 f16 nhwc",
    "the gradient of it": "conv_dgrad n1c8h6w9 k8r3s5 pad=1,2 bf16 nhwc",
    "pixels that no tap meets": "conv_dgrad n1c8h20w20 k8r2s2 dilation=5,3 f16 nhwc",
    "a gradient of less than its padding": "conv_dgrad n2c72h3w2 k40r3s3 pad=2 bf16 nhwc",
    "a gradient, the filter backwards": "conv_dgrad n1c16h9w7 k24r3s2 pad=1,0 mode=convolution f16 nhwc",
    "a gradient of rows wider than a tile": "conv_dgrad n1c8h2w300 k64r2s3 pad=1 bf16 nhwc",
}


@pytest.mark.share(5)
@pytest.mark.parametrize("numbers", [{}, dict(numbers=blended)], ids=["plain", "blended"])
@pytest.mark.parametrize("corner", CORNERS)
def test_corners(corner, numbers):
    problem = Problem.parse(CORNERS[corner])
    hopper.check(engine_of(CORNERS[corner]), problem, PLAIN, **numbers)


@pytest.mark.parametrize("line, names", [("conv_fprop n2c64h7w9 k40r3s3 bf16 nhwc", ("x", "w")),
                                         ("conv_dgrad n2c40h7w9 k64r3s3 pad=2 f16 nhwc", ("dy", "w"))])
def test_nan_stays_with_its_pixels_and_filters(line, names):
    """No place reads what another's taps meet, no filter another's."""
    for name in names:
        problem = Problem.parse(line)
        outcome = hopper.watched.run(problem, hopper.device(3), 1, [engine_of(line)], nans=(name,))
        assert outcome.ran and not outcome.findings, outcome


@pytest.mark.share(1)
@pytest.mark.parametrize("line", ["conv_fprop n5c40h21w20 k72r2s3 pad=1 bf16 nhwc",
                                  "conv_fprop n7c8h9w90 k8r3s3 pad=1 f16 nhwc",
                                  "conv_dgrad n5c72h21w20 k40r3s2 pad=1 bf16 nhwc",
                                  "conv_dgrad n9c8h5w90 k64r1s5 pad=0,2 f16 nhwc"])
@pytest.mark.parametrize("seed", [None, 3, 4])
def test_few_blocks_take_all_tiles(line, seed):
    """Every stage comes again, and warps run in any order."""
    hopper.check_turns(engine_of(line), line, "", seed)


@pytest.mark.parametrize("op, engine", [(ConvFprop, FPROP), (ConvDgrad, DGRAD)], ids=str)
def test_graphs_behind_it(op, engine):
    hopper.check_graphs(engine, op, count=4, seeds=3000)


@pytest.mark.share(3)
@pytest.mark.parametrize("keeps", ["", "sum", "mask"])
@pytest.mark.parametrize("line", ["conv_fprop n3c24h17w20 k72r3s3 pad=1 bf16 nhwc",
                                  "conv_dgrad n3c136h9w40 k16r1s3 pad=0,1 f16 nhwc"])
def test_bias_residual_and_relu(line, keeps):
    """Exact; the residual of whole 64 channels is asked for before the products."""
    graph, machine, engine = fused.graph_of(Problem.parse(line), keeps), hopper.device(3), engine_of(line)
    choice = next(c for c in candidates(graph, machine.facts) if [p.engine for p in c.parts] == [engine])
    rng = np.random.default_rng(0)
    values = {uid: rng.integers(-2, 3, graph.tensors[uid].dims).astype(np.float32)
              for uid in (fused.X, fused.W, fused.B, fused.R)}
    want = graphs.run(graph, values, devices.get("numpy"))
    with hopper.watched.watching():
        got = graphs.execute(plan.made(choice, machine), values)
    assert not graphs.differences(graph, got, want)
    assert any("prefetch.global.L2" in text for text in machine.codes)


# ---- Which it takes ----

REFUSED = [
    ("conv_fprop n1c8h9w9 k8r3s3 f32 nhwc", "x must be one of f16 bf16; got f32"),
    ("conv_fprop n1c72h9w9 k8r3s3 f16 nhwc", "c must be at most 64; got 72"),
    ("conv_dgrad n1c8h9w9 k72r3s3 f16 nhwc", "k must be at most 64; got 72"),
    ("conv_fprop n1c8h9w9 k8r3s3 stride=1,2 f16 nhwc", "stride must be 1; got (1, 2)"),
    ("conv_dgrad n1c16h9w9 k16r3s3 groups=2 f16 nhwc", "groups must be 1; got 2"),
    ("conv_fprop n1c8d4h9w9 k8t3r3s3 f16 nhwc", "images must have 1 or 2 spatial dims; got 3"),
    ("conv_fprop n1c8h9w9 k8r3s3 f16 nchw", "x must have contiguous channels, and other strides that are "
     "multiples of 8 (16 bytes); got strides (648, 81, 9, 1)"),
    ("conv_fprop n1c8h9w9 k12r3s3 f16 nhwc", "y must have contiguous channels and other strides in multiples "
     "of 8, and be aligned to 16 bytes; got 12 channels, strides (588, 1, 84, 12), aligned to"),
    ("conv_dgrad n1c12h9w9 k8r3s3 f16 nhwc", "w must have contiguous channels, and other strides that are "
     "multiples of 8 (16 bytes); got strides (108, 1, 36, 12)"),
    ("conv_fprop n1c8h9w9 k8r5s5 f16 nhwc", "64 filters and two stages of the pixels that 240 places meet "
     "must fit into 219008 bytes, their rows into boxes of 256; got taps of (5, 5) and dilation (1, 1)"),
    ("conv_fprop n1c8h9w300 k8r1s2 dilation=1,256 f16 nhwc", "got taps of (1, 2) and dilation (1, 256)"),
    ("conv_fprop n1c8h9w9 k8r3s3 f16 nhwc align=8", "x must be aligned to 16 bytes; got 8"),
    ("conv_fprop n0c8h9w9 k8r3s3 f16 nhwc", "x must have elements; got dims"),
]


@pytest.mark.parametrize("line, sentence", REFUSED)
def test_refused(line, sentence):
    assert sentence in "; ".join(engine_of(line).reasons(match(Problem.parse(line)), H200))


@BOTH
def test_it_needs_hopper(engine):
    p = match(Problem.parse(f"{engine.op.name} n1c8h9w9 k8r3s3 f16 nhwc"))
    assert list(engine.reasons(p, KNOWN["a100"])) == ["needs sm_90 or newer; device is sm_80"]
    assert list(engine.reasons(p, KNOWN["b200"])) == ["needs sm_90 itself (wgmma); device is sm_100"]
    assert engine.accepts(p, H200)


# ---- Tiles ----

@BOTH
def test_a_layer_of_64_channels(engine):
    """Eight rows of 28 in a product of 240 places, which read less than four of 56; a block on every SM."""
    line = f"{engine.op.name} n256c64h56w56 k64r3s3 pad1 bf16 nhwc"
    launch, = steps(engine, match(Problem.parse(line)), H200)
    found = {name: launch.args[name] for name in ("rows", "columns", "pitch", "stages", "tiles", "teams")}
    assert found == dict(rows=8, columns=28, pitch=30, stages=3, tiles=256 * 14, teams=1)
    assert launch.extra == {"blocks": 132}


@pytest.mark.parametrize("size, reach", [((7, 7), (2, 2)), ((112, 112), (2, 2)), ((1, 1000), (0, 4)),
                                         ((300, 1), (4, 0)), ((28, 28), (0, 0)), ((13, 500), (6, 30))])
def test_tiles_cover_an_image(size, reach):
    t = tiles_of(size, reach, 140_000)
    assert t.bands * t.rows >= size[0] > (t.bands - 1) * t.rows
    assert t.strips * t.columns >= size[1] > (t.strips - 1) * t.columns
    assert (t.rows - 1) * t.pitch + t.columns <= PLACES and t.stages * t.x_rows * 128 <= 140_000
    assert t.x_rows >= max(t.read, reach[0] * t.pitch + reach[1] + PLACES)
