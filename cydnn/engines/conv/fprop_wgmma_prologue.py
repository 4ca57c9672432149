"""Forward convolution on Hopper's tile program with pointwise operations in front of x: spliced into the
kernel, which changes the pixels in shared memory before it multiplies them."""
from __future__ import annotations

from ... import fusion, kernels
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvFprop, Pointwise
from ...steps import Launch
from ..engine import Config, Engine, Knob, first_then, wrong_device
from ..tile import sums
from ..tile.cost import TILES, order
from ..tile.line import line_of
from ..tile.store import form, is_whole
from . import mma, prologue
from .wgmma import ConvFpropWgmma

INNER = ConvFpropWgmma()
CHANGE, EACH = 550, 90                           # clocks that a step takes longer; an element's instruction


class ConvFpropWgmmaPrologue(Engine):
    """conv_fprop_wgmma of what the operations in front of x make of one tensor and of values of channels: a
    warpgroup changes its rows of a stage between their arrival and their products; pixels beside the image
    stay 0. x has the type of w, or needs none, and nothing is split."""
    index = 160
    takes = core(ConvFprop, before=many(Pointwise, at="x"), behind=many(Pointwise), last=sums.LAST)
    knobs = (Knob("tile", ("128x256", "128x128", "128x64")), Knob("store", ("tma", "rows")))
    notes = ("deterministic", "tensor_core")

    def refuse(self, p, dev):
        yield from wrong_device(dev, 90)
        if not p.before.get("x"):
            yield "x must be made by pointwise operations; conv_fprop_wgmma takes one in memory"
        elif prologue.source(p) is None:
            yield (f"operations in front of x must read one tensor of its dims {p.x.dims}, beside values of "
                   "channels; got another number of them")
        else:
            yield from self.wrong_type(p)
            yield from self.wrong_product(p, dev)

    def wrong_type(self, p):
        """Refusals of the type that x has between the operations."""
        if p.x.dtype != p.w.dtype:
            yield f"x must have the type of w, {p.w.dtype}, between the operations; got {p.x.dtype}"

    def wrong_product(self, p, dev):
        q = self.product(p)
        wrong = list(INNER.reasons(q, dev))
        yield from wrong
        if p.w.c % prologue.LANES:
            yield f"channels of a group must be a multiple of {prologue.LANES}; got {p.w.c}"
        if not wrong and mma.mask_bits(mma.geometry(q).taps) > mma.MASK_BITS:
            yield (f"w may have {mma.MASK_BITS} taps in height, width and depth together; "
                   f"got {mma.geometry(q).taps}")
        yield from fusion.reasons(prologue.spliced(p), *([] if wrong else [INNER.tail(q)]))

    @once_per_match
    def product(self, p):
        """The convolution that reads the tensor behind x."""
        return prologue.reading(p, prologue.source(p))

    # ---- Choice ----

    def configs(self, p, dev):
        outs = ("rows",) if INNER.boxes(self.product(p)) is None else ("tma", "rows")
        every = [Config(tile=tile, store=out) for out in outs for tile in self.knobs[0].values]
        return first_then(min(every, key=lambda config: self.cost(p, dev, config)), every)

    def cost(self, p, dev, config):
        q, tile = self.product(p), TILES[config.tile]
        plain = INNER.cost(q, dev, Config(tile=config.tile, splits=1, store=config.store, cluster_k=1))
        g, line = INNER.matrices(q)[1], line_of(q)
        tiles = ceil_div(g.m, tile.m) * ceil_div(g.n, tile.n) * g.count
        steps = ceil_div(tiles, dev.sms) * ceil_div(g.k, line.elements)      # of an SM
        return plain + steps * (CHANGE + EACH * fusion.work(prologue.spliced(p))) / dev.clock_mhz

    # ---- Launches ----

    def plan(self, p, dev, config):
        q, steps, tile = self.product(p), [], TILES[config.tile]
        v, (lead, g), tail = INNER.windows(q), INNER.matrices(q), INNER.tail(q)
        x, w = INNER.operands(q, v, dev, tile, steps)
        boxes = INNER.boxes(q) if config.store == "tma" else None
        args = dict(x=x, w=w, boxes=boxes or w, **lead.store(q, "y"), alpha=q.scalar("alpha"), m=g.m, n=g.n,
                    k=g.k, y_form=form(boxes, is_fused=True, is_whole=is_whole(g, lead.tensor)), y_m=g.c[0],
                    y_n=g.c[1], rank=len(x.dims), size=v.size, order=order(g, tile, g.count), **v.args())
        blocks = min(ceil_div(g.m, tile.m) * ceil_div(g.n, tile.n) * g.count, dev.sms)
        name, grid = f"conv_wgmma_prologue_{p.w.dtype}_{config.tile}_bk", dict(blocks=blocks)
        fuse = fusion.at("prologue", prologue.spliced(p)) | fusion.at("epilogue", tail)
        if q.last:
            return [*steps, *sums.launches(q, g, dev, name, args, grid, fuse)]
        return [*steps, Launch(name, dict(args, sums=None, moments=0), grid, fuse)]


class ConvFpropWgmmaRounded(ConvFpropWgmmaPrologue):
    """The same where x is f32 between the operations: its values are rounded to the type of w, for the tensor
    cores."""
    index = 161
    notes = ("deterministic", "tensor_core", prologue.DOWN_CONVERT)

    def wrong_type(self, p):
        if p.x.dtype.name != "f32":
            yield f"x must be f32 between the operations, which is rounded to {p.w.dtype}; got {p.x.dtype}"
