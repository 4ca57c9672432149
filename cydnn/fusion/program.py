"""What is spliced: a program over values, and the pointers and numbers it reads at run time.

A ``Program`` has no pointer, shape or number of the problem in it, so that one text serves many of them. Values have names:

    v          what the kernel has computed at the mark
    n0, n1 …   results of the steps
    t0, t1 …   tensors, read from memory
    s0, s1 …   numbers given at execute
    @in0       the offset that the mark calls in0, as a number (a coordinate)
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ..dtypes import BY_NAME

FUSE_BYTES = 128                                 # of the kernel parameter Fuse


class At(NamedTuple):
    """Where an element of a tensor lies: the mark's key for its offset ("" for the first element).

    ``step`` is the distance of a vector's neighbours (1, or 0 when they share one element), ``vector`` how many of them may be moved
    at once: their address is aligned to so many.
    """
    key: str
    step: int
    vector: int = 1


@dataclass(frozen=True)
class Extra:
    """A tensor that spliced code reads, or writes."""
    dtype: str
    at: At

    def __str__(self):
        where = "its one element" if not self.at.key else f"{self.at.key}{'' if self.at.step else ', one for all'}, {self.at.vector} at once"
        return f"{self.dtype} at {where}"


@dataclass(frozen=True)
class Step:
    """result = round(alpha * mode(scale * input, …; attributes)), and its copy in memory."""
    mode: str                                    # a function of the library: "add", "max_ignore"
    inputs: tuple
    scales: tuple = ()                           # for each input the name of a number, or ""
    alpha: str = ""
    attributes: tuple = ()                       # numbers, pasted as literals
    dtype: str = ""                              # the value is rounded to this type; "" for the math type
    store: str = ""                              # the tensor it is also written to

    def __str__(self):
        terms = [f"{s} * {i}" if s else i for i, s in zip(self.inputs, self.scales or ("",) * len(self.inputs))]
        text = f"{self.mode}({', '.join(terms)}{'; ' if self.attributes else ''}{', '.join(f'{a:g}' for a in self.attributes)})"
        text = f"{self.alpha} * {text}" if self.alpha else text
        return f"{self.dtype}({text})" if self.dtype else text


@dataclass(frozen=True)
class Program:
    """The structure. The last step's result becomes the mark's value. ``fast``: results are rounded to 16 bits or less."""
    math: str                                    # "f32" or "f64"
    steps: tuple
    tensors: tuple = ()
    scalars: int = 0
    dtype: str = ""                              # type that v is rounded to first, "" for none
    store: str = ""                              # tensor that v is also written to
    fast: bool = False

    def __str__(self):
        lines = [f"v = {self.dtype}(v)"] if self.dtype else []
        lines += [f"store {self.store} = v"] if self.store else []
        for i, step in enumerate(self.steps):
            lines += [f"n{i} = {step}"] + ([f"store {step.store} = n{i}"] if step.store else [])
        lines += [f"t{i}: {extra}" for i, extra in enumerate(self.tensors)]
        return "\n".join([*lines, f"v = n{len(self.steps) - 1}, in {self.math}{', fast' if self.fast else ''}"])

    def pointer_offset(self, tensor: int) -> int:
        """Byte of the Fuse block where the pointer of a tensor lies."""
        return 8 * tensor

    def scalar_offset(self, scalar: int) -> int:
        return 8 * len(self.tensors) + BY_NAME[self.math].bytes * scalar

    @property
    def bytes(self) -> int:
        return self.scalar_offset(self.scalars)


@dataclass(frozen=True)
class Epilogue:
    """A program with the pointers and numbers of one plan. ``steps.Launch.fuse`` carries it."""
    program: Program
    pointers: tuple = ()                         # steps.Pointer, one for each tensor
    scalars: tuple = ()                          # steps.Scalar or a number, one for each s

    @classmethod
    def from_match(cls, match, output_desc=None) -> "Epilogue | None":
        """The epilogue of ``match``; None when nothing follows. Raises NotSupported with the sentence of ``refuse``."""
        from .build import build
        return build(match, output_desc)

    @staticmethod
    def refuse(match, output_desc=None):
        """Yield why the nodes behind ``match`` cannot be spliced into a kernel that writes ``output_desc`` (default: match.out)."""
        from .build import refuse
        return refuse(match, output_desc)

    def parameters(self) -> tuple[list, list]:
        """``([(offset in the Fuse block, Pointer)], [(offset, "f32" or "f64", Scalar)])``."""
        p = self.program
        return ([(p.pointer_offset(i), pointer) for i, pointer in enumerate(self.pointers)],
                [(p.scalar_offset(i), p.math, scalar) for i, scalar in enumerate(self.scalars)])

    def resolve(self, value) -> "Epilogue":
        """The same program with ``value`` applied to every pointer and scalar."""
        return replace(self, pointers=tuple(map(value, self.pointers)), scalars=tuple(map(value, self.scalars)))
