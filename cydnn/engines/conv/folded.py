"""Convolutions of volumes whose filters reach along the depth alone, or not along it, in three directions: as
convolutions of images, which engines of two spatial dims compute."""
from __future__ import annotations

import numpy as np

from ...graph import Match, Node, Tensor, core, many, once_per_match
from ...ops import ConvDgrad, ConvFprop, ConvWgrad, Pointwise
from ...tensor import TensorDesc
from ..engine import no_elements, wrong_device
from .depthwise_planes import ConvDgradDepthwisePlanes, ConvFpropDepthwisePlanes, ConvWgradDepthwisePlanes
from .depthwise_slide import ConvDgradDepthwiseSlide, ConvFpropDepthwiseSlide, ConvWgradDepthwiseSlide
from .dgrad_few import ConvDgradFew
from .fprop_first import ConvFpropFirst
from .halo import ConvDgradHalo, ConvFpropHalo
from .inner import InnerConv, match_of
from .mirrored import ConvDgradMirrored, ConvWgradMirrored
from .mma import joined
from .wgrad_first import ConvWgradFirst
from .wgrad_halo import ConvWgradHalo

# Dims that become one, with the dims of which it is made: images and depths, or rows and pixels.
IMAGES, PIXELS = (0, 2), (3, 4)
KEPT = {IMAGES: (1, 2), PIXELS: (0, 2)}          # spatial dims of the images


def is_still(op, taps: tuple, dims: tuple) -> bool:
    """A pixel meets those of its own place alone along these spatial dims."""
    pre, post, stride, _ = op.geometry(len(taps) + 2)
    return all((taps[i], pre[i], post[i], stride[i]) == (1, 0, 0, 1) for i in dims)


def lies(p, tensor: Tensor) -> TensorDesc:
    """How a tensor lies in memory; what does not leave the region lies nowhere, and may have any layout."""
    is_inside = tensor.is_virtual and tensor.uid not in {*p.region.inputs, *p.region.outputs}
    return TensorDesc.packed(tensor.dtype, tensor.dims, "nhwc") if is_inside else tensor.desc


def step_of(desc: TensorDesc, pair: tuple) -> int | None:
    """That of both dims as one; None where they are not in memory."""
    return joined(((desc.dims[i], desc.strides[i]) for i in pair), alone=desc.strides[pair[0]])


def folds(p, tensor: Tensor, pair: tuple) -> bool:
    """Both dims are one in memory, and as large as those of the output, or of size 1."""
    sizes = [[d.dims[i] for i in pair if i < d.rank] for d in (tensor, p.operands[p.op.writes[0]])]
    return (tensor.rank == 5 and sizes[0] in ([1, 1], sizes[1])
            and step_of(lies(p, tensor), pair) is not None)


def image(desc: TensorDesc, pair: tuple) -> TensorDesc:
    """A volume with both dims as one."""
    outer, inner = pair
    dims, strides = list(desc.dims), list(desc.strides)
    dims[outer], strides[outer] = dims[outer] * dims[inner], step_of(desc, pair)
    del dims[inner], strides[inner]
    return TensorDesc(desc.dtype, dims, strides)


def folded(values: np.ndarray, pair: tuple) -> np.ndarray:
    """The elements of a volume with both dims as one."""
    outer, inner = pair
    beside = np.moveaxis(values, inner, outer + 1)
    return beside.reshape(*beside.shape[:outer], -1, *beside.shape[outer + 2:])


def unfolded(values: np.ndarray, dims: tuple, pair: tuple) -> np.ndarray:
    """The same as a volume of these dims."""
    outer, inner = pair
    beside = [n for i, n in enumerate(dims) if i != inner]
    beside.insert(outer + 1, dims[inner])
    return np.moveaxis(values.reshape(beside), outer + 1, inner)


def flat(op, pair: tuple):
    """The convolution of images."""
    pre, post, stride, dilation = (tuple(of[i] for i in KEPT[pair]) for of in op.geometry(5))
    return type(op)(pre_pad=pre, post_pad=post, stride=stride, dilation=dilation, mode=op.mode,
                    compute=op.compute)


class Folded(InnerConv):
    """What the three directions share: of a filter that does not reach along the depth, images and their
    depths are one dim; of one that reaches along it alone, rows and pixels are. So they are in what is
    behind it."""

    def refuse(self, p, dev):
        yield from wrong_device(dev, 80)
        images = {name: p.operands[name] for name in p.op.parts[::2]}
        rank, taps = p.operands[p.op.parts[1]].rank, p.operands[p.op.parts[1]].spatial
        wrong = list(no_elements(p.operands))
        yield from wrong
        if rank != 5:
            yield f"images must have 3 spatial dims; got {rank - 2}"
        elif wrong:
            return
        elif not self.pairs(p):
            yield (f"{p.op.parts[1]} must have one tap along the depth, or along height and width, with unit "
                   f"strides and without padding there, and dims of {' and '.join(images)}, and of what is "
                   f"behind them, that become one must be one in memory; got taps {taps}, strides "
                   f"{' and '.join(str(d.strides) for d in images.values())}")
        elif any(node.op.mode == "gen_index" for node in p.behind):
            yield f"what is behind {p.op.writes[0]} must not count a dim of the volume; got gen_index"
        elif reasons := self.untaken(p, dev):
            yield f"no engine takes the convolution of images: {reasons}"

    @staticmethod
    def pairs(p) -> list:
        """The pairs of dims that may become one."""
        taps = p.operands[p.op.parts[1]].spatial
        images = [p.operands[name] for name in p.op.parts[::2]]
        tail = {u for node in p.behind for u in (*node.reads, *node.writes)} - {d.uid for d in images}
        return [pair for pair, dims in ((IMAGES, (0,)), (PIXELS, (1, 2))) if is_still(p.op, taps, dims)
                and all(step_of(lies(p, d), pair) is not None for d in images)
                and all(folds(p, p.graph.tensors[u], pair) for u in tail)]

    @once_per_match
    def nested(self, p) -> Match:
        pair, w = self.pairs(p)[0], p.operands[p.op.parts[1]]
        numbers = {name: p.scalar(name) for name in p.op.scalars}
        core = Node(flat(p.op, pair), p.node.operands, numbers)
        kept = [0, 1, *(2 + i for i in KEPT[pair])]
        window = TensorDesc(w.dtype, [w.dims[i] for i in kept], [w.strides[i] for i in kept])
        used = {u for node in (core, *p.behind) for u in (*node.reads, *node.writes)} - {w.uid}
        others = [d.replace(desc=image(lies(p, d), pair)) for d in map(p.graph.tensors.get, used)]
        return match_of(p, [core, *p.behind], w.replace(desc=window), *others,
                        is_core=lambda node: node is core)

    def cost(self, p, dev, config):
        return self.found(p, dev)[0][0]

    def plan(self, p, dev, config):
        return self.steps(p, dev, {})


class ConvFpropFolded(Folded):
    """Volumes as images, where filters reach along the depth alone, or not along it."""
    index, takes = 173, core(ConvFprop, behind=many(Pointwise))
    v5 = ("IMPLICIT_PRECOMP_GEMM",)
    inner = (ConvFpropFirst(), ConvFpropHalo(), ConvFpropDepthwiseSlide(), ConvFpropDepthwisePlanes())


class ConvDgradFolded(Folded):
    """Volumes as images, where filters reach along the depth alone, or not along it."""
    index, takes = 174, core(ConvDgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)
    inner = (ConvDgradFew(), ConvDgradHalo(), ConvDgradMirrored(), ConvDgradDepthwiseSlide(),
             ConvDgradDepthwisePlanes())

    def magnitude(self, op, arrays, scalars, results):
        """That of few channels: where a NaN of dy goes further than the op's."""
        pair = IMAGES if is_still(op, arrays["w"].shape[2:], (0,)) else PIXELS
        images = {name: folded(values, pair) for name, values in arrays.items() if name != "w"}
        images["w"] = arrays["w"][:, :, 0] if pair == IMAGES else arrays["w"][..., 0]
        dx = {"dx": folded(results["dx"], pair)}
        found = self.inner[0].magnitude(flat(op, pair), images, scalars, dx)
        return {"dx": unfolded(found["dx"], results["dx"].shape, pair)}


class ConvWgradFolded(Folded):
    """Volumes as images, where filters reach along the depth alone, or not along it."""
    index, takes = 175, core(ConvWgrad)
    v5 = ("ALGO_1",)
    inner = (ConvWgradFirst(), ConvWgradHalo(), ConvWgradMirrored(), ConvWgradDepthwiseSlide(),
             ConvWgradDepthwisePlanes())
