"""Every pointwise mode, type and operand at NaN, infinities, zeros of both signs, the smallest and largest
denormal, the smallest and largest normal number, 1 and its neighbours: what comes out is of the class, and
where it is a zero of the sign, that the table of classes says. Max pooling: tests/engines/test_pooling.py.

The table is the declaration in a wider type, or where a product or a sum leaves the range of the arithmetic
on the way, in its type.
"""
from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from cydnn import dtypes, plan
from cydnn.ops import Problem
from cydnn.ops.pointwise import MODES
from support.check import matrix

import watched

TYPES = ("f32", "f16", "bf16", "f64")
EITHER_ZERO = ("min", "max")                     # of zeros of different signs (IEEE 754-2008, 5.3.1)
NEAR = 0.01                                      # of finite values; their errors are the matrix' business


def special(dtype) -> np.ndarray:
    normal = dtype.tiny / dtype.eps
    sizes = [np.nan, np.inf, 0.0, dtype.tiny, normal - dtype.tiny, normal, dtype.highest, 1 - dtype.eps / 2,
             1.0, 1 + dtype.eps]
    return np.array(sizes + [-v for v in sizes])


def cases(mode):
    """(problem, {operand: values}): every pair of special values; of three operands every triple of some."""
    names = "xbt"[:MODES[mode].inputs]
    for t, nan in itertools.product(TYPES, ("propagate", "ignore") if "nan" in MODES[mode].uses else
                                    ("propagate",)):
        values = special(dtypes.BY_NAME[t])
        some = values if len(names) < 3 else values[[0, 1, 2, 3, 8, 11, 12, 18]]
        grids = np.meshgrid(*[some] * len(names), indexing="ij")
        dims = (1, grids[0].size)
        operands = " ".join(f"{n}=1x{dims[1]}:{t}" for n in names)
        compute = " acc=f64" if t == "f64" else ""
        yield (Problem.parse(f"pointwise {operands} mode={mode} nan={nan}{compute}"),
               {n: g.reshape(dims) for n, g in zip(names, grids)})


def tables(problem, given):
    """What the outputs may be: by a type that is wider than that of the arithmetic, and by that."""
    y, math = problem.operands["y"].dtype, dtypes.BY_NAME[problem.op.math].numpy
    for kind in (np.longdouble if math == np.float64 else np.float64, math):
        values = {n: given[n].astype(kind) if n in given else None for n in "xbt"}
        with np.errstate(all="ignore"):
            found = problem.op.reference(**values, alpha1=1.0, alpha2=1.0)["y"]
            yield y.round(np.asarray(found, np.float64))


def wrong(problem, given, got) -> np.ndarray:
    """Which elements are of no class that they may be of."""
    good, tiny = np.zeros(got.shape, bool), problem.operands["y"].dtype.tiny
    for want in tables(problem, given):
        same_sign = np.signbit(want) == np.signbit(got)
        if problem.op.mode in EITHER_ZERO:
            same_sign |= (given["x"] == 0) & (given["b"] == 0)
        with np.errstate(invalid="ignore"):
            near = np.abs(want - got) <= NEAR * np.abs(want) + 2 * tiny
        finite = np.isfinite(want) & np.isfinite(got)
        good |= np.isnan(want) & np.isnan(got) | (want == got) & same_sign | finite & near & (
            same_sign | (want != 0) & (got != 0))
    return ~good


def run(problem, given, device) -> list[str]:
    built = plan.build(matrix.graph_of(problem), device)
    buffers, _ = matrix.execute(built, problem, given, given, device)
    got = buffers["y"].read()[0]
    where = [tuple(at) for at in np.argwhere(wrong(problem, given, got))]
    return [f"{problem} of {[float(v[at]) for v in given.values()]}: got {got[at]!r}" for at in where]


@pytest.mark.share(26)
@pytest.mark.parametrize("mode", MODES)
def test_classes(mode, ptx80):
    texts = [text for problem, given in cases(mode) for text in run(problem, given, ptx80)]
    assert not texts, f"{len(texts)} wrong:\n" + "\n".join(texts[:12])


@pytest.mark.parametrize("mode, old, new", [
    ("neg", r"neg\.f32\s+(\S+), (\S+);", r"sub.f32 \1, 0f00000000, \2;"),           # the sign of 0
    ("max", r"setp\.num\.f32(\s+\S+), (\S+), (\S+);", r"setp.geu.f32\1, \2, \2;"),      # a NaN that is lost
    ("add", r"add\.f32", "add.ftz.f32"), ("sqrt", r"sqrt\.rn\.f32", "sqrt.rn.ftz.f32")])
def test_a_wrong_class_shows(mode, old, new):
    device = watched.PtxDevice("sm_80")
    problem, given = next(cases(mode))
    assert run(problem, given, device) == []
    texts = {key: text.decode() if isinstance(text, bytes) else text for key, text in device._spliced.items()}
    changed = {key: re.sub(old, new, text) for key, text in texts.items()}
    assert changed != texts
    device._spliced.update(changed)
    plan.forget()
    assert run(problem, given, device)
    plan.forget()
