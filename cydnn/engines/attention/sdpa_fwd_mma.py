"""Attention of f16 and bf16 on tensor cores from sm_80 on: few queries of many keys; keys in pages, batches
that begin anywhere, scores that are changed."""
from __future__ import annotations

from math import nan
from typing import ClassVar, NamedTuple

from ... import fusion
from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import Sdpa
from ...steps import Launch
from ..cast import number_as
from ..engine import (Config, Engine, Knob, moved_us, no_elements, no_variant, numbers, powers, wrong_device)
from ..tile.line import CHUNK_BYTES
from .dropped import drawn
from .rounded import with_rounded_weights
from .sdpa_fwd_any import RAGGED, begins, changes, keys, rows, seen, sharing, wrongly_ragged

LONGEST, MOST_SPLITS, MOST_BLOCKS = 1 << 28, 256, 1 << 31
CHUNK = CHUNK_BYTES // 2                         # elements
INNERMOST = dict(q=3, k=2, v=3, o=3)             # the dim of a head's elements
AROUND, WAVE, JOIN_US = 3.0, 1.0, 3.0            # microseconds: of a launch, of blocks at once, of adding up
RATE, AGAIN = 0.92, 0.25                         # of the bandwidth; what another tile of the same keys adds
DRAWN = 0.2                                      # clocks of a weight that is drawn
LEAST = 2.0 ** -39                               # weights of f16: the kernel's largest are 2^15


class MmaSize(NamedTuple):
    """A kernel of heads of up to ``depth`` elements. A block takes ``rows`` queries of heads that share keys,
    and ``keys`` in a step, of so many ``clocks``; ``resident``: blocks of an SM. Fitted to an H200."""
    depth: int
    rows: int
    keys: int
    clocks: int
    resident: int


SIZES = (MmaSize(64, 16, 64, 1500, 2), MmaSize(64, 64, 64, 4400, 3), MmaSize(128, 16, 64, 2000, 2),
         MmaSize(128, 64, 64, 4600, 2), MmaSize(256, 16, 32, 3100, 3), MmaSize(256, 64, 32, 5400, 2))


def unaligned(p, axes):
    """Why lines of 16 bytes cannot be read or written where operands lie. ``axes``: of a head's elements."""
    for name, axis in axes.items():
        tensor = p.operands[name]
        first = int(tensor.ragged is not None)                   # its batches begin anywhere
        others = [s for a, (s, n) in enumerate(zip(tensor.strides, tensor.dims))
                  if a >= first and a != axis and n > 1]
        if tensor.strides[axis] != 1 and tensor.dims[axis] > 1:
            yield f"{name} must be contiguous along a head's elements; got strides {tensor.strides}"
        elif tensor.alignment < CHUNK_BYTES:
            yield f"{name} must be aligned to {CHUNK_BYTES} bytes; got {tensor.alignment}"
        elif any(s % CHUNK for s in others):
            yield f"{name}: strides must be multiples of {CHUNK_BYTES} bytes; got {tensor.strides}"


class SdpaFwdMma(Engine):
    """Queries of the heads that share keys are the rows of a tile. Blocks take parts of the keys that a tile
    sees; a second launch adds their sums up in order. Lengths and pages are read by the device."""
    index = 422
    takes = core(Sdpa)
    understands = numbers("f32", "i64") | {"ragged", *(Sdpa.special[n] for n in ("table_k", "sink", "drop"))}
    notes = ("deterministic", "tensor_core")
    knobs = (Knob("tile", (16, 64)), Knob("splits", lo=1, hi=MOST_SPLITS))
    source: ClassVar[str] = "attention/sdpa_fwd_mma.cu"

    def refuse(self, p, dev):
        wrong = [*wrong_device(dev, 80), *no_variant(p, self.source, "q", "k", "v", "o"), *self._wrong(p),
                 *no_elements({name: p.operands[name] for name in "qkvo"})]
        yield from wrong or (*unaligned(p, INNERMOST), *self._wrong_options(p))

    def _wrong(self, p):
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.q.dtype} tensors; got {p.op.compute}"
        for name in ("stats", "sink"):
            if p.operands[name] is not None and p.operands[name].dtype.name != "f32":
                yield f"{name} must be f32; got {p.operands[name].dtype}"
        most = SIZES[-1].depth
        for name, size in (("d_qk", p.q.dims[3]), ("d_v", p.v.dims[3])):
            if size > most or size % CHUNK:
                yield f"{name} must be a multiple of {CHUNK}, at most {most}; got {size}"
        for name, size in (("queries of heads that share keys", rows(p)), ("s_kv", keys(p))):
            if size > LONGEST:
                yield f"{name} must be at most {LONGEST}; got {size}"
        blocks = ceil_div(rows(p), SIZES[0].rows) * self._units(p) * MOST_SPLITS
        if blocks >= MOST_BLOCKS:
            yield f"needs fewer than 2^31 blocks; got {blocks}"

    @staticmethod
    def _wrong_options(p):
        yield from wrongly_ragged(p, RAGGED)
        for name in "kv" if p.table_k is not None else ():
            if p.operands[name].ragged is not None:
                yield f"{name} must not be ragged where keys lie in pages; got offsets of {name}"
        yield from fusion.reasons(changes(p)) if p.op.score else ()

    # ---- What it is divided into ----

    @staticmethod
    def _units(p) -> int:
        """Groups of heads that share keys, of all batches."""
        return p.q.dims[0] * p.q.dims[1] // sharing(p)

    @staticmethod
    def _size(p, tile) -> MmaSize:
        return next(s for s in SIZES if max(p.q.dims[3], p.v.dims[3]) <= s.depth and s.rows == tile)

    @staticmethod
    def _bounds(p) -> tuple[int, int]:
        """Keys that a query sees on either side of its diagonal, more than there are where it sees all."""
        all_ = 2 * LONGEST
        return min(p.op.left or all_, all_ + 1) - 1, min(p.op.right, all_) if p.op.right >= 0 else all_

    def configs(self, p, dev):
        count, found = rows(p), []
        for tile in (16,) if count <= 16 else (16, 64) if count <= 64 else (64,):
            steps = ceil_div(keys(p), self._size(p, tile).keys)
            whole = self._size(p, tile).resident * dev.sms // (ceil_div(count, tile) * self._units(p))
            counts = {*powers(min(steps, MOST_SPLITS)), min(max(whole, 1), steps, MOST_SPLITS)}
            found += [Config(tile=tile, splits=n) for n in sorted(counts)]
        yield from sorted(found, key=lambda config: self.cost(p, dev, config))

    def cost(self, p, dev, config):
        """Blocks come in waves: each takes its steps, or shares what comes from memory. Where lengths are
        the device's, some blocks may end late."""
        size, n = self._size(p, config.tile), config.splits
        tiles, slots = ceil_div(rows(p), size.rows), size.resident * dev.sms
        blocks = tiles * self._units(p) * n
        each = (seen(p) / size.keys / n + 1) * size.clocks / dev.clock_mhz
        traffic = p.region.traffic_bytes * (1 + AGAIN * (tiles - 1))
        moved = (moved_us(traffic, dev, RATE) - dev.launch_us) / blocks
        waves, rest = divmod(blocks, slots)
        busy = waves * max(each, slots * moved) + (max(each, rest * moved) if rest else 0)
        late = each / 2 if p.len_kv is not None else 0
        late += rows(p) * self._units(p) * seen(p) * DRAWN / dev.sms / dev.clock_mhz if p.op.drop else 0
        parts = 2 * self._part_bytes(p, n) / dev.bandwidth_gbs * 1e-3
        return dev.launch_us + AROUND + WAVE * (waves + 1) + busy + late + (JOIN_US + parts if n > 1 else 0)

    def magnitude(self, op, arrays, scalars, results):
        return with_rounded_weights(op, arrays, scalars, results, LEAST)

    def rounded_to(self, p):
        return p.v.dtype

    # ---- Its launches ----

    @staticmethod
    def _part_bytes(p, splits) -> int:
        """Sums of parts of the keys, in f32."""
        b, heads, s_q, _ = p.q.dims
        return splits * b * heads * s_q * p.v.dims[3] * 4 if splits > 1 else 0

    def plan(self, p, dev, config):
        size, splits, (b, heads, s_q, d_qk) = self._size(p, config.tile), config.splits, p.q.dims
        length = lambda d: d.strides[0] if d is not None else 0
        steps, (left, right), begun = [], self._bounds(p), begins(p, RAGGED)
        batch, head, _, key = p.k.strides
        part = p.scratch(self._part_bytes(p, splits)) if splits > 1 else None
        part_stats = p.scratch(splits * b * heads * s_q * 4) if splits > 1 else None
        out = dict(o=p.ptr("o"), stats=p.ptr("stats") if p.uids.get("stats") in p.region.outputs else None,
                   part=part, part_stats=part_stats, heads=heads, group=sharing(p), s_q=s_q,
                   d_v=p.v.dims[3], splits=splits, empty=0.0 if p.op.empty == "zero" else nan,
                   o_steps=p.o.strides[:3],
                   stats_steps=p.stats.strides[:3] if p.stats is not None else (0, 0, 0),
                   **{name: value for name, value in begun.items() if name in ("o_at", "stats_at", "wide")})
        args = dict(out, q=p.ptr("q"), k=p.ptr("k"), v=p.ptr("v"), len_q=p.ptr("len_q"),
                    len_kv=p.ptr("len_kv"), scale=1.0 if p.op.score else number_as(p, "scale", "f32", steps),
                    len_q_step=length(p.len_q), len_kv_step=length(p.len_kv), batches=b,
                    per_k=heads // p.k.dims[1], per_v=heads // p.v.dims[1], s_kv=keys(p), d_qk=d_qk,
                    left=left, right=right, from_end=int(p.op.diagonal == "bottom_right"),
                    q_steps=p.q.strides[:3], k_steps=(batch, head, key), v_steps=p.v.strides[:3],
                    sink=p.ptr("sink"), sink_step=p.sink.strides[1] if p.sink is not None else 0,
                    **drawn(p, steps), **self._pages(p), **begun)
        fuse = dict(zip(("row", "score"), changes(p))) if p.op.score else {}
        fuse = {mark: fused for mark, fused in fuse.items() if fused is not None}
        name = f"{p.q.dtype}_{size.depth}_{size.rows}"
        join = Launch(f"sdpa_fwd_join_{p.q.dtype}", out, dict(batches=b))
        return [*steps, Launch(f"sdpa_fwd_mma_{name}", args, {}, fuse), *([join] if splits > 1 else [])]

    @staticmethod
    def _pages(p) -> dict:
        """The tables, and how large and how many their pages are."""
        found = dict(pages=(p.k.dims[0], p.v.dims[0]))
        for name, keys in (("k", p.k.dims[3]), ("v", p.v.dims[2])):
            table = p.operands[f"table_{name}"]
            found[f"{name}_table"], found[f"{name}_block"] = p.ptr(f"table_{name}"), max(keys, 1)
            found[f"{name}_table_steps"] = (0, 0) if table is None else (table.strides[0], table.strides[2])
        return found
