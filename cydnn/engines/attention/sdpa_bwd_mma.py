"""The gradients of attention of f16 and bf16 on tensor cores from sm_80 on: dropout, scores that are changed,
batches that begin anywhere, each sum in a fixed order."""
from __future__ import annotations

from typing import ClassVar

from ... import fusion
from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import SdpaBwd
from ...steps import Launch
from ..cast import number_as
from ..engine import Engine, moved_us, no_elements, no_variant, numbers, wrong_device
from .dropped import drawn
from .rounded import with_rounded_gradients
from .sdpa_bwd_any import arguments, gradients, of_sinks, sum_biases, sum_sinks
from .sdpa_fwd_any import begins, seen, wrongly_ragged
from .sdpa_fwd_mma import CHUNK, LONGEST, MOST_BLOCKS, unaligned

OWN, DEPTHS = 64, (64, 128, 256)                 # rows of a block; of the kernels
TYPED = "q k v o do dq dk dv".split()
RAGGED = (*TYPED, "stats")
INNERMOST = dict.fromkeys(TYPED, 3) | dict(k=2, dk=2)               # the dim of a head's elements
RATE, DRAWN = 0.22, 0.2                          # of the tensor cores; clocks of a weight that is drawn


class SdpaBwdMma(Engine):
    """Scores are made anew by each launch: one owns queries and makes dq, and what the others need of each
    query; one owns keys and makes dk and dv, or two where other heads share them and where heads are long.
    Spliced code changes scores, weights and their gradients."""
    index = 432
    takes = core(SdpaBwd)
    understands = numbers("f32", "i64") | {"ragged", SdpaBwd.special["drop"], SdpaBwd.special["keep"]}
    notes = ("deterministic", "tensor_core")
    source: ClassVar[str] = "attention/sdpa_bwd_mma_dq.cu"

    def refuse(self, p, dev):
        wrong = [*wrong_device(dev, 80), *no_variant(p, self.source, *TYPED), *self._wrong(p),
                 *no_elements({name: p.operands[name] for name in TYPED})]
        yield from wrong or (*unaligned(p, INNERMOST), *wrongly_ragged(p, RAGGED),
                             *fusion.reasons(*self._fuse(p).values(), *of_sinks(p).values()))

    @staticmethod
    def _wrong(p):
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.q.dtype} tensors; got {p.op.compute}"
        if p.stats.dtype.name != "f32":
            yield f"stats must be f32; got {p.stats.dtype}"
        for name, size in (("d_qk", p.q.dims[3]), ("d_v", p.v.dims[3])):
            if size > DEPTHS[-1] or size % CHUNK:
                yield f"{name} must be a multiple of {CHUNK}, at most {DEPTHS[-1]}; got {size}"
        for name, size in (("s_q", p.q.dims[2]), ("s_kv", p.v.dims[2])):
            if size > LONGEST:
                yield f"{name} must be at most {LONGEST}; got {size}"
        blocks = ceil_div(max(p.q.dims[2], p.v.dims[2]), OWN) * p.q.dims[0] * p.q.dims[1]
        if blocks >= MOST_BLOCKS:
            yield f"needs fewer than 2^31 blocks; got {blocks}"

    # ---- What is spliced ----

    @staticmethod
    def _is_changed(p) -> bool:
        return bool(p.op.score or p.op.score_bwd or p.op.keep)

    def _fuse(self, p) -> dict:
        """{mark: what ``attempt`` found for it}; plain scores are scaled by the kernels."""
        if not self._is_changed(p):
            return {}
        found = gradients(p, "s")
        names = ("row", "score", "dscore", "weight")
        return dict(zip(names, found)) if isinstance(found, tuple) else {"row": found}

    # ---- Cost ----

    @staticmethod
    def _depth(p) -> int:
        return next(d for d in DEPTHS if max(p.q.dims[3], p.v.dims[3]) <= d)

    def _ways(self, p) -> list[tuple[int, int]]:
        """Which of dk and dv each launch makes."""
        is_apart = p.k.dims[1] != p.v.dims[1] or self._depth(p) == DEPTHS[-1]
        return [(1, 0), (0, 1)] if is_apart else [(1, 1)]

    def cost(self, p, dev, config):
        """Of products of 64 by 64, and of what is drawn; blocks share the SMs evenly."""
        (b, heads, s_q, _), edges = p.q.dims, OWN * (bool(p.op.left) + (p.op.right >= 0)) / 2
        ways, depth = self._ways(p), self._depth(p)
        pairs = b * heads * ceil_div(s_q, OWN) * OWN * (seen(p) + edges)
        products = 3 + sum(2 + with_k + with_v - (not with_k) for with_k, with_v in ways)
        clocks = pairs * products * depth / (dev.mma_16 * RATE)
        clocks += pairs * DRAWN * (1 + len(ways)) if p.op.drop else 0
        busy = clocks / dev.sms / dev.clock_mhz
        biases = pairs * depth * 4 / (dev.fma_f32 * 0.15 * dev.sms * dev.clock_mhz) if p.dbias else 0
        return (1 + len(ways)) * moved_us(p.region.traffic_bytes, dev) + busy + biases

    # ---- How far its results may be off ----

    def magnitude(self, op, arrays, scalars, results):
        return with_rounded_gradients(op, arrays, scalars, results)

    def rounded_to(self, p):
        return p.q.dtype

    # ---- Its launches ----

    def plan(self, p, dev, config):
        (b, heads, s_q, d_qk), s_kv, steps = p.q.dims, p.v.dims[2], []
        per_k, per_v = heads // p.k.dims[1], heads // p.v.dims[1]
        length = lambda d: d.strides[0] if d is not None else 0
        scale = 1.0 if self._is_changed(p) else number_as(p, "scale", "f32", steps)
        kept = dict(logs=p.scratch(4 * b * heads * s_q), dots=p.scratch(4 * b * heads * s_q))
        args = dict(kept, len_q=p.ptr("len_q"), len_kv=p.ptr("len_kv"), len_q_step=length(p.len_q),
                    len_kv_step=length(p.len_kv), scale=scale, batches=b, heads=heads, per_k=per_k,
                    per_v=per_v, s_q=s_q, s_kv=s_kv, d_qk=d_qk, d_v=p.v.dims[3],
                    left=min(p.op.left - 1, LONGEST), right=min(p.op.right, LONGEST),
                    from_end=int(p.op.diagonal == "bottom_right"), **drawn(p, steps))
        fuse = {mark: one for mark, one in self._fuse(p).items() if one is not None}
        own = dict(args, stats=p.ptr("stats"), stats_steps=p.stats.strides[:3],
                   **self._operands(p, "q k v o do dq", "stats"))
        steps.append(Launch(f"sdpa_bwd_mma_dq_{p.q.dtype}_{self._depth(p)}", own, {}, fuse))
        for with_k, with_v in self._ways(p):
            own = dict(args, span=per_k if with_k else per_v, **self._operands(p, "q k v do dk dv"))
            depth = self._depth(p) if with_k and with_v else max(self._depth(p), DEPTHS[1])
            steps.append(Launch(f"sdpa_bwd_mma_dkv_{p.q.dtype}_{depth}_{with_k}{with_v}", own, {}, fuse))
        if p.dbias is not None:
            steps += sum_biases(p, arguments(p, kept["dots"], steps))
        return [*steps, *sum_sinks(p, kept["dots"])]

    @staticmethod
    def _operands(p, names, *others) -> dict:
        """Addresses, steps of batches, heads and rows, and where batches begin."""
        names, found = names.split(), {}
        for name in names:
            batch, head, *rest = p.operands[name].strides
            found["d_o" if name == "do" else name] = p.ptr(name)
            found[f"{name}_steps"] = (batch, head, rest[name in ("k", "dk")])
        return found | begins(p, [*names, *others])
