"""Matrix product on CUDA cores, whatever the strides and sizes."""
from __future__ import annotations

from math import inf, prod

from ... import fusion
from ...dtypes import BY_NAME
from ...graph import core, many
from ...ops import Matmul, Pointwise
from ..engine import Knob, no_variant, wrong_device
from ..tile.matrices import Matrices, size_refusals
from ..tile.simt import (ALL, ASYNC, TILES, arithmetic_us, has_async, leaving_us, shallow_us, tile_us,
                         tiles_of)
from ..tile.split_k import SplitMatmul
from .view import behind_product, launches

ALONG_ROWS, ALONG_DEPTH, ROW_VECTORS, DEPTH_VECTORS = range(4)       # kernels_src/matmul/operand_simt.cuh
ACROSS = 1.06                                    # time, where both operands are copied across, not one


def operand_form(tensor, rows: int, row_step: int, depth: int, depth_step: int, batch: tuple) -> int:
    """How threads read an operand: in vectors of 4 where rows or depths are neighbours,
    else lanes along the closer one."""
    aligned = tensor.alignment >= min(16, 4 * tensor.dtype.bytes) and not any(s % 4 for s in batch)
    if aligned and row_step == 1 and rows % 4 == 0 and depth_step % 4 == 0:
        return ROW_VECTORS
    if aligned and depth_step == 1 and depth % 4 == 0 and row_step % 4 == 0:
        return DEPTH_VECTORS
    return ALONG_ROWS if rows > 1 and (depth == 1 or row_step < depth_step) else ALONG_DEPTH


class MatmulSimt(SplitMatmul):
    """Register tiles over double-buffered shared memory; sums in f32 (f64 for f64). f32 on sm_80: operands
    are copied to shared memory past the registers, two steps ahead. A deep product of few tiles is split and
    added in order."""
    index = 199
    takes = core(Matmul, behind=many(Pointwise))
    knobs = (Knob("tile", tuple(ALL)), Knob("splits", lo=1, hi=2 ** 20))

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from no_variant(p, "matmul/matmul_simt.cu", *p.op.reads)
        if p.op.math not in ("f32", p.a.dtype.compute):
            yield f"compute must be f32 for {p.a.dtype} tensors; got {p.op.compute}"
        yield from size_refusals(self.matrices(p)[1])
        yield from fusion.reasons(self._tail(p))

    @staticmethod
    def matrices(p):
        lead = p.lead(p.a.dtype.name)
        return lead, Matrices.of(p.a, p.b, lead.tensor)

    def _tail(self, p):
        return behind_product(p, p.a.dtype.name, 1, p.a.dtype.compute)

    @staticmethod
    def _forms(p, g) -> dict:
        return dict(a_form=operand_form(p.a, g.m, g.a[0], g.k, g.a[1], g.a_batch),
                    b_form=operand_form(p.b, g.n, g.b[1], g.k, g.b[0], g.b_batch))

    @staticmethod
    def ways(p, g, dev, tile):
        rows, columns, *_ = ALL[tile]
        blocks, kind = prod(tiles_of(tile, g.m, g.n).values()) * g.count, p.a.dtype.compute
        over = 1.0
        if tile in ASYNC:
            across = {ALONG_DEPTH, DEPTH_VECTORS}.issuperset(MatmulSimt._forms(p, g).values())
            over = inf if not has_async(p.a, dev) else ACROSS if across else 1.0
        us = lambda splits, depth: tile_us(tile, rows, columns, depth, blocks * splits, dev, kind)
        out = leaving_us(tile, g.m, g.n, g.count, dev, p.a.dtype.bits)
        moved = p.a.dtype.bytes * g.count * (g.m * g.k + g.k * g.n + g.m * g.n)
        out += shallow_us(moved, g.k, dev)
        return blocks, BY_NAME[kind].bytes, lambda splits, depth: over * us(splits, depth) + out

    def tiles(self, p):
        return ALL if p.a.dtype.name == "f32" else TILES

    def configs(self, p, dev):
        return (c for c in super().configs(p, dev) if c.tile not in ASYNC or has_async(p.a, dev))

    def least_us(self, p, dev):
        return arithmetic_us(p, dev)

    def plan(self, p, dev, config):
        lead, g = self.matrices(p)
        if lead.tensor.count == 0:
            return []
        chosen, kind = self.cut(p, dev, config), p.a.dtype
        args = dict(self._forms(p, g),
                    c_along_m=int(chosen.splits == 1 and (g.n == 1 or g.m > 1 and g.c[0] < g.c[1])),
                    a_m=g.a[0], a_k=g.a[1], b_k=g.b[0], b_n=g.b[1])
        return launches(p, g, lead, f"matmul_simt_{kind}_{chosen.tile}", f"matmul_sum_{kind}", kind.compute,
                        chosen, args, tiles_of(chosen.tile, g.m, g.n), fusion.at("epilogue", self._tail(p)))
