"""The functions of images that grow and shrink: transposed convolutions, interpolation, adaptive pools."""
from __future__ import annotations

from fractions import Fraction
from math import lcm

from ..given import flag, shown, whole, wholes
from ..ops import ConvDgrad, PoolingFwd, ResampleFwd
from ..status import BadParam
from .function import Array, Ints, function
from .network import _sizes, batched, listed, unbatched, unrounded
from .products import vector


def _each(name: str, value, rank: int) -> tuple:
    """A number for every spatial dim."""
    found = _sizes(name, value, rank)
    return found if isinstance(found, tuple) else (found,) * rank


@function
def conv_transpose(t, input: Array, weight: Array, bias: Array | None = None, stride: Ints = 1,
                   padding: Ints = 0, output_padding: Ints = 0, groups: int = 1, dilation: Ints = 1):
    """The transposed convolution: the adjoint of ``conv``, and a bias for each channel.

    input (n, c, spatial…) of 1 to 3 spatial dims, or one image (c, spatial…), weight (c, k / groups,
    window…), bias (k,), result
    (n, k, (i - 1) * stride - 2 * padding + dilation * (r - 1) + output_padding + 1, …).
    """
    input, is_one = batched(t, input, weight.rank - 2)
    rank = max(input.rank - 2, 1)
    lists = dict(stride=stride, padding=padding, output_padding=output_padding, dilation=dilation)
    step, pad, more, wide = (_each(f"conv_transpose: {name}", v, rank) for name, v in lists.items())
    if input.rank != weight.rank or input.rank not in (3, 4, 5) or weight.dims[0] != input.dims[1]:
        raise BadParam("conv_transpose: weight must have input's rank, 3 to 5, and its channels in front; "
                       f"got input {input.dims} and weight {weight.dims}")
    if any(not 0 <= m < max(s, d) for m, s, d in zip(more, step, wide)):
        raise BadParam("conv_transpose: output_padding must be >= 0 and less than stride or dilation; got "
                       f"{shown(output_padding)} with stride {shown(stride)}, dilation {shown(dilation)}")
    count = whole("conv_transpose: groups", groups)
    if count < 1 or input.dims[1] % count:
        raise BadParam(f"conv_transpose: groups must divide input's {input.dims[1]} channels; got "
                       f"{shown(groups)}")
    sizes = [(i - 1) * s - 2 * p + d * (r - 1) + m + 1 for i, r, s, p, m, d in zip(
        input.dims[2:], weight.dims[2:], step, pad, more, wide)]
    if min(sizes) < 1:
        raise BadParam(f"conv_transpose: padding must leave a cell of the result; got {shown(padding)}, "
                       f"which leaves {tuple(sizes)}")
    op = ConvDgrad(pre_pad=pad, post_pad=pad, stride=step, dilation=wide, compute=t.compute)
    dims = (input.dims[0], weight.dims[1] * count, *sizes)
    y = t.add(op, "dx", dy=input, w=weight, given=dict(dx=input.desc.like(dims)))
    bias = t.channels(vector("conv_transpose", "bias", bias, dims[1]), y.rank)
    return unbatched(y if bias is None else t.point("add", y, bias), is_one)


# ---- Interpolation and adaptive pools ----

LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def _wanted(input, size, scale_factor, recompute) -> tuple:
    """The spatial dims of the result."""
    rank, dims = input.rank - 2, input.dims[2:]
    if (size is None) == (scale_factor is None):
        raise BadParam(f"interpolate: size or scale_factor must be given, not both; got {shown(size)} and "
                       f"{shown(scale_factor)}")
    if size is not None:
        return _each("interpolate: size", size, rank)
    factors = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * rank
    is_factor = lambda f: isinstance(f, (int, float)) and not isinstance(f, bool) and 0 < f < 2 ** 31
    if len(factors) != rank or not all(map(is_factor, factors)):
        raise BadParam(f"interpolate: scale_factor must be a number > 0 or {rank} of them, one for each "
                       f"spatial dim; got {shown(scale_factor)}")
    made = [Fraction(f) * d for f, d in zip(factors, dims)]
    if any(m.denominator != 1 for m in made) and not recompute:
        raise BadParam(f"interpolate: scale_factor must make whole numbers of the dims {dims} where "
                       f"recompute_scale_factor is not True; got {shown(scale_factor)}")
    return tuple([int(m) for m in made])


def _resampled(mode: str, dims, out, is_aligned: bool) -> ResampleFwd:
    """Steps and paddings in parts of a cell, of which there are as many as every dim's steps are whole."""
    parts = 2 * lcm(*[max(o - is_aligned, 1) for o in out])
    steps = [(i - is_aligned) * parts // max(o - is_aligned, 1) if o > 1 or not is_aligned else 2 * i * parts
             for i, o in zip(dims, out)]
    steps = [s or 1 for s in steps]              # of one cell all steps are
    if mode == "nearest":
        return ResampleFwd(mode=mode, window=1, stride=steps, denominator=parts,
                           post_pad=[max(parts - s, 0) for s in steps])
    pad = [parts // 2 if is_aligned else parts - s // 2 for s in steps]
    if min(pad) < 0:
        raise BadParam(f"interpolate: size must be at least half of input's {tuple(dims)} where the mode is "
                       f"linear; got {tuple(out)}: pool it first")
    return ResampleFwd(mode=mode, window=2, stride=steps, denominator=parts, pre_pad=pad, post_pad=pad,
                       padding="edge")


def _adaptive(t, where, input, output_size, mode):
    rank = input.rank - 2
    if rank not in (1, 2, 3) or 0 in input.dims:
        raise BadParam(f"{where}: input must have 1 to 3 spatial dims, and elements; got dims {input.dims}")
    name = f"{where}: " + ("size" if where == "interpolate" else "output_size")
    given = output_size
    if isinstance(given, (tuple, list)) and None in given and len(given) == rank:
        given = [d if o is None else o for o, d in zip(given, input.dims[2:])]
    out = _each(name, given, rank)
    if set(out) == {1}:
        return t.fold("avg" if mode == "avg" else "max", input, set(range(2, input.rank)))
    if all(o > 0 and i % o == 0 for i, o in zip(input.dims[2:], out)):
        window = [i // o for i, o in zip(input.dims[2:], out)]
        mode = "avg_include_padding" if mode == "avg" else mode
        return t.add(PoolingFwd(mode=mode, window=window, stride=window, nan="propagate", compute=t.compute),
                     "y", x=input)
    if all(o > 0 and o % i == 0 for i, o in zip(input.dims[2:], out)):
        return t.add(_resampled("nearest", input.dims[2:], out, False), "y", x=input)
    raise BadParam(f"{name} must divide input's {input.dims[2:]} or be multiples of them, as windows are of "
                   f"one size; got {shown(output_size)}")


@function
def adaptive_avg_pool(t, input: Array, output_size: Ints):
    """The means of as many windows as the result has cells, all of one size. ``output_size``: None in a list
    for a dim that stays; a list shows whether input (c, spatial…) is one image."""
    unrounded(t, "adaptive_avg_pool", input)
    input, is_one = batched(t, input, listed(output_size))
    return unbatched(_adaptive(t, "adaptive_avg_pool", input, output_size, "avg"), is_one)


@function
def adaptive_max_pool(t, input: Array, output_size: Ints):
    """The largest value of as many windows as the result has cells, all of one size; a NaN wins. A list
    ``output_size`` shows whether input (c, spatial…) is one image."""
    input, is_one = batched(t, input, listed(output_size))
    return unbatched(_adaptive(t, "adaptive_max_pool", input, output_size, "max"), is_one)


@function
def interpolate(t, input: Array, size: Ints | None = None, scale_factor: float | None = None,
                mode: str = "nearest", align_corners: bool | None = None,
                recompute_scale_factor: bool | None = None):
    """Images of another size: input (n, c, spatial…) of 1 to 3 spatial dims.

    ``mode``: "nearest"; "area", means as of ``adaptive_avg_pool``; or between neighbours "linear",
    "bilinear", "trilinear", for 1, 2, 3 spatial dims.
    ``align_corners``: the middles of the corners' cells stay where they are, else the corners of the image.
    Places are exact fractions, not rounded to f32.
    """
    if input.rank not in (3, 4, 5) or 0 in input.dims[2:]:
        raise BadParam(f"interpolate: input must have 1 to 3 spatial dims with cells; got dims {input.dims}")
    is_linear = mode == LINEAR[input.rank - 2]
    if not is_linear and mode not in ("nearest", "area"):
        raise BadParam(f'interpolate: mode must be "nearest", "area" or "{LINEAR[input.rank - 2]}" for input '
                       f"of rank {input.rank}; got {shown(mode)}")
    if align_corners is not None and not is_linear:
        raise BadParam(f'interpolate: align_corners must be None for "{mode}"; got {shown(align_corners)}')
    is_aligned = align_corners is not None and flag("interpolate: align_corners", align_corners)
    out = _wanted(input, size, scale_factor, recompute_scale_factor)
    if min(out) < 1:
        raise BadParam(f"interpolate: size must be >= 1 in every dim; got {out}")
    if mode != "nearest":
        unrounded(t, "interpolate", input)
    if mode == "area":
        return _adaptive(t, "interpolate", input, out, "avg")
    op = _resampled("bilinear" if is_linear else mode, input.dims[2:], out, is_aligned)
    return t.add(op, "y", x=input)
