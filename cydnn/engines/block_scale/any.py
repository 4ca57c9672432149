"""Scales of blocks of any types and strides, with pointwise operations in front of them and behind them."""
from __future__ import annotations

from ... import fusion
from ...fusion import Builder, Site
from ...graph import core, many
from ...ops import BlockScaleDequantize, BlockScaleQuantize, Pointwise
from ...ops.block_scale import MOST
from ...steps import Launch
from ..engine import Config, Engine, Knob, first_then, moved_us, wrong_device
from ..sums import lead_input

RANK, LANES = 8, 32                              # of any tensor; of a warp
GRIDS = {                                        # type of scales: bits, least normal, step below, least, most
    "f8_e8m0": (0, 2.0 ** -126, 2.0 ** -127, 2.0 ** -127, 2.0 ** 127),
    "f8_e4m3": (3, 2.0 ** -6, 2.0 ** -9, 0.0, 448.0), "f32": (23, 0.0, 1.0, 0.0, 2.0 ** 128 - 2.0 ** 104)}


def of_digits(values, fill=1) -> tuple:
    """A number for each of eight digits, that of the last dim first."""
    return (*reversed(tuple(values)), *(fill,) * (RANK - len(values)))


def grid_of(op) -> dict:
    """Parameters of the scales that an operation makes, and the largest value of what they scale."""
    mantissa, normal, step, least, highest = GRIDS[op.scales]
    return dict(most=MOST[op.to], mantissa=mantissa, normal=normal, step=step, least=least, highest=highest)


def _whole(dims, lead=None) -> Site:
    """A mark that knows the index of an element."""
    return Site(dims, lead, (("row", tuple(range(len(dims)))),))


def turns_of(dims) -> tuple:
    """How far neighbours along each dim are apart in the index of an element."""
    turns = [1] * len(dims)
    for i in reversed(range(len(dims) - 1)):
        turns[i] = turns[i + 1] * dims[i + 1]
    return of_digits(turns, 0)


class _Scaled(Engine):
    """What both directions share."""

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        count = max(p.x.count, p.y.count)
        if max(count, p.scale.count) >= 2 ** 31:
            yield f"x and scale must have fewer than 2^31 elements; got {count}, {p.scale.count}"
        yield from fusion.reasons(*self._fuse(p).values())

    @staticmethod
    def _math(p) -> str:
        return p.op.math

    @fusion.attempt
    def _load(self, p):
        site = _whole(p.x.dims, None)
        return fusion.before(p, "x", site, fusion.math_before(p, "x", self._math(p)))

    @staticmethod
    def steps(p, axis: int) -> tuple:
        """(strides of the scales by digits, number of the digit of their row in tiles or -1, columns)."""
        if not p.op.is_tiled:
            return of_digits(p.scale.strides, 0), -1, 4
        rank = p.scale.rank
        rows = 2 * rank - 3 - axis
        kept = [s if i not in (rows, axis) else 0 for i, s in enumerate(p.scale.strides)]
        return of_digits(kept, 0), rank - 1 - rows, p.scale.dims[axis]


class BlockScaleDequantizeAny(_Scaled):
    """A thread for each element."""
    index = 510
    takes = core(BlockScaleDequantize, before=many(Pointwise, at="x"), behind=many(Pointwise))

    def _fuse(self, p) -> dict:
        return dict(load_x=self._load(p), load_scale=self._load_scale(p), store=self._store(p))

    @fusion.attempt
    def _load_scale(self, p):
        builder = Builder(self._math(p), Site(p.scale.dims, p.scale, ()), p.graph)
        return builder.finish(builder.read(p.uids["scale"]))

    @fusion.attempt
    def _store(self, p):
        lead = p.lead()
        return fusion.behind(p, _whole(lead.tensor.dims), lead._replace(is_native=False),
                             mark_type=self._math(p))

    def cost(self, p, dev, config):
        return moved_us(p.region.traffic_bytes, dev, 0.3)

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        rank, axis = p.x.rank, p.op.columns(p.x.rank)
        steps, row, columns = self.steps(p, axis)
        args = dict(items=p.y.count, digits=of_digits(p.y.dims), blocks=of_digits(p.op.blocks(rank)),
                    steps=steps, row=row, col=rank - 1 - axis if row >= 0 else -1, columns=columns,
                    pairs=rank - 1 - p.op.pairs if p.op.has_pairs else -1, turns=turns_of(p.x.dims))
        return [Launch(f"block_scale_dequantize_any_{self._math(p)}", args, {}, self._fuse(p))]


class BlockScaleQuantizeAny(_Scaled):
    """A warp for each block, or a thread; each reads it twice."""
    index = 511
    takes = core(BlockScaleQuantize, before=many(Pointwise, at="x"))
    knobs = (Knob("threads_per_row", (LANES, 1)),)

    def _fuse(self, p) -> dict:
        return dict(load=self._load(p), store_y=self._stored(p, "y", _whole(p.y.dims)),
                    store_scale=self._stored(p, "scale", Site(p.scale.dims, p.scale, ())))

    @fusion.attempt
    def _stored(self, p, name, site):
        builder = Builder(self._math(p), site, p.graph)
        builder.values[p.uids[name]] = "v"
        builder.store(p.uids[name])
        return builder.finish("")

    def configs(self, p, dev):
        t = lead_input(p, "x") or p.x
        is_along = t.strides[p.op.columns(p.x.rank)] == min(t.strides)
        best, other = (LANES, 1) if is_along and p.op.block >= 16 else (1, LANES)
        return first_then(Config(threads_per_row=best), [Config(threads_per_row=other)])

    def cost(self, p, dev, config):
        return moved_us(2 * p.region.traffic_bytes, dev, 0.5 if config.threads_per_row > 1 else 0.25)

    def plan(self, p, dev, config):
        if not p.scale.count:
            return []
        rank, axis = p.x.rank, p.op.columns(p.x.rank)
        steps, row, columns = self.steps(p, axis)
        args = dict(grid_of(p.op), scales=p.scale.count, digits=of_digits(p.scale.dims),
                    dims=of_digits(p.x.dims), turns=turns_of(p.x.dims), steps=steps, axis=rank - 1 - axis,
                    row=row, columns=columns, block=min(p.op.block, max(p.x.dims[axis], 2)),
                    pairs=int(p.op.has_pairs), y_turns=turns_of(p.y.dims))
        kernel = f"block_scale_quantize_any_{self._math(p)}_{config.threads_per_row}"
        return [Launch(kernel, args, {}, self._fuse(p))]
