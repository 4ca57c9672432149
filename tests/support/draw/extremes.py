"""Ways to run a problem that show what plain numbers and whole problems hide: a factor or an operand that is
NaN, operands that are all small, -inf, or 0 at their ends, operands that are left out, sizes that are one,
pads and strides that are more, sums in f64, axes that lie apart or in another order."""
from __future__ import annotations

import dataclasses
import itertools
import math
import re

from cydnn.ops.problem import Problem
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc, stride_order

from ..check.matrix import plain
from .regimes import ROWS, SUMS

FACTORS = ("alpha", "beta")
TOP = ("softmax_fwd", "pooling_fwd", "reduction")            # they look for a maximum, in some modes
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


def other_nans(problem):
    """Half of an operand but the first NaN. Not of recurrent networks, which keep gates that are."""
    for name in () if problem.op.name.startswith("rnn_") else problem.op.reads[1:]:
        d = problem.operands.get(name)
        if isinstance(d, TensorDesc) and d.dtype.kind == "float":
            yield dict(scalars=plain(problem.op), nans=(name,))


def lowest(problem):
    """All of the first input -inf: a maximum that begins above it."""
    if problem.op.name in TOP:
        yield dict(scalars=plain(problem.op), flavour="lowest")


def rounded(problem):
    """Whole numbers whose sums are exact, and are rounded once: some lie just between two results."""
    if problem.op.name in SUMS:
        yield dict(scalars=plain(problem.op), flavour="large")


def masked(problem):
    """Half of the longest axis of the first input -inf: whole parts of a row that hold nothing else."""
    if problem.op.name in TOP:
        yield dict(scalars=plain(problem.op), flavour="masked")


def no_offset(problem):
    """What is divided by a power of sums of squares with nothing added to them; of scales that f32 knows."""
    if getattr(problem.op, "offset", 0) and abs(problem.op.scale) > 1e-30:
        yield Problem(dataclasses.replace(problem.op, offset=0.0), problem.operands)


def zero_edges(problem):
    """The ends of every axis 0: a window that lies there alone sums nothing."""
    if problem.op.name.startswith(("lrn", "divisive_norm", "pooling", "batch_norm", "softmax")):
        yield dict(scalars=plain(problem.op), flavour="zero edges")


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
    """The problem of a line with another whole number of its op: 1 to 3 more than it says, or where it says
    none (pads are 0, strides and dilations 1 in most) 1 to 3."""
    for name, a in Problem.parse(line).op.attributes().items():
        said = re.search(rf" {name}=(\d+)(?= |$)", line)
        for number in (1, 2, 3) if a.kind in ("int", "ints") and (said or name not in line) else ():
            text = f"{line} {name}={number}"
            if said:
                text = line[:said.start(1)] + str(int(said[1]) + number) + line[said.end():]
            try:
                yield Problem.parse(text)
            except BadParam:
                continue


def in_double(problem):
    """The problem of f64 with sums in f64: of the same kernel, that is to be as exact as they are."""
    if any(d.dtype.name == "f64" for d in problem.descs) and problem.op.math != "f64":
        try:
            yield Problem(dataclasses.replace(problem.op, compute="f64"), problem.operands, problem.alignment)
        except BadParam:
            return                               # it takes f32 alone


def placed(desc, dims, order, gap: int):
    """A tensor with other dims, its axes in an order from the innermost on, ``gap`` elements behind each."""
    strides, step = [1] * desc.rank, 1
    for axis in order:
        strides[axis] = step
        step = step * dims[axis] + (gap if dims[axis] > 1 else 0)
    return TensorDesc(desc.dtype, dims, strides)


def apart(problem):
    """The problem with every other axis of another length in all operands that are long there, or with one
    axis, and gaps behind all: each axis has digits of its own."""
    axes = range(max(d.rank for d in problem.descs))
    found = [new for some in (axes[::2], axes[1::2]) for new in _longer(problem, some)]
    yield from found or (new for axis in axes for new in _longer(problem, (axis,)))


def one_short(problem):
    """A row of an element less than a power of two, where the op takes one: what is read of whole blocks."""
    kind = next(iter(problem.descs)).dtype.name
    for n in (1023, 2047, 4095, 8191):
        try:
            yield Problem.parse(f"{problem.op.name} 1x{n} {kind}")
        except BadParam:
            return


def _plain_tensors(problem) -> dict:
    return {n: d for n, d in problem.operands.items() if isinstance(d, TensorDesc) and d.vector == 1}


def own_gaps(problem, gap: int = 8):
    """The problem with gaps behind all axes, in every operand others: a stride of one that is taken for
    another's shows."""
    return made(problem, {n: placed(d, d.dims, stride_order(d)[::-1], gap * each)
                          for each, (n, d) in enumerate(_plain_tensors(problem).items(), 1)})


def _longer(problem, axes, new: int = 5, gap: int = 8):
    """As far as the op takes it; the innermost axis, whose vectors a kernel may want, as it is."""
    descs = _plain_tensors(problem)
    dims = lambda d: [new if a in axes and s > 1 and step > 1 else s
                      for a, (s, step) in enumerate(zip(d.dims, d.strides))]
    return made(problem, {n: placed(d, dims(d), stride_order(d)[::-1], gap) for n, d in descs.items()})


def turned(problem):
    """A small batch norm with a mean for every element, samples innermost and whole vectors of them, all axes
    apart: its columns have as many digits as there are axes."""
    op, x = problem.op, problem.operands.get("x")
    if getattr(op, "mode", "") != "spatial" or x is None or op.shared & problem.operands.keys():
        return
    dims, order = (-(-x.dims[0] // 8) * 8, *(min(s, 5) for s in x.dims[1:])), (0, *range(x.rank - 1, 0, -1))
    large = lambda d: d is not None and d.dims == x.dims
    small = lambda d: TensorDesc.packed(d.dtype, (1, *dims[1:]))
    changed = {n: d and (placed(d, dims, order, 8) if large(d) else small(d))
               for n, d in problem.operands.items()}
    try:
        yield Problem(dataclasses.replace(op, mode="per_activation"), changed, problem.alignment)
    except BadParam:
        return


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


def few(problem):
    """The problem with one size being two, or three."""
    for new in (2, 3):
        yield from ones(problem, new)


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


CHANGES = dict(left_out=left_out, ones=ones, few=few, empty=empty, attributes=attributes, in_double=in_double,
               apart=apart, turned=turned, own_gaps=own_gaps, one_short=one_short)
NUMBERS = dict(nan_factors=nan_factors, small=small, one_nan=one_nan, negative=negative, nan_rows=nan_rows,
               other_nans=other_nans, lowest=lowest, zero_edges=zero_edges, rounded=rounded, masked=masked)
SPREADING = "conv_dgrad_few"                     # zeros are multiplied with what is NaN


def suits(way, kernel: str) -> bool:
    """May a kernel's problems have numbers of a way? Messages are not any numbers."""
    never = ("peer_reduction", SPREADING) if way is other_nans else "peer_reduction"
    return not kernel.startswith(never)
