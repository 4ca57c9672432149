"""Matrix product of f16 and bf16 on Hopper's tensor cores, of operands that lie anywhere, without a copy."""
from __future__ import annotations

from dataclasses import replace

from ...graph import core, many
from ...ops import Matmul, Pointwise
from ..engine import Config, Knob, first_then
from ..tile.cost import POWER, Tile
from ..tile.line import GROUP_ROWS, LINE_BYTES, Line, line_of
from ..tile.split_k import SplitMatmul
from ..tile.store import along_m, form, is_whole
from ..tile.stream_k import STREAMS
from .view import c_args
from .wgmma import MatmulWgmma

TILE = "128x128"
INTAKE = 14.0                                    # bytes that threads bring to an SM in a clock
AROUND_US = 12.0                                 # longer than 189 around the products


class MatmulWgmmaUnaligned(MatmulWgmma):
    """Threads read the whole 16 bytes around the rows (or columns) of operands that begin anywhere, shift
    them, and put them where TMA would have; then as 189, in tiles of 128 x 128. For products that wait for
    memory: where arithmetic is more, 187 copies operands once."""
    index = 185
    takes = core(Matmul, behind=many(Pointwise))
    source = "matmul/matmul_wgmma_unaligned.cu"
    knobs = (Knob("splits", lo=1, hi=2 ** 20), Knob("stream_k", STREAMS))

    def wrong_operands(self, p, g):
        lines = {name: unaligned_line(*self._matrix(g, name)) for name in ("a", "b")}
        for name, found in lines.items():
            if found is None:
                yield f"{name} must have one contiguous matrix dim; got strides {p.operands[name].strides}"
        if None not in lines.values() and not any(
                [*super(MatmulWgmmaUnaligned, self).wrong_operand(p, g, name)] for name in ("a", "b")):
            yield "TMA reads a and b where they lie; matmul_wgmma takes them"

    def _major(self, p, g, name):
        return unaligned_line(*self._matrix(g, name))

    def kernel(self, p, tile):
        return f"matmul_wgmma_unaligned_{p.a.dtype}_{self.majors(p)}"

    # ---- Choice ----

    @staticmethod
    def _tiled(config) -> Config:
        return Config(tile=TILE, splits=config.splits, store="rows", cluster_k=1,
                      stream_k=config.get("stream_k"))

    def tiles(self, p):
        return (TILE,)

    def boxes(self, p, side: int = GROUP_ROWS):
        return None                              # its sums leave by rows

    @staticmethod
    def step_clocks(g, t: Tile, line: Line, cast: int = 1) -> float:
        read = (min(t.m, g.m) + min(t.n, g.n)) * LINE_BYTES
        return max(t.m * t.n * line.elements / (line.macs * t.share * POWER), read / INTAKE)

    def configs(self, p, dev):
        alone = [Config(splits=c.splits) for c in SplitMatmul.configs(self, p, dev)]
        streams = [Config(splits=1, stream_k=kind) for kind in STREAMS if self._shares(p, dev, TILE, kind)]
        best = min((alone[0], *streams), key=lambda config: self.cut(p, dev, config).us)
        return first_then(best, [*alone, *streams])

    def cost(self, p, dev, config):
        return AROUND_US + super().cost(p, dev, config)

    def cut(self, p, dev, config):
        return super().cut(p, dev, self._tiled(config))

    # ---- Launches ----

    def plan(self, p, dev, config):
        lead, g = self.matrices(p)
        if lead.tensor.count == 0:
            return []
        args = dict(c_args(p, g, lead), a=p.ptr("a"), b=p.ptr("b"), a_batch=g.a_batch, b_batch=g.b_batch,
                    c_form=form(None, is_fused=False, is_whole=is_whole(g, lead.tensor)),
                    c_along_m=along_m(g))
        around = 2 * line_of(p).chunk            # elements that may be read where half of them are wanted
        for name in ("a", "b"):
            rows, _, depth, _ = self._matrix(g, name)
            along, step = self._major(p, g, name)
            length = depth if along == "k" else rows
            args |= {f"{name}_step": step, f"{name}_packed": int(step == length >= around)}
        product = self.product(p, dev, self._tiled(config), args)
        known = {name: value for name, value in product.args.items() if name != "team"}      # it has none
        return self.summed(p, replace(product, args=known), "c")


def unaligned_line(rows: int, row_step: int, depth: int, depth_step: int) -> tuple[str, int] | None:
    """("k" or "rows", step of the other index) of what is contiguous, or None."""
    if depth_step == 1 or depth == 1:
        return "k", row_step
    return ("rows", depth_step) if row_step == 1 or rows == 1 else None
