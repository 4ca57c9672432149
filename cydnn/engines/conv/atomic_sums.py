"""Atomic sums: blocks add to the output itself where it has the type of the sums, else to an area like it,
in any order."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...dtypes import BY_NAME
from ...steps import Launch, Memset, Pointer
from ...tensor import TensorDesc
from ..engine import moved_us
from ..tile.matrices import too_many

NOTES = ("nondeterministic",)
ADDS = 3e5                                       # atomic additions in a microsecond, on an H200


@dataclass(frozen=True)
class AtomicSums:
    """The target of the sums (address, strides), the factor of each, and the steps in front and behind."""
    pointer: Pointer
    desc: TensorDesc
    alpha: Any
    front: tuple
    behind: tuple

    @classmethod
    def into(cls, p, name: str, kind: str) -> "AtomicSums":
        """Sums of type ``kind`` into an output."""
        out = p.operands[name]
        if out.dtype.name == kind:
            return cls(p.ptr(name), out, p.scalar("alpha"), (_blend(p, name, None),), ())
        strides, step = [0] * out.rank, 1
        for axis in _walk(out):
            strides[axis], step = step, step * out.dims[axis]
        area = p.scratch(out.count * BY_NAME[kind].bytes)
        return cls(area, TensorDesc(kind, out.dims, strides), 1.0,
                   (Memset(area, out.count * BY_NAME[kind].bytes),), (_blend(p, name, area),))


def _walk(desc) -> list:
    """The axes, the closest in memory first."""
    return sorted(range(desc.rank), key=lambda i: (desc.strides[i], desc.dims[i]))


def _blend(p, name: str, sums) -> Launch:
    out = p.operands[name]
    walked = [(out.dims[i], 0 if out.dims[i] == 1 else out.strides[i]) for i in _walk(out)]
    walked += [(1, 0)] * (5 - out.rank)
    args = dict(sums=sums, y=p.ptr(name), alpha=p.scalar("alpha"), beta=p.scalar("beta"), count=out.count,
                size=[max(n, 1) for n, _ in walked[:4]], y_s=[s for _, s in walked])
    return Launch(f"conv_blend_{out.dtype}", args)


def refusals(p, name: str, kind: str):
    """Outputs that the sums cannot go into."""
    out, source = p.operands[name], p.operands[p.op.reads[0]]
    if out.dtype.name not in (kind, source.dtype.name):
        yield f"{name} must be {source.dtype} like {p.op.reads[0]}, or {kind}; got {out.dtype}"
    yield from too_many(f"elements of {name}", out.count)


def adding_us(p, name: str, kind: str, adds: int, dev) -> float:
    """Estimated microseconds of the launches around, and of so many additions."""
    out = p.operands[name]
    area = 0 if out.dtype.name == kind else 2 * out.count * BY_NAME[kind].bytes
    return moved_us(out.bytes + area, dev) + adds / ADDS
