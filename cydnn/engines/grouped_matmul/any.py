"""Products of groups of rows of any types, strides and sizes, with pointwise operations in front of them and
behind them."""
from __future__ import annotations

from ... import fusion
from ...fusion import Site
from ...graph import core, many
from ...ops import GroupedMatmul, GroupedMatmulWgrad, Pointwise
from ...ops.grouped_matmul import groups_of
from ...steps import Launch, Memset
from ..engine import Engine, first_then, moved_us, wrong_device
from ..sums import lead_input, sum_type, wrong_sums
from ..tile.matrices import MOST
from ..tile.simt import SMALL, SMALL_KNOB, arithmetic_us, by_time, tile_us, tiles_of


def too_large(p, *names):
    """Sizes that the kernels cannot count."""
    for name in names:
        if max(p.operands[name].dims) > MOST:
            yield f"{name} must have dims of at most {MOST}; got {p.operands[name].dims}"
    if p.offsets.count > MOST:
        yield f"offsets must be at most {MOST}; got {p.offsets.count}"


def grouped(p, experts: int) -> dict:
    """Parameters of the offsets, of which kernels read the low words."""
    words = p.offsets.dtype.bits // 32
    return dict(offsets=p.ptr("offsets"), offsets_step=words * p.offsets.strides[0], count=p.offsets.count,
                groups=groups_of(p.offsets.count, experts))


def routed(p, rows: int) -> tuple[dict, list]:
    """(parameters of groups and of rows that are moved, the steps that find who is scattered where)."""
    step = lambda name: 0 if p.operands[name] is None else p.operands[name].strides[1]
    moved = dict(grouped(p, p.w.dims[0]), index=p.ptr("index"), index_step=step("index"), slot=p.ptr("slot"),
                 slot_step=step("slot"), top_k=min(p.op.top_k, MOST), rows_of=None, m=rows)
    if p.op.mode != "scatter":
        return moved, []
    moved["rows_of"] = p.scratch(4 * rows)
    return moved, [Memset(moved["rows_of"], 4 * rows), Launch("grouped_matmul_places", dict(moved))]


class _Grouped(Engine):
    """Spliced code loads both factors, through the nodes in front, and stores the result, through the nodes
    behind; sums in f32, f64 or i32. Offsets are read on the device."""
    knobs = (SMALL_KNOB,)
    keys: dict = {}                              # {operand: the coordinate of each of its dims, None: one}

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from wrong_sums(p)
        yield from too_large(p, *self.keys)
        yield from fusion.reasons(*self._fuse(p).values())

    def _site(self, name, dims, lead) -> Site:
        return Site(dims, lead, tuple([(key, (axis,)) for axis, key in enumerate(self.keys[name]) if key]))

    @fusion.attempt
    def _load(self, p, name):
        site = self._site(name, p.operands[name].dims, lead_input(p, name))
        return fusion.before(p, name, site, fusion.math_before(p, name, sum_type(p)))

    @fusion.attempt
    def _store(self, p):
        lead = p.lead()
        site = self._site(p.op.writes[0], lead.tensor.dims, lead.tensor)
        return fusion.behind(p, site, lead._replace(is_native=False), mark_type=sum_type(p))

    def _fuse(self, p) -> dict:
        one, two, made = self.keys
        return {f"load_{one}": self._load(p, one), f"load_{two}": self._load(p, two), "store": self._store(p)}

    def configs(self, p, dev):
        rows, columns, depth, times = self.sizes(p)
        best, *others = by_time(SMALL, rows, columns, depth, times, dev, sum_type(p))
        return first_then(best, others)

    def cost(self, p, dev, config):
        rows, columns, depth, times = self.sizes(p)
        busy = 2 * tile_us(config.tile, rows, columns, depth, times, dev, sum_type(p))
        return max(busy, moved_us(p.region.traffic_bytes, dev))

    def least_us(self, p, dev):
        return arithmetic_us(p, dev)

    @staticmethod
    def steps(p, name) -> tuple:
        """Strides of an operand as its loads count, 0 along dims of 1."""
        t = lead_input(p, name) or p.operands[name]
        return tuple([s if n > 1 else 0 for n, s in zip(p.operands[name].dims, t.strides)])


class GroupedMatmulAny(_Grouped):
    """A block makes a tile of rows, and multiplies those of each group by the matrix of its expert."""
    index = 500
    takes = core(GroupedMatmul, before=many(Pointwise, at="x w"), behind=many(Pointwise))
    keys = dict(x=(None, "row", "depth"), w=("batch", "depth", "col"), y=(None, "row", "col"))

    @staticmethod
    def sizes(p) -> tuple:
        """Rows, columns, depth of the product, and how often a tile of it is made: one more for each group
        that begins inside of one."""
        rows, experts = p.y.dims[1], p.w.dims[0]
        return rows + 32 * min(experts, rows), p.y.dims[2], p.x.dims[2], 1

    def plan(self, p, dev, config):
        lead = p.lead().tensor
        if not lead.count:
            return []
        (experts, k, n), m = p.w.dims, lead.dims[1]
        args, before = routed(p, m)
        (_, x_t, x_k), (w_e, w_k, w_n) = self.steps(p, "x"), self.steps(p, "w")
        flags = (x_k < x_t or x_t == 0) | 2 * (w_k < w_n or n == 1)
        flags |= 4 * (n == 1 or m > 1 and lead.strides[1] < lead.strides[2])
        args |= dict(experts=experts, tokens=p.x.dims[1], n=n, k=k, flags=flags, x_t=x_t, x_k=x_k, w_e=w_e,
                     w_k=w_k, w_n=w_n, y_m=lead.strides[1], y_n=lead.strides[2])
        return [*before, Launch(f"grouped_matmul_any_{sum_type(p)}_{config.tile}", args,
                                tiles_of(config.tile, m, n), self._fuse(p))]


class GroupedMatmulWgradAny(_Grouped):
    """A block makes a tile of one expert's matrix; its depth is the rows of the groups of that expert."""
    index = 501
    takes = core(GroupedMatmulWgrad, before=many(Pointwise, at="x dy"), behind=many(Pointwise))
    keys = dict(x=(None, "depth", "row"), dy=(None, "depth", "col"), dw=("batch", "row", "col"))

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if p.dw.dims[0] >= 65536:
            yield f"experts must be fewer than 65536; got {p.dw.dims[0]}"

    @staticmethod
    def sizes(p) -> tuple:
        experts, k, n = p.dw.dims
        return k, n, max(p.x.dims[1] // experts, 1), experts

    def plan(self, p, dev, config):
        lead = p.lead().tensor
        if not lead.count:
            return []
        experts, k, n = lead.dims
        (_, x_t, x_k), (_, dy_t, dy_n) = self.steps(p, "x"), self.steps(p, "dy")
        flags = (x_t < x_k or k == 1) | 2 * (dy_t < dy_n or n == 1)
        flags |= 4 * (n == 1 or k > 1 and lead.strides[1] < lead.strides[2])
        dw_e, dw_k, dw_n = lead.strides
        args = dict(grouped(p, experts), experts=experts, rows=p.x.dims[1], k=k, n=n, flags=flags,
                    x_t=x_t, x_k=x_k, dy_t=dy_t, dy_n=dy_n, dw_e=dw_e, dw_k=dw_k, dw_n=dw_n)
        return [Launch(f"grouped_matmul_wgrad_any_{sum_type(p)}_{config.tile}", args,
                       tiles_of(config.tile, k, n), self._fuse(p))]
