"""Pooling of rows with w innermost: forward and gradients."""
from __future__ import annotations

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import PoolingBwd, PoolingFwd
from ..engine import wrong_device
from .view import (PoolingEngine, full, no_rank, no_row_vectors, no_rows, no_square_window, plane, state,
                   too_many, two)

WIDE_ROWS = 2                                    # output rows of one thread: Strip in the kernel


class PoolingFwdNchwWide(PoolingEngine):
    """2 x 2 and 3 x 3 windows of stride 2 over rows of 16-byte vectors."""
    index, takes, kernel = 244, core(PoolingFwd), "pooling_fwd_nchw_wide"

    def refuse(self, p, dev):
        yield from self.shared_reasons(p, dev)
        yield from wrong_device(dev, 80)
        yield from no_square_window(p)
        yield from no_rows(p, "x", "y")
        yield from no_row_vectors(p, "x")
        (k, *_), (*_, pad), _ = p.op.geometry(p.x.rank)
        if pad > k - 2:
            yield f"pad of w must be at most {k - 2}; got {pad}"
        yield from too_many("outputs", p.y.count)

    def cost(self, p, dev, config):
        return self.moved_us(p, dev, 0.85)

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        x, y = p.x, p.y
        _, (pad_h, pad_w), _ = p.op.geometry(4)
        width = 16 // x.dtype.bytes
        row, strips, outs = x.dims[3] // width, ceil_div(y.dims[2], WIDE_ROWS), width // 2
        is_aligned = y.alignment >= 8 and not any(s % outs for s, n in zip(y.strides[:3], y.dims) if n > 1)
        args = dict(items=y.n * y.c * strips * row, full=full(p.op, 4), h=x.dims[2], w=x.dims[3],
                    p=y.dims[2], q=y.dims[3], pad_h=pad_h, pad_w=pad_w,
                    is_even=int(y.dims[3] == row * outs and is_aligned), vectors=row, strips=strips,
                    channels=y.c, x_n=x.strides[0], x_c=x.strides[1], x_h=x.strides[2],
                    y_n=y.strides[0], y_c=y.strides[1], y_h=y.strides[2])
        return self.launches(p, args, state(p.op), p.op.geometry(4)[0][0])


STRIP_ROWS = 4                                   # outputs below each other of one thread


class PoolingFwdNchwStrip(PoolingEngine):
    """2 x 2 and 3 x 3 windows of stride 2: a thread makes four outputs below each other."""
    index, takes, kernel = 232, core(PoolingFwd), "pooling_fwd_nchw_strip"

    def refuse(self, p, dev):
        yield from self.shared_reasons(p, dev)
        yield from no_square_window(p)
        yield from no_rows(p, "x", "y")
        yield from too_many("outputs", p.y.count)

    def cost(self, p, dev, config):
        return self.moved_us(p, dev, 0.8)

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        x, ((k, _), (_, pad_w), _) = p.x, p.op.geometry(4)
        is_even = not any(s % 2 for s, n in zip(x.strides[:3], x.dims) if n > 1) and x.dims[3] % 2 == 0
        variant = state(p.op), k, int(is_even and pad_w <= k - 2 and x.alignment >= 2 * x.dtype.bytes)
        x, y = p.x, p.y
        _, (pad_h, pad_w), _ = p.op.geometry(4)
        strips = ceil_div(y.dims[2], STRIP_ROWS)
        args = dict(items=y.n * y.c * strips * y.dims[3], full=full(p.op, 4), h=x.dims[2], w=x.dims[3],
                    p=y.dims[2], q=y.dims[3], pad_h=pad_h, pad_w=pad_w, columns=y.dims[3], strips=strips,
                    channels=y.c, x_n=x.strides[0], x_c=x.strides[1], x_h=x.strides[2],
                    y_n=y.strides[0], y_c=y.strides[1], y_h=y.strides[2])
        return self.launches(p, args, *variant)


class PoolingBwdAvgNchw(PoolingEngine):
    """Averages: a thread makes 16 bytes of a row of dx."""
    index, takes, kernel = 236, core(PoolingBwd), "pooling_bwd_avg_nchw"
    is_max, moves = False, ("dy", "dx")

    def refuse(self, p, dev):
        yield from self.shared_reasons(p, dev)
        yield from no_rank(p, 4)
        yield from no_rows(p, "dy", "dx")
        yield from no_row_vectors(p, "dx")
        yield from too_many("elements of dx", p.dx.count)

    def cost(self, p, dev, config):
        return self.moved_us(p, dev, 0.75)

    def plan(self, p, dev, config):
        if not p.dx.count:
            return []
        window, pad, stride = two(p, p.dx)
        ((h, w), (dx_h, _)), ((p_, q), (dy_h, _)) = plane(p.dx), plane(p.dy)
        row = w * p.dx.dtype.bytes // 16
        args = dict(items=p.dx.n * p.dx.c * h * row, full=full(p.op, p.x.rank), h=h, w=w, p=p_, q=q,
                    window_h=window[0], window_w=window[1], pad_h=pad[0], pad_w=pad[1], stride_h=stride[0],
                    stride_w=stride[1], vectors=row, rows=h, channels=p.dx.c, dy_n=p.dy.strides[0],
                    dy_c=p.dy.strides[1], dy_h=dy_h, dx_n=p.dx.strides[0], dx_c=p.dx.strides[1], dx_h=dx_h)
        return self.launches(p, args)
