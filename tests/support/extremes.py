"""Ways to run a problem that show what plain numbers and whole problems hide: a factor or one input that is
NaN, operands that are all small, operands that are left out, sizes that are one, pads and strides that are
more."""
from __future__ import annotations

import itertools
import math

from cydnn.ops.problem import Problem
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc, stride_order

from .matrix import plain
from .regimes import ROWS

FACTORS = ("alpha", "beta")
SMALL = {"f16": 2.0 ** -4, "bf16": 2.0 ** -12, "f32": 2.0 ** -12, "f64": 2.0 ** -30}


def nan_factors(problem):
    """By-value numbers, one factor NaN: a comparison with 0 or 1 takes it for neither."""
    op = problem.op
    for name in op.scalars:
        if name.rstrip("12").split("_")[0] in FACTORS:
            yield dict(scalars={**plain(op), name: math.nan})


def one_nan(problem):
    """One element of a sum or a window NaN. Not of those that add products with zeros."""
    if problem.op.reads and not problem.op.name.startswith(("conv_", "rnn_")):
        yield dict(scalars=plain(problem.op), flavour="one nan")


def small(problem):
    """Inputs far below 1, and above the denormal numbers: a sum that passes through a large number shows."""
    kinds = {d.dtype.name for d in problem.descs if d.dtype.kind == "float"}
    if known := [SMALL[k] for k in kinds if k in SMALL]:
        yield dict(scalars=plain(problem.op), scale=max(known))


def negative(problem):
    """All of the first input below 0: a maximum that starts there, a sign that is lost, an absolute value
    that is taken or left out. Far below it where there are exponents."""
    if problem.op.reads:
        yield dict(scalars=plain(problem.op), flavour="negative")
        if problem.op.name == "softmax_bwd":
            yield dict(scalars=plain(problem.op), flavour="negative", scale=100.0)


def nan_rows(problem):
    """Every other row or image of products NaN: what reads a neighbour shows, even where it adds that times
    0. Not of the batch's sums, nor of those that are made of other numbers."""
    if problem.op.name in ROWS:
        yield dict(scalars=plain(problem.op), flavour="nan rows")


def left_out(problem):
    """The problem without one of its optional operands, without two of them, and without any."""
    op, given = problem.op, [n for n in problem.op.operands()
                             if n in problem.op.optional and problem.operands.get(n) is not None]
    some = [names for count in (1, 2, len(given)) for names in itertools.combinations(given, count)]
    for names in filter(None, dict.fromkeys(some)):
        try:
            yield Problem(op, {n: None if n in names else d for n, d in problem.operands.items()},
                          problem.alignment)
        except BadParam:
            continue                             # it needs them, or both of two


def attributes(line: str):
    """The problem of a line with a whole number of its op that the line does not say: pads are 0, strides and
    dilations 1 in most."""
    for name, a in Problem.parse(line).op.attributes().items():
        for number in (1, 2, 3) if a.kind in ("int", "ints") and name not in line else ():
            try:
                yield Problem.parse(f"{line} {name}={number}")
            except BadParam:
                continue


def resized(desc, sizes: dict, gap: int = 0):
    """A tensor with other sizes, its dims in the same order; ``gap`` elements behind the innermost."""
    dims, strides, step = [sizes.get(s, s) for s in desc.dims], [1] * desc.rank, 1
    for axis in reversed(stride_order(desc)):
        strides[axis] = step
        step = step * dims[axis] + (gap if step == 1 and dims[axis] > 1 else 0)
    return TensorDesc(desc.dtype, dims, strides)


def ones(problem, new: int = 1):
    """The problem with all of one size being 1, in every operand or in one alone: what the op takes."""
    descs = {n: d for n, d in problem.operands.items() if isinstance(d, TensorDesc) and d.vector == 1}
    for size in sorted({s for d in descs.values() for s in d.dims if s > 1}):
        changed = {n: resized(d, {size: new}) for n, d in descs.items() if size in d.dims}
        inputs = {**descs, **changed}
        yield from made(problem, changed, {n: d for n, d in inputs.items() if n in problem.op.reads})
        for name in changed if len(changed) > 1 else ():
            yield from made(problem, {name: changed[name]})


def empty(problem):
    """The problem with one size being 0: sums and maxima of nothing."""
    yield from ones(problem, 0)


def made(problem, *changes):
    """The problem with the first of the changes of its operands that the op takes; what is not among those
    of the second is inferred."""
    for number, change in enumerate(changes):
        try:
            yield Problem(problem.op, {**problem.operands, **change} if number == 0 else change,
                          problem.alignment)
            return
        except BadParam:
            continue
