"""Gradients of 3x3 filters by Winograd's transforms: tiles of dy are the filters of a correlation of x.

dw = A^T [sum over tiles of (G dy G^T) * (B^T x B)] A (kernels in kernels_src/conv/conv_winograd_*.cu). The
sums at one point of the transformed tiles are one matrix product, over the tiles of all images. Everything
between input and output is f32, whatever the tensors' types.
"""
from __future__ import annotations

from math import prod

import numpy as np

from ...graph import core, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvWgrad
from ...steps import Launch, placed
from ..engine import moved_us
from ..nested import NestedOp
from ..tile.matrices import too_many
from .winograd import AREAS, EFFICIENCY, MATRICES, InTiles, at_points, is_inner, lanes, patches

GRADIENT = {                                     # gradients of a tile, in one dim: (G, A^T)
    2: ([[1, 0], [1 / 2, 1 / 2], [1 / 2, -1 / 2], [0, 1]],
        [[1, 1, 1, 0], [0, 1, -1, 0], [0, 1, 1, -1]]),
    4: ([[1 / 4, 0, 0, 0], [-1 / 6, -1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6, 1 / 6],
         [1 / 24, 1 / 12, 1 / 6, 1 / 3], [1 / 24, -1 / 12, 1 / 6, -1 / 3], [0, 0, 0, 1]],
        [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 1]]),
}


class ConvWgradWinograd2(InTiles):
    """F(3x3, 2x2): 2.25 times fewer multiplications, as products of 16 matrices in the workspace; the sums
    are as accurate as direct ones. An Inf or NaN spreads over all taps of its channels."""
    index = 153
    takes = core(ConvWgrad)
    notes = ("deterministic", "winograd", "winograd_tile_4x4")
    out = 2

    def refuse(self, p, dev):
        yield from self.wrong(p, dev, "conv/conv_winograd_gradient.cu")
        if p.x.rank == 4:
            yield from too_many("pixels of dy (n and spatial dims)",
                                p.dy.n * prod(n + self.out for n in p.dy.spatial))

    def tiled(self, p):
        return self.geometry(p).y

    def row_bytes(self, p):
        return 4 * self.points * (p.x.c + self._pitch(p))

    def _pitch(self, p) -> int:
        """Channels of dy, in whole vectors where they are innermost."""
        return ceil_div(p.dy.c, 4) * 4 if is_inner(self.tiled(p)) else p.dy.c

    @once_per_match
    def _product(self, p, rows: int, beta: float) -> NestedOp:
        """Channels of dy by those of x, summed over tiles, at every point."""
        c, pitch = p.x.c, self._pitch(p)
        across = (1, pitch) if is_inner(self.tiled(p)) else (rows, 1)
        return at_points(self.products, self.points, ((pitch, rows), across), ((rows, c), (1, rows)),
                         ((pitch, c), (c, 1)), beta=beta)

    def cost(self, p, dev, config):
        rows, pitch = self.rows(p, config.chunks), self._pitch(p)
        if not p.dw.count:
            return dev.launch_us
        parts, each = ceil_div(max(self.tiles(p)[0], 1), rows), 4 * self.points
        product = self._product(p, rows, float(parts > 1)).choice(dev)[0] - dev.launch_us
        read = sum(moved_us(d.bytes / parts + each * rows * n, dev, EFFICIENCY)
                   for d, n in ((p.x, p.x.c), (p.dy, pitch)))
        return (parts * (product + read + dev.launch_us)
                + moved_us(p.dw.bytes + each * p.x.c * pitch, dev, EFFICIENCY / 2))

    def plan(self, p, dev, config):
        if not p.dw.count:
            return []
        g, (tiles, down, along) = self.geometry(p), self.tiles(p)
        cuts, each = self.cuts(p, config.chunks) or [(0, 0)], 4 * self.points
        sums = p.scratch(each * self._pitch(p) * p.x.c)
        front, turned = (p.scratch(each * cuts[0][1] * n) for n in (self._pitch(p), p.x.c))
        where, steps = dict(zip(AREAS, (front, turned, sums))), []
        for first, some in cuts:
            common = dict(first=first, tiles=tiles, tiles_w=along, tiles_h=down)
            steps += [self._gradient(p, front, some, common),
                      self.transformed(p, g.x, g.pad[1:], turned, some, common)] if some else []
            steps += placed(self._product(p, some, float(first > 0)).steps(dev), where)
        return [*steps, self._taps(p, sums)]

    def _gradient(self, p, to, rows: int, common) -> Launch:
        y = self.tiled(p)
        args = dict(common, dy=p.ptr("dy"), to=to, rows=rows, channels=y.c, pitch=self._pitch(p),
                    size=y.size[1:], y_n=y.n_step, y_c=y.c_step, y_s=y.steps[1:])
        return Launch(f"conv_winograd_gradient_{p.dy.dtype}_{self.out}_{lanes(y)}", args)

    def _taps(self, p, sums) -> Launch:
        g = self.geometry(p)
        args = {"from": sums}
        args.update(dw=p.ptr("dw", g.w_start * p.dw.dtype.bytes), alpha=p.scalar("alpha"),
                    beta=p.scalar("beta"), inputs=g.c, outputs=g.k, w_in=g.w.c_step, w_out=g.w.n_step,
                    w_r=g.w.steps[1], w_s=g.w.steps[2], point=self._pitch(p) * g.c)
        return Launch(f"conv_winograd_taps_{p.dw.dtype}_{self.out}", args)

    def magnitude(self, op, arrays, scalars, results):
        """The transforms with the absolute values of their matrices, on absolute values, as of the forward
        pass."""
        found = spread(np.abs(arrays["x"]), np.abs(arrays["dy"]), op.spread("pre_pad", 2), self.out)
        return dict(dw=found if op.mode == "cross_correlation" else np.flip(found, (2, 3)))


class ConvWgradWinograd4(ConvWgradWinograd2):
    """F(3x3, 4x4): four times fewer multiplications, as products of 36 matrices in the workspace; rounding
    errors are about ten times those of direct sums. An Inf or NaN spreads over all taps of its channels."""
    index = 156
    notes = ("deterministic", "winograd", "winograd_tile_6x6")
    only_for = ("winograd", "winograd_tile_6x6")
    out = 4


def spread(x, dy, pad, out: int) -> np.ndarray:
    """|A^T| [sum over tiles of (|G| dy |G^T|) * (|B^T| x |B|)] |A|, (k, c, 3, 3), in float64."""
    b, (g, a) = np.abs(np.array(MATRICES[out][0], float)), (np.abs(np.array(m)) for m in GRADIENT[out])
    tiles = [ceil_div(n, out) for n in dy.shape[2:]]
    full = np.zeros((*dy.shape[:2], *(n * out for n in tiles)))
    full[:, :, :dy.shape[2], :dy.shape[3]] = dy
    full = full.reshape(*dy.shape[:2], tiles[0], out, tiles[1], out)
    front = np.einsum("ip,nkxpyq,jq->ijknxy", g, full, g, optimize=True)
    seen = np.einsum("ir,ncxyrs,js->ijcnxy", b, patches(x, pad, tiles, out), b, optimize=True)
    sums = np.einsum("ijknxy,ijcnxy->ijkc", front, seen, optimize=True)
    return np.einsum("ri,ijkc,sj->kcrs", a, sums, a, optimize=True)
