"""What the matmul engines share: the problem as matrices and merged batch dims,
the cut of a deep sum, the ordered sum."""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from ... import fusion
from ...dtypes import BY_NAME
from ...fusion import Site
from ...kernels.expressions import ceil_div
from ...steps import Launch
from ...tensor import TensorDesc, collapse
from ..engine import Config, Engine, first_then, powers
from .simt import MOST, PART_BYTES, sums_us

BATCH_DIMS = 6                                   # kernels_src/matmul/batch.cuh


def matrix_steps(desc: TensorDesc) -> tuple[int, int]:
    """Strides of the rows and of the columns; 0 where there is only one."""
    return tuple(0 if d == 1 else s for d, s in zip(desc.dims[-2:], desc.strides[-2:]))


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
        outer = [TensorDesc(d.dtype, d.dims[:-2], d.strides[:-2]) for d in (a, b, c)]
        dims, steps = collapse(*outer)
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


def out_site(lead, lanes: int = 1) -> Site:
    """The mark of a kernel that writes c: col counts its columns."""
    rank = len(lead.tensor.dims)
    return Site(lead.tensor.dims, lead.tensor, (("col", (rank - 1,)),), "col", lanes)


def size_refusals(g: Matrices):
    """Sizes that the kernels cannot count."""
    for name, size in (("m", g.m), ("n", g.n), ("k", g.k), ("the product of the batch dims", g.count)):
        if size > MOST:
            yield f"{name} must be at most {MOST}; got {size}"


@dataclass(frozen=True)
class Cut:
    """A tile and how the depth is cut: ``splits`` parts of ``each``; ``us`` is the estimate."""
    us: float
    tile: object
    splits: int
    each: int


def cut(g: Matrices, tile, wish: int, unit: int, acc_bytes: int, dev, estimate) -> Cut | None:
    """The cut into about ``wish`` splits; None where it cannot be."""
    elements = g.count * g.m * g.n
    wish = min(wish, max(PART_BYTES // max(elements * acc_bytes, 1), 1))
    each = max(ceil_div(g.k, wish * unit) * unit, unit)
    splits = max(ceil_div(g.k, each), 1)
    if splits > 1 and elements > MOST:
        return None
    sums = sums_us(splits * elements * acc_bytes, splits, dev) if splits > 1 else 0.0
    return Cut(estimate(splits, each) + sums, tile, splits, each)


def cuts(g: Matrices, tile, waves: tuple, blocks: int, unit: int, acc_bytes: int, dev, estimate):
    """Cuts of the depth worth a look: those that give every SM so many blocks; none for 0."""
    for waves in waves:
        wish = min(max(dev.sms * waves // max(blocks, 1), 1), max(g.k // (8 * unit), 1))
        found = cut(g, tile, wish, unit, acc_bytes, dev, estimate)
        if found is not None:
            yield found


class SplitMatmul(Engine):
    """The base. Its knobs are the tile and the number of splits; ``unit`` is what a split of the depth
    is a multiple of: the deepest step, so that splits begin at steps. ``waves`` as in cuts."""
    unit: ClassVar[int] = 32
    waves: ClassVar[tuple] = (0, 1, 2)

    def is_one_sum(self, p, g) -> bool:
        """The depth may not be cut. The sum of the splits writes one element at a time, and packed booleans
        are written eight at once."""
        return any(p.graph.tensors[uid].dtype.bits < 8 for uid in p.region.outputs)

    def _unit(self, p, g) -> int:
        return max(ceil_div(g.k, self.unit), 1) * self.unit if self.is_one_sum(p, g) else self.unit

    def matrices(self, p) -> tuple:
        """(lead of c, Matrices as the kernel walks them)."""
        raise NotImplementedError

    def tiles(self, p):
        """Those on offer."""
        return self.knobs[0].values

    def ways(self, p, g, dev, tile) -> tuple:
        """(blocks of one split, bytes of a sum, estimate) for a tile; ``estimate(splits, depth)`` in µs."""
        raise NotImplementedError

    def configs(self, p, dev):
        g, tiles = self.matrices(p)[1], self.tiles(p)
        unit = self._unit(p, g)
        found = [c for tile in tiles for blocks, size, us in [self.ways(p, g, dev, tile)]
                 for c in cuts(g, tile, self.waves, blocks, unit, size, dev, us)]
        best = min(found, key=lambda c: c.us)
        others = (Config(tile=t, splits=n) for t in tiles for n in powers(ceil_div(g.k, unit)))
        return first_then(Config(tile=best.tile, splits=best.splits), others)

    def cut(self, p, dev, config) -> Cut:
        """The cut that a configuration names; the whole depth where it cannot be."""
        g = self.matrices(p)[1]
        _, size, us = self.ways(p, g, dev, config.tile)
        into = lambda splits: cut(g, config.tile, splits, self._unit(p, g), size, dev, us)
        return into(config.splits) or into(1)

    def cost(self, p, dev, config):
        return dev.launch_us + self.cut(p, dev, config).us


def is_whole(g: Matrices, tensor) -> bool:
    """Rows of c are whole 16-byte chunks of 16-bit elements: a kernel may write vectors of 8."""
    sizes = (g.n, g.c[0], *g.c_batch)
    return not any(n % 8 for n in sizes) and (g.c[1] == 1 or g.n == 1) and tensor.alignment >= 16


def along_m(g: Matrices) -> int:
    """Whether neighbours in the memory of c are rows (1) or columns (0)."""
    return int(g.n == 1 or g.m > 1 and g.c[0] < g.c[1])


def parts(p, g: Matrices, part_type: str, cut: Cut):
    """Room for the sums of the splits; None where the depth is whole."""
    if cut.splits == 1:
        return None
    return p.scratch(cut.splits * g.count * g.m * g.n * BY_NAME[part_type].bytes)


def c_args(p, g: Matrices, lead) -> dict:
    """The arguments of a product that say what it is and where it goes."""
    return dict(**lead.store(p), alpha=p.scalar("alpha"), m=g.m, n=g.n, k=g.k, c_m=g.c[0], c_n=g.c[1],
                batch=g.batch, c_batch=g.c_batch)


def with_sum(g: Matrices, product: Launch, sum_kernel: str, splits: int, fuse, out: str = "c") -> list:
    """The product and, where the depth is cut, the ordered sum into its parameter ``out``. The epilogue
    belongs to the last of them."""
    if product.args["parts"] is None:
        return [replace(product, fuse=fuse)]
    total = dict({name: product.args[name] for name in ("beta", "parts", "alpha")}, c=product.args[out],
                 m=g.m, n=g.n, c_m=g.c[0], c_n=g.c[1], batch=g.batch, c_batch=g.c_batch,
                 count=g.count * g.m * g.n, splits=splits)
    return [product, Launch(sum_kernel, total, {}, fuse)]


def launches(p, g: Matrices, lead, kernel: str, sum_kernel: str, part_type: str, cut: Cut, args: dict,
             extra: dict, fuse) -> list:
    """The product of operands at addresses, and the ordered sum."""
    product = dict(c_args(p, g, lead), batches=g.count, parts=parts(p, g, part_type, cut), split_k=cut.each,
                   a=p.ptr("a"), b=p.ptr("b"), a_batch=g.a_batch, b_batch=g.b_batch) | args
    return with_sum(g, Launch(kernel, product, dict(extra, splits=cut.splits)), sum_kernel, cut.splits, fuse)


def tail(p, lead, lanes: int = 1, key="simt", mark_type="f32"):
    """What is spliced behind the product, remembered."""
    return fusion.attempt(p, key, lambda: fusion.behind(p, out_site(lead, lanes), lead, mark_type=mark_type,
                                                        beta=lead.beta))
