"""Convolution with one tap as a batched matrix product, images as they lie: three directions."""
from __future__ import annotations

from math import prod

from ...graph import core, once_per_match
from ...ops import ConvDgrad, ConvFprop, ConvWgrad, Matmul, Reduction
from ...tensor import TensorDesc
from ..engine import Engine, no_elements, no_variant, wrong_device
from ..nested import AFTER_US, NestedOp, NestedOperand
from ..tile.sums import ADDERS
from . import mma
from .gemm import odd_us, pixel_dims
from .view import plain_geometry

MOST_BYTES = 256 << 20                           # of the products of single images in the workspace


class Product(Engine):
    """What the three directions share: refusals, operands as matrices, and the product that engines of the
    matmul compute."""
    notes = ("tensor_core", "deterministic")

    def __init__(self, *products: Engine):
        """``products``: the engines of the matmul, from the table of all engines (engines/__init__.py)."""
        self.products = products

    def refuse(self, p, dev):
        yield from wrong_device(dev, 80)
        image, filters, out = p.op.parts
        wrong = [*no_variant(p, "matmul/matmul_wgmma.cu", *p.op.reads), *no_elements(p.operands)]
        yield from wrong
        if wrong:
            return
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.operands[p.op.reads[0]].dtype} tensors; got {p.op.compute}"
        pre, post, stride, _ = p.op.geometry(p.operands[image].rank)
        if prod(p.operands[filters].spatial) > 1 or max((*pre, *post)) > 0 or max(stride) > 1:
            yield (f"{filters} must have one tap, without padding and with unit strides; got "
                   f"{p.operands[filters].spatial}, padding {pre} and {post}, strides {stride}")
            return
        is_plain = all(p.operands[name].is_packed("nhwc") for name in (image, out))
        if is_plain and plain_geometry(p).groups == 1:
            yield f"{image} and {out} are packed NHWC; {p.op.name}_wgmma and {p.op.name}_mma take them"
        wrong = [s for name in (image, out) for s in mma.no_pixel_stride(name, p.operands[name])]
        yield from wrong
        if not wrong:
            yield from self.wrong_steps(p, dev)

    def wrong_steps(self, p, dev):
        """Why nobody computes what it is made of."""
        for step in self.nested(p):
            yield from (f"the {step.match.op.name}: {reason}" for reason in step.reasons(dev))

    @staticmethod
    def images(p) -> int:
        """That are apart: pixels of all are one index where those of both tensors are at one distance."""
        both = [p.operands[name] for name in (p.op.parts[0], p.op.parts[2])]
        return 1 if all(len(pixel_dims(d)) == 1 for d in both) else both[0].n

    @staticmethod
    def pixels(p, name: str, across: bool = False) -> NestedOperand:
        """An image as matrices of (channels, pixels), or across, of an image and a group each."""
        d, groups, images = p.operands[name], plain_geometry(p).groups, Product.images(p)
        channel, pixel = d.strides[1] if d.c > 1 else 1, pixel_dims(d)[-1][1]
        rows, columns = (d.c // groups, channel), (d.n // images * prod(d.spatial), pixel)
        if across:
            rows, columns = columns, rows
        matrix = TensorDesc(d.dtype, (images, groups, rows[0], columns[0]),
                            (d.strides[0], d.c // groups * channel, rows[1], columns[1]))
        return NestedOperand(matrix, p.ptr(name), d.alignment)

    @staticmethod
    def filters(p, across: bool = False) -> NestedOperand:
        """w as a matrix of (filters, channels) of each group, or across."""
        d, groups = p.w, plain_geometry(p).groups
        row, column = (d.strides[0] if d.n > 1 else d.c), (d.strides[1] if d.c > 1 else 1)
        sizes, steps = (d.n // groups, d.c), (row, column)
        if across:
            sizes, steps = sizes[::-1], steps[::-1]
        matrix = TensorDesc(d.dtype, (1, groups, *sizes), (d.n * d.c, d.n // groups * row, *steps))
        return NestedOperand(matrix, p.ptr("w"), d.alignment)

    def matmul(self, p, numbers, **operands) -> NestedOp:
        given = {name: p.scalar(name) for name in numbers}
        return NestedOp(Matmul(compute=p.op.compute), self.products, given, **operands)

    @staticmethod
    def is_across(out) -> bool:
        """Rows of the product are pixels."""
        return out.strides[1] == 1 and out.c > 1

    def image(self, p, source: str, out: str, gathers: bool) -> NestedOp:
        """One image as a product of the other and the filters, which are turned where it ``gathers``: rows
        are channels, or pixels."""
        across = self.is_across(p.operands[out])
        a, b = self.filters(p, across=gathers != across), self.pixels(p, source, across)
        if across:
            a, b = b, a
        return self.matmul(p, ("alpha", "beta"), a=a, b=b, c=self.pixels(p, out, across))

    def nested(self, p) -> list[NestedOp]:
        """What it is made of, in order."""
        raise NotImplementedError

    @once_per_match
    def cost(self, p, dev, config):
        found = [step.choice(dev)[0] for step in self.nested(p)]
        out, is_filter = p.operands[p.op.writes[0]], p.op.writes[0] == p.op.parts[1]
        row = out.c // plain_geometry(p).groups if self.is_across(out) else prod(out.spatial)
        return sum(found) + AFTER_US * (len(found) - 1) + (0.0 if is_filter else odd_us(out, row))

    def plan(self, p, dev, config):
        return [launch for step in self.nested(p) for launch in step.steps(dev)]


class ConvFpropProduct(Product):
    """y[image] = w @ x[image]: rows are channels, columns are pixels, which may be contiguous (NCHW); in NHWC
    the other way round."""
    index = 105
    takes = core(ConvFprop)
    v5 = ("GEMM",)

    @once_per_match
    def nested(self, p):
        return [self.image(p, "x", "y", gathers=False)]


class ConvDgradProduct(Product):
    """dx[image] = w^T @ dy[image]: rows are channels, columns are pixels, which may be contiguous (NCHW); in
    NHWC the other way round."""
    index = 123
    v5 = ("ALGO_1",)
    takes = core(ConvDgrad)

    @once_per_match
    def nested(self, p):
        return [self.image(p, "dy", "dx", gathers=True)]


class ConvWgradProduct(Product):
    """dw = the sum over images of dy[image] @ x[image]^T: products in f32 in the workspace, added in
    order."""
    index = 143
    v5 = ("ALGO_1",)
    takes = core(ConvWgrad)

    def wrong_steps(self, p, dev):
        needed = 4 * self.images(p) * p.dw.count
        if not p.dw.is_packed("nchw"):
            yield f"dw must be packed; got strides {p.dw.strides}"
        elif self.images(p) > 1 and needed > MOST_BYTES:
            yield f"products of all images must take at most {MOST_BYTES} bytes; got {needed}"
        else:
            yield from super().wrong_steps(p, dev)

    @once_per_match
    def nested(self, p):
        groups, k, c, images = plain_geometry(p).groups, p.dw.n, p.dw.c, self.images(p)
        dims, operands = (images, groups, k // groups, c), dict(a=self.pixels(p, "dy"),
                                                                b=self.pixels(p, "x", across=True))
        if images == 1:
            out = TensorDesc.packed(p.dw.dtype, dims)
            return [self.matmul(p, ("alpha", "beta"), **operands,
                                c=NestedOperand(out, p.ptr("dw"), p.dw.alignment))]
        parts = p.scratch(4 * images * p.dw.count)
        product = self.matmul(p, ("alpha",), **operands,
                              c=NestedOperand(TensorDesc.packed("f32", dims), parts))
        total = NestedOp(Reduction(mode="add"), ADDERS, dict(beta=p.scalar("beta")),
                         x=NestedOperand(TensorDesc.packed("f32", (images, k * c)), parts),
                         y=NestedOperand(TensorDesc.packed(p.dw.dtype, (1, k * c)), p.ptr("dw"),
                                         p.dw.alignment))
        return [product, total]
