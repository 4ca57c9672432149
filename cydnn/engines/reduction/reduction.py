"""Reductions of one float type: lanes along the kept or along the reduced elements."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Iterator

from ...dtypes import BY_NAME
from ...graph import Match, core
from ...kernels.expressions import ceil_div
from ...ops import Reduction
from ...steps import Launch
from ...tensor import TensorDesc, collapse
from ..engine import Engine, memory_us, no_variant, wrong_device

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
class ReductionView:
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


def view(x, y) -> ReductionView:
    """The merged dims of reducing x to the dims of y."""
    some = lambda d, axes: TensorDesc(d.dtype, [d.dims[i] for i in axes], [d.strides[i] for i in axes])
    reduced = [i for i in range(x.rank) if x.dims[i] != y.dims[i]]
    kept = [i for i in range(x.rank) if i not in reduced]
    inner, (inner_strides,) = collapse(some(x, reduced))
    outer, (y_strides, x_strides) = collapse(some(y, kept), some(x, kept))
    return ReductionView(x, y, inner, inner_strides, outer, x_strides, y_strides)


def eight(values, filler) -> tuple:
    """A space's eight entries; an empty dim (nothing is read) stands as 1."""
    return (*(max(v, filler) for v in values), *(filler,) * (8 - len(values)))


def power(n: int, most: int = BLOCK) -> int:
    """The least power of two that is not below n, at most ``most``."""
    return min(1 << max(n - 1, 0).bit_length(), most)


def math_type(p: Match) -> str:
    """What is computed in: f64 for f64, or where the op asks for it."""
    return "f64" if p.op.math == "f64" or p.x.dtype.name == "f64" else "f32"


def too_many(v: ReductionView, units: int) -> Iterator[str]:
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

    def refuse_view(self, p, v: ReductionView) -> Iterator[str]:
        return iter(())

    def plan(self, p, dev, config):
        v = view(p.x, p.y)
        return self.plan_view(p, v, dev) if v.outputs else []

    def plan_view(self, p, v: ReductionView, dev) -> list:
        raise NotImplementedError

    @staticmethod
    def arguments(p, v: ReductionView) -> dict:
        """The arguments of a launch that does it all at once."""
        return dict(x=p.ptr("x"), part=None, y=p.ptr("y"), y_type=Y_TYPES.index(v.y.dtype.name),
                    outputs=v.outputs, units=v.reduced, splits=1, in_dims=eight(v.inner, 1),
                    in_strides=eight(v.inner_strides, 0), out_dims=eight(v.outer, 1),
                    x_strides=eight(v.x_strides, 0), y_strides=eight(v.y_strides, 0), how=FOLDS[p.op.mode][1],
                    count=v.reduced, alpha=p.scalar("alpha"), beta=p.scalar("beta"))

    @staticmethod
    def staged(p, v: ReductionView, kernel, args: dict, finisher, part_strides) -> list:
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


def part_arguments(v: ReductionView, args: dict, part, part_strides) -> dict:
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


LANES = 32                                       # of a block along the outputs, unless rows are few
PART_LANES = 4                                   # in the second launch, unless parts are few


def lanes_for(columns: int, rows: int, least: int) -> int:
    """Lanes of a block along the outputs:
    ``least``, or more where fewer groups of rows are enough to load all at once."""
    return power(columns, max(least, BLOCK // power(ceil_div(rows, AHEAD))))


class ReductionColumns(ReductionEngine):
    """Lanes along contiguous kept elements;
    rows are split over blocks, and a second launch adds the parts, where columns are few."""
    index = 281

    def refuse_view(self, p, v):
        if v.x_strides[0] != 1 or v.outer[0] == 1:
            yield f"needs contiguous kept elements; got kept dims {v.outer} with strides {v.x_strides}"
        if math_type(p) == "f64" and v.x.dtype.name != "f64":
            yield f"compute must be f32 for {v.x.dtype} data; got {p.op.compute}"
        yield from too_many(v, v.reduced)

    def cost(self, p, dev, config):
        return memory_us(p, dev, efficiency=0.88 if view(p.x, p.y).column_vector() > 1 else 0.5)

    def plan_view(self, p, v, dev):
        fold, math, vec = FOLDS[p.op.mode][0], math_type(p), v.column_vector()
        columns, rows = v.outputs // vec, v.reduced
        lanes = lanes_for(columns, rows, LANES)
        splits = splits_for(dev, ceil_div(columns, lanes), rows, BLOCK // lanes * AHEAD)
        args = self.arguments(p, v) | dict(splits=splits, lanes=lanes)
        finisher = f"reduction_columns_{fold}_{math}_0", dict(lanes=lanes_for(v.outputs, splits, PART_LANES))
        kernel = f"reduction_columns_{fold}_{v.x.dtype}_{int(vec > 1)}"
        return self.staged(p, v, kernel, args, finisher, (v.outputs, 1))


MOST_WAVES = 3                                       # of resident blocks; beyond, a thread goes round instead


def width_for(dev, outputs: int, units: int) -> int:
    """Lanes of a result: all its loads at once,
    or from one warp on fewer lanes and several rounds where results are many."""
    width = power(ceil_div(units, AHEAD))
    while width > 32 and outputs * width >= 2 * MOST_WAVES * BLOCKS_PER_SM * dev.sms * BLOCK:
        width //= 2
    return width


def plan_rows(engine: ReductionEngine, p, v, dev, vec: int) -> list:
    """``vec`` elements a unit: 16 bytes of them, or 1."""
    fold, math, wide = FOLDS[p.op.mode][0], math_type(p), vec > 1
    units = v.reduced // vec
    width = width_for(dev, v.outputs, units)
    splits = splits_for(dev, v.outputs, units, BLOCK * AHEAD) if width == BLOCK else 1
    args = engine.arguments(p, v) | dict(units=units, splits=splits, width=width)
    if wide:
        args["in_dims"] = (max(v.inner[0] // vec, 1), *args["in_dims"][1:])
        args["in_strides"] = (vec, *args["in_strides"][1:])
    finisher = f"reduction_rows_{fold}_{math}_{math}_0", dict(width=power(ceil_div(splits, 4)))
    kernel = f"reduction_rows_{fold}_{v.x.dtype}_{math}_{int(wide)}"
    return engine.staged(p, v, kernel, args, finisher, (1, splits))


class ReductionRows(ReductionEngine):
    """16-byte loads along contiguous reduced elements;
    several blocks a result, and a second launch, where results are few."""
    index = 280

    def refuse_view(self, p, v):
        if v.row_vector() == 1:
            yield (f"needs contiguous reduced elements in whole 16-byte units; got reduced dims {v.inner} "
                   f"with strides {v.inner_strides}, strides of kept dims {v.x_strides}")
        if math_type(p) == "f64" and v.x.dtype.name != "f64":
            yield f"compute must be f32 for {v.x.dtype} data; got {p.op.compute}"
        yield from too_many(v, v.reduced // v.row_vector())

    def cost(self, p, dev, config):
        return memory_us(p, dev, efficiency=0.88)

    def plan_view(self, p, v, dev):
        return plan_rows(self, p, v, dev, v.row_vector())


class ReductionGeneric(ReductionEngine):
    """Any strides, and f64 math on any float type: one element a lane, lanes along the reduced elements."""
    index = 282

    def refuse_view(self, p, v):
        yield from too_many(v, v.reduced)

    def cost(self, p, dev, config):
        return memory_us(p, dev, efficiency=0.5 if view(p.x, p.y).inner_strides[0] == 1 else 0.15)

    def plan_view(self, p, v, dev):
        return plan_rows(self, p, v, dev, 1)
