"""The functions of torch.nn.functional that ours stand for: which of ours, and what it is given."""
from __future__ import annotations

from typing import NamedTuple

from .given import shown
from .status import BadParam

OTHERS = dict(dilation=1, return_indices=False, divisor_override=None, antialias=False)     # not of ours
SOFTMAXES = ("softmax", "log_softmax", "softmin")


class Name(NamedTuple):
    """One row: the function that is called, the names of torch's arguments in order, and the rank that the
    input must have (0: any)."""
    ours: str
    order: tuple
    rank: int = 0


def _named(ours: str, words: str, rank: int = 0) -> Name:
    return Name(ours, tuple(words.split()), rank)


CONV, POOL = "input weight bias stride padding dilation groups", "input kernel_size stride padding"
AVERAGE = f"{POOL} ceil_mode count_include_pad divisor_override"
TRANSPOSE = "input weight bias stride padding output_padding groups dilation"
NAMES = {
    **{f"conv{n}d": _named("conv", CONV, n + 2) for n in (1, 2, 3)},
    **{f"max_pool{n}d": _named("max_pool", f"{POOL} dilation ceil_mode return_indices", n + 2)
       for n in (1, 2, 3)},
    **{f"avg_pool{n}d": _named("avg_pool", AVERAGE, n + 2) for n in (1, 2, 3)},
    "linear": _named("linear", "input weight bias"),
    "scaled_dot_product_attention": _named(
        "attention", "query key value attn_mask dropout_p is_causal scale enable_gqa"),
    "batch_norm": _named("batch_norm", "input running_mean running_var weight bias training momentum eps"),
    "layer_norm": _named("layer_norm", "input normalized_shape weight bias eps"),
    "rms_norm": _named("rms_norm", "input normalized_shape weight eps"),
    **{name: _named(name, "input dim _stacklevel dtype") for name in SOFTMAXES},
    "group_norm": _named("group_norm", "input num_groups weight bias eps"),
    "instance_norm": _named("instance_norm",
                            "input running_mean running_var weight bias use_input_stats momentum eps"),
    "local_response_norm": _named("local_response_norm", "input size alpha beta k"),
    **{f"conv_transpose{n}d": _named("conv_transpose", TRANSPOSE, n + 2) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": _named("adaptive_avg_pool", "input output_size", n + 2) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": _named("adaptive_max_pool", "input output_size return_indices", n + 2)
       for n in (1, 2, 3)},
    "interpolate": _named("interpolate", "input size scale_factor mode align_corners recompute_scale_factor "
                                         "antialias"),
    "dropout": _named("dropout", "input p training inplace"),
    **{name: _named(name, "input inplace") for name in ("relu", "relu6", "silu", "hardswish", "hardsigmoid",
                                                        "mish", "selu")},
    **{name: _named(name, "input alpha inplace") for name in ("elu", "celu")},
    **{name: _named(name, "input lambd") for name in ("softshrink", "hardshrink")},
    **{name: _named(name, "input") for name in ("sigmoid", "tanh", "logsigmoid", "softsign", "tanhshrink")},
    "leaky_relu": _named("leaky_relu", "input negative_slope inplace"),
    "hardtanh": _named("hardtanh", "input min_val max_val inplace"),
    "threshold": _named("threshold", "input threshold value inplace"),
    "prelu": _named("prelu", "input weight"),
    "gelu": _named("gelu", "input approximate"),
    "softplus": _named("softplus", "input beta threshold"),
}


def given(name: str, args, kw) -> dict:
    """The arguments of a call of torch's function, by our names. Raises TypeError for what does not fit, and
    BadParam for what ours do not have."""
    row = NAMES[name]
    if len(args) > len(row.order):
        raise TypeError(f"{name}() takes {len(row.order)} positional arguments; got {len(args)}")
    found = {**dict(zip(row.order, args)), **kw}
    found.pop("_stacklevel", None)
    for option, default in OTHERS.items():
        if option in found and not (option == "dilation" and row.ours.startswith("conv")):
            value = found.pop(option)
            if value != default and value not in ((default,) * n for n in (1, 2, 3)):
                raise BadParam(f"{name}: {option} must be {default}; got {shown(value)}")
    if row.ours in SOFTMAXES and found.get("dim") is None:
        raise BadParam(f"{name}: dim must be given; got None")
    x = found.get("input")
    if row.rank and x is not None and x.dim() not in (row.rank - 1, row.rank):
        raise BadParam(f"{name}: input must have rank {row.rank}, or {row.rank - 1} for one image; got "
                       f"{x.dim()}")
    return found if not row.rank else _shown(found, row.rank - 2)


def _shown(found: dict, spatial: int) -> dict:
    """With a list of windows, which shows how many spatial dims there are."""
    number = lambda n: n in found and not isinstance(found[n], (tuple, list))
    return {**found, **{n: (found[n],) * spatial for n in ("kernel_size", "output_size") if number(n)}}
