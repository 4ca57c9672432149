"""Geometry of convolutions: tensors lifted to three spatial dims, the order of sums, sites of marks.

The kernels on CUDA cores (kernels_src/conv/conv_*_simt.cu, *_any.cu) compute sum over depth of
gathered[row, depth] * plain[row, depth]. Which index runs along the lanes of a warp, and where four
neighbours are one access, is decided here from the strides and handed over as ``flags``.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from ... import fusion
from ...fusion import Site
from ...graph import once_per_match
from ...ops.conv import Conv
from ...tensor import TensorDesc
from ..engine import no_variant, wrong_device

# Flags of kernels_src/conv/gather_simt.cuh.
X_ALONG_DEPTH, X_VECTORS, W_ALONG_DEPTH, W_VECTORS, OUT_ALONG_ROWS = 1, 2, 4, 8, 16
X_ROW_VECTORS, W_ROW_VECTORS = 32, 64


@dataclass(frozen=True)
class Lifted:
    """A tensor as (n, c, d, h, w): ``size`` and ``steps`` of the three spatial dims.
    Dims of size 1 have stride 0, and so has a tensor without elements."""
    n: int
    c: int
    size: tuple
    n_step: int
    c_step: int
    steps: tuple

    @classmethod
    def of(cls, desc: TensorDesc) -> "Lifted":
        strides = tuple(s if d > 1 and desc.count else 0 for d, s in zip(desc.dims, desc.strides))
        fill = 5 - desc.rank
        return cls(desc.n, desc.c, (1,) * fill + desc.spatial, *strides[:2], (0,) * fill + strides[2:])

    def flipped(self) -> tuple[int, "Lifted"]:
        """(elements to the last tap, the filter read from there backwards)."""
        last = sum((n - 1) * s for n, s in zip(self.size, self.steps))
        return last, replace(self, steps=tuple(-s for s in self.steps))

    @property
    def pixels(self) -> list[tuple]:
        """(size, step) of the pixel index, the fastest digit first."""
        return [*zip(self.size[::-1], self.steps[::-1]), (self.n, self.n_step)]

    @property
    def image_extent(self) -> int:
        """Elements from the first to the last of one image."""
        steps = sum(abs(s) * (n - 1) for n, s in zip(self.size, self.steps))
        return 1 + abs(self.c_step) * max(self.c - 1, 0) + steps

    def closest_pixel(self) -> int:
        """Elements between neighbouring pixels (or images, where an image is one pixel)."""
        return next((s for n, s in self.pixels if n > 1), 0)


@dataclass(frozen=True)
class Geometry:
    """A convolution of x with w to y, whichever of them is the output. c and k are those of one group."""
    x: Lifted
    w: Lifted
    y: Lifted
    w_start: int                                 # elements from the address of w to its first tap
    groups: int
    pad: tuple
    stride: tuple
    dilation: tuple

    @classmethod
    def of(cls, op: Conv, x: TensorDesc, w: TensorDesc, y: TensorDesc) -> "Geometry":
        pre, _, stride, dilation = op.geometry(x.rank)
        fill = 5 - x.rank
        lifted, start = Lifted.of(w), 0
        if op.mode == "convolution":
            start, lifted = lifted.flipped()
        return cls(Lifted.of(x), lifted, Lifted.of(y), start, x.c // w.c, (0,) * fill + pre,
                   (1,) * fill + stride, (1,) * fill + dilation)

    @property
    def c(self) -> int:
        return self.w.c

    @property
    def k(self) -> int:
        return self.w.n // self.groups

    @property
    def taps(self) -> int:
        return prod(self.w.size)

    @property
    def out_pixels(self) -> int:
        return self.y.n * prod(self.y.size)


def parts(p, lead) -> list:
    """Image, filter and output of the convolution that a match is about,
    with what the kernel writes in its place."""
    return [lead.tensor if name in p.op.writes else p.operands[name] for name in p.op.parts]


def geometry(p, lead) -> Geometry:
    """The geometry with what the kernel writes in its place."""
    return _geometry(p, lead.uid)


@once_per_match
def _geometry(p, written: int) -> Geometry:
    tensors = (p.graph.tensors[written] if name in p.op.writes else p.operands[name] for name in p.op.parts)
    return Geometry.of(p.op, *tensors)


@once_per_match
def plain_geometry(p) -> Geometry:
    """The geometry of the operands as they are."""
    return Geometry.of(p.op, *[p.operands[name] for name in p.op.parts])


def depth_digits(channels: tuple, taps, channel_inner: bool) -> list[tuple]:
    """(size, step) of channel x taps, the fastest first;
    ``channels`` is (size, step), ``taps`` those of d, h, w."""
    taps = [*taps][::-1]
    return [channels, *taps] if channel_inner else [*taps, channels]


def quartets(tensor, digits, others=()) -> bool:
    """True when four indices from a multiple of 4 on are neighbours in memory, aligned to one access.

    ``digits`` are (size, step), the fastest first; ``others`` the steps and offsets that are added to them.
    """
    digits, run = [d for d in digits if d[0] > 1], 1
    while digits and digits[0][1] == run:
        run *= digits.pop(0)[0]
    return (run % 4 == 0 and all(step % 4 == 0 for step in (*others, *(s for _, s in digits)))
            and tensor.alignment >= min(16, 4 * tensor.dtype.bytes))


def closest(digits) -> int:
    """The step of the fastest digit that moves."""
    return next((abs(s) for n, s in digits if n > 1), 0)


def refusals(p, dev, source: str):
    """The reasons that the engines on CUDA cores share."""
    gathered = p.op.reads[0]                     # through the window
    yield from wrong_device(dev)
    yield from no_variant(p, source, *p.op.reads)
    if p.op.math not in ("f32", p.operands[gathered].dtype.compute):
        yield f"compute must be f32 for {p.operands[gathered].dtype} tensors; got {p.op.compute}"
    image = Lifted.of(p.operands[gathered]).image_extent
    if image >= 2 ** 31:
        yield f"one image of {gathered} must span less than 2^31 elements; got {image}"


def pixels_of(desc: TensorDesc) -> int:
    """n times the spatial dims."""
    return desc.n * prod(desc.spatial)


# ---- Where marks stand ----

def image_site(lead, lanes: int = 1) -> Site:
    """The mark of a kernel that writes images: col counts channels."""
    return Site(lead.tensor.dims, lead.tensor, (("col", (1,)),), "col", lanes)


@fusion.attempt
def behind_image(p, native: str, lanes: int = 1, mark_type: str = "f32"):
    """What is spliced behind a kernel that writes images, and stores type ``native`` itself."""
    lead = p.lead(native)
    return fusion.behind(p, image_site(lead, lanes), lead, beta=lead.beta, mark_type=mark_type)


@fusion.attempt
def behind_filter(p, native: tuple, *, channel_inner: bool, mark_type: str = "f32"):
    """What is spliced behind a kernel that writes filters, and stores types ``native`` itself."""
    lead = p.lead(*native)
    return fusion.behind(p, filter_site(p, lead, channel_inner), lead, beta=lead.beta, mark_type=mark_type)


def filter_site(p, lead, channel_inner: bool) -> Site:
    """The mark of a kernel that writes filters: row counts them, col channels and taps.
    Where the filter is written backwards, neither offset nor col can be used."""
    rank = len(lead.tensor.dims)
    if p.op.mode == "convolution":
        return Site(lead.tensor.dims, None, (("row", (0,)),))
    inside = (*range(2, rank), 1) if channel_inner else tuple(range(1, rank))
    return Site(lead.tensor.dims, lead.tensor, (("row", (0,)), ("col", inside)))


def point_site(tensor, lead, channel: str = "c", number: str = "n") -> Site:
    """The mark of a kernel that loads an operand of any type: one coordinate for each dim."""
    spatial = tuple(zip("dhw"[5 - len(tensor.dims):], ((a,) for a in range(2, len(tensor.dims)))))
    return Site(tensor.dims, lead, ((number, (0,)), (channel, (1,)), *spatial))
