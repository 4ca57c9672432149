"""Hopper's tile program (kernels_src/tile/wgmma_blocks.cuh): the base of the engines whose kernels are made
of it. How they choose a tile and share the depth among blocks, and their launches."""
from __future__ import annotations

from dataclasses import replace

from ... import fusion, kernels
from ...graph import once_per_match
from ...kernels.expressions import ceil_div
from ...steps import Launch, Pointer, TensorMap
from ..engine import Config, Knob, first_then, no_variant, wrong_device
from . import sums
from .cost import TILES, Model, Tile, order, step_clocks
from .line import GROUP_ROWS, line_of
from .maps import matrix_map
from .split_k import TEAMS, SplitMatmul, TeamCut, cut as cut_into, parts, share, with_sum
from .store import form, has_boxes, is_whole
from .stream_k import STREAMS, Shares, Stream, even, lanes_of, stream

CAST, CAST_TILE = 2, "128x256"                   # blocks to which each brings half of b; their tile
KNOBS = (Knob("tile", tuple(name for name, tile in TILES.items() if tile.is_shared)),
         Knob("splits", lo=1, hi=2 ** 20), Knob("store", ("tma", "rows")), Knob("cluster_k", TEAMS),
         Knob("stream_k", STREAMS))


def brought(config) -> Tile:
    """The tile, with the columns of b that a block brings."""
    tile = TILES[config.tile]
    return tile._replace(n=tile.n // config.get("multicast", 1))


class TileProgram(SplitMatmul):
    """The base. Blocks stay and take tile after tile; deep products are split and added in order.

    ``stream_k``: of equal shares (1) or of whole parts (2). ``multicast``: two blocks of a cluster have
    tiles of the same columns, and each brings half of operand b to both."""
    knobs = KNOBS
    notes = ("deterministic", "tensor_core")

    def step(self, p):
        return line_of(p).elements

    def tail(self, p):
        """The epilogue that is spliced in, tried once; None for none."""
        raise NotImplementedError

    def moved_bytes(self, p, g) -> int:
        """Bytes of memory where every operand is touched once."""
        raise NotImplementedError

    def kernel(self, p, tile: str) -> str:
        """Its name."""
        raise NotImplementedError

    @staticmethod
    def wrong(p, dev, source: str, *names: str):
        """The reasons that they share; with the first of them nothing else is asked. ``names``: the operands
        that have the kernel's type, where not all that are read."""
        yield from wrong_device(dev, 90)
        if dev.kind == "cuda" and dev.sm > 90:
            yield f"needs sm_90 itself (wgmma); device is sm_{dev.sm}"
        yield from no_variant(p, source, *(names or p.op.reads))

    def may_stream(self, p) -> bool:
        """Its kernel knows stream-K."""
        return True

    def casts(self, p, g, dev) -> bool:
        """Two blocks of a cluster may share operand b, and gain by it."""
        return False

    def tiles(self, p):
        return [tile for tile in self.knobs[0].values if kernels.has(self.kernel(p, tile))]

    def boxes(self, p, side: int = GROUP_ROWS) -> TensorMap | None:
        """The map of the output, where TMA can store it."""
        (lead, g), tail = self.matrices(p), self.tail(p)
        if not has_boxes(lead, tail, is_whole=is_whole(g, lead.tensor)):
            return None
        found = matrix_map(Pointer(lead.uid), lead.tensor, (g.n, g.m), g.c[0], g, g.c_batch, side)
        return None if any(kernels.map_reasons(found)) else found

    # ---- Choice ----

    def ways(self, p, g, dev, tile):
        blocks, estimate = self.work(p, g, dev, tile)
        return blocks, line_of(p).sum_bytes, estimate

    step_clocks = staticmethod(step_clocks)      # of a block

    def _model(self, p, g, dev, tile, cast=1) -> Model:
        t, line = TILES[tile], line_of(p)
        step = self.step_clocks(g, t, line, cast)
        return Model(dev, g, line, t, step, fusion.work(self.tail(p)), self.moved_bytes(p, g))

    def work(self, p, g, dev, tile, cast=1) -> tuple:
        """(blocks of the whole depth, its estimated microseconds in so many parts of so deep)."""
        t, model = TILES[tile], self._model(p, g, dev, tile, cast)
        blocks = cast * ceil_div(g.m, cast * t.m) * ceil_div(g.n, t.n) * g.count
        return blocks, lambda splits, depth, team=1: model.us(blocks, splits, depth, team, cast)

    def configs(self, p, dev):
        g, outs = self.matrices(p)[1], ("rows",) if self.boxes(p) is None else ("tma", "rows")
        if p.last:
            summed = [Config(tile=tile, splits=1, store=out, cluster_k=1)
                      for out in outs for tile in TILES if kernels.has(sums.kernel(self.kernel(p, tile)))]
            return first_then(min(summed, key=lambda config: self.cost(p, dev, config)), summed)
        usual = list(super().configs(p, dev))
        alone, joined = list(self._alone(outs, usual)), list(self._joined(p, g, dev, outs, usual))
        best = min((*alone, *joined), key=lambda config: self.cut(p, dev, config).us)
        return first_then(best, [*alone, *joined])

    def offers(self, p, dev, config):
        g, outs = self.matrices(p)[1], ("rows",) if self.boxes(p) is None else ("tma", "rows")
        usual = [] if p.last else [c for c in self.usual(p, g) if c.tile == config.get("tile")]
        return (config in self._alone(outs, usual) or config in self._joined(p, g, dev, outs, usual)
                or super().offers(p, dev, config))

    @staticmethod
    def _alone(outs, usual):
        return (Config(tile=c.tile, splits=c.splits, store=out, cluster_k=1) for out in outs for c in usual)

    def _joined(self, p, g, dev, outs, usual):
        """Blocks that share a depth in a cluster, streams of steps, blocks that share operand b."""
        tiles = [t for t in dict.fromkeys(c.tile for c in usual) if TILES[t].is_shared]
        yield from (Config(tile=tile, splits=1, store="rows", cluster_k=team) for tile in tiles
                    for team in TEAMS[1:] if team <= dev.sms and share(g.k, team, self.step(p)))
        yield from (Config(tile=tile, splits=1, store=out, cluster_k=1, stream_k=kind)
                    for out in outs for tile in tiles for kind in STREAMS
                    if self.may_stream(p) and self._shares(p, dev, tile, kind))
        yield from (Config(**dict(c.items()), multicast=CAST) for c in self._alone(outs, usual)
                    if c.tile == CAST_TILE and self.casts(p, g, dev))

    def cost(self, p, dev, config):
        return super().cost(p, dev, config) + (sums.us(p, self.matrices(p)[1], dev) if p.last else 0.0)

    def cut(self, p, dev, config):
        team, g, step = config.get("cluster_k", 1), self.matrices(p)[1], self.step(p)
        if config.get("stream_k"):
            found = self._shares(p, dev, config.tile, config.stream_k)
            us = self._model(p, g, dev, config.tile).shares_us(found)
            return Stream(us, config.tile, 1, ceil_div(g.k, step) * step, found)
        each = share(g.k, team, step)
        estimate = self.work(p, g, dev, config.tile, config.get("multicast", 1))[1]
        if team > 1 and each:
            return TeamCut(estimate(1, each, team), config.tile, 1, each, team)
        size = line_of(p).sum_bytes
        into = lambda splits: cut_into(g, config.tile, splits, self._unit(p, g), size, dev, estimate)
        return into(config.splits) or into(1)

    @once_per_match
    def _shares(self, p, dev, tile, kind) -> Shares | None:
        """Of the tiles of a match: the best, of these that of most lanes."""
        g, t = self.matrices(p)[1], TILES[tile]
        rows, columns, steps = ceil_div(g.m, t.m), ceil_div(g.n, t.n), ceil_div(g.k, self.step(p))
        tiles = rows * columns * g.count
        if not tiles * g.k:
            return None
        found = even(tiles, steps, dev.sms) if kind == 2 else (
            stream(tiles, steps, dev.sms, lanes=n) for n in lanes_of(rows, t.band))
        model = self._model(p, g, dev, tile)
        return min(filter(None, found), key=lambda one: (model.shares_us(one), -one.lanes), default=None)

    # ---- Launches ----

    def out(self, p, config, spare: TensorMap) -> tuple[TensorMap, int]:
        """(map, form) of the output; ``spare`` where it has no map."""
        lead, g = self.matrices(p)
        boxes = self.boxes(p) if config.get("store", "tma") == "tma" else None
        is_fused = self.tail(p) is not None
        return boxes or spare, form(boxes, is_fused=is_fused, is_whole=is_whole(g, lead.tensor))

    def product(self, p, dev, config, args: dict) -> Launch:
        """The kernel, in blocks that stay."""
        g, line = self.matrices(p)[1], line_of(p)
        chosen, tile = self.cut(p, dev, config), TILES[config.tile]
        team, cast = getattr(chosen, "team", 1), config.get("multicast", 1)
        tiles = ceil_div(g.m, cast * tile.m) * ceil_div(g.n, tile.n) * g.count * chosen.splits
        args = dict(args, parts=args.get("parts") or parts(p, g, line.sums, chosen), split_k=chosen.each,
                    splits=chosen.splits, order=order(g, tile, g.count, cast))
        if tile.is_shared:
            args |= dict(team=team, share=0, alone=tiles, rest=0, lanes=1, steps=ceil_div(g.k, line.elements))
        if isinstance(chosen, Stream):
            found = chosen.shares
            room = 2 * found.blocks * tile.m * tile.n * line.sum_bytes
            args |= dict(parts=p.scratch(room), share=found.share, alone=found.alone,
                         rest=found.rest // found.lanes, lanes=found.lanes, steps=found.steps)
            return Launch(self.kernel(p, config.tile), args, dict(blocks=found.blocks))
        together = tiles * team if team > 1 else min(tiles, dev.sms // cast)
        return Launch(self.kernel(p, config.tile), args, dict(blocks=together * cast))

    def summed(self, p, product: Launch, out: str) -> list:
        """A product and the ordered sum of its splits; ``out``: its output."""
        if product.args.get("share"):                # its blocks add what they have
            return [replace(product, fuse=fusion.at("epilogue", self.tail(p)))]
        return with_sum(self.matrices(p)[1], product, f"matmul_sum_{p.operands[p.op.reads[0]].dtype}",
                        product.args["splits"], fusion.at("epilogue", self.tail(p)), out)

    def launch(self, p, dev, config, args: dict, out: str) -> list:
        """The kernel and the ordered sum of splits, or those of columns; ``out``: its output."""
        if p.last:
            g, tile = self.matrices(p)[1], TILES[config.tile]
            blocks = min(ceil_div(g.m, tile.m) * ceil_div(g.n, tile.n) * g.count, dev.sms)
            return sums.launches(p, g, dev, sums.kernel(self.kernel(p, config.tile)),
                                 dict(args, order=order(g, tile, g.count)), dict(blocks=blocks),
                                 fusion.at("epilogue", self.tail(p)))
        return self.summed(p, self.product(p, dev, config, args), out)
