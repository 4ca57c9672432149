"""Pointwise operations: the mode table of the Graph API, forward and backward. One row a mode."""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import erf

import numpy as np

from ..tensor import TensorDesc
from .attribute import choice, integer, real
from .op import Gradient, Op

_erf = np.vectorize(erf, otypes=[np.float64])
_SQRT_HALF, _INV_SQRT_2PI, _GELU_A, _GELU_B = 0.5 ** 0.5, 0.3989422804014327, 0.7978845608028654, 0.044715


def erf64(x):
    """erf in float64, element by element."""
    return _erf(x) if np.size(x) else np.asarray(x, np.float64)


def _sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _softplus(x, beta):
    return np.where(np.isnan(x), x, np.maximum(x, 0) + np.log1p(np.exp(-np.abs(beta * x))) / beta)


def _relu(x, o):
    low, high, slope = o.relu_lower_clip, o.relu_upper_clip, o.relu_lower_clip_slope
    y = np.where(x > low, np.minimum(x, high), low + slope * (x - low) if slope else low)
    return np.where(np.isnan(x), x if o.nan == "propagate" else 0.0, y)


def _relu_bwd(dy, x, o):
    low, high, slope = o.relu_lower_clip, o.relu_upper_clip, o.relu_lower_clip_slope
    below = dy * slope if slope else np.zeros_like(dy)
    dx = np.where(x > low, np.where((x < high) | np.isinf(high), dy, 0.0), below)
    return np.where(np.isnan(x), x if o.nan == "propagate" else 0.0, dx)


def _gelu_bwd(dy, x):
    return dy * (0.5 * (1 + erf64(x * _SQRT_HALF)) + x * _INV_SQRT_2PI * np.exp(-0.5 * x * x))


def _gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(_GELU_A * (x + _GELU_B * x ** 3)))


def _gelu_tanh_bwd(dy, x):
    t = np.tanh(_GELU_A * (x + _GELU_B * x ** 3))
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * _GELU_A * (1 + 3 * _GELU_B * x * x))


def _swish_bwd(dy, x, beta):
    s = _sigmoid(beta * x)
    return dy * (s + beta * x * s * (1 - s))


def _real(f):
    """A function on numbers that are not whole: of integers NumPy has others."""
    return lambda x, b: f(np.asarray(x, np.float64), np.asarray(b, np.float64))


def _extreme(pick, skip):
    return lambda x, b, o: pick(x, b) if o.nan == "propagate" else skip(x, b)


@dataclass(frozen=True)
class Mode:
    """One row: how many inputs it takes (x; x b; x b t), its meaning, the attributes it reads.

    Backward modes take ``x`` = dy (the loss) and ``b`` = the forward's input.
    """
    inputs: int
    meaning: object                              # (x[, b[, t]], op) -> array
    uses: tuple = ()


_RELU = ("relu_lower_clip", "relu_upper_clip", "relu_lower_clip_slope", "nan")
_1 = lambda f, *uses: Mode(1, lambda x, o: f(x), uses)
_2 = lambda f, *uses: Mode(2, lambda x, b, o: f(x, b), uses)
_bool = lambda f: Mode(2, lambda x, b, o: f(x, b).astype(np.float64))

MODES: dict[str, Mode] = {
    "identity": _1(lambda x: x), "abs": _1(np.abs), "neg": _1(np.negative),
    "ceil": _1(np.ceil), "floor": _1(np.floor),
    "sqrt": _1(np.sqrt), "rsqrt": _1(lambda x: 1 / np.sqrt(x)), "reciprocal": _1(lambda x: 1 / x),
    "exp": _1(np.exp), "log": _1(np.log), "sin": _1(np.sin), "cos": _1(np.cos), "tan": _1(np.tan),
    "erf": _1(erf64), "logical_not": _1(lambda x: (x == 0).astype(np.float64)),
    "add": _2(np.add), "sub": _2(np.subtract), "mul": _2(np.multiply), "div": _2(np.divide),
    "add_square": _2(lambda x, b: x + b * b), "pow": _2(_real(np.power)),
    "atan2": _2(np.arctan2), "mod": _2(_real(np.fmod)),
    "min": Mode(2, _extreme(np.minimum, np.fmin), ("nan",)),
    "max": Mode(2, _extreme(np.maximum, np.fmax), ("nan",)),
    "cmp_eq": _bool(np.equal), "cmp_neq": _bool(np.not_equal), "cmp_gt": _bool(np.greater),
    "cmp_ge": _bool(np.greater_equal), "cmp_lt": _bool(np.less), "cmp_le": _bool(np.less_equal),
    "logical_and": _bool(lambda x, b: (x != 0) & (b != 0)),
    "logical_or": _bool(lambda x, b: (x != 0) | (b != 0)),
    "binary_select": Mode(3, lambda x, b, t, o: np.where(t != 0, x, b)),
    "gen_index": Mode(1, lambda x, o: np.broadcast_to(np.arange(x.shape[o.axis], dtype=np.float64).reshape(
        [-1 if i == o.axis else 1 for i in range(x.ndim)]), x.shape), ("axis",)),
    "relu_fwd": Mode(1, _relu, _RELU), "tanh_fwd": _1(np.tanh), "sigmoid_fwd": _1(_sigmoid),
    "elu_fwd": Mode(1, lambda x, o: np.where(x > 0, x, o.elu_alpha * np.expm1(np.where(x > 0, 0, x))),
                    ("elu_alpha",)),
    "gelu_fwd": _1(lambda x: 0.5 * x * (1 + erf64(x * _SQRT_HALF))),
    "softplus_fwd": Mode(1, lambda x, o: _softplus(x, o.softplus_beta), ("softplus_beta",)),
    "swish_fwd": Mode(1, lambda x, o: x * _sigmoid(o.swish_beta * x), ("swish_beta",)),
    "gelu_approx_tanh_fwd": _1(_gelu_tanh),
    "relu_bwd": Mode(2, _relu_bwd, _RELU), "tanh_bwd": _2(lambda dy, x: dy * (1 - np.tanh(x) ** 2)),
    "sigmoid_bwd": _2(lambda dy, x: dy * _sigmoid(x) * (1 - _sigmoid(x))),
    "elu_bwd": Mode(2, lambda dy, x, o: dy * np.where(x > 0, 1.0, o.elu_alpha * np.exp(np.minimum(x, 0))),
                    ("elu_alpha",)),
    "gelu_bwd": _2(_gelu_bwd),
    "softplus_bwd": Mode(2, lambda dy, x, o: dy * _sigmoid(o.softplus_beta * x), ("softplus_beta",)),
    "swish_bwd": Mode(2, lambda dy, x, o: _swish_bwd(dy, x, o.swish_beta), ("swish_beta",)),
    "gelu_approx_tanh_bwd": _2(_gelu_tanh_bwd),
    # gradients from the forward's output, as the v5 activation functions define them: x = dy, b = y
    "tanh_bwd_from_y": _2(lambda dy, y: dy * (1 - y * y)),
    "sigmoid_bwd_from_y": _2(lambda dy, y: dy * y * (1 - y)),
}

WHOLE = ("div", "mod", "reciprocal")             # modes whose quotient is cut off where compute is i32


@dataclass(frozen=True)
class Pointwise(Op, reads="x b? t?", writes="y"):
    """y = mode(alpha1 * x, alpha2 * b, t), element by element with broadcast
    (equal rank, each dim equal or 1).

    Blended as alpha * R + beta * y_old. Backward modes read x = dy and b = the forward's input.
    Comparisons and logic give 0 or 1.
    Spec: graph API, Pointwise; v5 guide, cudnnActivationForward and …Backward.
    """
    mode: str = choice(*MODES, api="POINTWISE_MODE", is_required=True, doc="the function", members={
        m: f"POINTWISE_{m.upper()}" for m in MODES if not m.endswith("_from_y")})
    axis: int = integer(0, lo=0, api="POINTWISE_AXIS", doc="of gen_index: the dim that is counted")
    relu_lower_clip: float = real(0.0, api="POINTWISE_RELU_LOWER_CLIP", doc="of relu: the least result")
    relu_upper_clip: float = real(float("inf"), api="POINTWISE_RELU_UPPER_CLIP", doc="of relu: the most")
    relu_lower_clip_slope: float = real(0.0, api="POINTWISE_RELU_LOWER_CLIP_SLOPE",
                                       doc="of relu: the slope below the lower clip")
    elu_alpha: float = real(1.0, api="POINTWISE_ELU_ALPHA", doc="of elu: how far it falls below 0")
    softplus_beta: float = real(1.0, api="POINTWISE_SOFTPLUS_BETA",
                                doc="of softplus: log(1 + exp(beta x)) / beta")
    swish_beta: float = real(1.0, api="POINTWISE_SWISH_BETA", doc="of swish: x sigmoid(beta x)")
    nan: str = choice("propagate", "ignore", api="POINTWISE_NAN_PROPAGATION",
                      doc="of relu, min, max: whether a NaN stays",
                      members=dict(propagate="PROPAGATE_NAN", ignore="NOT_PROPAGATE_NAN"))
    api = "POINTWISE"
    api_names = dict(x="OPERATION_POINTWISE_XDESC", b="OPERATION_POINTWISE_BDESC",
                     t="OPERATION_POINTWISE_TDESC", y="OPERATION_POINTWISE_YDESC",
                     alpha1="OPERATION_POINTWISE_ALPHA1", alpha2="OPERATION_POINTWISE_ALPHA2",
                     compute="POINTWISE_MATH_PREC")
    scalars = dict(alpha1=1.0, alpha2=1.0, alpha=1.0, beta=0.0)
    inplace = (("y", "x"), ("y", "b"), ("y", "t"))
    by_value = frozenset({"x", "b", "t"})

    @property
    def row(self) -> Mode:
        return MODES[self.mode]

    @property
    def gradients(self):
        """Of a forward mode: by its backward mode, whose x is dy and whose b is x."""
        if not self.mode.endswith("_fwd"):
            return {}
        op = replace(self, mode=self.mode.replace("_fwd", "_bwd"))
        return {"x": Gradient(op, "y", dict(x="dy", b="x"))}

    def inputs(self) -> tuple:
        """Names of the operands that this mode reads."""
        return self.reads[:self.row.inputs]

    def free_dims(self, words, options):
        if len(words) != 1:
            return super().free_dims(words, options)
        return {name: words[0] for name in self.inputs()}

    def check(self, x, b, t):
        wanted = self.row.inputs
        for i, (name, desc) in enumerate(zip(self.reads, (x, b, t))):
            if (desc is not None) != (i < wanted):
                yield False, (f"mode {self.mode} takes {' '.join(self.inputs())}; {name} is "
                              f"{'missing' if desc is None else 'too much'}")
        descs = [d for d in (x, b, t) if d is not None]
        for d in descs[1:]:
            if d.rank != x.rank:
                yield False, f"operands must have equal rank; got {x.dims} and {d.dims}"
            elif d.dims != x.dims and any(len({*column, 1}) > 2 for column in zip(*[e.dims for e in descs])):
                yield False, ("operands must have dims that are equal or 1; got "
                              f"{' and '.join(str(e.dims) for e in descs)}")
        if self.mode == "gen_index":
            yield self.axis < x.rank, f"axis must be < rank {x.rank}; got {self.axis}"
        if self.mode in ("relu_fwd", "relu_bwd"):
            low, high = self.relu_lower_clip, self.relu_upper_clip
            yield not low > high, f"relu_lower_clip must be <= relu_upper_clip; got {low} and {high}"

    def infer(self, x, b, t):
        descs = [d for d in (x, b, t) if d is not None]
        dims = x.dims
        if any(d.dims != dims for d in descs):
            dims = tuple([0 if 0 in c else max(c) for c in zip(*[d.dims for d in descs])])
        model = next((d for d in descs if d.dims == dims and not d.is_overlapping), None)
        return {"y": TensorDesc(x.dtype, dims, model.strides) if model else x.like(dims)}

    def magnitude(self, arrays, scalars, results):
        scaled = lambda n, s: None if arrays.get(n) is None else np.abs(scalars[s] * arrays[n])
        x, b = scaled("x", "alpha1"), scaled("b", "alpha2")
        y = np.abs(results["y"]) + self._condition(arrays, scalars, results["y"])
        if self.mode.endswith(("_bwd", "_from_y")):
            return {"y": y + x * (1 + b)}
        return {"y": y + {"add": lambda: x + b, "sub": lambda: x + b, "add_square": lambda: x + b * b}.get(
            self.mode, lambda: x if self.mode.startswith("gelu") else 0.0)()}

    def _condition(self, arrays, scalars, y):
        """How far the result moves, over the relative change of its scaled inputs:
        a factor alpha rounds them before the function."""
        if scalars["alpha1"] == 1 and scalars["alpha2"] == 1:
            return 0.0
        nudge = 2.0 ** -20
        found = 0.0
        for name in ("alpha1", "alpha2"):
            for step in (nudge, -nudge):
                moved = self.evaluate(arrays, {**scalars, name: scalars[name] * (1 + step)})["y"]
                with np.errstate(invalid="ignore"):
                    found = found + np.nan_to_num(np.abs(moved - y) / nudge, nan=0.0, posinf=0.0)
        return found

    def reference(self, x, b, t, alpha1, alpha2):
        x = x if alpha1 == 1 else alpha1 * x
        b = b if b is None or alpha2 == 1 else alpha2 * b
        inputs = [a for a in (x, b, t) if a is not None]
        y = self.row.meaning(*inputs, self)
        if self.compute == "i32" and self.mode in WHOLE:
            y = np.trunc(y)
        return {"y": np.broadcast_to(y, np.broadcast_shapes(*(np.shape(a) for a in inputs)))}
