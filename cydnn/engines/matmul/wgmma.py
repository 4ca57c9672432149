"""Matrix product of f16 and bf16 on Hopper's tensor cores: TMA and wgmma."""
from __future__ import annotations

from math import prod
from typing import ClassVar

from ... import fusion, kernels
from ...graph import core, many, once_per_match
from ...ops import Matmul, Pointwise
from ...steps import TensorMap
from ..engine import Knob
from ..tile import sums
from ..tile.cost import TILES, astray
from ..tile.line import line_of
from ..tile.maps import BATCH_DIMS, matrix_map
from ..tile.matrices import Matrices, size_refusals
from ..tile.program import CAST, CAST_TILE, KNOBS, TileProgram, brought
from ..tile.store import along_m, is_whole
from .mma import contiguous
from .view import behind_product, c_args


class MatmulWgmma(TileProgram):
    """TMA brings tiles, wgmma multiplies them with f32 sums; blocks stay and take tile after tile.
    Either index of each operand may be contiguous; deep products are split and added in order."""
    index = 189
    knobs = (*KNOBS, Knob("multicast", (CAST,)))
    takes = core(Matmul, behind=many(Pointwise), last=sums.LAST)
    source: ClassVar[str] = "matmul/matmul_wgmma.cu"

    def refuse(self, p, dev):
        wrong = list(self.wrong(p, dev, self.source))
        yield from wrong
        if wrong:
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
            yield from self.wrong_operands(p, g)
        if p.last:
            yield from sums.reasons(p, g, p.c.rank - 1, dev)
            if g.count > 1:
                yield f"a product whose columns are added up must be of one matrix; got {g.count}"
        yield from fusion.reasons(self.tail(p))

    def wrong_operands(self, p, g):
        for name in ("a", "b"):
            yield from self.wrong_operand(p, g, name)

    def wrong_operand(self, p, g, name):
        """Why TMA cannot read an operand where it lies."""
        tensor, found, line = p.operands[name], self._major(p, g, name), line_of(p)
        if found is None or found[1] == 0 and min(self._matrix(g, name)[::2]) > 1:
            yield (f"{name} must have one contiguous matrix dim, and another stride that is a multiple "
                   f"of {line.chunk} (16 bytes) and not 0; got strides {tensor.strides}")
            return
        if tensor.alignment < 16:
            yield f"{name} must be aligned to 16 bytes; got {tensor.alignment}"
        found = self._operand(p, p.ptr(name), tensor, g, name, TILES["128x256"])
        yield from (f"{name}: {reason}" for reason in kernels.map_reasons(found))

    @staticmethod
    @once_per_match
    def matrices(p):
        lead = p.lead(p.a.dtype.name)
        found = Matrices.of(p.a, p.b, lead.tensor)
        return lead, sums.joined(found) if p.last else found

    def tail(self, p):
        lead, g = self.matrices(p)
        return behind_product(p, p.a.dtype.name, 8 if is_whole(g, lead.tensor) else 1)

    # ---- Tensor maps ----

    @staticmethod
    def _matrix(g, name) -> tuple:
        """(rows, their step, depth, its step) of an operand; rows of b are its columns."""
        return (g.m, g.a[0], g.k, g.a[1]) if name == "a" else (g.n, g.b[1], g.k, g.b[0])

    def _major(self, p, g, name):
        return contiguous(*self._matrix(g, name), line_of(p).chunk)

    def _operand(self, p, pointer, tensor, g, name, tile) -> TensorMap:
        """The map of an operand that lies there: boxes of a step of the depth, or of a line of rows."""
        (rows, _, depth, _), (along, step) = self._matrix(g, name), self._major(p, g, name)
        dims, side = ((depth, rows), getattr(tile, "m" if name == "a" else "n")) if along == "k" else (
            (rows, depth), self.step(p))
        return matrix_map(pointer, tensor, dims, step, g, getattr(g, f"{name}_batch"), side)

    def casts(self, p, g, dev):
        """Lines of b that begin within one of memory take two of them."""
        return not p.last and dev.sms >= CAST and g.m > TILES[CAST_TILE].m and astray(g.b, line_of(p)) > 0

    def majors(self, p) -> str:
        """What is contiguous, as the kernels are called by it."""
        g = self.matrices(p)[1]
        found = [(self._major(p, g, letter) or "?")[0] for letter in "ab"]       # none where c is empty
        return "_".join(letter + ("k" if along == "k" else other)
                        for letter, other, along in zip("ab", "mn", found))

    def kernel(self, p, tile):
        return f"matmul_wgmma_{p.a.dtype}_{tile}_{self.majors(p)}"

    def moved_bytes(self, p, g):
        return line_of(p).bytes * g.count * (g.m * g.k + g.k * g.n + g.m * g.n)

    # ---- Launches ----

    def inputs(self, p, steps) -> dict:
        """name -> (pointer, tensor) of the operands as the kernel reads them."""
        return {name: (p.ptr(name), p.operands[name]) for name in ("a", "b")}

    def plan(self, p, dev, config):
        lead, g = self.matrices(p)
        if lead.tensor.count == 0:
            return []
        tile, steps = brought(config), []
        maps = {name: self._operand(p, *lies, g, name, tile) for name, lies in self.inputs(p, steps).items()}
        boxes, form = self.out(p, config, maps["a"])
        moves = {f"{name}_moves": tuple(int(s != 0) for s in getattr(g, f"{name}_batch")[:BATCH_DIMS])
                 for name in ("a", "b")}
        args = dict(c_args(p, g, lead), **maps, **moves, cast=config.get("multicast", 1), boxes=boxes,
                    c_form=form, c_along_m=along_m(g))
        return steps + self.launch(p, dev, config, args, "c")
