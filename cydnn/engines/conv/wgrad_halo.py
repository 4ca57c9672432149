"""Gradient of a convolution of unit stride with respect to its filter: f16 and bf16, wgmma, each row of x
read once for all taps."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ... import fusion, kernels
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import ConvWgrad, Pointwise
from ...steps import Launch
from ..engine import Config, Engine, Knob, first_then, no_elements, powers, together
from ..tile import cost as tile_cost
from ..tile.line import BYTES, LINE
from ..tile.matrices import MOST
from ..tile.program import TileProgram
from ..tile.split_k import PART_BYTES, sums_us
from . import mma
from .view import filter_site
from .wgmma import image_map, in_lines, not_in_lines
from .wgrad_mma_view import STORES, ordered_sum
from .wgrad_wgmma import STEP

TAPS, STEP_PIXELS = 9, 16                        # of a block; of a step
BOX, STAGES, ROOM = 256, 8, 227 * 1024 - 1024 - 256      # a side of a box; most stages; bytes of all of them
RATE, EACH = 0.82, 40                           # share of the math rate; clocks of a work beside it
START = 13000                                    # clocks beside the works


@dataclass(frozen=True)
class Rows:
    """How images are cut: works of ``rows`` rows of ``pitch`` pixels, which take ``steps`` steps; x has
    ``x_rows`` lines of 128 bytes in each of ``stages`` stages."""
    rows: int
    pitch: int
    steps: int
    x_rows: int
    stages: int
    works: int

    @property
    def lines(self) -> int:
        """Of a stage."""
        return STEP_PIXELS * self.steps + self.x_rows


def _rows(g, rows: int) -> Rows | None:
    """The cut into works of so many rows; None where their stages find no room."""
    reach = [(r - 1) * d for r, d in zip(g.taps, g.dilation)]
    pitch = g.out[2] + reach[2]
    steps = ceil_div(rows * pitch, STEP_PIXELS)
    read = max(STEP_PIXELS * steps + reach[1] * pitch + reach[2], (rows + reach[1]) * pitch)
    x_rows = ceil_div(read, 8) * 8
    stages = min(ROOM // (128 * (STEP_PIXELS * steps + x_rows)), STAGES)
    if pitch > BOX or rows + reach[1] > BOX or stages < 2:
        return None
    return Rows(rows, pitch, steps, x_rows, stages, g.n * g.out[0] * ceil_div(g.out[1], rows))


class ConvWgradHalo(Engine):
    """dw[k, taps and channels] = dy[pixels, k]^T @ im2col(x)[pixels, taps and channels], unit stride: TMA
    brings rows of dy, and the rows of x that they meet once for up to nine taps, which are the same pixels
    begun elsewhere. The images are split, their sums added in order; pointwise nodes are fused into that."""
    index = 159
    takes = core(ConvWgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)
    knobs = (Knob("rows", lo=1, hi=BOX), Knob("splits", lo=1, hi=65535))
    notes = ("deterministic", "tensor_core")
    source = "conv/conv_wgrad_halo.cu"

    def refuse(self, p, dev):
        wrong = [*TileProgram.wrong(p, dev, self.source), *no_elements(p.operands)]
        yield from wrong
        if wrong:
            return
        g, (lead, fused) = mma.geometry(p), self._tail(p)
        if set(g.stride) != {1}:
            yield f"stride must be 1; got {p.op.geometry(p.x.rank)[2]}"
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.x.dtype} tensors; got {p.op.compute}"
        if lead.tensor.dtype.name not in STORES:
            yield f"dw must be one of {' '.join(STORES)}; got {lead.tensor.dtype}"
        yield from self._refuse_layout(p, g)
        yield from self._refuse_sizes(p, g)
        yield from fusion.reasons(fused)

    @staticmethod
    def _refuse_layout(p, g):
        for name in ("x", "dy"):
            d = p.operands[name]
            if d.alignment < 16:
                yield f"{name} must be aligned to 16 bytes; got {d.alignment}"
            if not in_lines(d):
                yield from not_in_lines(name, d)
            else:
                yield from (f"{name}: {reason}" for reason in kernels.map_reasons(image_map(p, name, 1, 1)))
        if g.groups > 1:                         # TMA begins at whole 16 bytes, or stops the device
            yield from (f"{what} of a group must be a multiple of {STEP} ({STEP * BYTES} bytes); got {count}"
                        for what, count in (("channels", g.c), ("filters", g.k)) if count % STEP)

    def _refuse_sizes(self, p, g):
        if not self._cuts(p):
            yield (f"two stages of a row of dy and the rows of x that its taps meet must fit into {ROOM} "
                   f"bytes and boxes of {BOX}; got rows of {g.out[2]} and taps of {g.taps}")
        sums = g.groups * g.k * prod(g.taps) * _tap_channels(g)
        if sums > MOST:
            yield f"dw must have at most {MOST} elements, channels padded to {LINE}; got {sums}"
        if g.n * g.out[0] * g.out[1] > MOST:
            yield f"rows of dy must be at most {MOST}; got {g.n * g.out[0] * g.out[1]}"

    @staticmethod
    def _tail(p):
        lead = p.lead(*STORES)
        site = lambda: filter_site(p, lead, True)
        return lead, fusion.attempt(p, "halo", lambda: fusion.behind(p, site(), lead, beta=lead.beta))

    # ---- Choice ----

    @staticmethod
    def _cuts(p) -> tuple:
        """Every cut into rows that there is."""
        def make():
            g = mma.geometry(p)
            found = (_rows(g, rows) for rows in range(1, min(g.out[1], BOX) + 1))
            return tuple(cut for cut in found if cut)
        return p.once("halo rows", make)

    def configs(self, p, dev):
        cuts = self._cuts(p)
        every = [Config(rows=cut.rows, splits=n) for cut in cuts
                 for n in sorted({*powers(self._most(p, cut)), *self._full(p, dev, cut)})]
        best = min(every, key=lambda config: self.cost(p, dev, config))
        return first_then(best, every)

    @staticmethod
    def _most(p, cut: Rows) -> int:
        """Splits that there is room and work for."""
        g = mma.geometry(p)
        sums = 4 * g.groups * g.k * prod(g.taps) * _tap_channels(g)
        return max(min(cut.works, PART_BYTES // sums, 65535), 1)

    def _full(self, p, dev, cut: Rows):
        """Splits that give every SM one block, or two."""
        tiles, most = prod(_tiles(mma.geometry(p))), self._most(p, cut)
        return (min(max(waves * dev.sms // tiles, 1), most) for waves in (1, 2))

    def _cut(self, p, config) -> tuple:
        """(cut into rows, works of a split, splits)."""
        cut = next((c for c in self._cuts(p) if c.rows == config.rows), self._cuts(p)[0])
        each = ceil_div(cut.works, min(config.splits, self._most(p, cut)))
        return cut, each, ceil_div(cut.works, each)

    def cost(self, p, dev, config):
        g, (cut, each, splits) = mma.geometry(p), self._cut(p, config)
        waves = ceil_div(prod(_tiles(g)) * splits, dev.sms)
        products = cut.steps * TAPS * LINE * LINE * STEP_PIXELS / (2048 * RATE)
        work = EACH + max(products, cut.lines * 128 / tile_cost.INTAKE)
        busy = waves * (each * work + START) / dev.clock_mhz
        moved = (p.x.bytes + p.dy.bytes) / (0.8 * dev.bandwidth_gbs) * 1e-3
        sums = 4 * splits * g.groups * g.k * prod(g.taps) * _tap_channels(g)
        return dev.launch_us + together(3, busy, moved) + sums_us(sums, splits, dev)

    # ---- Launches ----

    def plan(self, p, dev, config):
        g, (cut, each, splits), (lead, fused) = mma.geometry(p), self._cut(p, config), self._tail(p)
        tiles_c, tiles_k, tap_groups, tap_depth, groups = _tiles(g)
        channels = _tap_channels(g)
        sums = p.scratch(4 * splits * g.groups * g.k * prod(g.taps) * channels)
        reach = (g.taps[1] - 1) * g.dilation[1]
        args = dict(dy=image_map(p, "dy", cut.pitch, cut.rows), parts=sums, filters=g.k, channels=g.c,
                    x=image_map(p, "x", cut.pitch, cut.rows + reach), tap_channels=channels,
                    works=cut.works, each=each, splits=splits, rows=cut.rows, pitch=cut.pitch,
                    steps=cut.steps, x_rows=cut.x_rows, stages=cut.stages, is_flipped=int(g.is_flipped),
                    taps=g.taps, dilation=g.dilation, first=tuple(-a for a in g.pad),
                    row_blocks=ceil_div(g.out[1], cut.rows), depth=g.out[0], tiles_c=tiles_c,
                    tiles_k=tiles_k, tap_groups=tap_groups, tap_depth=tap_depth, groups=groups)
        product = Launch(f"conv_wgrad_halo_{p.x.dtype}", args)
        return [product, ordered_sum(p, lead, fused, sums, splits, channels)]


def _tap_channels(g) -> int:
    """Channels of a tap, padded."""
    return ceil_div(g.c, LINE) * LINE


def _tiles(g) -> tuple:
    """Of channels, filters, taps of a plane, planes of taps, groups."""
    groups_of_taps = ceil_div(g.taps[1] * g.taps[2], TAPS)
    return ceil_div(g.c, LINE), ceil_div(g.k, LINE), groups_of_taps, g.taps[0], g.groups
