"""Forward convolution on tensor cores (mma.sync), NHWC."""
from __future__ import annotations

from ...fusion import Epilogue
from ...ops import ConvFprop
from . import mma
from ..engine import Engine, memory_us
from ...steps import Launch


def gemm(g: mma.Geometry, dev):
    """The tile and its microseconds."""
    return mma.best_tile(dev, g.pixels, g.k, mma.ceil_div(g.chunks, 8), g.groups)


def launch(p, g: mma.Geometry, tile, x, w, y, *, beta, fuse=None, store=None) -> Launch:
    """The convolution of packed operands."""
    channels = mma.padded(g.c * g.groups) // mma.CHUNK
    args = dict(x=x, w=w, y=y, alpha=p.scalar("alpha"), beta=beta, rows=g.pixels, cols=g.k, chunks=g.chunks, pixel_chunks=channels,
                channels=g.k * g.groups, n_tiles=mma.ceil_div(g.k, tile.n), tap_chunks=mma.padded(g.c) // mma.CHUNK, groups=g.groups,
                **g.window())
    return Launch(f"conv_fprop_mma_{tile}_{p.x.dtype}_{store or p.x.dtype}", args, fuse=fuse)


class ConvFpropMma(Engine):
    """y[npq, k] = im2col(x)[npq, trsc] @ w[k, trsc]^T, the im2col done by index arithmetic; the epilogue fuses pointwise nodes."""
    index = 110
    op = ConvFprop
    fuses_epilogue = True
    notes = ("tensor_core", "deterministic")

    def refuse(self, p, dev):
        yield from mma.refusals(p, dev, p.x, p.w, p.out)
        yield from mma.not_nhwc("x", p.x)
        yield from mma.no_pixel_stride("w", p.w)
        yield from mma.not_nhwc("y", p.out)
        if p.epilogue:
            yield from Epilogue.refuse(p)

    def cost(self, p, dev):
        g = mma.Geometry.of(p.op, p.x, p.w, p.y)
        return mma.copies_us(dev, p.x, p.w) + max(memory_us(p, dev), 2.0 + gemm(g, dev)[1])

    def configs(self, p, dev):
        return mma.tile_configs(dev)

    def plan(self, p, dev, tile=None):
        g, steps = mma.Geometry.of(p.op, p.x, p.w, p.y), []
        x, w = mma.packed_operand(p, "x", steps), mma.packed_operand(p, "w", steps)
        tile = mma.named(tile) if tile else gemm(g, dev)[0]
        return [*steps, launch(p, g, tile, x, w, p.out_ptr(), beta=p.scalar("beta"), fuse=Epilogue.from_match(p))]
