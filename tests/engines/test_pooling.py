"""Pooling engines without a GPU: refusals, launches that pack and cover,
and the kernels on the interpreter."""
from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from cydnn import device as devices, kernels, plan
from cydnn.device.facts import KNOWN
from cydnn.engines import engines_for
from cydnn.engines.pool import max_plane, nhwc
from cydnn.engines.pool.view import plane, two
from cydnn.ops import PoolingBwd, PoolingFwd
from cydnn.ops.problem import Problem
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc
from support.draw.alone import match, steps, takers
from support.draw import tensor
from support.check.matrix import Prepared, blended, execute, plain, run

H200, SM80 = KNOWN["h200"], devices.get("ptx:sm_80")
OPS = (PoolingFwd, PoolingBwd)
MODES = ("max", "avg_include_padding", "avg_exclude_padding")


def problem_of(op_class, dims, window, stride, pad=0, dtype="bf16",
               layout="nhwc", mode="max", nan="ignore", alignment=16):
    op = op_class(mode=mode, window=window, stride=stride, pre_pad=pad, nan=nan)
    out = op.out_dims(dims)
    return Problem(op, {n: TensorDesc.packed(dtype, dims if n in ("x", "dx") else out, layout)
                        for n in op.operands()}, alignment)


def accepting(problem):
    p = match(problem)
    return p, takers(p, H200)


def draw(op_class, rng, dtype=None) -> Problem:
    """A random problem: windows up to 9, padding beyond the window, 1 to 3 spatial dims, every layout."""
    while True:
        rank = rng.choice([1, 2, 2, 2, 2, 3])
        dtype_ = dtype or rng.choice(["f64", "f32", "f16", "bf16"])
        each = lambda *values: tuple(rng.choice(values) for _ in range(rank))
        square = rng.random() < 0.5
        window = (rng.choice([2, 3]),) * rank if square else each(1, 2, 3, 4, 5, 9)
        stride = (2,) * rank if square else each(1, 2, 3)
        pad = rng.choice([(0,) * rank, (1,) * rank, each(0, 1, 2, 4)])
        most = 21 if rank < 3 else 7
        dims = (rng.randint(1, 3), rng.choice([1, 3, 4, 8, 16, 24]),
                *(rng.randint(1, most) for _ in range(rank)))
        if rng.random() < 0.15:                  # the whole plane
            window, pad = dims[2:], (0,) * rank
        op = op_class(mode=rng.choice(MODES), nan=rng.choice(["ignore", "propagate"]), window=window,
                      stride=stride, pre_pad=pad, compute="f64" if dtype_ == "f64" else "f32")
        out = op.out_dims(dims)
        if min(out) < 1 or np.prod(dims) * np.prod(window) > 40000:
            continue
        layout = rng.choice(["nchw", "nhwc", "nhwc", None])
        try:
            return Problem(op, {n: tensor(rng, dtype_, dims if n in ("x", "dx") else out, layout)
                                for n in op.operands()})
        except BadParam:
            continue


# ---- Refusals ----

def reasons(op_class, engine, *args, device=H200, **kw):
    return "; ".join(next(e for e in engines_for(op_class) if e.name == engine).reasons(
        match(problem_of(op_class, *args, **kw)), device))


def test_refusals():
    fwd = lambda engine, *a, **k: reasons(PoolingFwd, "pooling_fwd_" + engine, *a, **k)
    bwd = lambda engine, *a, **k: reasons(PoolingBwd, "pooling_bwd_" + engine, *a, **k)
    assert fwd("nhwc_strip", (2, 16, 8, 8), 3, 2) == ""
    assert "window must be (2, 2) or (3, 3) with stride (2, 2); got (3, 3) with (1, 1)" in fwd(
        "nhwc_strip", (2, 16, 8, 8), 3, 1)
    assert ("channels of x must be neighbours and a multiple of 8 (16 bytes); got c=12, stride 1"
            in fwd("nhwc", (2, 12, 8, 8), 3, 2))
    assert "x must have 2 spatial dims; got 1" in fwd("nchw_strip", (2, 16, 8), 3, 2, layout="nchw")
    assert "x must be aligned to 16 bytes; got 2" in fwd("nhwc", (2, 16, 8, 8), 3, 2, alignment=2)
    assert "window must be the whole of x without padding; got window (3, 3), pad (0, 0), x (8, 8)" in fwd(
        "whole", (2, 16, 8, 8), 3, 2, layout="nchw")
    assert "w of x must be innermost; got stride 16" in fwd("nchw_strip", (2, 16, 8, 8), 3, 2)
    assert "mode must be max; got avg_include_padding" in bwd(
        "max_nhwc", (2, 16, 8, 8), 3, 2, mode="avg_include_padding")
    assert "mode must be avg_include_padding or avg_exclude_padding; got max" in bwd(
        "avg_nhwc", (2, 16, 8, 8), 3, 2)
    assert "x must have at most 2 spatial dims; got 3" in bwd("max_plane", (2, 16, 8, 8, 8), 3, 2)
    assert "winners of the windows over one cell must fit in 40960 bytes" in bwd(
        "max_nhwc", (2, 16, 300, 300), 200, 1)
    assert "needs sm_80 or newer; device is sm_75" in reasons(
        PoolingBwd, "pooling_bwd_max_nhwc_strip", (2, 16, 8, 8), 3, 2, device=KNOWN["t4"])
    assert "window must be (2, 2) or (3, 3) with stride (2, 2); got (3, 3) with (1, 1)" in bwd(
        "max_nhwc_strip", (2, 16, 8, 8), 3, 1)
    assert f"strides of x within an image must be below {2 ** 31} bytes; got" in bwd(
        "max_nhwc_strip", (1, 8, 3, 1 << 27), 3, 2)
    assert "windows must not overlap; got window (3, 3), stride (2, 2)" in bwd(
        "avg_nhwc_apart", (2, 16, 8, 8), 3, 2, mode="avg_include_padding")
    # one window overlaps nothing
    assert bwd("avg_nhwc_apart", (2, 16, 7, 7), 7, 1, mode="avg_include_padding") == ""
    assert "window must have rows and at least 16 cells; got (3, 3)" in fwd("nhwc_team", (2, 16, 8, 8), 3, 2)
    assert "w and strides of x must be multiples of 8 (16 bytes); got dims (2, 16, 8, 12)" in fwd(
        "nchw_wide", (2, 16, 8, 12), 3, 2, layout="nchw")
    assert "pad of w must be at most 0; got 1" in fwd("nchw_wide", (2, 16, 8, 8), 2, 2, 1, layout="nchw")
    assert (fwd("strided", (2, 3, 8, 8, 8), 3, 2, dtype="f64")
            == bwd("strided", (2, 3, 8, 8, 8), 3, 2, dtype="f64") == "")


@pytest.mark.parametrize("op_class", OPS)
def test_no_elements_no_launch(op_class):
    for dims in ((0, 8, 4, 4), (2, 0, 4, 4)):
        p, engines = accepting(problem_of(op_class, dims, 2, 2))
        assert engines and not any(steps(e, p, H200) for e in engines)


# ---- Launches ----

@pytest.mark.parametrize("op_class", OPS)
def test_launches_pack_and_fit(op_class):
    for seed in range(300):
        p, engines = accepting(draw(op_class, random.Random(seed)))
        assert engines
        for engine in engines:
            for step in steps(engine, p, H200):
                packed = kernels.get(step.kernel).pack(step.args, **step.extra)
                assert min(packed.grid) >= 1 and packed.smem <= 48 << 10, (step.kernel, packed)


@pytest.mark.parametrize("tile_of", [nhwc.tile_of, max_plane.tile_of])
def test_every_window_over_a_tile_has_a_code(tile_of):
    for seed in range(400):
        rng = random.Random(seed)
        problem = draw(PoolingBwd, rng, "f32")
        p = match(problem)
        if p.x.rank > 4 or tile_of is nhwc.tile_of and p.x.c % 4:
            continue
        tile, most = tile_of(p)[:2]
        (window, pad, stride), outs, sizes = two(p, p.dx), plane(p.dy)[0], plane(p.dx)[0]
        for t, m, w, a, s, out, size in zip(tile, most, window, pad, stride, outs, sizes):
            for start in range(0, size, t):
                first = max(-(-(start + a - w + 1) // s), 0)
                over = [o for i in range(start, min(start + t, size))
                        for o in range(out) if o * s - a <= i < o * s - a + w]
                assert all(0 <= o - first < m for o in over)


# ---- The kernels, on the interpreter ----

SCALARS = (dict(alpha=1.0, beta=0.0), dict(alpha=2.0, beta=0.5))


def check(problem, engine, rng, special=False):
    """Ties in every problem; ``special``: with NaN and infinities where a maximum is sought."""
    flavour = "special" if special and problem.op.mode == "max" else "ties"
    outcome = run(problem, devices.get("ptx:sm_90"), rng.randrange(2 ** 31), [engine],
                  scalars=rng.choice(SCALARS), flavour=flavour)
    assert outcome.ran and not outcome.findings, f"{problem} {flavour}: {outcome}"


@pytest.mark.parametrize("op_class", OPS)
@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "f16"])
def test_kernels_match_the_reference(op_class, dtype):
    """Random problems; each kernel variant twice, with ties, NaN and infinities."""
    seen = {}
    for seed in range(250):
        rng = random.Random(f"{op_class.name} {dtype} {seed}")
        problem = draw(op_class, rng, dtype)
        p, engines = accepting(problem)
        for engine in engines:
            kernel = steps(engine, p, H200)[0].kernel
            seen[kernel] = seen.get(kernel, 0) + 1
            if seen[kernel] <= 2:
                check(problem, engine, rng, special=seen[kernel] == 2)


@pytest.mark.parametrize("compute", ["f32", "f64"])
@pytest.mark.parametrize("nan", ["propagate", "ignore"])
@pytest.mark.parametrize("op_class", OPS)
def test_both_modes_of_nan_in_f64(op_class, nan, compute):
    """Every engine that takes f64, on windows with NaN, infinities and zeros of both signs."""
    seen = set()
    for case, layout in (("3 x 3, stride 2, several tiles", "nchw"), ("windows of padding only", "nhwc"),
                         ("global", "nhwc")):
        problem = problem_of(op_class, *CASES[case], dtype="f64", layout=layout, nan=nan)
        problem = Problem(replace(problem.op, compute=compute), problem.operands)
        for engine in accepting(problem)[1]:
            seen.add(engine.name)
            check(problem, engine, random.Random(f"{case} {nan}"), special=True)
    assert seen == {PoolingFwd: {"pooling_fwd_strided"},
                    PoolingBwd: {"pooling_bwd_max_plane", "pooling_bwd_strided"}}[op_class]


def draw_for_vectors(op_class, rng, dtype) -> Problem:
    """What the kernels of 16-byte vectors take: whole vectors in packed tensors;
    windows of stride 2, apart, or large."""
    window, stride = rng.choice([(2, 2), (3, 2), (2, 2), (3, 2), (2, 3), (5, 5), (5, 1), (9, 4)])
    pad = rng.choice([0, 0, 0, 1, 1, 5, (4, 0), (4, 1)])
    layout = rng.choice(["nchw", "nhwc"])
    while True:
        width = rng.choice([8, 16, 24]) if layout == "nchw" else rng.randint(1, 19)
        dims = (rng.randint(1, 2), rng.choice([3, 5]) if layout == "nchw" else rng.choice([8, 24]),
                rng.randint(1, 26), width)
        op = op_class(mode=rng.choice(["max", *MODES]), nan=rng.choice(["ignore", "propagate"]),
                      window=window, stride=stride, pre_pad=pad)
        if min(op.out_dims(dims)) >= 1:
            return problem_of(op_class, dims, window, stride, pad, dtype, layout, op.mode, op.nan)


FAST = {PoolingFwd: ("pooling_fwd_nhwc_team", "pooling_fwd_nchw_wide"),
        PoolingBwd: ("pooling_bwd_avg_nhwc_apart", "pooling_bwd_max_nhwc_strip")}


@pytest.mark.parametrize("op_class", OPS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_kernels_of_vectors_match_the_reference(op_class, dtype):
    """Every kernel variant of these engines twice, also where padding is wider than the window."""
    variants = [name for name in kernels.names() if name.startswith(FAST[op_class]) and f"_{dtype}" in name]
    seen = dict.fromkeys(variants, 0)
    for seed in range(320):
        rng = random.Random(f"vectors {op_class.name} {dtype} {seed}")
        problem = draw_for_vectors(op_class, rng, dtype)
        p, engines = accepting(problem)
        for engine in (e for e in engines if e.name in FAST[op_class]):
            kernel = steps(engine, p, H200)[0].kernel
            seen[kernel] += 1
            if seen[kernel] <= 2:
                check(problem, engine, rng, special=seen[kernel] == 2)
    assert min(seen.values()) >= 2, seen


@pytest.mark.parametrize("device", ["h200", "a100"])
def test_strips_cover_the_rows_once(device):
    for seed in range(400):
        rng = random.Random(seed)
        problem = problem_of(PoolingBwd, (rng.randint(1, 300), rng.choice([8, 64, 2048]), rng.randint(3, 300),
                                          rng.randint(3, 300)), rng.choice([2, 3]), 2, rng.choice([0, 1]))
        cut = nhwc.strips_of(match(problem), KNOWN[device])
        _, _, h, w = problem.operands["dx"].dims
        pad = problem.op.geometry(4)[1][0]
        rows = (h + pad + 1) // 2
        assert (cut["strips"] - 1) * cut["height"] < rows <= cut["strips"] * cut["height"], cut
        assert 4 * cut["groups"] - pad >= w > 4 * (cut["groups"] - 1) - pad


CASES = {                                        # what each is there for -> dims, window, stride, pad
    "the recorded case: 4 x 4, padding 3, stride 2": ((1, 8, 5, 5), 4, 2, 3),
    "windows of padding only": ((1, 8, 3, 3), 2, 2, 4),
    "global": ((3, 16, 7, 7), 7, 1, 0),
    "global, many planes": ((5, 40, 3, 3), 3, 1, 0),
    "3 x 3, stride 2, even, no padding": ((2, 8, 12, 12), 3, 2, 0),
    "3 x 3, stride 2, even, padding 1": ((2, 8, 12, 12), 3, 2, 1),
    "3 x 3, stride 2, several tiles": ((1, 8, 37, 35), 3, 2, 1),
    "2 x 2, stride 2": ((2, 16, 8, 8), 2, 2, 0),
    "stride beyond the window": ((1, 8, 11, 9), 2, 3, 0),
    "one cell": ((1, 8, 1, 1), 1, 1, 0),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("op_class", OPS)
def test_corners(op_class, case):
    rng = random.Random(case)
    for layout in ("nhwc", "nchw"):
        for mode in MODES:
            problem = problem_of(op_class, *CASES[case], dtype="f32", layout=layout, mode=mode,
                                 nan=rng.choice(["ignore", "propagate"]))
            for engine in accepting(problem)[1]:
                check(problem, engine, rng, special=True)


@pytest.mark.parametrize("nan", ["propagate", "ignore"])
def test_cells_that_share_an_address_are_cells(nan):
    """Rows of x that repeat: the first of equal cells wins, not every one at its address."""
    line = ("pooling_bwd y=1x1x6x6 dy=1x1x6x6 x=1x1x6x5:f32@30,30,{} dx=1x1x6x5 window=3,4 pre_pad=1,2 "
            f"nan={nan}")
    for strides in ("0,1", "5,0", "0,0"):
        problem = Problem.parse(line.format(strides))
        for engine in accepting(problem)[1]:
            check(problem, engine, random.Random(strides))


@pytest.mark.parametrize("kind", ["f16", "bf16", "i8", "u8", "f8_e4m3", "f64"])
def test_the_lowest_number_is_that_of_the_output(kind):
    """Windows of padding or NaN alone, whose maximum is computed in another type than y's."""
    problem, there = Problem.parse(f"pooling_fwd x=2x3x9x6:f32 y=2x3x8x8:{kind} window=2,1 pre_pad=0,1"), SM80
    outcome = run(problem, there, scalars=blended(problem.op), nans=("x",))
    assert outcome.ran and not outcome.findings, outcome
    made = Prepared(problem, 1, plain(problem.op), nans=("x",))
    buffers, _ = execute(plan.build(made.graph, there), problem, made.values, problem.op.reads, there)
    lowest = buffers["y"].read()[0] == problem.operands["y"].dtype.lowest
    assert lowest[..., 0].all() and lowest[..., 7].all() and not lowest.all()


@pytest.mark.parametrize("op_class", OPS)
def test_kernels_are_built(op_class):
    """The launches of a plan name kernels of the manifest."""
    for layout in ("nhwc", "nchw"):
        for mode in MODES:
            p, engines = accepting(problem_of(op_class, (2, 16, 8, 8), 3, 2, 1, layout=layout, mode=mode))
            for engine in engines:
                for step in steps(engine, p, H200):
                    assert kernels.get(step.kernel).images
