"""Packing of arguments into a parameter block: one packer for each parameter of a kernel.

What a type is made of stands in kinds.py.
"""
from __future__ import annotations

from typing import NamedTuple

from ..status import BadParam
from . import tensor_map
from .kinds import NUMBERS, ROWS, find


class Attributes(NamedTuple):
    """Launch attributes beyond grid and block. ``cluster``: (x, y, z) blocks that run together; None: as
    it was compiled. ``cooperative``: all blocks are resident at once. ``dependent``: from sm_90 on, it may
    begin before the launch before it has ended (and waits for that itself)."""
    cluster: tuple | None = None
    cooperative: bool = False
    dependent: bool = False

    def on(self, sm: int) -> Attributes:
        """Those that a card knows."""
        return self if sm >= 90 else self._replace(dependent=False)


class Packed(NamedTuple):
    """A launch without its pointers: parameter bytes, what to patch into them at which offset, and the
    launch shape."""
    data: bytes
    pointers: list                               # (offset, Pointer)
    scalars: list                                # (offset, a key of kinds.PATCHES, Scalar)
    grid: tuple
    block: tuple
    smem: int
    maps: tuple = ()                             # (offset, TensorMap)
    attributes: Attributes = Attributes()


class Packer:
    """Writes one parameter. ``put(block, value, later)`` returns what expressions see of it, None for
    nothing. ``later``: lists by name ("pointers", "scalars", "maps") for what is written at execute."""

    def __init__(self, kernel: str, row: dict):
        self.where, self.name = f"{kernel}: {row['name']}", row["name"]
        self.type, self.offset, self.kind = row["type"], row["offset"], find(row["type"])

    def put(self, block, value, later):
        if hasattr(value, "uid") and hasattr(value, "addend") and self.kind.address is not None:
            later["pointers"].append((self.offset + self.kind.address, value))
            return 1 if self.kind.patch == "pointer" else None           # what lies there no expression sees
        if self.kind.pointers and hasattr(value, "__len__"):
            later["pointers"] += [(self.offset + 8 * i, one) for i, one in enumerate(value)
                                  if hasattr(one, "addend")]
            value = [None if hasattr(one, "addend") else one for one in value]
        if self.kind.patch == "map":
            return self._map(value, later)
        if hasattr(value, "default") and hasattr(value, "key"):
            return self._scalar(block, value, later)
        self._write(block, value)
        if self.kind.patch == "pointer":
            return int(value is not None)
        return tuple(value) if hasattr(value, "__len__") else value

    def _map(self, value, later):
        """A tensor map. No expression sees it."""
        if not hasattr(value, "box"):
            self._refuse("must be a TensorMap", value)
        tensor_map.check(self.where, value)
        later["maps"].append((self.offset, value))

    def _scalar(self, block, value, later):
        """A number given at execute: its default for now. No expression sees it."""
        if self.kind.patch not in NUMBERS:
            names = ", ".join(kind.name.split()[0] for kind in ROWS if kind.patch in NUMBERS)
            self._refuse(f"is {self.type}: only {names} can be given at execute", value)
        self._write(block, value.default)
        later["scalars"].append((self.offset, self.kind.patch, value))

    def _write(self, block, value):
        try:
            data = self.kind.pack(value)
        except (TypeError, ValueError, OverflowError) as error:
            is_rule = isinstance(error, ValueError) and str(error).startswith("must")
            self._refuse(str(error) if is_rule else f"must be {self.type}", value)
        block[self.offset:self.offset + len(data)] = data

    def _refuse(self, rule, value):
        raise BadParam(f"{self.where} {rule}; got {value!r}")
