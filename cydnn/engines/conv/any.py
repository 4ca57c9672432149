"""What the convolutions of any types share: refusals, sites, arguments of kernels_src/conv/conv_any.cu."""
from __future__ import annotations

from ... import fusion
from ...fusion import Site
from ...graph import once_per_match
from ...steps import Launch
from ..engine import Engine, wrong_device
from ..sums import lead_input, sum_type, wrong_sums
from ..tile.matrices import too_many
from ..tile.simt import SMALL, SMALL_KNOB, arithmetic_us, by_time, tile_us, tiles_of
from .view import Geometry, Lifted, point_site

(CHANNEL_INNER, X_ALONG_DEPTH, W_ALONG_DEPTH,
 OUT_ALONG_ROWS, DATA_GRADIENT, FLIPPED) = (1 << i for i in range(6))


def walked(p, name):
    """The tensor whose strides a kernel walks for an operand; the operand itself where no offset is used."""
    return lead_input(p, name) or p.operands[name]


@fusion.attempt
def load(p, name: str, channel="c", number="n"):
    """How the kernel gets an operand."""
    site = point_site(p.operands[name], lead_input(p, name), channel, number)
    return fusion.before(p, name, site, fusion.math_before(p, name, sum_type(p)))


@fusion.attempt
def store(p, site):
    """What stores the sums, through the nodes behind; ``site``: of a lead."""
    lead = p.lead()._replace(is_native=False)
    return fusion.behind(p, site(lead), lead, mark_type=sum_type(p), alpha="alpha", beta="beta")


def image_site(lead) -> Site:
    """The mark of a kernel that writes images: row counts pixels (with n), col channels."""
    rank = len(lead.tensor.dims)
    return Site(lead.tensor.dims, lead.tensor, (("row", (0, *range(2, rank))), ("col", (1,))))


class ImageAny(Engine):
    """The base of forward and data gradient: images come out."""
    knobs = (SMALL_KNOB,)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from wrong_sums(p)
        rows, columns, depth, groups = self.product(p)
        yield from too_many("pixels of the output (n and spatial dims)", rows)
        yield from too_many("channels x taps of a sum", depth)
        yield from fusion.reasons(load(p, p.op.reads[0]), load(p, "w", number="k"), store(p, image_site))

    def product(self, p) -> tuple:
        """Rows, columns, depth and groups."""
        raise NotImplementedError

    def configs(self, p, dev):
        return iter(by_time(SMALL, *self.product(p), dev, sum_type(p)))

    def least_us(self, p, dev):
        return arithmetic_us(p, dev)

    def cost(self, p, dev, config):
        return dev.launch_us + 2 * tile_us(config.tile, *self.product(p), dev, sum_type(p))

    def launch(self, p, config, source, target, channels: int, flags: int, **window):
        """One launch; ``source`` and ``target`` are what is read and written, lifted;
        ``channels`` of a group in the depth."""
        rows, columns, depth, groups = self.product(p)
        inner = channels > 1 and source.c_step == 1
        lanes = X_ALONG_DEPTH * inner | W_ALONG_DEPTH * (columns == 1 or not inner)
        across = columns == 1 or target.closest_pixel() < target.c_step
        flipped = p.op.mode == "convolution"
        flags |= CHANNEL_INNER * inner | lanes | OUT_ALONG_ROWS * across | FLIPPED * flipped
        args = dict(pixels=rows, columns=columns, depth=depth, in_channels=channels, flags=flags,
                    out=[max(n, 1) for n in target.size], channels=max(channels, 1), size=source.size,
                    x_n=source.n_step, x_c=source.c_step, x_s=source.steps,
                    y_n=target.n_step, y_c=target.c_step, y_s=target.steps, **window)
        fuse = {"load_x": load(p, p.op.reads[0]), "load_w": load(p, "w", number="k"),
                "store": store(p, image_site)}
        extra = dict(tiles_of(config.tile, rows, columns), groups=groups)
        return [Launch(f"conv_any_{sum_type(p)}_{config.tile}", args, extra, fuse)]


@once_per_match
def lifted(p) -> Geometry:
    """The geometry with the strides that the kernels walk; the filter is not turned round, the kernels do
    that."""
    tensors = [p.lead().tensor if n in p.op.writes else walked(p, n) for n in p.op.parts]
    g = Geometry.of(p.op, *tensors)
    return Geometry(g.x, Lifted.of(tensors[1]), g.y, 0, g.groups, g.pad, g.stride, g.dilation)
