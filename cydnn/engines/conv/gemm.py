"""Convolution as im2col and a matrix product: forward, and the filter gradient."""
from __future__ import annotations

from math import prod

from ...graph import Graph, Match, Node, Tensor, core, once_per_match
from ...graph.tensor import MOST_BYTES
from ...kernels.expressions import ceil_div
from ...ops import ConvFprop, ConvWgrad, Matmul
from ...steps import Launch, Pointer, placed
from ...tensor import TensorDesc
from ..engine import Engine, merged, no_variant, wrong_device
from ..tile.matrices import too_many
from . import mma
from .view import Lifted, depth_digits

START_US, EFFICIENCY = 4.0, 0.3                  # of the launch that unfolds, on an H200
WARP, SCATTERED = 32, 8                          # threads; places of memory that they read in the time of
                                                 # their instructions
WINDOWS, GIVEN, OUT = 1, 2, 3                    # uids of the product's operands


def pixel_dims(y) -> list:
    """(size, stride) of images and pixels, the slowest first; the pixels joined, and images with them."""
    dims = [(y.n, y.strides[0]), *zip(y.spatial, y.strides[2:])]
    whole, apart = mma.joined(dims), mma.joined(dims[1:])
    if whole is not None:
        return [(y.n * prod(y.spatial), whole)]
    return dims if apart is None else [dims[0], (prod(y.spatial), apart)]


class Unfolded(Engine):
    """The base of both directions. Every window of x becomes a row of a matrix in the workspace (im2col), in
    the order of the filter's memory; its product is the output."""

    def __init__(self, *products: Engine):
        """``products``: the engines of the matmul, from the table of all engines (engines/__init__.py)."""
        self.products, self.knobs = products, merged(products)

    def refuse(self, p, dev):
        _, name, out = p.op.parts
        w, y = p.operands[name], p.operands[out]
        yield from wrong_device(dev)
        yield from no_variant(p, "conv/conv_im2col.cu", "x")
        given = next(read for read in p.op.reads if read != "x")
        if p.x.dtype is not p.operands[given].dtype:
            yield f"x and {given} must have one type; got {p.x.dtype} and {p.operands[given].dtype}"
        if not (w.is_packed("nchw") or w.is_packed("nhwc")):
            yield f"{name} must be packed; got strides {w.strides}"
        yield from too_many(f"pixels of {out} (n and spatial dims)", y.n * prod(y.spatial))
        if not y.count or not w.count:
            yield f"{out} and {name} must have elements; got dims {y.dims} and {w.dims}"
        elif p.x.dtype.bits >= 8:
            yield from self.refuse_product(p, dev)

    def refuse_product(self, p, dev):
        windows = self._windows(p) * self._row_step(p) * p.x.dtype.bytes
        if windows > MOST_BYTES:
            yield f"all windows of x must take at most 2**44 bytes; got {windows}"
        elif not self._products(p, dev):
            reasons = dict.fromkeys(s for e in self.products for s in e.reasons(self.product(p), dev))
            yield f"no matmul engine takes the product: {'; '.join(reasons)}"

    @staticmethod
    def _groups(p) -> int:
        return p.x.c // p.operands[p.op.parts[1]].c

    @staticmethod
    def _windows(p) -> int:
        """Of all groups."""
        y = p.operands[p.op.parts[2]]
        return Unfolded._groups(p) * y.n * prod(y.spatial)

    @staticmethod
    def _depth(p) -> int:
        return prod(p.operands[p.op.parts[1]].dims[1:])

    @staticmethod
    def _row_step(p) -> int:
        """Elements of a row: whole 16 bytes."""
        unit = 16 // p.x.dtype.bytes
        return ceil_div(Unfolded._depth(p), unit) * unit

    def product(self, p) -> Match:
        """The matmul, of WINDOWS and GIVEN to OUT; groups are batches."""
        raise NotImplementedError

    def given(self, p, steps: list) -> Pointer:
        """Where the other operand lies; a copy becomes one of the steps."""
        raise NotImplementedError

    @once_per_match
    def _products(self, p, dev) -> list:
        """The matmul engines that take it, the cheapest first."""
        match = self.product(p)
        found = [(e.cost(match, dev, e.best(match, dev)), i, e)
                 for i, e in enumerate(self.products) if e.accepts(match, dev)]
        return [e for _, _, e in sorted(found, key=lambda row: row[:2])]

    def configs(self, p, dev):
        return self._products(p, dev)[0].configs(self.product(p), dev)

    def least_us(self, p, dev):
        """One read of x and one write of all windows."""
        lanes = self._lanes(p) * self._vector(p)
        row = ceil_div(self._depth(p), lanes) * lanes        # with what idle threads would write
        moved = p.x.dtype.bytes_of(p.x.count + self._windows(p) * row)
        slower = max(WARP / self._run(p) / SCATTERED, 1.0)
        return START_US + dev.launch_us + slower * moved / (EFFICIENCY * dev.bandwidth_gbs) * 1e-3

    def cost(self, p, dev, config):
        return self.least_us(p, dev) + self._products(p, dev)[0].cost(self.product(p), dev, config)

    def plan(self, p, dev, config):
        _, name, out = p.op.parts
        w, groups, rows = p.operands[name], self._groups(p), self._windows(p) // self._groups(p)
        windows, x = p.scratch(groups * rows * self._row_step(p) * p.x.dtype.bytes), Lifted.of(p.x)
        inner = self._is_inner(w)
        taps, fill = Lifted.of(w).size, 5 - p.x.rank
        pre, _, stride, dilation = p.op.geometry(p.x.rank)
        stride, dilation = (1,) * fill + stride, (1,) * fill + dilation
        flipped = p.op.mode == "convolution"
        last = [(r - 1) * d if flipped else 0 for r, d in zip(taps, dilation)]
        digits = depth_digits((w.c, 0), ((n, 0) for n in taps), inner)
        args = dict(x=p.ptr("x"), to=windows, rows=rows, depth=self._depth(p),
                    lanes_log=self._lanes(p).bit_length() - 1, row_step=self._row_step(p),
                    channel_inner=int(inner), out=Lifted.of(p.operands[out]).size,
                    digit=[n for n, _ in digits[:3]], size=x.size, stride=stride,
                    first=[a - b for a, b in zip(last, (0,) * fill + pre)],
                    step=[-d if flipped else d for d in dilation],
                    x_n=x.n_step, x_group=w.c * x.c_step, x_c=x.c_step, x_s=x.steps)
        steps = [Launch(f"conv_im2col_{p.x.dtype}_{self._vector(p)}", args, dict(groups=groups))]
        where = {WINDOWS: windows, GIVEN: self.given(p, steps), OUT: p.ptr(p.op.writes[0])}
        return [*steps, *placed(self._products(p, dev)[0].plan(self.product(p), dev, config), where)]

    @staticmethod
    def _is_inner(w) -> bool:
        """Channels are innermost in the filter's memory."""
        return w.c > 1 and not w.is_packed("nchw")

    @staticmethod
    def _lanes(p) -> int:
        """Threads that follow each other along a row: all of a block, or fewer for short ones."""
        used = ceil_div(Unfolded._depth(p), Unfolded._vector(p))
        return min(1 << max(used - 1, 0).bit_length(), 256)

    @staticmethod
    def _run(p) -> int:
        """Elements of a row that are neighbours in x."""
        w, run, step = p.operands[p.op.parts[1]], 1, 1
        taps = [(w.dims[-1], p.x.strides[-1] * p.op.geometry(w.rank)[3][-1])]
        for size, stride in [(w.c, p.x.strides[1]), *taps] if Unfolded._is_inner(w) else taps:
            if stride == step:
                run, step = run * size, step * size
        return run

    @staticmethod
    def _vector(p) -> int:
        """Neighbouring channels of an access: 8, or 1."""
        w, steps = p.operands[p.op.parts[1]], [s for d, s in zip(p.x.dims, p.x.strides) if d > 1]
        is_wide = (p.x.dtype.bits == 16 and Unfolded._is_inner(w) and w.c % 8 == 0 and p.x.strides[1] == 1
                   and p.x.alignment >= 16 and all(s % 8 == 0 for s in steps if s != 1))
        return 8 if is_wide else 1


def _match(p, a: Tensor, b: Tensor, c: Tensor) -> Match:
    """The product of these operands, with the numbers of the convolution."""
    numbers = dict(alpha=p.scalar("alpha"), beta=p.scalar("beta"))
    operands = dict(a=a.uid, b=b.uid, c=c.uid)
    return Match.single(Graph([Node(Matmul(compute=p.op.compute), operands, numbers)], [a, b, c]))


class ConvFpropGemm(Unfolded):
    """Every window of x becomes a row of a matrix in the workspace (im2col), in the order of the filter's
    memory; y is that matrix times the filters, on CUDA cores."""
    index = 101
    takes = core(ConvFprop)
    v5 = ("GEMM",)

    @once_per_match
    def product(self, p):
        """Images and what else does not join are batches, too; pixels, and images with them, are one dim
        where y lets them be."""
        depth, step, groups = self._depth(p), self._row_step(p), self._groups(p)
        k, y = p.w.n // groups, p.y
        across, outer = y.strides[1] if y.c > 1 else 1, pixel_dims(y)
        sizes, strides = zip(*outer)
        steps = [prod(sizes[i + 1:]) * step for i in range(len(sizes))]
        some = (1,) * (len(sizes) - 1)
        a = TensorDesc(p.x.dtype, (groups, *sizes, depth), (prod(sizes) * step, *steps, 1))
        b = TensorDesc(p.w.dtype, (groups, *some, depth, k), (k * depth, *(0 for _ in some), 1, depth))
        c = TensorDesc(y.dtype, (groups, *sizes, k), (k * across, *strides, across))
        return _match(p, Tensor(WINDOWS, a), Tensor(GIVEN, b, alignment=p.w.alignment),
                      Tensor(OUT, c, alignment=y.alignment))

    def given(self, p, steps):
        return p.ptr("w")


class ConvFpropGemmMma(ConvFpropGemm):
    """Every window of x becomes a row of a matrix in the workspace; y is that matrix times the filters."""
    index = 102
    v5 = ("IMPLICIT_PRECOMP_GEMM", "GEMM")
    notes = ("tensor_core", "deterministic")


class ConvWgradGemm(Unfolded):
    """Every window of x becomes a row of a matrix in the workspace (im2col), in the order of the filter's
    memory; dw is dy, across, times that matrix. dy whose images lie apart is copied to NHWC."""
    index = 172
    takes = core(ConvWgrad)
    v5 = ("ALGO_1",)
    notes = ("tensor_core", "deterministic")

    def refuse_product(self, p, dev):
        if self._is_copied(p) and (mma.is_direct(p.dy) or mma.pixel_stride(p.dy) is None):
            yield f"dy must have its pixels at one distance; got strides {p.dy.strides}"
        else:
            yield from super().refuse_product(p, dev)

    @staticmethod
    def _is_copied(p) -> bool:
        return len(pixel_dims(p.dy)) > 1

    def cost(self, p, dev, config):
        return super().cost(p, dev, config) + (mma.copy_us(dev, p.dy) if self._is_copied(p) else 0.0)

    def given(self, p, steps):
        return mma.packed_operand(p, "dy", steps) if self._is_copied(p) else p.ptr("dy")

    @once_per_match
    def product(self, p):
        depth, step, groups = self._depth(p), self._row_step(p), self._groups(p)
        dy = mma.packed_desc(p.dy.desc) if self._is_copied(p) else p.dy
        k, across = p.dw.n // groups, dy.strides[1] if dy.c > 1 else 1
        (pixels, apart), = pixel_dims(dy)
        a = TensorDesc(dy.dtype, (groups, k, pixels), (k * across, across, apart))
        b = TensorDesc(p.x.dtype, (groups, pixels, depth), (pixels * step, step, 1))
        c = TensorDesc.packed(p.dw.dtype, (groups, k, depth))
        alignment = 16 if self._is_copied(p) else p.dy.alignment
        return _match(p, Tensor(GIVEN, a, alignment=alignment), Tensor(WINDOWS, b),
                      Tensor(OUT, c, alignment=p.dw.alignment))
