"""Functions element by element, and sums: one for each mode of the op table that arrays are called with."""
from __future__ import annotations

from ..given import real, shown, wholes
from ..ops.pointwise import MODES
from ..ops.reduction import MODES as FOLDS
from ..status import BadParam
from .function import Array, Function, Ints, function
from .network import dim_of

ONE = {mode: mode for mode in "abs neg ceil floor sqrt rsqrt reciprocal exp log sin cos tan erf".split()}
ONE |= dict(sigmoid="sigmoid_fwd", tanh="tanh_fwd", relu="relu_fwd", silu="swish_fwd")
TWO = dict(add="add", sub="sub", mul="mul", div="div", pow="pow", atan2="atan2", fmod="mod", maximum="max",
           minimum="min")
COMPARED = dict(eq="cmp_eq", ne="cmp_neq", gt="cmp_gt", ge="cmp_ge", lt="cmp_lt", le="cmp_le")
SUMS = dict(sum="add", mean="avg", amax="max", amin="min", prod="mul")


def _refuse_mixed(t, name, input, other):
    """A number with parts would be rounded to the whole numbers of the first argument."""
    kinds = [value.desc.dtype for value in (input, other)]
    if name not in COMPARED and not t.is_wanted and [k.kind == "float" for k in kinds] == [False, True]:
        raise BadParam(f"{name}: dtype must be given where input is of whole numbers and other is not; got "
                       f"{kinds[0]} and {kinds[1]}")


def _of_one(name: str, mode: str):
    def body(t, input: Array):
        return t.point(mode, t.in_front(input, 1)).shaped(input.dims)
    return body, f"{mode.removesuffix('_fwd')} of every element."


def _of_two(name: str, mode: str):
    def body(t, input: Array, other: Array | float):
        _refuse_mixed(t, name, input, other)
        if mode == "mod" and other.desc.dtype.kind == "float" and t.compute == "i32":
            t.compute = "f64" if t.dtype.name == "f64" else "f32"        # the rest has parts
        x, b = _pair(t, input, other)
        y = t.point(mode, x, b)
        if name in COMPARED:
            t.truths.add(y.uid)
        if name in ("mul", "maximum", "minimum"):
            t.keep_truths(y, x, b)
        rank = 0 if other.source in t.sources.values() and t.tensors[other.uid].is_by_value else other.rank
        return y.shaped(y.dims[y.rank - max(input.rank, rank):])
    return body, (f"{mode.removeprefix('cmp_')} of two arrays, or of an array and a number, element by "
                  "element with broadcast.")


def _pair(t, input, other) -> tuple:
    """Two operands of one rank, which is 1 at least."""
    is_number = t.tensors[other.uid].is_by_value
    rank = max(input.rank, 1, 0 if is_number else other.rank)
    return t.in_front(input, rank), _ranked(t, other, rank)


def _ranked(t, value, rank):
    """An array with dims of 1 in front, or a number of that rank."""
    if t.tensors[value.uid].is_by_value:
        return t.number(t.tensors[value.uid].scalar.default, value.source, rank)
    return t.in_front(value, rank)


def _of_dims(name: str, mode: str):
    def body(t, input: Array, dim: Ints | None = None, keepdim: bool = False):
        if name in ("sum", "prod"):
            t.widen(input, name == "sum")
        x = t.in_front(input, 1)
        given = range(x.rank) if dim is None else (dim,) if hasattr(dim, "__index__") else wholes(
            f"{name}: dim", dim)
        axes = {dim_of(name, d, x.rank) for d in given}
        if len(axes) != len(given):
            raise BadParam(f"{name}: dim must be dims that differ; got {shown(dim)}")
        if not axes:
            raise BadParam(f"{name}: dim must have dims, or be None for all of them; got {shown(dim)}")
        if name in ("amax", "amin") and 0 in [x.dims[i] for i in axes]:
            raise BadParam(f"{name}: input must have elements along dim; got dims {input.dims} and dim "
                           f"{shown(dim)}")
        y = t.fold(mode, x, axes)
        if name in ("amax", "amin"):
            t.keep_truths(y, x)
        kept = [i for i in range(x.rank) if i not in axes]
        return y.shaped(y.dims[x.rank - input.rank:] if keepdim else [y.dims[i] for i in kept])
    return body, f"{mode} over one dim, some, or all of them."


def _made(name: str, body, doc: str) -> Function:
    body.__name__ = body.__qualname__ = name
    body.__doc__ = doc
    return function(body)


for _table, _make in ((ONE, _of_one), (TWO, _of_two), (COMPARED, _of_two), (SUMS, _of_dims)):
    for _name, _mode in _table.items():
        assert _mode in MODES or _mode in FOLDS
        globals()[_name] = _made(_name, *_make(_name, _mode))


@function
def gelu(t, input: Array, approximate: str = "none"):
    """x times the normal distribution's share below x; ``approximate`` "tanh": by a tanh."""
    if not isinstance(approximate, str) or approximate not in ("none", "tanh"):
        raise BadParam(f'gelu: approximate must be "none" or "tanh"; got {shown(approximate)}')
    return t.point("gelu_fwd" if approximate == "none" else "gelu_approx_tanh_fwd",
                   t.in_front(input, 1)).shaped(input.dims)


@function
def elu(t, input: Array, alpha: float = 1.0):
    """x above 0, alpha * (exp(x) - 1) below."""
    return t.point("elu_fwd", t.in_front(input, 1), elu_alpha=real("elu: alpha", alpha)).shaped(input.dims)


@function
def leaky_relu(t, input: Array, negative_slope: float = 0.01):
    """x above 0, negative_slope * x below."""
    slope = real("leaky_relu: negative_slope", negative_slope)
    return t.point("relu_fwd", t.in_front(input, 1), relu_lower_clip_slope=slope).shaped(input.dims)


@function
def softplus(t, input: Array, beta: float = 1.0, threshold: float = 20.0):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    slope, most = real("softplus: beta", beta), real("softplus: threshold", threshold)
    x = t.in_front(input, 1)
    y = t.point("softplus_fwd", x, softplus_beta=slope)
    if most < 20:                                # above it they are the same number
        steep = t.point("mul", x, t.constant(slope, x))
        above = t.point("cmp_gt", steep, t.constant(most, x))
        y = t.point("binary_select", x, y, above)
    return y.shaped(input.dims)


@function
def where(t, condition: Array, input: Array | float, other: Array | float):
    """input where the condition is not 0, else other. One of the two may be a number; both where ``dtype`` is
    given."""
    arrays = [v for v in (input, other) if not t.tensors[v.uid].is_by_value]
    if not arrays and not t.is_wanted:
        raise BadParam("where: input or other must be an array, or dtype be given; got two numbers")
    for value in arrays[:1]:
        t.like(value)
        _refuse_mixed(t, "where", value, other if value is input else input)
    rank = max(v.rank for v in (condition, *arrays))
    x, b, c = (_ranked(t, v, max(rank, 1)) for v in (input, other, condition))
    y = t.keep_truths(t.point("binary_select", x, b, c), x, b)
    return y.shaped(y.dims[y.rank - rank:])
