"""Softmax and its gradient of any rank, strides and float type."""
from __future__ import annotations

from typing import ClassVar

from ...graph import core
from ...ops import SoftmaxBwd, SoftmaxFwd
from ...steps import Launch
from ..engine import Config, Knob, first_then
from .view import SoftmaxEngine, form, form_to_check, given, padded, shared_args, stream_us, too_long

WIDTHS = (32, 256)                               # the kernels' axis: lanes of a row
LONG = 1024                                      # columns from which a block takes a row


class SoftmaxGeneric(SoftmaxEngine):
    """``again``: times that the inputs are read after the first."""
    knobs = (Knob("threads_per_row", WIDTHS),)
    again: ClassVar[float] = 0.0

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if f := form_to_check(p):
            yield from too_long(f)

    def configs(self, p, dev):
        best = WIDTHS[form(p).col_count >= LONG]
        return first_then(Config(threads_per_row=best), (Config(threads_per_row=w) for w in WIDTHS))

    def cost(self, p, dev, config):
        if not p.descs[0].count:
            return dev.launch_us
        f = form(p)
        is_block = config.threads_per_row == WIDTHS[-1]
        blocks = f.row_count if is_block else f.row_count / 8
        busy = min(f.col_count / LONG, 1.0) if is_block else 1.0          # lanes without columns wait
        return stream_us(p, dev, max(1, blocks / 4), extra_reads=self.again, efficiency=0.2 * busy)

    def plan(self, p, dev, config):
        if not p.descs[0].count:
            return []
        f = form(p)
        args = dict(shared_args(p), rows=f.row_count, cols=f.col_count, row_dims=padded(f.rows, 1),
                    col_dims=padded(f.cols, 1))
        args |= {f"{name}_rows": padded(s, 0) for name, s in zip(given(p), f.row_strides)}
        args |= {f"{name}_cols": padded(s, 0) for name, s in zip(given(p), f.col_strides)}
        return [Launch(f"{self.kernel}_{p.descs[0].dtype}_{config.threads_per_row}", args)]


class SoftmaxFwdGeneric(SoftmaxGeneric):
    """A warp or a block a row, x read three times."""
    index, takes, kernel = 215, core(SoftmaxFwd), "softmax_fwd_generic"
    again = 2.0


class SoftmaxBwdGeneric(SoftmaxGeneric):
    """A warp or a block a row, y and dy read twice."""
    index, takes, kernel = 225, core(SoftmaxBwd), "softmax_bwd_generic"
    again = 1.0
