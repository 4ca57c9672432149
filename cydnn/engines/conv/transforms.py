"""Fourier transforms of windows of tensors, and products of their spectra: sizes, launches, time.
The kernels are kernels_src/conv/conv_fft_*.cu.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from ...dtypes import BY_NAME
from ...kernels.expressions import ceil_div
from ...steps import Launch, Pointer
from ..engine import moved_us
from .view import Lifted

MOST, STAGES, LANES = 256, 6, 16                 # of kernels_src/conv/fft.cuh
SHARES = {64: 0.6, 32: 0.45}                     # of the FMA peak, of a product's tile; on an H200
PASS_SHARE, PRODUCT_SHARE = 0.3, 0.5             # of the bandwidth
BLOCKS = 20                                      # of a transform for an SM, which holds about ten at once
TABLE_BYTES = 6 << 10                            # of shared memory beside the signals


def _smooth(n: int) -> bool:
    for radix in (2, 3, 5):
        while n % radix == 0:
            n //= radix
    return n == 1


SIZES = tuple(n for n in range(1, MOST + 1) if _smooth(n))


def smooth(least: int) -> int:
    """The smallest size of a transform that is not below; 0 where there is none."""
    return next((n for n in SIZES if n >= least), 0)


def radices(n: int) -> list[int]:
    """The stages of a transform of this size, the largest radix first."""
    found = []
    for radix in (5, 3):
        while n % radix == 0:
            n, found = n // radix, found + [radix]
    twos = n.bit_length() - 1
    stages = ceil_div(twos, 3)
    found += [2 ** (twos // stages + (i < twos % stages)) for i in range(stages)]
    return sorted(found, reverse=True)


class Axis(NamedTuple):
    """One spatial dim: the points of its transform (0: more than there may be), outputs of a tile, tiles,
    pixels of a window of the image, zeros in front of the image."""
    size: int
    step: int
    tiles: int
    live: int
    pre: int

    @staticmethod
    def need(image: int, kernel: int, out: int, pre: int) -> int:
        """Points of which none that wraps around is kept, but for zeros: padding in front and behind may be
        the same points."""
        return max(image + max(pre, out + kernel - 1 - image - pre), kernel, out)

    @classmethod
    def of(cls, image: int, kernel: int, out: int, pre: int, tile: int) -> "Axis":
        """One tile where so many points hold it, else tiles of so many points that overlap."""
        need = cls.need(image, kernel, out, pre)
        if need <= tile:
            size = smooth(need)
            return cls(size, out, 1, min(size, pre + image), pre)
        step = tile - kernel + 1
        return cls(tile, step, ceil_div(out, step), tile, pre)


@dataclass(frozen=True)
class SpectralWindows:
    """Windows of a tensor: ``images`` x ``tiles`` of each channel. A plane is one window; planes are numbered
    channel by channel, or, with ``channel_inner``, image by image; what runs fastest is filled up to
    pairs."""
    at: Pointer
    tensor: Lifted
    images: int
    channel_inner: bool
    live: tuple                                  # pixels in each dim
    tiles: tuple = (1, 1, 1)
    step: tuple = (0, 0, 0)
    base: tuple = (0, 0, 0)                      # where tile 0 begins

    @property
    def items(self) -> int:
        return self.images * prod(self.tiles)

    @property
    def inner(self) -> int:
        return ceil_div(self.tensor.c if self.channel_inner else self.items, 2) * 2

    @property
    def outer(self) -> int:
        return self.items if self.channel_inner else self.tensor.c

    @property
    def planes(self) -> int:
        return self.outer * self.inner

    def arguments(self, pixels: str) -> dict:
        """What conv_fft_rows and conv_fft_store are told; ``pixels``: the parameter that counts those of a
        row."""
        t = self.tensor
        return {pixels: self.live[2], "rows_d": self.live[0], "rows_h": self.live[1], "inner": self.inner,
                "inner_live": t.c if self.channel_inner else self.items, "planes": self.planes,
                "pairs": ceil_div(self.live[1], 2), "groups": ceil_div(self.planes, LANES),
                "channel_inner": int(self.channel_inner), "tiles": self.tiles, "step": self.step,
                "base": self.base, "size": t.size, "x_n": t.n_step, "x_c": t.c_step, "x_s": t.steps}

    def tiled(self, axes, live, base) -> "SpectralWindows":
        """The windows of the tiles of each dim."""
        return replace(self, live=tuple(live), base=tuple(base), tiles=tuple([a.tiles for a in axes]),
                       step=tuple([a.step for a in axes]))

    def part(self, first: int, images: int, element_bytes: int) -> "SpectralWindows":
        """Some of the images."""
        return replace(self, at=self.at + first * self.tensor.n_step * element_bytes, images=images)


class Pass(NamedTuple):
    """A launch, the bytes that it moves and the share of the bandwidth at which, its multiply-adds."""
    launch: Launch
    moved: int
    speed: float = PASS_SHARE
    fma: float = 0.0                             # divided by the share of their peak

    def us(self, dev, sum_type: str) -> float:
        rate = (dev.fma_f64 if sum_type == "f64" else dev.fma_f32) * dev.sms * dev.clock_mhz
        return max(moved_us(self.moved, dev, self.speed), dev.launch_us + self.fma / rate)


class Transforms:
    """The passes of a call, in order; ``sizes`` points in each dim, ``dtype`` of the tensors.

    ``areas``: {name: Pointer} of what is kept between passes; None to find out what there must be, which
    ``bytes`` then says. An area is used again, as soon as what was in it has been read.
    """

    def __init__(self, sizes: tuple, dtype, dev, areas=None):
        self.sizes, self.dtype, self.dev, self.areas = sizes, dtype, dev, areas
        self.sums = BY_NAME[dtype.compute]
        self.number = 2 * self.sums.bytes        # of a complex number
        self.half, self.passes, self.bytes = sizes[2] // 2 + 1, [], {}

    @property
    def frequencies(self) -> int:
        return self.half * self.sizes[0] * self.sizes[1]

    def _area(self, name: str, numbers: int) -> Pointer | None:
        """An area that holds so many complex numbers."""
        self.bytes[name] = max(self.bytes.get(name, 0), numbers * self.number)
        return self.areas and self.areas[name]

    @staticmethod
    def _plan(n: int) -> dict:
        """The stages of a transform as the kernels read them: radices, elements behind each stage."""
        radix = radices(n)
        part, fill = [n // prod(radix[:i + 1]) for i in range(len(radix))], [1] * (STAGES - len(radix))
        return dict(n=n, stages=len(radix), radix=radix + fill, part=part + fill)

    def _add(self, kernel: str, n: int, moved: int, **args):
        """A pass of transforms of n points."""
        launch = Launch(f"conv_fft_{kernel}", {**args, **self._plan(n)}, dict(blocks=BLOCKS * self.dev.sms))
        self.passes.append(Pass(launch, moved))

    def _columns(self, at, to: str, n, live, keep, outer, inner, inverse=0):
        target, moved = self._area(to, outer * keep * inner), outer * (live + keep) * inner * self.number
        self._add(f"columns_{self.sums}", n, moved, live=live, keep=keep, outer=outer, inner=inner,
                  inverse=inverse, groups=ceil_div(inner, LANES), to=target, **{"from": at})
        return target

    def forward(self, w: SpectralWindows, name: str):
        """The spectrum, [frequency w][frequency d][frequency h][plane], in the area of this name."""
        (n_d, n_h, n_w), (d, h, _) = self.sizes, w.live
        targets = [name, "spare", "second spare"]
        count, rows = (n_d > 1) + (n_h > 1), self.half * d * h * w.planes
        at = self._area(targets[count], rows)
        read = self.dtype.bytes_of(w.planes * prod(w.live))
        self._add(f"rows_{self.dtype}", n_w, read + rows * self.number, x=w.at, to=at, **w.arguments("live"))
        if n_h > 1:
            at = self._columns(at, targets[count - 1], n_h, h, n_h, self.half * d, w.planes)
        if n_d > 1:
            at = self._columns(at, name, n_d, d, n_d, self.half, n_h * w.planes)
        return at

    def product(self, kernel: Pointer, image: Pointer, shape: tuple, tile, accumulate=False) -> Pointer:
        """sums[row][column] = the sum over depth of conj(kernel[depth][row]) * image[depth][column], for each
        frequency. ``shape``: rows, columns, depth; kernel has its rows filled up to pairs."""
        rows, columns, depth = shape
        to = self._area("sums", rows * columns * self.frequencies)
        args = dict(a=kernel, b=image, c=to, rows=rows, row_pitch=ceil_div(rows, 2) * 2, columns=columns,
                    depth=depth, accumulate=int(accumulate), tiles_m=ceil_div(rows, tile),
                    tiles_n=ceil_div(columns, tile))
        launch = Launch(f"conv_fft_product_{self.sums}_{tile}", args, dict(frequencies=self.frequencies))
        moved = (rows * depth + columns * depth + rows * columns) * self.number * self.frequencies
        work = 4.0 * args["tiles_m"] * args["tiles_n"] * tile ** 2 * depth * self.frequencies
        self.passes.append(Pass(launch, moved, PRODUCT_SHARE, work / SHARES[tile]))
        return to

    def inverse(self, at: Pointer, w: SpectralWindows, alpha, beta):
        """From a spectrum into the windows of the output."""
        (n_d, n_h, n_w), (d, h, _) = self.sizes, w.live
        if n_d > 1:
            at = self._columns(at, "image", n_d, n_d, d, self.half, n_h * w.planes, inverse=1)
        if n_h > 1:
            at = self._columns(at, "spare", n_h, n_h, h, self.half * d, w.planes, inverse=1)
        moved = self.half * d * h * w.planes * self.number + self.dtype.bytes_of(w.planes * prod(w.live))
        self._add(f"store_{self.dtype}", n_w, moved, y=w.at, alpha=alpha, beta=beta,
                  scale=1.0 / prod(self.sizes), **w.arguments("keep"), **{"from": at})
