"""Forward pooling with channels innermost, in strips along w."""
from __future__ import annotations

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import PoolingFwd
from .view import PoolingEngine, full, no_channel_vectors, no_square_window, state, too_many, vectors

STRIP = {2: 4, 3: 2}                             # outputs along w of one thread, by window


class PoolingFwdNhwcStrip(PoolingEngine):
    """2 x 2 and 3 x 3 windows of stride 2: every load serves a strip of outputs along w."""
    index, takes, kernel = 230, core(PoolingFwd), "pooling_fwd_nhwc_strip"
    share = 0.85

    def limits(self, p, dev):
        yield from no_square_window(p)
        yield from no_channel_vectors(p, "x", "y")
        yield from too_many("output vectors", p.y.count)

    def variant(self, p):
        return state(p.op), p.op.geometry(4)[0][0]

    def args(self, p, dev):
        x, y = p.x, p.y
        (k, _), (pad_h, pad_w), _ = p.op.geometry(4)
        strips = ceil_div(y.dims[3], STRIP[k])
        return dict(items=y.n * y.dims[2] * strips * vectors(y), full=full(p.op, 4), h=x.dims[2], w=x.dims[3],
                    p=y.dims[2], q=y.dims[3], pad_h=pad_h, pad_w=pad_w, vectors=vectors(y), strips=strips,
                    rows=y.dims[2], x_n=x.strides[0], x_h=x.strides[2], x_w=x.strides[3],
                    y_n=y.strides[0], y_h=y.strides[2], y_w=y.strides[3])
