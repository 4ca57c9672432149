"""Pooling for any strides and 1 to 3 spatial dims: one element a thread, lanes along w or along channels, whichever lies closer."""
from __future__ import annotations

from ..ops import PoolingBwd, PoolingFwd
from .engine import Engine
from .pooling_nhwc import blend
from .pooling_view import at_least_1, full, inner_first, moved_us, state, strides_of, three, too_many, wrong_operands
from .steps import Launch


def lanes(d) -> dict:
    """Digits of a thread's number over tensor ``d``: channels innermost when their stride is the smallest."""
    inner = int(d.c > 1 and d.strides[1] < min((s for s, n in zip(d.strides[2:], d.spatial) if n > 1), default=d.strides[1] + 1))
    spatial = inner_first(d.spatial, 1)
    return dict(channels_inner=inner, digits=at_least_1((d.c, *spatial) if inner else (*spatial, d.c)))


class PoolingFwdStrided(Engine):
    """Any strides, one output element a thread."""
    index = 234
    op = PoolingFwd

    def refuse(self, p, dev):
        yield from wrong_operands(p, dev)
        yield from too_many("elements of y", p.y.count)

    def cost(self, p, dev):
        return moved_us(p, dev, "xy", 0.15)

    def plan(self, p, dev):
        if not p.y.count:
            return []
        args = dict(x=p.ptr("x"), y=p.ptr("y"), **blend(p), items=p.y.count, full=full(p.op, p.x.rank), **lanes(p.y),
                    **three(p, p.x.spatial, p.y.spatial), x_strides=strides_of(p.x, channel=True), y_strides=strides_of(p.y, channel=True))
        args.pop("outs")
        return [Launch(f"pooling_fwd_any_{p.x.dtype}_{state(p.op)}", args)]


class PoolingBwdStrided(Engine):
    """Any strides, one element of dx a thread; maxima walk every window over the cell."""
    index = 240
    op = PoolingBwd

    def refuse(self, p, dev):
        yield from wrong_operands(p, dev)
        yield from too_many("elements of dx", p.dx.count)

    def cost(self, p, dev):
        return moved_us(p, dev, ("x", "dy", "dx"), 0.02 if p.op.mode == "max" else 0.15)

    def plan(self, p, dev):
        if not p.dx.count:
            return []
        args = dict(x=p.ptr("x"), dy=p.ptr("dy"), dx=p.ptr("dx"), **blend(p), items=p.dx.count, full=full(p.op, p.x.rank), **lanes(p.dx),
                    **three(p, p.dx.spatial, p.dy.spatial), **{f"{name}_strides": strides_of(p.operands[name], channel=True) for name in ("x", "dy", "dx")})
        return [Launch(f"pooling_bwd_any_{p.x.dtype}_{state(p.op)}", args)]


ENGINES = (PoolingFwdStrided(), PoolingBwdStrided())
