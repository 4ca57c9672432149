"""Matrix product of f16 and bf16 on tensor cores with mma.sync."""
from __future__ import annotations

from ...ops import Matmul
from ..engine import Engine, wrong_device
from .view import Matrices, cuts, launches, size_refusals, split_configs
from .tiles import type_refusals
from ...steps import Launch

DEPTH = 64                                       # k of a step
SHARE = {128: 0.60, 64: 0.38}                    # tile -> share of the tensor peak in a full machine; estimates until measured


def line(desc, rows: int, row_step: int, depth: int, depth_step: int) -> tuple[str, int] | None:
    """("k" or "rows", step of the other index) of what is contiguous, or None. One row (or one depth) may lie anywhere."""
    if (depth_step == 1 or depth == 1) and (row_step % 8 == 0 or rows == 1):
        return "k", row_step
    if (row_step == 1 or rows == 1) and (depth_step % 8 == 0 or depth == 1):
        return "rows", depth_step
    return None


class MatmulMma(Engine):
    """cp.async pipeline, ldmatrix, mma.m16n8k16 with f32 sums. Either index of each operand may be contiguous; deep products are split."""
    index = 190
    op = Matmul
    fuses_epilogue = True
    notes = ("deterministic", "tensor_core")

    def refuse(self, p, dev):
        yield from wrong_device(dev, 80)
        yield from type_refusals(p, "f16", "bf16")
        yield from size_refusals(p)
        g = Matrices.of(p.a, p.b, p.out)
        for name, found, batch in (("a", self._line_a(p, g), g.a_batch), ("b", self._line_b(p, g), g.b_batch)):
            desc = p.operands[name]
            if found is None or any(s % 8 for s in batch):
                yield f"{name} must have one contiguous matrix dim and strides that are multiples of 8 (16-byte loads); got strides {desc.strides}"
            if desc.alignment < 16:
                yield f"{name} must be aligned to 16 bytes; got {desc.alignment}"

    @staticmethod
    def _line_a(p, g):
        return line(p.a, g.m, g.a[0], g.k, g.a[1])

    @staticmethod
    def _line_b(p, g):
        return line(p.b, g.n, g.b[1], g.k, g.b[0])

    def cost(self, p, dev):
        return 2.0 + self._cut(Matrices.of(p.a, p.b, p.out), p.a.dtype, dev).us

    @staticmethod
    def _cut(g, dtype, dev, tile=None, splits=None):
        clocks = {75: 512, 80: 1024, 86: 512, 89: 512, 120: 512}.get(dev.sm, 1300)      # multiply-adds of an SM in a clock, by mma.sync

        def every(tile):
            blocks = -(-g.m // tile) * -(-g.n // tile) * g.count

            def estimate(blocks, depth):
                steps = -(-max(depth, 1) // DEPTH)
                busy = -(-blocks // dev.sms) * steps * DEPTH * tile * tile / (clocks * SHARE[tile])
                waiting = -(-blocks // (2 * dev.sms)) * (steps * 400 + 3000 + tile * tile // 10)
                return max(busy, waiting) / (dev.clock_mhz or 1500)
            return cuts(g, tile, blocks, DEPTH, dtype, dev, estimate, splits)
        return min((cut for tile in ([tile] if tile else SHARE) for cut in every(tile)), key=lambda cut: cut.us)

    def configs(self, p, dev):
        return split_configs(SHARE, p, DEPTH)

    def plan(self, p, dev, tile=None, splits=None) -> list[Launch]:
        if p.out.count == 0:
            return []
        g = Matrices.of(p.a, p.b, p.out)
        cut = self._cut(g, p.a.dtype, dev, tile, splits)
        (a_line, a_step), (b_line, b_step) = self._line_a(p, g), self._line_b(p, g)
        whole = g.n % 8 == 0 and (g.c[1] == 1 or g.n == 1) and not any(s % 8 for s in (g.c[0], *g.c_batch)) and p.out.alignment >= 16
        args = dict(a_step=a_step, b_step=b_step, c_vectors=int(whole), c_along_m=int(g.n == 1 or g.m > 1 and g.c[0] < g.c[1]))
        kernel = f"matmul_mma_{p.a.dtype}_{cut.tile}_{'ak' if a_line == 'k' else 'am'}_{'bk' if b_line == 'k' else 'bn'}"
        return launches(p, g, kernel, cut, args, {})
