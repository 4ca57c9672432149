"""Faults of numbers planted in shipped kernels: wrong rounding, double rounding, flushed denormals, missing
saturation, cancellation, a maximum that starts at 0. The values find each in the problems of the contract."""
from __future__ import annotations

import re

import numpy as np
import pytest

from cydnn import dtypes, kernels, plan
from cydnn.bench import trial as debug
from cydnn.ops import Problem
from support.check import matrix
from lab import mutants
from support.draw import regimes
from support.check.compare import compare, half_step
from support.check.trial import Trial

import watched

swap = lambda old, new: lambda text: re.sub(old, new, text)


def without_shift(text: str) -> str:
    """Sums of x and x * x as they are: what is taken from three values or more is 0 everywhere."""
    taken = re.findall(r"sub\.f32\s+%f\d+, %f\d+, (%f\d+);", text)
    shifts = {r for r in taken if taken.count(r) >= 3}
    assert shifts
    kernel, parts, at = re.search(r"\.entry (\w+)", text)[1], [], 0
    for s in mutants.statements(text, kernel):
        if s.opcode.endswith(".f32") and not s.opcode.startswith(("mov", "selp")):
            sources = tuple("0f00000000" if o in shifts else o for o in s.operands[1:])
            parts += [text[at:s.start], s._replace(operands=(s.operands[0], *sources)).text()]
            at = s.end
    return "".join(parts) + text[at:]


FAULTS = [                                       # class, kernel, what is done to its text
    ("rounding", "transform_transpose_f32_f16", swap(r"cvt\.rn\.f16\.f32", "cvt.rz.f16.f32")),
    ("rounding", "transform_transpose_f32_bf16", swap(r"\b32767\b", "0")),    # of sm_75
    ("rounding", "pooling_fwd_any_f16_avg", swap(r"cvt\.rn\.f16\.f32", "cvt.rz.f16.f32")),
    ("rounding", "pooling_fwd_nhwc_bf16_avg", swap(r"cvt\.rn\.bf16x2", "cvt.rz.bf16x2")),
    ("rounding", "softmax_fwd_warp_f16_128", swap(r"cvt\.rn\.f16(x2)?\.f32", r"cvt.rz.f16\1.f32")),
    ("rounding", "batch_norm_apply_rows_f16_8", swap(r"cvt\.rn\.f16\.f32", "cvt.rz.f16.f32")),
    ("rounding", "reduction_rows_sum_f16_f32_1", swap(r"cvt\.rn\.f16\.f32", "cvt.rz.f16.f32")),
    ("rounding up", "pointwise_vector_bf16", swap(r"cvt\.rn\.bf16(x2)?\.f32", r"cvt.rz.bf16\1.f32")),
    ("flushing", "transform_transpose_f32_f32", swap(r"mul\.f32", "mul.ftz.f32")),
    ("flushing", "pooling_fwd_any_f32_avg", swap(r"add\.f32", "add.ftz.f32")),
    ("flushing", "pooling_fwd_nhwc_f32_max", swap(r"max\.f32", "max.ftz.f32")),
    ("flushing", "reduction_rows_sum_f32_f32_0", swap(r"add\.f32", "add.ftz.f32")),
    ("flushing", "reduction_columns_top_f32_0", swap(r"max\.NaN\.f32", "max.ftz.NaN.f32")),
    ("cancellation", "batch_norm_stats_columns_f32_1", without_shift),
    ("cancellation", "batch_norm_stats_rows_f32_8", without_shift),
    ("cancellation", "batch_norm_grid_f32_8", without_shift),
    ("start at 0", "pooling_fwd_any_f32_max", swap("0f7FC00000", "0f00000000")),
    ("start at 0", "pooling_fwd_nchw_strip_f32_max_2_0", swap("0fFF7FFFFF", "0f00000000")),
    ("start at 0", "reduction_rows_top_f32_f32_0", swap("0fFF800000", "0f00000000")),
    ("start at 0", "reduction_columns_top_f32_0", swap("0fFF800000", "0f00000000")),
    ("start at 0", "softmax_fwd_generic_f32_256", swap("0fFF800000", "0f00000000")),
    ("start at 0", "softmax_fwd_warp_f32_128", swap("0fFF800000", "0f00000000")),
]
# class, problem, what is done to the text that was spliced
SPLICED = [
    ("double rounding", "pointwise x=3x40x9:f64 y=3x40x9:f16 mode=identity acc=f64",
     swap(r"cvt\.rn\.f16\.f64\s+([^,]+), ([^;]+);",
          r"{ .reg .f32 once; cvt.rn.f32.f64 once, \2; cvt.rn.f16.f32 \1, once; }")),
    ("rounding", "pointwise x=3x40x9:f64 y=3x40x9:f32 mode=identity acc=f64",
     swap(r"cvt\.rn\.f32\.f64", "cvt.rz.f32.f64")),
    ("saturation", "pointwise x=3x40x9:f32 y=3x40x9:i8 mode=identity",
     swap(r"(max|min)\.s32\s+(\S+), \S+, -?12[78];", "")),
    ("saturation", "transform x=3x40x9:f32 y=3x40x9:u8", swap(r"(max|min)\.s32\s+(\S+), \S+, (0|255);", "")),
    ("rounding", "pointwise x=3x40x9:f32 y=3x40x9:i8 mode=identity",
     swap(r"cvt\.rni\.s32\.f32", "cvt.rzi.s32.f32")),
]


def shown(device, case, change) -> bool:
    """Is something wrong with a case, with any of its inputs?"""
    device.replaced[case.kernel] = change(device.replaced.get(case.kernel) or kernels.get(
        case.kernel).image_for(device.facts.sm).text().decode())
    try:
        return any(Trial(case, device, seed)() for seed in range(4))
    finally:
        device.replaced.clear()


@pytest.mark.parametrize("kind, name, change", FAULTS, ids=[" ".join(f[:2]) for f in FAULTS])
def test_planted(kind, name, change):
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    text = kernels.get(name).image_for(device.facts.sm).text().decode()
    assert change(text) != text
    with watched.watching():
        assert any(shown(device, case, change) for case in debug.cases(name, device.facts))


@pytest.mark.parametrize("kind, line, change", SPLICED, ids=[" ".join(f[:2]) for f in SPLICED])
def test_planted_in_what_was_spliced(kind, line, change):
    problem, device = Problem.parse(line), watched.PtxDevice("sm_80")
    one = lambda seed: [text for text in watched.run(problem, device, seed, scalars=matrix.plain(problem.op),
                                                     flavour="regimes").findings]
    assert [one(seed) for seed in range(3)] == [[]] * 3
    texts = {key: text.decode() if isinstance(text, bytes) else text for key, text in device._spliced.items()}
    changed = {key: change(text) for key, text in texts.items()}
    assert changed != texts
    device._spliced.update(changed)
    assert any(one(seed) for seed in range(3))


# ---- The inputs, and the measure ----

@pytest.mark.parametrize("line", [
    "transform x=3x40x9:f32 y=3x40x9:f16", "pooling_fwd x=2x16x9x9:f16 mode=max",
    "reduction x=40x60:f32 y=40x1:f32 mode=max"])
def test_regimes_hold_what_they_say(line):
    problem = Problem.parse(line)
    gen = np.random.default_rng(3)
    x = problem.operands["x"].dtype.round(regimes.draw(problem, "x", gen, 0))
    which = regimes.slices(problem, "x") % len(regimes.MOVED)
    of = lambda kind: x[which == regimes.MOVED.index(kind)]
    tiny, eps = problem.operands["x"].dtype.tiny, problem.operands["x"].dtype.eps
    assert (of("negative") < 0).all() and (of("positive") > 0).all() and np.isfinite(x).all()
    assert (np.abs(of("denormal")) < tiny / eps).all() and (of("denormal") != 0).all()
    assert np.ptp(np.log2(np.abs(of("exponents")))) > 10
    assert (np.abs(of("beyond")) > 300).any()


def test_half_a_step():
    """What lies exactly between two numbers of a type may be rounded either way, and nothing beyond."""
    for dtype in (dtypes.f16, dtypes.bf16, dtypes.f32):
        for size in (1.0, 1.5, 3.0, 2.0 ** -10, 1000.0):
            step = dtype.eps * 2.0 ** np.floor(np.log2(size))
            assert dtype.round(np.array(size + step)) == size + step != size
            assert half_step(dtype, np.array(size)) == step / 2
        assert half_step(dtype, np.array(0.0)) == dtype.tiny / 2


def test_a_move_is_exact():
    problem = Problem.parse("transform x=3x5:f32 y=3x5:f16")
    assert regimes.exact(problem, matrix.plain(problem.op)) and not regimes.exact(problem,
                                                                                 matrix.blended(problem.op))
    wide = Problem.parse("pointwise x=3x5:f64 y=3x5:f16 mode=identity")      # sums in f32 do not hold f64
    assert not regimes.exact(wide, matrix.plain(wide.op))
    want, d = np.array([1 + 2.0 ** -11 + 2.0 ** -13]), dtypes.f16
    desc = problem.operands["y"]
    assert compare(d.round(want), want, 0.0, desc).ok
    assert not compare(d.round(want) - d.eps, want, 0.0, desc).ok
