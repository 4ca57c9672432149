"""Copies between tensors with gaps, by boxes that the tensor memory accelerator moves."""
from math import prod

from ... import kernels
from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import Transform
from ...steps import Launch, TensorMap
from ...tensor import collapse
from ..engine import Engine, memory_us, no_variant, wrong_device

SOURCE = "layout/transform_tma.cu"
RANK, SIDE, BYTES = 5, 256, 16384                # most dims, most elements along one, bytes of a box
LONG_ROW = 400                                   # bytes from which on a row is as fast as any


class TransformTma(Engine):
    """x and y of one type, contiguous along the same dim, both with gaps, at most five dims after merging."""
    index = 300
    takes = core(Transform)

    def refuse(self, p, dev):
        yield from wrong_device(dev, 90)
        types = list(no_variant(p, SOURCE))
        yield from types
        if types or not p.y.count:
            return
        dims, (x, y) = collapse(p.x, p.y)
        if x[0] != 1 or y[0] != 1:
            yield (f"x and y must be contiguous along the same dim; got merged dims {dims}, "
                   f"strides of x {x}, of y {y}")
            return
        yield from self._wrong_dims(p, dims, x)
        if p.op.math == "f64" and _math(p) == "f32":
            yield f"compute must be f32 for {p.x.dtype}; got {p.op.compute}"
        for name, tensor, strides in (("x", p.x, x), ("y", p.y, y)):
            if tensor.alignment < 16:
                yield f"{name} must be aligned to 16 bytes; got {tensor.alignment}"
            if len(dims) <= RANK:
                yield from (f"{name}: {reason}" for reason in
                            kernels.map_reasons(_map(p.ptr(name), tensor, dims, strides)))

    @staticmethod
    def _wrong_dims(p, dims, x):
        if len(dims) == 1:
            yield f"x and y must have gaps; got merged dims {dims}"
        if len(dims) > RANK:
            yield f"x and y must have at most {RANK} dims after merging; got {dims}"
        if dims[0] * p.y.dtype.bytes % 16:
            yield (f"rows of y must be multiples of 16 bytes; got {dims[0] * p.y.dtype.bytes}")
        if 0 in x:
            yield f"x must not repeat; got strides {p.x.strides}"
        if max(dims) >= 2 ** 31:
            yield f"merged dims must be below 2^31; got {dims}"
        if prod(_tiles(dims, p.x.dtype.bytes)) >= 2 ** 31:
            yield f"x must have fewer than 2^31 boxes of {BYTES} bytes; got merged dims {dims}"

    def cost(self, p, dev, config):
        """Parts of boxes that lie outside take time too, and short rows come in slowly."""
        if not p.y.count:
            return 0.0
        dims, _ = collapse(p.x, p.y)
        size = p.x.dtype.bytes
        box = _box(dims, size)
        used = prod(dims) / (prod(_tiles(dims, size)) * prod(box))
        row = min(dims[0] * size / LONG_ROW, 1.0) ** 0.7
        return memory_us(p, dev, efficiency=0.8 * max(used * row, 0.05))

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        dims, (x, y) = collapse(p.x, p.y)
        size = p.x.dtype.bytes
        box, tiles = _box(dims, size), _tiles(dims, size)
        args = dict(x=_map(p.ptr("x"), p.x, dims, x), y=_map(p.ptr("y"), p.y, dims, y), tiles=tiles[:4],
                    box=box, box_bytes=prod(box) * size, alpha=p.scalar("alpha"), beta=p.scalar("beta"))
        return [Launch(f"transform_tma_{p.x.dtype}", args, dict(tiles_4=tiles[4]))]


def _math(p) -> str:
    """What the kernel of this type computes in."""
    return kernels.get(f"transform_tma_{p.x.dtype}").axes["M"]


def _box(dims, size: int) -> tuple:
    """Sides of a box, innermost first: rows of a multiple of 16 bytes, then as much as fits, in parts of like
    size."""
    unit = 16 // size
    row = ceil_div(ceil_div(dims[0], ceil_div(dims[0], SIDE)), unit) * unit
    box, room = [row], BYTES // (row * size)
    for d in dims[1:]:
        side = ceil_div(d, ceil_div(d, min(room, SIDE)))
        box.append(side)
        room //= side
    return tuple(box) + (1,) * (RANK - len(dims))


def _tiles(dims, size: int) -> tuple:
    """Boxes along each dim."""
    return tuple(ceil_div(d, b) for d, b in zip(tuple(dims) + (1,) * (RANK - len(dims)), _box(dims, size)))


def _map(pointer, tensor, dims, strides) -> TensorMap:
    """The map of a tensor over merged dims, with dims of size 1 behind them."""
    size, more = tensor.dtype.bytes, RANK - len(dims)
    return TensorMap(pointer, tensor.dtype.name, tuple(dims) + (1,) * more,
                     tuple(s * size for s in strides[1:]) + (16,) * more, _box(dims, size))
