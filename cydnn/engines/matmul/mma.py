"""Matrix product of f16 and bf16 on tensor cores with mma.sync."""
from __future__ import annotations

from ... import fusion
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import Matmul, Pointwise
from ..cast import common_type, in_lines, no_common_type, read_as
from ..engine import Knob, moved_us, together, wrong_device
from ..tile.line import LINES, Line
from ..tile.matrices import Matrices, size_refusals
from ..tile.split_k import SplitMatmul
from ..tile.store import along_m, is_whole
from .view import behind_product, launches

SHARE = {128: 0.661, 64: 0.163}                  # tile: share of the tensor peak in a full machine; estimates
MEMORY, NEAR = 1.0, 50.0                         # of the bandwidth; how two times that are near add up
STEP, START = 2350, 948                          # clocks of a step and around them, where a tile waits
OUT, SUM_US = 0.442, 4.42                        # clocks of a sum on its way out; of parts of a depth, in all


def contiguous(rows: int, row_step: int, depth: int, depth_step: int, chunk: int) -> tuple[str, int] | None:
    """("k" or "rows", step of the other index, a multiple of ``chunk``) of what is contiguous, or None.
    One row (or one depth) may lie anywhere."""
    if (depth_step == 1 or depth == 1) and (row_step % chunk == 0 or rows == 1):
        return "k", row_step
    if (row_step == 1 or rows == 1) and (depth_step % chunk == 0 or depth == 1):
        return "rows", depth_step
    return None


class MatmulMma(SplitMatmul):
    """cp.async pipeline, ldmatrix, mma.m16n8k16 with f32 sums.
    Either index of each operand may be contiguous; deep products are split."""
    index = 190
    takes = core(Matmul, behind=many(Pointwise))
    knobs = (Knob("tile", tuple(SHARE)), Knob("splits", lo=1, hi=2 ** 20))
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
        chunk = self._line(p).chunk
        for name, found, batch in zip("ab", self._majors(p, g), (g.a_batch, g.b_batch)):
            tensor = p.operands[name]
            if found is None or any(s % chunk for s in batch):
                yield (f"{name} must have one contiguous matrix dim and strides that are multiples of "
                       f"{chunk} (16-byte loads); got strides {tensor.strides}")
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

    @once_per_match
    def matrices(self, p):
        lead = p.lead(common_type(p))
        return lead, Matrices.of(self._input(p, "a"), self._input(p, "b"), lead.tensor)

    def _tail(self, p):
        lead, g = self.matrices(p)
        return behind_product(p, common_type(p), 8 if is_whole(g, lead.tensor) else 1)

    @staticmethod
    def _line(p) -> Line:
        return LINES[common_type(p)]

    def step(self, p):
        return self._line(p).elements

    def _majors(self, p, g) -> tuple:
        """What is contiguous of a and of b."""
        chunk = self._line(p).chunk
        return contiguous(g.m, g.a[0], g.k, g.a[1], chunk), contiguous(g.n, g.b[1], g.k, g.b[0], chunk)

    def ways(self, p, g, dev, tile):
        line = self._line(p)
        blocks = ceil_div(g.m, tile) * ceil_div(g.n, tile) * g.count
        moved_bytes = line.bytes * g.count * (g.m * g.k + g.k * g.n + g.m * g.n)
        moved = moved_bytes / (MEMORY * dev.bandwidth_gbs) * 1e-3

        def estimate(splits, depth):
            steps = ceil_div(max(depth, 1), line.elements)
            rate = dev.mma_16 * SHARE[tile]
            busy = ceil_div(blocks * splits, dev.sms) * steps * line.elements * tile * tile / rate
            waiting = ceil_div(blocks * splits, 2 * dev.sms) * (steps * STEP + START + OUT * tile * tile)
            return together(NEAR, max(busy, waiting) / dev.clock_mhz, moved) + (SUM_US if splits > 1 else 0.0)
        return blocks, line.sum_bytes, estimate

    def cost(self, p, dev, config):
        casts = [t for n in ("a", "b") for t in [p.operands[n]] if self._input(p, n) is not t]
        return sum(moved_us(4 * t.count, dev, 0.4) for t in casts) + super().cost(p, dev, config)

    def plan(self, p, dev, config):
        lead, g = self.matrices(p)
        if lead.tensor.count == 0:
            return []
        chosen, kind, steps = self.cut(p, dev, config), common_type(p), []
        (a_major, a_step), (b_major, b_step) = self._majors(p, g)
        inputs = {name: read_as(p, name, self._input(p, name), steps) for name in ("a", "b")}
        args = dict(inputs, a_step=a_step, b_step=b_step, c_vectors=int(is_whole(g, lead.tensor)),
                    c_along_m=along_m(g))
        forms = f"{'ak' if a_major == 'k' else 'am'}_{'bk' if b_major == 'k' else 'bn'}"
        return [*steps, *launches(p, g, lead, f"matmul_mma_{kind}_{chosen.tile}_{forms}",
                                  f"matmul_sum_{kind}", self._line(p).sums, chosen, args, {},
                                  fusion.at("epilogue", self._tail(p)))]
