"""Operations that move elements and compute nothing: slice, reshape, transpose, concatenate.

Each says which elements lie where as ``pieces``: parts of an input and of the output with equal dims. Where
the output may lie in its input's memory (``view``), nothing needs to move.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..tensor import MOST, TensorDesc
from .attribute import choice, integer, ints
from .op import Op


class Piece(NamedTuple):
    """Elements that are copied as they are: element i of ``source``, in logical order and ``skip`` elements
    behind the beginning of operand ``name``, to element i of ``target``."""
    name: str
    source: TensorDesc
    skip: int
    target: TensorDesc
    target_skip: int = 0


def rows_of(d: TensorDesc) -> tuple:
    """(dims, strides) of a tensor in logical order, the innermost first, neighbours merged: two tensors that
    agree in them have element i at one place."""
    dims, strides = [], []
    for size, stride in zip(reversed(d.dims), reversed(d.strides)):
        if dims and stride == dims[-1] * strides[-1]:
            dims[-1] *= size
        elif size != 1:
            dims.append(size)
            strides.append(stride)
    return tuple(dims), tuple(strides)


@dataclass(frozen=True)
class Move(Op):
    """What the operations that move have in common."""
    scalars = {}

    def pieces(self, descs: dict) -> list[Piece]:
        """What is copied where, of {operand: TensorDesc}."""
        raise NotImplementedError

    def view(self, descs: dict) -> Piece | None:
        """The one piece, where the output is its input in another form and lies like it: then it may be in
        the input's memory, at ``skip``. None where it is not."""
        found = self.pieces(descs)
        one = found[0] if len(found) == 1 else None
        return one if one and rows_of(one.source) == rows_of(one.target) else None


@dataclass(frozen=True)
class Slice(Move, reads="x", writes="y"):
    """y = x[start : stop : step] in every dim, as NumPy counts with numbers from 0 on.

    x any rank and strides; a stop behind the end is the end. y has x's strides times the steps unless it is
    given.
    Spec: front end, slice.
    """
    start: tuple = ints(default=0, lo=0, doc="the first index of each dim")
    stop: tuple = ints(default=MOST, lo=0, doc="what comes behind the last index of each dim")
    step: tuple = ints(default=1, lo=1, doc="from one index to the next in each dim")

    def _each(self, x):
        """(start, stop, step) of every dim."""
        for size, *numbers in zip(x.dims, *(self._of(name, x.rank) for name in ("start", "stop", "step"))):
            yield min(numbers[0], size), max(min(numbers[1], size), min(numbers[0], size)), numbers[2]

    def _of(self, name, rank):
        value = getattr(self, name)
        return (value,) * rank if isinstance(value, int) else value

    def check(self, x):
        for name in ("start", "stop", "step"):
            count = len(self._of(name, x.rank))
            yield count == x.rank, f"{name} must have {x.rank} entries, one for each dim of x; got {count}"

    def infer(self, x):
        dims = [-(-(stop - start) // step) for start, stop, step in self._each(x)]
        return dict(y=x.replace(dims=dims, strides=[min(s * step, MOST) if d > 1 else s for d, s, (*_, step)
                                                    in zip(dims, x.strides, self._each(x))]))

    def reference(self, x):
        return dict(y=x[tuple(slice(*numbers) for numbers in self._each(TensorDesc.packed("f32", x.shape)))])

    def pieces(self, descs):
        x, y = descs["x"], descs["y"]
        skip = sum(start * s for (start, *_), s in zip(self._each(x), x.strides)) if y.count else 0
        return [Piece("x", self.infer(x)["y"], skip, y)]


@dataclass(frozen=True)
class Reshape(Move, reads="x", writes="y"):
    """y = the elements of x in logical (row-major) order, in other dims.

    x and y of any rank and strides, with equal numbers of elements; y must be given.
    Spec: graph API, Reshape; front end, reshape.
    """
    mode: str = choice("view_only", "logical", doc="whether y is thought of as x's memory; no other elements")

    api = "RESHAPE"
    api_names = dict(x="OPERATION_RESHAPE_XDESC", y="OPERATION_RESHAPE_YDESC")

    def check_outputs(self, x, y):
        yield y is not None, "y must be given, as its dims do not follow from x"
        yield x.count == y.count, (f"y must have {x.count} elements like x {x.dims}; got {y.count}, "
                                   f"dims {y.dims}")

    def reference(self, x, shapes):
        return dict(y=x.reshape(shapes["y"]))

    def pieces(self, descs):
        return [Piece("x", descs["x"], 0, descs["y"])]


@dataclass(frozen=True)
class Transpose(Move, reads="x", writes="y"):
    """y = x with its dims in another order: dim i of y is dim permutation[i] of x.

    x any rank and strides; y has x's strides in that order unless it is given.
    Spec: front end, transpose.
    """
    permutation: tuple = ints(default=0, lo=0, doc="for each dim of y the dim of x that it is")

    def check(self, x):
        yield (isinstance(self.permutation, tuple) and sorted(self.permutation) == [*range(x.rank)],
               f"permutation must have each of the numbers 0 to {x.rank - 1} once; got {self.permutation}")

    def infer(self, x):
        return dict(y=x.replace(dims=[x.dims[a] for a in self.permutation],
                                strides=[x.strides[a] for a in self.permutation]))

    def reference(self, x):
        return dict(y=x.transpose(self.permutation))

    def pieces(self, descs):
        return [Piece("x", self.infer(descs["x"])["y"], 0, descs["y"])]


@dataclass(frozen=True)
class Concatenate(Move, reads="inputs*", writes="y"):
    """y = the inputs behind each other along a dim.

    inputs  of equal dims but along ``axis``, any strides; y any strides
    The input with number ``in_place`` may lie where its elements are in y, if it is there at execute: then
    they are not copied. -1: none does.
    Spec: graph API, Concat.
    """
    axis: int = integer(0, lo=0, api="OPERATION_CONCAT_AXIS", doc="the dim along which they lie")
    in_place: int = integer(-1, lo=-1, api="OPERATION_CONCAT_INPLACE_INDEX",
                            doc="the input that may lie in y; -1: none")

    api = "CONCAT"
    api_names = dict(inputs="OPERATION_CONCAT_INPUT_DESCS", y="OPERATION_CONCAT_OUTPUT_DESC")

    def check(self, inputs):
        first, others = inputs[0], lambda d: (*d.dims[:self.axis], *d.dims[self.axis + 1:])
        yield self.axis < first.rank, f"axis must be below the rank of inputs, {first.rank}; got {self.axis}"
        yield self.in_place < len(inputs), f"in_place must be below {len(inputs)}; got {self.in_place}"
        for i, d in enumerate(inputs):
            yield (d.rank == first.rank and others(d) == others(first),
                   f"inputs must have dims {first.dims} but along axis {self.axis}; got {d.dims} of input "
                   f"{i}")
            yield (d.dtype == first.dtype, f"inputs must have one type; got {first.dtype}, and {d.dtype} of "
                                           f"input {i}")

    def infer(self, inputs):
        total = sum(d.dims[self.axis] for d in inputs)
        first = inputs[0]
        return dict(y=first.like((*first.dims[:self.axis], total, *first.dims[self.axis + 1:])))

    def reference(self, inputs):
        return dict(y=np.concatenate(inputs, self.axis))

    def pieces(self, descs):
        y, at, found = descs["y"], 0, []
        for i, d in enumerate(descs["inputs"]):
            skip = at * y.strides[self.axis] if d.count else 0
            found.append(Piece(f"inputs.{i}", d, 0, y.replace(dims=d.dims), skip))
            at += d.dims[self.axis]
        return found

    def view(self, descs):
        return None if len(descs["inputs"]) > 1 else super().view(descs)

    def inside(self, descs):
        piece = self.pieces(descs)[self.in_place] if self.in_place >= 0 else None
        if piece is None or rows_of(piece.source) != rows_of(piece.target) or (
                piece.source.dtype != piece.target.dtype or piece.source.dtype.bits < 8):
            return {}
        return {piece.name: piece.target_skip * piece.target.dtype.bytes}
