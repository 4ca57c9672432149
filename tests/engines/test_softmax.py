"""Softmax engines without a GPU: who takes what, who refuses with which sentence, and the kernels'
index arithmetic in NumPy."""
from __future__ import annotations

import dataclasses
import random

import pytest

from cydnn import kernels
from cydnn.device.facts import KNOWN
from cydnn.device.ptx import PtxDevice
from cydnn.engines import REFERENCE, engines_for
from cydnn.heuristics import best
from cydnn.ops import SoftmaxBwd, SoftmaxFwd
from cydnn.ops.problem import Problem
from cydnn.tensor import TensorDesc
from support.draw import alone
from support.check import matrix
from support.draw.alone import cost, steps

H200, T4 = KNOWN["h200"], KNOWN["t4"]
BY_NAME = {e.name: e for op in (SoftmaxFwd, SoftmaxBwd) for e in engines_for(op)}


def match(op, *descs, alignment=16):
    return alone.of(op, alignment=alignment, **dict(zip(op.operands(), descs)))


def packed(dtype, dims, op=SoftmaxFwd(), layout="nchw", alignment=16):
    given = [o for o in op.operands() if o not in op.optional]
    return match(op, *(TensorDesc.packed(dtype, dims, layout) for _ in given), alignment=alignment)


def first(p, facts=H200):
    return best(p.graph, facts).engine.name


@pytest.mark.parametrize("dims, fwd, bwd", [
    ((32768, 256), "warp", "warp"), ((16384, 1024), "warp", "warp"), ((16384, 4096), "block", "block"),
    ((8192, 32768), "block", "block"), ((4096, 65536), "block", "block"),
    ((4096, 131072), "block", "cluster"), ((128, 128256), "cluster", "cluster"),
    ((8, 1000000), "grid", "grid"), ((2000000, 21), "packed", "packed")])
@pytest.mark.parametrize("extra", [(), (1, 1)])
def test_the_engine_of_a_shape(dims, fwd, bwd, extra):
    assert first(packed("bf16", dims + extra)) == f"softmax_fwd_{fwd}"
    assert first(packed("bf16", dims + extra, SoftmaxBwd())) == f"softmax_bwd_{bwd}"


def test_layouts():
    assert first(packed("f16", (4, 21, 64, 64))) == "softmax_fwd_columns"
    assert first(packed("f16", (4, 21, 63, 63))) == "softmax_fwd_strided"
    assert first(packed("f16", (4, 2100, 64, 64))) == "softmax_fwd_columns"
    assert first(packed("f16", (4, 4100, 64, 64))) == "softmax_fwd_strided"
    assert first(packed("f16", (4, 21, 64, 64), layout="nhwc")) == "softmax_fwd_packed"
    assert first(packed("f16", (4, 64, 64, 64), layout="nhwc")) == "softmax_fwd_warp"
    assert (first(packed("f16", (4, 21, 64, 64), SoftmaxFwd(mode="instance"), layout="nhwc"))
            == "softmax_fwd_grid")
    assert (first(packed("f16", (2048, 21, 16, 16), SoftmaxFwd(mode="instance"), layout="nhwc"))
            == "softmax_fwd_block")
    assert first(packed("f64", (4, 21))) == "softmax_fwd_generic"
    mixed = [TensorDesc.packed("f32", (4, 21, 8, 8), layout) for layout in ("nchw", "nhwc")]
    assert first(match(SoftmaxFwd(mode="instance"), *mixed)) == "softmax_fwd_generic"


@pytest.mark.parametrize("engine, p, facts, sentence", [
    ("softmax_fwd_warp", packed("f32", (4, 1025)), H200,
     "needs rows of at most 256 chunks of 16 bytes; got 257"),
    ("softmax_fwd_warp", packed("f32", (4, 9), alignment=4), H200, "x must be aligned to 16 bytes; got 4"),
    ("softmax_fwd_warp", packed("f32", (4, 9, 2, 2)), H200,
     "needs contiguous rows with one stride; got columns (9,) with strides [(4,), (4,)], rows (4, 4)"),
    ("softmax_fwd_warp",
     match(SoftmaxFwd(), TensorDesc("f32", (4, 9), (9, 1)), TensorDesc("f32", (4, 9), (10, 1))), H200,
     "row strides must be alike modulo 4 elements; got (9, 10)"),
    ("softmax_fwd_block", packed("f64", (4, 9)), H200, "x must be one of f32 f16 bf16; got f64"),
    ("softmax_fwd_block", packed("f16", (4, 131073)), H200,
     "needs rows of at most 16384 chunks of 16 bytes; got 16385"),
    ("softmax_fwd_block", packed("f16", (4, 131072)), T4,
     "needs 131328 bytes of shared memory; the device has 65536 a block"),
    ("softmax_bwd_cluster", packed("f16", (4, 100000), SoftmaxBwd()), KNOWN["a100"],
     "needs sm_90 or newer; device is sm_80"),
    ("softmax_fwd_cluster", packed("f16", (4, 8)), H200, "needs rows that fill 2 blocks; got 8 columns"),
    ("softmax_fwd_strided", packed("f16", (4, 5, 6, 7), layout="nhwc"), H200,
     "needs one softmaxed dim and contiguous positions; got columns (5,)"),
    ("softmax_fwd_generic", packed("f16", (4, 5), SoftmaxFwd(compute="f64")), H200,
     "compute must be f32 for f16 data; got f64"),
])
def test_refusals(engine, p, facts, sentence):
    reasons = list(BY_NAME[engine].reasons(p, facts))
    assert any(r.startswith(sentence) for r in reasons), reasons


@pytest.mark.parametrize("op", [SoftmaxFwd(), SoftmaxBwd()], ids=lambda o: o.name)
@pytest.mark.parametrize("dims", [(0, 5), (3, 0), (2, 5, 0, 4)])
def test_nothing_is_launched_for_empty_tensors(op, dims):
    p = packed("f16", dims, op)
    for engine in engines_for(type(op)):
        if engine is not REFERENCE and engine.accepts(p, H200):
            assert steps(engine, p, H200) == [] and cost(engine, p, H200) > 0


@pytest.mark.parametrize("vec", [4, 8])
def test_row_plan_covers_every_column_once(vec):
    """RowPlan of row.cuh: head, aligned chunks, tail; the same for every lane count."""
    rng = random.Random(vec)
    for _ in range(500):
        start, cols, lanes = (
            rng.randrange(100), rng.choice([1, 2, rng.randint(1, 40), rng.randint(1, 3000)]),
            rng.choice([8, 32, 128]))
        head = min(-start & (vec - 1), cols)
        chunks = (cols - head) // vec
        singles = cols - chunks * vec
        assert singles <= 2 * vec - 2
        seen = [i if i < head else i + chunks * vec for lane in range(lanes)
                for i in range(lane, lane + -(-(2 * vec - 2) // lanes) * lanes, lanes) if i < singles]
        for lane in range(lanes):
            for i in range(lane, chunks, lanes):
                assert (start + head + i * vec) % vec == 0
                seen += range(head + i * vec, head + i * vec + vec)
        assert sorted(seen) == list(range(cols)), (start, cols, lanes)


@pytest.mark.parametrize("name", ["softmax_fwd_split", "softmax_bwd_split"])
def test_slices_cover_the_row(name):
    engine = BY_NAME[name]
    tile = engine.tile_bytes // 2
    for cols in (1, tile, tile + 1, 128256, 1000000, tile * 1024, tile * 1024 + 1, 2 ** 30 - 1):
        p = packed("bf16", (2, cols), engine.op())
        for config in engine.configs(p, H200):
            for step in steps(engine, p, H200, config):
                slices, tiles = step.args["slices"], step.args["tiles"]
                assert slices <= config.splits <= 1024
                assert (slices - 1) * tiles * tile < cols <= slices * tiles * tile
                assert kernels.get(step.kernel).pack(step.args).grid == (2 * slices, 1, 1)


def test_clusters_cover_the_row():
    for engine, most in (("softmax_fwd_cluster", 131072), ("softmax_bwd_cluster", 65536)):
        for cols in (9, 17, 50257, 65537, 128256, 131073, 4 * most - 1, 4 * most):
            p = packed("bf16", (3, cols), BY_NAME[engine].op())
            if BY_NAME[engine].accepts(p, H200):
                step, = steps(BY_NAME[engine], p, H200)
                size, threads = map(int, step.kernel.split("_")[-2:])
                assert step.args["slice"] % 8 == 0 and step.args["slice"] <= most * threads // 1024
                assert ((size - 1) * step.args["slice"] < cols
                        <= size * step.args["slice"]), (cols, step.args["slice"])
                kernels.get(step.kernel).pack(step.args)


@pytest.mark.parametrize("name, most", [("softmax_fwd_grid", 131072), ("softmax_bwd_grid", 65536)])
def test_grids_cover_the_rows(name, most):
    """Every slice has columns, fits in a block, and all run at once."""
    engine = BY_NAME[name]
    for rows, cols in ((1, 9), (8, 1000000), (3, 8 * 1024 * 16 + 1), (132, most), (1, 132 * most)):
        p = packed("bf16", (rows, cols), engine.op())
        for config in engine.configs(p, H200):
            step, = steps(engine, p, H200, config)
            slices, each = step.args["slices"], step.args["slice"]
            assert slices * each >= cols > (slices - 1) * each and each <= most
            assert slices == config.blocks_per_row
            assert kernels.get(step.kernel).pack(step.args).grid == (rows * slices, 1, 1)
            assert rows * slices <= H200.sms
    assert not engine.accepts(packed("bf16", (133, 100000), engine.op()), H200)


@pytest.mark.parametrize("op", [SoftmaxFwd, SoftmaxBwd])
def test_a_grid_that_uses_its_stash(op):
    """Two SMs: a block has more than fits in its registers."""
    device = PtxDevice("sm_90")
    device.facts = dataclasses.replace(device.facts, sms=2)
    name = f"{op.name}_grid"
    problem = Problem.parse(f"{op.name} 1x{(200000 if op is SoftmaxFwd else 100000) - 3} bf16")
    outcome = matrix.run(problem, device, 1, [BY_NAME[name]], scalars=matrix.blended(problem.op))
    assert outcome.ran and not outcome.findings


@pytest.mark.parametrize("cols", [1, 10, 21, 32, 64])
def test_packed_rows_fill_tiles(cols):
    """A thread has more rows when they are short; where tiles begin, memory is aligned to 16 bytes."""
    for name in ("softmax_fwd_packed", "softmax_bwd_packed"):
        engine, rows = BY_NAME[name], 5000
        for dtype in ("f32", "f16"):
            p = packed(dtype, (rows, cols), engine.op())
            step, = steps(engine, p, H200)
            packed_step = kernels.get(step.kernel).pack(step.args)
            each, size = step.args["each"], {"f32": 4, "f16": 2}[dtype]
            assert each >= 1 and packed_step.smem == engine.tiles * 128 * each * cols * size
            assert packed_step.grid[0] * 128 * each >= rows > (packed_step.grid[0] - 1) * 128 * each
            assert 128 * each * cols * size % 16 == 0


def test_strided_vectors():
    strided = BY_NAME["softmax_fwd_strided"]
    for dims, dtype, wide in [((2, 9, 4, 4), "f16", "1"), ((2, 9, 7, 7), "f16", "0"),
                              ((2, 9, 3, 2), "f32", "1"), ((2, 9, 4, 4), "f64", "0")]:
        step, = steps(strided, packed(dtype, dims), H200)
        assert step.kernel == f"softmax_fwd_strided_{dtype}_4_{wide}"
        vec = 8 // {"f16": 2, "f32": 4, "f64": 8}[dtype] if wide == "1" else 1
        assert (step.args["positions"] * vec == dims[0] * dims[2] * dims[3]
                and step.args["inner"] * vec == dims[2] * dims[3])


@pytest.mark.parametrize("name", [name for name, e in BY_NAME.items() if e.op is SoftmaxFwd])
def test_numbers_below_the_normal_ones(name):
    """bf16 has numbers down to 2^-133; a part of these rows is exp(-92) to exp(-87) of its largest."""
    dims = {"softmax_fwd_strided": "2x300x3", "softmax_fwd_columns": "2x300x4", "softmax_fwd_packed": "2x60"}
    problem = Problem.parse(f"softmax_fwd {dims.get(name, '2x300')} bf16")
    outcome = matrix.run(problem, PtxDevice("sm_90"), 1, [BY_NAME[name]],
                         scalars=matrix.plain(problem.op), scale=95.0)
    assert outcome.ran and not outcome.findings


@pytest.mark.parametrize("channels", (5, 300, 700))
@pytest.mark.parametrize("algorithm", ("accurate", "log"))
@pytest.mark.parametrize("dtype, scale", [("bf16", 1e4), ("bf16", 1e7), ("bf16", 2e7), ("bf16", 1e36),
                                          ("f16", 6e3), ("f32", 1e4), ("f32", 1e36)])
def test_great_numbers_of_channels(channels, algorithm, dtype, scale):
    """Where the exponent of 16-bit types is one product and one sum, rounded once."""
    problem = Problem.parse(f"softmax_fwd 2x{channels}x8 {dtype} algorithm={algorithm}")
    outcome = matrix.run(problem, PtxDevice("sm_90"), 1, [BY_NAME["softmax_fwd_columns"]],
                         scalars=matrix.plain(problem.op), scale=scale)
    assert outcome.ran and not outcome.findings


@pytest.mark.parametrize("line", ("softmax_fwd x=11x664:i32 y=11x664:i32 acc=i32 algorithm=fast",
                                  "batch_norm_inference n3c4h2w2 i32 acc=i32"))
def test_whole_numbers_are_rounded_once(line):
    """Behind alpha, not between the ops that it is made of."""
    problem = Problem.parse(line)
    for seed in range(18, 22):
        outcome = matrix.run(problem, PtxDevice("sm_80"), seed, scalars=dict(problem.op.scalars, alpha=2.0))
        assert outcome.ran and not outcome.findings, outcome.findings
