"""Data gradient of few channels as a matrix product and col2im."""
from __future__ import annotations

from math import gcd, prod

from ...dtypes import BY_NAME
from ...graph import core, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvDgrad, Matmul
from ...steps import Launch, Pointer, placed
from ...tensor import TensorDesc
from ..engine import Engine, moved_us, no_elements, no_variant, wrong_device
from ..nested import AFTER_US, NestedOp, NestedOperand
from ..tile.matrices import too_many
from .mma import pixel_stride
from .view import Lifted

PART_BYTES = 128 << 20                           # of windows at once
MOST_BYTES = 1 << 30                             # of windows of one image
EFFICIENCY = 0.25                                # of the bandwidth, of col2im
NEAR = 4                                         # strides with which lanes read whole sectors of memory
LONG, START_US = 2.6, 12                         # of products behind so long a start: their sums leave across
DY, WINDOWS = "dy of a part", "windows of a part"        # stand for addresses until the part is known


class ConvDgradGemm(Engine):
    """What each pixel of dy adds to those that its taps read is a product of matrices, of which dx gathers
    the sums (col2im). The images go in parts, so that windows take little room."""
    index = 165
    takes = core(ConvDgrad)
    v5 = ("ALGO_1",)

    def __init__(self, *products: Engine):
        """``products``: the engines of the matmul, from the table of all engines (engines/__init__.py)."""
        self.products = products

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        wrong = [*no_variant(p, "conv/conv_col2im.cu"), *no_elements(p.operands)]
        yield from wrong
        if wrong:
            return
        if p.dx.c != p.w.c:
            yield f"groups must be 1; got {p.dx.c // p.w.c}"
        if not (p.w.is_packed("nchw") or p.w.is_packed("nhwc")):
            yield f"w must be packed; got strides {p.w.strides}"
        image = self._row_bytes(p) * prod(p.dy.spatial)
        if image > MOST_BYTES:
            yield f"windows of an image must take at most {MOST_BYTES} bytes; got {image}"
        yield from too_many("channels", p.dx.c, 65535)
        yield from too_many("pixels of dx", self._images(p) * prod(p.dx.spatial))
        if pixel_stride(p.dy) is None:
            yield f"dy must have its pixels at one distance; got strides {p.dy.strides}"
        else:
            reasons = self._part(p, self._images(p)).reasons(dev)
            yield from (f"no matmul engine takes the product: {reason}" for reason in reasons)

    @staticmethod
    def _depth(p) -> int:
        return p.w.c * prod(p.w.spatial)

    @staticmethod
    def _kind(p) -> str:
        return p.dx.dtype.compute

    def _row_bytes(self, p) -> int:
        """Of what a pixel of dy adds."""
        return BY_NAME[self._kind(p)].bytes * self._depth(p)

    def _images(self, p) -> int:
        """Of a part: as many in each."""
        most = max(PART_BYTES // (self._row_bytes(p) * prod(p.dy.spatial)), 1)
        return ceil_div(p.dy.n, ceil_div(p.dy.n, most))

    @once_per_match
    def _part(self, p, images: int) -> NestedOp:
        """The product of so many images: windows with the pixels of dy beside each other."""
        depth, k, pixels = self._depth(p), p.w.n, prod(p.dy.spatial)
        across = p.dy.strides[1] if p.dy.c > 1 else 1
        a = TensorDesc(p.dy.dtype, (images, pixels, k), (p.dy.strides[0], pixel_stride(p.dy), across))
        b = TensorDesc(p.w.dtype, (1, k, depth), (k * depth, depth, 1))
        c = TensorDesc(self._kind(p), (images, pixels, depth), (pixels, 1, images * pixels))
        if images == 1 or p.dy.strides[0] == pixels * a.strides[1]:
            a, c = (TensorDesc(d.dtype, (1, images * pixels, d.dims[2]), (1, *d.strides[1:])) for d in (a, c))
        step = self._images(p) * p.dy.strides[0] * p.dy.dtype.bytes  # from a part to the next
        alignment = next(n for n in (p.dy.alignment, 8, 4, 2, 1) if n <= p.dy.alignment and step % n == 0)
        return NestedOp(Matmul(compute=p.op.compute), self.products, dict(alpha=p.scalar("alpha")),
                        a=NestedOperand(a, Pointer(DY), alignment),
                        b=NestedOperand(b, p.ptr("w"), p.w.alignment),
                        c=NestedOperand(c, Pointer(WINDOWS)))

    # ---- Choice ----

    def _window_bytes(self, p, images: int) -> int:
        return self._row_bytes(p) * images * prod(p.dy.spatial)

    def cost(self, p, dev, config):
        images = self._images(p)
        apart = max(p.op.geometry(p.dx.rank)[2][-1] / NEAR, 1.0)     # lanes that read neighbours are fewer
        moved = apart * self._window_bytes(p, images) + p.dx.bytes * images / p.dx.n
        product = self._part(p, images).choice(dev)[0]
        product += (LONG - 1) * max(product - START_US, 0)
        return ceil_div(p.dx.n, images) * (product + moved_us(moved, dev, EFFICIENCY) + 2 * AFTER_US)

    # ---- Launches ----

    def plan(self, p, dev, config):
        most = self._images(p)
        windows = p.scratch(self._window_bytes(p, most))
        return [step for first in range(0, p.dy.n, most)
                for step in self._launches(p, dev, windows, first, min(most, p.dy.n - first))]

    def _launches(self, p, dev, windows, first: int, images: int) -> list:
        """Those of so many images from one on."""
        dy = p.ptr("dy", first * p.dy.strides[0] * p.dy.dtype.bytes)
        steps = placed(self._part(p, images).steps(dev), {DY: dy, WINDOWS: windows})
        return [*steps, self._gather(p, windows, first, images)]

    def _gather(self, p, windows, first: int, images: int) -> Launch:
        dx, dy, w = (Lifted.of(d) for d in (p.dx, p.dy, p.w))
        pre, _, stride, dilation = p.op.geometry(p.dx.rank)
        fill = 5 - p.dx.rank
        start, w = w.flipped() if p.op.mode == "convolution" else (0, w)
        stride, dilation = (1,) * fill + stride, (1,) * fill + dilation
        at = p.ptr("dx", first * p.dx.strides[0] * p.dx.dtype.bytes)
        return Launch(f"conv_col2im_{p.dx.dtype}", dict(
            windows=windows, dx=at, beta=p.scalar("beta"), pixels=images * prod(dx.size), channels=p.dx.c,
            row_step=images * prod(dy.size), first=start, tap_step=w.steps, channel_step=w.c_step,
            size=dx.size, stride=stride, every=[s // gcd(s, d) for s, d in zip(stride, dilation)],
            dy_size=dy.size, taps=w.size, pad=(0,) * fill + pre, dilation=dilation, dx_n=dx.n_step,
            dx_c=dx.c_step, dx_s=dx.steps))
