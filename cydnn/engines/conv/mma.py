"""What the tensor-core convolution engines share: geometry, refusals, NHWC operands in the workspace, tile sizes and their cost.

The kernels (kernels_src/conv/conv_*_mma.cu) read and write dense NHWC with channels in whole 16-byte chunks. A tensor that is anything
else with dense pixels is copied into that form first.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from types import SimpleNamespace
from typing import NamedTuple

from ...tensor import TensorDesc
from ..engine import wrong_device, wrong_types
from ...steps import Launch, Pointer

CHUNK = 8                                        # elements of 16 bits in 16 bytes
LIMIT = 2 ** 31 - 256
MASK_BITS = 32                                   # tap fields of a row, kernels_src/conv/mma_rows.cuh


def ceil_div(n, d):
    return -(-n // d)


def padded(channels):
    """Channels of the copy in the workspace: whole chunks."""
    return ceil_div(channels, CHUNK) * CHUNK


# ---- Geometry, always in three spatial dims (depth, height, width); missing ones have size 1 ----

@dataclass(frozen=True)
class Geometry:
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
    def of(cls, op, x: TensorDesc, w: TensorDesc, y: TensorDesc) -> "Geometry":
        pre, _, stride, dilation = op.geometry(x.rank)
        three = lambda values, fill: (fill,) * (3 - len(values)) + tuple(values)
        groups = x.c // w.c
        return cls(x.n, w.c, w.n // groups, groups, three(x.spatial, 1), three(w.spatial, 1), three(y.spatial, 1), three(pre, 0),
                   three(stride, 1), three(dilation, 1), op.mode == "convolution")

    @property
    def pixels(self) -> int:
        return self.n * prod(self.out)

    @property
    def chunks(self) -> int:
        """16-byte chunks of a filter, channels padded."""
        return prod(self.taps) * padded(self.c) // CHUNK

    def window(self) -> dict:
        """Arguments of fprop and wgrad: tap t of output o reads input o*stride + first + t*step; a flipped filter runs backwards."""
        last = [(r - 1) * d if self.is_flipped else 0 for r, d in zip(self.taps, self.dilation)]
        return dict(size=self.size, stride=self.stride, first=[a - b for a, b in zip(last, self.pad)], out=self.out, taps=self.taps,
                    step=[-d if self.is_flipped else d for d in self.dilation])


def mask_bits(taps) -> int:
    return taps[1] + taps[2] + (taps[0] if taps[0] > 1 else 0)


# ---- Refusals ----

def refusals(p, dev, x, w, y, names=("x", "w", "y")):
    """The reasons every engine here shares. ``x``, ``w``, ``y`` are what plays these parts, ``names`` what the op calls them.

    With nodes fused behind the op, ``y`` is what the last one writes; the op's own result may then have any type.
    """
    yield from wrong_device(dev, 80)
    yield from wrong_types(SimpleNamespace(operands=dict(zip(names, (x, w, y))), dtypes={d.dtype.name for d in (x, w, y)}), "f16", "bf16")
    if p.op.compute != "f32":
        yield f"sums in f32; got compute={p.op.compute}"
    for name, d in zip(names, (x, w, y)):
        if d.alignment < 16:
            yield f"{name} must be aligned to 16 bytes; got {d.alignment}"
        if not d.count:
            yield f"{name} is empty"
        if d.n * prod(d.spatial) * padded(d.c) // CHUNK >= LIMIT:
            yield f"{name} must have fewer than {LIMIT} chunks of 8 channels; got {d.n * prod(d.spatial) * padded(d.c) // CHUNK}"
    g = Geometry.of(p.op, x, w, y)
    if g.groups > 1 and (g.c % CHUNK or g.k % CHUNK):
        yield f"c and k of a group must be multiples of 8; got {g.c} and {g.k}; the direct engine takes it"
    if mask_bits(g.taps) > MASK_BITS:
        yield f"{names[1]} may have {MASK_BITS} taps in height, width and depth together; got {g.taps}"
    if g.groups > 65535:
        yield f"groups must be at most 65535; got {g.groups}"


def not_nhwc(name: str, d: TensorDesc):
    if not d.is_packed("nhwc"):
        yield f"{name} must be packed NHWC; got strides {d.strides}"


def no_pixel_stride(name: str, d: TensorDesc):
    if pixel_stride(d) is None:
        yield f"{name} must have dense pixels (NCHW, or NHWC with gaps between pixels); got strides {d.strides}"


def stride_shares_factor(g: Geometry):
    for s, d in zip(g.stride, g.dilation):
        if gcd(s, d) > 1:
            yield f"stride and dilation must have no common factor; got {s} and {d}; the CUDA-core engine takes it"


# ---- Operands as the kernels want them ----

def pixel_stride(d: TensorDesc) -> int | None:
    """Elements from a pixel to the next, row after row; None when rows do not join."""
    dims = [(size, stride) for size, stride in zip(d.spatial, d.strides[2:]) if size > 1]
    if any(outer != stride * size for (_, outer), (size, stride) in zip(dims, dims[1:])):
        return None
    return dims[-1][1] if dims else 1


def is_direct(d: TensorDesc) -> bool:
    """The kernels can read it where it lies."""
    return d.is_packed("nhwc") and d.c % CHUNK == 0


def _pixels(d: TensorDesc) -> dict:
    pixels = prod(d.spatial)
    channel_stride = d.strides[1] if d.c > 1 else 1
    return dict(images=d.n, channels=d.c, pixels=pixels, image_stride=d.strides[0], channel_stride=channel_stride,
                pixel_stride=pixel_stride(d), pixel_tiles=ceil_div(pixels, 64))


def packed_operand(p, name: str, steps: list) -> Pointer:
    """Operand ``name`` as NHWC with whole chunks: where it lies, or a copy in the workspace that ``steps`` makes."""
    d = p.operands[name]
    if is_direct(d):
        return p.ptr(name)
    copy = p.scratch(d.n * prod(d.spatial) * padded(d.c) * d.dtype.bytes)
    steps.append(Launch(f"conv_mma_pack_{d.dtype}", {"from": p.ptr(name), "to": copy, "padded": padded(d.c), **_pixels(d)}))
    return copy


def unpack(p, copy: Pointer, name: str) -> Launch:
    """Write a dense NHWC area of f32 sums to operand ``name``, blending with what it held."""
    d = p.operands[name]
    return Launch(f"conv_mma_unpack_{d.dtype}", {"from": copy, "to": p.ptr(name), "beta": p.scalar("beta"), **_pixels(d)})


def copies_us(dev, *descs: TensorDesc) -> float:
    """Microseconds to pack or unpack what the kernels cannot take where it lies."""
    return sum(2.0 + 2 * d.n * prod(d.spatial) * padded(d.c) * 2 / (0.6 * dev.bandwidth_gbs) * 1e-3 for d in descs if not is_direct(d))


# ---- Tiles and their time ----

class Tile(NamedTuple):
    m: int
    n: int
    resident: int                                # blocks an SM holds
    share: float                                 # of the mma.sync rate, when that many run

    @property
    def smem_bytes(self) -> int:
        return 3 * (self.m + self.n) * 128 + 12 * self.m + 128

    def __str__(self):
        return f"m{self.m}n{self.n}"


TILES = (Tile(128, 256, 1, 0.80), Tile(128, 128, 2, 0.75), Tile(128, 64, 3, 0.62), Tile(64, 128, 3, 0.62), Tile(64, 64, 4, 0.50))
RATE = 2560                                      # FLOP of mma.sync a clock and SM (sm_90; sm_80: 2048)
FIXED_US = 1.2                                   # a block's start and end, with a 128 x 128 tile


def tiles_for(dev):
    """Tiles whose stages fit into a block's shared memory."""
    return [t for t in TILES if t.smem_bytes <= dev.smem_bytes]


def tile_configs(dev) -> list[dict]:
    """The configurations of an engine whose only choice is the tile."""
    return [dict(tile=str(t)) for t in tiles_for(dev)]


def named(tile: str) -> Tile:
    """The tile of a configuration."""
    return next(t for t in TILES if str(t) == tile)


def tile_us(tile: Tile, dev, blocks: int, steps: float) -> float:
    """Microseconds of ``blocks`` blocks of ``steps`` k steps each, on all SMs."""
    each = ceil_div(blocks, dev.sms)                                        # blocks of the busiest SM
    busy = min(1.0, each / tile.resident)
    rate = RATE * tile.share * (0.45 + 0.55 * busy) * (dev.clock_mhz or 1500)    # FLOP a microsecond and SM
    together = min(each, tile.resident)
    return each * (tile.m * tile.n * 128 * steps / rate + FIXED_US * (0.4 + 0.6 * tile.m * tile.n / 16384) / together)


@lru_cache(maxsize=4096)
def best_tile(dev, m: int, n: int, steps: float, batch: int = 1) -> tuple[Tile, float]:
    """The fastest tile for `batch` products of m x n sums over ``steps`` k steps of 64, and its microseconds."""
    times = [(tile_us(t, dev, ceil_div(m, t.m) * ceil_div(n, t.n) * batch, steps), i, t) for i, t in enumerate(tiles_for(dev))]
    us, _, tile = min(times)
    return tile, us
