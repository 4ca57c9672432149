"""Softmax of any rank, strides and float type."""
from __future__ import annotations

from ...ops import SoftmaxBwd, SoftmaxFwd
from ..engine import Engine, wrong_device
from .view import form, is_log, padded, stream_us, too_long, wrong_math
from ...steps import Launch

WIDTHS = (32, 256)                               # the kernels' axis: lanes of a row
LONG = 1024                                      # columns from which a block takes a row, unless a config says otherwise


class _Generic(Engine):
    kernel = ""
    reads = 0.0

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from wrong_math(p, "f64", "f32", "f16", "bf16")
        if p.descs[0].count:
            yield from too_long(form(p))

    def cost(self, p, dev):
        if not p.descs[0].count:
            return 2.0
        f = form(p)
        blocks = f.row_count if f.col_count >= LONG else f.row_count / 8
        return stream_us(p, dev, max(1, blocks / 4), extra_reads=self.reads, efficiency=0.2)

    def configs(self, p, dev):
        return [dict(width=w) for w in WIDTHS]

    def plan(self, p, dev, width=None):
        if not p.descs[0].count:
            return []
        f = form(p)
        args = {name: p.ptr(name) for name in p.operands}
        args |= {f"{name}_rows": padded(s, 0) for name, s in zip(p.operands, f.row_strides)}
        args |= {f"{name}_cols": padded(s, 0) for name, s in zip(p.operands, f.col_strides)}
        args |= dict(rows=f.row_count, cols=f.col_count, row_dims=padded(f.rows, 1), col_dims=padded(f.cols, 1), is_log=is_log(p),
                     alpha=p.scalar("alpha"), beta=p.scalar("beta"))
        return [Launch(f"{self.kernel}_{p.descs[0].dtype}_{width or WIDTHS[f.col_count >= LONG]}", args)]


class SoftmaxFwdGeneric(_Generic):
    """A warp or a block a row, x read three times."""
    index, op, kernel, reads = 215, SoftmaxFwd, "softmax_fwd_generic", 2.0


class SoftmaxBwdGeneric(_Generic):
    """A warp or a block a row, y and dy read twice."""
    index, op, kernel, reads = 225, SoftmaxBwd, "softmax_bwd_generic", 1.0
