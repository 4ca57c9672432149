"""What the elementwise engines share: every such op is one pointwise step, spliced into one of two kernels.

``VectorForm`` takes outputs without gaps, ``StridedForm`` any strides; both leave the work to a fused program (cydnn/fusion), which may
have more steps behind the first. A recipe says how an op reads as a pointwise step; the kernel blends: y = alpha * R + beta * y.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Callable

from ...fusion import At, Builder, CannotPlace, Epilogue
from ...fusion.build import math_of
from ...ops import AddTensor, OpTensor, Pointwise, ScaleTensor, SetTensor, Transform
from ...tensor import TensorDesc, collapse
from ..engine import Engine, memory_us, wrong_device
from ...steps import Launch


@dataclass(frozen=True)
class Recipe:
    """R = step(scales * reads); ``alpha`` and ``beta`` are scalars of the op by name, or numbers."""
    step: Callable                               # op -> Pointwise
    reads: Callable                              # op -> names of operands (or of scalars) that the step reads
    scales: tuple = ()
    alpha: str | float = "alpha"
    beta: str | float = "beta"


IDENTITY = Pointwise(mode="identity")
RECIPES = {
    Pointwise: Recipe(lambda op: op, lambda op: op.inputs(), ("alpha1", "alpha2")),
    Transform: Recipe(lambda op: IDENTITY, lambda op: ("x",)),
    AddTensor: Recipe(lambda op: IDENTITY, lambda op: ("a",)),
    OpTensor: Recipe(lambda op: Pointwise(mode=op.mode, nan=op.nan), lambda op: ("a", "b"), ("alpha1", "alpha2"), 1.0),
    SetTensor: Recipe(lambda op: IDENTITY, lambda op: ("value",), (), 1.0, 0.0),
    ScaleTensor: Recipe(lambda op: IDENTITY, lambda op: ("y",), (), "alpha", 0.0),
}


def number(p, name):
    """A scalar of the op, or the number itself."""
    return p.scalar(name) if isinstance(name, str) else name


def value_of(p, name) -> float | None:
    """What a scalar is known to be when the plan is built; None when a by-value tensor gives it."""
    value = p.scalar_values.get(name, p.op.scalars[name]) if isinstance(name, str) else name
    return None if hasattr(value, "uid") else value


def program(p, place) -> tuple[Epilogue, object, object]:
    """The program of ``p`` with tensors at ``place``, and alpha and beta of the kernel. Raises CannotPlace.

    The kernel blends a lone op. A chain (and a bool, which must be 0 or 1 behind everything) takes alpha into the program.
    """
    recipe, out = RECIPES[type(p.op)], p.out
    chain_tensors = [p.graph.tensors[u] for n in p.epilogue for u in n.operands.values()]
    builder = Builder(math_of(p.op, [*p.descs, *chain_tensors]), place)
    inputs = [_input(p, builder, name) for name in recipe.reads(p.op)]
    scales = [builder.scalar(p.scalar(s)) for s in recipe.scales[:len(inputs)]]
    if not p.epilogue and out.dtype.name != "bool":
        builder.step(recipe.step(p.op), inputs, scales + [""] * (len(inputs) - len(scales)), "", out)
        return builder.finish(out), number(p, recipe.alpha), number(p, recipe.beta)
    if value_of(p, recipe.beta) != 0:
        raise CannotPlace(f"beta must be 0 where operations are fused or y is bool; got {p.scalar_values.get(recipe.beta)}")
    alpha = builder.scalar(p.scalar(recipe.alpha)) if isinstance(recipe.alpha, str) else ""
    own = p.operands[p.op.writes[0]]
    store = builder.tensor(own, p.ptr(p.op.writes[0])) if p.epilogue and not own.is_virtual else ""
    first = builder.step(recipe.step(p.op), inputs, scales + [""] * (len(inputs) - len(scales)), alpha, own, store, not p.epilogue)
    if p.epilogue:
        builder.chain(p, first)
    return builder.finish(out), 1.0, 0.0


def _input(p, builder, name) -> str:
    """An operand, an operand that is a number given at execute, or a scalar of the op."""
    desc = p.operands.get(name)
    if desc is None:
        return builder.scalar(p.scalar(name))
    return builder.scalar(p.source(name)) if desc.is_by_value else builder.tensor(desc, p.ptr(name))


# ---- Where tensors lie ----

class InVectors:
    """Places for a dense output moved in vectors of ``lanes``: laid out like it, one element, or one dim of it (``column``)."""

    def __init__(self, output: TensorDesc):
        self.output, self.lanes, self.column = output, 16 // output.dtype.bytes, None

    def __call__(self, desc: TensorDesc) -> At:
        dims, (mine, out) = collapse(desc, self.output)
        vector = min(self.lanes, max(1, min(desc.alignment, 16) // desc.dtype.bytes)) if desc.dtype.bytes > 1 else 1
        if not any(mine):
            return At("", 0)
        if mine == out:
            return At("off", 1, vector)
        if sorted(mine) != [0] * (len(mine) - 1) + [1]:
            raise CannotPlace(f"tensor {desc.label} must be laid out like the output {self.output}, or be gapless along one dim of it and "
                              f"constant along the others; got {desc}")
        k = mine.index(1)
        inner, count = prod(dims[:k]), dims[k]
        if (count if k == 0 else inner) % self.lanes:
            raise CannotPlace(f"tensor {desc.label} must repeat in multiples of {self.lanes} elements of the output; got {count if k == 0 else inner}")
        column = (1, count // self.lanes, self.lanes) if k == 0 else (inner // self.lanes, count, 1)
        if self.column not in (None, column):
            raise CannotPlace(f"tensor {desc.label} must broadcast along the same dims as the tensors before it; got {desc}")
        self.column = column
        return At("col", 1, vector) if k == 0 else At("col", 0)

    def coordinate(self, axis):
        raise CannotPlace("gen_index needs coordinates")


class InSlots:
    """Places for any output: up to four tensors with strides of their own, and any number laid out like it or of one element."""
    SLOTS = 4

    def __init__(self, output: TensorDesc):
        self.output, self.slots = output, []

    def __call__(self, desc: TensorDesc) -> At:
        if desc.count == 1:
            return At("", 0)
        return At("off", 1) if desc.same_layout(self.output) else self._slot(desc)

    def coordinate(self, axis) -> str:
        """The index along ``axis`` is the offset in a tensor whose only stride is 1, along it."""
        return self._slot(TensorDesc("i32", self.output.dims, [int(i == axis) for i in range(self.output.rank)])).key

    def _slot(self, desc):
        known = [(s.dims, s.strides) for s in self.slots]
        if (desc.dims, desc.strides) not in known:
            if len(self.slots) == self.SLOTS:
                raise CannotPlace(f"at most {self.SLOTS} tensors may be laid out unlike the output; {desc.label} is one more")
            self.slots.append(desc)
            known.append((desc.dims, desc.strides))
        return At(f"in{known.index((desc.dims, desc.strides))}", 1)

    def arguments(self, most: int):
        """What each launch of pointwise_strided takes, of fewer than ``most`` elements: dims, strides and where they begin."""
        dims, strides = collapse(*self.slots, self.output)
        fill = lambda values, size, pad: tuple(values) + (pad,) * (size - len(values))
        for box, index in boxes(dims, most):
            of = {f"strides{i}": fill(row[:len(box)], 8, 0) for i, row in enumerate(fill(strides[:-1], self.SLOTS, ()))}
            starts = [sum(i * s for i, s in zip(index, row)) for row in (strides[-1], *strides[:-1])]
            yield dict(count=prod(box), rank=len(box), sizes=fill(box[:-1], 7, 1), starts=fill(starts, 1 + self.SLOTS, 0),
                       strides=fill(strides[-1][:len(box)], 8, 0), **of)


def boxes(dims, most: int):
    """(dims, where it begins) of boxes of fewer than ``most`` elements that fill ``dims``, innermost first; the dims it leaves out are 1."""
    *inner, last = dims
    if step := (most - 1) // prod(inner):
        yield from (((*inner, min(step, last - at)), (*(0,) * len(inner), at)) for at in range(0, last, step))
    else:
        yield from ((box, (*index, at)) for at in range(last) for box, index in boxes(inner, most))


# ---- The two forms ----

KERNEL_TYPES = {"f64": "f64", "f32": "f32", "f16": "f16", "bf16": "bf16", "i32": "i32", "i8": "i8", "u8": "u8", "bool": "u8"}


class VectorForm(Engine):
    """Outputs without gaps, inputs laid out like them or broadcast: 16 bytes an access, one read, one write."""

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        out = p.out
        if out.dtype.name not in ("f64", "f32", "f16", "bf16"):
            yield f"output must be one of f64 f32 f16 bf16; got {out.dtype}"
            return
        if not out.is_dense and out.count:
            yield f"output must have no gaps; got dims {out.dims}, strides {out.strides}"
        if out.alignment < 16:
            yield f"output must be aligned to 16 bytes; got {out.alignment}"
        if out.count * out.dtype.bytes > 16 * (2 ** 31 - 512):
            yield f"output must have at most 2^31 - 512 vectors of 16 bytes; got {out.count} elements"
        try:
            program(p, InVectors(out))
        except CannotPlace as error:
            yield error.args[0]

    def cost(self, p, dev):
        return memory_us(p, dev, efficiency=0.87)

    def plan(self, p, dev):
        out = p.out
        if not out.count:
            return []
        place = InVectors(out)
        fuse, alpha, beta = program(p, place)
        inner, channels, step = place.column or (1, 1, 0)
        args = dict(y=p.out_ptr(), count=out.count, inner=inner, channels=channels, step=step, alpha=alpha, beta=beta)
        return [Launch(f"pointwise_vector_{out.dtype}", args, fuse=fuse)]


class StridedForm(Engine):
    """Any strides, any broadcast, any mix of types: one element at a time. Larger tensors take several launches."""
    most = 2 ** 31                               # more elements than one launch may have: kernels count them in 32 bits

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        out = p.out
        if out.dtype.name not in KERNEL_TYPES:
            yield f"output must be one of {' '.join(KERNEL_TYPES)}; got {out.dtype}"
            return
        try:
            program(p, InSlots(out))
        except CannotPlace as error:
            yield error.args[0]

    def cost(self, p, dev):
        return memory_us(p, dev, efficiency=0.2)

    def plan(self, p, dev):
        out = p.out
        if not out.count:
            return []
        place = InSlots(out)
        fuse, alpha, beta = program(p, place)
        args = dict(y=p.out_ptr(), alpha=alpha, beta=beta)
        return [Launch(f"pointwise_strided_{KERNEL_TYPES[out.dtype.name]}", {**args, **more}, fuse=fuse) for more in place.arguments(self.most)]
