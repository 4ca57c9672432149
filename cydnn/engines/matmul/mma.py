"""Matrix product of f16 and bf16 on tensor cores with mma.sync."""
from __future__ import annotations

from ... import fusion
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import Matmul, Pointwise
from ..cast import common_type, in_lines, no_common_type, read_as
from ..engine import Knob, moved_us, together, wrong_device
from ..tile.matrices import Matrices, size_refusals
from ..tile.split_k import SplitMatmul
from ..tile.store import along_m, is_whole
from .view import launches, tail

DEPTH = 64                                       # k of a step
SHARE = {128: 0.63, 64: 0.163}                   # tile: share of the tensor peak in a full machine; estimates
MEMORY, NEAR = 0.522, 18.7                       # of the bandwidth; how two times that are near add up
STEP, START = 2120, 1570                         # clocks of a step and around them, where a tile waits


def line(rows: int, row_step: int, depth: int, depth_step: int) -> tuple[str, int] | None:
    """("k" or "rows", step of the other index) of what is contiguous, or None.
    One row (or one depth) may lie anywhere."""
    if (depth_step == 1 or depth == 1) and (row_step % 8 == 0 or rows == 1):
        return "k", row_step
    if (row_step == 1 or rows == 1) and (depth_step % 8 == 0 or depth == 1):
        return "rows", depth_step
    return None


class MatmulMma(SplitMatmul):
    """cp.async pipeline, ldmatrix, mma.m16n8k16 with f32 sums.
    Either index of each operand may be contiguous; deep products are split."""
    index = 190
    takes = core(Matmul, behind=many(Pointwise))
    knobs = (Knob("tile", tuple(SHARE)), Knob("splits", lo=1, hi=2 ** 20))
    unit = DEPTH
    notes = ("deterministic", "tensor_core")

    def refuse(self, p, dev):
        yield from wrong_device(dev, 80)
        if common_type(p) is None:
            yield from no_common_type(p)
            return
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.a.dtype} tensors; got {p.op.compute}"
        g = self.matrices(p)[1]
        yield from size_refusals(g)
        for name, found, batch in (("a", self._line_a(g), g.a_batch), ("b", self._line_b(g), g.b_batch)):
            tensor = p.operands[name]
            if found is None or any(s % 8 for s in batch):
                yield (f"{name} must have one contiguous matrix dim and strides that are multiples of 8 "
                       f"(16-byte loads); got strides {tensor.strides}")
            if tensor.alignment < 16 and self._input(p, name) is tensor:
                yield f"{name} must be aligned to 16 bytes; got {tensor.alignment}"
        yield from fusion.reasons(self._tail(p))

    @staticmethod
    def _input(p, name):
        """An operand as the kernel reads it: where it lies,
        or a copy of the common type in rows of whole 16 bytes."""
        tensor, kind = p.operands[name], common_type(p)
        if tensor.dtype.name == kind:
            return tensor
        return in_lines(kind, tensor.dims, reversed(range(tensor.rank)))

    def matrices(self, p):
        def make():
            lead = p.lead(common_type(p))
            return lead, Matrices.of(self._input(p, "a"), self._input(p, "b"), lead.tensor)
        return p.once("mma matrices", make)

    def _tail(self, p):
        lead, g = self.matrices(p)
        return tail(p, lead, 8 if is_whole(g, lead.tensor) else 1, key="mma")

    @staticmethod
    def _line_a(g):
        return line(g.m, g.a[0], g.k, g.a[1])

    @staticmethod
    def _line_b(g):
        return line(g.n, g.b[1], g.k, g.b[0])

    @staticmethod
    def ways(p, g, dev, tile):
        blocks = ceil_div(g.m, tile) * ceil_div(g.n, tile) * g.count
        moved = 2 * g.count * (g.m * g.k + g.k * g.n + g.m * g.n) / (MEMORY * dev.bandwidth_gbs) * 1e-3

        def estimate(splits, depth):
            steps = ceil_div(max(depth, 1), DEPTH)
            rate = dev.mma_16 * SHARE[tile]
            busy = ceil_div(blocks * splits, dev.sms) * steps * DEPTH * tile * tile / rate
            waiting = ceil_div(blocks * splits, 2 * dev.sms) * (steps * STEP + START + tile * tile // 10)
            return together(NEAR, max(busy, waiting) / dev.clock_mhz, moved)
        return blocks, 4, estimate

    def cost(self, p, dev, config):
        casts = [t for n in ("a", "b") for t in [p.operands[n]] if self._input(p, n) is not t]
        return sum(moved_us(4 * t.count, dev, 0.4) for t in casts) + super().cost(p, dev, config)

    def plan(self, p, dev, config):
        lead, g = self.matrices(p)
        if lead.tensor.count == 0:
            return []
        chosen, kind, steps = self.cut(p, dev, config), common_type(p), []
        (a_line, a_step), (b_line, b_step) = self._line_a(g), self._line_b(g)
        inputs = {name: read_as(p, name, self._input(p, name), steps) for name in ("a", "b")}
        args = dict(inputs, a_step=a_step, b_step=b_step, c_vectors=int(is_whole(g, lead.tensor)),
                    c_along_m=along_m(g))
        forms = f"{'ak' if a_line == 'k' else 'am'}_{'bk' if b_line == 'k' else 'bn'}"
        return [*steps, *launches(p, g, lead, f"matmul_mma_{kind}_{chosen.tile}_{forms}",
                                  f"matmul_sum_{kind}", "f32", chosen, args, {},
                                  fusion.at("epilogue", self._tail(p)))]
