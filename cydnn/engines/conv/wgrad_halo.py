"""Gradient of a convolution of unit stride with respect to its filter: f16 and bf16, wgmma, each row of x
read once for all taps."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ... import fusion, kernels
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvWgrad, Pointwise
from ...steps import Launch
from ..engine import Config, Engine, Knob, first_then, no_elements, powers, together
from ..tile import cost as tile_cost
from ..tile.line import LINE_BYTES, line_of
from ..tile.matrices import MOST
from ..tile.program import TileProgram
from ..tile.split_k import PART_BYTES, sums_us
from . import mma
from .view import behind_filter
from .wgmma import image_map, in_lines, not_in_lines
from .wgrad_mma import STORES, ordered_sum
from .wgrad_wgmma import no_chunks, tap_columns

TAPS = 9                                         # of a block
BOX, STAGES, STRIPS = 256, 8, 16                 # a side of a box; most stages; most parts of a row
SMEM_BYTES = 227 * 1024 - 256                    # of a block on sm_90, beside its barriers
RATE, EACH = 0.82, 40                           # share of the math rate; clocks of a work beside it
START = 13000                                    # clocks beside the works


@dataclass(frozen=True)
class HaloRows:
    """The cut of images: works of ``rows`` rows of ``pitch`` pixels, or of one of ``strips`` parts of a row;
    dy comes in ``columns`` of a row. A work takes ``steps`` instructions; of ``lines`` lines in each of
    ``stages`` stages, ``x_rows`` are x."""
    rows: int
    strips: int
    columns: int
    pitch: int
    steps: int
    x_rows: int
    lines: int
    stages: int
    works: int


def _rows(g, rows: int, k: int, room: int, strips: int = 1) -> HaloRows | None:
    """The cut into works of so many rows, or of parts of one, ``k`` pixels an instruction; None where two of
    their stages find no ``room``."""
    reach = [(r - 1) * d for r, d in zip(g.taps, g.dilation)]
    width = g.out[2] if strips == 1 else ceil_div(ceil_div(g.out[2], strips), k) * k
    pitch = width + reach[2]
    columns = pitch if strips == 1 else width    # in a row's zeros the taps meet those of the next row
    steps = ceil_div(rows * columns, k)
    read = max(k * steps + reach[1] * pitch + reach[2], (rows + reach[1]) * pitch)
    x_rows = ceil_div(read, 8) * 8
    lines = k * steps + x_rows
    stages = min(room // (LINE_BYTES * lines), STAGES)
    if pitch > BOX or rows + reach[1] > BOX or stages < 2:
        return None
    works = g.n * g.out[0] * ceil_div(g.out[1], rows) * ceil_div(g.out[2], width)
    return HaloRows(rows, ceil_div(g.out[2], width), columns, pitch, steps, x_rows, lines, stages, works)


def _parts(g, k: int, room: int) -> list[HaloRows]:
    """The cut into parts of a row, for rows that find no room: of the fewest instructions, most stages."""
    found = [cut for strips in range(2, STRIPS + 1) if (cut := _rows(g, 1, k, room, strips))]
    return [min(found, key=lambda cut: (cut.strips * cut.steps, -cut.stages))] if found else []


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
        if g.groups > 1:
            yield from no_chunks(p, g.c, g.k)

    def _refuse_sizes(self, p, g):
        if not self._cuts(p):
            yield (f"two stages of a {STRIPS}th of a row of dy and the rows of x that its taps meet must fit "
                   f"into {_room(p)} bytes and boxes of {BOX}; got rows of {g.out[2]} and taps of {g.taps}")
        if (sums := _sums(p)) > MOST:
            yield (f"dw must have at most {MOST} elements, channels padded to {line_of(p).elements}; "
                   f"got {sums}")
        if STRIPS * g.n * g.out[0] * g.out[1] > MOST:
            yield f"rows of dy must be at most {MOST // STRIPS}; got {g.n * g.out[0] * g.out[1]}"

    @staticmethod
    def _tail(p):
        return p.lead(*STORES), behind_filter(p, STORES, channel_inner=True)

    # ---- Choice ----

    @staticmethod
    @once_per_match
    def _cuts(p) -> tuple:
        """Every cut into rows that there is."""
        g, k, room = mma.geometry(p), line_of(p).k, _room(p)
        found = (_rows(g, rows, k, room) for rows in range(1, min(g.out[1], BOX) + 1))
        return tuple(cut for cut in found if cut) or tuple(_parts(g, k, room))

    def configs(self, p, dev):
        cuts = self._cuts(p)
        every = [Config(rows=cut.rows, splits=n) for cut in cuts
                 for n in sorted({*powers(self._most(p, cut)), *self._full(p, dev, cut)})]
        best = min(every, key=lambda config: self.cost(p, dev, config))
        return first_then(best, every)

    @staticmethod
    def _most(p, cut: HaloRows) -> int:
        """Splits that there is room and work for."""
        return max(min(cut.works, PART_BYTES // (line_of(p).sum_bytes * _sums(p)), 65535), 1)

    def _full(self, p, dev, cut: HaloRows):
        """Splits that give every SM one block, or two."""
        tiles, most = prod(_tiles(p)), self._most(p, cut)
        return (min(max(waves * dev.sms // tiles, 1), most) for waves in (1, 2))

    def _cut(self, p, config) -> tuple:
        """(cut into rows, works of a split, splits)."""
        cut = next((c for c in self._cuts(p) if c.rows == config.rows), self._cuts(p)[0])
        each = ceil_div(cut.works, min(config.splits, self._most(p, cut)))
        return cut, each, ceil_div(cut.works, each)

    def cost(self, p, dev, config):
        line, (cut, each, splits) = line_of(p), self._cut(p, config)
        waves = ceil_div(prod(_tiles(p)) * splits, dev.sms)
        products = cut.steps * TAPS * line.elements * line.elements * line.k / (line.macs * RATE)
        work = EACH + max(products, cut.lines * LINE_BYTES / tile_cost.INTAKE)
        busy = waves * (each * work + START) / dev.clock_mhz
        moved = (p.x.bytes + p.dy.bytes) / (0.8 * dev.bandwidth_gbs) * 1e-3
        sums = line.sum_bytes * splits * _sums(p)
        return dev.launch_us + together(3, busy, moved) + sums_us(sums, splits, dev)

    # ---- Launches ----

    def plan(self, p, dev, config):
        g, (cut, each, splits), (lead, fused) = mma.geometry(p), self._cut(p, config), self._tail(p)
        tiles_c, tiles_k, tap_groups, tap_depth, groups = _tiles(p)
        channels = tap_columns(p, g.c)
        sums = p.scratch(line_of(p).sum_bytes * splits * _sums(p))
        reach = (g.taps[1] - 1) * g.dilation[1]
        args = dict(dy=image_map(p, "dy", cut.columns, cut.rows), parts=sums, filters=g.k, channels=g.c,
                    x=image_map(p, "x", cut.pitch, cut.rows + reach), tap_channels=channels,
                    works=cut.works, each=each, splits=splits, rows=cut.rows, columns=cut.columns,
                    pitch=cut.pitch, steps=cut.steps, x_rows=cut.x_rows, stages=cut.stages,
                    is_flipped=int(g.is_flipped), taps=g.taps, dilation=g.dilation,
                    first=tuple(-a for a in g.pad), strips=cut.strips,
                    row_blocks=ceil_div(g.out[1], cut.rows), depth=g.out[0], tiles_c=tiles_c,
                    tiles_k=tiles_k, tap_groups=tap_groups, tap_depth=tap_depth, groups=groups)
        product = Launch(_kernel(p), args)
        return [product, ordered_sum(p, lead, fused, sums, splits, channels)]


def _kernel(p) -> str:
    return f"conv_wgrad_halo_{p.x.dtype}"


def _room(p) -> int:
    """Bytes of all stages."""
    return SMEM_BYTES - kernels.get(_kernel(p)).smem_bytes(stages=0, steps=0, x_rows=0)


def _sums(p) -> int:
    """Elements of the sums of a split."""
    g = mma.geometry(p)
    return g.groups * g.k * prod(g.taps) * tap_columns(p, g.c)


def _tiles(p) -> tuple:
    """Of channels, filters, taps of a plane, planes of taps, groups."""
    g, line = mma.geometry(p), line_of(p).elements
    groups_of_taps = ceil_div(g.taps[1] * g.taps[2], TAPS)
    return ceil_div(g.c, line), ceil_div(g.k, line), groups_of_taps, g.taps[0], g.groups
