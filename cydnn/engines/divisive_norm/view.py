"""What the engines of divisive normalization share: arguments, reasons, times."""
from __future__ import annotations

from typing import ClassVar

from ...graph import Match
from ...ops.window import neighbours
from ..lrn.view import gradient, quarters
from ..engine import Engine, in_bytes, no_variant, wrong_device

MOST = 2 ** 31                                   # items of one launch: kernels count them in 32 bits


def numbers(p: Match) -> dict:
    """The numbers of s as kernels take them."""
    return dict(scale=p.op.scale / p.op.cells(p.x.rank), power=p.op.power, quarters=quarters(p.op.power),
                offset=p.op.offset)


def slope_and_lift(p: Match) -> dict:
    """What the kernels of the gradient take besides."""
    return gradient(p.op, p.op.scale / p.op.cells(p.x.rank))


def blend(p: Match) -> dict:
    return dict(alpha=p.scalar("alpha"), beta=p.scalar("beta"))


def reach(p: Match) -> dict:
    """Cells of the window on each side of its middle."""
    behind, ahead = neighbours(p.op.window)
    return dict(behind=behind, ahead=ahead)


class DivisiveNormEngine(Engine):
    """What all have. ``kernel``: one whose contract says which types it takes. An engine adds ``limits``
    (what else it refuses), ``share`` (of the device's bandwidth) and ``launches``."""
    kernel: ClassVar[str] = ""

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from no_variant(p, f"divisive_norm/{self.kernel}.cu")
        if p.op.math not in ("f32", p.x.dtype.compute):
            yield f"compute must be {p.x.dtype.compute} for {p.x.dtype} data; got {p.op.compute}"
        if p.x.count >= MOST:
            yield f"elements of x must be fewer than 2^31; got {p.x.count}"
        if in_bytes(p):
            yield from self.limits(p, dev)

    def limits(self, p, dev):
        return iter(())

    def share(self, p) -> float:
        raise NotImplementedError

    def cost(self, p, dev, config):
        return dev.launch_us + p.region.traffic_bytes / (dev.bandwidth_gbs * self.share(p)) * 1e-3

    def plan(self, p, dev, config):
        return self.launches(p, dev) if p.x.count else []

    def launches(self, p, dev) -> list:
        raise NotImplementedError
