"""Forward convolution on CUDA cores, whatever the strides, groups and dilation."""
from __future__ import annotations

from ... import fusion
from ...graph import core, many
from ...ops import ConvFprop, Pointwise
from ...steps import Launch
from ..tile.matrices import too_many
from ..tile.simt import tiles_of
from .simt import ImageSimt, order
from .view import depth_digits


class ConvFpropSimt(ImageSimt):
    """Implicit GEMM: y[npq, k] = im2col(x)[npq, crs] @ w[crs, k], the im2col done by index arithmetic.
    Sums in f32 (f64 for f64)."""
    index = 109
    takes = core(ConvFprop, behind=many(Pointwise))
    v5 = ("IMPLICIT_GEMM",)
    source, form = "conv/conv_fprop_simt.cu", "computed"

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        yield from too_many("c / groups * taps of w", p.w.count // max(p.w.n, 1))

    def product(self, p):
        g = self.geometry(p)
        return g.out_pixels, g.k, g.c * g.taps, g.groups

    def plan(self, p, dev, config):
        lead, g = self.lead(p), self.geometry(p)
        if lead.tensor.count == 0:
            return []
        inner, flags = order(p, g, g.x, g.y, (g.c, g.w.c_step), (g.k, g.w.n_step), is_dense=True)
        digits = depth_digits((g.c, 0), ((n, 0) for n in g.w.size), inner)
        args = dict(x=p.ptr("x"), w=p.ptr("w", g.w_start * p.w.dtype.bytes), alpha=p.scalar("alpha"),
                    **lead.store(p), pixels=g.out_pixels, filters=g.k, depth=g.c * g.taps, flags=flags,
                    channel_inner=int(inner), out=g.y.size, digit=[n for n, _ in digits[:3]], size=g.x.size,
                    stride=g.stride, pad=g.pad, dilation=g.dilation,
                    x_n=g.x.n_step, x_group=g.c * g.x.c_step, x_c=g.x.c_step, x_s=g.x.steps,
                    w_n=g.w.n_step, w_group=g.k * g.w.n_step, w_c=g.w.c_step, w_s=g.w.steps,
                    y_n=g.y.n_step, y_c=g.y.c_step, y_s=g.y.steps)
        extra = dict(tiles_of(config.tile, g.out_pixels, g.k), groups=g.groups)
        front, index = self._index(p, args)
        return [*front, Launch(f"conv_fprop_simt_{p.x.dtype}_{config.tile}_{self.form}",
                               args | dict(index=index), extra, fusion.at("epilogue", self.fused(p)))]

    def _index(self, p, args: dict) -> tuple:
        """Steps that make a table of the depth, and its address."""
        return (), None
