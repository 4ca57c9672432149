"""Gradient of average pooling of rows of 16-byte vectors."""
from __future__ import annotations

from ...graph import core
from ...ops import PoolingBwd
from .view import PoolingEngine, full, no_rank, no_row_vectors, no_rows, plane, too_many, two


class PoolingBwdAvgNchw(PoolingEngine):
    """Averages: a thread makes 16 bytes of a row of dx."""
    index, takes, kernel = 236, core(PoolingBwd), "pooling_bwd_avg_nchw"
    is_max, moves, share = False, ("dy", "dx"), 0.75

    def limits(self, p, dev):
        yield from no_rank(p, 4)
        yield from no_rows(p, "dy", "dx")
        yield from no_row_vectors(p, "dx")
        yield from too_many("elements of dx", p.dx.count)

    def args(self, p, dev):
        window, pad, stride = two(p, p.dx)
        ((h, w), (dx_h, _)), ((p_, q), (dy_h, _)) = plane(p.dx), plane(p.dy)
        row = w * p.dx.dtype.bytes // 16
        return dict(items=p.dx.n * p.dx.c * h * row, full=full(p.op, p.x.rank), h=h, w=w, p=p_, q=q,
                    window_h=window[0], window_w=window[1], pad_h=pad[0], pad_w=pad[1], stride_h=stride[0],
                    stride_w=stride[1], vectors=row, rows=h, channels=p.dx.c, dy_n=p.dy.strides[0],
                    dy_c=p.dy.strides[1], dy_h=dy_h, dx_n=p.dx.strides[0], dx_c=p.dx.strides[1], dx_h=dx_h)
