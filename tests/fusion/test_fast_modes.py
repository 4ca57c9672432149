"""The functions for results of 16 bits (kernels_src/pointwise/math_fast.cuh), at every value that f16 or bf16
has: in f32, before they are rounded, and as pointwise_vector stores them. The hardware's approximations are
as far off as the PTX ISA allows, each way."""
from __future__ import annotations

import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fusion_rules import KERNEL, TEXT
from cydnn import plan
from cydnn.device.ptx import PtxDevice, parse
from cydnn.device.ptx.code import Code
from cydnn.dtypes import BY_NAME
from cydnn.fusion import At, Extra, Program, Step, splice
from cydnn.fusion.functions import library
from cydnn.ops import Pointwise, Problem
from cydnn.ops.pointwise import MODES
from support.check import matrix
from support.check.compare import compare, tolerance

ROWS, COLS = 512, 128                            # all values of 16 bits
FAST = sorted(library("pointwise_fast").modes)
SHARE = 10 * 2.0 ** -23                          # of the scale: what support/check/compare.py allows in f32
FAR = 11                                         # from here on exp is less exact
APPROXIMATE = re.compile(r"((ex2|rcp|div)\.(?:approx|full)(?:\.ftz)?\.f32\s+(%\w+), [^;]*;)")
ERRORS = dict(ex2=2.0 ** -22, rcp=2.0 ** -23, div=2.0 ** -22)
# which way: ex2, the others
WAYS = {"as computed": (0, 0), "above": (1, 1), "below": (-1, -1), "apart": (1, -1), "the other way": (-1, 1)}


def moved(text: str, way: str) -> str:
    """Behind every approximation a product that makes it as wrong as it may be."""
    if way == "as computed":
        return text

    def wrong(m):
        factor = np.float32(1 + ERRORS[m[2]] * WAYS[way][m[2] != "ex2"])
        return f"{m[1]} mul.rn.f32 {m[3]}, {m[3]}, 0f{factor.view(np.uint32):08X};"
    text, count = APPROXIMATE.subn(wrong, text)
    assert count
    return text


def values(dtype: str) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        codes = np.arange(1 << 16, dtype=np.uint16).reshape(ROWS, COLS)
        return BY_NAME[dtype].decode(codes.view(BY_NAME[dtype].numpy)).astype(float)


def narrow(x):
    with np.errstate(all="ignore"):
        return x.astype(np.float32)


def operands(mode: str, dtype: str) -> dict:
    """Of a backward mode every value of what the forward read, and 1 or what is drawn for what comes back."""
    every = values(dtype)
    if MODES[mode].inputs == 1:
        return dict(x=every)
    drawn = np.random.default_rng(len(mode)).uniform(-2, 2, every.shape)
    return dict(x=np.where(np.arange(COLS) % 2, 1.0, BY_NAME[dtype].round(drawn)), b=every)


def meaning(problem: Problem, given: dict) -> tuple:
    """(what comes out, its scale), in float64."""
    op = problem.op
    with np.errstate(all="ignore"):
        want = op.evaluate({**dict.fromkeys("xbt"), **given}, dict(op.scalars))
        return want["y"], op.magnitude(given, dict(op.scalars), want)["y"]


def written(mode: str, given: dict, dtype: str) -> Problem:
    read = " ".join(f"{name}={ROWS}x{COLS}:{dtype}" for name in given)
    return Problem.parse(f"pointwise {read} mode={mode}")


def fast(mode: str, given: dict, way: str) -> np.ndarray:
    """What the spliced function makes of its operands, in f32, on the interpreter."""
    device, op = PtxDevice("sm_80"), Pointwise(mode=mode)
    step = Step(mode, ("v", "t0")[:len(given)],
                attributes=tuple([getattr(op, name) for name in MODES[mode].uses]))
    extra = Extra("f32", At((("off", 1),), 1, 4))
    program = Program("f32", (step,), (extra,)[:len(given) - 1], result="n0", fast=True)
    text = moved(splice(TEXT, KERNEL, {"epilogue": program}).decode(), way)
    module = parse.module(text, f"{mode}.ptx")
    code = Code(module, parse.PtxProgram(module, "marked"),
                {n: device._variable(*v) for n, v in module.variables.items()})
    places = [device.alloc(ROWS * COLS * 4) for _ in given]
    for place, x in zip(places, given.values()):
        device.copy_in(place.ptr, narrow(x))
    block = struct.pack("<QQ", *[p.ptr for p in places], *[0] * (2 - len(places)))
    device.launch(code, (ROWS, 1, 1), (COLS // 4, 1, 1), 0, block)
    return device.copy_out(places[0].ptr, np.empty((ROWS, COLS), np.float32)).astype(float)


@pytest.mark.share(40)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("mode", FAST)
def test_errors(mode, dtype, way):
    given = operands(mode, dtype)
    want, scale = meaning(written(mode, given, dtype), given)
    got, x = fast(mode, given, way), given.get("b", given["x"])
    want32 = narrow(want).astype(float)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    finite, infinite = np.isfinite(want32), np.isinf(want32)
    np.testing.assert_array_equal(got[infinite], want32[infinite])
    share = np.where(np.abs(x) < FAR, SHARE, 2.0 ** -17)[finite]
    off = np.abs(got[finite] - want[finite]) - share * scale[finite]
    worst = x[finite][off.argmax()]
    assert off.max() <= 2.0 ** -126, (worst, got[x == worst], want[x == worst])     # less is 0 (.ftz)


@pytest.mark.share(40)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("mode", [*FAST, "exp"])
def test_every_value(mode, dtype, way):
    given, device = operands(mode, dtype), PtxDevice("sm_80")
    problem = written(mode, given, dtype)
    built = plan.build(matrix.graph_of(problem), device)
    assert built.choice.engine.name == "pointwise_vector"
    device._spliced.update({key: moved(bytes(text).decode(), way) for key, text in device._spliced.items()})
    buffers, _ = matrix.execute(built, problem, given, given, device)
    plan.forget()
    desc, (want, scale) = problem.operands["y"], meaning(problem, given)
    with np.errstate(invalid="ignore"):
        allowed = tolerance(problem, "y", desc, want, scale, dict(problem.op.scalars), None)
    report = compare(buffers["y"].read()[0], want, allowed, desc)
    assert report.ok, report.text
