"""Matrix product on CUDA cores, whatever the strides and sizes."""
from __future__ import annotations

from math import prod

from ...ops import Matmul
from ..engine import Engine, wrong_device
from .view import Matrices, cuts, launches, size_refusals, split_configs
from .tiles import TILES, tile_us, tiles_of, type_refusals
from ...steps import Launch

ALONG_ROWS, ALONG_DEPTH, ROW_VECTORS, DEPTH_VECTORS = range(4)       # kernels_src/matmul/operand_simt.cuh
UNIT = 32                                        # the deepest step, so that splits begin at steps


def operand_form(desc, rows: int, row_step: int, depth: int, depth_step: int, batch: tuple) -> int:
    """How threads read an operand: in vectors of 4 where rows or depths are neighbours, else lanes along the closer one."""
    aligned = desc.alignment >= min(16, 4 * desc.dtype.bytes) and not any(s % 4 for s in batch)
    if aligned and row_step == 1 and rows % 4 == 0 and depth_step % 4 == 0:
        return ROW_VECTORS
    if aligned and depth_step == 1 and depth % 4 == 0 and row_step % 4 == 0:
        return DEPTH_VECTORS
    return ALONG_ROWS if rows > 1 and (depth == 1 or row_step < depth_step) else ALONG_DEPTH


class MatmulSimt(Engine):
    """Register tiles over double-buffered shared memory; sums in f32 (f64 for f64). A deep product of few tiles is split and added in order."""
    index = 199
    op = Matmul
    fuses_epilogue = True

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from type_refusals(p)
        yield from size_refusals(p)

    def cost(self, p, dev):
        return 2.0 + self._cut(Matrices.of(p.a, p.b, p.out), p.a.dtype, dev).us

    @staticmethod
    def _cut(g, dtype, dev, tile=None, splits=None):
        def every(tile):
            rows, columns, _ = TILES[tile]
            blocks = prod(tiles_of(tile, g.m, g.n).values()) * g.count
            estimate = lambda blocks, depth: tile_us(tile, rows, columns, depth, blocks, dev, dtype)
            return cuts(g, tile, blocks, UNIT, dtype, dev, estimate, splits)
        return min((cut for tile in ([tile] if tile else TILES) for cut in every(tile)), key=lambda cut: cut.us)

    def configs(self, p, dev):
        return split_configs(TILES, p, UNIT)

    def plan(self, p, dev, tile=None, splits=None) -> list[Launch]:
        if p.out.count == 0:
            return []
        g = Matrices.of(p.a, p.b, p.out)
        cut = self._cut(g, p.a.dtype, dev, tile, splits)
        args = dict(a_form=operand_form(p.a, g.m, g.a[0], g.k, g.a[1], g.a_batch), b_form=operand_form(p.b, g.n, g.b[1], g.k, g.b[0], g.b_batch),
                    c_along_m=int(cut.splits == 1 and (g.n == 1 or g.m > 1 and g.c[0] < g.c[1])),
                    a_m=g.a[0], a_k=g.a[1], b_k=g.b[0], b_n=g.b[1])
        return launches(p, g, f"matmul_simt_{p.a.dtype}_{cut.tile}", cut, args, tiles_of(cut.tile, g.m, g.n))
