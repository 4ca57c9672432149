"""Pooling for any strides and 1 to 3 spatial dims: one element a thread, lanes along w or along channels, whichever lies closer."""
from __future__ import annotations

from ...ops import PoolingBwd, PoolingFwd
from .view import PoolingEngine, at_least_1, full, inner_first, moved_us, state, strides_of, three, too_many


def lanes(d) -> dict:
    """Digits of a thread's number over tensor ``d``: channels innermost when their stride is the smallest."""
    inner = int(d.c > 1 and d.strides[1] < min((s for s, n in zip(d.strides[2:], d.spatial) if n > 1), default=d.strides[1] + 1))
    spatial = inner_first(d.spatial, 1)
    return dict(channels_inner=inner, digits=at_least_1((d.c, *spatial) if inner else (*spatial, d.c)))


class PoolingFwdStrided(PoolingEngine):
    """Any strides, one output element a thread."""
    index = 234
    op = PoolingFwd
    types, share = ("f64", "f32", "f16", "bf16"), 0.15

    def limits(self, p, dev):
        yield from too_many("elements of y", p.y.count)

    def args(self, p, dev):
        geometry = three(p, p.x.spatial, p.y.spatial)
        geometry.pop("outs")
        return dict(items=p.y.count, full=full(p.op, p.x.rank), **lanes(p.y), **geometry, x_strides=strides_of(p.x, channel=True),
                    y_strides=strides_of(p.y, channel=True))

    def kernel(self, p):
        return f"pooling_fwd_any_{p.x.dtype}_{state(p.op)}"


class PoolingBwdStrided(PoolingEngine):
    """Any strides, one element of dx a thread; maxima walk every window over the cell."""
    index = 240
    op = PoolingBwd
    types, moves = ("f64", "f32", "f16", "bf16"), ("x", "dy", "dx")

    def limits(self, p, dev):
        yield from too_many("elements of dx", p.dx.count)

    def cost(self, p, dev):
        return moved_us(p, dev, self.moves, 0.02 if p.op.mode == "max" else 0.15)

    def args(self, p, dev):
        return dict(items=p.dx.count, full=full(p.op, p.x.rank), **lanes(p.dx),
                    **three(p, p.dx.spatial, p.dy.spatial), **{f"{name}_strides": strides_of(p.operands[name], channel=True) for name in ("x", "dy", "dx")})

    def kernel(self, p):
        return f"pooling_bwd_any_{p.x.dtype}_{state(p.op)}"
