"""Products of matrices as kernels walk them: sizes, steps, merged batch dims."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from ...ops.matmul import MOST_BATCH as BATCH_DIMS
from ...tensor import TensorDesc, collapse

MOST = 2 ** 31 - 1024                            # rows, pixels: a FastDiv's range, less a tile


def matrix_steps(desc: TensorDesc) -> tuple[int, int]:
    """Strides of the rows and of the columns; 0 where there is only one."""
    return tuple(0 if d == 1 else s for d, s in zip(desc.dims[-2:], desc.strides[-2:]))


class Outer(NamedTuple):
    """The batch dims of an operand."""
    dims: list
    strides: list


def _outer(*descs: TensorDesc) -> list[Outer]:
    """The batch dims of operands. Where some have a part of a dim's size, it becomes two dims: so many, and
    those that share one of them."""
    found = [Outer([], []) for _ in descs]
    for axis in range(descs[0].rank - 2):
        few, *whole = sorted({d.dims[axis] for d in descs} - {1}) or [1]
        for mine, d in zip(found, descs):
            size, step = d.dims[axis], d.strides[axis]
            share = max(size // few, 1) if whole else 1
            mine.dims.extend((size // share, share) if whole else (size,))
            mine.strides.extend((step * share, step) if whole else (step,))
    return found


@dataclass(frozen=True)
class Matrices:
    """c = a @ b as ``count`` products of (m, k) by (k, n). ``batch`` are the merged batch dims, the fastest
    first, and a, b, c's steps. ``batch_axes``: the batch dims in that order, the slowest first."""
    m: int
    n: int
    k: int
    a: tuple
    b: tuple
    c: tuple
    batch: tuple
    a_batch: tuple
    b_batch: tuple
    c_batch: tuple
    batch_axes: tuple

    @classmethod
    def of(cls, a: TensorDesc, b: TensorDesc, c: TensorDesc) -> "Matrices":
        dims, steps = collapse(*_outer(a, b, c))
        fill = (0,) * (BATCH_DIMS - len(dims))
        used = lambda i: [0 if d.dims[i] == 1 else d.strides[i] for d in (c, b, a)]
        axes = sorted((i for i, d in enumerate(c.dims[:-2]) if d != 1), key=used)
        return cls(a.dims[-2], b.dims[-1], a.dims[-1], *map(matrix_steps, (a, b, c)),
                   (*dims, *(1 for _ in fill)), *((*s, *fill) for s in steps), tuple(axes[::-1]))

    @property
    def count(self) -> int:
        return prod(self.batch)

    def batches(self) -> dict:
        """The batch parameters of a kernel."""
        return dict(batch=self.batch, a_batch=self.a_batch, b_batch=self.b_batch, c_batch=self.c_batch)


def size_refusals(g: Matrices):
    """Sizes that the kernels cannot count."""
    for name, size in (("m", g.m), ("n", g.n), ("k", g.k), ("the product of the batch dims", g.count)):
        if size > MOST:
            yield f"{name} must be at most {MOST}; got {size}"


def too_many(name: str, count: int, most: int = MOST):
    """Refuse more than a kernel's index can count."""
    if count > most:
        yield f"{name} must be at most {most}; got {count}"
