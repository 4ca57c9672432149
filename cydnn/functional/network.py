"""The functions of networks: convolutions, pooling, normalizations, softmax, attention. Names, shapes and
defaults are those of torch.nn.functional; the number of spatial dims follows from the input.

A body writes its graph down: ``t`` is the trace, the arrays are its values.
"""
from __future__ import annotations

from functools import partial

from ..given import flag, real, shown, whole, wholes
from ..ops import (BatchNormInference, BatchNormTraining, ConvFprop, LrnFwd, NormFwd, PoolingFwd, ResampleFwd,
                   Sdpa, Slice, SoftmaxFwd, scores)
from ..status import BadParam
from ..tensor import TensorDesc
from .function import Array, Ints, function
from .products import vector


def dim_of(where: str, dim, rank: int) -> int:
    """The number of a dim, counted from the end where it is negative."""
    found = whole(f"{where}: dim", dim)
    if not -max(rank, 1) <= found < max(rank, 1):
        raise BadParam(f"{where}: dim must be from {-max(rank, 1)} to {max(rank, 1) - 1}; got {shown(dim)}")
    return found % max(rank, 1)


def unrounded(t, where: str, input, what: str = "its mean", got=""):
    """Refuse whole numbers whose result would be rounded without being asked for."""
    if not t.is_wanted and input.desc.dtype.kind != "float":
        raise BadParam(f"{where}: dtype must be given where input is of whole numbers and {what} is not; got "
                       f"{input.desc.dtype}{got}")


def _sizes(name: str, value, rank: int):
    """A number for every spatial dim, or a list of them."""
    found = whole(name, value) if hasattr(value, "__index__") else wholes(name, value)
    if isinstance(found, tuple) and len(found) != rank:
        raise BadParam(f"{name} must be a number or {rank} of them, one for each spatial dim; got "
                       f"{shown(value)}")
    return found


def batched(t, input, spatial) -> tuple:
    """(images with a batch dim, is it added?): one image has none, which the number of spatial dims shows:
    that of the weight, or of a list of windows (None for a number, that of every dim)."""
    is_one = input.rank == (2 if spatial is None else spatial + 1)
    return (t.in_front(input, input.rank + 1) if is_one else input), is_one


def unbatched(value, is_one: bool):
    """A result without the batch dim that was added."""
    return value.shaped(value.dims[1:]) if is_one else value


def listed(value) -> int | None:
    """How many numbers there are in a list; None for a number."""
    return len(value) if isinstance(value, (tuple, list)) else None


def _padding(padding, window, stride, dilation) -> tuple:
    """(zeros in front, zeros behind) of each spatial dim; "same" has the odd one behind."""
    rank = len(window)
    if padding == "valid":
        return 0, 0
    if not isinstance(padding, str):
        found = _sizes("conv: padding", padding, rank)
        return found, found
    if padding != "same" or any(s != 1 for s in (stride if isinstance(stride, tuple) else (stride,))):
        raise BadParam('conv: padding must be a number, a list, "valid", or "same" where stride is 1; got '
                       f"{shown(padding)} with stride {shown(stride)}")
    steps = dilation if isinstance(dilation, tuple) else (dilation,) * rank
    total = [d * (r - 1) for d, r in zip(steps, window)]
    return tuple([n // 2 for n in total]), tuple([n - n // 2 for n in total])


@function
def conv(t, input: Array, weight: Array, bias: Array | None = None, stride: Ints = 1,
         padding: Ints | str = 0, dilation: Ints = 1, groups: int = 1):
    """The convolution (cross-correlation) of images with filters, and a bias for each channel.

    input (n, c, spatial…) of 1 to 3 spatial dims, or one image (c, spatial…), weight (k, c / groups,
    window…), bias (k,).
    ``padding``: zeros at both ends, "valid" for none, "same" for a result of the input's size.
    """
    input, is_one = batched(t, input, weight.rank - 2)
    rank = max(input.rank - 2, 1)
    stride, dilation = _sizes("conv: stride", stride, rank), _sizes("conv: dilation", dilation, rank)
    before, behind = _padding(padding, weight.dims[2:], stride, dilation)
    if input.rank == weight.rank > 2 and whole("conv: groups", groups) * weight.dims[1] != input.dims[1]:
        raise BadParam(f"conv: groups must be such that weight has input's {input.dims[1]} channels / "
                       f"groups; got groups {shown(groups)} with weight {weight.dims}")
    op = ConvFprop(pre_pad=before, post_pad=behind, stride=stride, dilation=dilation, compute=t.compute)
    y = t.add(op, "y", x=input, w=weight)
    bias = t.channels(vector("conv", "bias", bias, y.dims[1]), y.rank)
    return unbatched(y if bias is None else t.point("add", y, bias), is_one)


def _pool(t, where, input, mode, kernel_size, stride, padding, ceil_mode):
    input, is_one = batched(t, input, listed(kernel_size))
    rank = max(input.rank - 2, 1)
    window = _sizes(f"{where}: kernel_size", kernel_size, rank)
    step = window if stride is None else _sizes(f"{where}: stride", stride, rank)
    pad = _sizes(f"{where}: padding", padding, rank)
    op = PoolingFwd(mode=mode, window=window, stride=step, nan="propagate", compute=t.compute, pre_pad=pad)
    more = _more(op, input.dims) if flag(f"{where}: ceil_mode", ceil_mode) and input.rank > 2 else ()
    if any(more):
        behind = [p + m for p, m in zip(op.geometry(input.rank)[1], more)]
        if mode == "avg_include_padding" and any(op.geometry(input.rank)[1]):
            raise BadParam(f"{where}: ceil_mode must be False where padding counts and a window reaches "
                           "beyond it; got True")
        op = ResampleFwd(mode="max" if mode == "max" else "avg_exclude_padding", window=window, stride=step,
                         pre_pad=pad, post_pad=behind, padding="neg_inf" if mode == "max" else "zero",
                         nan="propagate", compute=t.compute)
    return unbatched(t.add(op, "y", x=input), is_one)


def _more(op, dims) -> tuple:
    """Cells behind the padding that the last windows reach, which begin inside of it."""
    found = []
    for size, window, pad, step in zip(dims[2:], *op.geometry(len(dims))):
        room = size + 2 * pad - window
        last = -(-room // step)
        last -= last * step >= size + pad
        found.append(max(last * step - room, 0))
    return tuple(found)


@function
def max_pool(t, input: Array, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0,
             ceil_mode: bool = False):
    """The largest value of each window; a NaN wins. ``stride``: the window's size where it is None.
    A list ``kernel_size`` shows whether input (c, spatial…) is one image.
    ``ceil_mode``: a last window that reaches beyond the padding counts too."""
    return _pool(t, "max_pool", input, "max", kernel_size, stride, padding, ceil_mode)


@function
def avg_pool(t, input: Array, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0,
             ceil_mode: bool = False, count_include_pad: bool = True):
    """The mean of each window, in which the padding counts or does not; what lies beyond it does not.
    A list ``kernel_size`` shows whether input (c, spatial…) is one image.
    ``ceil_mode``: a last window that reaches there counts too."""
    unrounded(t, "avg_pool", input)
    is_counted = flag("avg_pool: count_include_pad", count_include_pad)
    mode = "avg_include_padding" if is_counted else "avg_exclude_padding"
    return _pool(t, "avg_pool", input, mode, kernel_size, stride, padding, ceil_mode)


def _softmax(t, where, input, dim, algorithm):
    axis = dim_of(where, dim, input.rank)
    x = t.in_front(input, 2)
    op = SoftmaxFwd(algorithm=algorithm, axis=axis + x.rank - max(input.rank, 1), compute=t.compute)
    return t.add(op, "y", x=x).shaped(input.dims)


@function
def softmax(t, input: Array, dim: int = -1):
    """exp(x) over its sum along a dim."""
    return _softmax(t, "softmax", input, dim, "accurate")


@function
def log_softmax(t, input: Array, dim: int = -1):
    """The logarithm of the softmax along a dim."""
    return _softmax(t, "log_softmax", input, dim, "log")


# ---- Normalizations ----

def _rows(t, where, input, normalized_shape, weight, bias, eps, mode):
    """A normalization of the last dims, which ``normalized_shape`` names; what is in front counts rows."""
    dims = (whole(f"{where}: normalized_shape", normalized_shape),) if hasattr(
        normalized_shape, "__index__") else wholes(f"{where}: normalized_shape", normalized_shape)
    if not dims or input.dims[-len(dims):] != dims:
        raise BadParam(f"{where}: normalized_shape must be the last of input's dims {input.dims}; got "
                       f"{shown(normalized_shape)}")
    for name, p in dict(weight=weight, bias=bias).items():
        if p is not None and p.dims != dims:
            raise BadParam(f"{where}: {name} must have dims {dims}; got {p.dims}")
    x = t.in_front(input, len(dims) + 1)
    op = NormFwd(mode=mode, axis=x.rank - len(dims), compute=t.compute)
    made = dict(scale=weight and t.in_front(weight, x.rank), bias=bias and t.in_front(bias, x.rank))
    return t.add(op, "y", dict(epsilon=real(f"{where}: eps", eps)), x=x, **made).shaped(input.dims)


@function
def layer_norm(t, input: Array, normalized_shape: Ints, weight: Array | None = None,
               bias: Array | None = None, eps: float = 1e-5):
    """weight * (x - mean) / sqrt(var + eps) + bias, with the statistics of the last dims."""
    return _rows(t, "layer_norm", input, normalized_shape, weight, bias, eps, "layer")


@function
def rms_norm(t, input: Array, normalized_shape: Ints, weight: Array | None = None, eps: float | None = None):
    """weight * x / sqrt(mean of squares + eps), over the last dims; eps None: that of input's type."""
    eps = input.desc.dtype.eps if eps is None else eps
    return _rows(t, "rms_norm", input, normalized_shape, weight, None, eps, "rms")


@function
def group_norm(t, input: Array, num_groups: int, weight: Array | None = None, bias: Array | None = None,
               eps: float = 1e-5):
    """weight * (x - mean) / sqrt(var + eps) + bias with the statistics of each group of channels of each
    image, and a weight and a bias for each channel. input (n, c, any dims…), of which three dims have the
    last two one behind the other in memory."""
    groups, c = whole("group_norm: num_groups", num_groups), input.dims[1] if input.rank > 1 else 0
    if groups < 1 or c % groups or not c:
        raise BadParam(f"group_norm: num_groups must divide input's {c} channels; got {shown(num_groups)}")
    form = _grouped(groups, input.desc)
    x = t.split(input, form)
    y = t.add(NormFwd(mode="layer", axis=2, compute=t.compute), "y",
              dict(epsilon=real("group_norm: eps", eps)), x=x)
    split = lambda dims, strides: ((1, groups, c // groups, *(1,) * (x.rank - 3)),
                                   (0, strides[0] * (c // groups), strides[0], *(0,) * (x.rank - 3)))
    for name, mode, p in (("weight", "mul", weight), ("bias", "add", bias)):
        y = y if p is None else t.point(mode, y, t.split(vector("group_norm", name, p, c), split))
    return t.seen(y, input.desc, form)


def _grouped(groups: int, desc):
    """(n, c, …) as (n, g, c / g, …), in one dim less where there are three that are one in memory."""
    def form(dims, strides):
        c, *rest = zip(dims[1:], strides[1:])
        if len(rest) == 3:
            (d, far), (h, near), (w, last) = rest
            rest = [(d, far), (h * w, last)]
            if h != 1 and w != 1 and near != w * last:
                raise BadParam("group_norm: input's last two dims must be one in memory; got strides "
                               f"{strides}")
        own = c[0] // groups
        return tuple(zip((dims[0], strides[0]), (groups, c[1] * own), (own, c[1]), *rest))
    return form


@function
def instance_norm(t, input: Array, running_mean: Array | None = None, running_var: Array | None = None,
                  weight: Array | None = None, bias: Array | None = None, use_input_stats: bool = True,
                  momentum: float = 0.1, eps: float = 1e-5):
    """weight * (x - mean) / sqrt(var + eps) + bias with the statistics of each channel of each image, or,
    where ``use_input_stats`` is False, with the running ones, which do not move."""
    real("instance_norm: momentum", momentum)
    if input.rank < 2:
        raise BadParam(f"instance_norm: input must have rank >= 2, (n, c, …); got dims {input.dims}")
    running = dict(running_mean=running_mean, running_var=running_var)
    is_own = flag("instance_norm: use_input_stats", use_input_stats)
    for name, value in running.items():
        vector("instance_norm", name, value, input.dims[1])
        if (value is None) != is_own:
            must = "absent where use_input_stats is True, as it does not move" if is_own else "given"
            raise BadParam(f"instance_norm: {name} must be {must}; got {value and value.dims}")
    if not is_own:
        given = (t.channels(v, input.rank) for v in (weight, bias, running_mean, running_var))
        return _normalized(t, input, *given, dict(epsilon=real("instance_norm: eps", eps)))
    made = {o: t.channels(vector("instance_norm", name, p, input.dims[1]), input.rank)
            for o, name, p in (("scale", "weight", weight), ("bias", "bias", bias))}
    op = NormFwd(mode="instance", axis=2, compute=t.compute)
    return t.add(op, "y", dict(epsilon=real("instance_norm: eps", eps)), x=input, **made)


def _normalized(t, input, scale, shift, mean, var, numbers):
    """By statistics that are given; by pointwise operations where a parameter is absent."""
    if scale is not None and shift is not None:
        return t.add(BatchNormInference(compute=t.compute), "y", numbers, x=input, scale=scale, bias=shift,
                     mean=mean, var=var)
    rstd = t.point("rsqrt", t.point("add", var, t.number(numbers["epsilon"], None, input.rank)))
    y = t.point("mul", t.point("sub", input, mean), rstd)
    y = y if scale is None else t.point("mul", y, scale)
    return y if shift is None else t.point("add", y, shift)


def _of_channels(t, input, mode):
    """A number for each channel, what the comparison of an element with itself gives: 1 or 0."""
    one = [d if i == 1 else min(d, 1) for i, d in enumerate(input.dims)]
    first = t.add(Slice(start=0, stop=one), "y", x=input)
    return t.point(mode, first, first)


@partial(function, saves=2)
def batch_norm(t, input: Array, running_mean: Array | None, running_var: Array | None,
               weight: Array | None = None, bias: Array | None = None, training: bool = False,
               momentum: float = 0.1, eps: float = 1e-5):
    """weight * (x - mean) / sqrt(var + eps) + bias for each channel: with the running statistics, or, where
    ``training``, with those of the batch; running statistics that are given then move by ``momentum``."""
    given = dict(weight=weight, bias=bias, running_mean=running_mean, running_var=running_var)
    is_training = flag("batch_norm: training", training)
    for name, value in given.items():
        if value is None and not is_training and name.startswith("running"):
            raise BadParam(f"batch_norm: {name} must be given, as training is False; got None")
        vector("batch_norm", name, value, input.dims[1] if input.rank > 1 else 0)
    scale, shift, mean, var = (t.channels(value, input.rank) for value in given.values())
    numbers = dict(epsilon=real("batch_norm: eps", eps))
    if not is_training:
        return _normalized(t, input, scale, shift, mean, var, numbers)
    scale = _of_channels(t, input, "cmp_eq") if scale is None else scale
    shift = _of_channels(t, input, "cmp_neq") if shift is None else shift
    op, running = BatchNormTraining(compute=t.compute), {}
    if mean is None and var is None:
        return t.saving(op, "y", "mean rstd", numbers, {}, x=input, scale=scale, bias=shift)
    running = dict(running_mean=mean, running_var=var)
    numbers["factor"] = real("batch_norm: momentum", momentum)
    want = "y next_running_mean next_running_var" + " mean rstd" * t.is_saving
    y, *new = t.add(op, want, numbers, x=input, scale=scale, bias=shift, **running)
    t.saved = new[2:]
    for value, target in zip(new, (mean, var)):
        t.store(value, target)
    return y


@function
def local_response_norm(t, input: Array, size: int, alpha: float = 1e-4, beta: float = 0.75,
                        k: float = 1.0):
    """x / (k + alpha * the mean of squares of ``size`` neighbouring channels) ** beta."""
    scale, power, offset = (real(f"local_response_norm: {name}", value)
                            for name, value in dict(alpha=alpha, beta=beta, k=k).items())
    op = LrnFwd(window=whole("local_response_norm: size", size), scale=scale, power=power, offset=offset,
                compute=t.compute)
    return t.add(op, "y", x=input)


# ---- Attention ----

def _heads(t, name, value):
    """(…, s, e) as (b, h, s, e)."""
    if value.rank not in (3, 4):
        raise BadParam(f"attention: {name} must have rank 3 or 4; got dims {value.dims}")
    return t.in_front(value, 4)


@partial(function, saves=1)
def attention(t, query: Array, key: Array, value: Array, attn_mask: Array | None = None,
              dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
              enable_gqa: bool = False, *, seed: Array | float = None, offset: Array | float = 0):
    """softmax(scale * query @ key.T + mask) @ value, for every head.

    query (b, h, s_q, e), key (b, h_k, s_kv, e), value (b, h_k, s_kv, e_v), or without b. ``scale``:
    1 / sqrt(e) where it is None. ``attn_mask`` broadcasts to (b, h, s_q, s_kv): truth values say who is seen,
    others are added. ``is_causal``: a query sees the keys up to its own place. ``enable_gqa``: h_k may divide
    h. A query that sees no key gives 0. ``dropout_p``: weights are dropped by this probability, and the
    others grow; ``seed``, which must be given then, and ``offset`` say which, as in operation ``rng``:
    numbers, or arrays of one whole number.
    """
    q, k, v = (_heads(t, name, x) for name, x in dict(query=query, key=key, value=value).items())
    if not enable_gqa and q.dims[1] != k.dims[1]:
        raise BadParam(f"attention: key must have query's {q.dims[1]} heads where enable_gqa is False; got "
                       f"{k.dims[1]}")
    options = {}
    if attn_mask is not None:
        if is_causal:
            raise BadParam("attention: attn_mask must be absent where is_causal is True; got both")
        options["mask" if attn_mask.source in t.bools else "bias"] = t.in_front(attn_mask, 4)
    rows, extras = scores(q.dims[1], **options)
    factor = q.dims[3] ** -0.5 if scale is None else real("attention: scale", scale)
    op = Sdpa(score=rows, right=0 if is_causal else -1, compute=t.compute,
              drop=real("attention: dropout_p", dropout_p))
    if op.drop and seed is None:
        raise BadParam("attention: seed must be a number where dropout_p is not 0; got None")
    numbers, takes = t.numbers(seed=seed, offset=offset) if op.drop else ({}, None)
    made = dict(extras=extras) if extras else {}
    stats = TensorDesc.packed("f32", (*q.dims[:3], 1))
    o = t.saving(op, "o", "stats", dict(numbers, scale=factor), dict(stats=stats), takes, q=q,
                 k=t.swapped(k), v=v, **made)
    return o.shaped((*query.dims[:-1], value.dims[-1]))
