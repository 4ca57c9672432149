"""Matrix product of f16 and bf16 on Hopper's tensor cores: TMA and wgmma."""
from __future__ import annotations

from math import prod
from typing import NamedTuple

from ... import fusion, kernels
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import Matmul, Pointwise
from ...steps import Launch, TensorMap
from ..engine import Config, Knob, first_then, no_variant, powers, wrong_device
from .mma import line
from .view import (Matrices, SplitMatmul, along_m, is_whole, product_args, size_refusals, tail, with_sum)

SOURCE = "matmul/matmul_wgmma.cu"
DEPTH, LINE = 64, 64                             # elements of a step; of a row of 128 bytes
BATCH_DIMS, BYTES = 3, 2                         # of a tensor map, beside the matrix; of an element
POWER = 0.76                                     # share of the clock under full load
INTAKE = 42                                      # bytes that an SM gets from the L2 cache in a clock
ELEMENTS, ROWS, BOXES = range(3)                 # c_form


class Tile(NamedTuple):
    """A shape of kernels_src/tile/wgmma.cuh. ``share`` of the math rate that it reaches with operands at
    hand, ``band`` of rows that go together; estimates until measured."""
    m: int
    n: int
    share: float
    band: int


TILES = {"128x256": Tile(128, 256, 0.96, 8), "128x128": Tile(128, 128, 0.94, 16),
         "64x256": Tile(64, 256, 0.92, 16), "64x128": Tile(64, 128, 0.85, 16)}


class MatmulWgmma(SplitMatmul):
    """TMA brings tiles, wgmma multiplies them with f32 sums; blocks stay and take tile after tile.
    Either index of each operand may be contiguous; deep products are split and added in order."""
    index = 189
    takes = core(Matmul, behind=many(Pointwise))
    knobs = (Knob("tile", tuple(TILES)), Knob("splits", lo=1, hi=2 ** 20), Knob("out", ("boxes", "rows")))
    unit = DEPTH
    notes = ("deterministic", "tensor_core")

    def refuse(self, p, dev):
        yield from wrong_device(dev, 90)
        if dev.kind == "cuda" and dev.sm > 90:
            yield f"needs sm_90 itself (wgmma); device is sm_{dev.sm}"
        types = list(no_variant(p, SOURCE, "a", "b"))
        yield from types
        if types:
            return
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.a.dtype} tensors; got {p.op.compute}"
        g = self.matrices(p)[1]
        yield from size_refusals(g)
        if g.k < 1:
            yield f"k must be at least 1; got {g.k}"
        if prod(g.batch[BATCH_DIMS:]) > 1:
            yield f"batch dims must be at most {BATCH_DIMS} after merging; got {g.batch}"
        elif g.k and g.m and g.n and g.count:
            yield from self._wrong_operands(p, g)
        yield from fusion.reasons(self._tail(p))

    def _wrong_operands(self, p, g):
        for name in ("a", "b"):
            tensor = p.operands[name]
            found = self._line(g, name)
            if found is None or found[1] == 0 and min(self._matrix(g, name)[::2]) > 1:
                yield (f"{name} must have one contiguous matrix dim, and another stride that is a multiple "
                       f"of 8 (16 bytes) and not 0; got strides {tensor.strides}")
                continue
            if tensor.alignment < 16:
                yield f"{name} must be aligned to 16 bytes; got {tensor.alignment}"
            yield from (f"{name}: {reason}" for reason in
                        kernels.map_reasons(self._operand(p, g, name, TILES["128x256"])))

    @staticmethod
    def matrices(p):
        def make():
            lead = p.lead(p.a.dtype.name)
            return lead, Matrices.of(p.a, p.b, lead.tensor)
        return p.once("wgmma matrices", make)

    def _tail(self, p):
        lead, g = self.matrices(p)
        return tail(p, lead, 8 if is_whole(g, lead.tensor) else 1, key="wgmma")

    # ---- Tensor maps ----

    @staticmethod
    def _matrix(g, name) -> tuple:
        """(rows, their step, depth, its step) of an operand; rows of b are its columns."""
        return (g.m, g.a[0], g.k, g.a[1]) if name == "a" else (g.n, g.b[1], g.k, g.b[0])

    def _line(self, g, name):
        return line(*self._matrix(g, name))

    def _operand(self, p, g, name, tile) -> TensorMap:
        """The map of an operand: boxes of 64 of the depth, or of 64 rows."""
        (rows, _, depth, _), (along, step) = self._matrix(g, name), self._line(g, name)
        dims, side = ((depth, rows), getattr(tile, "m" if name == "a" else "n")) if along == "k" else (
            (rows, depth), DEPTH)
        return _map(p, name, p.operands[name], dims, step, g, getattr(g, f"{name}_batch"), side)

    def _boxes(self, p) -> TensorMap | None:
        """The map of c, where TMA can store it."""
        lead, g = self.matrices(p)
        if not lead.is_native or self._tail(p) is not None or not is_whole(g, lead.tensor):
            return None
        found = _map(p, "c", lead.tensor, (g.n, g.m), g.c[0], g, g.c_batch, 64)
        return None if any(kernels.map_reasons(found)) else found

    # ---- Choice ----

    @staticmethod
    def ways(p, g, dev, tile):
        t = TILES[tile]
        blocks = ceil_div(g.m, t.m) * ceil_div(g.n, t.n) * g.count
        moved = BYTES * g.count * (g.m * g.k + g.k * g.n + g.m * g.n) / (0.87 * dev.bandwidth_gbs) * 1e-3

        def estimate(splits, depth):
            steps = ceil_div(max(depth, 1), DEPTH)
            math = t.m * t.n * DEPTH / (2048 * t.share * POWER)
            step = max(math, (t.m + t.n) * 2 * LINE / INTAKE)
            waves = ceil_div(blocks * splits, dev.sms)
            tail = 1500 + t.m * t.n / 16                     # the first stage on its way; the last way out
            busy = (waves * (steps * step + t.m * t.n / 64) + tail) / dev.clock_mhz
            return (busy ** 4 + moved ** 4) ** 0.25          # the longer one, more where they are near
        return blocks, 4, estimate

    def configs(self, p, dev):
        outs = ("rows",) if self._boxes(p) is None else ("boxes", "rows")
        best, *others = super().configs(p, dev)
        with_out = lambda config, out: Config(tile=config.tile, splits=config.splits, out=out)
        every = (with_out(config, out) for out in outs for config in (best, *others))
        return first_then(with_out(best, outs[0]), every)

    # ---- Launches ----

    def plan(self, p, dev, config):
        lead, g = self.matrices(p)
        if lead.tensor.count == 0:
            return []
        chosen, tile, kind = self.cut(p, dev, config), TILES[config.tile], p.a.dtype
        maps = {name: self._operand(p, g, name, tile) for name in ("a", "b")}
        boxes = self._boxes(p) if config.get("out", "boxes") == "boxes" else None
        form = BOXES if boxes else ROWS if is_whole(g, lead.tensor) else ELEMENTS
        moves = {f"{name}_moves": tuple(int(s != 0) for s in getattr(g, f"{name}_batch")[:BATCH_DIMS])
                 for name in ("a", "b")}
        args = dict(product_args(p, g, lead, "f32", chosen), **maps, **moves, boxes=boxes or maps["a"],
                    splits=chosen.splits, band=tile.band, c_form=form, c_along_m=along_m(g))
        forms = "_".join(letter + ("k" if self._line(g, letter)[0] == "k" else other)
                         for letter, other in (("a", "m"), ("b", "n")))
        tiles = ceil_div(g.m, tile.m) * ceil_div(g.n, tile.n) * g.count * chosen.splits
        product = Launch(f"matmul_wgmma_{kind}_{config.tile}_{forms}", args,
                         dict(blocks=min(tiles, dev.sms)))
        return with_sum(g, product, f"matmul_sum_{kind}", chosen.splits,
                        fusion.at("epilogue", self._tail(p)))


def _map(p, name, tensor, dims, step, g, batch_steps, side) -> TensorMap:
    """The map of the matrices of an operand: two dims, three of the batch; those that do not move are 1."""
    every = (*dims, *(d if s else 1 for d, s in zip(g.batch[:BATCH_DIMS], batch_steps)))
    steps = (step, *batch_steps[:BATCH_DIMS])
    strides = tuple(16 if d == 1 else BYTES * s for d, s in zip(every[1:], steps))
    return TensorMap(p.ptr(name), tensor.dtype.name, every, strides, (LINE, side, 1, 1, 1), swizzle=128)
