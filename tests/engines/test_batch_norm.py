"""Batch norm engines without a GPU: refusals, launches that pack and cover,
and the kernels on the interpreter."""
from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from cydnn import device as devices, kernels, plan as plans
from cydnn.device.facts import KNOWN
from cydnn.device.ptx import PtxDevice
from cydnn.engines import Config, engines_for
from cydnn.engines.norm.grid import Grid
from cydnn.engines.norm.ring import Ring
from cydnn.heuristics import Wish
from cydnn.ops import BatchNormBwd, BatchNormInference, BatchNormTraining
from cydnn.ops.problem import Problem
from cydnn.tensor import TensorDesc
from support.draw.alone import match, steps, takers
from support.draw import draw
from support.check.matrix import execute, graph_of, inputs_for, run

H200 = KNOWN["h200"]
OPS = (BatchNormTraining, BatchNormInference, BatchNormBwd)


def problem_of(op_class, dims, dtype="bf16", layout="nhwc", mode="spatial", absent=(), alignment=16):
    op = op_class(mode=mode)
    small = TensorDesc.packed("f64" if dtype == "f64" else "f32", op.parameter_dims(dims))
    big = TensorDesc.packed(dtype, dims, layout)
    return Problem(op, {n: None if n in absent else big if n in ("x", "dy", "y", "dx") else small
                        for n in op.operands() if n not in op.shared}, alignment)


def accepting(problem):
    p = match(problem)
    return p, takers(p, H200)


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
    assert "samples must have one stride (channels innermost, no gaps); got digits (9, 4)" in training(
        "columns", (4, 16, 3, 3), layout="nchw")
    assert "elements of a plane must be a multiple of 4 (8 bytes); got 9" in training(
        "rows", (4, 16, 3, 3), layout="nchw")
    assert ("must fit in the registers of a block, 4096 at most; got 6272"
            in training("resident", (32, 16, 14, 14)))
    assert "x must be one of f32 f16 bf16; got f64" in training("resident", (4, 16, 3, 3), dtype="f64")
    for dims in ((32, 256, 56, 56), (32, 512, 28, 28)):
        assert ("x must fit in the shared memory of the clusters that run at once; got "
                f"{dims[0] * dims[2] * dims[3]} samples of {dims[1]} means" in training("cluster", dims))
    assert "needs sm_90 or newer; device is sm_80" in "; ".join(
        next(e for e in engines_for(BatchNormTraining) if e.index == 261).refuse(
            match(problem_of(BatchNormTraining, (4, 16, 3, 3))), KNOWN["a100"]))
    assert training("strided", (4, 12, 3, 3), dtype="f64", layout="nchw") == ""


def test_parameters_of_another_type_are_refused():
    p = problem_of(BatchNormTraining, (4, 16, 3, 3))
    p = Problem(p.op, {**p.operands, "scale": p.operands["scale"].replace(dtype="f64")})
    engine = next(e for e in engines_for(BatchNormTraining) if e.name == "batch_norm_training_strided")
    assert list(engine.reasons(match(p), H200)) == ["scale must be f32 for bf16 data; got f64"]


@pytest.mark.parametrize("op_class", OPS)
@pytest.mark.parametrize("dims, layout, best",
                         [((256, 256, 56, 56), "nhwc", "columns"), ((256, 256, 56, 56), "nchw", "rows"),
                          ((32, 2048, 7, 7), "nhwc", "columns"), ((3, 5, 7, 7), "nchw", "strided")])
def test_layouts_find_their_engine(op_class, dims, layout, best):
    assert any(n.endswith(best) for n in names(problem_of(op_class, dims, layout=layout)))


# ---- Launches ----

@pytest.mark.parametrize("op_class", OPS)
def test_launches_pack_and_cover(op_class):
    """Every launch packs, parts have room, splits cover the rows and blocks the columns."""
    for seed in range(150):
        p, engines = accepting(draw(op_class, random.Random(seed)))
        for engine in (e for e in engines if not isinstance(e, (Grid, Ring))):
            for step in steps(engine, p, H200):
                packed = kernels.get(step.kernel).pack(step.args, **step.extra)
                a = step.args
                per, total = ((a["items_per_split"], a["items"]) if "items" in a
                              else (a.get("rows_per_split", a["rows"]), a["rows"]))
                assert min(packed.grid) >= 1
                assert packed.grid[1] * per >= total > (packed.grid[1] - 1) * per or total == 0
                if "lanes_log2" in a:
                    cols, _, lanes = step.kernel.partition("_any_")[2].partition("_")
                    width = (int(lanes.split("_")[0]) if cols == "1" else 1 if cols == "0" else
                             1 if "_columns_" in step.kernel
                             and step.kernel.split("_columns_")[1].split("_")[1] == "0"
                             else 16 // p.x.dtype.bytes)
                    assert packed.grid[0] * (width << a["lanes_log2"]) >= a["cols"]
                if a.get("parts") is not None:
                    sizes = {"stats": 3, "apply": 3} if "bwd" not in step.kernel else {}
                    values = next(iter(sizes.values()), 2 if step.kernel.endswith("_1") else 5)
                    cols = a.get("cols", packed.grid[0])
                    assert (a["parts"].uid.bytes == cols * a.get("stat_splits", a["splits"]) * values
                            * (8 if p.x.dtype.name == "f64" else 4))


@pytest.mark.parametrize("op_class", [BatchNormTraining, BatchNormBwd])
def test_grids_and_rings_cover(op_class):
    """Rows, columns and items all have a place, in every configuration; a grid runs at once."""
    seen = set()
    for seed in range(150):
        p, engines = accepting(draw(op_class, random.Random(seed)))
        for engine in (e for e in engines if isinstance(e, (Grid, Ring))):
            for config in engine.configs(p, H200):
                step, = steps(engine, p, H200, config)
                a, grid = step.args, kernels.get(step.kernel).pack(step.args, **step.extra).grid
                seen.add(type(engine).__base__)
                if isinstance(engine, Ring):
                    assert a["items"] * 16 * a["cols"] == p.x.count * p.x.dtype.bytes
                    most = H200.sms * config.blocks_per_sm
                    assert grid[0] == step.extra["clusters"] * config.cluster <= most
                    assert a["held"] * 512 >= a["items_per_block"]
                    assert a["items_per_block"] * config.cluster >= a["items"]
                    continue
                width = 16 // p.x.dtype.bytes << config.lanes_log2
                each, splits = a["rows_per_split"], a["splits"]
                assert each * splits >= a["rows"] > each * (splits - 1)
                assert step.extra["blocks"] * width >= a["cols"]
                assert grid[0] == step.extra["blocks"] * a["splits"] <= H200.sms
                assert a["parts"].uid.bytes == grid[0] * width * 8
    assert seen == {Grid, Ring}


def test_target_shapes_fill_the_device():
    for dims in ((256, 256, 56, 56), (256, 64, 112, 112), (256, 1024, 14, 14), (32, 512, 28, 28),
                 (256, 512, 28, 28), (32, 64, 112, 112)):
        p, engines = accepting(problem_of(BatchNormTraining, dims))
        step = steps(next(e for e in engines if e.name.endswith("columns")), p, H200)[0]
        blocks = step.extra["blocks"] * step.args["splits"]
        assert 0.94 * H200.sms <= blocks <= H200.sms, (dims, blocks)       # one block fills an SM


# ---- The kernels, on the interpreter ----

PTX = devices.get("ptx:sm_90")


def check(problem, engine, seed, scalars=None, device=PTX):
    outcome = run(problem, device, seed, [engine], scalars=scalars)
    assert outcome.ran and not outcome.findings, f"{problem} seed={seed}: {outcome}"


def results(problem, engine, values, scalars=None, inplace=()) -> dict:
    """The outputs of an engine on these values; ``inplace`` names (written, read)
    pairs that share a buffer."""
    plan = plans.build(graph_of(problem, scalars or ()), PTX, Wish(engines=(engine.index,)))
    buffers, _ = execute(plan, problem, values, problem.op.reads, PTX, inplace)
    return {n: buffers[n].read()[0] for n in problem.op.writes if n in buffers}


@pytest.mark.share(8)
@pytest.mark.parametrize("op_class", OPS)
@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "f16"])
def test_kernels_match_the_reference(op_class, dtype):
    """Random problems of one type, every engine that takes them three times."""
    seen = {}
    for seed in range(120):
        problem = draw(op_class, random.Random(f"{op_class.name} {dtype} {seed}"))
        if problem.operands["x"].dtype.name == dtype and problem.operands["x"].count <= 6000:
            for engine in accepting(problem)[1]:
                seen[engine.name] = seen.get(engine.name, 0) + 1
                if seen[engine.name] <= 3:
                    check(problem, engine, seed)
    assert seen


CASES = {                                        # what each is there for -> op, dims, more
    "several splits and a ragged tail": (BatchNormTraining, (3, 16, 13, 17), {}),
    "several splits, backward, statistics found": (BatchNormBwd, (3, 16, 13, 17),
                                                   dict(absent=("mean", "rstd"))),
    "planes in vectors, several splits": (BatchNormTraining, (5, 3, 16, 16), dict(layout="nchw")),
    "planes in vectors, backward": (BatchNormBwd, (5, 3, 16, 16), dict(layout="nchw")),
    "many channels": (BatchNormTraining, (2, 136, 3, 3), {}),
    "per activation": (BatchNormTraining, (9, 8, 3, 2), dict(mode="per_activation")),
    "per activation, rows in nchw": (BatchNormBwd, (9, 8, 3, 2), dict(mode="per_activation", layout="nchw")),
    "one sample": (BatchNormTraining, (1, 8, 1, 1), {}),
    "no samples": (BatchNormInference, (0, 8, 3, 3), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_corners(case):
    op_class, dims, more = CASES[case]
    problem = problem_of(op_class, dims, dtype="f32", **more)
    changed = {"beta": 0.5, "factor": 0.25}
    engines = accepting(problem)[1]
    assert engines
    for engine in engines:
        check(problem, engine, 1, {k: changed.get(k, v) for k, v in problem.op.scalars.items()})


@pytest.mark.parametrize("dims, layout", [((2, 64, 31, 33), "nhwc"), ((4, 2, 64, 128), "nchw")])
@pytest.mark.parametrize("op_class, absent",
                         [(BatchNormTraining, ()), (BatchNormBwd, ()), (BatchNormBwd, ("mean", "rstd"))])
def test_long_rows(op_class, absent, dims, layout):
    """A device of one or two SMs: every thread has rows for the loop that does not test."""
    problem = problem_of(op_class, dims, layout=layout, absent=absent)
    small = PtxDevice("sm_90")
    small.facts = dataclasses.replace(PTX.facts, sms=2 if layout == "nhwc" else 1)
    engine = next(e for e in accepting(problem)[1]
                  if e.name.endswith("columns" if layout == "nhwc" else "rows"))
    check(problem, engine, 3, dict(problem.op.scalars), small)


@pytest.mark.parametrize("op_class, most", [(BatchNormTraining, 90), (BatchNormBwd, 120)])
@pytest.mark.parametrize("kept", [0, 1])
def test_rows_that_a_grid_cannot_keep(op_class, most, kept):
    """Three SMs with little shared memory: some rows are kept, most are read again."""
    small = PtxDevice("sm_90")
    small.facts = dataclasses.replace(PTX.facts, sms=3, smem_bytes=most << 10)
    problem = problem_of(op_class, (3, 64, 43, 41), dtype="f32")
    engine = next(e for e in accepting(problem)[1] if isinstance(e, Grid))
    for lanes_log2 in (3,):
        config = Config(lanes_log2=lanes_log2, registers=engine.kept[kept])
        args = steps(engine, match(problem), small.facts, config)[0].args
        count = -(-args["rows_per_split"] >> 9 - lanes_log2)
        assert args["held"] + engine.kept[-1] + 12 < count
        outcome = run(problem, small, 4, [engine], config, dict(problem.op.scalars))
        assert outcome.ran and not outcome.findings, outcome


@pytest.mark.parametrize("op_class", [BatchNormTraining, BatchNormBwd])
@pytest.mark.parametrize("size", [1, 2, 8])
def test_channels_that_take_turns(op_class, size):
    """Two clusters for seven channels: each has several, two of them under way."""
    small = PtxDevice("sm_90")
    small.facts = dataclasses.replace(PTX.facts, sms=size)
    problem = problem_of(op_class, (5, 7, 24, 45), layout="nchw")
    engine = next(e for e in accepting(problem)[1] if isinstance(e, Ring))
    config = Config(cluster=size, blocks_per_sm=2, stages=2)
    outcome = run(problem, small, 4, [engine], config, dict(problem.op.scalars))
    assert outcome.ran and not outcome.findings, outcome


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("op_class", [BatchNormTraining, BatchNormBwd])
def test_large_means_and_stray_first_values_keep_their_digits(op_class, layout):
    """Mean 1000, std 1, and a first value of 1e5: the variance must not drown."""
    problem = problem_of(op_class, (4, 8, 16, 16), dtype="f32", layout=layout,
                         absent=("mean", "rstd") if op_class is BatchNormBwd else ())
    rng = np.random.default_rng(5)
    values = inputs_for(problem, random.Random(5), exact=False)
    for stray in (0.0, 1e5):
        x = (1000 + rng.standard_normal((4, 8, 16, 16))).astype(np.float32).astype(np.float64)
        x[0, :, 0, 0] += stray
        for engine in accepting(problem)[1]:
            want = problem.op.evaluate({**values, "x": x}, problem.op.scalars)
            got = results(problem, engine, {**values, "x": x})
            for name in ("rstd", "y") if op_class is BatchNormTraining else ("dx", "dscale"):
                error = np.abs(got[name] - want[name]).max() / np.abs(want[name]).max()
                assert (error < 3e-4 if op_class is BatchNormBwd
                        else error < 1e-4), (engine.name, name, stray, error)


@pytest.mark.parametrize("op_class", OPS)
def test_in_place(op_class):
    """The bits are those of separate buffers."""
    for layout in ("nhwc", "nchw"):
        problem = problem_of(op_class, (3, 8, 4, 8), dtype="f32", layout=layout)
        values = inputs_for(problem, random.Random(1), exact=False)
        scalars = {k: 0.25 if k == "factor" else v for k, v in problem.op.scalars.items()}
        pairs = [(w, r) for w, r in problem.op.inplace if (w, r) != ("dx", "x")]
        for engine in accepting(problem)[1]:
            apart, shared = (results(problem, engine, values, scalars, inplace) for inplace in ((), pairs))
            assert all((apart[n] == shared[n]).all() for n in apart), engine


@pytest.mark.parametrize("op_class", OPS)
def test_kernels_are_built(op_class):
    """The launches of a plan name kernels of the manifest."""
    for layout in ("nhwc", "nchw"):
        p, engines = accepting(problem_of(op_class, (2, 16, 4, 4), layout=layout))
        for engine in engines:
            for step in steps(engine, p, H200):
                assert kernels.get(step.kernel).images
