"""Pooling engines without a GPU: refusals, launches that pack and cover, and the kernels' source run on the host."""
from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cuda_on_host as host
from cydnn import kernels
from cydnn.device.facts import KNOWN
from cydnn.engines import engines_for
from cydnn.engines import pooling_nchw, pooling_nhwc
from cydnn.heuristics.partition import match_of
from cydnn.ops import PoolingBwd, PoolingFwd
from cydnn.ops.problem import Problem
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc
from tests.support.compare import compare, tolerance
from tests.support.draw import tensor
from tests.support.matrix import graph_of

H200 = KNOWN["h200"]
OPS = (PoolingFwd, PoolingBwd)
MODES = ("max", "avg_include_padding", "avg_exclude_padding")
needs_compiler = pytest.mark.skipif(host.cuda_include() is None, reason="needs g++ and nvcc's headers")


def match(problem, scalars=None):
    graph = graph_of(problem, scalars or dict(problem.op.scalars))
    return match_of(graph, graph.nodes[0])


def problem_of(op_class, dims, window, stride, pad=0, dtype="bf16", layout="nhwc", mode="max", nan="ignore", **facts):
    op = op_class(mode=mode, window=window, stride=stride, pre_pad=pad, nan=nan)
    out = op.out_dims(dims)
    return Problem(op, {n: TensorDesc.packed(dtype, dims if n in ("x", "dx") else out, layout, **facts) for n in op.operands()})


def accepting(problem):
    p = match(problem)
    return p, [e for e in engines_for(problem.op) if e.index and e.accepts(p, H200)]


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
        dims = (rng.randint(1, 3), rng.choice([1, 3, 4, 8, 16, 24]), *(rng.randint(1, most) for _ in range(rank)))
        if rng.random() < 0.15:                  # the whole plane
            window, pad = dims[2:], (0,) * rank
        op = op_class(mode=rng.choice(MODES), nan=rng.choice(["ignore", "propagate"]), window=window, stride=stride, pre_pad=pad,
                      compute="f64" if dtype_ == "f64" else "f32")
        out = op.out_dims(dims)
        if min(out) < 1 or np.prod(dims) * np.prod(window) > 40000:
            continue
        layout = rng.choice(["nchw", "nhwc", "nhwc", None])
        try:
            return Problem(op, {n: tensor(rng, dtype_, dims if n in ("x", "dx") else out, layout) for n in op.operands()})
        except BadParam:
            continue


# ---- Refusals ----

def reasons(op_class, engine, *args, device=H200, **kw):
    return "; ".join(next(e for e in engines_for(op_class) if e.name == engine).refuse(match(problem_of(op_class, *args, **kw)), device))


def test_refusals():
    fwd = lambda engine, *a, **k: reasons(PoolingFwd, "pooling_fwd_" + engine, *a, **k)
    bwd = lambda engine, *a, **k: reasons(PoolingBwd, "pooling_bwd_" + engine, *a, **k)
    assert fwd("nhwc_strip", (2, 16, 8, 8), 3, 2) == ""
    assert "window must be (2, 2) or (3, 3) with stride (2, 2); got (3, 3) with (1, 1)" in fwd("nhwc_strip", (2, 16, 8, 8), 3, 1)
    assert "channels of x must be neighbours and a multiple of 8 (16 bytes); got c=12, stride 1" in fwd("nhwc", (2, 12, 8, 8), 3, 2)
    assert "x must have 2 spatial dims; got 1" in fwd("nchw_strip", (2, 16, 8), 3, 2, layout="nchw")
    assert "x must be aligned to 16 bytes; got 2" in fwd("nhwc", (2, 16, 8, 8), 3, 2, alignment=2)
    assert "window must be the whole of x without padding; got window (3, 3), pad (0, 0), x (8, 8)" in fwd("whole", (2, 16, 8, 8), 3, 2, layout="nchw")
    assert "w of x must be innermost; got stride 16" in fwd("nchw_strip", (2, 16, 8, 8), 3, 2)
    assert "mode must be max; got avg_include_padding" in bwd("max_nhwc", (2, 16, 8, 8), 3, 2, mode="avg_include_padding")
    assert "mode must be avg_include_padding or avg_exclude_padding; got max" in bwd("avg_nhwc", (2, 16, 8, 8), 3, 2)
    assert "x must have at most 2 spatial dims; got 3" in bwd("max_plane", (2, 16, 8, 8, 8), 3, 2)
    assert "winners of the windows over one cell must fit in 40960 bytes" in bwd("max_nhwc", (2, 16, 300, 300), 200, 1)
    assert "needs sm_80 or newer; device is sm_75" in reasons(PoolingBwd, "pooling_bwd_max_nhwc_strip", (2, 16, 8, 8), 3, 2, device=KNOWN["t4"])
    assert "window must be (2, 2) or (3, 3) with stride (2, 2); got (3, 3) with (1, 1)" in bwd("max_nhwc_strip", (2, 16, 8, 8), 3, 1)
    assert f"strides of x within an image must be below {2 ** 31} bytes; got" in bwd("max_nhwc_strip", (1, 8, 3, 1 << 27), 3, 2)
    assert "windows must not overlap; got window (3, 3), stride (2, 2)" in bwd("avg_nhwc_apart", (2, 16, 8, 8), 3, 2, mode="avg_include_padding")
    assert bwd("avg_nhwc_apart", (2, 16, 7, 7), 7, 1, mode="avg_include_padding") == ""      # one window overlaps nothing
    assert "window must have rows and at least 16 cells; got (3, 3)" in fwd("nhwc_team", (2, 16, 8, 8), 3, 2)
    assert "w and strides of x must be multiples of 8 (16 bytes); got dims (2, 16, 8, 12)" in fwd("nchw_wide", (2, 16, 8, 12), 3, 2, layout="nchw")
    assert "pad of w must be at most 0; got 1" in fwd("nchw_wide", (2, 16, 8, 8), 2, 2, 1, layout="nchw")
    assert fwd("strided", (2, 3, 8, 8, 8), 3, 2, dtype="f64") == bwd("strided", (2, 3, 8, 8, 8), 3, 2, dtype="f64") == ""


@pytest.mark.parametrize("op_class", OPS)
def test_no_elements_no_launch(op_class):
    for dims in ((0, 8, 4, 4), (2, 0, 4, 4)):
        p, engines = accepting(problem_of(op_class, dims, 2, 2))
        assert engines and not any(e.plan(p, H200) for e in engines)


# ---- Launches ----

@pytest.mark.parametrize("op_class", OPS)
def test_launches_pack_and_fit(op_class):
    for seed in range(300):
        p, engines = accepting(draw(op_class, random.Random(seed)))
        assert engines
        for engine in engines:
            for step in engine.plan(p, H200):
                packed = host.kernel(step.kernel, "pool").pack(step.args, **step.extra)
                assert min(packed.grid) >= 1 and packed.smem <= 48 << 10, (step.kernel, packed)


@pytest.mark.parametrize("tile_of", [pooling_nhwc.tile_of, pooling_nchw.tile_of])
def test_every_window_over_a_tile_has_a_code(tile_of):
    for seed in range(400):
        rng = random.Random(seed)
        problem = draw(PoolingBwd, rng, "f32")
        p = match(problem)
        if p.x.rank > 4 or tile_of is pooling_nhwc.tile_of and p.x.c % 4:
            continue
        tile, most = tile_of(p)[:2]
        (window, pad, stride), outs, sizes = pooling_nhwc.two(p, p.dx), pooling_nhwc.plane(p.dy)[0], pooling_nhwc.plane(p.dx)[0]
        for t, m, w, a, s, out, size in zip(tile, most, window, pad, stride, outs, sizes):
            for start in range(0, size, t):
                first = max(-(-(start + a - w + 1) // s), 0)
                over = [o for i in range(start, min(start + t, size)) for o in range(out) if o * s - a <= i < o * s - a + w]
                assert all(0 <= o - first < m for o in over)


# ---- The CUDA source, run on the host ----

def view(d, raw):
    return np.lib.stride_tricks.as_strided(raw, d.dims, [s * d.dtype.bytes for s in d.strides])


def storage(d, values):
    raw = host.aligned(max(d.bytes, 1)).view(d.dtype.numpy)
    raw.view(np.uint8)[:] = 0xFF                 # NaN in every type
    if values is not None:
        view(d, raw)[...] = d.dtype.encode(values)
    return raw


def values_of(problem, rng, special):
    """Small integers, so that maxima tie, and with ``special`` some NaN and infinities."""
    gen, values = np.random.default_rng(rng.randrange(2 ** 32)), {}
    for name, d in problem.operands.items():
        values[name] = gen.integers(-4, 5, d.dims) / 2.0
        if name == "x" and special:
            values[name] = np.where(gen.random(d.dims) < 0.3, gen.choice([np.nan, -np.inf, np.inf, -0.0], d.dims), values[name])
    return values


def run_on_host(problem, engine, values, scalars):
    op, p = problem.op, match(problem, scalars)
    out = op.writes[0]
    d = problem.operands[out]
    arrays = {n: v if n != out or scalars["beta"] else np.full(v.shape, np.nan) for n, v in values.items()}
    with np.errstate(all="ignore"):
        raw = op.evaluate(arrays, scalars)
        if op.mode == "max" and out == "y":      # nothing usable: the lowest value of y's type
            raw = {"y": np.maximum(raw["y"], d.dtype.lowest, where=np.isfinite(raw["y"]), out=raw["y"].copy())}
        want, magnitude = op.blend(raw, arrays, scalars), op.magnitude(arrays, scalars, raw)
        allowed = tolerance(problem, out, d, want[out], magnitude[out], scalars, arrays[out])
    stores = {n: storage(desc, values[n] if n != out or scalars["beta"] else None) for n, desc in problem.operands.items()}
    host.run(engine.plan(p, H200), {p.uids[n]: s for n, s in stores.items()}, scalars, late=False, family="pool")
    report = compare(d.dtype.decode(view(d, stores[out]).copy()), want[out], allowed, d)
    assert report.ok, f"{problem} {engine.name} {scalars}: {report.text}"


@needs_compiler
@pytest.mark.parametrize("op_class", OPS)
@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "f16"])
def test_kernels_match_the_reference(op_class, dtype):
    """Random problems; each kernel variant a few times, with ties, NaN and infinities."""
    seen = {}
    for seed in range(250):
        rng = random.Random(f"{op_class.name} {dtype} {seed}")
        problem = draw(op_class, rng, dtype)
        p, engines = accepting(problem)
        scalars = rng.choice([dict(alpha=1.0, beta=0.0), dict(alpha=2.0, beta=0.5)])
        values = values_of(problem, rng, special=problem.op.mode == "max" and rng.random() < 0.5)
        for engine in engines:
            kernel = engine.plan(p, H200)[0].kernel
            seen[kernel] = seen.get(kernel, 0) + 1
            if seen[kernel] <= 4:
                run_on_host(problem, engine, values, scalars)


def draw_for_vectors(op_class, rng, dtype) -> Problem:
    """What the kernels of 16-byte vectors take: whole vectors in packed tensors; windows of stride 2, apart, or large."""
    window, stride = rng.choice([(2, 2), (3, 2), (2, 2), (3, 2), (2, 3), (5, 5), (5, 1), (9, 4)])
    pad = rng.choice([0, 0, 0, 1, 1, 5, (4, 0), (4, 1)])
    layout = rng.choice(["nchw", "nhwc"])
    while True:
        width = rng.choice([8, 16, 24]) if layout == "nchw" else rng.randint(1, 19)
        dims = (rng.randint(1, 2), rng.choice([3, 5]) if layout == "nchw" else rng.choice([8, 24]), rng.randint(1, 26), width)
        op = op_class(mode=rng.choice(["max", *MODES]), nan=rng.choice(["ignore", "propagate"]), window=window, stride=stride, pre_pad=pad)
        if min(op.out_dims(dims)) >= 1:
            return problem_of(op_class, dims, window, stride, pad, dtype, layout, op.mode, op.nan)


FAST = {PoolingFwd: ("pooling_fwd_nhwc_team", "pooling_fwd_nchw_wide"), PoolingBwd: ("pooling_bwd_avg_nhwc_apart", "pooling_bwd_max_nhwc_strip")}


@needs_compiler
@pytest.mark.parametrize("op_class", OPS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_kernels_of_vectors_match_the_reference(op_class, dtype):
    """Every kernel variant of these engines, several times, also where padding is wider than the window."""
    seen = {}
    for seed in range(320):
        rng = random.Random(f"vectors {op_class.name} {dtype} {seed}")
        problem = draw_for_vectors(op_class, rng, dtype)
        p, engines = accepting(problem)
        scalars = rng.choice([dict(alpha=1.0, beta=0.0), dict(alpha=2.0, beta=0.5)])
        for engine in engines:
            if engine.name in FAST[op_class]:
                run_on_host(problem, engine, values_of(problem, rng, special=problem.op.mode == "max" and rng.random() < 0.6), scalars)
                kernel = engine.plan(p, H200)[0].kernel
                seen[kernel] = seen.get(kernel, 0) + 1
    variants = [name for name in host.variants("pool") if name.startswith(FAST[op_class]) and f"_{dtype}" in name]
    assert min(seen.get(name, 0) for name in variants) >= 2, seen


@pytest.mark.parametrize("device", ["h200", "a100"])
def test_strips_cover_the_rows_once(device):
    for seed in range(400):
        rng = random.Random(seed)
        problem = problem_of(PoolingBwd, (rng.randint(1, 300), rng.choice([8, 64, 2048]), rng.randint(3, 300), rng.randint(3, 300)), rng.choice([2, 3]), 2,
                             rng.choice([0, 1]))
        cut = pooling_nhwc.strips_of(match(problem), KNOWN[device])
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


@needs_compiler
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("op_class", OPS)
def test_corners(op_class, case):
    rng = random.Random(case)
    for layout in ("nhwc", "nchw"):
        for mode in MODES:
            problem = problem_of(op_class, *CASES[case], dtype="f32", layout=layout, mode=mode, nan=rng.choice(["ignore", "propagate"]))
            for engine in accepting(problem)[1]:
                run_on_host(problem, engine, values_of(problem, rng, special=mode == "max"), dict(alpha=1.0, beta=0.0))


@pytest.mark.parametrize("op_class", OPS)
def test_kernels_are_built(op_class):
    """The launches of a plan name kernels of the manifest."""
    for layout in ("nhwc", "nchw"):
        for mode in MODES:
            p, engines = accepting(problem_of(op_class, (2, 16, 8, 8), 3, 2, 1, layout=layout, mode=mode))
            for engine in engines:
                for step in engine.plan(p, H200):
                    assert kernels.get(step.kernel).images
