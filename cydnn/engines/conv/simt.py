"""What forward and data gradient on CUDA cores share."""
from __future__ import annotations

from typing import ClassVar

from ... import fusion
from ..engine import Engine
from ..tile.matrices import too_many
from ..tile.simt import KNOB, TILES, arithmetic_us, by_time, tile_us
from .view import (OUT_ALONG_ROWS, W_ALONG_DEPTH, W_VECTORS, X_ALONG_DEPTH, X_VECTORS, Geometry,
                   behind_image, closest, depth_digits, geometry, pixels_of, quartets, refusals)


class ImageSimt(Engine):
    """The base of forward and data gradient: images come out."""
    knobs = (KNOB,)
    source: ClassVar[str] = ""                   # of its kernel

    def refuse(self, p, dev):
        out = p.op.writes[0]
        yield from refusals(p, dev, self.source)
        yield from too_many(f"pixels of {out} (n and spatial dims)", pixels_of(p.operands[out]))
        if p.w.extent >= 2 ** 31:
            yield f"w must span less than 2^31 elements; got {p.w.extent}"
        yield from fusion.reasons(self.fused(p))

    @staticmethod
    def image(p):
        """The operand that is read through the window."""
        return p.operands[p.op.reads[0]]

    def lead(self, p):
        return p.lead(self.image(p).dtype.name)

    def geometry(self, p) -> Geometry:
        return geometry(p, self.lead(p))

    def fused(self, p):
        kind = self.image(p).dtype
        return behind_image(p, kind.name, 1, kind.compute)

    def product(self, p) -> tuple:
        """Rows, columns, depth and groups."""
        raise NotImplementedError

    def configs(self, p, dev):
        return iter(by_time(TILES, *self.product(p), dev, self.image(p).dtype.compute))

    def least_us(self, p, dev):
        return arithmetic_us(p, dev)

    def cost(self, p, dev, config):
        return dev.launch_us + tile_us(config.tile, *self.product(p), dev, self.image(p).dtype.compute)


def order(p, g: Geometry, source, target, depth: tuple, columns: tuple, is_dense: bool) -> tuple[bool, int]:
    """Whether channels run faster than taps in the sums, and the flags. The image decides when its channels
    are neighbours, else w.

    ``source``, ``target``: the images that are read and written, lifted. ``depth``, ``columns``: (size, step
    in w) of the channels that a sum runs over, and of those that it is made for. ``is_dense``: every tap
    counts for every pixel, so that neighbours in w are neighbours in a sum.
    """
    (channels, step), (count, column_step), image = depth, columns, p.operands[p.op.reads[0]]
    inner = channels > 1 and (source.c_step == 1 and channels >= 4 or step == 1)
    digits = depth_digits(depth, zip(g.w.size, g.w.steps), inner)
    flags = 0
    if inner and source.c_step == 1:
        flags |= X_ALONG_DEPTH
        if channels % 4 == 0 and quartets(image, [(channels, 1)], (source.n_step, *source.steps)):
            flags |= X_VECTORS
    if count == 1 or closest(digits) <= column_step:
        flags |= W_ALONG_DEPTH
    others = column_step, g.w_start, g.k * g.w.n_step * (g.groups > 1)
    if is_dense and quartets(p.w, digits, others):
        flags |= W_VECTORS
    if count == 1 or target.closest_pixel() < target.c_step:
        flags |= OUT_ALONG_ROWS
    return inner, flags
