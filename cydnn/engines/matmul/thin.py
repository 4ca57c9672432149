"""Product of a large f16 or bf16 matrix and one of few columns on Hopper: TMA and wgmma, at memory speed."""
from __future__ import annotations

from dataclasses import dataclass, replace

from ... import fusion
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import Matmul, Pointwise
from ...steps import Launch
from ..engine import Config, Knob, first_then, together
from ..tile.cost import order
from ..tile.line import LINE_BYTES, line_of
from ..tile.maps import BATCH_DIMS
from ..tile.store import along_m
from ..tile.stream_k import Shares, Stream, stream
from .view import behind_product
from .wgmma import MatmulWgmma

ROWS, COLUMNS = 128, (16, 32, 64)                # of a tile; kernels_src/matmul/matmul_thin.cu
PIECES = (1, 2, 4, 8, 16)                        # most blocks of a tile
BANDWIDTH, INTAKE = 0.927, 52.9                  # share of it; bytes that an SM gets in a clock
AROUND_US, SHARED_US, PIECE_US = 2.07, 2.12, 0.401  # around the products; of shared tiles, of each part
TILE, COLUMN = 70.3, 148                         # clocks of a way out, of each of its columns
NEAR = 3.52                                      # how two times that are near add up


@dataclass(frozen=True)
class ThinTile:
    """Rows and columns of its sums; rows of a band."""
    m: int
    n: int
    band: int = 1


class MatmulThin(MatmulWgmma):
    """The large matrix has the rows, of either operand; the other has at most 64. Every block reads as much
    of the large one: a tile's depth may be that of up to ``pieces`` blocks, which add in order."""
    index = 186
    takes = core(Matmul, behind=many(Pointwise))
    source = "matmul/matmul_thin.cu"
    knobs = (Knob("blocks_per_tile", PIECES),)

    def refuse(self, p, dev):
        wrong = list(super().refuse(p, dev))
        yield from wrong
        if not wrong and (few := self._walk(p)[1].n) > COLUMNS[-1]:
            yield f"the smaller of m and n must be at most {COLUMNS[-1]}; got {few}"

    def tail(self, p):
        return behind_product(p, p.a.dtype.name)

    def _walk(self, p) -> tuple:
        """((the large operand, the other), the product as the kernel walks it: the large one is a)."""
        g = self.matrices(p)[1]
        if g.n <= g.m:
            return ("a", "b"), g
        return ("b", "a"), replace(g, m=g.n, n=g.m, a=g.b[::-1], b=g.a[::-1], c=g.c[::-1],
                                   a_batch=g.b_batch, b_batch=g.a_batch)

    # ---- Choice ----

    def configs(self, p, dev):
        found = [Config(blocks_per_tile=n) for n in PIECES if n == 1 or self._stream(p, dev, n)]
        return first_then(min(found, key=lambda config: self.cut(p, dev, config).us), found)

    def cost(self, p, dev, config):
        return dev.launch_us + self.cut(p, dev, config).us

    def _stream(self, p, dev, pieces):
        g = self._walk(p)[1]
        tiles = ceil_div(g.m, ROWS) * g.count
        return stream(tiles, ceil_div(g.k, self.step(p)), dev.sms, pieces) if tiles and g.k else None

    def cut(self, p, dev, config):
        g = self._walk(p)[1]
        tiles, steps = ceil_div(g.m, ROWS) * g.count, ceil_div(g.k, self.step(p))
        found = self._stream(p, dev, config.blocks_per_tile) if config.blocks_per_tile > 1 else None
        found = found or Shares(min(tiles, dev.sms), tiles, 0, 0)
        rounds = ceil_div(found.alone, max(found.blocks, 1))
        pieces = ceil_div(steps, found.share) if found.share else 0
        columns = self._tile(g).n
        few = self._major(p, g, "b")              # None: of nothing, which may lie anyhow
        lines = columns if few is None or few[0] == "k" else line_of(p).elements       # of a step
        clocks = (rounds * steps + found.share) * LINE_BYTES * (ROWS + lines) / INTAKE
        clocks += (rounds + (found.rest > 0)) * (TILE + COLUMN * columns)
        moved = self.moved_bytes(p, g) / (BANDWIDTH * dev.bandwidth_gbs) * 1e-3
        us = together(NEAR, clocks / dev.clock_mhz, moved)
        us += AROUND_US + (SHARED_US + PIECE_US * pieces if found.rest else 0.0)
        return Stream(us, config.blocks_per_tile, 1, steps * self.step(p), found)

    # ---- Launches ----

    @staticmethod
    def _tile(g) -> ThinTile:
        return ThinTile(ROWS, next((n for n in COLUMNS if g.n <= n), COLUMNS[-1]))

    def plan(self, p, dev, config):
        lead = self.matrices(p)[0]
        if lead.tensor.count == 0:
            return []
        (wide, few), g = self._walk(p)
        tile, chosen = self._tile(g), self.cut(p, dev, config).shares
        maps = {name: self._operand(p, p.ptr(uid), p.operands[uid], g, letter, tile)
                for name, uid, letter in (("wide", wide, "a"), ("few", few, "b"))}
        moves = {f"{name}_moves": tuple(int(s != 0) for s in steps[:BATCH_DIMS])
                 for name, steps in (("wide", g.a_batch), ("few", g.b_batch))}
        parts = p.scratch(chosen.blocks * tile.m * tile.n * line_of(p).sum_bytes) if chosen.rest else None
        args = dict(lead.store(p), **maps, **moves, parts=parts, alpha=p.scalar("alpha"), rows=g.m,
                    columns=g.n, k=g.k, order=order(g, tile, g.count),
                    steps=ceil_div(g.k, self.step(p)), share=chosen.share, alone=chosen.alone,
                    rest=chosen.rest, c_along_few=1 - along_m(g), col_of_rows=int(wide == "b"), c_row=g.c[0],
                    c_column=g.c[1], batch=g.batch, c_batch=g.c_batch)
        majors = "_".join(letter + ("k" if self._major(p, g, of)[0] == "k" else other)
                          for letter, of, other in (("w", "a", "m"), ("f", "b", "n")))
        return [Launch(f"matmul_thin_{p.a.dtype}_{tile.n}_{majors}", args, dict(blocks=chosen.blocks),
                       fusion.at("epilogue", self.tail(p)))]
