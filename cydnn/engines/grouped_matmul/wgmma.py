"""Products of groups of rows of f16 and bf16 on Hopper's tensor cores: TMA and wgmma."""
from __future__ import annotations

from ... import fusion, kernels
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import GroupedMatmul, Pointwise
from ...ops.grouped_matmul import groups_of
from ...steps import Launch, Pointer, TensorMap
from ..engine import Knob, moved_us
from ..tile.cost import TILES, Model, step_clocks
from ..tile.line import LINES
from ..tile.maps import tiled_map
from ..tile.program import TileProgram
from ..tile.store import along_m, form, is_whole
from .any import routed
from .mma import GroupedMatmulMma

MOST_GROUPS = 440                                # whose offsets have room in shared memory
SHAPES = "128x256", "128x128", "64x256", "64x128"
BAND = 16                                        # rows of tiles that go together
GATHER_SHARE = 0.5                               # of the bandwidth


def wrong_groups(p, experts: int):
    """More groups than shared memory has room for."""
    groups = groups_of(p.offsets.count, experts)
    if groups > MOST_GROUPS:
        yield f"offsets must begin at most {MOST_GROUPS} groups (shared memory); got {groups}"


class GroupedMatmulWgmma(GroupedMatmulMma):
    """TMA brings tiles of the rows of a group and of its expert's matrix; blocks stay and take tile after
    tile. Which there are they find by the offsets. Rows that an index names are brought together first."""
    index = 503
    takes = core(GroupedMatmul, behind=many(Pointwise))
    knobs = (Knob("tile", SHAPES),)
    source = "grouped_matmul/grouped_matmul_wgmma.cu"

    def wrong(self, p, dev):
        yield from TileProgram.wrong(p, dev, self.source, "x", "w")

    def refuse(self, p, dev):
        found = [*super().refuse(p, dev)]
        yield from found
        if found:
            return
        experts, k, _ = p.w.dims
        yield from wrong_groups(p, experts)
        if k < 1:
            yield f"w must have rows; got dims {p.w.dims}"
        elif p.y.count:
            if experts > 1 and p.w.strides[0] == 0:
                yield f"w must have a matrix for each expert; got strides {p.w.strides}"
            yield from (f"{name}: {reason}" for name, found in self._maps(p, TILES[SHAPES[0]]).items()
                        for reason in kernels.map_reasons(found))

    # ---- What TMA reads ----

    @staticmethod
    def _pitch(p) -> int:
        """Elements from one gathered row to the next."""
        chunk = LINES[p.x.dtype.name].chunk
        return ceil_div(p.x.dims[2], chunk) * chunk

    def _maps(self, p, tile) -> dict[str, TensorMap]:
        (experts, k, n), (w_e, _, _), (form, step) = p.w.dims, p.w.strides, self._major(p)
        line, m = LINES[p.x.dtype.name].elements, p.y.dims[1]
        dims, side = ((k, n), tile.n) if form == "bk" else ((n, k), line)
        x, rows, x_step = ((p.scratch(p.x.dtype.bytes * m * self._pitch(p)), m, self._pitch(p))
                           if p.op.mode == "gather" else (p.ptr("x"), p.x.dims[1], p.x.strides[1]))
        return dict(x=tiled_map(x, p.x, (k, rows, 1, 1, 1), (x_step, 0, 0, 0), tile.m, 1, 1, 1),
                    w=tiled_map(p.ptr("w"), p.w, (*dims, experts, 1, 1), (step, w_e, 0, 0), side, 1, 1, 1))

    # ---- Choice ----

    def cost(self, p, dev, config):
        """A group ends within a tile, half a tile before its end on average."""
        if not p.y.count:
            return dev.launch_us
        g, tile, line = self._matrices(p)[1], TILES[config.tile], LINES[p.x.dtype.name]
        groups = min(groups_of(p.offsets.count, p.w.dims[0]), g.m)
        tiles = (ceil_div(g.m, tile.m) + groups // 2) * ceil_div(g.n, tile.n)
        model = Model(dev, g, line, tile, step_clocks(g, tile, line), fusion.work(self._tail(p)),
                      p.region.traffic_bytes)
        moved = 2 * p.x.dtype.bytes * g.m * g.k if p.op.mode == "gather" else 0
        copies = moved_us(moved, dev, GATHER_SHARE) if moved else 0.0
        return dev.launch_us + model.us(tiles, 1, g.k) + copies

    # ---- Launches ----

    def plan(self, p, dev, config):
        lead, g = self._matrices(p)
        t, tile = lead.tensor, TILES[config.tile]
        if not t.count:
            return []
        experts, k, n = p.w.dims
        args, steps = routed(p, t.dims[1])
        maps = self._maps(p, tile)
        if p.op.mode == "gather":
            steps = [self._gather(p, args, maps["x"].pointer)]
        columns = ceil_div(n, tile.n)
        args |= dict(maps, experts=experts, y=Pointer(lead.uid) if lead.is_native else None, n=n, k=k,
                     rows=BAND, band=BAND * columns, along_m=along_m(g), y_m=t.strides[1], y_n=t.strides[2],
                     form=form(None, is_fused=False, is_whole=is_whole(g, t)))
        most = (2 * ceil_div(t.dims[1], tile.m) + args["groups"] + 3) * columns
        launch = Launch(f"grouped_matmul_wgmma_{p.x.dtype}_{tile.m}x{tile.n}_{self._major(p)[0]}", args,
                        dict(blocks=min(most, dev.sms)), fusion.at("epilogue", self._tail(p)))
        return [*steps, launch]

    def _gather(self, p, args, gathered) -> Launch:
        m, k = p.y.dims[1], p.x.dims[2]
        return Launch("grouped_matmul_gather", dict(
            index=args["index"], index_step=args["index_step"], x=p.ptr("x"), x_step=p.x.strides[1],
            gathered=gathered, pitch=self._pitch(p), tokens=p.x.dims[1], m=m, k=k,
            chunks=ceil_div(k, LINES[p.x.dtype.name].chunk)))
