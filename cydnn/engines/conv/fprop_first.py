"""Forward convolution of images of few channels on Hopper's tensor cores: wgmma reads overlapping windows."""
from __future__ import annotations

from dataclasses import dataclass

from ... import fusion, kernels
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvFprop, Pointwise
from ...steps import Launch, Pointer, TensorMap
from ..engine import PLAIN, Config, Engine, Knob, together
from ..tile.maps import tiled_map
from ..tile.matrices import too_many
from ..tile.store import WARP_ROWS, form, has_boxes
from .first import CHUNK, STRIP, WIDE, FirstRows, image_args, refusals, rows_of, window_refusals
from .view import behind_image, geometry

SOURCE = "conv/conv_first.cu"

START_US = 7.4                                   # the first rows, the last way out
FILTERS, EACH_US, SPARSE = 256, 0.2, 1.25        # pieces of filters that come at once, their time; of rows
                                                 # that half as many warps bring (store=tma)
ROW, STEP = 280, 270                             # clocks: of a row of y, of a part of it, whoever has it
PART, PAIR, FAR_PAIR = 377, 82, 118              # its way out; a pair of chunks, where there are 2 and more
SINGLES = 3900                                   # of a way out, where elements leave alone


@dataclass(frozen=True)
class FirstLayout:
    """A block has the filters of ``tiles`` times 64 channels, one of ``teams`` parts of them, and a ring of
    ``ring`` lines."""
    rows: FirstRows
    tiles: int
    teams: int
    ring: int


class ConvFpropFirst(Engine):
    """Rows of the image lie in shared memory with 1, 2, 4 or 8 channels, so that windows are 16 bytes apart:
    wgmma reads them where they lie, sums in f32. Filters stay in shared memory, and rows while they are
    needed. store=tma: what is fused leaves in boxes, too; taken wherever something is fused."""
    index = 118
    takes = core(ConvFprop, behind=many(Pointwise))
    v5 = ("IMPLICIT_PRECOMP_GEMM",)
    knobs = (Knob("store", ("tma",)),)
    notes = ("tensor_core", "deterministic")

    def refuse(self, p, dev):
        wrong = list(refusals(p, dev, SOURCE))
        yield from wrong
        if wrong:
            return
        g = geometry(p, self.lead(p))
        wrong = list(window_refusals(p, g))
        yield from wrong
        yield from too_many("rows of y (n and the dims but the last)", p.x.n * g.y.size[1] * g.y.size[2])
        if not wrong and self.layout(p, dev) is None:
            least = rows_of(g, WIDE)
            beside, filters, line = sizes(g, least, self._kernel(p, PLAIN))
            yield (f"64 filters and the rows of x that they meet must take at most {dev.smem_bytes - beside} "
                   f"bytes; got {filters + least.least * line}")
        yield from fusion.reasons(self.tail(p))

    @staticmethod
    def lead(p):
        return p.lead(p.x.dtype.name)

    def tail(self, p):
        lead = self.lead(p)
        return behind_image(p, p.x.dtype.name, 8 if is_whole(geometry(p, lead).y, lead.tensor) else 1)

    def layout(self, p, dev, config=PLAIN) -> FirstLayout | None:
        """None where it does not fit."""
        return layout(p, self._kernel(p, config), dev.smem_bytes, dev.sms)

    @staticmethod
    def _kernel(p, config) -> str:
        return f"conv_first_{p.x.dtype}" + ("_pairs" if config.get("store") else "")

    def blocks(self, p, dev, config) -> int:
        """Of a team."""
        found = self.layout(p, dev, config)
        g = geometry(p, self.lead(p))
        return max(min(g.y.n * g.y.size[1] * found.rows.strips, dev.sms // found.teams), 1)

    def cost(self, p, dev, config):
        """Memory, or the clocks of two warpgroups that multiply (fitted to an H200 where nothing is fused; of
        store=tma, too, whose four have more to do); more where they are near."""
        found, g = self.layout(p, dev, config), geometry(p, self.lead(p))
        r, pairs = found.rows, ceil_div(found.rows.chunks, 2)
        mine = ceil_div(g.y.n * g.y.size[1] * r.strips, self.blocks(p, dev, config))     # rows of a block
        parts = r.strip // WIDE * found.tiles                                        # of a row
        out = PART if is_whole(g.y, self.lead(p).tensor) else PART + SINGLES
        product = g.w.size[1] * pairs * (PAIR if pairs <= 2 else FAR_PAIR) + out
        busy = (mine * (ROW + STEP * parts) + ceil_div(mine * parts, 2) * product) / dev.clock_mhz
        moved = p.region.traffic_bytes / (0.8 * dev.bandwidth_gbs) * 1e-3
        pieces, by = found.tiles * WIDE * g.w.size[1] * 2 * pairs, FILTERS
        if config.get("store"):
            busy, by = busy * SPARSE, by * 2
        return dev.launch_us + START_US + EACH_US * ceil_div(pieces, by) + together(3, busy, moved)

    def configs(self, p, dev):
        pairs, boxes = Config(store="tma"), self.boxes(p, geometry(p, self.lead(p)))
        found = [PLAIN] if boxes is None or self.layout(p, dev, pairs) is None else [PLAIN, pairs]
        found = found if self.tail(p) is None else found[::-1]
        yield from sorted(found, key=lambda config: self.cost(p, dev, config))

    # ---- The launch ----

    def boxes(self, p, g, side: int = WIDE) -> TensorMap | None:
        """The map of y, where TMA can store it, in boxes of so many outputs of a row."""
        lead, tail = self.lead(p), self.tail(p)
        if not has_boxes(lead, tail, is_whole=is_whole(g.y, lead.tensor)):
            return None
        dims = (g.k, *g.y.size[:0:-1], g.y.n, 1)
        found = tiled_map(Pointer(lead.uid), lead.tensor, dims, (*g.y.steps[:0:-1], g.y.n_step, 0),
                          side, 1, 1, 1)
        return None if any(kernels.map_reasons(found)) else found

    def out(self, p, g, config) -> tuple:
        """(map, form) of y; a map that is not used where it has none."""
        boxes, tail = self.boxes(p, g, WARP_ROWS if config.get("store") else WIDE), self.tail(p)
        if tail is not None and not config.get("store"):
            boxes = None
        found = form(boxes, is_fused=tail is not None, is_whole=is_whole(g.y, self.lead(p).tensor))
        return boxes or tiled_map(p.ptr("x"), p.x, (1,) * 5, (0,) * 4, 1, 1, 1, 1), found

    def plan(self, p, dev, config):
        lead, found = self.lead(p), self.layout(p, dev, config)
        g, r = geometry(p, lead), found.rows
        boxes, form = self.out(p, g, config)
        args = dict(w=p.ptr("w", g.w_start * p.w.dtype.bytes), boxes=boxes, **lead.store(p),
                    alpha=p.scalar("alpha"), **image_args(p, g), **r.args(), ring=found.ring,
                    taps_h=g.w.size[1], taps_w=g.w.size[2], dilation_h=g.dilation[1], chunks=r.chunks,
                    w_k=g.w.n_step, w_c=g.w.c_step, w_h=g.w.steps[1], w_w=g.w.steps[2], k=g.k,
                    tiles=found.tiles, teams=found.teams, count=g.y.n * g.y.size[1] * r.strips,
                    rows=g.y.size[1], columns=g.y.size[2], y_form=form,
                    y_along_m=int(0 < g.y.steps[2] < g.y.c_step), y_n=g.y.n_step, y_h=g.y.steps[1],
                    y_w=g.y.steps[2], y_c=g.y.c_step)
        blocks = self.blocks(p, dev, config) * found.teams
        return [Launch(self._kernel(p, config), args, dict(blocks=blocks),
                       fusion.at("epilogue", self.tail(p)))]


def is_whole(y, tensor) -> bool:
    """Channels of y come in whole 16 bytes, so that vectors of 8 can be written."""
    return not any(n % CHUNK for n in (y.c, y.n_step, *y.steps)) and y.c_step == 1 and tensor.alignment >= 16


def sizes(g, rows: FirstRows, kernel: str) -> tuple[int, int, int]:
    """Bytes of shared memory: what is always there, 64 filters, a line."""
    def needs(tiles, ring):
        return kernels.get(kernel).smem_bytes(
            tiles=tiles, ring=ring, taps_h=g.w.size[1], chunks=rows.chunks, part_bytes=rows.part_bytes,
            step=rows.step, kept=rows.kept)
    beside = needs(0, 0)
    return beside, needs(1, 0) - beside, needs(0, 1) - beside


@once_per_match
def layout(p, kernel: str, room: int, sms: int) -> FirstLayout | None:
    """The widest strips with which rows overlap products, and as many filters as there is room for; fewer
    where rows alone give no block to each SM."""
    g = geometry(p, ConvFpropFirst.lead(p))
    all_tiles = ceil_div(g.k, WIDE)
    for most in range(STRIP, 0, -WIDE):
        rows = rows_of(g, most)
        beside, filters, line = sizes(g, rows, kernel)
        tiles = min((room - beside - rows.least * line) // filters, all_tiles)
        if tiles > 0:
            few = sms // max(g.y.n * g.y.size[1] * rows.strips, 1)
            teams = max(ceil_div(all_tiles, tiles), min(all_tiles, few))
            tiles = ceil_div(all_tiles, teams)
            return FirstLayout(rows, tiles, teams, rows.lines((room - beside - tiles * filters) // line))
    return None
