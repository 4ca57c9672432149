"""Gradient of a convolution with respect to its filter: f16 and bf16, TMA and wgmma."""
from __future__ import annotations

from math import prod

from ... import fusion, kernels
from ...fusion import Site
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvWgrad, Pointwise
from ...steps import TensorMap
from ..tile.line import CHUNK_BYTES, line_of
from ..tile.maps import tiled_map
from ..tile.matrices import MOST, Matrices
from ..tile.split_k import sums_us
from ..tile.store import is_whole
from . import mma
from .wgmma import WindowProgram, Windows, in_lines, not_in_lines, pixel_step
from .wgrad_mma import ordered_sum

FEW = 8                                          # splits that a thread of matmul_sum adds alone


class ConvWgradWgmma(WindowProgram):
    """dw[k, taps and channels] = dy[pixels, k]^T @ im2col(x)[pixels, taps and channels]: TMA brings pixels of
    both, wgmma reads them across. Channels are innermost; the pixels are split among blocks and clusters, and
    their sums added in order."""
    index = 157
    takes = core(ConvWgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)
    source = "conv/conv_wgrad_wgmma.cu"
    waves = (0, 1, 2, 3, 4)

    @staticmethod
    def windows(p):
        g = mma.geometry(p)
        return Windows("x", g.size, g.out, g.taps, g.stride, tuple(-a for a in g.pad), g.dilation, g.c, g.k,
                       g.groups, g.is_flipped)

    def refuse_others(self, p, v, lead, g):
        if not in_lines(p.dy):
            yield from not_in_lines("dy", p.dy)
        elif pixel_step(p.dy) is None:
            yield f"dy must have its pixels at one distance; got strides {p.dy.strides}"
        else:
            yield from (f"dy: {reason}" for reason in kernels.map_reasons(self._gradients(p, g)))
        if v.groups > 1:
            yield from no_chunks(p, v.channels, v.columns)
        sums = g.count * g.m * g.n
        if sums > MOST:
            yield f"dw must have at most {MOST} elements, channels padded to {self.step(p)}; got {sums}"

    @once_per_match
    def matrices(self, p):
        """(lead, the products of dy and im2col(x), one for each group). The channels of a tap are padded to
        whole lines."""
        v, lead = self.windows(p), p.lead(p.x.dtype.name)
        taps, step = prod(v.taps), lead.tensor.strides[0]
        columns, still, none = taps * tap_columns(p, v.channels), (v.groups, 1, 1, 1, 1, 1), (0,) * 6
        own = (v.columns * step if v.groups > 1 else 0, *none[1:])
        return lead, Matrices(v.columns, columns, p.dy.n * prod(v.out), (0, 0), (0, 0),
                              (step if v.columns > 1 else 0, int(_is_direct(p, lead, v))), still, none, none,
                              own, ())

    @fusion.attempt
    def tail(self, p):
        lead, g = self.matrices(p)
        inside = (*range(2, lead.tensor.rank), 1)
        site = Site(lead.tensor.dims, lead.tensor, (("col", inside),), "col",
                    8 if is_whole(g, lead.tensor) else 1)
        return fusion.behind(p, site, lead, beta=lead.beta)

    def moved_bytes(self, p, g):
        return line_of(p).bytes * (self.touched(p, self.windows(p)) + p.dy.count + g.count * g.m * g.n)

    def cost(self, p, dev, config):
        (lead, g), v = self.matrices(p), self.windows(p)
        is_copied = not _is_direct(p, lead, v) and self.cut(p, dev, config).splits == 1
        copied = line_of(p).sum_bytes * g.count * g.m * g.n
        return super().cost(p, dev, config) + (sums_us(copied, 1, dev) if is_copied else 0.0)

    def may_stream(self, p):
        """Its blocks write dw themselves, as a team does."""
        return _is_direct(p, self.matrices(p)[0], self.windows(p))

    def configs(self, p, dev):
        """A team writes dw itself."""
        lead = self.matrices(p)[0]
        is_direct = _is_direct(p, lead, self.windows(p))
        return (c for c in super().configs(p, dev) if is_direct or c.cluster_k == 1)

    def lines(self, p):
        return p.dy, p.x

    # ---- Launches ----

    def kernel(self, p, tile):
        return f"conv_wgrad_wgmma_{p.x.dtype}_{tile}"

    @staticmethod
    def _gradients(p, g) -> TensorMap:
        """The map of dy: channels, and all pixels as one dim."""
        return tiled_map(p.ptr("dy"), p.dy, (p.dy.c, g.k, 1, 1, 1), (pixel_step(p.dy), 0, 0, 0),
                         line_of(p).elements, 1, 1, 1)

    def plan(self, p, dev, config):
        v, (lead, g), splits = self.windows(p), self.matrices(p), self.cut(p, dev, config).splits
        x, dy = self._pixels(p, v, self.step(p)), self._gradients(p, g)
        boxes, form = self.out(p, config, dy)
        args = dict(dy=dy, x=x, boxes=boxes, **lead.store(p), alpha=p.scalar("alpha"), m=g.m, n=g.n, k=g.k,
                    groups=g.count, dw_form=form, dw_m=g.c[0], rank=len(x.dims),
                    tap_columns=tap_columns(p, v.channels), **v.args())
        is_direct = _is_direct(p, lead, v)
        if splits == 1 and not is_direct:
            args["parts"] = p.scratch(g.count * g.m * g.n * line_of(p).sum_bytes)
        product = self.product(p, dev, config, args)
        if splits < FEW and is_direct:
            return self.summed(p, product, "dw")
        total = ordered_sum(p, lead, self.tail(p), product.args["parts"], splits, tap_columns(p, v.channels))
        return [product, total]


def tap_columns(p, channels: int) -> int:
    """Channels of a tap, padded to whole lines."""
    line = line_of(p).elements
    return ceil_div(channels, line) * line


def no_chunks(p, channels: int, filters: int):
    """Groups that do not begin at whole 16 bytes, as TMA must, or it stops the device."""
    chunk = line_of(p).chunk
    for what, count in (("channels", channels), ("filters", filters)):
        if count % chunk:
            yield f"{what} of a group must be a multiple of {chunk} ({CHUNK_BYTES} bytes); got {count}"


def _is_direct(p, lead, v) -> bool:
    """A filter of dw lies as the columns of the kernel do: no padding, channels innermost, no gaps."""
    d = lead.tensor
    step = mma.joined(zip(d.spatial, d.strides[2:]), alone=v.channels)
    return v.channels % line_of(p).elements == 0 and d.strides[1] == 1 and step == v.channels
