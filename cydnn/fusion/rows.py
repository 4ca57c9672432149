"""Steps inside an operation, over elements that lie in rows: what is one value for a whole row is computed at
a mark before the row, and kept in registers."""
from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..graph import source_of
from .build import Builder
from .program import Fused
from .site import Site


CARRIED = "hc"                                   # the register of a value that a mark leaves to the next


class RowValue(NamedTuple):
    """``kind``: "element" (what the mark has), "carried" (what the mark before had), "number", "index" (along
    dim ``of``), "tensor" (uid ``of``) or "step" (its name ``of``). ``is_whole``: one for the row."""
    kind: str
    of: object = None
    is_whole: bool = False


class Rows:
    """Two programs: of an element at ``site``, and of its row at a mark in front, where dim ``axis`` of the
    site has no index yet."""

    def __init__(self, math: str, site: Site, axis: int, graph):
        keys = tuple([(name, axes) for name, axes in site.keys if axis not in axes])
        self.axis, self.graph = axis, graph
        self.each = Builder(math, site, graph)
        self.once = Builder(math, replace(site, lead=None, keys=keys, along="", lanes=1), graph)

    # ---- What a step may read ----

    @staticmethod
    def element() -> RowValue:
        return RowValue("element")

    @staticmethod
    def number(value) -> RowValue:
        """A number, or a Scalar that is given at execute."""
        return RowValue("number", value, True)

    def index(self, axis: int) -> RowValue:
        return RowValue("index", axis, axis != self.axis)

    def tensor(self, uid: int) -> RowValue:
        """An element of a tensor that broadcasts to the site's dims."""
        tensor = self.graph.tensors[uid]
        if tensor.is_by_value:
            return self.number(source_of(tensor))
        return RowValue("tensor", uid, tensor.count == 1 or tensor.dims[self.axis] == 1)

    def step(self, op, inputs, scales=(), alpha=None) -> RowValue:
        """The value of a pointwise op over values; ``scales`` and ``alpha``: numbers, or None for 1."""
        inputs = (self.index(op.axis),) if op.mode == "gen_index" else inputs    # whatever it reads
        is_whole = all(value.is_whole for value in inputs)
        builder = self.once if is_whole else self.each
        names = [self._name(builder, value) for value in inputs]
        factors = ["" if s is None else builder.scalar(s) for s in (*scales, alpha)]
        return RowValue("step", builder.step(op, names, factors[:-1], factors[-1]), is_whole)

    def behind(self, value: RowValue) -> tuple["Rows", RowValue]:
        """(the steps of a mark behind this one at the same element, a value of here as they read it). They
        share what is made once for the row; finish them first."""
        other = Rows(self.each.math, self.each.site, self.axis, self.graph)
        other.once = self.once
        self.each.kept[self._name(self.each, value)] = CARRIED
        return other, RowValue("carried")

    def finish(self, result: RowValue, outputs=()) -> tuple[Fused | None, Fused | None]:
        """The programs of the row and of the element (None where there is nothing to do), which is ``result``
        then; ``outputs``: the types that what becomes of it is stored as."""
        if result.kind == "element":
            return None, None
        each = self.each.finish(self._name(self.each, result), outputs, is_read=True)
        return (self.once.finish("", outputs, is_read=True) if self.once.kept else None), each

    # ---- Names ----

    def _name(self, builder: Builder, value: RowValue) -> str:
        if value.kind == "element":
            return "v"
        if value.kind == "carried":
            return CARRIED
        if value.kind == "number":
            return builder.scalar(value.of)
        if value.kind == "index":
            return builder.index(value.of)
        if value.is_whole and builder is self.each:
            return self.once.keep(self._name(self.once, value))
        return value.of if value.kind == "step" else builder.read(value.of)
