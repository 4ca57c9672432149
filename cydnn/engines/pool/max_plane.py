"""Gradient of max pooling of planes with shared winners, any strides."""
from __future__ import annotations

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import PoolingBwd
from .view import SMEM, PoolingEngine, nan_wins, no_rank, no_room, plane, square, too_many, touching, two


def tile_of(p):
    """(tile of dx, most windows that touch it) with the winners' codes in shared memory, or None when they do
    not fit."""
    (window, _, stride), ((h, w), _), (outs, _) = two(p, p.dx), plane(p.dx), plane(p.dy)
    tile = [min(h, max(4096 // max(min(w, 64), 1), 1)), min(w, 64)]
    while True:
        most = tuple(touching(*column) for column in zip(tile, window, stride, outs))
        if 2 * most[0] * most[1] <= SMEM:
            return tuple(tile), most
        if max(tile) == 1:
            return None
        tile[tile.index(max(tile))] //= 2


class PoolingBwdMaxPlane(PoolingEngine):
    """Maxima, any strides, lanes along w: winners of the windows over a tile, then a gather."""
    index, takes, kernel = 239, core(PoolingBwd), "pooling_bwd_max_plane"
    is_max, moves = True, ("x", "dy", "dx")

    def refuse(self, p, dev):
        yield from self.shared_reasons(p, dev)
        yield from no_rank(p, 4)
        yield from too_many("elements of dx", p.dx.count)
        yield from no_room(p, tile_of)

    def cost(self, p, dev, config):
        return self.moved_us(p, dev, 0.35 if p.dx.strides[-1] == 1 else 0.1)

    def plan(self, p, dev, config):
        if not p.dx.count:
            return []
        (window, pad, stride), ((h, w), _), ((p_, q), _) = two(p, p.dx), plane(p.dx), plane(p.dy)
        (tile_h, tile_w), (most_h, most_w) = tile_of(p)
        planes = p.dx.n * p.dx.c
        fitting = min(2048 // (tile_h * tile_w), SMEM // (2 * most_h * most_w))
        strides = {f"{name}_strides": (*reversed(plane(d)[1]), d.strides[1], d.strides[0])
                   for name, d in (("x", p.x), ("dy", p.dy), ("dx", p.dx))}
        args = dict(planes=planes, h=h, w=w, p=p_, q=q, window_h=window[0], window_w=window[1], pad_h=pad[0],
                    pad_w=pad[1], stride_h=stride[0], stride_w=stride[1],
                    group=max(1, min(fitting, ceil_div(planes, 4 * dev.sms))), tile_h=tile_h, tile_w=tile_w,
                    most_h=most_h, most_w=most_w, tiles_w=ceil_div(w, tile_w), tiles_h=ceil_div(h, tile_h),
                    channels=p.dx.c, **strides)
        return self.launches(p, args, nan_wins(p.op), square(p))
