"""Tensor-core convolutions (mma.sync): geometry, refusals, operands in NHWC, tile sizes and their cost.

The kernels (kernels_src/conv/conv_*_mma.cu) read and write dense NHWC with channels in whole 16-byte
chunks. A tensor that is anything else with dense pixels is copied into that form first; one of a smaller
type that a 16-bit type holds is cast.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

from ... import fusion, kernels
from ...graph import once_per_match
from ...kernels.expressions import ceil_div
from ...steps import Launch, Pointer
from ...tensor import TensorDesc
from ..cast import SIXTEEN, cast, common_type, no_common_type
from ..engine import Config, Knob, memory_us, moved_us, no_elements, together, wrong_device
from ..nested import AFTER_US
from ..tile.line import LINES
from .view import image_site

LINE = LINES["f16"]                              # of every type of these kernels: they have 16 bits
CHUNK = LINE.chunk                               # elements in 16 bytes
LIMIT = 2 ** 31 - 256
MASK_BITS = 32                                   # tap fields of a row, kernels_src/conv/mma_rows.cuh


def padded(channels, whole: int = CHUNK):
    """Channels of the copy in the workspace: whole chunks, or whole lines."""
    return ceil_div(channels, whole) * whole


# ---- Geometry, always in three spatial dims (depth, height, width); missing ones have size 1 ----

@dataclass(frozen=True)
class MmaGeometry:
    n: int
    c: int                                       # of a group, like k
    k: int
    groups: int
    size: tuple                                  # of x
    taps: tuple
    out: tuple                                   # of y
    pad: tuple
    stride: tuple
    dilation: tuple
    is_flipped: bool                             # mode "convolution"

    @classmethod
    def of(cls, op, x: TensorDesc, w: TensorDesc, y: TensorDesc) -> "MmaGeometry":
        pre, _, stride, dilation = op.geometry(x.rank)
        three = lambda values, fill: (fill,) * (3 - len(values)) + tuple(values)
        groups = x.c // w.c
        return cls(x.n, w.c, w.n // groups, groups, three(x.spatial, 1), three(w.spatial, 1),
                   three(y.spatial, 1), three(pre, 0), three(stride, 1), three(dilation, 1),
                   op.mode == "convolution")

    @property
    def pixels(self) -> int:
        return self.n * prod(self.out)

    @property
    def chunks(self) -> int:
        """16-byte chunks of a filter, channels padded."""
        return prod(self.taps) * padded(self.c) // CHUNK

    def window(self) -> dict:
        """Arguments of fprop and wgrad: tap t of output o reads input o*stride + first + t*step;
        a flipped filter runs backwards."""
        last = [(r - 1) * d if self.is_flipped else 0 for r, d in zip(self.taps, self.dilation)]
        return dict(size=self.size, stride=self.stride, first=[a - b for a, b in zip(last, self.pad)],
                    out=self.out, taps=self.taps, step=[-d if self.is_flipped else d for d in self.dilation])


@once_per_match
def geometry(p) -> MmaGeometry:
    """The geometry of a match."""
    return MmaGeometry.of(p.op, *[p.operands[name] for name in p.op.parts])


def mask_bits(taps) -> int:
    return taps[1] + taps[2] + (taps[0] if taps[0] > 1 else 0)


# ---- Refusals ----

def refusals(p, dev, lead):
    """The reasons every engine here shares. The output is what the kernel walks:
    with nodes fused behind the op its own result may have any type."""
    yield from wrong_device(dev, 80)
    if common_type(p) is None:
        yield from no_common_type(p)
        return
    if p.op.math != "f32":
        yield f"compute must be f32 for {common_type(p)} tensors; got {p.op.compute}"
    x, w, y = tensors = [lead.tensor if name in p.op.writes else p.operands[name] for name in p.op.parts]
    for name, d in zip(p.op.parts, tensors):
        if d.alignment < 16:
            yield f"{name} must be aligned to 16 bytes; got {d.alignment}"
        yield from no_elements({name: d})
        chunks = d.n * prod(d.spatial) * padded(d.c) // CHUNK
        if chunks >= LIMIT:
            yield f"{name} must have fewer than {LIMIT} chunks of {CHUNK} channels; got {chunks}"
    g = geometry(p)
    if g.groups > 1 and (g.c % CHUNK or g.k % CHUNK):
        yield (f"c and k of a group must be multiples of {CHUNK}; got {g.c} and {g.k}; "
               f"{p.op.name}_any takes it")
    if mask_bits(g.taps) > MASK_BITS:
        yield f"{p.op.parts[1]} may have {MASK_BITS} taps in height, width and depth together; got {g.taps}"
    if g.groups > 65535:
        yield f"groups must be at most 65535; got {g.groups}"


def not_nhwc(name: str, d: TensorDesc):
    if not d.is_packed("nhwc"):
        yield f"{name} must be packed NHWC; got strides {d.strides}"


def no_pixel_stride(name: str, d: TensorDesc):
    if pixel_stride(d) is None:
        yield (f"{name} must have dense pixels (NCHW, or NHWC with gaps between pixels); "
               f"got strides {d.strides}")


def stride_shares_factor(g: MmaGeometry):
    for s, d in zip(g.stride, g.dilation):
        if gcd(s, d) > 1:
            yield (f"stride and dilation must have no common factor; got {s} and {d}; "
                   f"conv_dgrad_any takes it")


def refuse_layouts(p, **descs):
    """At least one tensor is not packed NHWC, and all have dense pixels."""
    images = [name for name in descs if name != "w"]
    if all(descs[name].is_packed("nhwc") for name in images):
        yield f"{' and '.join(images)} are packed NHWC; {p.op.name}_mma takes them without a copy"
    for name, d in descs.items():
        yield from no_pixel_stride(name, d)


# ---- Operands as the kernels want them ----

def pixel_stride(d: TensorDesc) -> int | None:
    """Elements from a pixel to the next, row after row; None when rows do not join."""
    return joined(zip(d.spatial, d.strides[2:]))


def joined(dims, alone: int = 1) -> int | None:
    """The step of the (size, stride), slowest first, as one index; ``alone`` where it has one value, None
    where they do not join."""
    dims = [(size, stride) for size, stride in dims if size > 1]
    if any(outer != stride * size for (_, outer), (size, stride) in zip(dims, dims[1:])):
        return None
    return dims[-1][1] if dims else alone


def is_direct(d: TensorDesc) -> bool:
    """The kernels can read it where it lies (or write it, in a type they have)."""
    return d.is_packed("nhwc") and d.c % CHUNK == 0


def packed_desc(d: TensorDesc, whole: int = CHUNK) -> TensorDesc:
    """The copy of a tensor that ``packed_operand`` makes: NHWC, its channels padded."""
    copy = TensorDesc.packed(d.dtype, (d.n, padded(d.c, whole), *d.spatial), "nhwc")
    return TensorDesc(d.dtype, d.dims, copy.strides)


def _pixels(d: TensorDesc) -> dict:
    pixels = prod(d.spatial)
    channel_stride = d.strides[1] if d.c > 1 else 1
    return dict(images=d.n, channels=d.c, pixels=pixels, image_stride=d.strides[0],
                channel_stride=channel_stride, pixel_stride=pixel_stride(d), pixel_tiles=ceil_div(pixels, 64))


def packed_operand(p, name: str, steps: list, whole: int = CHUNK) -> Pointer:
    """Operand ``name`` as NHWC with whole chunks of the common type: where it lies, or a copy in the
    workspace that ``steps`` makes; always a copy where it is to have more than whole chunks."""
    kind = common_type(p)
    d, pointer = p.operands[name].desc, p.ptr(name)
    if d.dtype.name != kind:
        target = TensorDesc.packed(kind, d.dims, "nhwc")
        pointer = cast(p.operands[name], pointer, target, p.scratch(target.bytes), steps)
        d = target
    if whole == CHUNK and is_direct(d):
        return pointer
    copy = p.scratch(d.n * prod(d.spatial) * padded(d.c, whole) * d.dtype.bytes)
    args = {"from": pointer, "to": copy, "padded": padded(d.c, whole), **_pixels(d)}
    steps.append(Launch(f"conv_mma_pack_{d.dtype}", args))
    return copy


def unpack(p, copy: Pointer, name: str) -> Launch:
    """Write a dense NHWC area of f32 sums to operand ``name``, blending with what it held."""
    d = p.operands[name]
    args = {"from": copy, "to": p.ptr(name), "beta": p.scalar("beta"), **_pixels(d)}
    return Launch(f"conv_mma_unpack_{d.dtype}", args)


def copies_us(p, dev, *names: str) -> float:
    """Microseconds to pack or unpack the operands that the kernels cannot take where
    they lie, and to cast inputs."""
    us = 0.0
    for name in names:
        d = p.operands[name]
        if not is_direct(d):
            us += copy_us(dev, d)
        if name in p.op.reads and d.dtype.name not in SIXTEEN:
            us += moved_us(_copied(d), dev, 0.4)
    return us


def copy_us(dev, d: TensorDesc, whole: int = CHUNK) -> float:
    """Microseconds of the copy of a tensor, with the launch behind it."""
    return moved_us(_copied(d, whole), dev, PACKED) + AFTER_US


def _copied(d, whole: int = CHUNK) -> int:
    """Bytes, there and back."""
    return 2 * d.n * prod(d.spatial) * padded(d.c, whole) * LINE.bytes


# ---- What an epilogue knows ----

def stored_type(p, lead) -> str:
    """The type of a kernel's own stores; the common type where spliced code stores."""
    return lead.tensor.dtype.name if lead.is_native else common_type(p)


def image_tail(p):
    """(lead, what is spliced behind a kernel that writes images): fprop and dgrad."""
    return p.lead(common_type(p), "f32"), _image_tail(p)


@fusion.attempt
def _image_tail(p):
    g, lead = geometry(p), p.lead(common_type(p), "f32")
    columns = g.k if p.op.writes[0] == p.op.parts[2] else g.c
    lanes = 8 if columns % 8 == 0 and columns * g.groups % 8 == 0 else 1
    return fusion.behind(p, image_site(lead, lanes), lead, beta=lead.beta)


# ---- Tiles and their time ----

class MmaTile(NamedTuple):
    m: int
    n: int
    resident: int                                # blocks an SM holds
    share: float                                 # of the mma.sync rate, when that many run
    start: float = 1.0                           # of what a block's start and end take of its sums

    @property
    def smem_bytes(self) -> int:
        """Of the data gradient, whose kernels take the most."""
        return kernels.get(f"conv_dgrad_mma_{self}_f16_f16").smem_bytes()

    def __str__(self):
        return f"m{self.m}n{self.n}"


TILES = (MmaTile(128, 256, 1, 0.80), MmaTile(128, 128, 2, 0.75), MmaTile(128, 64, 3, 0.62),
         MmaTile(64, 128, 3, 0.62), MmaTile(64, 64, 4, 0.50))
NARROW = MmaTile(256, 32, 2, 0.55, 1.4)          # where images are written; not for filters
IMAGE_TILES = (*TILES, NARROW)
BY_NAMES = {str(t): t for t in IMAGE_TILES}
KNOB, FILTER_KNOB = (Knob("tile", tuple(map(str, tiles))) for tiles in (IMAGE_TILES, TILES))
PRODUCT = 1.35                                   # what a product takes of what its tiles say
SECTOR, HALVES = 32, 1.3                         # bytes that come together; of a product with halves of them
MEMORY, NEAR = 0.814, 2.6                        # share of the bandwidth; how two times that are near add up
ISSUE = 0.0104                                   # clocks of an instruction that is fused, for each sum
PACKED = 0.42                                    # of the bandwidth, of a copy to NHWC or from it
FIXED_US = 2.68                                  # a block's start and end, with a 128 x 128 tile


def tiles_for(dev, tiles=TILES):
    """Tiles whose stages fit into a block's shared memory."""
    return [t for t in tiles if t.smem_bytes <= dev.smem_bytes]


def tile_us(tile: MmaTile, dev, blocks: int, steps: float) -> float:
    """Microseconds of ``blocks`` blocks of ``steps`` k steps (a line each), on all SMs."""
    each = ceil_div(blocks, dev.sms)                                        # blocks of the busiest SM
    busy = min(1.0, each / tile.resident)
    rate = 2 * dev.mma_16 * tile.share * (0.45 + 0.55 * busy) * dev.clock_mhz    # FLOP a µs and SM
    abreast = min(each, tile.resident)
    start = FIXED_US * tile.start * (0.4 + 0.6 * tile.m * tile.n / 16384)
    return each * (tile.m * tile.n * 2 * LINE.elements * steps / rate + start / abreast)


@lru_cache(maxsize=4096)
def times(dev, m: int, n: int, steps: float, batch: int = 1) -> tuple:
    """((microseconds, tile), …), the fastest first,
    for ``batch`` products of m x n sums over ``steps`` k steps."""
    blocks = lambda t: ceil_div(m, t.m) * ceil_div(n, t.n) * batch
    found = [(tile_us(t, dev, blocks(t), steps), i, t) for i, t in enumerate(tiles_for(dev, IMAGE_TILES))]
    return tuple([(us, t) for us, _, t in sorted(found)])


def configs(dev, *product):
    """A configuration for each tile, the fastest first."""
    return (Config(tile=str(t)) for _, t in times(dev, *product))


def _halves(d) -> bool:
    """Rows of channels begin within what comes in together."""
    of_pixels = [s for n, s in zip(d.spatial, d.strides[2:]) if n > 1] if d.strides[1] == 1 else ()
    return any(s * d.dtype.bits % (8 * SECTOR) for s in of_pixels)


def product_us(p, dev, config, *product) -> float:
    """The time of a product with the tile of a configuration, or of the memory that it moves."""
    us = next(us for us, t in times(dev, *product) if str(t) == config.tile)
    us *= HALVES if _halves(p.operands[p.op.reads[0]]) else 1
    moved = memory_us(p, dev, efficiency=MEMORY) - dev.launch_us
    sums = p.operands[p.op.writes[0]].count if p.behind else 0
    fused = ISSUE * sums * fusion.work(image_tail(p)[1]) / (dev.sms * dev.clock_mhz) if sums else 0.0
    return dev.launch_us + together(NEAR, moved, PRODUCT * us + fused)
