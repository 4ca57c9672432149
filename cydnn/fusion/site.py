"""Sites: what a mark of a kernel knows of the element it stands at, and so where other tensors lie beside it.

A mark gives the offset of its element in one tensor (the lead), and coordinates: registers with a linear
index over some of the lead's dims. What no coordinate says follows from the offset and the lead's strides.
Any tensor that broadcasts to the lead's dims has an address made of these.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ..graph import Tensor
from ..kernels.expressions import ceil_div
from ..locks import once
from ..status import NotSupported
from .program import At, Digit


class CannotPlace(NotSupported):
    """A tensor that the kernel's marks give no place for."""


@dataclass(frozen=True)
class Site:
    """``lead``: the tensor that ``off`` counts in (None: the mark gives no offset). ``dims`` of the space.

    ``keys``: ((name, axes), …): the register ``name`` holds the linear index over these axes, the last one
    fastest. Dims that no key has are found in the offset. A mark has up to ``lanes`` neighbours along the
    last axis of key ``along`` (all marks of fewer are its tails). With ``counts_vectors`` that key counts
    vectors of ``lanes`` elements, and tails are in the last one. ``scattered``: the lanes are neighbours in
    the index of ``along``, and may lie anywhere. ``shares``: for each dim, how many neighbours in the index
    of a key share one of its elements (heads that share keys); () for 1 everywhere.
    """
    dims: tuple
    lead: Tensor | None
    keys: tuple
    along: str = ""
    lanes: int = 1
    counts_vectors: bool = False
    scattered: bool = False
    shares: tuple = ()

    @once
    def aligned(self) -> int:
        """How many neighbours of a vector are aligned together in the lead:
        the largest power of two, up to the lanes, that divides its strides."""
        if self.lead is None or self.lanes == 1:
            return 1
        if self.counts_vectors or self.scattered:            # marks walk the lead's memory, which has no gaps
            return self.lanes
        steps = [s for d, s in zip(self.lead.dims, self.lead.strides) if d > 1 and s > 1]
        return gcd(self.lanes, *steps)

    @property
    def lane_axis(self) -> int | None:
        """The dim along which the lanes of a mark lie."""
        return dict(self.keys)[self.along][-1] if self.along else None

    @once
    def digits(self) -> tuple:
        """((source, ((axis, elements of the source inside it, how many of it there are until
        the next), …), its number of values), …), the fastest axis first. The source "at" is
        the offset as a 32-bit number."""
        found = []
        for name, axes in self.keys:
            inside, rows = 1, []
            for axis in reversed(axes):
                inside *= self.shares[axis] if self.shares else 1
                rows.append((axis, inside, self.dims[axis]))
                inside *= self.dims[axis]
            found.append((name, tuple(rows), inside))
        named = {axis for _, axes in self.keys for axis in axes}
        counts_elements = not self.counts_vectors and not self.scattered
        rows = self._in_offset() if self.lead is not None and counts_elements else ()
        rows = tuple([row for row in rows if row[0] not in named])
        return (*found, ("at", rows, 1 << 31)) if rows else tuple(found)

    def _in_offset(self):
        """The dims as digits of the lead's offset. A digit is what is left of the offset behind a division by
        the next larger stride, so all larger strides must be multiples of that one."""
        tensor = self.lead
        if not 0 < tensor.extent < 1 << 31 or tensor.is_overlapping:
            return
        axes = sorted((a for a in range(tensor.rank) if tensor.dims[a] > 1), key=lambda a: tensor.strides[a])
        steps = [tensor.strides[axis] for axis in axes]
        for i, (axis, step) in enumerate(zip(axes, steps)):
            larger = steps[i + 1:]
            if not larger:
                yield axis, step, ceil_div(1 << 31, step)
            elif larger[0] % step == 0 and all(n % larger[0] == 0 for n in larger):
                yield axis, step, larger[0] // step

    def steps_of(self, tensor) -> tuple:
        """Strides of a tensor over the dims, 0 where it is broadcast, as a number of any rank is.
        Raises CannotPlace where it does not fit."""
        if tensor.count == 1:
            return (0,) * len(self.dims)
        if tensor.dims != self.dims and (len(tensor.dims) != len(self.dims) or any(
                [d not in (1, n) for d, n in zip(tensor.dims, self.dims)])):
            raise CannotPlace(f"tensor {tensor.label} must have dims that are 1 or those of the output "
                              f"{self.dims}; got {tensor.dims}")
        return tuple([0 if d == 1 else s for d, s in zip(tensor.dims, tensor.strides)])


class Places:
    """Addresses at a site: digits, strides and divisors that all tensors of one program share."""

    def __init__(self, site: Site):
        self.site, self.digits, self.numbers, self.divisors = site, [], [], []
        self.known: dict = {}                    # (dims, strides, vector, type, alignment) -> At

    def at(self, tensor) -> At:
        """The place of a tensor. Raises CannotPlace."""
        key = tensor.dims, tensor.strides, tensor.desc.vector, tensor.dtype.name, tensor.alignment
        if key not in self.known:
            self.known[key] = self._found(tensor)
        return self.known[key]

    def _found(self, tensor) -> At:
        site = self.site
        steps = site.steps_of(tensor)
        if site.lead is not None and tensor.dims == site.dims and tensor.desc.same_layout(site.lead.desc):
            return At((("off", 1),), 1 if site.lanes > 1 else 0, self._vector(tensor, site.aligned))
        if not any(steps):
            return At()
        known = {row[0] for _, rows, _ in site.digits for row in rows}
        if any(step and axis not in known for axis, step in enumerate(steps)):
            raise CannotPlace(f"the kernel's marks do not have the coordinates of tensor {tensor.label}: "
                              f"{tensor}")
        terms, unit = [], 1 if tensor.dtype.bits < 8 else tensor.dtype.bytes
        for key, rows, count in site.digits:
            terms += self._terms(key, rows, count, steps, unit)
        if site.scattered:
            return At(tuple(terms), "each")
        axis = site.lane_axis
        step = steps[axis] if axis is not None and site.lanes > 1 else 0
        lanes = step if step in (0, 1) else self._number(step * unit)
        others = [s for i, s in enumerate(steps) if i != axis and s]
        vector = self._vector(tensor, gcd(site.lanes, *others)) if lanes == 1 else 1
        return At(tuple(terms), lanes, vector)

    def coordinate(self, axis: int) -> tuple:
        """(source, suffix of its name as an input) of the index along a dim."""
        for key, rows, count in self.site.digits:
            for found, inner, size in rows:
                if found == axis:
                    is_lane = axis == self.site.lane_axis and self.site.lanes > 1
                    source = self._digit(key, inner, size, inner * size >= count)
                    return source, "*" if self.site.scattered else f"+{self._unit(key)}" if is_lane else ""
        raise CannotPlace(f"the kernel's marks do not have the index along dim {axis}")

    def _terms(self, key, rows, count, steps, unit):
        """Terms of one key: neighbouring axes that lie behind each other in memory make one digit."""
        groups: list = []                        # [size, stride, elements of the key inside], fastest first
        for axis, inner, size in rows:
            step, last = steps[axis], groups[-1] if groups else None
            if self.site.dims[axis] == 1:
                continue
            if last and last[1] and last[1] * last[0] == step and last[2] * last[0] == inner:
                last[0] *= size
            else:
                groups.append([size, step, inner])           # a stride of 0: nothing joins across it
        for size, step, inside in groups:
            if not step:
                continue
            source = self._digit(key, inside, size, inside * size >= count)
            scale = self._unit(key) if inside == 1 else 1
            stride = step * scale
            yield source, stride if stride in (1, self.site.lanes) else self._number(stride * unit)

    def _digit(self, key, inside, size, is_outermost) -> str:
        """key / inside % size, in the units that the key counts."""
        lanes = self._unit(key)
        if lanes > 1:
            if inside == 1:
                if size % lanes:
                    raise CannotPlace(f"the dims of a tensor must be in multiples of {lanes} elements; "
                                      f"got {size}")
                size //= lanes
            elif inside % lanes:
                raise CannotPlace(f"a tensor must repeat in multiples of {lanes} elements; got {inside}")
            else:
                inside //= lanes
        div = self._divisor(inside) if inside > 1 else ""
        mod = "" if is_outermost else self._divisor(size)
        if not div and not mod:
            return key
        digit = Digit(key, div, mod)
        if digit not in self.digits:
            self.digits.append(digit)
        return f"d{self.digits.index(digit)}"

    def _unit(self, key) -> int:
        """Elements that a key counts at once."""
        return self.site.lanes if self.site.counts_vectors and key == self.site.along else 1

    def _divisor(self, by: int) -> str:
        if by not in self.divisors:
            self.divisors.append(by)
        return f"f{self.divisors.index(by)}"

    def _number(self, value: int) -> str:
        if value not in self.numbers:
            self.numbers.append(value)
        return f"k{self.numbers.index(value)}"

    def _vector(self, tensor, neighbours: int) -> int:
        """Elements of a tensor that one access may have."""
        if tensor.dtype.bits < 8:
            return 8 if neighbours >= 8 else 1
        return max(1, min(neighbours, tensor.alignment // tensor.dtype.bytes, 16 // tensor.dtype.bytes))
