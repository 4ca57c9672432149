"""Batch norm engines without a GPU: refusals, launches that pack and cover, and the kernels' source run on the host."""
from __future__ import annotations

import dataclasses
import random
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cuda_on_host as host
from cydnn import kernels
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.engines import engines_for
from cydnn.heuristics.partition import match_of
from cydnn.ops import BatchNormBwd, BatchNormInference, BatchNormTraining
from cydnn.ops.problem import Problem
from cydnn.tensor import TensorDesc
from tests.support.compare import compare, tolerance
from tests.support.draw import draw
from tests.support.matrix import graph_of, inputs_for, run as matrix_run, scalars_for

H200 = KNOWN["h200"]
OPS = (BatchNormTraining, BatchNormInference, BatchNormBwd)
needs_compiler = pytest.mark.skipif(host.cuda_include() is None, reason="needs g++ and nvcc's headers")


def match(problem, scalars=None):
    graph = graph_of(problem, scalars or dict(problem.op.scalars))
    return match_of(graph, graph.nodes[0])


def problem_of(op_class, dims, dtype="bf16", layout="nhwc", mode="spatial", absent=(), **facts):
    op = op_class(mode=mode)
    small = TensorDesc.packed("f64" if dtype == "f64" else "f32", op.parameter_dims(dims))
    big = TensorDesc.packed(dtype, dims, layout, **facts)
    return Problem(op, {n: None if n in absent else big if n in ("x", "dy", "y", "dx") else small for n in op.operands()})


def accepting(problem):
    p = match(problem)
    return p, [e for e in engines_for(problem.op) if e.index and e.accepts(p, H200)]


def on_host(problem):
    """Of those, the engines whose kernels run on the host: it has no clusters."""
    return [e for e in accepting(problem)[1] if e.name != "batch_norm_training_cluster"]


def names(problem):
    return [e.name for e in accepting(problem)[1]]


# ---- Refusals ----

def reasons(op_class, engine, *args, **kw):
    problem = problem_of(op_class, *args, **kw)
    return "; ".join(next(e for e in engines_for(op_class) if e.name == engine).refuse(match(problem), H200))


def test_refusals():
    training = lambda engine, *a, **k: reasons(BatchNormTraining, "batch_norm_training_" + engine, *a, **k)
    assert training("columns", (4, 16, 3, 3)) == ""
    assert "channels must be a multiple of 8 (16 bytes); got 12" in training("columns", (4, 12, 3, 3))
    assert "x must be aligned to 16 bytes; got 4" in training("columns", (4, 16, 3, 3), alignment=4)
    assert "samples must have one stride (channels innermost, no gaps); got digits (9, 4)" in training("columns", (4, 16, 3, 3), layout="nchw")
    assert "elements of a plane must be a multiple of 4 (8 bytes); got 9" in training("rows", (4, 16, 3, 3), layout="nchw")
    assert "must fit in the registers of a block, 4096 at most; got 6272" in training("resident", (32, 16, 14, 14))
    assert "x must be one of f32 f16 bf16; got f64" in training("resident", (4, 16, 3, 3), dtype="f64")
    for dims in ((32, 256, 56, 56), (32, 512, 28, 28)):
        assert f"x must fit in the shared memory of the clusters that run at once; got {dims[0] * dims[2] * dims[3]} samples of {dims[1]} means" in training(
            "cluster", dims)
    assert "needs sm_90 or newer; device is sm_80" in "; ".join(
        next(e for e in engines_for(BatchNormTraining) if e.index == 261).refuse(match(problem_of(BatchNormTraining, (4, 16, 3, 3))), KNOWN["a100"]))
    assert training("strided", (4, 12, 3, 3), dtype="f64", layout="nchw") == ""


def test_parameters_of_another_type_are_refused():
    p = problem_of(BatchNormTraining, (4, 16, 3, 3))
    p = Problem(p.op, {**p.operands, "scale": p.operands["scale"].replace(dtype="f64")})
    engine = next(e for e in engines_for(BatchNormTraining) if e.name == "batch_norm_training_strided")
    assert list(engine.refuse(match(p), H200)) == ["scale must be f32 for bf16 data; got f64"]


@pytest.mark.parametrize("op_class", OPS)
@pytest.mark.parametrize("dims, layout, best", [((256, 256, 56, 56), "nhwc", "columns"), ((256, 256, 56, 56), "nchw", "rows"),
                                                ((32, 2048, 7, 7), "nhwc", "columns"), ((3, 5, 7, 7), "nchw", "strided")])
def test_layouts_find_their_engine(op_class, dims, layout, best):
    assert any(n.endswith(best) for n in names(problem_of(op_class, dims, layout=layout)))


# ---- Launches ----

@pytest.mark.parametrize("op_class", OPS)
def test_launches_pack_and_cover(op_class):
    """Every launch packs, parts have room, splits cover the rows and blocks the columns."""
    for seed in range(150):
        p, engines = accepting(draw(op_class, random.Random(seed)))
        for engine in engines:
            for step in engine.plan(p, H200):
                packed = host.kernel(step.kernel, "norm").pack(step.args, **step.extra)
                a = step.args
                per, total = (a["items_per_split"], a["items"]) if "items" in a else (a.get("rows_per_split", a["rows"]), a["rows"])
                assert min(packed.grid) >= 1
                assert packed.grid[1] * per >= total > (packed.grid[1] - 1) * per or total == 0
                if "lanes_log2" in a:
                    width = 1 if "_columns_" in step.kernel and step.kernel.split("_columns_")[1].split("_")[1] == "0" else 16 // p.x.dtype.bytes
                    assert packed.grid[0] * (width << a["lanes_log2"]) >= a["cols"]
                if a.get("parts") is not None:
                    sizes = {"stats": 3, "apply": 3} if "bwd" not in step.kernel else {}
                    values = next(iter(sizes.values()), 2 if step.kernel.endswith("_1") else 5)
                    cols = a.get("cols", packed.grid[0])
                    assert a["parts"].uid.bytes == cols * a.get("stat_splits", a["splits"]) * values * (8 if p.x.dtype.name == "f64" else 4)


def test_target_shapes_fill_the_device():
    for dims in ((256, 256, 56, 56), (256, 64, 112, 112), (256, 1024, 14, 14), (32, 512, 28, 28), (256, 512, 28, 28), (32, 64, 112, 112)):
        p, engines = accepting(problem_of(BatchNormTraining, dims))
        step = next(e for e in engines if e.name.endswith("columns")).plan(p, H200)[0]
        blocks = step.extra["blocks"] * step.args["splits"]
        assert 0.94 * H200.sms <= blocks <= H200.sms, (dims, blocks)       # one block fills an SM


# ---- The CUDA source, run on the host ----

def storage(d, values):
    raw = host.aligned(max(d.bytes, d.dtype.bytes)).view(d.dtype.numpy)
    raw.view(np.uint8)[:] = 0xFF                 # NaN in every type
    if values is not None and d.count:
        np.lib.stride_tricks.as_strided(raw, d.dims, [s * d.dtype.bytes for s in d.strides])[...] = d.dtype.encode(values)
    return raw


def logical(d, raw):
    if not d.count:
        return np.empty(d.dims)
    return d.dtype.decode(np.lib.stride_tricks.as_strided(raw, d.dims, [s * d.dtype.bytes for s in d.strides]).copy())


def run_on_host(problem, engine, values, scalars, inplace=(), dev=H200):
    """Findings of one engine on one problem; ``inplace`` names (written, read) pairs that share a buffer."""
    op, shared = problem.op, dict(inplace)
    p = match(problem, scalars)
    old = {o for o, (_, b) in op.blends.items() if scalars.get(b, 0.0) != 0}
    arrays = {n: values.get(shared.get(n, n)) if n in op.reads or n in old else np.broadcast_to(np.nan, v.shape) for n, v in values.items()}
    with np.errstate(all="ignore"):
        raw = op.evaluate(arrays, scalars)
        want, magnitude = op.blend(raw, arrays, scalars), op.magnitude(arrays, scalars, raw)
    stores = {n: storage(d, values[n] if n in op.reads or n in old else None) for n, d in problem.operands.items() if d is not None}
    for written, read in inplace:
        stores[written] = stores[read]
    host.run(engine.plan(p, dev), {p.uids[n]: s for n, s in stores.items()}, scalars, late=False, family="norm")
    texts = []
    for name in op.writes:
        d = problem.operands[name]
        if d is not None:
            report = compare(logical(d, stores[name]), want[name], tolerance(problem, name, d, want[name], magnitude[name], scalars, arrays[name]), d)
            texts += [] if report.ok else [f"{problem} {engine.name} {scalars}: {name}: {report.text}"]
    return texts


@needs_compiler
@pytest.mark.parametrize("op_class", OPS)
@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "f16"])
def test_kernels_match_the_reference(op_class, dtype):
    """Random problems of one type, every engine that takes them."""
    seen, seed = set(), 0
    while seed < 400 and len(seen) < (4 if dtype in ("f32", "bf16") else 2) * 3:
        seed += 1
        rng = random.Random(f"{op_class.name} {dtype} {seed}")
        problem = draw(op_class, rng)
        if problem.operands["x"].dtype.name != dtype or problem.operands["x"].count > 6000:
            continue
        engines = on_host(problem)
        scalars = scalars_for(problem.op, rng)
        values = inputs_for(problem, rng, exact=False)
        for engine in engines:
            if (engine.name, seed % 3) not in seen:
                seen.add((engine.name, seed % 3))
                assert not run_on_host(problem, engine, values, scalars)


CASES = {                                        # what each is there for -> op, dims, more
    "several splits and a ragged tail": (BatchNormTraining, (3, 16, 13, 17), {}),
    "several splits, backward, statistics found": (BatchNormBwd, (3, 16, 13, 17), dict(absent=("mean", "rstd"))),
    "planes in vectors, several splits": (BatchNormTraining, (5, 3, 16, 16), dict(layout="nchw")),
    "planes in vectors, backward": (BatchNormBwd, (5, 3, 16, 16), dict(layout="nchw")),
    "many channels": (BatchNormTraining, (2, 136, 3, 3), {}),
    "per activation": (BatchNormTraining, (9, 8, 3, 2), dict(mode="per_activation")),
    "per activation, rows in nchw": (BatchNormBwd, (9, 8, 3, 2), dict(mode="per_activation", layout="nchw")),
    "one sample": (BatchNormTraining, (1, 8, 1, 1), {}),
    "no samples": (BatchNormInference, (0, 8, 3, 3), {}),
}


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_corners(case):
    op_class, dims, more = CASES[case]
    problem = problem_of(op_class, dims, dtype="f32", **more)
    rng = random.Random(case)
    scalars = {**problem.op.scalars, "beta": 0.5, "factor": 0.25}
    scalars = {k: v for k, v in scalars.items() if k in problem.op.scalars}
    values = inputs_for(problem, rng, exact=False)
    engines = on_host(problem)
    assert engines
    for engine in engines:
        assert not run_on_host(problem, engine, values, scalars)


@needs_compiler
@pytest.mark.parametrize("dims, layout", [((2, 64, 31, 33), "nhwc"), ((4, 2, 64, 128), "nchw")])
@pytest.mark.parametrize("op_class, absent", [(BatchNormTraining, ()), (BatchNormBwd, ()), (BatchNormBwd, ("mean", "rstd"))])
def test_long_rows(op_class, absent, dims, layout):
    """A device of one or two SMs: every thread has rows for the loop that does not test, and the second pass runs backwards."""
    problem = problem_of(op_class, dims, layout=layout, absent=absent)
    small = dataclasses.replace(H200, sms=2 if layout == "nhwc" else 1, l2_bytes=1024)
    engine = next(e for e in accepting(problem)[1] if e.name.endswith("columns" if layout == "nhwc" else "rows"))
    values = inputs_for(problem, random.Random(3), exact=False)
    assert engine.plan(match(problem), small)[1].args["reverse"] == 1
    assert not run_on_host(problem, engine, values, dict(problem.op.scalars), dev=small)


@needs_compiler
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("op_class", [BatchNormTraining, BatchNormBwd])
def test_large_means_and_stray_first_values_keep_their_digits(op_class, layout):
    """Mean 1000, std 1, and a first value of 1e5: the variance must not drown."""
    problem = problem_of(op_class, (4, 8, 16, 16), dtype="f32", layout=layout, absent=("mean", "rstd") if op_class is BatchNormBwd else ())
    rng = np.random.default_rng(5)
    values = inputs_for(problem, random.Random(5), exact=False)
    for stray in (0.0, 1e5):
        x = (1000 + rng.standard_normal((4, 8, 16, 16))).astype(np.float32).astype(np.float64)
        x[0, :, 0, 0] += stray
        for engine in on_host(problem):
            want = problem.op.evaluate({**values, "x": x}, problem.op.scalars)
            stores = {n: storage(d, x if n == "x" else values[n] if n in problem.op.reads else None) for n, d in problem.operands.items() if d is not None}
            p = match(problem)
            host.run(engine.plan(p, H200), {p.uids[n]: s for n, s in stores.items()}, {}, late=False, family="norm")
            for name in ("rstd", "y") if op_class is BatchNormTraining else ("dx", "dscale"):
                got = logical(problem.operands[name], stores[name])
                error = np.abs(got - want[name]).max() / np.abs(want[name]).max()
                assert error < 3e-4 if op_class is BatchNormBwd else error < 1e-4, (engine.name, name, stray, error)


@needs_compiler
@pytest.mark.parametrize("op_class", OPS)
def test_in_place(op_class):
    for layout in ("nhwc", "nchw"):
        problem = problem_of(op_class, (3, 8, 4, 8), dtype="f32", layout=layout)
        values = inputs_for(problem, random.Random(1), exact=False)
        scalars = {k: 0.25 if k == "factor" else v for k, v in problem.op.scalars.items()}
        pairs = [(w, r) for w, r in problem.op.inplace if (w, r) != ("dx", "x")]
        for engine in on_host(problem):
            assert not run_on_host(problem, engine, values, scalars, inplace=pairs)


@pytest.mark.parametrize("line", [
    "batch_norm_training n3c24h7w9 {T} nhwc", "batch_norm_training n1c8h1w1 {T} nhwc", "batch_norm_training n5c72h5w5 {T} nhwc",
    "batch_norm_training n1c16h61w37 {T} nhwc", "batch_norm_training n2c8h3w2 {T} nhwc mode=per_activation"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_clusters_on_the_interpreter(line, dtype):
    """Every configuration, plain and blended, with groups and lanes that have nothing to do."""
    problem, device = Problem.parse(line.replace("{T}", dtype)), get("ptx:sm_90")
    engine = next(e for e in engines_for(BatchNormTraining) if e.name == "batch_norm_training_cluster")
    offered = engine.configs(match(problem), device.facts)
    assert {c["size"] for c in offered} == {2, 4, 8}
    for seed, config in enumerate(offered):
        outcome = matrix_run(problem, device, seed, engines=[engine], config=config)
        assert outcome.ran and not outcome.findings, (config, outcome.findings)


@pytest.mark.parametrize("dims, size, lanes_log2", [
    ((32, 1024, 14, 14), 2, 1), ((32, 2048, 7, 7), 2, 2), ((32, 256, 28, 28), 8, 2), ((32, 256, 14, 14), 8, 2), ((32, 512, 14, 14), 8, 3),
    ((32, 512, 7, 7), 8, 3), ((32, 128, 28, 28), 8, 1), ((256, 512, 7, 7), 8, 3), ((8, 512, 28, 28), 8, 3), ((8, 256, 56, 56), 8, 2), ((1, 64, 112, 112), 8, 1)])
def test_clusters_where_they_were_fastest(dims, size, lanes_log2):
    """The fastest of all engines and configurations on the H200 (November 2026)."""
    engine = min(accepting(problem_of(BatchNormTraining, dims))[1], key=lambda e: e.cost(match(problem_of(BatchNormTraining, dims)), H200))
    step, = engine.plan(match(problem_of(BatchNormTraining, dims)), H200)
    packed = host.kernel(step.kernel, "norm").pack(step.args, **step.extra)
    assert (step.kernel, step.args["lanes_log2"]) == (f"batch_norm_cluster_bf16_{size}", lanes_log2)
    assert packed.smem + kernels.get(step.kernel).image_for(90).smem_static <= H200.smem_bytes


@pytest.mark.parametrize("dims", [(64, 1024, 14, 14), (256, 2048, 7, 7), (256, 256, 14, 14), (32, 512, 28, 28), (32, 256, 56, 56), (32, 64, 28, 28)])
def test_columns_where_clusters_were_not_faster(dims):
    p, engines = accepting(problem_of(BatchNormTraining, dims))
    assert min(engines, key=lambda e: e.cost(p, H200)).name == "batch_norm_training_columns"


@pytest.mark.parametrize("op_class", OPS)
def test_kernels_are_built(op_class):
    """The launches of a plan name kernels of the manifest."""
    for layout in ("nhwc", "nchw"):
        p, engines = accepting(problem_of(op_class, (2, 16, 4, 4), layout=layout))
        for engine in engines:
            for step in engine.plan(p, H200):
                assert kernels.get(step.kernel).images
