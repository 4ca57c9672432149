"""Patches that do not overlap along the width: the taps of a row are channels of one pixel, in three
directions, images and filters where they lie."""
from __future__ import annotations

from dataclasses import replace

from ...graph import Graph, Match, Node, Tensor, core, once_per_match
from ...ops import ConvDgrad, ConvFprop, ConvWgrad
from ...tensor import TensorDesc
from ..engine import no_elements, no_variant, wrong_device
from .dgrad_wgmma import ConvDgradWgmma
from .inner import InnerConv
from .wgmma import ConvFpropWgmma
from .wgrad_wgmma import ConvWgradWgmma


STEPS = 8                                        # pixels from one that TMA reads to the next


class Patches(InnerConv):
    """What the three directions share: a convolution of fewer taps, of wider pixels."""

    def refuse(self, p, dev):
        yield from wrong_device(dev, 90)
        image, w, out = (p.operands[name] for name in p.op.parts)
        wrong = [*no_variant(p, "conv/conv_wgmma.cu", *(n for n in p.operands if p.operands[n] is not None)),
                 *no_elements(p.operands)]
        yield from wrong
        if wrong:
            return
        pre, _, stride, dilation = p.op.geometry(image.rank)
        taps, wide = w.spatial[-1], image.spatial[-1]
        if not taps == stride[-1] > 1 or dilation[-1] > 1 or pre[-1] or image.c != w.c:
            yield (f"taps of a row must be the stride of the width, 2 and more, without padding, dilation "
                   f"and groups; got {taps} taps, stride {stride[-1]}, padding {pre[-1]}, dilation "
                   f"{dilation[-1]}, {image.c // w.c} groups")
            return
        if out.spatial[-1] * taps > wide or p.op.parts[0] in p.op.writes and out.spatial[-1] * taps < wide:
            yield f"the width must be {out.spatial[-1]} whole patches of {taps}; got {wide}"
        if p.op.mode == "convolution":
            yield "mode must be cross_correlation, as taps of a row are read forwards; got convolution"
        if image.strides[1] != 1 or image.strides[-1] != image.c:
            yield f"{p.op.parts[0]} must have pixels of a row beside each other; got strides {image.strides}"
        if w.strides[1] != 1 or w.strides[-1] != w.c:
            yield f"{p.op.parts[1]} must have taps of a row beside each other; got strides {w.strides}"
        elif reasons := self.untaken(p, dev):
            yield f"no engine takes it with taps as channels: {reasons}"

    @once_per_match
    def nested(self, p) -> Match:
        """The convolution with the taps of a row as channels."""
        image, w, out = (p.operands[name] for name in p.op.parts)
        pre, post, stride, dilation = p.op.geometry(image.rank)
        taps, (height, width) = w.spatial[-1], ((1, *out.spatial)[-2:])
        views = [self._joined(image, taps, width), self._joined(w, taps, 1), out.desc]
        if self.is_split(p):
            rows = (height, stride[0]), (1, stride[0]), (height, 1)
            views = [self._split(view, *two) for view, two in zip(views, rows)]
            pre = post = (0, 0, 0)
            stride = dilation = (1, 1, 1)
        op = replace(p.op, pre_pad=pre, post_pad=(*post[:-1], 0), stride=(*stride[:-1], 1), dilation=dilation)
        tensors = [Tensor(uid, view, alignment=p.operands[name].alignment)
                   for uid, (name, view) in enumerate(zip(p.op.parts, views), 1)]
        scaled = {name: p.scalar(name) for name in ("alpha", "beta")}
        return Match.single(Graph([Node(op, dict(zip(p.op.parts, (1, 2, 3))), scaled)], tensors))

    @staticmethod
    def is_split(p) -> bool:
        """Rows of a patch are a dim of their own: TMA does not step as far as from patch to patch."""
        image, w, out = (p.operands[name] for name in p.op.parts)
        pre, _, stride, dilation = p.op.geometry(image.rank)
        return (image.rank == 4 and w.spatial[0] == stride[0] > STEPS and dilation[0] == 1 and not pre[0]
                and out.spatial[0] * stride[0] <= image.spatial[0] and p.op.parts[0] not in p.op.writes)

    @staticmethod
    def _joined(d, taps: int, count: int) -> TensorDesc:
        """A tensor whose ``taps`` neighbours along the width are channels; ``count`` are left."""
        return TensorDesc(d.dtype, (d.n, taps * d.c, *d.spatial[:-1], count),
                          (d.strides[0], 1, *d.strides[2:-1], taps * d.c))

    @staticmethod
    def _split(d, patches: int, rows: int) -> TensorDesc:
        """A tensor with its height as so many patches of so many rows."""
        down = d.strides[2]
        return TensorDesc(d.dtype, (*d.dims[:2], patches, rows, d.dims[3]),
                          (*d.strides[:2], rows * down, down, d.strides[3]))

    def cost(self, p, dev, config):
        return self.found(p, dev)[0][0]

    def plan(self, p, dev, config):
        return self.steps(p, dev, {uid: p.ptr(name) for uid, name in enumerate(p.op.parts, 1)})


class ConvFpropPatches(Patches):
    """The taps of a row of a patch are channels of one pixel."""
    index, takes = 164, core(ConvFprop)
    v5 = ("IMPLICIT_PRECOMP_GEMM",)
    inner = (ConvFpropWgmma(),)


class ConvDgradPatches(Patches):
    """The taps of a row of a patch are channels of one pixel, which have fewer classes."""
    index, takes = 127, core(ConvDgrad)
    v5 = ("ALGO_1",)
    inner = (ConvDgradWgmma(),)


class ConvWgradPatches(Patches):
    """The taps of a row of a patch are channels of one pixel."""
    index, takes = 146, core(ConvWgrad)
    v5 = ("ALGO_1",)
    inner = (ConvWgradWgmma(),)
