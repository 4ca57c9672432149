"""Torch's own functions by our names and arguments. Of them are the derivatives that ours do not have:
gradients of gradients, and forward ones. They are counted, and named by ``cydnn.torch.report()``."""
from __future__ import annotations

from collections import Counter

import torch

from .dtypes import dtype as to_dtype
from .functional import Function
from .functional.arrays import foreign_name
from .given import reason
from .ops.grouped_matmul import groups_of
from .status import NotSupported

fallbacks: Counter = Counter()                   # (name, why) -> how often torch's was called for ours
TWICE, FORWARD = "gradients of gradients", "forward gradients"
_ROOM = dict(vars(torch.nn.functional))          # as it is outside of replaced()


def _spatial(function: Function, named: dict):
    """That of as many spatial dims as there are."""
    window = named.get("kernel_size", named.get("output_size"))
    rank = len(window) if isinstance(window, tuple) else max(named.get("weight", named["input"]).dim() - 2, 1)
    return _ROOM[f"{function.name}{rank}d"](**named)


def _attention(function: Function, named: dict):
    """The products and the softmax, which alone have second derivatives."""
    if named["dropout_p"]:
        raise NotSupported(f"attention: dropout_p must be 0 where derivatives are torch's; got "
                           f"{named['dropout_p']}")
    own = {n: x for n, x in named.items() if n not in ("seed", "offset")}
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return _ROOM["scaled_dot_product_attention"](**own)


def _dropout(function: Function, named: dict):
    """The product with what ours drops of ones."""
    x = named["input"]
    if not named["training"] or not named["p"]:
        return x.clone()
    others = {n: v for n, v in named.items() if n != "input"}
    with torch._C._DisableFuncTorch(), torch.no_grad():
        kept = function(torch.ones(x.shape, dtype=x.dtype, device=x.device), **others)
    return x * kept


def _hardsigmoid(function: Function, named: dict):
    """Written out, as torch's has one derivative."""
    return _ROOM["relu6"](named["input"] + 3) / 6


def _normalized(function: Function, named: dict):
    shape = named.pop("normalized_shape")
    return _ROOM[function.name](**named, normalized_shape=shape if isinstance(shape, tuple) else (shape,))


def _batch_norm(function: Function, named: dict):
    """Running statistics are none of it where they are not read."""
    moving = dict(running_mean=None, running_var=None) if named["training"] else {}
    return _ROOM["batch_norm"](**{**named, **moving})


def _grouped(function: Function, named: dict):
    """All rows by each expert's matrix, of which those of its groups count; 0 of none."""
    x, w, offsets = named.values()
    rows = torch.arange(x.shape[0], device=x.device)
    group = torch.searchsorted(offsets.sort().values, rows, right=True) - 1
    is_owned = (group >= 0) & (group < groups_of(len(offsets), len(w)))
    expert = torch.where(is_owned, group % len(w), -1)[:, None]
    return sum(torch.where(expert == e, x @ one, 0) for e, one in enumerate(w))


def _reduced(function: Function, named: dict):
    x, dim, keepdim = named.values()
    every = tuple(range(x.dim())) if dim is None else dim
    return getattr(torch, function.name)(x, every, keepdim)


def _elements(function: Function, named: dict):
    """By place; a number as a tensor, where torch's takes none."""
    x, *others = named.values()
    if function.name in ("maximum", "minimum", "atan2"):
        others = [torch.as_tensor(b, dtype=x.dtype, device=x.device) for b in others]
    return getattr(torch, function.name)(x, *others)


CALLS = {
    **dict.fromkeys(("conv", "conv_transpose", "max_pool", "avg_pool", "adaptive_avg_pool",
                     "adaptive_max_pool"), _spatial),
    **dict.fromkeys(("layer_norm", "rms_norm"), _normalized), "batch_norm": _batch_norm,
    "attention": _attention, "grouped_matmul": _grouped, "dropout": _dropout, "hardsigmoid": _hardsigmoid,
    **dict.fromkeys(("sum", "mean", "amax", "amin"), _reduced)}


def called(function: Function, arrays, options, why: str):
    """What torch's own function gives for the arguments of ours. Types that differ become one, as torch mixes
    none. Raises NotSupported for what torch refuses."""
    *options, wanted = options
    floats = [x.dtype for x in arrays if torch.is_tensor(x) and x.is_floating_point()]
    most = floats[0]
    for kind in floats[1:]:
        most = torch.promote_types(most, kind)
    arrays = [x.to(most) if torch.is_tensor(x) and x.is_floating_point() else x for x in arrays]
    named = {**dict(zip(function.arrays, arrays)), **dict(zip(function.options, options))}
    usual = (lambda f, given: _ROOM[f.name](**given)) if function.name in _ROOM else _elements
    fallbacks[function.name, why] += 1
    try:
        y = CALLS.get(function.name, usual)(function, named)
    except NotSupported:
        raise
    except (RuntimeError, TypeError, ValueError) as error:
        raise NotSupported(f"{function.name}: {why} are torch's, which must take the arguments; got "
                           f"{reason(error)}") from None
    return y.to(floats[0] if wanted is None else getattr(torch, foreign_name(to_dtype(wanted))))


def again(function: Function, arrays, options, grad, needed) -> list:
    """The gradient of each argument that is ``needed``, or None: such that it has gradients itself."""
    with torch.enable_grad():
        own = [x.view_as(x) if is_needed else x for x, is_needed in zip(arrays, needed)]
        y = called(function, own, options, TWICE)
        wanted = [x for x, is_needed in zip(own, needed) if is_needed]
        found = iter(torch.autograd.grad(y, wanted, grad, create_graph=True, allow_unused=True))
    return [next(found) if is_needed else None for is_needed in needed]


def theirs(function: Function, arrays, options, why: str):
    """What the operator of a function gives, by torch's own."""
    y = called(function, arrays, options, why)
    if not function.saves:
        return y
    if function.name == "batch_norm" and options[0]:
        x, over = arrays[0], [i for i in range(arrays[0].dim()) if i != 1]
        return y, x.mean(over), (x.var(over, correction=0) + options[2]).rsqrt()
    return y, *[None] * function.saves
