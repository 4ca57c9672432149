"""What the engines of the spatial transformer share: places and channels of a launch, and the reasons."""
from __future__ import annotations

from ...kernels.expressions import ceil_div
from ..engine import Engine, no_variant, wrong_device

CHANNELS = 4                                     # of a thread, at most
MOST = 2 ** 31                                   # items of one launch


def are_channels_inner(d) -> bool:
    """Channels lie closer than pixels."""
    return d.c > 1 and d.strides[1] < min((s for s, n in zip(d.strides[2:], d.spatial) if n > 1),
                                          default=d.strides[1] + 1)


def items(d) -> dict:
    """A thread for each pixel of a tensor and up to four of its channels."""
    places, chunks = d.n * d.dims[2] * d.dims[3], max(ceil_div(d.c, CHANNELS), 1)
    inner = are_channels_inner(d)
    return dict(items=places * chunks, inner=chunks if inner else places, channels_inner=int(inner),
                channels=d.c, chunks=chunks)


class SpatialEngine(Engine):
    """What all refuse: devices, types, more items than a launch has."""
    kernel: str

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        wrong = [*no_variant(p, f"spatial/{self.kernel}.cu")]
        yield from wrong
        first = next(iter(p.operands.values()))
        if not wrong and p.op.math not in ("f32", first.dtype.compute):
            yield f"compute must be {first.dtype.compute} for {first.dtype} data; got {p.op.compute}"
        for name, d in p.operands.items():
            if d.count >= MOST:
                yield f"{name} must have fewer than 2^31 elements; got {d.count}"
        yield from self.limits(p)

    def limits(self, p):
        return iter(())
