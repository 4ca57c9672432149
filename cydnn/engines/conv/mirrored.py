"""Convolutions of unit stride with few filters, in three directions: with channels and filters in each
other's place they are convolutions of few channels, which engines of first layers compute."""
from __future__ import annotations

from ...graph import Match, Node, Tensor, core, many, once_per_match
from ...ops import ConvDgrad, ConvFprop, ConvWgrad, Pointwise
from ...ops.conv import MODES
from ...steps import placed
from ...tensor import TensorDesc
from ..engine import no_elements, wrong_device
from .dgrad_few import ConvDgradFew
from .fprop_first import ConvFpropFirst
from .inner import InnerConv, match_of
from .wgrad_first import ConvWgradFirst

MOST = 8                                         # channels where they are few
OTHER = {ConvFprop: ConvDgrad, ConvDgrad: ConvFprop, ConvWgrad: ConvWgrad}
NAMES = {ConvFprop: dict(x="dy", w="w", y="dx"), ConvDgrad: dict(dy="x", w="w", dx="y"),
         ConvWgrad: dict(x="dy", dw="dw", dy="x")}           # of operands there


def reach(op, taps: tuple) -> tuple:
    """Pixels from the first tap to the last, of each spatial dim."""
    return tuple((n - 1) * gap for n, gap in zip(taps, op.geometry(len(taps) + 2)[3]))


def mirrored(op, taps: tuple):
    """The convolution of unit stride with w's channels and filters in each other's place: taps go the other
    way, and padding is what it leaves of their reach."""
    (pre, post, _, dilation), far = op.geometry(len(taps) + 2), reach(op, taps)
    left = lambda pads: tuple(whole - pad for whole, pad in zip(far, pads))
    mode, = set(MODES) - {op.mode}
    return OTHER[type(op)](pre_pad=left(pre), post_pad=left(post), dilation=dilation, mode=mode,
                           compute=op.compute)


class Mirrored(InnerConv):
    """What the three directions share. ``few``: the operand that has few channels."""
    few = "dy"

    def refuse(self, p, dev):
        yield from wrong_device(dev, 90)
        wrong = list(no_elements(p.operands))
        yield from wrong
        if wrong:
            return
        (image, w, _), few = (p.operands[name] for name in p.op.parts), p.operands[self.few]
        (pre, post, stride, _), far = p.op.geometry(image.rank), reach(p.op, w.spatial)
        if set(stride) != {1}:
            yield f"stride must be 1; got {stride}"
        elif image.c != w.c:
            yield f"groups must be 1; got {image.c // max(w.c, 1)}"
        elif few.c > MOST:
            yield f"channels of {self.few} must be at most {MOST}; got {few.c}"
        elif any(pad > whole for pads in (pre, post) for pad, whole in zip(pads, far)):
            yield f"padding must be at most dilation * (taps - 1), {far}; got {pre} and {post}"
        elif reasons := self.untaken(p, dev):
            yield f"no engine takes the mirrored convolution: {reasons}"

    @once_per_match
    def nested(self, p) -> Match:
        w = p.operands[name := p.op.parts[1]]
        desc = TensorDesc(w.dtype, (w.c, w.n, *w.spatial), (w.strides[1], w.strides[0], *w.strides[2:]))
        turned = Tensor(self._turned(p), desc, alignment=w.alignment)
        names = NAMES[type(p.op)]
        uids = {names[o]: turned.uid if o == name else uid for o, uid in p.node.operands.items()}
        core = Node(mirrored(p.op, w.spatial), uids, {number: p.scalar(number) for number in p.op.scalars})
        return match_of(p, [core, *p.behind], turned, is_core=lambda node: node is core)

    @staticmethod
    def _turned(p) -> int:
        """The uid of w with its first dims in each other's place."""
        return max(p.graph.tensors) + 1

    def cost(self, p, dev, config):
        return self.found(p, dev)[0][0]

    def plan(self, p, dev, config):
        _, _, engine, config = self.found(p, dev)[0]
        return placed(engine.plan(self.nested(p), dev, config), {self._turned(p): p.ptr(p.op.parts[1])})


class ConvFpropMirrored(Mirrored):
    """y of few channels, as of an image, is the data gradient of a first layer whose gradient is x."""
    index, takes = 168, core(ConvFprop, behind=many(Pointwise))
    v5 = ("IMPLICIT_PRECOMP_GEMM",)
    few = "y"
    inner = (ConvDgradFew(),)

    def magnitude(self, op, arrays, scalars, results):
        turned = dict(dy=arrays["x"], w=arrays["w"].swapaxes(0, 1), dx=results["y"])
        found = self.inner[0].magnitude(mirrored(op, arrays["w"].shape[2:]), turned, scalars, {})
        return {"y": found["dx"]}


class ConvDgradMirrored(Mirrored):
    """The data gradient where dy has few channels is the first layer of an image that is dy."""
    index, takes = 169, core(ConvDgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)
    inner = (ConvFpropFirst(),)


class ConvWgradMirrored(Mirrored):
    """The filter gradient where dy has few channels is that of a first layer of an image that is dy."""
    index, takes = 170, core(ConvWgrad)
    v5 = ("ALGO_1",)
    inner = (ConvWgradFirst(),)
