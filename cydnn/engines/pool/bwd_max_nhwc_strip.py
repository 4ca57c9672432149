"""Gradient of max pooling with channels innermost: a thread walks down a strip."""
from __future__ import annotations

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import PoolingBwd
from ..engine import wrong_device
from .view import (MOST, PoolingEngine, nan_wins, no_channel_vectors, no_square_window, plane, too_many, two,
                   vectors)

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

    def limits(self, p, dev):
        yield from wrong_device(dev, 80)
        yield from no_square_window(p)
        yield from no_channel_vectors(p, "x", "dy", "dx")
        for name in ("x", "dy", "dx"):
            d = p.operands[name]
            if d.dtype.bytes_of(max(d.strides[2:])) >= MOST:
                yield f"strides of {name} within an image must be below {MOST} bytes; got {d.strides}"
        if not any(no_square_window(p)) and vectors(p.dx) and p.dx.count:
            yield from too_many("threads", strips_of(p, dev)["items"])

    def variant(self, p):
        return nan_wins(p.op), p.op.geometry(4)[0][0]

    def args(self, p, dev):
        (_, pad, _), ((h, w), (dx_h, dx_w)) = two(p, p.dx), plane(p.dx)
        ((p_, q), (dy_h, dy_w)), (_, (x_h, x_w)) = plane(p.dy), plane(p.x)
        return dict(**strips_of(p, dev), h=h, w=w, p=p_, q=q, pad_h=pad[0], pad_w=pad[1],
                    x_n=p.x.strides[0], x_h=x_h, x_w=x_w, dy_n=p.dy.strides[0], dy_h=dy_h, dy_w=dy_w,
                    dx_n=p.dx.strides[0], dx_h=dx_h, dx_w=dx_w)
