"""Plain loops of pointwise functions (the math module, one element after another) and of batch norm."""
from __future__ import annotations

import math
from statistics import fmean

import numpy as np

from cydnn.ops import rows

INF = math.inf


def _whole(value):
    return math.copysign(float(math.trunc(value)), value) if math.isfinite(value) else value


def _over(x, b):
    if b == 0:
        if x == 0 or x != x:
            return math.nan
        return math.copysign(INF, x) * math.copysign(1, b)
    return x / b


def _guard(f):
    """Where the math module raises, what IEEE 754 has."""
    def safe(*args):
        if any(v != v for v in args[:-1]):
            return math.nan
        try:
            return f(*args)
        except OverflowError:
            return INF
        except ValueError:
            return math.nan
    return safe


def _sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else math.exp(x) if x > -745 else 0.0


def _softplus(x, beta):
    return x if beta * x > 40 else math.log1p(math.exp(beta * x)) / beta


def _relu(x, o):
    if x != x:
        return x if o.nan == "propagate" else 0.0
    if x > o.relu_lower_clip:
        return min(x, o.relu_upper_clip)
    return o.relu_lower_clip + o.relu_lower_clip_slope * (x - o.relu_lower_clip)


def _relu_slope(x, o):
    if x > o.relu_lower_clip:
        return 1.0 if x < o.relu_upper_clip or o.relu_upper_clip == INF else 0.0
    return o.relu_lower_clip_slope


def _relu_bwd(dy, x, o):
    """Where the slope is 0 nothing of dy is left, not even a NaN."""
    if x != x:
        return x if o.nan == "propagate" else 0.0
    slope = _relu_slope(x, o)
    return dy * slope if slope else 0.0


def _gelu(x):
    return x * 0.5 * math.erfc(-x / math.sqrt(2))


def _gelu_slope(x):
    return 0.5 * math.erfc(-x / math.sqrt(2)) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _inner(x):
    return math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)


def _tanh_gelu_slope(x):
    t = math.tanh(_inner(x))
    return (1 + t) / 2 + x / 2 * (1 - t * t) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)


def _swish_slope(x, beta):
    s = _sigmoid(beta * x)
    return s + beta * x * s * (1 - s)


def _extreme(pick, o, x, b):
    if x != x or b != b:
        return math.nan if o.nan == "propagate" or (x != x and b != b) else (b if x != x else x)
    return pick(x, b)


def _pow(x, b):
    try:
        return math.pow(x, b)
    except OverflowError:
        return math.copysign(INF, x) if b % 2 == 1 else INF
    except ValueError:
        return INF if x == 0 else math.nan


def _fmod(x, b):
    return math.nan if b == 0 or math.isinf(x) else math.fmod(x, b)


ONE = {
    "identity": lambda x, o: x, "abs": lambda x, o: abs(x), "neg": lambda x, o: -x,
    "ceil": lambda x, o: float(math.ceil(x)), "floor": lambda x, o: float(math.floor(x)),
    "sqrt": lambda x, o: math.sqrt(x), "rsqrt": lambda x, o: _over(1.0, math.sqrt(x)),
    "reciprocal": lambda x, o: _over(1.0, x), "exp": lambda x, o: math.exp(x),
    "log": lambda x, o: -INF if x == 0 else math.log(x), "sin": lambda x, o: math.sin(x),
    "cos": lambda x, o: math.cos(x), "tan": lambda x, o: math.tan(x), "erf": lambda x, o: math.erf(x),
    "logical_not": lambda x, o: float(not x), "relu_fwd": _relu, "tanh_fwd": lambda x, o: math.tanh(x),
    "sigmoid_fwd": lambda x, o: _sigmoid(x), "gelu_fwd": lambda x, o: _gelu(x),
    "elu_fwd": lambda x, o: x if x > 0 else o.elu_alpha * math.expm1(x),
    "softplus_fwd": lambda x, o: _softplus(x, o.softplus_beta),
    "swish_fwd": lambda x, o: x * _sigmoid(o.swish_beta * x),
    "gelu_approx_tanh_fwd": lambda x, o: x * (1 + math.tanh(_inner(x))) / 2,
}
TWO = {
    "add": lambda x, b, o: x + b, "sub": lambda x, b, o: x - b, "mul": lambda x, b, o: x * b,
    "div": lambda x, b, o: _over(x, b), "add_square": lambda x, b, o: x + b * b,
    "pow": lambda x, b, o: _pow(x, b), "atan2": lambda x, b, o: math.atan2(x, b),
    "mod": lambda x, b, o: _fmod(x, b), "min": lambda x, b, o: _extreme(min, o, x, b),
    "max": lambda x, b, o: _extreme(max, o, x, b),
    "cmp_eq": lambda x, b, o: float(x == b), "cmp_neq": lambda x, b, o: float(x != b),
    "cmp_gt": lambda x, b, o: float(x > b), "cmp_ge": lambda x, b, o: float(x >= b),
    "cmp_lt": lambda x, b, o: float(x < b), "cmp_le": lambda x, b, o: float(x <= b),
    "logical_and": lambda x, b, o: float(bool(x) and bool(b)),
    "logical_or": lambda x, b, o: float(bool(x) or bool(b)),
    "relu_bwd": _relu_bwd,
    "tanh_bwd": lambda x, b, o: x / math.cosh(b) ** 2, "gelu_bwd": lambda x, b, o: x * _gelu_slope(b),
    "sigmoid_bwd": lambda x, b, o: x * _sigmoid(b) * _sigmoid(-b),
    "elu_bwd": lambda x, b, o: x * (1.0 if b > 0 else o.elu_alpha * math.exp(b)),
    "softplus_bwd": lambda x, b, o: x * _sigmoid(o.softplus_beta * b),
    "swish_bwd": lambda x, b, o: x * _swish_slope(b, o.swish_beta),
    "gelu_approx_tanh_bwd": lambda x, b, o: x * _tanh_gelu_slope(b),
    "tanh_bwd_from_y": lambda x, b, o: x * (1 - b) * (1 + b),
    "sigmoid_bwd_from_y": lambda x, b, o: x * b * (1 - b),
}
AS_IS = ("relu_fwd", "relu_bwd", "min", "max", "identity", "neg", "abs", "logical_not", "logical_and",
         "logical_or", "cmp_eq", "cmp_neq", "cmp_gt", "cmp_ge", "cmp_lt", "cmp_le")  # say what NaN are to be


def pointwise(op, a, shapes, alpha1, alpha2):
    """Inputs that are smaller than y are broadcast: a dim of 1 stands for all."""
    y, used = np.empty(shapes["y"]), [n for n in ("x", "b", "t") if a.get(n) is not None]
    factors = dict(x=alpha1, b=alpha2, t=1.0)
    f = ONE.get(op.mode) or TWO.get(op.mode)
    if f and op.mode not in AS_IS:
        f = _guard(f)
    for at in np.ndindex(y.shape):
        if op.mode == "gen_index":
            y[at] = at[op.axis]
            continue
        values = [factors[n] * float(a[n][tuple(i if m > 1 else 0 for i, m in zip(at, a[n].shape))])
                  for n in used]
        if op.mode == "binary_select":
            y[at] = values[0] if values[2] else values[1]
            continue
        y[at] = f(*values, op)
        if op.compute == "i32" and op.mode in ("div", "mod", "reciprocal"):
            y[at] = _whole(y[at])
    return dict(y=y)


# ---- Batch norm ----

def _shares(op, x, thin):
    """(index of a parameter, all values of x that share it) as vectors."""
    for at in np.ndindex(thin):
        yield at, tuple(slice(None) if m == 1 else i for i, m in zip(at, thin))


def _moments(values):
    mean = fmean(values)
    return mean, math.fsum((v - mean) ** 2 for v in values) / len(values)


def batch_norm_training(op, a, shapes, epsilon, factor):
    x, thin = a["x"], a["scale"].shape
    out = dict(y=np.empty(x.shape), mean=np.empty(thin), rstd=np.empty(thin))
    out.update({f"next_running_{n}": np.empty(thin) for n in ("mean", "var")})
    for at, where in _shares(op, x, thin):
        values = x[where].ravel().tolist()
        mean, var = _moments(values)
        rstd, wide = 1 / math.sqrt(var + epsilon), var * len(values) / max(len(values) - 1, 1)
        out["y"][where] = (x[where] - mean) * (rstd * a["scale"][at]) + a["bias"][at]
        out["mean"][at], out["rstd"][at] = mean, rstd
        for name, new in (("mean", mean), ("var", wide)):
            old = a.get(f"running_{name}")
            old = 0.0 if old is None or factor == 1 else old[at]
            out[f"next_running_{name}"][at] = old * (1 - factor) + new * factor
    return out


def norm_fwd(op, a, shapes, epsilon):
    x, axes = a["x"], op.axes(a["x"].ndim)
    thin = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
    out = dict(y=np.empty(x.shape), mean=np.empty(thin), rstd=np.empty(thin))
    for at in np.ndindex(*thin):
        where = tuple(slice(None) if d in axes else i for d, i in enumerate(at))
        mean, var = _moments(x[where].ravel().tolist())
        if op.mode == "rms":
            mean, var = 0.0, math.fsum((x[where].ravel() ** 2).tolist()) / x[where].size
        out["mean"][at], out["rstd"][at] = mean, 1 / math.sqrt(var + epsilon)
        out["y"][where] = (x[where] - mean) * out["rstd"][at]
    for name, mode in (("scale", np.multiply), ("bias", np.add)):
        if a.get(name) is not None:
            out["y"] = mode(out["y"], a[name])
    return out if op.mode != "rms" else {n: v for n, v in out.items() if n != "mean"}


def norm_bwd(op, a, shapes, epsilon):
    x, dy, axes, scale = a["x"], a["dy"], op.axes(a["x"].ndim), a.get("scale")
    grad = dy if scale is None else dy * scale
    xhat, dx = np.empty(x.shape), np.empty(x.shape)
    for at in np.ndindex(*op.thin(x.shape)):
        where = tuple(slice(None) if d in axes else i for d, i in enumerate(at))
        row, g = x[where].ravel().tolist(), grad[where].ravel().tolist()
        is_rms, kept = op.mode == "rms", a.get("rstd") is not None
        mean = 0.0 if is_rms else a["mean"][at] if kept else _moments(row)[0]
        var = math.fsum((v - mean) ** 2 for v in row) / len(row)
        rstd = a["rstd"][at] if kept else 1 / math.sqrt(var + epsilon)
        normal = [(v - mean) * rstd for v in row]
        middle = 0.0 if is_rms else math.fsum(g) / len(row)
        share = math.fsum(u * v for u, v in zip(normal, g)) / len(row)
        xhat[where] = np.reshape(normal, x[where].shape)
        dx[where] = np.reshape([rstd * (v - middle - u * share) for u, v in zip(normal, g)], x[where].shape)
    shared = tuple(i for i, d in enumerate(op.parameter_dims(x.shape)) if d == 1)
    fold = lambda v: v.sum(axis=shared, keepdims=True)
    return dict(dx=dx, dscale=fold(dy * xhat), dbias=fold(dy))


def batch_norm_inference(op, a, shapes, epsilon):
    y = np.empty(a["x"].shape)
    for at, where in _shares(op, y, a["scale"].shape):
        slope = a["scale"][at] / math.sqrt(a["var"][at] + epsilon)
        y[where] = a["x"][where] * slope + (a["bias"][at] - a["mean"][at] * slope)
    return dict(y=y)


def batch_norm_bwd(op, a, shapes, epsilon):
    x, dy, thin = a["x"], a["dy"], a["scale"].shape
    out = dict(dx=np.empty(x.shape), dscale=np.empty(thin), dbias=np.empty(thin))
    for at, where in _shares(op, x, thin):
        if a.get("mean") is None:
            mean, var = _moments(x[where].ravel().tolist())
            rstd = 1 / math.sqrt(var + epsilon)
        else:
            mean, rstd = a["mean"][at], a["rstd"][at]
        normal, g = ((x[where] - mean) * rstd).ravel(), dy[where].ravel()
        bias, weight = math.fsum(g.tolist()), math.fsum((normal * g).tolist())
        found = [rstd * a["scale"][at] * math.fsum((v, -bias / g.size, -u * weight / g.size))
                 for v, u in zip(g.tolist(), normal.tolist())]
        out["dx"][where] = np.reshape(found, x[where].shape)
        out["dscale"][at], out["dbias"][at] = weight, bias
    return out


LOOPS = dict(pointwise=pointwise, norm_fwd=norm_fwd, norm_bwd=norm_bwd,
             batch_norm_training=batch_norm_training, batch_norm_inference=batch_norm_inference,
             batch_norm_bwd=batch_norm_bwd)
