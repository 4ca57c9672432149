"""What the reduction engines share: modes as kernel flags, the merged dims of a problem,
launches in one or two stages.

A launch of the kernels in kernels_src/reduction makes ``outputs`` results of ``units`` elements each.
Where outputs alone do not fill the device, a result is split and a second launch of the same kernels
reduces the partial results, in order.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Iterator

from ...dtypes import BY_NAME
from ...graph import Match, core
from ...ops import Reduction
from ...steps import Launch
from ...tensor import TensorDesc, collapse
from ..engine import Engine, no_variant, wrong_device

# Flags of kernels_src/reduction/folds.cuh: on elements, and on the reduced value.
ABSOLUTE, SQUARED, SKIP_ZEROS, NEGATED, MEAN, ROOT, MINUS = (1 << i for i in range(7))
ON_ELEMENTS = ABSOLUTE | SQUARED | SKIP_ZEROS | NEGATED
FOLDS = {                                        # mode: (the kernels' axis FOLD, flags)
    "add": ("sum", 0), "avg": ("sum", MEAN), "norm1": ("sum", ABSOLUTE), "norm2": ("sum", SQUARED | ROOT),
    "mul": ("prod", 0), "mul_no_zeros": ("prod", SKIP_ZEROS),
    "max": ("top", 0), "min": ("top", NEGATED | MINUS), "amax": ("top", ABSOLUTE),
}
Y_TYPES = ("f64", "f32", "f16", "bf16")          # put_result of folds.cuh
BLOCK, MOST = 256, 2 ** 30                       # threads of every kernel; counts are ints in them
BLOCKS_PER_SM = 4                                # resident ones: the kernels' __launch_bounds__
AHEAD = 8                                        # loads in flight of a thread
WAVES = (1, 2, 4, 8)                             # of resident blocks that a split may make


@dataclass(frozen=True)
class View:
    """A reduction as the kernels see it: reduced dims (``inner``) and kept dims (``outer``),
    merged, innermost of x first."""
    x: TensorDesc
    y: TensorDesc
    inner: tuple
    inner_strides: tuple
    outer: tuple
    x_strides: tuple
    y_strides: tuple

    @property
    def reduced(self) -> int:
        return prod(self.inner)

    @property
    def outputs(self) -> int:
        return prod(self.outer)

    def row_vector(self) -> int:
        """Elements of a 16-byte unit along the reduced dims, or 1."""
        vec = 16 // self.x.dtype.bytes
        steps = (self.inner[0], *self.inner_strides[1:], *self.x_strides)
        return vec if self.inner_strides[0] == 1 and self._is_whole(vec, steps) else 1

    def column_vector(self) -> int:
        """Elements of a 16-byte unit along the kept dims, or 1."""
        vec = 16 // self.x.dtype.bytes
        steps = (self.outer[0], *self.x_strides[1:], *self.inner_strides)
        return vec if self.x_strides[0] == 1 and self._is_whole(vec, steps) else 1

    def _is_whole(self, vec, steps) -> bool:
        return self.x.alignment >= 16 and all(s % vec == 0 for s in steps)


def view(x, y) -> View:
    """The merged dims of reducing x to the dims of y."""
    some = lambda d, axes: TensorDesc(d.dtype, [d.dims[i] for i in axes], [d.strides[i] for i in axes])
    reduced = [i for i in range(x.rank) if x.dims[i] != y.dims[i]]
    kept = [i for i in range(x.rank) if i not in reduced]
    inner, (inner_strides,) = collapse(some(x, reduced))
    outer, (y_strides, x_strides) = collapse(some(y, kept), some(x, kept))
    return View(x, y, inner, inner_strides, outer, x_strides, y_strides)


def eight(values, filler) -> tuple:
    """A space's eight entries; an empty dim (nothing is read) stands as 1."""
    return (*(max(v, filler) for v in values), *(filler,) * (8 - len(values)))


def power(n: int, most: int = BLOCK) -> int:
    """The least power of two that is not below n, at most ``most``."""
    return min(1 << max(n - 1, 0).bit_length(), most)


def math_type(p: Match) -> str:
    """What is computed in: f64 for f64, or where the op asks for it."""
    return "f64" if p.op.math == "f64" or p.x.dtype.name == "f64" else "f32"


def too_many(v: View, units: int) -> Iterator[str]:
    if max(units, v.outputs) >= MOST:
        yield f"needs fewer than 2^30 outputs and loads behind each; got {v.outputs} and {units}"


class ReductionEngine(Engine):
    """The base of engines whose kernels have the types in them."""
    takes = core(Reduction)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        wrong = [*no_variant(p, "reduction/reduction_rows.cu", same=False)]
        yield from wrong
        v = view(p.x, p.y)
        if v.outputs and not wrong:
            yield from self.refuse_view(p, v)

    def refuse_view(self, p, v: View) -> Iterator[str]:
        return iter(())

    def plan(self, p, dev, config):
        v = view(p.x, p.y)
        return self.plan_view(p, v, dev) if v.outputs else []

    def plan_view(self, p, v: View, dev) -> list:
        raise NotImplementedError

    @staticmethod
    def arguments(p, v: View) -> dict:
        """The arguments of a launch that does it all at once."""
        return dict(x=p.ptr("x"), part=None, y=p.ptr("y"), y_type=Y_TYPES.index(v.y.dtype.name),
                    outputs=v.outputs, units=v.reduced, splits=1, in_dims=eight(v.inner, 1),
                    in_strides=eight(v.inner_strides, 0), out_dims=eight(v.outer, 1),
                    x_strides=eight(v.x_strides, 0), y_strides=eight(v.y_strides, 0), how=FOLDS[p.op.mode][1],
                    count=v.reduced, alpha=p.scalar("alpha"), beta=p.scalar("beta"))

    @staticmethod
    def staged(p, v: View, kernel, args: dict, finisher, part_strides) -> list:
        """One launch, or two when ``args`` has several splits:
        ``finisher`` names the kernel of the second and its own arguments."""
        if args["splits"] == 1:
            return [Launch(kernel, args)]
        part = p.scratch(v.outputs * args["splits"] * BY_NAME[math_type(p)].bytes)
        first = args | dict(part=part, y=None, how=args["how"] & ON_ELEMENTS)
        name, own = finisher
        second = {k: a for k, a in args.items() if k not in ("width", "lanes")}
        second |= own | part_arguments(v, args, part, part_strides)
        return [Launch(kernel, first), Launch(name, second)]


def part_arguments(v: View, args: dict, part, part_strides) -> dict:
    """What the second launch is told of its input, the partial results."""
    split_stride, step = part_strides
    strides = []
    for size in v.outer:
        strides.append(step)
        step *= size
    return dict(x=part, units=args["splits"], splits=1, in_dims=eight((args["splits"],), 1),
                in_strides=eight((split_stride,), 0), x_strides=eight(strides, 0),
                how=args["how"] & ~ON_ELEMENTS)


def splits_for(dev, blocks: int, units: int, least_units: int) -> int:
    """Into how many parts to cut each result so that ``blocks`` blocks become a full device,
    each part ``least_units`` or more."""
    room = dev.sms * BLOCKS_PER_SM
    if blocks >= 4 * room or blocks > room and units < 16 * least_units:
        return 1
    splits = [waves * room // blocks for waves in WAVES]
    full = [s for s, waves in zip(splits, WAVES) if s * blocks >= 0.9 * waves * room]
    return max(1, min((full or splits[-1:])[0], units // least_units))
