"""Attention of f16 and bf16 on Hopper's tensor cores: TMA and wgmma."""
from __future__ import annotations

from math import ceil, nan
from typing import ClassVar, NamedTuple

from ... import kernels
from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import Sdpa
from ...steps import Launch, Memset, TensorMap
from ..cast import number_as
from ..engine import (Config, Engine, Knob, moved_us, no_elements, no_variant, numbers, together,
                      wrong_device)
from ..tile.line import CHUNK_BYTES, line_of
from ..tile.maps import tiled_map
from .rounded import with_rounded_weights
from .sdpa_fwd_any import seen

LONGEST, STORED_ROWS = 1 << 28, 16               # of queries or keys; of a box of o: each warp has its own
AROUND = 5000                                    # clocks of a launch, before and behind its tiles
KEPT = 1.3                                       # of the L2 cache: keys and values that blocks go through


class Size(NamedTuple):
    """A kernel of heads of up to ``qk`` elements of queries and keys, and ``v`` of values. A block takes
    ``rows`` queries at a time, and ``keys`` in a step, of so many ``clocks``; ``seam``: those of a tile that
    are not its steps'. Fitted to an H200."""
    qk: int
    v: int
    rows: int
    keys: int
    clocks: int
    seam: int

    @property
    def tile(self) -> str:
        return f"{self.rows}x{self.keys}"


SIZES = (Size(64, 64, 128, 128, 2305, 2600), Size(64, 64, 192, 96, 2266, 4150),
         Size(128, 128, 128, 128, 3120, 4900), Size(192, 128, 128, 128, 3320, 8000),
         Size(256, 256, 128, 80, 3420, 11300))
# Of a map, innermost first.
AXES = dict.fromkeys("q v o do dq dv".split(), (3, 2, 1, 0)) | dict.fromkeys(("k", "dk"), (2, 3, 1, 0))


# ---- What a head is in memory, of queries and keys and their gradients ----

def moves(p, name) -> tuple:
    """1 where heads and batches have a place of their own."""
    tensor = p.operands[name]
    return tuple([int(tensor.strides[axis] != 0 and tensor.dims[axis] > 1) for axis in (1, 0)])


def head_map(p, name, rows) -> TensorMap:
    """A tensor in boxes of ``rows`` queries or keys."""
    tensor, axes = p.operands[name], AXES[name]
    dims = tuple([tensor.dims[axis] if move else 1 for axis, move in zip(axes, (1, 1, *moves(p, name)))])
    strides = [tensor.strides[axis] for axis in axes[1:]]
    return tiled_map(p.ptr(name), tensor, (*dims, 1), (*strides, 0), rows, 1, 1, 1)


def unreadable(p, rows):
    """Why TMA cannot read or write an operand where it lies. ``rows``: of a box of each."""
    for name, side in rows.items():
        tensor, axis = p.operands[name], AXES[name][0]
        if tensor.strides[axis] != 1 and tensor.dims[axis] > 1:
            yield f"{name} must be contiguous along a head's elements; got strides {tensor.strides}"
        elif tensor.alignment < CHUNK_BYTES:
            yield f"{name} must be aligned to {CHUNK_BYTES} bytes; got {tensor.alignment}"
        else:
            yield from (f"{name}: {reason}" for reason in kernels.map_reasons(head_map(p, name, side)))


def bounds(p) -> tuple[int, int]:
    """Keys that a query sees on either side of its diagonal; -1: all there are."""
    most, left, right = max(p.q.dims[2], p.v.dims[2]), p.op.left - 1, p.op.right
    return left if left < most else -1, right if right < most else -1


class SdpaFwdWgmma(Engine):
    """A block takes 64 queries for each of the warpgroups that multiply, and goes through the keys that they
    see. Weights stay in registers, and may exceed 1: o is finite where values are below 2^80."""
    index = 421
    takes = core(Sdpa)
    understands = numbers("f32") | {Sdpa.special["sink"]}
    notes = ("deterministic", "tensor_core")
    knobs = (Knob("tile", tuple(dict.fromkeys(size.tile for size in SIZES))),)
    source: ClassVar[str] = "attention/sdpa_fwd_wgmma.cu"

    def refuse(self, p, dev):
        wrong = [*wrong_device(dev, 90), *no_variant(p, self.source, "q", "k", "v", "o"),
                 *self._wrong(p, dev), *no_elements({name: p.operands[name] for name in "qkvo"})]
        yield from wrong or self._wrong_memory(p)

    def _wrong(self, p, dev):
        if dev.kind == "cuda" and dev.sm > 90:
            yield f"needs sm_90 itself (wgmma); device is sm_{dev.sm}"
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.q.dtype} tensors; got {p.op.compute}"
        if p.op.score:
            yield f"score must be empty, as scores are scaled and no more; got {len(p.op.score)} rows"
        for name in ("stats", "sink"):
            if p.operands[name] is not None and p.operands[name].dtype.name != "f32":
                yield f"{name} must be f32; got {p.operands[name].dtype}"
        for name, size in (("s_q", p.q.dims[2]), ("s_kv", p.v.dims[2])):
            if size > LONGEST:
                yield f"{name} must be at most {LONGEST}; got {size}"
        if not self._sizes(p):
            yield f"d_qk and d_v must be at most {SIZES[-1].qk}; got {p.q.dims[3]} and {p.v.dims[3]}"

    def _wrong_memory(self, p):
        rows = self._rows(self._sizes(p)[0])
        yield from unreadable(p, {name: rows.get(name, STORED_ROWS) for name in "qkvo"})
        if p.v.dims[3] % line_of(p).chunk:
            yield f"d_v must be a multiple of {line_of(p).chunk} (16 bytes), as TMA stores; got {p.v.dims[3]}"

    @staticmethod
    def _rows(size) -> dict:
        return dict(q=size.rows, k=size.keys, v=size.keys, o=STORED_ROWS)

    @staticmethod
    def _sizes(p) -> list[Size]:
        """Those of the least head that has room."""
        found = [s for s in SIZES if p.q.dims[3] <= s.qk and p.v.dims[3] <= s.v]
        return [s for s in found if (s.qk, s.v) == (found[0].qk, found[0].v)]

    @staticmethod
    def _size(p, config) -> Size:
        return next(s for s in SdpaFwdWgmma._sizes(p) if s.tile == config.tile)

    def configs(self, p, dev):
        found = [Config(tile=size.tile) for size in self._sizes(p)]
        yield from sorted(found, key=lambda config: self.cost(p, dev, config))

    # ---- Cost ----

    def _is_uneven(self, p) -> bool:
        """Not all queries see as many keys: blocks take tiles as they come."""
        return bounds(p) != (-1, -1) or p.len_q is not None or p.len_kv is not None

    @staticmethod
    def _tiles(p, size) -> int:
        return p.q.dims[0] * p.q.dims[1] * ceil_div(p.q.dims[2], size.rows)

    def cost(self, p, dev, config):
        """Of the steps of the busiest SM, beside what comes from memory."""
        size = self._size(p, config)
        rounds, edges = self._tiles(p, size) / dev.sms, sum(bound >= 0 for bound in bounds(p))
        rounds = max(rounds, 1) if self._is_uneven(p) else ceil(rounds)
        steps = ceil((seen(p) + edges * size.rows / 2) / size.keys)
        busy = (rounds * (steps * size.clocks + size.seam) + AROUND) / dev.clock_mhz
        return dev.launch_us + together(2.5, busy, moved_us(p.region.traffic_bytes, dev) - dev.launch_us)

    # ---- How far its results may be off ----

    def magnitude(self, op, arrays, scalars, results):
        return with_rounded_weights(op, arrays, scalars, results)

    def rounded_to(self, p):
        return p.v.dtype

    # ---- Its launch ----

    def _section(self, p, dev) -> int:
        """Heads whose keys and values the L2 cache has room for."""
        heads, sizes = p.q.dims[1], p.k.dims[2] + p.v.dims[3]
        kept = p.v.dims[2] * sizes * line_of(p).bytes * max(p.k.dims[1], p.v.dims[1]) / heads
        return min(max(int(dev.l2_bytes * KEPT / kept), 1), p.q.dims[0] * heads)

    def plan(self, p, dev, config):
        size, (b, heads, s_q, _), steps = self._size(p, config), p.q.dims, []
        length = lambda d: d.strides[0] if d is not None else 0
        left, right = bounds(p)
        tiles = self._tiles(p, size)
        blocks = min(dev.sms, tiles)
        taken = p.scratch(4) if self._is_uneven(p) and blocks < tiles else None
        maps = {name: head_map(p, name, rows) for name, rows in self._rows(size).items()}
        args = dict(maps, next_tile=taken,
                    stats=p.ptr("stats") if p.uids.get("stats") in p.region.outputs else None,
                    len_q=p.ptr("len_q"), len_kv=p.ptr("len_kv"), scale=number_as(p, "scale", "f32", steps),
                    len_q_step=length(p.len_q), len_kv_step=length(p.len_kv), batches=b, heads=heads,
                    per_k=heads // p.k.dims[1], per_v=heads // p.v.dims[1], s_q=s_q, s_kv=p.v.dims[2],
                    left=left, right=right, from_end=int(p.op.diagonal == "bottom_right"),
                    section=self._section(p, dev), empty=0.0 if p.op.empty == "zero" else nan,
                    sink=p.ptr("sink"), sink_step=p.sink.strides[1] if p.sink is not None else 0,
                    **{f"{name}_moves": moves(p, name) for name in "qkv"},
                    stats_steps=p.stats.strides[:3] if p.stats is not None else (0, 0, 0))
        launch = Launch(f"sdpa_fwd_wgmma_{p.q.dtype}_{size.qk}_{size.v}_{size.tile}", args,
                        dict(blocks=blocks))
        return [*steps, *([Memset(taken, 4)] if taken else []), launch]
