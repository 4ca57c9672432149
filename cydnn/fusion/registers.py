"""Registers of spliced code, and what a mark says.

Names have an underscore (``%n0_3`` is lane 3 of n0), which no register of nvcc has;
so they hide none of the kernel's.
"""
from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from ..status import InternalError

MARK = re.compile(r"// @fuse\.(\w+) ([^;\n]*);")
_DECLARED = re.compile(r"\.reg \.(\w+)\s+(%\w+?)<\d+>")
MOVED = ("off", "col")                           # keys
_BITS = {"f32": "f32", "b32": "f32", "f64": "f64", "b64": "f64"}


class Registers:
    """Hands out register names of one scope and writes their declarations."""

    def __init__(self):
        self._by_type: dict[str, dict] = {}

    def new(self, kind: str, stem: str, lane: int | str = 0) -> str:
        name = f"%{stem}_{lane}"
        self._by_type.setdefault(kind, {})[name] = True
        return name

    def lanes(self, kind: str, stem: str, count: int) -> list[str]:
        return [self.new(kind, stem, i) for i in range(count)]

    def declarations(self) -> list[str]:
        return [f".reg {kind} {', '.join(names)};" for kind, names in self._by_type.items()]


@dataclass(frozen=True)
class Mark:
    """One mark: the registers of the values and their type, and the registers of offset and coordinates by
    key. Those of ``MOVED`` stand for ``plus`` more than they have, so that neighbouring marks share them.
    ``slot``: which set of the kept registers is the mark's, where a thread has several rows at once.
    ``rows``: its values are of so many rows, one behind the other, at the same coordinates."""
    values: tuple
    offsets: dict
    type: str = "f32"
    plus: int = 0
    slot: int = 0
    rows: int = 1

    @property
    def lanes(self) -> int:
        """Elements of a row that it stands for; one where it shows no values."""
        return len(self.values) // self.rows or 1

    def kept(self, name: str) -> str:
        """The register of a kept value."""
        return f"%{name}_{self.slot}"

    @classmethod
    def read(cls, text: str, declared: dict) -> "Mark":
        """``v=%f1,%f2 off=%rd7 col=%r9``; ``int`` says that the values are integers."""
        words = dict(word.partition("=")[::2] for word in text.split())
        plus, slot, rows = (int(words.pop(name, n)) for name, n in (("plus", 0), ("slot", 0), ("rows", 1)))
        if "v" not in words:
            return cls((), words, plus=plus, slot=slot)
        values = tuple(words.pop("v").split(","))
        kind = "i32" if words.pop("int", None) is not None else type_of(values[0], declared)
        return cls(values, words, kind, plus, slot, rows)


def declared_types(text: str) -> dict[str, str]:
    """Register family ("%f") to math type ("f32") of a kernel.
    Newer compilers keep floats in untyped registers."""
    return {family: _BITS[kind] for kind, family in _DECLARED.findall(text) if kind in _BITS}


def type_of(register: str, declared: dict) -> str:
    family = re.match(r"%[A-Za-z_]+", register)
    if not family or family[0] not in declared:
        raise InternalError(f"mark: v must be a float or double register; got {register}")
    return declared[family[0]]


def literal(number: float, math: str) -> str:
    """A number as PTX writes it, bit by bit."""
    if math == "f32":
        return "0f" + struct.pack(">f", _fit(number)).hex().upper()
    return "0d" + struct.pack(">d", number).hex().upper()


def _fit(number: float) -> float:
    """Numbers beyond the range of f32 become infinite, as in a conversion."""
    try:
        struct.pack(">f", number)
        return number
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
