"""Spliced programs: steps over values, and the pointers and numbers that they read at run time.

A ``Program`` has no pointer, shape or number of the problem in it, so that one text serves many of them.
Names:

    v          what the kernel has at the mark
    n0, n1 …   results of the steps
    t0, t1 …   tensors in memory
    s0, s1 …   numbers given at execute, in the math type
    d0, d1 …   digits: parts of a coordinate that the mark gives
               (its key, divided, and the rest of another division)
    k0, k1 …   strides (64 bits);   f0, f1 …   divisors
    h0, h1 …   registers of the whole kernel: what the program of an earlier mark kept
"""
from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..dtypes import BY_NAME
from ..kernels.expressions import ceil_div
from ..kernels import fastdiv

MOST_BYTES = 2048                                # of the kernel parameter Fuse


class At(NamedTuple):
    """The address of a tensor's element: the sum of coordinates times strides. ``terms``: ((source, stride),
    …); the source "off" is the mark's own offset in elements, another key of the mark, or a digit; a stride
    is a small number, or the name of one.

    ``lanes``: how far the next neighbour of a vector lies: 0 (they share one element), 1, the name of a
    stride, or "each": every lane has digits of its own. ``vector``: how many neighbours may be moved at once:
    their address is aligned to so many.
    """
    terms: tuple = ()
    lanes: int | str = 0
    vector: int = 1

    def __str__(self):
        where = " + ".join(source if stride == 1 else f"{source} * {stride}" for source, stride in self.terms)
        apart = {0: ", one for all", 1: ""}.get(self.lanes, f", {self.lanes} apart")
        return f"{where or '0'}{apart if self.terms else ''}, {self.vector} at once"


class Digit(NamedTuple):
    """key / div % mod; "" leaves an operation out."""
    key: str
    div: str = ""
    mod: str = ""

    def __str__(self):
        return self.key + (f" / {self.div}" if self.div else "") + (f" % {self.mod}" if self.mod else "")


@dataclass(frozen=True)
class Extra:
    """A tensor that spliced code reads, or writes."""
    dtype: str
    at: At

    def __str__(self):
        return f"{self.dtype} at {self.at}"


@dataclass(frozen=True)
class Step:
    """result = round(alpha * mode(scale * input, …; attributes)). An input "@d0" is a coordinate as a
    number, "@d0+8" 8 times it plus the number of the lane, "@d0*" one that each lane has of its own."""
    mode: str                                    # a function of the library: "add", "max_ignore"
    inputs: tuple
    scales: tuple = ()                           # for each input the name of a number, or ""
    alpha: str = ""
    attributes: tuple = ()                       # numbers, pasted as literals
    dtype: str = ""                              # the value is rounded to this type; "" for the math type

    def __str__(self):
        scales = self.scales or ("",) * len(self.inputs)
        terms = [f"{s} * {i}" if s else i for i, s in zip(self.inputs, scales)]
        more = ("; " if self.attributes else "") + ", ".join(f"{a:g}" for a in self.attributes)
        text = f"{self.mode}({', '.join(terms)}{more})"
        text = f"{self.alpha} * {text}" if self.alpha else text
        return f"{self.dtype}({text})" if self.dtype else text


@dataclass(frozen=True)
class Program:
    """The structure. ``result``: the value that the mark's registers get ("" leaves them alone).

    First v is multiplied by the number ``alpha``; then ``blend`` (tensor, number) adds number * tensor to it,
    where the number is not 0; then it is rounded to the type ``entry``. ``stores``: (value, tensor) pairs;
    ``kept``: (value, name) pairs, which programs of later marks in the same math type read by that name.
    ``fast``: results are rounded to 16 bits or less. ``is_whole``: the program stores all there is, and the
    kernel's own stores behind the mark are left out.
    """
    math: str                                    # "f32", "f64"; "i32" where values are only moved
    steps: tuple
    tensors: tuple = ()
    stores: tuple = ()
    result: str = ""
    digits: tuple = ()
    numbers: int = 0
    scalars: int = 0
    divisors: int = 0
    alpha: str = ""
    blend: tuple = ()
    entry: str = ""
    fast: bool = False
    is_whole: bool = False
    kept: tuple = ()

    def __str__(self):
        lines = [f"d{i} = {digit}" for i, digit in enumerate(self.digits)]
        lines += [f"v = {self.alpha} * v"] if self.alpha else []
        lines += [f"v += {self.blend[1]} * {self.blend[0]}, unless it is 0"] if self.blend else []
        lines += [f"v = {self.entry}(v)"] if self.entry else []
        lines += [f"store {tensor} = v" for value, tensor in self.stores if value == "v"]
        for i, step in enumerate(self.steps):
            lines.append(f"n{i} = {step}")
            lines += [f"store {t} = n{i}" for value, t in self.stores if value == f"n{i}"]
        lines += [f"keep {name} = {value}" for value, name in self.kept]
        lines += [f"t{i}: {extra}" for i, extra in enumerate(self.tensors)]
        last = f"v = {self.result}, " if self.result and self.result != "v" else ""
        words = ", fast" if self.fast else ""
        words += ", in place of the kernel's own stores" if self.is_whole else ""
        return "\n".join([*lines, f"{last}in {self.math}{words}"])

    @property
    def inputs(self) -> tuple:
        """The names that it reads, each once, in order."""
        steps = [name for s in self.steps for name in (*s.inputs, *s.scales, s.alpha)]
        read = (*self.blend[1:], *steps, *(value for value, _ in self.kept), self.result)
        return tuple([name for name in dict.fromkeys(read) if name])

    # ---- Where things lie in the kernel's parameter Fuse ----

    def pointer_offset(self, tensor: int) -> int:
        return 8 * tensor

    def number_offset(self, number: int) -> int:
        return 8 * (len(self.tensors) + number)

    def scalar_offset(self, scalar: int) -> int:
        size = BY_NAME[self.math].bytes
        return 8 * (len(self.tensors) + self.numbers) + size * scalar

    def divisor_offset(self, divisor: int) -> int:
        return ceil_div(self.scalar_offset(self.scalars), 4) * 4 + 12 * divisor

    @property
    def bytes(self) -> int:
        """Of its part of Fuse, a multiple of 8."""
        return ceil_div(self.divisor_offset(self.divisors), 8) * 8


@dataclass(frozen=True)
class Fused:
    """A program with the pointers and numbers of one plan, for one mark of a launch."""
    program: Program
    pointers: tuple = ()                         # steps.Pointer, one for each tensor
    scalars: tuple = ()                          # steps.Scalar or a number, one for each s
    numbers: tuple = ()                          # one for each k
    divisors: tuple = ()                         # one for each f

    def mapped(self, value) -> "Fused":
        """The same program with ``value`` applied to every pointer and scalar."""
        turn = lambda v: value(v) if hasattr(v, "key") else v
        return replace(self, pointers=tuple(map(value, self.pointers)),
                       scalars=tuple(map(turn, self.scalars)))

    def put(self, block: bytearray, base: int, pointers: list, scalars: list):
        """Write what is known into a parameter block at ``base``;
        append (offset, Pointer) and (offset, type, Scalar)."""
        p = self.program
        pointers += [(base + p.pointer_offset(i), pointer) for i, pointer in enumerate(self.pointers)]
        for i, number in enumerate(self.numbers):
            struct.pack_into("<q", block, base + p.number_offset(i), number)
        for i, by in enumerate(self.divisors):
            struct.pack_into("<III", block, base + p.divisor_offset(i), *fastdiv(by))
        for i, scalar in enumerate(self.scalars):
            if hasattr(scalar, "key"):
                scalars.append((base + p.scalar_offset(i), p.math, scalar))
            else:
                struct.pack_into("<f" if p.math == "f32" else "<d", block, base + p.scalar_offset(i), scalar)


def bases(fuse: dict) -> dict:
    """{mark: where its part of Fuse begins} for {mark: Fused or Program}, and the size of all under ""."""
    found, end = {}, 0
    for mark in sorted(fuse):
        found[mark] = end
        end += getattr(fuse[mark], "program", fuse[mark]).bytes
    return {**found, "": end}
