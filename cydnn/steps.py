"""What a plan consists of: launches, memsets and (on the NumPy device) reference calls, over symbolic pointers and scalars."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Pointer:
    """The address of tensor ``uid`` (an int), or of scratch area ``uid`` (a Scratch), plus ``addend`` bytes."""
    uid: Any
    addend: int = 0

    def __add__(self, offset_bytes: int) -> "Pointer":
        return Pointer(self.uid, self.addend + int(offset_bytes))


@dataclass(frozen=True, eq=False)
class Scratch:
    """A private area of the workspace, alive from its first step to its last, aligned to 256 bytes."""
    bytes: int


@dataclass(frozen=True)
class Scalar:
    """A by-value number read at execute: ``key`` is (node, scalar name) or the uid of a by-value tensor."""
    key: Any
    default: float


@dataclass
class Launch:
    """One kernel: its variant name, its arguments by parameter name, extra names for the grid, and what to splice at its marks."""
    kernel: str
    args: dict
    extra: dict = field(default_factory=dict)
    fuse: Any = None                             # fusion.Epilogue or None


@dataclass
class Memset:
    """Set ``bytes`` bytes at ``pointer`` to ``value``."""
    pointer: Pointer
    bytes: int
    value: int = 0


@dataclass
class ReferenceCall:
    """Run an op's NumPy reference on host memory (NumPy device only)."""
    op: Any
    operands: dict                               # operand name -> (TensorDesc, Pointer, or Scalar where it is by value) or None
    scalars: dict                                # scalar name -> Scalar
