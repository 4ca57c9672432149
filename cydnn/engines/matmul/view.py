"""What the matmul engines share: the problem as matrices and merged batch dims, the cut of a deep sum into splits, and their sum."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...tensor import TensorDesc, collapse
from ..engine import powers
from .tiles import MOST, fuse
from ...steps import Launch

BATCH_DIMS = 6                                   # kernels_src/matmul/batch.cuh
PART_BYTES = 64 << 20                            # most workspace for the sums of the splits


def matrix_steps(desc: TensorDesc) -> tuple[int, int]:
    """Strides of the rows and of the columns; 0 where there is only one."""
    return tuple(0 if d == 1 else s for d, s in zip(desc.dims[-2:], desc.strides[-2:]))


@dataclass(frozen=True)
class Matrices:
    """c = a @ b as ``count`` products of (m, k) by (k, n). ``batch`` are the merged batch dims, the fastest first, and a, b, c's steps."""
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

    @classmethod
    def of(cls, a: TensorDesc, b: TensorDesc, c: TensorDesc) -> "Matrices":
        outer = [TensorDesc(d.dtype, d.dims[:-2], d.strides[:-2]) for d in (a, b, c)]
        dims, steps = collapse(*outer)
        fill = (0,) * (BATCH_DIMS - len(dims))
        return cls(a.dims[-2], b.dims[-1], a.dims[-1], *map(matrix_steps, (a, b, c)),
                   (*dims, *(1 for _ in fill)), *((*s, *fill) for s in steps))

    @property
    def count(self) -> int:
        return prod(self.batch)

    def batches(self) -> dict:
        """The batch parameters of a kernel."""
        return dict(batch=self.batch, a_batch=self.a_batch, b_batch=self.b_batch, c_batch=self.c_batch)


def size_refusals(p):
    """Sizes that the kernels cannot count."""
    m = Matrices.of(p.a, p.b, p.out)
    for name, size in (("m", m.m), ("n", m.n), ("k", m.k), ("the product of the batch dims", m.count)):
        if size > MOST:
            yield f"{name} must be at most {MOST}; got {size}"


@dataclass(frozen=True)
class Cut:
    """A tile and how the depth is cut: ``splits`` parts of ``each``; ``us`` is the estimate."""
    us: float
    tile: object
    splits: int
    each: int


def split_configs(tiles, p, unit: int) -> list[dict]:
    """The configurations of a tiled product whose depth may be split at multiples of ``unit``."""
    return [dict(tile=tile, splits=n) for tile in tiles for n in powers(-(-p.a.dims[-1] // unit))]


def cuts(g: Matrices, tile, blocks: int, unit: int, dtype, dev, estimate, splits=None):
    """Cuts of the depth worth a look: none, and those that give every SM one or two blocks; or the one into ``splits``.

    ``estimate(blocks, depth)`` in µs.
    """
    acc, elements = (8 if dtype.name == "f64" else 4), g.count * g.m * g.n
    most = max(PART_BYTES // max(elements * acc, 1), 1)
    for wish in [splits] if splits else [min(max(dev.sms * waves // max(blocks, 1), 1), max(g.k // (8 * unit), 1)) for waves in (0, 1, 2)]:
        wish = min(wish, most)
        each = max(-(-g.k // (wish * unit)) * unit, unit)
        splits = max(-(-g.k // each), 1)
        if splits > 1 and elements > MOST:
            continue
        sums = 0.0 if splits == 1 else 2.0 + 2 * splits * elements * acc / (dev.bandwidth_gbs * 1e3)
        yield Cut(estimate(blocks * splits, each) + sums, tile, splits, each)


def launches(p, g: Matrices, kernel: str, cut: Cut, args: dict, extra: dict) -> list:
    """The product and, where the depth is cut, the ordered sum. The epilogue belongs to the last of them."""
    acc = 8 if p.a.dtype.name == "f64" else 4
    parts = p.scratch(cut.splits * g.count * g.m * g.n * acc) if cut.splits > 1 else None
    out = dict(c=p.out_ptr(), parts=parts, alpha=p.scalar("alpha"), beta=p.scalar("beta"), c_m=g.c[0], c_n=g.c[1])
    steps = [Launch(kernel, dict(a=p.ptr("a"), b=p.ptr("b"), m=g.m, n=g.n, k=g.k, split_k=cut.each, batches=g.count, **g.batches(), **out, **args),
                    dict(extra, splits=cut.splits))]
    if parts is not None:
        steps.append(Launch(f"matmul_sum_{p.a.dtype}", dict(out, count=g.count * g.m * g.n, splits=cut.splits, m=g.m, n=g.n,
                                                            batch=g.batch, c_batch=g.c_batch)))
    steps[-1].fuse = fuse(p)
    return steps
