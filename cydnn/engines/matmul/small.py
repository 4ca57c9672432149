"""Many products of small f16 and bf16 matrices: a warp for each, on tensor cores (mma.sync)."""
from __future__ import annotations

from ... import fusion
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import Matmul, Pointwise
from ...steps import Launch
from ..engine import Engine, moved_us, no_variant, wrong_device
from ..tile.matrices import Matrices, size_refusals
from ..tile.store import along_m, is_whole
from .view import behind_product, c_args

SIDE, SOURCE = 32, "matmul/matmul_small.cu"      # most rows and columns
RESIDENT, STEP_CLOCKS, CLOCKS = 32, 900, 5500    # warps of an SM; of 16 of the depth, of what is around it
EACH, TILE, DEEP = 400, 130, 170                 # clocks of a warp's scheduler; for 16 x 16 sums; for 16 deep
BANDWIDTH = 0.6                                  # share that they reach


class MatmulSmall(Engine):
    """A warp takes one product whole: its operands come to registers, in the order in which four neighbours
    of the depth are read at once. Any strides and batch."""
    index = 188
    takes = core(Matmul, behind=many(Pointwise))
    notes = ("deterministic", "tensor_core")

    def refuse(self, p, dev):
        wrong = [*wrong_device(dev, 80), *no_variant(p, SOURCE, "a", "b")]
        yield from wrong
        if wrong:
            return
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.a.dtype} tensors; got {p.op.compute}"
        g = self._matrices(p)[1]
        for name, size in (("m", g.m), ("n", g.n)):
            if size > SIDE:
                yield f"{name} must be at most {SIDE}; got {size}"
        yield from size_refusals(g)
        yield from fusion.reasons(self._tail(p))

    @staticmethod
    @once_per_match
    def _matrices(p):
        """(lead of c, the matrices)."""
        lead = p.lead(p.a.dtype.name)
        return lead, Matrices.of(p.a.desc, p.b.desc, lead.tensor)

    def _tail(self, p):
        lead, g = self._matrices(p)
        return behind_product(p, p.a.dtype.name, 8 if is_whole(g, lead.tensor) else 1)

    def cost(self, p, dev, config):
        g = self._matrices(p)[1]
        tiles, steps = _size(g) ** 2 / 256, ceil_div(g.k, 16)
        waves = ceil_div(g.count, RESIDENT * dev.sms)
        waiting = waves * (CLOCKS + steps * STEP_CLOCKS)
        busy = ceil_div(g.count, 4 * dev.sms) * (EACH + tiles * (TILE + DEEP * steps))
        moved = 2 * g.count * (g.m * g.k + g.k * g.n + g.m * g.n)
        return max(dev.launch_us + max(waiting, busy) / dev.clock_mhz, moved_us(moved, dev, BANDWIDTH))

    def plan(self, p, dev, config):
        lead, g = self._matrices(p)
        if lead.tensor.count == 0:
            return []
        vectors = is_whole(g, lead.tensor)
        columns = g.n // 8 if vectors else g.m if along_m(g) else g.n
        args = dict(c_args(p, g, lead), batches=g.count, a=p.ptr("a"), b=p.ptr("b"),
                    a_m=g.a[0], a_k=g.a[1], b_k=g.b[0], b_n=g.b[1],
                    a_fours=_fours(p.a, g.k, g.a[1], g.a[0], g.a_batch),
                    b_fours=_fours(p.b, g.k, g.b[0], g.b[1], g.b_batch), c_columns=columns,
                    c_vectors=int(vectors), c_along_m=along_m(g), a_batch=g.a_batch, b_batch=g.b_batch)
        return [Launch(f"matmul_small_{p.a.dtype}_{_size(g)}", args, {},
                       fusion.at("epilogue", self._tail(p)))]


def _size(g) -> int:
    return 16 if max(g.m, g.n) <= 16 else SIDE


def _fours(tensor, depth: int, step: int, *others) -> int:
    """Whether four of the depth lie in 8 aligned bytes."""
    steps = (depth, *(s for other in others for s in (other if isinstance(other, tuple) else (other,))))
    return int(step == 1 and tensor.alignment >= 8 and not any(s % 4 for s in steps))
