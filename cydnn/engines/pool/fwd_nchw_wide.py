"""Forward pooling of rows of 16-byte vectors."""
from __future__ import annotations

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import PoolingFwd
from ..engine import wrong_device
from .view import PoolingEngine, full, no_row_vectors, no_rows, no_square_window, state, too_many

STRIP = 2                                        # output rows of one thread: Strip in the kernel


class PoolingFwdNchwWide(PoolingEngine):
    """2 x 2 and 3 x 3 windows of stride 2 over rows of 16-byte vectors."""
    index, takes, kernel = 244, core(PoolingFwd), "pooling_fwd_nchw_wide"
    share = 0.85

    def limits(self, p, dev):
        yield from wrong_device(dev, 80)
        yield from no_square_window(p)
        yield from no_rows(p, "x", "y")
        yield from no_row_vectors(p, "x")
        (k, *_), (*_, pad), _ = p.op.geometry(p.x.rank)
        if pad > k - 2:
            yield f"pad of w must be at most {k - 2}; got {pad}"
        yield from too_many("outputs", p.y.count)

    def variant(self, p):
        return state(p.op), p.op.geometry(4)[0][0]

    def args(self, p, dev):
        x, y = p.x, p.y
        _, (pad_h, pad_w), _ = p.op.geometry(4)
        width = 16 // x.dtype.bytes
        row, strips, outs = x.dims[3] // width, ceil_div(y.dims[2], STRIP), width // 2
        is_aligned = y.alignment >= 8 and not any(s % outs for s, n in zip(y.strides[:3], y.dims) if n > 1)
        return dict(items=y.n * y.c * strips * row, full=full(p.op, 4), h=x.dims[2], w=x.dims[3],
                    p=y.dims[2], q=y.dims[3], pad_h=pad_h, pad_w=pad_w,
                    is_even=int(y.dims[3] == row * outs and is_aligned), vectors=row, strips=strips,
                    channels=y.c, x_n=x.strides[0], x_c=x.strides[1], x_h=x.strides[2],
                    y_n=y.strides[0], y_c=y.strides[1], y_h=y.strides[2])
