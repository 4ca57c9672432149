"""Gradients of the experts' matrices, of f16 and bf16, on Hopper's tensor cores: TMA and wgmma."""
from __future__ import annotations

from ... import fusion, kernels
from ...fusion import Site
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import GroupedMatmulWgrad, Pointwise
from ...steps import Launch, Pointer, TensorMap
from ...tensor import TensorDesc
from ..engine import Config, Engine, Knob
from ..tile.cost import TILES, Model, order, step_clocks
from ..tile.line import GROUP_ROWS, LINES
from ..tile.maps import matrix_map, tiled_map
from ..tile.matrices import Matrices
from ..tile.program import TileProgram
from ..tile.store import along_m, form, has_boxes, is_whole
from .any import grouped, too_large
from .mma import wrong_rows
from .wgmma import wrong_groups


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
        yield from wrong_groups(p, p.dw.dims[0])
        if p.x.dims[1] < 1:
            yield f"x must have rows; got dims {p.x.dims}"
            return
        for name in ("x", "dy"):
            yield from self._wrong_operand(p, name)
        yield from fusion.reasons(self._tail(p))

    def _wrong_operand(self, p, name):
        wrong = [*wrong_rows(p, name)]
        yield from wrong
        if not wrong and p.operands[name].count:
            yield from (f"{name}: {reason}" for reason in kernels.map_reasons(self._map(p, name, GROUP_ROWS)))

    @staticmethod
    def _map(p, name, rows: int) -> TensorMap:
        d = p.operands[name]
        dims, steps = (d.dims[2], d.dims[1], 1, 1, 1), (d.strides[1], 0, 0, 0)
        return tiled_map(p.ptr(name), d, dims, steps, rows, 1, 1, 1)

    # ---- The output ----

    @staticmethod
    @once_per_match
    def _matrices(p) -> tuple:
        """(lead, its axis of columns, the product of what an expert has on average, for each of them)."""
        lead, x, dy = p.lead(p.x.dtype.name), p.x, p.dy
        experts, k, n = lead.tensor.dims
        _, along_k, along_n = lead.tensor.strides
        axes, (one, two) = (0, 1, 2), (x, dy)
        if n > 1 and (k == 1 or along_k < along_n):
            axes, (one, two) = (0, 2, 1), (dy, x)
        depth = ceil_div(x.dims[1], max(experts, 1))
        a = TensorDesc(x.dtype, (1, one.dims[2], depth), (0, one.strides[2], one.strides[1]))
        b = TensorDesc(x.dtype, (1, depth, two.dims[2]), (0, two.strides[1], two.strides[2]))
        c = TensorDesc(lead.tensor.dtype, *([of[axis] for axis in axes]
                                            for of in (lead.tensor.dims, lead.tensor.strides)))
        return lead, axes[2], Matrices.of(a, b, c)

    @fusion.attempt
    def _tail(self, p):
        lead, column, g = self._matrices(p)
        many = 8 if is_whole(g, lead.tensor) else 1
        site = Site(lead.tensor.dims, lead.tensor, (("col", (column,)),), "col", many)
        return fusion.behind(p, site, lead, mark_type="f32")

    def _boxes(self, p) -> TensorMap | None:
        lead, _, g = self._matrices(p)
        if not has_boxes(lead, self._tail(p), is_whole=is_whole(g, lead.tensor)) or self._tail(p) is not None:
            return None
        found = matrix_map(Pointer(lead.uid), lead.tensor, (g.n, g.m), g.c[0], g, g.c_batch, GROUP_ROWS)
        return None if any(kernels.map_reasons(found)) else found

    # ---- Choice ----

    def configs(self, p, dev):
        outs = ("rows",) if self._boxes(p) is None else ("tma", "rows")
        ways = [Config(tile=tile, store=out) for out in outs for tile in self.knobs[0].values]
        return iter(sorted(ways, key=lambda config: self.cost(p, dev, config)))

    def cost(self, p, dev, config):
        """A step more for each group, which ends within one."""
        g, tile, line = self._matrices(p)[2], TILES[config.tile], LINES[p.x.dtype.name]
        if not p.dw.count:
            return dev.launch_us
        model = Model(dev, g, line, tile, step_clocks(g, tile, line), fusion.work(self._tail(p)),
                      p.region.traffic_bytes)
        blocks = ceil_div(g.m, tile.m) * ceil_div(g.n, tile.n) * g.count
        return dev.launch_us + model.us(blocks, 1, g.k + line.elements)

    # ---- The launch ----

    def plan(self, p, dev, config):
        lead, column, g = self._matrices(p)
        t, tile, line = lead.tensor, TILES[config.tile], LINES[p.x.dtype.name].elements
        if not t.count:
            return []
        boxes = self._boxes(p) if config.store == "tma" else None
        names = ("x", "dy") if column == 2 else ("dy", "x")
        maps = {to: self._map(p, name, line) for to, name in zip("ab", names)}
        args = dict(grouped(p, g.count), **maps, boxes=boxes or maps["a"], experts=g.count,
                    rows=p.x.dims[1], dw=Pointer(lead.uid) if lead.is_native else None, m=g.m, n=g.n,
                    order=order(g, tile, g.count), along_m=along_m(g), dw_e=t.strides[0],
                    dw_m=t.strides[3 - column], dw_n=t.strides[column],
                    form=form(boxes, is_fused=False, is_whole=is_whole(g, t)))
        tiles = ceil_div(g.m, tile.m) * ceil_div(g.n, tile.n) * g.count
        return [Launch(f"grouped_matmul_wgrad_wgmma_{p.x.dtype}_{tile.m}x{tile.n}", args,
                       dict(blocks=min(tiles, dev.sms)), fusion.at("epilogue", self._tail(p)))]
