"""Inputs that tell mistakes of numbers apart. One tensor has many regimes side by side, each in slices of its
own that no sum crosses: what is moved has every exponent, denormals, halves of the output's last place; what
is summed has one sign, or a mean of 1,000 and -1,000.

Moves (``moves``): what only selects and converts is exact. Wrong rounding, double rounding, flushed denormals
and missing saturation show there. Of sums, a variance without shift, and a maximum that starts at 0.
"""
from __future__ import annotations

import numpy as np

from cydnn import dtypes

MOVED = ("plain", "negative", "exponents", "denormal", "halves", "beyond", "positive")
SUMMED = ("plain", "negative", "thousand", "denormal", "positive", "minus thousand")
MOVING_MODES = {"pooling_fwd": ("max",), "reduction": ("min", "max", "amax"), "op_tensor": ("min", "max"),
                "pointwise": ("identity", "abs", "neg", "min", "max", "binary_select")}
COPIED = ("transform", "slice", "reshape", "transpose", "concatenate")
MOVING = ("add_tensor", "set_tensor", "im2col", *COPIED)
OF = {                                           # op: regimes of its operands
    **dict.fromkeys(("reduction", "pooling_fwd"), SUMMED),
    "scale_tensor": ("plain", "negative", "denormal", "positive"),
    "softmax_fwd": ("plain", "thousand", "negative", "minus thousand"),
    **dict.fromkeys(("batch_norm_training", "batch_norm_bwd"),
                    ("plain", "thousand", "negative", "minus thousand")),
    **dict.fromkeys(("lrn_fwd", "divisive_norm_fwd"), ("plain", "negative", "positive")),
}
DATA = {"batch_norm_training": "x", "batch_norm_bwd": "x"}   # the operand that has regimes, where not all do


def moves(op) -> bool:
    """Does the op only select and convert?"""
    return op.name in MOVING or getattr(op, "mode", None) in MOVING_MODES.get(op.name, ())


def of(op) -> tuple:
    """The regimes of an op's inputs; none where its values have no room for them."""
    mode = getattr(op, "mode", "")
    if moves(op):
        return MOVED
    if op.name == "reduction" and (mode.startswith("mul") or mode == "norm2"):
        return ("plain", "negative", "positive") if mode == "norm2" else ()
    return OF.get(op.name, ())


def exact(problem, scalars) -> bool:
    """Must every output be what float64 rounds to? So where values are moved as they are, and the type of the
    arithmetic holds them."""
    op, math = problem.op, dtypes.BY_NAME[problem.op.math]
    as_they_are = all(scalars.get(n, d) == (n != "beta") for n, d in op.scalars.items()
                      if n in ("alpha", "alpha1", "alpha2", "beta"))
    return moves(op) and as_they_are and all(
        math.holds(d.dtype) or op.name in COPIED and d.dtype == problem.operands["y"].dtype
        for n, d in problem.tensors.items() if n.partition(".")[0] in op.reads)


SUMS = ("conv_fprop", "conv_dgrad", "conv_wgrad", "conv_bgrad", "matmul", "gen_stats", "op_tensor",
        "scale_tensor", "reduction", "pooling_fwd", "pooling_bwd", *MOVING)    # whole numbers stay whole
ADDING = ("op_tensor", "scale_tensor", "reduction", "pooling_fwd", "pooling_bwd")     # nothing multiplied
NOT_WHOLE = ("norm2",)                           # modes of these that give other numbers
OTHER_NUMBERS = {"winograd", "fft"}              # notes of engines that do arithmetic in others


def whole_numbers(op, d, gen, most: int = 4) -> np.ndarray:
    """Small ones that are not 0, for an operand of an op: sums of them are exact in any order, and few
    outputs are 0. Of larger ones 16 bits do not hold every sum."""
    most = 2 if getattr(op, "mode", "").startswith("mul") else most    # products of powers of two are exact
    values = gen.integers(1, most + 1, d.dims) * gen.choice([-1.0, 1.0], d.dims)
    return np.abs(values) if d.dtype.kind == "int" and d.dtype.lowest == 0 else values


def large(op, d) -> int:
    """The largest of whole numbers of which 16 bits do not hold every sum; where none are multiplied, nor
    half of an odd one, so that some of what is rounded lies just between two numbers."""
    return round(2 / d.dtype.eps) - 1 if d.dtype.bits == 16 and d.dtype.eps and op.name in ADDING else 60


def sums_exactly(problem, scalars, magnitude, old) -> bool:
    """Is every order of the sums behind the outputs exact, where all inputs are small whole numbers?
    ``magnitude``, ``old``: {output: sum of absolute values, what it held}."""
    op, math = problem.op, dtypes.BY_NAME[problem.op.math]
    if op.name not in SUMS or getattr(op, "mode", "") in NOT_WHOLE or not _divides_exactly(problem):
        return False
    factors = [abs(value) for name, value in scalars.items()]
    if any(f * 8 % 1 or f > 8 for f in factors):
        return False
    size = lambda name, of: float(np.max(np.abs(of[name]), initial=0)) if of.get(name) is not None else 0.0
    most = max(size(n, magnitude) + size(n, old) for n in magnitude)
    return most * 8 * max([1.0, *factors]) ** 2 <= 1 / math.eps


def _divides_exactly(problem) -> bool:
    """Does an average divide by powers of two alone?"""
    op, descs = problem.op, problem.operands
    if op.name.startswith("pooling") and op.mode != "max":
        found = np.unique(op._divisor(descs["x" if "dx" not in descs else "dx"].dims))
    elif op.name == "reduction" and op.mode == "avg":
        found = np.array([float(op.terms(**descs))])
    else:
        return True
    return bool((np.frexp(found)[0] == 0.5).all() and (found <= 64).all())


def slices(problem, name) -> np.ndarray:
    """A number for each element of an operand; no sum of the op has elements of two numbers."""
    op, d = problem.op, problem.tensors[name]
    if op.name == "reduction":
        y = problem.operands["y"].dims
        axes = [i for i in range(d.rank) if y[i] == d.dims[i]]
    elif op.name.startswith("batch_norm") and d.rank > 1:
        axes = [1]
    else:
        axes = [0] if op.name.startswith(("softmax", "lrn", "divisive")) else list(range(min(d.rank, 2)))
    number = np.zeros([1] * d.rank, np.int64)
    for axis in axes:
        number = number * d.dims[axis] + np.arange(d.dims[axis]).reshape(
            [-1 if i == axis else 1 for i in range(d.rank)])
    return np.broadcast_to(number, d.dims)


def draw(problem, name, gen, start: int) -> np.ndarray:
    """Values of an operand, not yet rounded to its type. ``start``: which regime the first slice has."""
    op, d = problem.op, problem.tensors[name]
    kinds = of(op) if name in DATA.get(op.name, name) and name in op.reads + tuple(op.keeps) else ("plain",)
    out = next(problem.operands[n] for n in op.writes if problem.operands.get(n) is not None).dtype
    values, which = np.empty(d.dims), (slices(problem, name) + start) % len(kinds)
    for n, kind in enumerate(kinds):
        where = which == n
        if where.any():
            values[where] = regime(kind, gen, np.count_nonzero(where), d.dtype, out)
    return values


def with_one_nan(problem, name, gen, values) -> np.ndarray:
    """The values, one of every other slice NaN: what many of them would hide."""
    number, values = slices(problem, name).reshape(-1), values.copy()
    order = gen.permutation(number.size)
    of_each = order[np.unique(number[order], return_index=True)[1]]
    values.reshape(-1)[of_each[gen.integers(2)::2]] = np.nan
    return values


# op: {operand: the axis of rows that no sum crosses; None where rows are those of all steps}
ROWS = {"conv_fprop": {"x": 0}, "conv_dgrad": {"dy": 0}, "matmul": {"a": -2},
        "rnn_fwd": {"x": None, "hx": 2, "cx": 2}, "rnn_bwd_data": {"dy": None, "dhy": 2, "dcy": 2}}


def with_nan_rows(problem, name, values) -> np.ndarray:
    """The values, those of every other row NaN; which ones, all operands agree."""
    axis = ROWS[problem.op.name].get(name, "")
    if axis == "":
        return values
    if axis is None:
        number = np.concatenate([np.arange(n) for n in problem.op.batches])[:, None]
    else:
        number = np.moveaxis(np.arange(values.shape[axis]).reshape(-1, *[1] * (values.ndim - 1)), 0, axis)
    return np.where(number % 2 == 1, np.nan, values)


def masked(raw, is_front: bool):
    """The values, the first or the last half of the longest axis -inf."""
    axis = max(range(raw.ndim), key=lambda a: raw.shape[a])
    half = np.arange(raw.shape[axis]) < raw.shape[axis] // 2
    half = (half if is_front else ~half).reshape([-1 if a == axis else 1 for a in range(raw.ndim)])
    return np.where(half, -np.inf, raw)


def with_zero_edges(values) -> np.ndarray:
    """The values, those at both ends of every axis 0."""
    inner = tuple(slice(1, -1) if n > 2 else slice(None) for n in values.shape)
    found = np.zeros_like(values)
    found[inner] = values[inner]
    return found


def regime(kind, gen, count, dtype, out) -> np.ndarray:
    """``count`` values for a type, such as an output type ``out`` may be wrong about."""
    sign, unit = gen.choice([-1.0, 1.0], count), gen.uniform(0.5, 1, count)
    plain = 3 * gen.uniform(-1, 1, count) * (40 if dtype.kind == "int" else 1)
    if kind in ("negative", "positive"):
        return (1 if kind == "positive" else -1) * (3 * unit if dtype.kind == "float" else 100 * unit)
    if dtype.kind != "float":
        return plain
    if kind == "exponents":
        low, high = np.log2(dtype.tiny / dtype.eps), np.log2(dtype.highest)
        return sign * 2 * unit * np.exp2(gen.integers(np.ceil(low), np.floor(high), count).astype(float))
    if kind == "denormal":
        return sign * dtype.tiny * gen.integers(1, 1 << gen.integers(1, 9), count)
    if kind == "beyond":
        return sign * unit * 3 * min(out.highest, dtype.highest / 4) if out.kind == "int" else 300 * plain
    if kind == "halves":
        return halves(gen, count, dtype, out) * sign
    return plain + dict(thousand=1000, plain=0).get(kind, -1000 if kind == "minus thousand" else 0)


def halves(gen, count, dtype, out) -> np.ndarray:
    """Numbers in the middle of two of the output's neighbours, and one step of the input's type beside it."""
    if out.kind != "float":
        return gen.integers(-100, 100, count) + 0.5
    if out.eps <= dtype.eps:
        return gen.uniform(1, 2, count)
    middle = 1 + (gen.integers(0, int(1 / out.eps), count) + 0.5) * out.eps
    return middle * (1 + dtype.eps * gen.integers(-1, 2, count)) * np.exp2(gen.integers(-3, 4, count))
