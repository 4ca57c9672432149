"""Dropout, its gradient, its factors alone, and the states of its generator (philox.py)."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ..tensor import TensorDesc
from . import philox
from .attribute import real
from .op import Op
from .philox import STATES


def mask_desc(count: int) -> TensorDesc:
    """A bit for each of ``count`` elements in logical order, the first in the lowest bit of a byte;
    1: kept. Bits behind the last are 0."""
    return TensorDesc.packed("u8", (-(-count // 8),))


@dataclass(frozen=True)
class Dropout(Op):
    """The base of the dropout operations."""
    p: float = real(0.5, doc="the probability that an element is dropped")

    scalars = {}
    fixed = frozenset(["mask", "states"])

    def check(self, **descs):
        yield 0 <= self.p <= 1, f"p must be in 0 to 1; got {self.p}"

    def check_outputs(self, states=None, **descs):
        """``states``: of the generator, where the op draws."""
        yield (states is None or (states.dtype, states.dims, states.strides) ==
               (STATES.dtype, STATES.dims, STATES.strides)), f"states must be {STATES}; got {states}"

    def admit(self, name, values):
        if name == "mask":
            return np.floor(np.abs(values) * 9973) % 256
        if name == "states":                     # a whole number of draws
            return np.where(np.arange(values.size) == philox.DRAWS, np.rint(values) * philox.ONE_DRAW, values)
        return values

    def free_dims(self, words, options):
        """Of the data that is read; what is written has the same, or the next word's."""
        data = [name for name in self.operands() if name not in self.fixed]
        masks = dict(mask=mask_desc(prod(words[0])).dims) if "mask" in self.reads else {}
        return {**dict(zip(data, words * len(data))), **masks}

    def free_dtype(self, operand, dtype):
        return "u8" if operand == "mask" else dtype

    @staticmethod
    def equal_counts(**descs):
        (first, one), (second, two) = descs.items()
        yield two is not None, f"{second} must be given"
        yield (two.count == one.count, f"{second} must have {one.count} elements like {first}; "
                                       f"got {two.count}, dims {two.dims}")


def _is_mask(mask, count):
    want = mask_desc(count)
    yield (mask.dtype is want.dtype and mask.same_layout(want),
           f"mask must be {want}, a bit for each of {count} elements; got {mask}")


@dataclass(frozen=True)
class DropoutFwd(Dropout, reads="x", writes="y mask states"):
    """y = x / (1 - p) where a random bit keeps it, else 0, whatever x is there. The states move on.

    x, y    equal numbers of elements, any dims and strides; elements belong together by logical linear index
    mask    u8 (ceil(count / 8),), what was kept; states i64 (2,), read and written
    Spec: v5 guide, cudnnDropoutForward.
    """
    keeps = frozenset(["states"])
    inplace = (("y", "x"),)

    def infer(self, x):
        return dict(mask=mask_desc(x.count), states=STATES)

    def check_outputs(self, x, y, mask, states):
        yield from super().check_outputs(states)
        yield from self.equal_counts(x=x, y=y)
        yield from _is_mask(mask, x.count)

    def reference(self, x, states, shapes):
        keep = philox.kept(states, x.size, self.p)
        y = np.where(keep, x.reshape(-1) * philox.factor(self.p), 0.0)
        return dict(y=y.reshape(shapes["y"]), mask=np.packbits(keep, bitorder="little").astype(np.int64),
                    states=philox.advanced(states, x.size))


@dataclass(frozen=True)
class DropoutBwd(Dropout, reads="dy mask", writes="dx", gradient_of=DropoutFwd):
    """dx = dy / (1 - p) where the mask of the forward pass kept it, else 0.

    dy, dx  equal numbers of elements, any dims and strides; mask u8 (ceil(count / 8),)
    Spec: v5 guide, cudnnDropoutBackward.
    """
    inplace = (("dx", "dy"),)

    def check(self, dy, mask):
        yield from super().check()
        yield from _is_mask(mask, dy.count)

    def check_outputs(self, dy, mask, dx):
        yield from self.equal_counts(dy=dy, dx=dx)

    def reference(self, dy, mask, shapes):
        keep = np.unpackbits(mask.astype(np.uint8), count=dy.size, bitorder="little").astype(bool)
        dx = np.where(keep, dy.reshape(-1) * philox.factor(self.p), 0.0)
        return dict(dx=dx.reshape(shapes["dx"]))


@dataclass(frozen=True)
class DropoutFactors(Dropout, reads="", writes="y states"):
    """y = 1 / (1 - p) where a random bit keeps an element, else 0: what another op multiplies by.
    y is packed; the states move on."""
    keeps = frozenset(["states"])

    def infer(self):
        return dict(states=STATES)

    def check_outputs(self, y, states):
        yield from super().check_outputs(states)
        yield y is not None, "y must be given"
        yield y.is_packed(), f"y must be packed; got dims {y.dims}, strides {y.strides}"

    def reference(self, states, shapes):
        count = int(np.prod(shapes["y"]))
        return dict(y=philox.factors(states, count, self.p).reshape(shapes["y"]),
                    states=philox.advanced(states, count))


@dataclass(frozen=True)
class DropoutStates(Op, reads="", writes="states"):
    """states = those of a generator that has drawn nothing; ``seed`` are 64 bits, as a signed number."""
    scalars = dict(seed=0)
    fixed = frozenset(["states"])

    def infer(self):
        return dict(states=STATES)

    def check_outputs(self, states):
        yield ((states.dtype, states.dims, states.strides) == (STATES.dtype, STATES.dims, STATES.strides),
               f"states must be {STATES}; got {states}")

    def reference(self, seed):
        return dict(states=philox.seeded(seed))
