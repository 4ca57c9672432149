"""Pooling with channels innermost: forward and gradients."""
from __future__ import annotations

from math import prod

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import PoolingBwd, PoolingFwd
from ..engine import wrong_device
from .view import (MOST, SMEM, PoolingEngine, at_least_1, full, inner_first, items_of, log2_ceil, nan_wins,
                   no_channel_vectors, no_rank, no_room, no_square_window, plane, square, state, strides_of,
                   three, too_many, touching, two, vectors)


class PoolingFwdNhwc(PoolingEngine):
    """Any window: the cells of a window as one list, eight loads in flight."""
    index, takes, kernel = 231, core(PoolingFwd), "pooling_fwd_nhwc"

    def refuse(self, p, dev):
        yield from self.shared_reasons(p, dev)
        yield from no_channel_vectors(p, "x", "y")
        yield from too_many("output vectors", p.y.count)

    def cost(self, p, dev, config):
        return self.moved_us(p, dev, 0.75)

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        args = dict(items=items_of(p.y), full=full(p.op, p.x.rank), vectors=vectors(p.y),
                    **three(p, p.x.spatial, p.y.spatial), x_strides=strides_of(p.x, channel=False),
                    y_strides=strides_of(p.y, channel=False))
        return self.launches(p, args, state(p.op))


STRIP = {2: 4, 3: 2}                             # outputs along w of one thread, by window


class PoolingFwdNhwcStrip(PoolingEngine):
    """2 x 2 and 3 x 3 windows of stride 2: every load serves a strip of outputs along w."""
    index, takes, kernel = 230, core(PoolingFwd), "pooling_fwd_nhwc_strip"

    def refuse(self, p, dev):
        yield from self.shared_reasons(p, dev)
        yield from no_square_window(p)
        yield from no_channel_vectors(p, "x", "y")
        yield from too_many("output vectors", p.y.count)

    def cost(self, p, dev, config):
        return self.moved_us(p, dev, 0.85)

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        x, y = p.x, p.y
        (k, _), (pad_h, pad_w), _ = p.op.geometry(4)
        strips = ceil_div(y.dims[3], STRIP[k])
        args = dict(items=y.n * y.dims[2] * strips * vectors(y), full=full(p.op, 4), h=x.dims[2], w=x.dims[3],
                    p=y.dims[2], q=y.dims[3], pad_h=pad_h, pad_w=pad_w, vectors=vectors(y), strips=strips,
                    rows=y.dims[2], x_n=x.strides[0], x_h=x.strides[2], x_w=x.strides[3],
                    y_n=y.strides[0], y_h=y.strides[2], y_w=y.strides[3])
        return self.launches(p, args, state(p.op), p.op.geometry(4)[0][0])


TEAM = 8                                         # most warps that share a window
FEW_OUTPUTS = 1 << 18                            # vectors; with more, one thread for each fills the device


class PoolingFwdNhwcTeam(PoolingEngine):
    """Large windows: the warps of a block share out their rows."""
    index, takes, kernel = 241, core(PoolingFwd), "pooling_fwd_nhwc_team"

    def refuse(self, p, dev):
        yield from self.shared_reasons(p, dev)
        yield from no_channel_vectors(p, "x", "y")
        yield from too_many("output vectors", p.y.count)
        window = p.op.geometry(p.x.rank)[0]
        if prod(window) < 16 or len(window) < 2:
            yield f"window must have rows and at least 16 cells; got {window}"

    def cost(self, p, dev, config):
        return self.moved_us(p, dev, 0.8 if items_of(p.y) < FEW_OUTPUTS else 0.7)

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        rows = prod(p.op.geometry(p.x.rank)[0][:-1])
        args = dict(items=items_of(p.y), full=full(p.op, p.x.rank), vectors=vectors(p.y),
                    **three(p, p.x.spatial, p.y.spatial), x_strides=strides_of(p.x, channel=False),
                    y_strides=strides_of(p.y, channel=False), team=min(TEAM, rows))
        return self.launches(p, args, state(p.op))


class PoolingBwdAvgNhwc(PoolingEngine):
    """Averages: a cell gathers the windows over it."""
    index, takes, kernel = 235, core(PoolingBwd), "pooling_bwd_avg_nhwc"
    is_max, moves = False, ("dy", "dx")

    def refuse(self, p, dev):
        yield from self.shared_reasons(p, dev)
        yield from no_channel_vectors(p, "dy", "dx")
        yield from too_many("dx vectors", p.dx.count)

    def cost(self, p, dev, config):
        return self.moved_us(p, dev, 0.8)

    def plan(self, p, dev, config):
        if not p.dx.count:
            return []
        args = dict(items=items_of(p.dx), full=full(p.op, p.x.rank), vectors=vectors(p.dx),
                    cells=at_least_1(inner_first(p.dx.spatial, 1)), **three(p, p.dx.spatial, p.dy.spatial),
                    dy_strides=strides_of(p.dy, channel=False), dx_strides=strides_of(p.dx, channel=False))
        return self.launches(p, args)


class PoolingBwdAvgNhwcApart(PoolingEngine):
    """Averages whose windows do not overlap: a thread spreads one dy."""
    index, takes, kernel = 242, core(PoolingBwd), "pooling_bwd_avg_nhwc_apart"
    is_max, moves = False, ("dy", "dx")

    def refuse(self, p, dev):
        yield from self.shared_reasons(p, dev)
        yield from no_channel_vectors(p, "dy", "dx")
        yield from too_many("dx vectors", p.dx.count)
        window, _, stride = p.op.geometry(p.x.rank)
        if any(k > s and out > 1 for k, s, out in zip(window, stride, p.dy.spatial)):
            yield f"windows must not overlap; got window {window}, stride {stride}"

    def cost(self, p, dev, config):
        return self.moved_us(p, dev, 0.85)

    def plan(self, p, dev, config):
        if not p.dx.count:
            return []
        args = dict(items=items_of(p.dy), full=full(p.op, p.x.rank), vectors=vectors(p.dx),
                    **three(p, p.dx.spatial, p.dy.spatial), dy_strides=strides_of(p.dy, channel=False),
                    dx_strides=strides_of(p.dx, channel=False))
        return self.launches(p, args)


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
    is_max, moves = True, ("x", "dy", "dx")

    def refuse(self, p, dev):
        yield from self.shared_reasons(p, dev)
        yield from no_rank(p, 4)
        yield from no_channel_vectors(p, "x", "dy", "dx")
        yield from too_many("dx vectors", p.dx.count)
        yield from no_room(p, tile_of)

    def cost(self, p, dev, config):
        return self.moved_us(p, dev, 0.6)

    def plan(self, p, dev, config):
        if not p.dx.count:
            return []
        (window, pad, stride), ((h, w), (dx_h, dx_w)) = two(p, p.dx), plane(p.dx)
        ((p_, q), (dy_h, dy_w)), (_, (x_h, x_w)) = plane(p.dy), plane(p.x)
        (tile_h, tile_w), (most_h, most_w), lanes_log2 = tile_of(p)
        chunks = ceil_div(vectors(p.dx), 1 << lanes_log2)
        args = dict(channels=p.dx.c, h=h, w=w, p=p_, q=q, window_h=window[0], window_w=window[1],
                    pad_h=pad[0], pad_w=pad[1], stride_h=stride[0], stride_w=stride[1],
                    tile_h=tile_h, tile_w=tile_w, most_h=most_h, most_w=most_w, lanes_log2=lanes_log2,
                    chunks=chunks, tiles_w=ceil_div(w, tile_w), tiles_h=ceil_div(h, tile_h),
                    x_n=p.x.strides[0], x_h=x_h, x_w=x_w, dy_n=p.dy.strides[0], dy_h=dy_h, dy_w=dy_w,
                    dx_n=p.dx.strides[0], dx_h=dx_h, dx_w=dx_w)
        blocks = args["chunks"] * args["tiles_w"] * args["tiles_h"] * p.dx.n
        return self.launches(p, args, nan_wins(p.op), square(p), blocks=blocks)


STEPS = 16                                       # most pairs of rows in a strip
SHORTEST = {2: 1, 3: 4}                          # and fewest, by window: 3 x 3 begins with a pair read twice
REGISTERS = 128                                  # of a thread, about


def strips_of(p, dev) -> dict:
    """How dx is cut: groups of two pairs of columns, vectors of 8 bytes of channels, and strips of ``height``
    pairs of rows.

    Long strips read and reduce little twice; a small problem takes shorter ones, to have four times the
    threads that run at once.
    """
    (window, pad, _), ((h, w), _) = two(p, p.dx), plane(p.dx)
    rows, groups, vectors = ceil_div(h + pad[0], 2), ceil_div(w + pad[1], 4), p.dx.dtype.bytes_of(p.dx.c) // 8
    columns = p.dx.n * groups * vectors
    running = dev.registers // REGISTERS * dev.sms
    height = ceil_div(rows, max(ceil_div(rows, STEPS), ceil_div(4 * running, columns)))
    height = min(max(height, SHORTEST[window[0]]), rows)
    strips = ceil_div(rows, height)
    return dict(height=height, strips=strips, groups=groups, vectors=vectors, items=columns * strips)


class PoolingBwdMaxNhwcStrip(PoolingEngine):
    """Maxima of 2 x 2 and 3 x 3 windows of stride 2: a thread walks down four columns, winners stay in
    registers."""
    index, takes, kernel = 243, core(PoolingBwd), "pooling_bwd_max_nhwc_strip"
    is_max, moves = True, ("x", "dy", "dx")

    def refuse(self, p, dev):
        yield from self.shared_reasons(p, dev)
        yield from wrong_device(dev, 80)
        yield from no_square_window(p)
        yield from no_channel_vectors(p, "x", "dy", "dx")
        for name in ("x", "dy", "dx"):
            d = p.operands[name]
            if d.dtype.bytes_of(max(d.strides[2:])) >= MOST:
                yield f"strides of {name} within an image must be below {MOST} bytes; got {d.strides}"
        if not any(no_square_window(p)) and vectors(p.dx) and p.dx.count:
            yield from too_many("threads", strips_of(p, dev)["items"])

    def cost(self, p, dev, config):
        return self.moved_us(p, dev, 0.8)

    def plan(self, p, dev, config):
        if not p.dx.count:
            return []
        (_, pad, _), ((h, w), (dx_h, dx_w)) = two(p, p.dx), plane(p.dx)
        ((p_, q), (dy_h, dy_w)), (_, (x_h, x_w)) = plane(p.dy), plane(p.x)
        args = dict(**strips_of(p, dev), h=h, w=w, p=p_, q=q, pad_h=pad[0], pad_w=pad[1],
                    x_n=p.x.strides[0], x_h=x_h, x_w=x_w, dy_n=p.dy.strides[0], dy_h=dy_h, dy_w=dy_w,
                    dx_n=p.dx.strides[0], dx_h=dx_h, dx_w=dx_w)
        return self.launches(p, args, nan_wins(p.op), p.op.geometry(4)[0][0])
