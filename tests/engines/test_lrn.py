"""Engines of local response normalization without a GPU: who takes what, who refuses with which sentence,
chunks of channels, values beside which nothing may be seen."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn import kernels
from cydnn.device.facts import KNOWN
from cydnn.device.ptx import PtxDevice
from cydnn.engines import REFERENCE, engines_for
from cydnn.heuristics import best
from cydnn.ops import LrnBwd, LrnFwd
from cydnn.ops.problem import Problem
from support.draw import alone
from support.check import matrix
from support.draw.alone import match, steps

H200 = KNOWN["h200"]
BY_NAME = {e.name: e for op in (LrnFwd, LrnBwd) for e in engines_for(op)}
PASSES = ("lrn_fwd", "lrn_bwd")


def parsed(line):
    return match(Problem.parse(line))


@pytest.mark.parametrize("op", PASSES)
@pytest.mark.parametrize("shape, engine", [
    ("n8c64h14w14 f16 nchw", "strided"), ("n8c64h14w14 f16 nhwc", "channels"),
    ("n8c3h9w9 f32 nhwc", "strided"), ("n8c64h14w14 f64 nhwc", "channels"), ("8x64 bf16", "channels")])
def test_the_engine_of_a_layout(op, shape, engine):
    assert best(parsed(f"{op} {shape}").graph, H200).engine.name == f"{op}_{engine}"


@pytest.mark.parametrize("window, word", [(1, 5), (5, 5), (6, 9), (9, 9), (10, 16), (16, 16)])
@pytest.mark.parametrize("rest, fwd, bwd", [
    ("n2c8h3w4 f16 nhwc", "channels_f16_w{}", "channels_f16_w{}"),
    ("n2c8h3w4 f16 nchw", "strided_f16_w5_v4 strided_f16_w{}_v2", "strided_f16_w{}_v2"),
    ("n2c8h3w2 f16 nchw", "strided_f16_w{}_v2", "strided_f16_w{}_v2"),
    ("n2c8h3w3 f16 nchw", "strided_f16_w{}_v1", "strided_f16_w{}_v1"),
    ("n2c8h3w4 f16 nchw align=2", "strided_f16_w{}_v1", "strided_f16_w{}_v1"),
    ("n2c8h3w4 f32 nchw", "strided_f32_w5_v2 strided_f32_w{}_v1", "strided_f32_w{}_v1"),
    ("n2c8h3w4 f64 nchw", "strided_f64_w{}_v1", "strided_f64_w{}_v1")])
def test_the_kernel_of_a_window(window, word, rest, fwd, bwd):
    for op, name in zip(PASSES, (fwd, bwd)):
        p = parsed(f"{op} {rest} window={window}")
        step, = steps(BY_NAME[f"{op}_{name.split('_')[0]}"], p, H200)
        assert step.kernel == f"{op}_{name.split()[0 if word == 5 else -1].format(word)}"


@pytest.mark.parametrize("engine, line, sentence", [
    ("lrn_fwd_channels", "lrn_fwd n2c12h3w4 f16 nhwc",
     "channels of x must be neighbours and a multiple of 8 (16 bytes); got c=12, stride 1"),
    ("lrn_fwd_channels", "lrn_fwd n2c8h3w4 f16", "channels of x must be neighbours and a multiple of 8"),
    ("lrn_bwd_channels", "lrn_bwd x=2x8:f32@8,1 dy=2x8:f32@9,1 dx=2x8:f32@8,1",
     "strides of dy must be multiples of 4; got (9, 1)"),
    ("lrn_bwd_channels", "lrn_bwd 2x8 f32 align=4", "x must be aligned to 16 bytes; got 4"),
    ("lrn_fwd_strided", "lrn_fwd x=2x8:f32 y=2x8:f16", "operands must have one type; got f16 f32"),
    ("lrn_fwd_strided", "lrn_fwd 2x8 f32 acc=f64", "compute must be f32 for f32 data; got f64"),
    ("lrn_fwd_strided", "lrn_fwd 70000x70000 f32", "elements of x must be fewer than 2^31; got 4900000000"),
])
def test_refusals(engine, line, sentence):
    reasons = list(BY_NAME[engine].reasons(parsed(line), H200))
    assert any(r.startswith(sentence) for r in reasons), reasons


@pytest.mark.parametrize("words, sentence", [
    ("window=0", "lrn_fwd: window must be >= 1; got 0"),
    ("window=17", "lrn_fwd: window must be <= 16; got 17"),
])
def test_what_an_op_refuses(words, sentence):
    with pytest.raises(Exception, match=sentence):
        Problem.parse(f"lrn_fwd 2x8 {words}")


@pytest.mark.parametrize("op", PASSES)
def test_nothing_is_launched_for_empty_tensors(op):
    for line in (f"{op} n0c8h3w4 f32", f"{op} n2c8h0w4 f32 nhwc", f"{op} 3x0 f16"):
        p = parsed(line)
        for engine in alone.takers(p, H200):
            assert steps(engine, p, H200) == []


@pytest.mark.parametrize("positions", [1, 127, 129, 50000, 10 ** 6])
@pytest.mark.parametrize("channels", [1, 8, 33, 100, 1000])
def test_chunks_cover_the_channels(positions, channels):
    step, = steps(BY_NAME["lrn_fwd_strided"], parsed(f"lrn_fwd 1x{channels}x{positions} f32"), H200)
    per, chunks = step.args["per"], step.args["chunks"]
    assert per % 16 == 0 and (chunks - 1) * per < channels <= chunks * per
    assert chunks == 1 or per >= 32
    threads = positions // (1 if positions % 2 else 2)
    assert kernels.get(step.kernel).pack(step.args).grid == (-(-threads // 128) * chunks, 1, 1)


@pytest.mark.parametrize("name", [n for n, e in BY_NAME.items() if e is not REFERENCE])
@pytest.mark.parametrize("words", ["window=5 offset=0.0", "window=16 offset=0.0", "window=4 scale=-0.75"])
def test_sums_of_nothing(name, words):
    """Where s is 0 or negative powers are infinite or none: what lies beyond the ends must not be seen."""
    op, layout = name[:7], "nhwc" if name.endswith("channels") else "nchw"
    problem = Problem.parse(f"{op} n1c48h1w2 f32 {layout} {words}")
    want = matrix.Prepared(problem, 3, matrix.plain(problem.op)).want
    assert np.isfinite(next(iter(want.values()))).any()
    outcome = matrix.run(problem, PtxDevice("sm_80"), 3, [BY_NAME[name]], scalars=matrix.plain(problem.op))
    assert outcome.ran and not outcome.findings, outcome.findings


# From 2^-40 to 2^60 no square of an x leaves f32. Nothing else may, where dx does not.
@pytest.mark.share(20)
@pytest.mark.parametrize("name", [n for n, e in BY_NAME.items() if e is not REFERENCE])
@pytest.mark.parametrize("words", [
    "f32", "f32 scale=1.0", "f32 scale=1.0 power=0.5", "f32 scale=2.0 power=1.0", "f32 offset=1e-5",
    "f32 power=0.6 window=8", "f32 scale=1e-30", "f64 scale=1.0", "bf16 scale=1.0", "bf16 power=0.6"])
def test_sizes_of_x(name, words):
    op, layout = name[:7], "nhwc" if name.endswith("channels") else "nchw"
    problem = Problem.parse(f"{op} n1c24h1w2 {layout} {words}")
    assert not matrix.sizes(problem, PtxDevice("sm_80"), BY_NAME[name], ["x"], range(-40, 61, 10))


@pytest.mark.parametrize("name", [n for n, e in BY_NAME.items() if e is not REFERENCE])
@pytest.mark.parametrize("power", [0.75, 0.6])
def test_sizes_of_x_without_offset(name, power):
    op, layout = name[:7], "nhwc" if name.endswith("channels") else "nchw"
    problem = Problem.parse(f"{op} n1c24h1w2 {layout} f32 scale=1.0 offset=0.0 power={power}")
    assert not matrix.sizes(problem, PtxDevice("sm_80"), BY_NAME[name], ["x"], range(-40, 41, 10))


@pytest.mark.parametrize("name", [n for n in BY_NAME if n.startswith("lrn_bwd")])
@pytest.mark.parametrize("words", ["f32", "f32 offset=1e-5", "f32 scale=1.0 power=0.6"])
def test_sizes_of_dy(name, words):
    problem = Problem.parse(f"lrn_bwd n1c24h1w2 {'nhwc' if name.endswith('channels') else 'nchw'} {words}")
    for others in ([], ["x"]):
        assert not matrix.sizes(problem, PtxDevice("sm_80"), BY_NAME[name], ["dy", *others], (-60, 30, 60))


@pytest.mark.parametrize("words, exponent", [
    ("", 49), ("scale=1.0 window=1", 64), ("offset=1e-5", 35), ("offset=0.0", 0), ("scale=-1.0", 0),
    ("scale=1.0 offset=1e-5", 42), ("offset=1e-5 power=4.0", 0), ("scale=1e-20", 0),
    ("scale=1e-25 offset=1e-25 power=-0.9", 10), ("scale=1e-310 offset=1e-310 power=-0.999", 0)])
def test_the_lift_of_terms(words, exponent):
    """As large as dy below 2^64 leaves room for, and ``slope``, which is divided by it."""
    step, = steps(BY_NAME["lrn_bwd_strided"], parsed(f"lrn_bwd n1c24h1w2 f32 {words}"), H200)
    op = parsed(f"lrn_bwd n1c24h1w2 f32 {words}").op
    assert step.args["lift"] == 2.0 ** exponent
    assert step.args["lift"] * step.args["slope"] == 2 * op.power * (op.scale / op.window)
