"""Convolutions by Fourier transforms of whole images or of tiles: three directions."""
from __future__ import annotations

from math import log2, prod

import numpy as np

from ...dtypes import BY_NAME
from ...graph import core, once_per_match
from ...ops import ConvDgrad, ConvFprop, ConvWgrad
from ..engine import Config, Engine, Knob, first_then, no_variant, powers, wrong_device
from .transforms import LANES, MOST, SHARES, TABLE_BYTES, Axis, SpectralWindows, Transforms, ceil_div
from .view import Lifted

CHUNK_BYTES = 512 << 20                          # spectra of the images that are computed at once
MOST_BYTES = 8 << 30                             # of all spectra: counts stay below 2^31
WHOLE = 1 << 62                                  # points of a tile that holds everything


class FftConv(Engine):
    """The base. Every direction is a correlation of an image with a kernel,
    ``out[j] = sum over u of image[j - pre + u] * kernel[u]`` in each spatial dim: x with w gives y, dy with
    the reversed w gives dx, x with dy gives dw. Image and kernel are transformed and multiplied frequency by
    frequency, as matrices of channels; the products are transformed back. Windows are filled up with zeros,
    so that what wraps around is 0, or is not stored.

    ``roles``: the operands that are image, kernel and out, ``norms`` the letters of their images and
    channels. ``inner``: whose channels are the fastest digit of its planes. ``reverses``: the mode that
    reverses the filter. ``points`` of a tile.
    """
    notes = ("deterministic", "fft")
    only_for = ("fft",)
    roles: tuple = ()
    norms = ""
    inner: tuple = (False, False, False)
    reverses = "convolution"
    points: tuple = (WHOLE,)
    most_taps = MOST
    knobs = (Knob("tile", tuple(SHARES)), Knob("batch", lo=1, hi=2 ** 31))

    # ---- What it refuses ----

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        wrong = [*no_variant(p, "conv/conv_fft_rows.cu")]
        yield from wrong
        if wrong:
            return
        dtype = p.descs[0].dtype
        if p.op.math not in ("f32", dtype.compute):
            yield f"compute must be f32 for {dtype} tensors; got {p.op.compute}"
        wrong = [*self._wrong_geometry(p)]
        yield from wrong or self._wrong_sizes(p, dev)

    def _wrong_geometry(self, p):
        x, w, _ = (p.operands[name] for name in p.op.parts)
        pre, post, stride, dilation = p.op.geometry(x.rank)
        for name, value in (("stride", stride), ("dilation", dilation)):
            if set(value) != {1}:
                yield f"{name} must be 1 in every dim; got {value}"
        if w.c != x.c:
            yield f"groups must be 1; got {x.c // w.c}"
        empty = {name: str(d.dims) for name, d in p.operands.items() if not d.count}
        if empty:
            yield f"{' and '.join(empty)} must have elements; got dims {' and '.join(empty.values())}"
        if max(w.spatial) > self.most_taps:
            yield f"the filter must be <= {self.most_taps} in every dim; got {w.spatial}"
        if any(a >= n for pads in (pre, post) for a, n in zip(pads, w.spatial)):
            yield (f"the filter must be larger than the padding in every dim; got {w.spatial}, "
                   f"padding {pre} and {post}")

    def _wrong_sizes(self, p, dev):
        if not all(a.size for a in self._axes(p, self.points[-1])):
            needs = tuple(Axis.need(*row) for row in zip(*self._sizes(p), self._pre(p)))[5 - p.descs[0].rank:]
            yield f"transforms must have at most {MOST} points in every dim; got {needs}"
            return
        number = 2 * self._sums(p).bytes
        size = max(a.size for a in self._axes(p, self._offered(p)[0]))
        if size * (LANES + 1) * number + TABLE_BYTES > dev.smem_bytes:
            yield f"a transform of {size} points needs more than {dev.smem_bytes} bytes of shared memory"
        least = min(self._bytes(p, points, 1) for points in self._offered(p))
        if least > MOST_BYTES:
            yield f"the spectra of one image and all filters must fit into {MOST_BYTES} bytes; got {least}"

    # ---- Errors ----

    def magnitude(self, op, arrays, scalars, results):
        """The 2-norms of the image and the kernel behind an output, summed over channels; with what the
        stages of the transforms lose, log2 of the points. Errors spread over a window, so the products behind
        one output do not bound its error."""
        image, kernel = (np.asarray(arrays[name], np.float64) for name in self.roles[:2])
        points = prod(a + b for a, b in zip(image.shape[2:], kernel.shape[2:]))
        norm = lambda a: np.sqrt((a ** 2).sum(tuple(range(2, a.ndim))))
        found = np.einsum(self.norms, norm(image), norm(kernel)) * max(log2(points) / 8, 1.0)
        shape = results[self.roles[2]].shape
        return {self.roles[2]: np.broadcast_to(found.reshape(*shape[:2], *(1,) * (len(shape) - 2)), shape)}

    # ---- Geometry ----

    @staticmethod
    def _sums(p):
        """The type of the spectra."""
        return BY_NAME[p.descs[0].dtype.compute]

    def _images(self, p) -> int:
        return p.operands[self.roles[0]].n

    def _sizes(self, p) -> list:
        return [Lifted.of(p.operands[name]).size for name in self.roles]

    def _pre(self, p) -> tuple:
        """Zeros in front of the image, in three dims."""
        rank = p.operands[self.roles[0]].rank
        return (0,) * (5 - rank) + p.op.geometry(rank)[0]

    def _axes(self, p, points: int) -> list[Axis]:
        return [Axis.of(*row, points) for row in zip(*self._sizes(p), self._pre(p))]

    def _offered(self, p) -> tuple:
        """Points of a tile at least half of which are outputs."""
        reach = max(p.operands[p.op.parts[1]].spatial) - 1
        return tuple(n for n in self.points if n >= 2 * reach)

    def _windows(self, p, axes, role: int) -> SpectralWindows:
        name, start = self.roles[role], 0
        tensor = Lifted.of(p.operands[name])
        if name == p.op.parts[1] and p.op.mode == self.reverses:
            start, tensor = tensor.flipped()
        at = p.ptr(name, start * p.operands[name].dtype.bytes)
        made = SpectralWindows(at, tensor, tensor.n, self.inner[role], tensor.size)
        if role == 1:
            return made
        if role == 0:
            return made.tiled(axes, [a.live for a in axes], [-a.pre for a in axes])
        return made.tiled(axes, [min(a.step, n) for a, n in zip(axes, tensor.size)], [0, 0, 0])

    def _bytes(self, p, points: int, images: int) -> int:
        """Of the spectra of so many images and all filters."""
        axes = self._axes(p, points)
        count = prod(a.size for a in axes[:2]) * (axes[2].size // 2 + 1) * 2 * self._sums(p).bytes
        planes = 0
        for role, name in enumerate(self.roles):
            w = self._windows(p, axes, role)
            is_filter = name == p.op.parts[1]
            planes += w.planes if is_filter else w.part(0, images, 1).planes
        return planes * count

    # ---- Ways and time ----

    def configs(self, p, dev):
        return iter(self._configs(p, dev))

    @once_per_match
    def _configs(self, p, dev) -> list:
        """For each tile as many images as a chunk holds, the cheapest first; then other chunks."""
        n, found, others = self._images(p), [], []
        for points in self._offered(p):
            if self._bytes(p, points, 1) > MOST_BYTES:
                continue
            filters = self._bytes(p, points, 0)
            each = (self._bytes(p, points, 2) - filters) / 2
            most = min(n, max(int((MOST_BYTES - filters) / each), 1))
            parts = ceil_div(n, max(min(most, int(CHUNK_BYTES / each)), 1))
            fit = ceil_div(n, parts)                             # chunks of equal size
            counts = [c for c in dict.fromkeys(ceil_div(n, parts) for parts in powers(16)) if c <= most]
            for tile in SHARES:
                best = self._config(tile, fit, points)
                found.append((self.cost(p, dev, best), len(found), best))
                others += [self._config(tile, images, points) for images in counts]
        ranked = [config for _, _, config in sorted(found)]
        return list(first_then(ranked[0], dict.fromkeys([*ranked[1:], *others])))

    def _config(self, tile: int, images: int, points: int) -> Config:
        return Config(tile=tile, batch=images)

    def cost(self, p, dev, config):
        return sum(step.us(dev, self._sums(p).name) for step in self._passes(p, dev, config).passes)

    def plan(self, p, dev, config):
        sizes = self._passes(p, dev, config).bytes
        areas = {name: p.scratch(size) for name, size in sizes.items()}
        return [step.launch for step in self._passes(p, dev, config, areas).passes]

    def _passes(self, p, dev, config, areas=None) -> Transforms:
        axes, images = self._axes(p, config.get("transform", WHOLE)), self._images(p)
        t = Transforms(tuple(a.size for a in axes), p.descs[0].dtype, dev, areas)
        chunks = [(first, min(config.batch, images - first)) for first in range(0, images, config.batch)]
        windows = [self._windows(p, axes, role) for role in range(3)]
        blend = dict(alpha=p.scalar("alpha"), beta=p.scalar("beta"))
        self._correlate(t, *windows, chunks, config.tile, blend)
        return t

    def _correlate(self, t, image, kernel, out, chunks, tile, blend):
        """The spectra of all filters, then those of the images, chunk by chunk."""
        filters, size = t.forward(kernel, "kernel"), t.dtype.bytes
        for first, images in chunks:
            here, there = image.part(first, images, size), out.part(first, images, size)
            spectra = t.forward(here, "image")
            sums = t.product(filters, spectra, (there.outer, here.inner, here.outer), tile)
            t.inverse(sums, there, **blend)


class FftTiled(FftConv):
    """Tiles overlap by the filter less 1 (overlap-save); a dim that a tile holds is one transform."""
    points = (16, 32, 64)
    most_taps = 32
    knobs = (*FftConv.knobs, Knob("transform", points))

    def _config(self, tile, images, points):
        return Config(tile=tile, batch=images, transform=points)


class ConvFpropFft(FftConv):
    """Padded images of at most 256 pixels a dim, in transforms of 2^a 3^b 5^c points; products in f32 (f64
    for f64). An Inf or NaN spreads over the outputs of its image."""
    index = 112
    takes = core(ConvFprop)
    v5 = ("FFT",)
    roles, norms = ("x", "w", "y"), "nc,kc->nk"


class ConvFpropFftTiling(FftTiled):
    """Tiles of 16, 32 or 64 points a dim, filters of at most 32; images of any size. An Inf or NaN spreads
    over the outputs of the tiles that read it."""
    index = 113
    takes = core(ConvFprop)
    v5 = ("FFT_TILING",)
    roles, norms = ("x", "w", "y"), "nc,kc->nk"


class ConvDgradFft(FftConv):
    """The forward convolution of dy with the reversed filter: padded images of at most 256 pixels a dim.
    An Inf or NaN spreads over the gradients of its image."""
    index = 132
    takes = core(ConvDgrad)
    v5 = ("ALGO_FFT",)
    roles, norms = ("dy", "w", "dx"), "nk,kc->nc"
    inner, reverses = (False, True, False), "cross_correlation"

    def _pre(self, p):
        return reversed_pre(p)


def reversed_pre(p) -> tuple:
    """Zeros in front of dy, in three dims: what the filter reaches less the padding."""
    fill, pre = 5 - p.w.rank, p.op.geometry(p.w.rank)[0]
    return (0,) * fill + tuple(n - 1 - a for n, a in zip(p.w.spatial, pre))


class ConvDgradFftTiling(FftTiled):
    """The forward convolution of dy with the reversed filter, tile by tile; images of any size. An Inf or
    NaN spreads over the gradients of the tiles that read it."""
    index = 133
    takes = core(ConvDgrad)
    v5 = ("ALGO_FFT_TILING",)
    roles, norms = ("dy", "w", "dx"), "nk,kc->nc"
    inner, reverses = (False, True, False), "cross_correlation"

    def _pre(self, p):
        return reversed_pre(p)


class ConvWgradFft(FftConv):
    """The correlation of x with dy, summed over the images while it is a spectrum: padded images of at most
    256 pixels a dim. An Inf or NaN spreads over the filters of its channels."""
    index = 152
    takes = core(ConvWgrad)
    v5 = ("ALGO_FFT",)
    roles, norms, inner = ("x", "dy", "dw"), "nc,nk->kc", (True, True, True)

    def _correlate(self, t, image, kernel, out, chunks, tile, blend):
        size = t.dtype.bytes
        for first, images in chunks:
            here, there = image.part(first, images, size), kernel.part(first, images, size)
            gradients, spectra = t.forward(there, "kernel"), t.forward(here, "image")
            sums = t.product(gradients, spectra, (out.outer, here.inner, here.outer), tile, first > 0)
        t.inverse(sums, out, **blend)
