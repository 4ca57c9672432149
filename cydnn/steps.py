"""Steps of a plan: launches, memsets and (on the NumPy device) reference calls, over symbolic pointers."""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Pointer:
    """The address of tensor ``uid`` (an int), or of scratch area ``uid`` (a Scratch),
    plus ``addend`` bytes."""
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
    """A by-value number read at execute: ``key`` is (lowest uid that the node writes, scalar name)
    or the uid of a by-value tensor. A whole number's ``default`` is an int, and stays exact."""
    key: Any
    default: float


@dataclass(frozen=True)
class TensorMap:
    """A CUtensorMap parameter: the tiles of a tensor at ``pointer`` that the copy engine moves.

    ``dims`` and ``box`` in elements, innermost first; ``strides`` in bytes, without the innermost, which is
    one element. ``swizzle`` in bytes (0, 32, 64, 128). Encoded when a plan is compiled; at execute only the
    address is replaced. PTX ISA §tensor; driver API, cuTensorMapEncodeTiled.

    With ``corners`` it moves pixels of images instead (im2col; cuTensorMapEncodeIm2col): dims are c, w, h
    (, d), n; ``box`` is (channels, pixels); corners are (lower, upper), each of w, h (, d). Base pixels
    run from lower to dim - 1 + upper, every ``steps``-th; a load takes ``pixels`` of them, w fastest, n
    slowest, each moved by the offsets of the instruction.
    """
    pointer: Pointer
    dtype: str
    dims: tuple
    strides: tuple
    box: tuple
    steps: tuple = ()                            # element strides; () is 1 everywhere
    swizzle: int = 0
    fill_nan: bool = False                       # what lies outside reads as NaN, not 0
    corners: tuple = ()


@dataclass(frozen=True)
class Launch:
    """One kernel: its variant name, its arguments by parameter name, extra names for the grid, and what
    to splice at which mark ({mark: fusion.Fused}). Cluster, cooperation and overlap with the launch
    before are facts of its contract."""
    kernel: str
    args: dict
    extra: dict = field(default_factory=dict)
    fuse: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Memset:
    """Set ``bytes`` bytes at ``pointer`` to ``value``."""
    pointer: Pointer
    bytes: int
    value: int = 0


@dataclass(frozen=True)
class ReferenceCall:
    """Run an op's NumPy reference on host memory (NumPy device only)."""
    op: Any
    operands: dict                     # name: (TensorDesc, Pointer or Scalar), several of them, or None; of a
    #                                    ragged tensor with (TensorDesc, Pointer) of its offsets as a third
    scalars: dict                                # Scalar by name, or (TensorDesc, Pointer) of one in memory


def mapped(step, value):
    """The step with ``value`` applied to every Pointer and Scalar in it."""
    def deep(v):
        if isinstance(v, (Pointer, Scalar)):
            return value(v)
        if isinstance(v, TensorMap):
            return replace(v, pointer=value(v.pointer))
        if isinstance(v, tuple) and any(isinstance(x, (Pointer, Scalar, tuple)) for x in v):
            return tuple([deep(x) for x in v])
        return v
    if isinstance(step, Launch):
        fuse = {mark: fused.mapped(value) for mark, fused in step.fuse.items()} if step.fuse else step.fuse
        return Launch(step.kernel, {k: deep(v) for k, v in step.args.items()}, step.extra, fuse)
    if isinstance(step, Memset):
        return replace(step, pointer=value(step.pointer))
    return ReferenceCall(step.op, {k: deep(v) for k, v in step.operands.items()},
                         {k: deep(v) for k, v in step.scalars.items()})


def placed(steps, where: dict) -> list:
    """The steps with addresses in the place of what stood for them: ``where``, by uid."""
    turn = lambda v: where[v.uid] + v.addend if isinstance(v, Pointer) and v.uid in where else v
    return [mapped(step, turn) for step in steps]


def pointers(step) -> list[Pointer]:
    """Every symbolic pointer of a step."""
    found: list[Pointer] = []

    def see(v):
        if isinstance(v, Pointer):
            found.append(v)
        return v
    mapped(step, see)
    return found
