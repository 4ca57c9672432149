"""Scales of blocks of rows that lie side by side, on Hopper: f32, f16 and bf16 into 8 bits and back."""
from __future__ import annotations

from typing import ClassVar

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import BlockScaleDequantize, BlockScaleQuantize
from ...steps import Launch
from ..engine import Engine, moved_us, no_variant, wrong_device
from .any import grid_of

EIGHT, MOST_BLOCK, MOST_ITEMS = 8, 256, 2 ** 31 - 256        # elements of a thread, of a block; threads
KINDS = ("f8_e8m0", "f8_e4m3", "f32")            # types of scales, as the kernel numbers them
SHARE = 0.8                                      # of the bandwidth


class _Rows(Engine):
    """What both directions share. ``axes``: that of the kernel for the type of each operand."""
    source: ClassVar[str]
    axes: ClassVar[dict]

    def refuse(self, p, dev):
        yield from wrong_device(dev, 90)
        wrong = [*self.wrong_types(p)]
        yield from wrong
        if wrong:
            return
        if p.op.math != "f32":
            yield f"compute must be f32; got {p.op.compute}"
        for name in ("x", "y"):
            d = p.operands[name]
            if not d.is_packed():
                yield f"{name} must be packed, its last dim innermost; got strides {d.strides}"
            if d.alignment < EIGHT * d.dtype.bytes and d.alignment < 16:
                yield f"{name} must be aligned to {min(EIGHT * d.dtype.bytes, 16)} bytes; got {d.alignment}"
        if p.x.dims[-1] % EIGHT:
            yield f"rows must be of whole eights; got {p.x.dims[-1]} elements"
        yield from self._wrong_blocks(p)
        yield from self._wrong_scale(p)
        if max(p.x.count // EIGHT, p.scale.count * self.block(p) // EIGHT) >= MOST_ITEMS:
            yield f"x must have fewer than 2^34 elements; got {p.x.count}"

    def wrong_types(self, p):
        for name, axis in self.axes.items():
            yield from no_variant(p, self.source, name, axis=axis)

    @staticmethod
    def block(p) -> int:
        """Elements of a block."""
        return p.op.block

    def _wrong_blocks(self, p):
        size = self.block(p)
        if p.op.columns(p.x.rank) != p.x.rank - 1 or size not in [EIGHT << n for n in range(6)]:
            yield (f"blocks must be of 8 to {MOST_BLOCK} elements of the last dim, a power of two; got "
                   f"block {p.op.block}")

    @staticmethod
    def _wrong_scale(p):
        s = p.scale
        apart = [s.strides[i] != s.strides[i + 1] * s.dims[i + 1] for i in range(s.rank - 3) if s.dims[i] > 1]
        is_along = s.strides[-1] == 1 or s.dims[-1] == 1 or p.op.is_tiled
        if s.rank < 2 or s.dims[:-2] != p.x.dims[:-2] or any(apart) or not is_along:
            yield f"scale must have the batch dims of x, packed, and columns side by side; got {s}"

    @staticmethod
    def shared_args(p) -> dict:
        """Addresses, and where scales lie."""
        step = p.scale.strides[-3] if p.scale.rank > 2 else 0
        tiles = p.scale.dims[-1] * p.scale.dims[-2]
        return dict(x=p.ptr("x"), y=p.ptr("y"), scale=p.ptr("scale"),
                    step_batch=tiles if p.op.is_tiled else step, step_row=p.scale.strides[-2],
                    is_tiled=int(p.op.is_tiled))

    def cost(self, p, dev, config):
        return moved_us(p.region.traffic_bytes, dev, SHARE)


class BlockScaleQuantizeRows(_Rows):
    """One read: a few lanes have a block, eight neighbours each."""
    index = 512
    takes = core(BlockScaleQuantize)
    source, axes = "block_scale/block_scale_quantize_rows.cu", dict(x="T", y="Y")

    def plan(self, p, dev, config):
        if not p.scale.count:
            return []
        *_, rows, columns = p.scale.dims
        args = dict(grid_of(p.op), **self.shared_args(p), groups=p.scale.count, columns=columns, rows=rows,
                    all_rows=p.x.dims[-2], cols=p.x.dims[-1], lanes=p.op.block // EIGHT,
                    is_f32=int(p.op.scales == "f32"))
        return [Launch(f"block_scale_quantize_rows_{p.x.dtype}_{p.y.dtype}", args)]


class BlockScaleDequantizeRows(_Rows):
    """A thread has eight neighbours and the scale of their block."""
    index = 513
    takes = core(BlockScaleDequantize)
    source, axes = "block_scale/block_scale_dequantize_rows.cu", dict(y="T", x="X")

    @staticmethod
    def block(p):
        return p.op.blocks(p.x.rank)[-1]

    def wrong_types(self, p):
        yield from super().wrong_types(p)
        if p.scale.dtype.name not in KINDS:
            yield f"scale must be one of {' '.join(KINDS)}; got {p.scale.dtype}"

    def _wrong_blocks(self, p):
        yield from super()._wrong_blocks(p)
        if set(p.op.blocks(p.x.rank)[:-1]) - {1}:
            yield f"blocks must lie along the last dim; got block {p.op.block}"

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        chunks = ceil_div(p.x.dims[-1], EIGHT)
        args = dict(self.shared_args(p), items=p.x.count // EIGHT, chunks=chunks, rows=p.x.dims[-2],
                    shift=(self.block(p) // EIGHT).bit_length() - 1, columns=p.scale.dims[-1],
                    kind=KINDS.index(p.scale.dtype.name))
        return [Launch(f"block_scale_dequantize_rows_{p.x.dtype}_{p.y.dtype}", args)]
