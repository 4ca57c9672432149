"""Pooling with lanes along w: contiguous rows, and whole planes."""
from __future__ import annotations

from math import prod

from ...ops import PoolingBwd, PoolingFwd
from ..engine import wrong_device
from .nhwc import SMEM
from .view import PoolingEngine, ceil_div, full, log2_ceil, moved_us, no_rank, no_square_window, plane, square, state, too_many, touching, two

STRIP = 4                                        # outputs below each other of one thread


def no_rows(p, *names):
    """Why neighbours along w are not neighbours in memory."""
    for name in names:
        d = p.operands[name]
        if d.dims[-1] > 1 and d.strides[-1] != 1:
            yield f"w of {name} must be innermost; got stride {d.strides[-1]}"
        if not d.count:
            yield f"{name} must have elements; got dims {d.dims}"


class PoolingFwdNchwStrip(PoolingEngine):
    """2 x 2 and 3 x 3 windows of stride 2: a thread makes four outputs below each other."""
    index = 232
    op = PoolingFwd

    def limits(self, p, dev):
        yield from no_square_window(p)
        yield from no_rows(p, "x", "y")
        yield from too_many("outputs", p.y.count)

    def args(self, p, dev):
        x, y = p.x, p.y
        _, (pad_h, pad_w), _ = p.op.geometry(4)
        strips = ceil_div(y.dims[2], STRIP)
        return dict(items=y.n * y.c * strips * y.dims[3], full=full(p.op, 4), h=x.dims[2], w=x.dims[3],
                    p=y.dims[2], q=y.dims[3], pad_h=pad_h, pad_w=pad_w, columns=y.dims[3], strips=strips, channels=y.c,
                    x_n=x.strides[0], x_c=x.strides[1], x_h=x.strides[2], y_n=y.strides[0], y_c=y.strides[1], y_h=y.strides[2])

    def kernel(self, p):
        x, ((k, _), (_, pad_w), _) = p.x, p.op.geometry(4)
        pairs = int(x.dims[3] % 2 == 0 and pad_w <= k - 2 and not any(s % 2 for s, n in zip(x.strides[:3], x.dims) if n > 1)
                    and x.alignment >= 2 * x.dtype.bytes)
        return f"pooling_fwd_nchw_strip_{x.dtype}_{state(p.op)}_{k}_{pairs}"


def no_row_vectors(p, name):
    """Why 16-byte vectors of a row do not work."""
    d, width = p.operands[name], 16 // p.operands[name].dtype.bytes
    if d.dims[-1] % width or any(s % width for s, n in zip(d.strides[:-1], d.dims) if n > 1):
        yield f"w and strides of {name} must be multiples of {width} (16 bytes); got dims {d.dims}, strides {d.strides}"
    if d.alignment < 16:
        yield f"{name} must be aligned to 16 bytes; got {d.alignment}"


class PoolingFwdNchwWide(PoolingEngine):
    """2 x 2 and 3 x 3 windows of stride 2 over rows of 16-byte vectors."""
    index = 244
    op = PoolingFwd
    share = 0.85
    strip = 2                                    # output rows of one thread: Strip in the kernel

    def limits(self, p, dev):
        yield from wrong_device(dev, 80)
        yield from no_square_window(p)
        yield from no_rows(p, "x", "y")
        yield from no_row_vectors(p, "x")
        (k, *_), (*_, pad), _ = p.op.geometry(p.x.rank)
        if pad > k - 2:
            yield f"pad of w must be at most {k - 2}; got {pad}"
        yield from too_many("outputs", p.y.count)

    def args(self, p, dev):
        x, y = p.x, p.y
        _, (pad_h, pad_w), _ = p.op.geometry(4)
        width = 16 // x.dtype.bytes
        row, strips, outs = x.dims[3] // width, ceil_div(y.dims[2], self.strip), width // 2
        is_even = int(y.dims[3] == row * outs and y.alignment >= 8 and not any(s % outs for s, n in zip(y.strides[:3], y.dims) if n > 1))
        return dict(items=y.n * y.c * strips * row, full=full(p.op, 4), h=x.dims[2], w=x.dims[3],
                    p=y.dims[2], q=y.dims[3], pad_h=pad_h, pad_w=pad_w, is_even=is_even, vectors=row, strips=strips, channels=y.c,
                    x_n=x.strides[0], x_c=x.strides[1], x_h=x.strides[2], y_n=y.strides[0], y_c=y.strides[1], y_h=y.strides[2])

    def kernel(self, p):
        return f"pooling_fwd_nchw_wide_{p.x.dtype}_{state(p.op)}_{p.op.geometry(4)[0][0]}"


def no_whole_planes(p, x, y):
    """Why one window is not one run of memory."""
    window, pad, _ = p.op.geometry(p.x.rank)
    if window != p.x.spatial or any(pad):
        yield f"window must be the whole of x without padding; got window {window}, pad {pad}, x {p.x.spatial}"
    for name in (x, y):
        if not p.operands[name].is_packed("nchw"):
            yield f"{name} must be packed, w innermost; got strides {p.operands[name].strides}"
        if not p.operands[name].count:
            yield f"{name} must have elements; got dims {p.operands[name].dims}"


class PoolingFwdWhole(PoolingEngine):
    """The window is the plane: a block reads some planes as one run of memory."""
    index = 233
    op = PoolingFwd
    block_bytes = 16384                          # what a block reads at most

    def limits(self, p, dev):
        yield from no_whole_planes(p, "x", "y")
        if prod(p.x.spatial) * p.x.dtype.bytes > self.block_bytes:
            yield f"planes must have at most {self.block_bytes} bytes; got {prod(p.x.spatial)} elements of {p.x.dtype}"
        if p.x.alignment < 16:
            yield f"x must be aligned to 16 bytes; got {p.x.alignment}"
        yield from too_many("planes", p.y.count)

    def args(self, p, dev):
        planes, cells = p.y.count, prod(p.x.spatial)
        group = max(1, min(self.block_bytes // (cells * p.x.dtype.bytes), 256, ceil_div(planes, 4 * dev.sms)))
        team_log2 = min(5, 8 - log2_ceil(group), log2_ceil(cells))
        return dict(planes=planes, cells=cells, group=group, team_log2=team_log2)

    def kernel(self, p):
        return f"pooling_fwd_whole_{p.x.dtype}_{state(p.op)}"


class PoolingBwdWhole(PoolingEngine):
    """The window is the plane: dx repeats dy / cells."""
    index = 237
    op = PoolingBwd
    is_max, moves, share = False, ("dy", "dx"), 0.85

    def limits(self, p, dev):
        yield from no_whole_planes(p, "dx", "dy")
        width = 16 // p.dx.dtype.bytes
        if p.dx.count % width:
            yield f"dx must have a multiple of {width} elements (16 bytes); got {p.dx.count}"
        if p.dx.alignment < 16:
            yield f"dx must be aligned to 16 bytes; got {p.dx.alignment}"
        yield from too_many("elements of dx", p.dx.count)

    def args(self, p, dev):
        return dict(vectors=p.dx.count * p.dx.dtype.bytes // 16, cells=prod(p.dx.spatial))

    def kernel(self, p):
        return f"pooling_bwd_whole_{p.x.dtype}"


class PoolingBwdAvgNchw(PoolingEngine):
    """Averages: a thread makes 16 bytes of a row of dx."""
    index = 236
    op = PoolingBwd
    is_max, moves, share = False, ("dy", "dx"), 0.75

    def limits(self, p, dev):
        yield from no_rank(p, 4)
        yield from no_rows(p, "dy", "dx")
        yield from no_row_vectors(p, "dx")
        yield from too_many("elements of dx", p.dx.count)

    def args(self, p, dev):
        (window, pad, stride), ((h, w), (dx_h, _)), ((p_, q), (dy_h, _)) = two(p, p.dx), plane(p.dx), plane(p.dy)
        row = w * p.dx.dtype.bytes // 16
        return dict(items=p.dx.n * p.dx.c * h * row, full=full(p.op, p.x.rank), h=h, w=w, p=p_, q=q,
                    window_h=window[0], window_w=window[1], pad_h=pad[0], pad_w=pad[1], stride_h=stride[0], stride_w=stride[1],
                    vectors=row, rows=h, channels=p.dx.c, dy_n=p.dy.strides[0], dy_c=p.dy.strides[1], dy_h=dy_h,
                    dx_n=p.dx.strides[0], dx_c=p.dx.strides[1], dx_h=dx_h)

    def kernel(self, p):
        return f"pooling_bwd_avg_nchw_{p.x.dtype}"


def tile_of(p):
    """(tile of dx, most windows that touch it) with the winners' codes in shared memory, or None when they do not fit."""
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
    index = 239
    op = PoolingBwd
    types, is_max, moves = ("f64", "f32", "f16", "bf16"), True, ("x", "dy", "dx")

    def limits(self, p, dev):
        yield from no_rank(p, 4)
        yield from too_many("elements of dx", p.dx.count)
        if p.x.rank <= 4 and p.dx.count and p.dy.count:
            window = two(p, p.x)[0]
            if window[0] * window[1] >= 65535 or tile_of(p) is None:
                yield f"winners of the windows over one cell must fit in {SMEM} bytes; got window {window}"

    def cost(self, p, dev):
        return moved_us(p, dev, self.moves, 0.35 if p.dx.strides[-1] == 1 else 0.1)

    def args(self, p, dev):
        (window, pad, stride), ((h, w), _), ((p_, q), _) = two(p, p.dx), plane(p.dx), plane(p.dy)
        (tile_h, tile_w), (most_h, most_w) = tile_of(p)
        planes = p.dx.n * p.dx.c
        group = max(1, min(2048 // (tile_h * tile_w), SMEM // (2 * most_h * most_w), ceil_div(planes, 4 * dev.sms)))
        return dict(planes=planes, h=h, w=w, p=p_, q=q, window_h=window[0],
                    window_w=window[1], pad_h=pad[0], pad_w=pad[1], stride_h=stride[0], stride_w=stride[1], group=group, tile_h=tile_h, tile_w=tile_w,
                    most_h=most_h, most_w=most_w, tiles_w=ceil_div(w, tile_w), tiles_h=ceil_div(h, tile_h), channels=p.dx.c,
                    **{f"{name}_strides": (*reversed(plane(d)[1]), d.strides[1], d.strides[0]) for name, d in (("x", p.x), ("dy", p.dy), ("dx", p.dx))})

    def kernel(self, p):
        return f"pooling_bwd_max_plane_{p.x.dtype}_{int(p.op.nan == 'propagate')}_{square(p)}"
