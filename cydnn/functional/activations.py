"""Activations that are made of the pointwise modes, and dropout."""
from __future__ import annotations

from ..given import flag, real, shown
from ..ops import Rng
from ..status import BadParam
from .function import Array, function
from .network import dim_of, softmax, unrounded


def _whole(t, where: str, input, **numbers):
    """Refuse numbers with parts that whole numbers would become without being asked."""
    for name, number in numbers.items():
        if number != number // 1:
            unrounded(t, where, input, name, f" and {number}")


def _cut(t, x, low: float, high: float):
    return t.point("relu_fwd", x, relu_lower_clip=low, relu_upper_clip=high)


@function
def hardtanh(t, input: Array, min_val: float = -1.0, max_val: float = 1.0):
    """x, not below ``min_val`` and not above ``max_val``."""
    low, high = real("hardtanh: min_val", min_val), real("hardtanh: max_val", max_val)
    _whole(t, "hardtanh", input, min_val=low, max_val=high)
    if low > high:
        raise BadParam(f"hardtanh: min_val must be <= max_val; got {shown(min_val)} and {shown(max_val)}")
    return _cut(t, t.in_front(input, 1), low, high).shaped(input.dims)


@function
def relu6(t, input: Array):
    """x, not below 0 and not above 6."""
    return _cut(t, t.in_front(input, 1), 0.0, 6.0).shaped(input.dims)


def _hard(t, x):
    """A line in place of a sigmoid."""
    return t.point("mul", _cut(t, t.point("add", x, t.constant(3, x)), 0.0, 6.0), t.constant(1 / 6, x))


@function
def hardsigmoid(t, input: Array):
    """(x + 3) / 6, not below 0 and not above 1."""
    return _hard(t, t.in_front(input, 1)).shaped(input.dims)


@function
def hardswish(t, input: Array):
    """x times its hardsigmoid."""
    x = t.in_front(input, 1)
    return t.point("mul", x, _hard(t, x)).shaped(input.dims)


@function
def mish(t, input: Array):
    """x * tanh(softplus(x))."""
    x = t.in_front(input, 1)
    return t.point("mul", x, t.point("tanh_fwd", t.point("softplus_fwd", x))).shaped(input.dims)


@function
def selu(t, input: Array):
    """scale * elu(x, alpha), of the numbers that keep mean and variance."""
    x = t.in_front(input, 1)
    y = t.point("elu_fwd", x, elu_alpha=1.6732632423543772)
    return t.point("mul", y, t.constant(1.0507009873554805, x)).shaped(input.dims)


@function
def celu(t, input: Array, alpha: float = 1.0):
    """x above 0, alpha * (exp(x / alpha) - 1) below."""
    slope, x = real("celu: alpha", alpha), t.in_front(input, 1)
    if slope == 0:
        raise BadParam("celu: alpha must not be 0; got 0")
    y = t.point("elu_fwd", t.point("mul", x, t.constant(1 / slope, x)))
    return t.point("mul", y, t.constant(slope, x)).shaped(input.dims)


@function
def logsigmoid(t, input: Array):
    """The logarithm of the sigmoid."""
    x = t.in_front(input, 1)
    return t.point("neg", t.point("softplus_fwd", t.point("neg", x))).shaped(input.dims)


@function
def softsign(t, input: Array):
    """x / (1 + |x|)."""
    x = t.in_front(input, 1)
    return t.point("div", x, t.point("add", t.point("abs", x), t.constant(1, x))).shaped(input.dims)


@function
def tanhshrink(t, input: Array):
    """x - tanh(x)."""
    x = t.in_front(input, 1)
    return t.point("sub", x, t.point("tanh_fwd", x)).shaped(input.dims)


def _far(t, where, input, lambd, shift):
    """x less ``shift`` toward 0 where it is further than ``lambd`` from it, else 0. NaN is not near."""
    most, x = real(f"{where}: lambd", lambd), t.in_front(input, 1)
    near, far = t.point("cmp_le", t.point("abs", x), t.constant(most, x)), x
    if shift:
        high, low = (t.point("sub", x, t.constant(by, x)) for by in (most, -most))
        far = t.point("binary_select", high, low, t.point("cmp_gt", x, t.constant(0, x)))
    return t.point("binary_select", t.constant(0, x), far, near).shaped(input.dims)


@function
def softshrink(t, input: Array, lambd: float = 0.5):
    """x less ``lambd`` toward 0, and 0 where it is nearer."""
    if real("softshrink: lambd", lambd) < 0:
        raise BadParam(f"softshrink: lambd must be >= 0; got {shown(lambd)}")
    return _far(t, "softshrink", input, lambd, True)


@function
def hardshrink(t, input: Array, lambd: float = 0.5):
    """x where it is further than ``lambd`` from 0, else 0."""
    return _far(t, "hardshrink", input, lambd, False)


@function
def threshold(t, input: Array, threshold: float, value: float):
    """x above the threshold, else ``value``; NaN stays."""
    x = t.in_front(input, 1)
    below = t.point("cmp_le", x, t.constant(real("threshold: threshold", threshold), x))
    instead = real("threshold: value", value)
    _whole(t, "threshold", input, value=instead)
    other = t.constant(instead, x)
    return t.point("binary_select", other, x, below).shaped(input.dims)


@function
def prelu(t, input: Array, weight: Array):
    """x above 0, weight * x below: weight (1,), or (c,) for input (n, c, …)."""
    if weight.rank > 1 or weight.dims not in ((), (1,), input.dims[1:2]):
        raise BadParam(f"prelu: weight must have dims (1,) or {input.dims[1:2]}, one for each channel; got "
                       f"{weight.dims}")
    x = t.in_front(input, 1)
    slope = t.channels(weight, x.rank) if weight.rank == 1 and x.rank > 1 else t.in_front(weight, x.rank)
    above = t.point("cmp_gt", x, t.constant(0, x))
    return t.point("binary_select", x, t.point("mul", slope, x), above).shaped(input.dims)


@function
def softmin(t, input: Array, dim: int = -1):
    """exp(-x) over its sum along a dim."""
    axis = dim_of("softmin", dim, input.rank)
    x = t.point("neg", t.in_front(input, 2))
    return softmax.body(t, x, axis + x.rank - max(input.rank, 1)).shaped(input.dims)


@function
def dropout(t, input: Array, p: float = 0.5, training: bool = True, *, seed: Array | float = None,
            offset: Array | float = 0):
    """x / (1 - p) where it is kept, else 0; x where ``training`` is False. ``p``: the probability that an
    element is dropped; ``seed``, which must be given then, and ``offset`` say which, as in operation
    ``rng``: numbers, or arrays of one whole number."""
    share, x = real("dropout: p", p), t.in_front(input, 1)
    if not 0 <= share <= 1:
        raise BadParam(f"dropout: p must be a probability, 0 to 1; got {shown(p)}")
    if not flag("dropout: training", training) or not share:
        return t.point("identity", x).shaped(input.dims)
    if seed is None:
        raise BadParam("dropout: seed must be a number where p is not 0; got None")
    op = Rng(distribution="bernoulli", probability=1 - share, compute=t.compute)
    numbers, takes = t.numbers(seed=seed, offset=offset)
    kept = t.add(op, "y", numbers, dict(y=x.desc.like(x.dims)), takes)
    scaled = t.point("mul", x, t.constant(1 / (1 - share) if share < 1 else 0, x))
    return t.point("binary_select", scaled, t.constant(0, x), kept).shaped(input.dims)
