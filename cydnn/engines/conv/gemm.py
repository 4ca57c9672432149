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
from ..layout.copies import copied
from ..nested import AFTER_US, NestedOp, NestedOperand
from ..tile.matrices import too_many
from . import mma
from .view import Lifted, depth_digits

START_US, EFFICIENCY = 2.5, 0.46                 # of the launch that unfolds, on an H200
CHUNK_BYTES = 16                                 # of a row: a thread's
CLOCKS = 1.0, 0.35                               # of an SM for a chunk, and for each of its loads
ODD_US = 3.4e-6                                  # of an element of rows that no 16 bytes divide, on an H200
THREADS = 512                                    # of an SM, before they get more rows each
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
        return Unfolded._row_chunks(p) * Unfolded._chunk(p)

    @staticmethod
    def _chunk(p) -> int:
        """Elements of 16 bytes."""
        return 8 * CHUNK_BYTES // p.x.dtype.bits

    @staticmethod
    def _row_chunks(p) -> int:
        return ceil_div(Unfolded._depth(p), Unfolded._chunk(p))

    def product(self, p) -> Match:
        """The matmul, of WINDOWS and GIVEN to OUT; groups are batches."""
        raise NotImplementedError

    def given(self, p, dev, steps: list) -> Pointer:
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
        """One read of x and one write of all windows, or the loads that this takes."""
        chunks = self._chunks(p)
        moved = p.x.dtype.bytes_of(p.x.count) + chunks * CHUNK_BYTES
        clocks = CLOCKS[0] + CLOCKS[1] * self._chunk(p) / self._vector(p)
        us = max(1e-3 * moved / (EFFICIENCY * dev.bandwidth_gbs), chunks * clocks / (dev.sms * dev.clock_mhz))
        return START_US + dev.launch_us + us

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
                    lanes_log=self._lanes(p).bit_length() - 1, each=self._each(p, dev),
                    row_step=self._row_step(p), channel_inner=int(inner), out=Lifted.of(p.operands[out]).size,
                    digit=[n for n, _ in digits[:3]], size=x.size, stride=stride,
                    first=[a - b for a, b in zip(last, (0,) * fill + pre)],
                    step=[-d if flipped else d for d in dilation],
                    x_n=x.n_step, x_group=w.c * x.c_step, x_c=x.c_step, x_s=x.steps)
        steps = [Launch(f"conv_im2col_{p.x.dtype}_{self._vector(p)}", args, dict(groups=groups))]
        where = {WINDOWS: windows, GIVEN: self.given(p, dev, steps), OUT: p.ptr(p.op.writes[0])}
        return [*steps, *placed(self._products(p, dev)[0].plan(self.product(p), dev, config), where)]

    @staticmethod
    def _is_inner(w) -> bool:
        """Channels are innermost in the filter's memory."""
        return w.c > 1 and not w.is_packed("nchw")

    @staticmethod
    def _lanes(p) -> int:
        """Threads that follow each other along a row: a power of two that leaves fewest without a place."""
        used = Unfolded._row_chunks(p)
        some = [1 << i for i in range(6) if 1 << i < 2 * used]
        return min(some[-3:], key=lambda lanes: (ceil_div(used, lanes) * lanes, -lanes))

    @staticmethod
    def _chunks(p) -> int:
        """Of all rows, with those of threads without a place."""
        lanes = Unfolded._lanes(p)
        return Unfolded._windows(p) * ceil_div(Unfolded._row_chunks(p), lanes) * lanes

    @staticmethod
    def _each(p, dev) -> int:
        """Rows of a thread: many, where there is enough to do."""
        return next((n for n in (32, 16, 8) if Unfolded._chunks(p) >= n * THREADS * dev.sms), 4)

    @staticmethod
    @once_per_match
    def _vector(p) -> int:
        """Elements of a row that one load has: neighbours in x, inside of it all or none, at addresses that
        are multiples of their size."""
        x, w = p.x, p.operands[p.op.parts[1]]
        pre, post, stride, dilation = p.op.geometry(w.rank)
        is_whole, way = [a == b == 0 for a, b in zip(pre, post)], -1 if p.op.mode == "convolution" else 1
        taps = [*zip(w.spatial, (way * s * d for s, d in zip(x.strides[2:], dilation)), is_whole)][::-1]
        channel, run, apart = (w.c, x.strides[1], True), [], []
        for size, step, inside in (channel, *taps) if Unfolded._is_inner(w) else (*taps, channel):
            if not apart and step == prod(n for n, _ in run):
                run.append((size, inside))
            elif size > 1:
                apart.append(step)
        out = p.operands[p.op.parts[2]].spatial
        apart += [s * d for s, d, n in zip(x.strides[2:], stride, out) if n > 1]
        apart += [x.strides[0]] * (x.n > 1) + [w.c * x.strides[1]] * (Unfolded._groups(p) > 1)

        def fits(count):
            before = [prod(n for n, _ in run[:i]) for i in range(len(run))]
            return (prod(n for n, _ in run) % count == 0 and 8 * x.alignment % (count * x.dtype.bits) == 0
                    and not any(step % count for step in apart)
                    and all(inside for (_, inside), step in zip(run, before) if step % count))
        return next((n for n in (8, 4, 2) if n <= Unfolded._chunk(p) and fits(n)), 1)


def _across(d: TensorDesc) -> TensorDesc:
    """Its matrices, rows as columns."""
    turn = lambda values: (*values[:-2], values[-1], values[-2])
    return TensorDesc(d.dtype, turn(d.dims), turn(d.strides))


def odd_us(out, row: int) -> float:
    """Of the way out in rows of so many elements, which whole 16 bytes may divide or not."""
    return ODD_US * out.count if row * out.dtype.bits % (8 * CHUNK_BYTES) else 0.0


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
        steps, still = [prod(sizes[i + 1:]) * step for i in range(len(sizes))], (0,) * (len(sizes) - 1)
        a = TensorDesc(p.x.dtype, (groups, *sizes, depth), (prod(sizes) * step, *steps, 1))
        b = TensorDesc(p.w.dtype, (groups, *(1 for _ in still), depth, k), (k * depth, *still, 1, depth))
        c = TensorDesc(y.dtype, (groups, *sizes, k), (k * across, *strides, across))
        given = Tensor(WINDOWS, a), Tensor(GIVEN, b, alignment=p.w.alignment)
        out = Tensor(OUT, c, alignment=y.alignment)
        if across == 1:
            return _match(p, *given, out)
        return _match(p, *(d.replace(desc=_across(d.desc)) for d in (*given[::-1], out)))   # rows: channels

    def cost(self, p, dev, config):
        row = p.y.c // self._groups(p) if p.y.strides[1] == 1 or p.y.c == 1 else pixel_dims(p.y)[-1][0]
        return super().cost(p, dev, config) + odd_us(p.y, row)

    def given(self, p, dev, steps):
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

    @once_per_match
    def copy(self, p) -> NestedOp:
        """Of dy, to NHWC."""
        packed = mma.packed_desc(p.dy.desc)
        given = NestedOperand(p.dy.desc, p.ptr("dy"), p.dy.alignment)
        return copied(given, NestedOperand(packed, p.scratch(packed.bytes)))

    def cost(self, p, dev, config):
        copy = self.copy(p).choice(dev)[0] + AFTER_US if self._is_copied(p) else 0.0
        return super().cost(p, dev, config) + copy

    def given(self, p, dev, steps):
        if not self._is_copied(p):
            return p.ptr("dy")
        steps += self.copy(p).steps(dev)
        return self.copy(p).where[2]

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
