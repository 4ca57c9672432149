"""Convolutions by Fourier transforms: sizes, windows and what wraps around, in NumPy; refusals; every
geometry on the interpreter; who is asked, and how errors are bounded."""
from __future__ import annotations

import random
from math import prod

import numpy as np
import pytest

from cydnn import device as devices, kernels, plan as plans
from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX, Config
from cydnn.engines.conv.transforms import MOST, SIZES, STAGES, Axis, radices, smooth
from cydnn.heuristics import Wish, best, candidates
from cydnn.ops import Problem
from support.draw.alone import cost, match, steps
from support.check.matrix import Prepared, execute, run

H200, T4 = KNOWN["h200"], KNOWN["t4"]
WHOLE, TILED = (112, 132, 152), (113, 133)
ALL = sorted(WHOLE + TILED)


@pytest.fixture(scope="module")
def interpreter():
    return devices.get("ptx:sm_80")


# ---- Sizes ----

@pytest.mark.parametrize("n", SIZES)
def test_stages_multiply_to_the_size(n):
    stages = radices(n)
    assert prod(stages) == n and len(stages) <= STAGES and set(stages) <= {2, 3, 4, 5, 8}
    assert stages == sorted(stages, reverse=True)


def test_smooth_is_the_least_size():
    for least in range(1, MOST + 1):
        found = smooth(least)
        assert found >= least and not set(range(least, found)) & set(SIZES)
    assert SIZES[-1] == MOST and smooth(MOST + 1) == 0
    assert {1, 30, 32, 36, 81, 125, 243, 250} <= set(SIZES) and not {7, 14, 49} & set(SIZES)


def by_transforms(image, kernel, axis: Axis, out: int):
    """One dim as the engines do it: windows, transforms, product, transform back, crop."""
    result = np.full(out, np.nan)
    for tile in range(axis.tiles):
        window = np.zeros(axis.size)
        for u in range(axis.live):
            at = tile * axis.step - axis.pre + u
            window[u] = image[at] if 0 <= at < len(image) else 0.0
        spectrum = np.fft.fft(window) * np.conj(np.fft.fft(kernel, axis.size))
        for j, value in enumerate(np.fft.ifft(spectrum).real[:axis.step]):
            if tile * axis.step + j < out:
                assert np.isnan(result[tile * axis.step + j])
                result[tile * axis.step + j] = value
    return result


@pytest.mark.parametrize("seed", range(200))
def test_nothing_that_wraps_around_is_kept(seed):
    rng, gen = random.Random(seed), np.random.default_rng(seed)
    kernel, image = gen.normal(size=rng.randint(1, 12)), gen.normal(size=rng.randint(1, 60))
    pre, post = rng.randint(0, len(kernel) - 1), rng.randint(0, len(kernel) - 1)
    out = len(image) + pre + post - len(kernel) + 1
    if out < 1:
        return
    padded = np.pad(image, (pre, post))
    want = [padded[j:j + len(kernel)] @ kernel for j in range(out)]
    for tile in (MOST, 32, 16) if len(kernel) <= 9 else (MOST, 32):
        axis = Axis.of(len(image), len(kernel), out, pre, tile)
        assert len(kernel) <= axis.size <= tile and (axis.tiles == 1 or tile < MOST)
        np.testing.assert_allclose(by_transforms(image, kernel, axis, out), want, atol=1e-12)


# ---- What they refuse ----

@pytest.mark.parametrize("index, text, sentence", [
    (112, "conv_fprop n1c1h8w8 k1r3s3 stride=1,2", "stride must be 1 in every dim; got (1, 2)"),
    (113, "conv_fprop n1c1h8w8 k1r3s3 dil2", "dilation must be 1 in every dim; got (2, 2)"),
    (132, "conv_dgrad n1c4h8w8 k4r3s3 groups=2", "groups must be 1; got 2"),
    (152, "conv_wgrad n0c4h8w8 k4r3s3",
     "x and dy must have elements; got dims (0, 4, 8, 8) and (0, 4, 6, 6)"),
    (112, "conv_fprop n1c4h8w8 k4r3s3 i8", "x must be one of f64 f32 f16 bf16; got i8"),
    (112, "conv_fprop n1c4h8w8 k4r3s3 f16 acc=f64", "compute must be f32 for f16 tensors; got f64"),
    (112, "conv_fprop x=1x4x8x8:f16 w=4x4x3x3:f32 y=1x4x6x6:f32", "operands must have one type; got f16 f32"),
    (112, "conv_fprop n1c1h8w8 k1r3s2 pad2",
     "the filter must be larger than the padding in every dim; got (3, 2), padding (2, 2) and (2, 2)"),
    (112, "conv_fprop n1c1h8w257 k1r3s3",
     "transforms must have at most 256 points in every dim; got (8, 257)"),
    (152, "conv_wgrad n1c1h256w8 k1r3s3 pad1",
     "transforms must have at most 256 points in every dim; got (257, 9)"),
    (113, "conv_fprop n1c1h80w8 k1r33s3", "the filter must be <= 32 in every dim; got (33, 3)"),
    (112, "conv_fprop n1c1024h250w250 k1024r3s3",
     "the spectra of one image and all filters must fit into 8589934592 bytes; got 265273344000"),
])
def test_refusals(index, text, sentence):
    assert sentence in BY_INDEX[index].reasons(match(Problem.parse(text)), H200)


def test_a_transform_that_does_not_fit_into_shared_memory():
    p = match(Problem.parse("conv_fprop n1c1h250w8 k1r3s3 f64"))
    assert BY_INDEX[112].accepts(p, H200)
    assert BY_INDEX[112].reasons(p, T4) == (
        "a transform of 250 points needs more than 65536 bytes of shared memory",)


# ---- On the interpreter ----

GEOMETRIES = [
    "n2c3h6w7 k4r3s2 pre_pad=2,0 post_pad=0,1", "n3c2h5w9 k3r3s3 pad1 mode=convolution",
    "n2c3h4w6 k2r3s3 pad2 nhwc f16", "n1c2h9 k3r4 pad=1 bf16", "n2c2d3h4w5 k3t2r1s3 pad=1,0,2 f64",
    "n1c1h1w1 k1r1s1", "n1c5h2w3 k3r2s3", "n2c2h3w17 k2r2s6 pad=1,5 f16 mode=convolution",
]


@pytest.mark.share(16)
@pytest.mark.parametrize("index", ALL)
@pytest.mark.parametrize("text", GEOMETRIES)
def test_every_geometry(interpreter, index, text):
    engine = BY_INDEX[index]
    problem = Problem.parse(f"{engine.op.name} {text}")
    for seed, numbers in enumerate((dict(alpha=1.0, beta=0.0), dict(alpha=-0.5, beta=2.0))):
        outcome = run(problem, interpreter, seed, [engine], scalars=numbers)
        assert outcome.ran and not outcome.findings, outcome


@pytest.mark.parametrize("index", TILED)
@pytest.mark.parametrize("text, config", [
    ("n2c2h4w37 k3r3s4 pad1", dict(tile=32, batch=1, transform=16)),
    ("n3c1h19w20 k2r3s5 pad=2,1 mode=convolution f16", dict(tile=64, batch=2, transform=16)),
    ("n1c1h3w70 k2r2s17 nhwc", dict(tile=64, batch=1, transform=32)),
    ("n1c2d18h2w17 k1t3r2s2 f64", dict(tile=32, batch=1, transform=16)),
])
def test_tiles_that_overlap(interpreter, index, text, config):
    """Several tiles in one dim or two, whose last ones reach beyond the image; chunks of images."""
    engine = BY_INDEX[index]
    problem = Problem.parse(f"{engine.op.name} {text}")
    launch = steps(engine, match(problem), H200, Config(**config))[-1]
    assert prod(launch.args["tiles"]) > 1
    outcome = run(problem, interpreter, 1, [engine], Config(**config), dict(alpha=1.5, beta=-1.0))
    assert outcome.ran and not outcome.findings, outcome


@pytest.mark.parametrize("index", WHOLE)
@pytest.mark.parametrize("images", [1, 2])
def test_chunks_of_images(interpreter, index, images):
    engine = BY_INDEX[index]
    problem = Problem.parse(f"{engine.op.name} n5c3h4w5 k2r3s3 pad1")
    outcome = run(problem, interpreter, 2, [engine], Config(tile=32, batch=images))
    assert outcome.ran and not outcome.findings, outcome


def outputs(problem, values, device, index, config=None):
    wish = Wish(engines=(index,), config=config)
    buffers, _ = execute(plans.build(graph_of(problem), device, wish), problem, values, values, device)
    plans.forget()
    return buffers[problem.op.writes[0]].read()[0]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_image(interpreter, value):
    """It spreads over the outputs of its image: no further, though images are transformed side by side."""
    problem = Problem.parse("conv_fprop n3c2h5w6 k2r3s3 pad1")
    made = Prepared(problem, 3, dict(alpha=1.0, beta=0.0))
    made.values["x"][1, 0, 2, 3] = value
    y = outputs(problem, made.values, interpreter, 112)
    assert not np.isfinite(y[1]).any() and np.isfinite(y[[0, 2]]).all()


def test_what_is_not_finite_stays_in_its_tiles(interpreter):
    problem = Problem.parse("conv_fprop n1c1h3w60 k1r2s5")
    made = Prepared(problem, 3, dict(alpha=1.0, beta=0.0))
    made.values["x"][0, 0, 1, 2] = np.nan                          # in the first tile alone: outputs 0 to 11
    y = outputs(problem, made.values, interpreter, 113, Config(tile=32, batch=1, transform=16))
    assert np.isnan(y[..., :12]).all() and np.isfinite(y[..., 12:]).all()


# ---- Who is asked; time and memory ----

LARGE = "conv_fprop n64c128h32w32 k128r9s9 pad4 f32"


def test_they_serve_who_asks_for_them():
    graph = graph_of(Problem.parse(LARGE))
    engines = lambda wish: {p.engine.index for choice in candidates(graph, H200, wish) for p in choice.parts}
    assert not engines(Wish()) & set(ALL)
    assert best(graph, H200, Wish(notes=("fft",))).engine.index == 112
    assert engines(Wish(engines=(113, 109))) == {113, 109}


def test_time_grows_with_the_filter_less_than_that_of_direct_sums():
    def at(size, index):
        return cost(BY_INDEX[index], match(Problem.parse(LARGE.replace("r9s9 pad4", size))), H200)
    assert at("r9s9 pad4", 112) < at("r9s9 pad4", 109) / 4
    assert at("r1s1 pad0", 112) > at("r1s1 pad0", 109)
    assert at("r9s9 pad4", 112) < 1.5 * at("r5s5 pad2", 112)


@pytest.mark.parametrize("index", ALL)
def test_less_workspace_is_smaller_chunks(index):
    engine = BY_INDEX[index]
    graph = graph_of(Problem.parse(f"{engine.op.name} n32c32h32w32 k32r5s5 pad2"))
    whole = best(graph, H200, Wish(engines=(index,)))
    assert whole.workspace_bytes > 0 and whole.parts[0].config.batch == 32
    less = best(graph, H200, Wish(engines=(index,), workspace_bytes=whole.workspace_bytes // 2))
    assert 0 < less.workspace_bytes <= whole.workspace_bytes // 2 and less.parts[0].config.batch < 32


@pytest.mark.parametrize("text", ["conv_fprop n512c512h100w100 k64r3s3 pad1",
                                  "conv_fprop n1c64h4000w3000 k64r5s5 f16"])
def test_large_problems_pack(text):
    """In chunks of images; every count stays within the kernels' reach."""
    p = match(Problem.parse(text))
    for engine in (e for e in (BY_INDEX[112], BY_INDEX[113]) if e.accepts(p, H200)):
        for launch in steps(engine, p, H200):
            assert kernels.get(launch.kernel).pack(launch.args, **launch.extra).grid[0] >= 1


# ---- Errors ----

@pytest.mark.parametrize("index", ALL)
@pytest.mark.parametrize("text", GEOMETRIES[:4])
def test_the_bound_of_errors(interpreter, index, text):
    """What errors scale with is not below the op's own magnitude (Cauchy and Schwarz), and a spike in a
    corner may cost accuracy elsewhere: within the bound."""
    engine = BY_INDEX[index]
    problem = Problem.parse(f"{engine.op.name} {text}")
    made = Prepared(problem, 5, dict(alpha=1.0, beta=0.0), exact=False)
    spiky, kind = made.values[engine.roles[0]], problem.operands[engine.roles[0]].dtype
    spiky[..., -1] = kind.round(500.0 * spiky[..., -1])
    arrays = {name: made.values[name] for name in problem.op.operands()}
    raw, out = problem.op.evaluate(arrays, made.scalars), problem.op.writes[0]
    wide = engine.magnitude(problem.op, arrays, made.scalars, raw)[out]
    assert (wide >= problem.op.magnitude(arrays, made.scalars, raw)[out] * (1 - 1e-12)).all()
    desc, eps = problem.operands[out], 2.0 ** -23
    got = outputs(problem, made.values, interpreter, index)
    rounding = desc.dtype.eps * np.abs(raw[out]) + desc.dtype.tiny
    assert (np.abs(got - raw[out]) <= 8 * eps * wide + rounding).all()
