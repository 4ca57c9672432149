"""Gradients of the experts' matrices, of f16 and bf16, on Hopper's tensor cores: TMA and wgmma."""
from __future__ import annotations

from types import SimpleNamespace

from ... import fusion, kernels
from ...fusion import Site
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import GroupedMatmulWgrad, Pointwise
from ...ops.grouped_matmul import groups_of
from ...steps import Launch, Pointer, TensorMap
from ..engine import Config, Engine, Knob, first_then
from ..tile.cost import TILES, Model, order, step_clocks
from ..tile.line import GROUP_ROWS, LINES
from ..tile.maps import tiled_map
from ..tile.program import TileProgram
from ..tile.store import form
from .any import grouped, too_large
from .wgmma import MOST_GROUPS


class GroupedMatmulWgradWgmma(Engine):
    """TMA brings rows of both operands, 64 of one group at a time; blocks stay and take tile after tile. The
    dim of dw that is contiguous is that of the columns."""
    index = 504
    takes = core(GroupedMatmulWgrad, behind=many(Pointwise))
    knobs = (Knob("tile", ("128x256", "128x128")), Knob("store", ("tma", "rows")))
    notes = ("deterministic", "tensor_core")
    source = "grouped_matmul/grouped_matmul_wgrad_wgmma.cu"

    def refuse(self, p, dev):
        wrong = [*TileProgram.wrong(p, dev, self.source, "x", "dy")]
        yield from wrong
        if wrong:
            return
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.x.dtype} tensors; got {p.op.compute}"
        yield from too_large(p, "x", "dy", "dw")
        groups = groups_of(p.offsets.count, p.dw.dims[0])
        if groups > MOST_GROUPS:
            yield f"offsets must begin at most {MOST_GROUPS} groups (shared memory); got {groups}"
        if p.x.dims[1] < 1:
            yield f"x must have rows; got dims {p.x.dims}"
            return
        for name in ("x", "dy"):
            yield from self._wrong_operand(p, name)
        yield from fusion.reasons(self._tail(p))

    def _wrong_operand(self, p, name):
        d, chunk = p.operands[name], LINES[p.x.dtype.name].chunk
        if d.strides[2] != 1 and d.dims[2] > 1 or d.strides[1] % chunk and d.dims[1] > 1:
            yield (f"{name} must have contiguous rows, multiples of {chunk} elements apart (16 bytes); got "
                   f"strides {d.strides}")
        elif d.alignment < 16:
            yield f"{name} must be aligned to 16 bytes; got {d.alignment}"
        elif d.count:
            yield from (f"{name}: {reason}" for reason in kernels.map_reasons(self._map(p, name, GROUP_ROWS)))

    @staticmethod
    def _map(p, name, rows: int) -> TensorMap:
        d = p.operands[name]
        dims, steps = (d.dims[2], d.dims[1], 1, 1, 1), (d.strides[1], 0, 0, 0)
        return tiled_map(p.ptr(name), d, dims, steps, rows, 1, 1, 1)

    # ---- The output ----

    @once_per_match
    def _out(self, p) -> tuple:
        """(lead, the axis of its rows, that of its columns)."""
        lead = p.lead(p.x.dtype.name)
        _, k, n = lead.tensor.dims
        _, along_k, along_n = lead.tensor.strides
        is_turned = n > 1 and (k == 1 or along_k < along_n)
        return lead, *((2, 1) if is_turned else (1, 2))

    @staticmethod
    def _is_whole(t, row, column) -> bool:
        """Rows of the output are whole chunks of 8."""
        steps = (t.dims[column], t.strides[row], t.strides[0])
        return not any(n % 8 for n in steps) and t.strides[column] == 1 and t.alignment >= 16

    @fusion.attempt
    def _tail(self, p):
        lead, row, column = self._out(p)
        many = 8 if self._is_whole(lead.tensor, row, column) else 1
        site = Site(lead.tensor.dims, lead.tensor, (("col", (column,)),), "col", many)
        return fusion.behind(p, site, lead, mark_type="f32")

    def _boxes(self, p) -> TensorMap | None:
        lead, row, column = self._out(p)
        t = lead.tensor
        if not lead.is_native or self._tail(p) is not None or not self._is_whole(t, row, column):
            return None
        found = tiled_map(Pointer(lead.uid), t, (t.dims[column], t.dims[row], t.dims[0], 1, 1),
                          (t.strides[row], t.strides[0], 0, 0), GROUP_ROWS, 1, 1, 1)
        return None if any(kernels.map_reasons(found)) else found

    # ---- Choice ----

    @once_per_match
    def _sizes(self, p) -> SimpleNamespace:
        """What the model of a product asks for, of an expert."""
        t, row, column = self._out(p)[0].tensor, *self._out(p)[1:]
        return SimpleNamespace(m=t.dims[row], n=t.dims[column], count=t.dims[0], a=(1, 0), b=(0, 1),
                               k=ceil_div(p.x.dims[1], max(t.dims[0], 1)))

    def configs(self, p, dev):
        outs = ("rows",) if self._boxes(p) is None else ("tma", "rows")
        found = sorted((Config(tile=tile, store=out) for out in outs for tile in self.knobs[0].values),
                       key=lambda config: self.cost(p, dev, config))
        return first_then(found[0], found[1:])

    def cost(self, p, dev, config):
        """A step more for each group, which ends within one."""
        g, tile, line = self._sizes(p), TILES[config.tile], LINES[p.x.dtype.name]
        if not p.dw.count:
            return dev.launch_us
        model = Model(dev, g, line, tile, step_clocks(g, tile, line), fusion.work(self._tail(p)),
                      p.region.traffic_bytes)
        blocks = ceil_div(g.m, tile.m) * ceil_div(g.n, tile.n) * g.count
        return dev.launch_us + model.us(blocks, 1, g.k + line.elements)

    # ---- The launch ----

    def plan(self, p, dev, config):
        lead, row, column = self._out(p)
        t, tile, line = lead.tensor, TILES[config.tile], LINES[p.x.dtype.name].elements
        if not t.count:
            return []
        g, boxes = self._sizes(p), self._boxes(p) if config.store == "tma" else None
        names = ("x", "dy") if row == 1 else ("dy", "x")
        maps = {to: self._map(p, name, line) for to, name in zip("ab", names)}
        along_m = g.n == 1 or g.m > 1 and t.strides[row] < t.strides[column]
        args = dict(grouped(p, g.count), **maps, boxes=boxes or maps["a"], experts=g.count,
                    rows=p.x.dims[1], dw=Pointer(lead.uid) if lead.is_native else None, m=g.m, n=g.n,
                    order=order(g, tile, g.count), along_m=int(along_m), dw_e=t.strides[0],
                    dw_m=t.strides[row], dw_n=t.strides[column],
                    form=form(boxes, is_fused=False, is_whole=self._is_whole(t, row, column)))
        tiles = ceil_div(g.m, tile.m) * ceil_div(g.n, tile.n) * g.count
        return [Launch(f"grouped_matmul_wgrad_wgmma_{p.x.dtype}_{tile.m}x{tile.n}", args,
                       dict(blocks=min(tiles, dev.sms)), fusion.at("epilogue", self._tail(p)))]
