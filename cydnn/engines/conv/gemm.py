"""Forward convolution as im2col and a matrix product."""
from __future__ import annotations

from math import prod

from ...graph import Graph, Match, Node, Tensor, core, once_per_match
from ...graph.tensor import MOST_BYTES
from ...kernels.expressions import ceil_div
from ...ops import ConvFprop, Matmul
from ...steps import Launch, placed
from ...tensor import TensorDesc
from ..engine import Engine, Knob, no_variant, wrong_device
from ..tile.matrices import too_many
from .mma import pixel_stride
from .view import Lifted, depth_digits

START_US, EFFICIENCY = 4.0, 0.3                  # of the launch that unfolds, on an H200
WINDOWS, WEIGHTS, OUT = 1, 2, 3                  # uids of the product's operands


def _joined(y) -> list:
    """(size, stride) of images and pixels, the slowest first; the pixels joined, and images with them."""
    apart = pixel_stride(y)
    if apart is None:
        return [(y.n, y.strides[0]), *zip(y.spatial, y.strides[2:])]
    pixels = prod(y.spatial)
    if y.n == 1 or y.strides[0] == pixels * apart:
        return [(y.n * pixels, apart)]
    return [(y.n, y.strides[0]), (pixels, apart)]


class ConvFpropGemm(Engine):
    """Every window of x becomes a row of a matrix in the workspace (im2col), in the order of the filter's
    memory; y is that matrix times the filters, on CUDA cores."""
    index = 101
    takes = core(ConvFprop)
    v5 = ("GEMM",)

    def __init__(self, *products: Engine):
        """``products``: the engines of the matmul, from the table of all engines (engines/__init__.py)."""
        tiles = [knob.values for e in products for knob in e.knobs if knob.name == "tile"]
        self.products = products
        self.knobs = Knob("tile", tuple(dict.fromkeys(sum(tiles, ())))), Knob("splits", lo=1, hi=2 ** 20)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from no_variant(p, "conv/conv_im2col.cu", "x")
        if p.x.dtype is not p.w.dtype:
            yield f"x and w must have one type; got {p.x.dtype} and {p.w.dtype}"
        if not (p.w.is_packed("nchw") or p.w.is_packed("nhwc")):
            yield f"w must be packed; got strides {p.w.strides}"
        yield from too_many("pixels of y (n and spatial dims)", p.y.n * prod(p.y.spatial))
        if not p.y.count or not p.w.count:
            yield f"y and w must have elements; got dims {p.y.dims} and {p.w.dims}"
        elif p.x.dtype.bits >= 8:
            yield from self._refuse_product(p, dev)

    def _refuse_product(self, p, dev):
        windows = p.y.n * prod(p.y.spatial) * p.x.c // p.w.c * self._row_step(p) * p.x.dtype.bytes
        if windows > MOST_BYTES:
            yield f"all windows of x must take at most 2**44 bytes; got {windows}"
        elif not self._products(p, dev):
            reasons = "; ".join(s for e in self.products for s in e.reasons(self._product(p), dev))
            yield f"no matmul engine takes the product: {reasons}"

    @staticmethod
    def _depth(p) -> int:
        return p.w.c * prod(p.w.spatial)

    @staticmethod
    def _row_step(p) -> int:
        """Elements of a row: whole 16 bytes."""
        unit = 16 // p.x.dtype.bytes
        return ceil_div(ConvFpropGemm._depth(p), unit) * unit

    @staticmethod
    @once_per_match
    def _product(p) -> Match:
        """The matmul: groups, images and what else does not join as batches; pixels, and images with them,
        are one dim where y lets them be."""
        depth, step, groups = ConvFpropGemm._depth(p), ConvFpropGemm._row_step(p), p.x.c // p.w.c
        k, y = p.w.n // groups, p.y
        across, outer = y.strides[1] if y.c > 1 else 1, _joined(y)
        sizes, strides = zip(*outer)
        steps = [prod(sizes[i + 1:]) * step for i in range(len(sizes))]
        some = (1,) * (len(sizes) - 1)
        a = TensorDesc(p.x.dtype, (groups, *sizes, depth), (prod(sizes) * step, *steps, 1))
        b = TensorDesc(p.w.dtype, (groups, *some, depth, k), (k * depth, *(0 for _ in some), 1, depth))
        c = TensorDesc(y.dtype, (groups, *sizes, k), (k * across, *strides, across))
        tensors = [Tensor(WINDOWS, a), Tensor(WEIGHTS, b, alignment=p.w.alignment),
                   Tensor(OUT, c, alignment=y.alignment)]
        numbers = dict(alpha=p.scalar("alpha"), beta=p.scalar("beta"))
        node = Node(Matmul(compute=p.op.compute), dict(a=WINDOWS, b=WEIGHTS, c=OUT), numbers)
        return Match.single(Graph([node], tensors))

    @once_per_match
    def _products(self, p, dev) -> list:
        """The matmul engines that take it, the cheapest first."""
        match = self._product(p)
        found = [(e.cost(match, dev, e.best(match, dev)), i, e)
                 for i, e in enumerate(self.products) if e.accepts(match, dev)]
        return [e for _, _, e in sorted(found, key=lambda row: row[:2])]

    def configs(self, p, dev):
        return self._products(p, dev)[0].configs(self._product(p), dev)

    def least_us(self, p, dev):
        """One read of x and one write of all windows."""
        windows = p.y.n * prod(p.y.spatial) * self._depth(p) * (p.x.c // max(p.w.c, 1))
        moved = p.x.dtype.bytes_of(p.x.count + windows)
        return START_US + dev.launch_us + moved / (EFFICIENCY * dev.bandwidth_gbs) * 1e-3

    def cost(self, p, dev, config):
        return self.least_us(p, dev) + self._products(p, dev)[0].cost(self._product(p), dev, config)

    def plan(self, p, dev, config):
        depth, step, groups = self._depth(p), self._row_step(p), p.x.c // p.w.c
        rows = p.y.n * prod(p.y.spatial)
        windows, x, out = p.scratch(groups * rows * step * p.x.dtype.bytes), Lifted.of(p.x), Lifted.of(p.y)
        inner = p.w.c > 1 and not p.w.is_packed("nchw")
        vector = 8 if self._is_wide(p, inner) else 1
        taps, fill = Lifted.of(p.w).size, 5 - p.x.rank
        pre, _, stride, dilation = p.op.geometry(p.x.rank)
        stride, dilation = (1,) * fill + stride, (1,) * fill + dilation
        flipped = p.op.mode == "convolution"
        last = [(r - 1) * d if flipped else 0 for r, d in zip(taps, dilation)]
        digits = depth_digits((p.w.c, 0), ((n, 0) for n in taps), inner)
        args = dict(x=p.ptr("x"), to=windows, rows=rows, depth=depth, row_step=step,
                    channel_inner=int(inner), out=out.size,
                    digit=[n for n, _ in digits[:3]], size=x.size, stride=stride,
                    first=[a - b for a, b in zip(last, (0,) * fill + pre)],
                    step=[-d if flipped else d for d in dilation],
                    x_n=x.n_step, x_group=p.w.c * x.c_step, x_c=x.c_step, x_s=x.steps)
        unfold = Launch(f"conv_im2col_{p.x.dtype}_{vector}", args, dict(groups=groups))
        where = {WINDOWS: windows, WEIGHTS: p.ptr("w"), OUT: p.ptr("y")}
        return [unfold, *placed(self._products(p, dev)[0].plan(self._product(p), dev, config), where)]

    @staticmethod
    def _is_wide(p, inner) -> bool:
        """Eight neighbouring channels are one access."""
        steps = [s for d, s in zip(p.x.dims, p.x.strides) if d > 1]
        return (p.x.dtype.bits == 16 and inner and p.w.c % 8 == 0 and p.x.strides[1] == 1
                and p.x.alignment >= 16 and all(s % 8 == 0 for s in steps if s != 1))


class ConvFpropGemmMma(ConvFpropGemm):
    """Every window of x becomes a row of a matrix in the workspace; y is that matrix times the filters."""
    index = 102
    notes = ("tensor_core", "deterministic")
