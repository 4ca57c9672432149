"""Products of groups of rows of f16 and bf16 on tensor cores with mma.sync."""
from __future__ import annotations

from typing import ClassVar

from ... import fusion
from ...fusion import Site
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import GroupedMatmul, Pointwise
from ...steps import Launch, Pointer
from ...tensor import TensorDesc
from ..engine import Config, Engine, Knob, moved_us, no_variant, wrong_device
from ..tile.line import LINES
from ..tile.matrices import Matrices
from ..tile.store import along_m, is_whole
from .any import routed, too_large

SHARE = {128: 0.5, 64: 0.16}                     # of the peak: estimates
STEP, START = 2350, 4000                         # clocks of a step and around a group's, where a tile waits


def wrong_rows(p, name):
    """Reasons of an operand that is read along its rows, 16 bytes at a time."""
    d, chunk = p.operands[name], LINES[p.x.dtype.name].chunk
    if d.strides[2] != 1 and d.dims[2] > 1 or d.strides[1] % chunk and d.dims[1] > 1:
        yield (f"{name} must have contiguous rows, multiples of {chunk} elements apart (16-byte loads); got "
               f"strides {d.strides}")
    if d.alignment < 16:
        yield f"{name} must be aligned to 16 bytes; got {d.alignment}"


class GroupedMatmulMma(Engine):
    """A block makes a tile of rows, and multiplies those of each group by the matrix of its expert: the
    others are 0 meanwhile."""
    index = 502
    takes = core(GroupedMatmul, behind=many(Pointwise))
    knobs = (Knob("tile", tuple(SHARE)),)
    source: ClassVar[str] = "grouped_matmul/grouped_matmul_mma.cu"
    notes = ("deterministic", "tensor_core")

    def refuse(self, p, dev):
        wrong = [*self.wrong(p, dev)]
        yield from wrong
        if wrong:
            return
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.x.dtype} tensors; got {p.op.compute}"
        yield from too_large(p, "x", "w", "y")
        chunk = LINES[p.x.dtype.name].chunk
        yield from wrong_rows(p, "x")
        if self._major(p) is None:
            yield (f"w must have one contiguous matrix dim and strides that are multiples of {chunk} "
                   f"(16-byte loads); got strides {p.w.strides}")
        if p.w.alignment < 16:
            yield f"w must be aligned to 16 bytes; got {p.w.alignment}"
        yield from fusion.reasons(self._tail(p))

    def wrong(self, p, dev):
        """Devices and types that it does not serve; with one of them nothing else is asked."""
        yield from wrong_device(dev, 80)
        yield from no_variant(p, self.source, "x", "w")

    @staticmethod
    def _major(p) -> tuple | None:
        """(form of w, step to its next line) by what is contiguous, None where neither dim is."""
        (experts, k, n), (w_e, w_k, w_n) = p.w.dims, p.w.strides
        chunk = LINES[p.x.dtype.name].chunk
        if w_e % chunk and experts > 1:
            return None
        if (w_k == 1 or k == 1) and (w_n % chunk == 0 or n == 1):
            return "bk", w_n
        if (w_n == 1 or n == 1) and (w_k % chunk == 0 or k == 1):
            return "bn", w_k
        return None

    @staticmethod
    @once_per_match
    def _matrices(p) -> tuple:
        """(lead, the product of all rows by one expert's matrix)."""
        lead, (_, k, n) = p.lead(p.x.dtype.name), p.w.dims
        of = lambda d, *dims: TensorDesc(d.dtype, (1, *dims), d.strides)
        return lead, Matrices.of(of(p.x, lead.tensor.dims[1], k), of(p.w, k, n), lead.tensor)

    @fusion.attempt
    def _tail(self, p):
        lead, g = self._matrices(p)
        many = 8 if is_whole(g, lead.tensor) else 1
        site = Site(lead.tensor.dims, lead.tensor, (("col", (2,)),), "col", many)
        return fusion.behind(p, site, lead, mark_type="f32")

    def configs(self, p, dev):
        ways = [Config(tile=tile) for tile in self.knobs[0].values]
        return iter(sorted(ways, key=lambda config: self.cost(p, dev, config)))

    def cost(self, p, dev, config):
        """A group that begins inside of a tile is made with a whole one."""
        (_, m, n), k, tile = p.y.dims, p.x.dims[2], config.tile
        line = LINES[p.x.dtype.name].elements
        rows = ceil_div(m, tile) + min(p.w.dims[0], m) // 2
        blocks, steps = rows * ceil_div(n, tile), ceil_div(max(k, 1), line)
        busy = ceil_div(blocks, dev.sms) * steps * line * tile * tile / (dev.mma_16 * SHARE[tile])
        waiting = ceil_div(blocks, 2 * dev.sms) * (steps * STEP + START)
        return max(max(busy, waiting) / dev.clock_mhz, moved_us(p.region.traffic_bytes, dev))

    def plan(self, p, dev, config):
        lead, g = self._matrices(p)
        t = lead.tensor
        if not t.count:
            return []
        experts, k, n = p.w.dims
        form, w_step = self._major(p)
        args, steps = routed(p, t.dims[1])
        args |= dict(experts=experts, tokens=p.x.dims[1], x=p.ptr("x"), w=p.ptr("w"),
                     y=Pointer(lead.uid) if lead.is_native else None, n=n, k=k,
                     vectors=int(is_whole(g, t)), along_m=along_m(g), x_step=p.x.strides[1],
                     w_e=p.w.strides[0], w_step=w_step, y_m=t.strides[1], y_n=t.strides[2])
        kernel = f"grouped_matmul_mma_{p.x.dtype}_{config.tile}_{form}"
        return [*steps, Launch(kernel, args, {}, fusion.at("epilogue", self._tail(p)))]
