"""Matrix product of any types, strides and sizes, with pointwise operations in front of it and behind it."""
from __future__ import annotations

from math import prod

from ... import fusion
from ...dtypes import BY_NAME
from ...fusion import Site
from ...graph import core, many
from ...ops import Matmul, Pointwise
from ...steps import Launch
from ..engine import Knob, wrong_device
from ..sums import lead_input, sum_type, wrong_sums
from ..tile.matrices import Matrices, size_refusals
from ..tile.simt import SMALL, SMALL_KNOB, arithmetic_us, tile_us, tiles_of
from ..tile.split_k import SplitMatmul


class MatmulAny(SplitMatmul):
    """Spliced code loads both operands, through the nodes in front, and stores c, through the nodes behind;
    sums in f32, f64 or i32. A deep product of few tiles is split and added in order."""
    index = 180
    takes = core(Matmul, before=many(Pointwise, at="a b"), behind=many(Pointwise))
    knobs = (SMALL_KNOB, Knob("splits", lo=1, hi=2 ** 20))

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from wrong_sums(p)
        yield from size_refusals(self.matrices(p)[1])
        yield from fusion.reasons(self._load(p, "a"), self._load(p, "b"), self._store(p))

    @staticmethod
    def matrices(p):
        """(lead of c, the matrices as the kernel walks them:
        operands that nothing lies beside have strides of their own)."""
        lead = p.lead()
        a, b = (lead_input(p, name) or p.operands[name] for name in ("a", "b"))
        return lead, Matrices.of(a, b, lead.tensor)

    @fusion.attempt
    def _load(self, p, name):
        g, tensor = self.matrices(p)[1], p.operands[name]
        rank = len(tensor.dims)
        rows, columns = ("row", "depth") if name == "a" else ("depth", "col")
        keys = (("batch", g.batch_axes), (rows, (rank - 2,)), (columns, (rank - 1,)))
        outer = p.graph.tensors[p.uids["c"]].dims[:-2]
        mine = [n if d == 1 else d for d, n in zip(tensor.dims, outer)]
        shares = [n // d if d else 1 for d, n in zip(mine, outer)]
        site = Site((*mine, *tensor.dims[-2:]), lead_input(p, name), keys, shares=(*shares, 1, 1))
        return fusion.before(p, name, site, fusion.math_before(p, name, sum_type(p)))

    @fusion.attempt
    def _store(self, p):
        lead, g = self.matrices(p)
        rank = len(lead.tensor.dims)
        keys = (("batch", g.batch_axes), ("row", (rank - 2,)), ("col", (rank - 1,)))
        site = Site(lead.tensor.dims, lead.tensor, keys)
        return fusion.behind(p, site, lead._replace(is_native=False), mark_type=sum_type(p), alpha="alpha",
                             beta="beta")

    @staticmethod
    def ways(p, g, dev, tile):
        rows, columns, *_ = SMALL[tile]
        blocks, kind = prod(tiles_of(tile, g.m, g.n).values()) * g.count, sum_type(p)
        estimate = lambda splits, depth: 2 * tile_us(tile, rows, columns, depth, blocks * splits, dev, kind)
        return blocks, BY_NAME[kind].bytes, estimate

    def least_us(self, p, dev):
        return arithmetic_us(p, dev)

    def plan(self, p, dev, config):
        lead, g = self.matrices(p)
        if lead.tensor.count == 0:
            return []
        chosen, kind = self.cut(p, dev, config), sum_type(p)
        parts = None
        if chosen.splits > 1:
            parts = p.scratch(chosen.splits * g.count * g.m * g.n * BY_NAME[kind].bytes)
        flags = (g.a[1] < g.a[0] or g.m == 1) | 2 * (g.b[0] < g.b[1] or g.n == 1)
        flags |= 4 * (g.n == 1 or g.m > 1 and g.c[0] < g.c[1])
        args = dict(parts=parts, m=g.m, n=g.n, k=g.k, split_k=chosen.each, batches=g.count, flags=flags,
                    a_m=g.a[0], a_k=g.a[1], b_k=g.b[0], b_n=g.b[1], c_m=g.c[0], c_n=g.c[1], **g.batches())
        extra = dict(tiles_of(chosen.tile, g.m, g.n), splits=chosen.splits)
        loads, store = {"load_a": self._load(p, "a"), "load_b": self._load(p, "b")}, self._store(p)
        kernel = f"matmul_any_{kind}_{chosen.tile}"
        if parts is None:
            return [Launch(kernel, args, extra, {**loads, "store": store})]
        one = 1 if kind == "i32" else 1.0
        total = dict(parts=parts, c=None, alpha=one, beta=0 * one, c_m=g.c[0], c_n=g.c[1],
                     count=g.count * g.m * g.n, splits=chosen.splits, m=g.m, n=g.n, batch=g.batch,
                     c_batch=g.c_batch)
        return [Launch(kernel, args, extra, loads),
                Launch(f"matmul_sum_{kind}", total, {}, {"epilogue": store})]
