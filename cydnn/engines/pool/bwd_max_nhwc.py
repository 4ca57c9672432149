"""Gradient of max pooling with channels innermost: winners of the windows over a tile, then a gather."""
from __future__ import annotations

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import PoolingBwd
from .view import (SMEM, PoolingEngine, log2_ceil, nan_wins, no_channel_vectors, no_rank, no_room, plane,
                   square, too_many, touching, two, vectors)


def tile_of(p):
    """(tile of dx, most windows that touch it, log2 of lanes) with the winners' codes in shared memory, or
    None when they do not fit."""
    (window, _, stride), (sizes, _), (outs, _) = two(p, p.dx), plane(p.dx), plane(p.dy)
    lanes_log2 = min(3, log2_ceil(vectors(p.dx)))
    tile = [min(16, size) for size in sizes]
    while True:
        most = tuple(touching(*column) for column in zip(tile, window, stride, outs))
        if 16 * most[0] * most[1] << lanes_log2 <= SMEM:
            return tuple(tile), most, lanes_log2
        if max(tile) > 4 or max(tile) > 1 and not lanes_log2:
            tile[tile.index(max(tile))] //= 2
        elif lanes_log2:
            lanes_log2 -= 1
        else:
            return None


class PoolingBwdMaxNhwc(PoolingEngine):
    """Maxima: a block finds the winners of the windows over its tile once, then every cell gathers."""
    index, takes, kernel = 238, core(PoolingBwd), "pooling_bwd_max_nhwc"
    is_max, moves, share = True, ("x", "dy", "dx"), 0.6

    def limits(self, p, dev):
        yield from no_rank(p, 4)
        yield from no_channel_vectors(p, "x", "dy", "dx")
        yield from too_many("dx vectors", p.dx.count)
        yield from no_room(p, tile_of)

    def variant(self, p):
        return nan_wins(p.op), square(p)

    def args(self, p, dev):
        (window, pad, stride), ((h, w), (dx_h, dx_w)) = two(p, p.dx), plane(p.dx)
        ((p_, q), (dy_h, dy_w)), (_, (x_h, x_w)) = plane(p.dy), plane(p.x)
        (tile_h, tile_w), (most_h, most_w), lanes_log2 = tile_of(p)
        chunks = ceil_div(vectors(p.dx), 1 << lanes_log2)
        return dict(channels=p.dx.c, h=h, w=w, p=p_, q=q, window_h=window[0], window_w=window[1],
                    pad_h=pad[0], pad_w=pad[1], stride_h=stride[0], stride_w=stride[1],
                    tile_h=tile_h, tile_w=tile_w, most_h=most_h, most_w=most_w, lanes_log2=lanes_log2,
                    chunks=chunks, tiles_w=ceil_div(w, tile_w), tiles_h=ceil_div(h, tile_h),
                    x_n=p.x.strides[0], x_h=x_h, x_w=x_w, dy_n=p.dy.strides[0], dy_h=dy_h, dy_w=dy_w,
                    dx_n=p.dx.strides[0], dx_h=dx_h, dx_w=dx_w)

    def extra(self, p, args):
        return dict(blocks=args["chunks"] * args["tiles_w"] * args["tiles_h"] * p.dx.n)
