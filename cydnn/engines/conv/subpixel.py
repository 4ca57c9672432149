"""Data gradients with a stride along the last spatial dim as sub-pixel convolutions: the channels of
neighbouring pixels of dx lie beside each other, and are those of one pixel of a gradient of unit stride."""
from __future__ import annotations

from math import prod

import numpy as np

from ...graph import Graph, Match, Node, Tensor, core, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvDgrad
from ...steps import Launch
from ...tensor import TensorDesc
from ..engine import no_elements, no_variant, wrong_device
from ..nested import AFTER_US
from ..tile.matrices import too_many
from .dgrad_mma import ConvDgradMma
from .dgrad_wgmma import ConvDgradWgmma
from .halo import ConvDgradHalo
from .inner import InnerConv
from .view import Lifted
from .wgmma_pieces import ConvDgradWgmmaPieces

MOST = 512                                       # channels of the pixels that are joined


def joined(op: ConvDgrad, dx: tuple, taps: int, out: int) -> tuple[ConvDgrad, int]:
    """(the gradient of joined pixels, its taps along the last dim). ``dx``: dims; ``taps``, ``out``: of w and
    dy along the last dim. Pixels that are joined meet those of dy from ``first`` to ``last``, counted from
    their own place."""
    pre, post, stride, dilation = op.geometry(len(dx))
    by, pixels = stride[-1], dx[-1] // stride[-1]
    first = min(ceil_div(pre[-1] - (taps - 1) * dilation[-1], by), out - pixels)
    last = ceil_div(pre[-1], by)
    found = ConvDgrad(pre_pad=(*pre[:-1], last), post_pad=(*post[:-1], out - pixels - first),
                      stride=(*stride[:-1], 1), dilation=(*dilation[:-1], 1), mode=op.mode,
                      compute=op.compute)
    return found, last - first + 1


class ConvDgradSubpixel(InnerConv):
    """As many neighbouring pixels of a row as its stride are one, with the channels of all; a copy of the
    filters is zero where a pixel meets no tap."""
    index, takes = 171, core(ConvDgrad)
    v5 = ("ALGO_1",)
    inner = (ConvDgradWgmma(), ConvDgradMma(), ConvDgradHalo(), ConvDgradWgmmaPieces())

    def refuse(self, p, dev):
        yield from wrong_device(dev, 80)
        wrong = [*no_variant(p, "conv/conv_subpixel_filters.cu", *p.op.reads), *no_elements(p.operands)]
        yield from wrong
        if wrong:
            return
        dx, by = p.dx, p.op.geometry(p.dx.rank)[2][-1]
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.dy.dtype} tensors; got {p.op.compute}"
        if by == 1:
            yield "the stride along the last dim must be more than 1; got 1"
        elif dx.c != p.w.c:
            yield f"groups must be 1; got {dx.c // p.w.c}"
        elif by * dx.c > MOST:
            yield (f"channels of dx, times the stride along the last dim, must be at most {MOST}; "
                   f"got {by * dx.c}")
        elif dx.dims[-1] % by or dx.strides[-1] != dx.c or dx.c > 1 and dx.strides[1] != 1:
            yield (f"dx must have whole groups of {by} pixels in a row, their channels beside each other; "
                   f"got dims {dx.dims} and strides {dx.strides}")
        else:
            yield from self.refuse_joined(p, dev)

    def refuse_joined(self, p, dev):
        by, w = p.op.geometry(p.dx.rank)[2][-1], p.w
        taps = joined(p.op, p.dx.dims, w.dims[-1], p.dy.dims[-1])[1]
        wrong = list(too_many("filters of joined pixels", by * prod(w.dims[:-1]) * taps))
        yield from wrong
        if not wrong and (reasons := self.untaken(p, dev)):
            yield f"no engine takes the gradient of joined pixels: {reasons}"

    @once_per_match
    def nested(self, p) -> Match:
        dx, w, dy, by = p.dx, p.w, p.dy, p.op.geometry(p.dx.rank)[2][-1]
        op, taps = joined(p.op, dx.dims, w.dims[-1], dy.dims[-1])
        wide = TensorDesc(dx.dtype, (dx.n, by * dx.c, *dx.spatial[:-1], dx.spatial[-1] // by),
                          (dx.strides[0], 1, *dx.strides[2:-1], by * dx.c))
        filters = TensorDesc.packed(w.dtype, (w.n, by * w.c, *w.spatial[:-1], taps), "nhwc")
        tensors = [Tensor(1, wide, alignment=dx.alignment), Tensor(2, filters),
                   Tensor(3, TensorDesc(dy.dtype, dy.dims, dy.strides), alignment=dy.alignment)]
        numbers = {name: p.scalar(name) for name in ("alpha", "beta")}
        return Match.single(Graph([Node(op, dict(dx=1, w=2, dy=3), numbers)], tensors))

    def cost(self, p, dev, config):
        return dev.launch_us + AFTER_US + self.found(p, dev)[0][0]

    def plan(self, p, dev, config):
        pre, _, stride, dilation = p.op.geometry(p.dx.rank)
        given, nested, by = Lifted.of(p.w), self.nested(p), stride[-1]
        filters = nested.w.desc
        where = p.scratch(filters.bytes)
        pack = Launch(f"conv_subpixel_filters_{p.w.dtype}", dict(
            w=p.ptr("w"), joined=where, count=filters.count, channels=p.w.c, joined_channels=by * p.w.c,
            taps=Lifted.of(filters).size, stride=by,
            first=pre[-1] - by * nested.op.geometry(p.dx.rank)[0][-1], dilation=dilation[-1],
            w_taps=p.w.dims[-1], is_flipped=int(p.op.mode == "convolution"), w_k=given.n_step,
            w_c=given.c_step, w_s=given.steps))
        return [pack, *self.steps(p, dev, {1: p.ptr("dx"), 2: where, 3: p.ptr("dy")})]

    def magnitude(self, op, arrays, scalars, results):
        """The op's, but where zeros multiply what is no number, for one of the joined pixels."""
        found = op.magnitude(arrays, scalars, results)
        wrong = ~np.isfinite(arrays["dy"]).all(1, keepdims=True)
        if not wrong.any():
            return found
        dims, window = found["dx"].shape, arrays["w"].shape[2:]
        inner, taps = joined(op, dims, window[-1], wrong.shape[-1])
        by = op.geometry(len(dims))[2][-1]
        shapes = np.zeros((dims[0], 1, *dims[2:-1], dims[-1] // by))
        ones = dict(dy=wrong.astype(float), w=np.ones((1, 1, *window[:-1], taps)), dx=shapes)
        met = np.repeat(inner.evaluate(ones, dict(alpha=1.0, beta=0.0))["dx"] != 0, by, -1)
        return {"dx": np.where(met, np.nan, found["dx"])}
