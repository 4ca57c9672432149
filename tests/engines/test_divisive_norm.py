"""Engines of divisive normalization without a GPU: who takes what, who refuses with which sentence, and which
lane makes which column."""
from __future__ import annotations

import random

import numpy as np
import pytest

from cydnn import plan
from cydnn.device.facts import KNOWN
from cydnn.device.ptx import PtxDevice
from cydnn.engines import REFERENCE, engines_for
from cydnn.heuristics import Wish, best
from cydnn.ops import DivisiveNormBwd, DivisiveNormFwd
from cydnn.ops.problem import Problem
from support.draw import alone
from support.check import matrix
from support.draw.alone import match, steps

H200 = KNOWN["h200"]
BY_NAME = {e.name: e for op in (DivisiveNormFwd, DivisiveNormBwd) for e in engines_for(op)}
FWD, BWD = "divisive_norm_fwd", "divisive_norm_bwd"
LAYOUT_OF = {f"{FWD}_planes": "@nchw", f"{BWD}_planes": "@nchw",            # others take both
             f"{FWD}_channels": "@nhwc", f"{BWD}_channels": "@nhwc"}


def forward(dims, rest="f32"):
    return match(Problem.parse(f"{FWD} x={dims}:{rest}"))


def backward(dims, rest="dmeans=none", kind="f32"):
    return match(Problem.parse(f"{BWD} x={dims}:{kind} dy={dims}:{kind} {rest}"))


@pytest.mark.parametrize("p, engine", [
    (forward("8x64x28x28"), "divisive_norm_fwd_planes"), (forward("8x64x28x28", "f16@nhwc"),
                                                          "divisive_norm_fwd_channels"),
    (forward("8x3x28x28", "f32@nhwc y=8x3x28x28:f32"), "divisive_norm_fwd_strided"),
    (forward("8x64x28", "f32@nhwc"), "divisive_norm_fwd_channels"),
    (match(Problem.parse(f"{BWD} n8c64h28w28 f32 nhwc")), "divisive_norm_bwd_channels"),
    (forward("2x3x9"), "divisive_norm_fwd_planes"), (forward("2x3x4x5x6"), "divisive_norm_fwd_strided"),
    (forward("8x64x28x28", "f32 means=8x64x28x28:f32"), "divisive_norm_fwd_planes"),
    (backward("8x64x28x28"), "divisive_norm_bwd_planes"), (backward("8x64x28x28", ""),
                                                           "divisive_norm_bwd_planes")])
def test_the_engine_of_a_problem(p, engine):
    assert best(p.graph, H200).engine.name == engine


@pytest.mark.parametrize("engine, p, sentence", [
    ("divisive_norm_fwd_planes", forward("2x3x4x5", "f32 means=2x3x4x5:f32 window=2"),
     "window must be at least 3 with means; got 2"),
    ("divisive_norm_bwd_planes", backward("2x3x4x5", "window=1"),
     "window must be at least 3 with means; got 1"),
    ("divisive_norm_fwd_planes", forward("2x3x4x5x6"), "x must have at most 2 spatial dims; got 3"),
    ("divisive_norm_fwd_channels", forward("2x3x4x5"), "c of x must be innermost; got stride 20"),
    ("divisive_norm_bwd_channels", match(Problem.parse(f"{BWD} n2c3d4h5w6 f32 nhwc")),
     "x must have at most 2 spatial dims; got 3"),
    ("divisive_norm_fwd_planes", forward("2x3x4x5", "f32@nhwc"), "w of x must be innermost; got stride 3"),
    ("divisive_norm_fwd_strided", forward("2x3x4x5", "f32 y=2x3x4x5:f16"),
     "operands must have one type; got f16 f32"),
    ("divisive_norm_fwd_planes", forward("2x3x4x5", "f64"), "x must be one of f32 f16 bf16; got f64"),
    ("divisive_norm_bwd_strided", backward("2x3x4x5", "acc=f64"),
     "compute must be f32 for f32 data; got f64"),
    ("divisive_norm_fwd_strided", forward("70000x70000x1"),
     "elements of x must be fewer than 2^31; got 4900000000"),
    ("divisive_norm_bwd_planes", backward("1x1x9x99", "dmeans=none window=16"),
     "window must leave 8 of 32 lanes that make results; it leaves 0 with 1 columns a lane"),
])
def test_refusals(engine, p, sentence):
    reasons = list(BY_NAME[engine].reasons(p, H200))
    assert any(r.startswith(sentence) for r in reasons), reasons


@pytest.mark.parametrize("words, sentence", [
    ("x=2x3 window=3", "x must have rank 3 to 5; got 2"),
    ("x=2x3x4 window=17", "window must be <= 16; got 17"),
    ("x=2x3x4 means=2x3x5", r"means must have dims \(2, 3, 4\) like x; got \(2, 3, 5\)")])
def test_what_an_op_refuses(words, sentence):
    with pytest.raises(Exception, match=f"{FWD}: {sentence}"):
        Problem.parse(f"{FWD} {words}")


def test_nothing_is_launched_for_empty_tensors():
    for p in (forward("0x3x4x5"), forward("2x3x0x5"), backward("2x0x4x5"), backward("2x3x4x0", ""),
              forward("n2c0h4w5", "f32 nhwc"), backward("n2c0h4w5", "nhwc dmeans=none")):
        takers = alone.takers(p, H200)
        assert takers and all(steps(engine, p, H200) == [] for engine in takers)


@pytest.mark.parametrize("name", ["divisive_norm_fwd_planes", "divisive_norm_bwd_planes"])
def test_every_column_is_made_once(name):
    """Which lanes make results, and that those beside them reach as far as the windows do."""
    rng, engine = random.Random(1), BY_NAME[name]
    for _ in range(200):
        width, window = rng.randint(1, 700), rng.randint(1, 16)
        kind, more = rng.choice(["f16", "f32", "bf16"]), f"window={window}"
        means = f"means=1x1x9x{width}:{kind}" if window > 2 and rng.random() < 0.5 else "means=none"
        p = (forward(f"1x1x9x{width}", f"{kind} {more} {means}") if "fwd" in name
             else backward(f"1x1x9x{width}", f"{more} {means} dmeans=none", kind))
        if reasons := list(engine.reasons(p, H200)):
            assert "bwd" in name and window > 12 and engine.vector(p) == 1, reasons
            continue
        vec = engine.vector(p)
        group, made = engine.groups(p, vec), []
        for segment in range(group["segments"]):
            for lane in range(1 << group["lanes_log2"]):
                column = (segment * group["useful"] + lane - group["lead"]) * vec
                if 0 <= column < width and 0 <= lane - group["lead"] < group["useful"]:
                    made += range(column, column + vec)
                    if group["segments"] > 1:
                        halo = engine.halos * (window // 2)
                        assert lane * vec >= halo and (31 - lane) * vec >= halo
        assert made == list(range(width)), (width, window, kind, group)
        step, = steps(engine, p, H200)
        assert step.args["per"] * step.args["chunks"] >= 9 and step.args["width"] == width


@pytest.mark.parametrize("name", ["divisive_norm_fwd_channels", "divisive_norm_bwd_channels"])
def test_every_column_of_channels_is_made_once(name):
    """Which threads of a block make results, and that columns beside them reach as far as the windows do."""
    rng, engine = random.Random(2), BY_NAME[name]
    for _ in range(200):
        width, c, window = rng.randint(1, 300), rng.randint(1, 70), rng.randint(1, 16)
        more = f"{rng.choice(['f16', 'f32', 'bf16'])} nhwc window={window}"
        dims = f"n1c{c}h9w{width}"
        p = match(Problem.parse(f"{FWD} {dims} {more}" if "fwd" in name
                                else f"{BWD} {dims} {more} dmeans=none"))
        assert not list(engine.reasons(p, H200))
        vec = engine.vector(p)
        group, made = engine.groups(p, vec), []
        places = 256 >> group["lanes_log2"]
        assert group["vectors"] * vec == c and group["channels"] << group["lanes_log2"] >= group["vectors"]
        for segment in range(group["segments"]):
            for place in range(places):
                column = segment * group["useful"] + place - group["lead"]
                if 0 <= column < width and 0 <= place - group["lead"] < group["useful"]:
                    made.append(column)
                    halo = engine.halos * (window // 2) if group["segments"] > 1 else 0
                    assert halo <= place < places - halo
        assert made == list(range(width)), (width, window, group)


@pytest.mark.parametrize("name", [n for n, e in BY_NAME.items() if e is not REFERENCE])
@pytest.mark.parametrize("words", ["window=5 offset=0.0", "window=16 offset=0.0", "window=4 scale=-0.75"])
def test_sums_of_nothing(name, words):
    """Where s is 0 or negative powers are infinite or none: what lies beyond the ends must not be seen."""
    x = f"1x2x20x6:f32{LAYOUT_OF.get(name, '@nchw').replace('@nchw', '')}"
    line = f"{FWD} x={x}" if "fwd" in name else f"{BWD} x={x} dy={x} dmeans=none"
    problem = Problem.parse(f"{line} {words}")
    outcome = matrix.run(problem, PtxDevice("sm_80"), 3, [BY_NAME[name]], scalars=matrix.plain(problem.op))
    assert outcome.ran and not outcome.findings, outcome.findings


def outcome_of(engine, words, change):
    """(what an engine makes, what the reference makes) of drawn values that ``change`` has altered."""
    op = FWD if "fwd" in engine.name else BWD
    kind, layout = words.split()[0], words.split()[1]
    names = ("x", "means", "y") if op == FWD else ("x", "means", "dy", "dx", "dmeans")
    problem = Problem.parse(f"{op} {' '.join(f'{n}=1x8x9x12:{kind}{layout}' for n in names)} "
                            + " ".join(words.split()[2:]))
    made = matrix.Prepared(problem, 5, matrix.plain(problem.op))
    change(made.values)
    made.values = {n: problem.operands[n].dtype.round(v) for n, v in made.values.items()}
    want = problem.op.run_reference(made.values, made.scalars)
    device = PtxDevice("sm_80")
    built = plan.build(made.graph, device, Wish(engines=(engine.index,)))
    buffers, _ = matrix.execute(built, problem, made.values, set(problem.op.reads), device)
    return {n: buffers[n].read()[0] for n in want}, want


TAKES_MEANS = [(engine, layout) for engine in BY_NAME.values() if engine is not REFERENCE
               for layout in ("@nchw", "@nhwc") if layout[1:] in LAYOUT_OF.get(engine.name, "@nchw @nhwc")]


@pytest.mark.parametrize("engine, layout", TAKES_MEANS, ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_means_far_from_0(engine, layout, sign):
    """Values near 1000 with means beside them: what is summed is their difference."""
    def change(values):
        values["x"] += sign * 1000.0
        values["means"] += sign * 1000.0
    got, want = outcome_of(engine, f"f32 {layout} scale=2.0 offset=1.0", change)
    for name, value in want.items():
        assert abs(got[name] - value).max() <= 1e-5 * abs(value).max(), name


@pytest.mark.parametrize("engine, layout", TAKES_MEANS, ids=str)
@pytest.mark.parametrize("odd", [1e6, float("inf"), float("nan")])
def test_one_odd_value(engine, layout, odd):
    """What is far from the others counts in the windows that have it, and nowhere else."""
    def change(values):
        values["x"] += 10.0
        values["means"] += 10.0
        values["x"][0, :, 4, 6] = odd
    got, want = outcome_of(engine, f"f32 {layout} window=3 scale=2.0 offset=1.0", change)
    for name, value in want.items():
        near = 1 if name in ("y", "dmeans") else 2
        outside = np.ones(value.shape, bool)
        outside[:, :, 4 - near:5 + near, 6 - near:7 + near] = False
        assert abs(got[name] - value)[outside].max() <= 1e-5 * abs(value[outside]).max(), name
        assert (np.isnan(got[name]) == np.isnan(value)).all(), name


# From 2^-40 to 2^60 no square of an x leaves f32. Nothing else may, where dx and dmeans do not.
@pytest.mark.share(20)
@pytest.mark.parametrize("engine, layout", TAKES_MEANS, ids=str)
@pytest.mark.parametrize("kind, means, words", [
    ("f32", "", ""), ("f32", "", "scale=1.0 window=8"), ("f32", "means", "scale=2.0 power=1.0"),
    ("f32", "means", "scale=1.0 power=0.6 window=3"), ("bf16", "means", "scale=1.0")])
def test_sizes_of_x(engine, layout, kind, means, words):
    op, desc = (FWD, BWD)["bwd" in engine.name], f"1x8x9x6:{kind}{layout}"
    plain, own = (["x", "y"], ["means"]) if op == FWD else (["x", "dy", "dx"], ["means", "dmeans"])
    given = [f"{n}={desc}" for n in plain] + [f"{n}={desc if means else 'none'}" for n in own]
    problem = Problem.parse(f"{op} {' '.join(given)} {words}")
    names = ["x", *(["means"] if means else [])]
    assert not matrix.sizes(problem, PtxDevice("sm_80"), engine, names, range(-40, 61, 20))
    assert op == FWD or not matrix.sizes(problem, PtxDevice("sm_80"), engine, ["dy"], (-60, 60))
