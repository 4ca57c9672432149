"""Forward pooling of contiguous rows in strips."""
from __future__ import annotations

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import PoolingFwd
from .view import PoolingEngine, full, no_rows, no_square_window, state, too_many

STRIP = 4                                        # outputs below each other of one thread


class PoolingFwdNchwStrip(PoolingEngine):
    """2 x 2 and 3 x 3 windows of stride 2: a thread makes four outputs below each other."""
    index, takes, kernel = 232, core(PoolingFwd), "pooling_fwd_nchw_strip"

    def limits(self, p, dev):
        yield from no_square_window(p)
        yield from no_rows(p, "x", "y")
        yield from too_many("outputs", p.y.count)

    def variant(self, p):
        x, ((k, _), (_, pad_w), _) = p.x, p.op.geometry(4)
        is_even = not any(s % 2 for s, n in zip(x.strides[:3], x.dims) if n > 1) and x.dims[3] % 2 == 0
        return state(p.op), k, int(is_even and pad_w <= k - 2 and x.alignment >= 2 * x.dtype.bytes)

    def args(self, p, dev):
        x, y = p.x, p.y
        _, (pad_h, pad_w), _ = p.op.geometry(4)
        strips = ceil_div(y.dims[2], STRIP)
        return dict(items=y.n * y.c * strips * y.dims[3], full=full(p.op, 4), h=x.dims[2], w=x.dims[3],
                    p=y.dims[2], q=y.dims[3], pad_h=pad_h, pad_w=pad_w, columns=y.dims[3], strips=strips,
                    channels=y.c, x_n=x.strides[0], x_c=x.strides[1], x_h=x.strides[2],
                    y_n=y.strides[0], y_c=y.strides[1], y_h=y.strides[2])
