"""PyTorch (with the closed library under it) on the same buffers: the peer of a benchmark row.
Needs torch; nothing else imports it."""
from __future__ import annotations

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..ops import philox
from . import peer_attention, peer_rnn

_TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
          "u8": torch.uint8, "i32": torch.int32, "i64": torch.int64, "f8_e4m3": torch.float8_e4m3fn,
          "f8_e5m2": torch.float8_e5m2}
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.allow_tf32 = False
torch.backends.cuda.matmul.allow_tf32 = False


def make(case):
    """(call, error) for a bench Case: ``call()`` runs torch, ``error()`` gives
    {output: largest difference over the largest value}.

    ``error(exact=True)`` compares with torch in float64 instead of the operands' own types.
    (None, None) when torch has no such call; no ``error`` where its numbers are others.
    """
    p = case.problem
    if p.op.name not in _CALLS:
        return None, None
    t = {n: copy_of(case, n) for n, d in p.operands.items() if d is not None}
    made = _CALLS[p.op.name](p.op, t)
    if made is None:
        return None, None
    call, names = made

    def error(exact=False):
        out = _CALLS[p.op.name](p.op, {n: v.double() for n, v in t.items()})[0]() if exact else call()
        out = out if isinstance(out, (tuple, list)) else (out,)
        found = {}
        for name, theirs in zip(names, out):
            if name:
                theirs = theirs.reshape(p.operands[name].dims).double()
                ours = copy_of(case, name).double()
                found[name] = float((ours - theirs).abs().nan_to_num(float("inf")).max()
                                    / theirs.abs().max().clamp(min=1e-30))
        return found
    return call, error if any(names) else None


def copy_of(case, name):
    """A torch tensor with the same values and strides as the case's buffer."""
    d = case.problem.operands[name]
    raw = torch.empty(d.extent, dtype=_TYPES[d.dtype.name], device="cuda")
    case.device.context.copy(raw.data_ptr(), int(case.buffers[name].ptr), d.bytes, 0)
    return raw.as_strided(d.dims, d.strides)


def _conv(which):
    masks = {"x": (True, False, False), "w": (False, True, False)}

    def make(op, t):
        image = t.get("x", t.get("dx"))
        rank = image.dim() - 2
        pre, post, stride, dilation = op.geometry(rank + 2)
        if pre != post or op.mode != "cross_correlation":
            return None
        weight = t.get("w", t.get("dw"))
        groups = image.shape[1] // weight.shape[1]
        if which == "y":
            return lambda: torch.ops.aten.convolution(image, weight, None, stride, pre,
                                                      dilation, False, [0] * rank, groups), ["y"]
        index, name = (0, "dx") if which == "x" else (1, "dw")
        call = lambda: torch.ops.aten.convolution_backward(
            t["dy"], image, weight, None, stride, pre, dilation, False, [0] * rank, groups,
            masks[which])[index]
        return call, [name]
    return make


def _softmax_fwd(op, t):
    if op.mode != "channel":
        return None
    f = torch.ops.aten._log_softmax if op.algorithm == "log" else torch.ops.aten._softmax
    return lambda: f(t["x"], 1, False), ["y"]


def _softmax_bwd(op, t):
    if op.mode != "channel":
        return None
    f = (torch.ops.aten._log_softmax_backward_data if op.algorithm == "log"
         else torch.ops.aten._softmax_backward_data)
    return lambda: f(t["dy"], t["y"], 1, t["y"].dtype), ["dx"]


def _pool_fwd(op, t):
    rank = t["x"].dim() - 2
    window, pad, stride = op.geometry(rank + 2)
    f = torch.nn.functional
    if op.mode == "max":
        pool = (f.max_pool1d, f.max_pool2d, f.max_pool3d)[rank - 1]
        return lambda: pool(t["x"], window, stride, pad), ["y"]
    if rank != 2:
        return None
    return lambda: f.avg_pool2d(t["x"], window, stride, pad,
                                count_include_pad=op.mode == "avg_include_padding"), ["y"]


def _pool_bwd(op, t):
    if t["x"].dim() != 4:
        return None
    window, pad, stride = op.geometry(4)
    if op.mode == "max":
        _, index = torch.ops.aten.max_pool2d_with_indices(t["x"], window, stride, pad)
        return lambda: torch.ops.aten.max_pool2d_with_indices_backward(t["dy"], t["x"], window, stride, pad,
                                                                       [1, 1], False, index), ["dx"]
    include = op.mode == "avg_include_padding"
    return lambda: torch.ops.aten.avg_pool2d_backward(t["dy"], t["x"], window,
                                                      stride, pad, False, include, None), ["dx"]


def _bn_fwd(op, t):
    if op.mode != "spatial":
        return None
    flat = {n: t[n].reshape(-1) for n in ("scale", "bias")}
    return lambda: torch.ops.aten.native_batch_norm(t["x"], flat["scale"], flat["bias"], None, None,
                                                    True, 1.0, 1e-5), ["y", "mean", "rstd"]


def _bn_bwd(op, t):
    if op.mode != "spatial":
        return None
    scale = t["scale"].reshape(-1)
    mean, rstd = t["mean"].reshape(-1), t["rstd"].reshape(-1)
    call = lambda: torch.ops.aten.native_batch_norm_backward(t["dy"], t["x"], scale, None, None, mean,
                                                             rstd, True, 1e-5, [True, True, True])
    return call, ["dx", "dscale", "dbias"]


def _norm_fwd(op, t):
    """Layer norm, and RMS norm where this torch has it, over the last dims."""
    x, scale, bias = t["x"], t.get("scale"), t.get("bias")
    shape = x.shape[op.axis:]
    flat = lambda v: None if v is None else v.reshape(shape)
    if op.mode == "layer":
        call = lambda: torch.ops.aten.native_layer_norm(x, shape, flat(scale), flat(bias), 1e-5)
        return call, ["y", *(n if n in t else None for n in ("mean", "rstd"))]
    if op.mode == "rms" and bias is None and hasattr(torch.ops.aten, "_fused_rms_norm"):
        call = lambda: torch.ops.aten._fused_rms_norm(x, shape, flat(scale), 1e-5)
        return call, ["y", "rstd" if "rstd" in t else None]


def _norm_bwd(op, t):
    x, shape = t["x"], t["x"].shape[op.axis:]
    if "rstd" not in t or t["scale"].numel() != shape.numel():                       # of each sample its own
        return None
    scale = t["scale"].reshape(shape)
    names = ["dx", "dscale", "dbias"]
    has = [n in t for n in names]
    if op.mode == "layer":
        call = lambda: torch.ops.aten.native_layer_norm_backward(
            t["dy"], x, shape, t["mean"], t["rstd"], scale, torch.zeros_like(scale), has)
        return call, [n if n in t else None for n in names]
    if op.mode == "rms" and not has[2] and hasattr(torch.ops.aten, "_fused_rms_norm_backward"):
        call = lambda: torch.ops.aten._fused_rms_norm_backward(t["dy"], x, shape, t["rstd"], scale, has[:2])
        return call, [n if n in t else None for n in names[:2]]


def _lrn_fwd(op, t):
    if op.window % 2 == 0:                       # torch's even windows reach one further behind
        return None
    return lambda: torch.nn.functional.local_response_norm(t["x"], op.window, op.scale, op.power,
                                                           op.offset), ["y"]


_F = torch.nn.functional
_UNARY = {"relu_fwd": _F.relu, "gelu_fwd": _F.gelu,
          "gelu_approx_tanh_fwd": lambda x: _F.gelu(x, approximate="tanh"), "tanh_fwd": torch.tanh,
          "sigmoid_fwd": torch.sigmoid, "swish_fwd": _F.silu, "exp": torch.exp, "identity": torch.clone,
          "abs": torch.abs, "neg": torch.neg, "elu_fwd": _F.elu, "softplus_fwd": _F.softplus,
          "sqrt": torch.sqrt, "erf": torch.erf}
_BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "max": torch.maximum,
           "min": torch.minimum, "gelu_bwd": lambda dy, x: torch.ops.aten.gelu_backward(dy, x),
           "relu_bwd": lambda dy, x: torch.ops.aten.threshold_backward(dy, x, 0)}


def _pointwise(op, t):
    if op.mode in _UNARY and not op.relu_lower_clip_slope and op.relu_upper_clip == float("inf"):
        return lambda: _UNARY[op.mode](t["x"]), ["y"]
    if op.mode in _BINARY:
        return lambda: _BINARY[op.mode](t["x"], t["b"]), ["y"]
    return None


_REDUCE = {"add": torch.sum, "avg": torch.mean, "amax": lambda x, d, keepdim: torch.amax(x.abs(), d, keepdim),
           "max": lambda x, d, keepdim: torch.amax(x, d, keepdim),
           "min": lambda x, d, keepdim: torch.amin(x, d, keepdim)}


def _reduction(op, t):
    axes = op.axes(t["x"].shape, t["y"].shape)
    if op.mode not in _REDUCE or not axes:
        return None
    return lambda: _REDUCE[op.mode](t["x"], axes, keepdim=True).to(t["y"].dtype), ["y"]


def _dropout_fwd(op, t):
    """Its masks are others than ours, and have a byte an element."""
    return lambda: torch.native_dropout(t["x"], op.p, True), [None, None]


def _dropout_bwd(op, t):
    bits = t["mask"].to(torch.uint8)[:, None] >> torch.arange(8, device="cuda", dtype=torch.uint8) & 1
    mask = bits.reshape(-1)[:t["dy"].numel()].bool().reshape(t["dy"].shape)
    return lambda: torch.ops.aten.native_dropout_backward(t["dy"], mask, philox.factor(op.p)), ["dx"]


def _sampler_fwd(op, t):
    call = lambda: torch.nn.functional.grid_sample(t["x"], t["grid"], align_corners=True)
    return call, ["y"]


def _sampler_bwd(op, t):
    f = torch.ops.aten.grid_sampler_2d_backward
    return lambda: f(t["dy"], t["x"], t["grid"], 0, 0, True, [True, True]), ["dx", "dgrid"]


def _grid_fwd(op, t):
    n, h, w, _ = t["grid"].shape
    return lambda: torch.nn.functional.affine_grid(t["theta"], [n, 1, h, w], align_corners=True), ["grid"]


def _grid_bwd(op, t):
    n, h, w, _ = t["dgrid"].shape
    return lambda: torch.ops.aten.affine_grid_generator_backward(t["dgrid"], [n, 1, h, w], True), ["dtheta"]


# the closed library's kernels where it takes a problem
CLOSED_FIRST = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION,
                SDPBackend.MATH]


def _sdpa(op, t):
    """Of plain scores, all keys or those up to the query's own; of 8 bits in bf16, as there is no other."""
    if op.score or op.left or op.right > 0 or t.keys() & {"len_q", "len_kv", "sink", "table_k"}:
        return None
    q, k, v = (t[n].bfloat16() if t[n].dtype.itemsize == 1 else t[n] for n in "qkv")
    k = k.transpose(2, 3)
    if op.right == 0 and op.diagonal == "bottom_right" and q.shape[2] != k.shape[2]:
        return None
    def call():
        with sdpa_kernel(CLOSED_FIRST, set_priority=True):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=op.right == 0, scale=1.0, enable_gqa=q.shape[1] != k.shape[1])
    return call, ["o"]


def _im2col(op, t):
    """Columns of an image each: those of several images lie one behind the other there."""
    if t["x"].dim() != 4 or op.pre_pad != op.post_pad or op.mode != "cross_correlation":
        return None
    window, pad, _, stride, dilation = op.geometry(4)
    columns = lambda: torch.nn.functional.unfold(t["x"], window, dilation, pad, stride)
    return columns, ["col" if len(t["x"]) == 1 else None]


def _grouped(which):
    """Of rows in order, a group for each expert, all rows in one: the first begins at 0."""
    def make(op, t):
        x, dy, begins = t["x"][0], t.get("dy"), t["offsets"].reshape(-1).int()
        ends = torch.cat([begins[1:], begins.new_tensor([len(x)])])
        if getattr(op, "mode", "none") != "none" or len(ends) != len(t["w" if which == "y" else "dw"]):
            return None
        cuts = ends.diff(prepend=ends.new_zeros(1)).tolist() if x.dtype == torch.float64 else None
        if which == "y":
            exact = lambda: torch.cat([part @ w for part, w in zip(x.split(cuts), t["w"])])
            return (exact if cuts else lambda: torch._grouped_mm(x, t["w"], offs=ends)), ["y"]
        exact = lambda: torch.stack([a.T @ b for a, b in zip(x.split(cuts), dy[0].split(cuts))])
        return (exact if cuts else lambda: torch._grouped_mm(x.T, dy[0], offs=ends)), ["dw"]
    return make


_CALLS = {
    "conv_fprop": _conv("y"), "conv_dgrad": _conv("x"), "conv_wgrad": _conv("w"),
    "conv_bgrad": lambda op, t: (lambda: t["dy"].sum((0, *range(2, t["dy"].dim())), keepdim=True), ["db"]),
    "matmul": lambda op, t: (lambda: torch.matmul(t["a"], t["b"]), ["c"]), "softmax_fwd": _softmax_fwd,
    "softmax_bwd": _softmax_bwd, "pooling_fwd": _pool_fwd, "pooling_bwd": _pool_bwd,
    "batch_norm_training": _bn_fwd, "batch_norm_bwd": _bn_bwd, "pointwise": _pointwise,
    "norm_fwd": _norm_fwd, "norm_bwd": _norm_bwd,
    "spatial_sampler_fwd": _sampler_fwd, "spatial_sampler_bwd": _sampler_bwd, "spatial_grid_fwd": _grid_fwd,
    "spatial_grid_bwd": _grid_bwd, "im2col": _im2col,
    "dropout_fwd": _dropout_fwd, "dropout_bwd": _dropout_bwd, "lrn_fwd": _lrn_fwd,
    "reduction": _reduction, "sdpa": _sdpa, "rnn_fwd": peer_rnn.forward, "sdpa_bwd": peer_attention.backward,
    "grouped_matmul": _grouped("y"), "grouped_matmul_wgrad": _grouped("dw"),
    "transform": lambda op, t: (lambda: t["y"].copy_(t["x"]), ["y"]),
}
