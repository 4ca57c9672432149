"""The gradients of attention of f16 and bf16 on Hopper's tensor cores: TMA and wgmma, each sum in a fixed
order."""
from __future__ import annotations

from math import ceil
from typing import ClassVar, NamedTuple

from ... import fusion
from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import SdpaBwd
from ...steps import Launch
from ..cast import number_as
from ..engine import Engine, moved_us, no_elements, no_variant, numbers, together, wrong_device
from ..tile.line import line_of
from .rounded import with_rounded_gradients
from .sdpa_bwd_any import of_sinks, sum_sinks
from .sdpa_fwd_any import seen
from .sdpa_fwd_wgmma import KEPT, LONGEST, STORED_ROWS, bounds, head_map, moves, unreadable


class Sizes(NamedTuple):
    """Kernels of heads of up to ``depth`` elements. A block of the one owns ``keys`` and takes ``met``
    queries in a step, of so many clocks; one of the other owns ``queries`` and takes ``seen`` keys. Fitted to
    an H200."""
    depth: int
    keys: int
    met: int
    key_clocks: int
    queries: int
    seen: int
    query_clocks: int


SIZES = (Sizes(64, 128, 96, 2550, 192, 64, 2100), Sizes(128, 128, 64, 3000, 128, 64, 2120),
         Sizes(256, 64, 48, 2660, 128, 48, 3190))
AROUND, SHORT = 6000, 32                         # clocks of a tile beside its steps; steps of a short one
ALL = 1 << 29                                    # keys on a side of the diagonal: more than there are
TYPED = "q k v o do dq dk dv".split()
READ = dict(q="q", k="k", v="v", o="do")         # parameters of the kernels


class OwnTiles(NamedTuple):
    """Tiles of a launch, and how many steps they take on average, of so many clocks."""
    tiles: int
    steps: float
    clocks: int

    def blocks(self, dev) -> int:
        """Short tiles follow each other in a block; long ones are given out as SMs are free."""
        return min(dev.sms, self.tiles) if self.steps < SHORT else self.tiles

    def us(self, dev) -> float:
        rounds = ceil(self.tiles / dev.sms)
        return rounds * (ceil(self.steps) * self.clocks + AROUND) / dev.clock_mhz


class SdpaBwdWgmma(Engine):
    """Scores are made twice, so that no sum leaves its block: a launch owns keys and makes dk and dv of all
    heads that share them, one owns queries and makes dq. Weights and gradients of scores stay in registers,
    rounded to 16 bits, and the workspace is two numbers a query."""
    index = 431
    takes = core(SdpaBwd)
    understands = numbers("f32")
    notes = ("deterministic", "tensor_core")
    source: ClassVar[str] = "attention/sdpa_bwd_wgmma_dkv.cu"
    sizes: ClassVar[tuple] = SIZES

    def refuse(self, p, dev):
        wrong = [*wrong_device(dev, 90), *no_variant(p, self.source, *TYPED), *self._wrong(p, dev),
                 *no_elements({name: p.operands[name] for name in TYPED})]
        yield from wrong or (*self._wrong_memory(p), *fusion.reasons(*of_sinks(p).values()))

    def _wrong(self, p, dev):
        if dev.kind == "cuda" and dev.sm > 90:
            yield f"needs sm_90 itself (wgmma); device is sm_{dev.sm}"
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.q.dtype} tensors; got {p.op.compute}"
        if p.op.score or p.op.score_bwd:
            n = len(p.op.score or p.op.score_bwd)
            yield f"score and score_bwd must be empty, as scores are scaled and no more; got {n} rows"
        if p.stats.dtype.name != "f32":
            yield f"stats must be f32; got {p.stats.dtype}"
        if p.k.dims[1] != p.v.dims[1]:
            yield f"k and v must have the same heads; got {p.k.dims[1]} and {p.v.dims[1]}"
        for name, size in (("s_q", p.q.dims[2]), ("s_kv", p.v.dims[2])):
            if size > LONGEST:
                yield f"{name} must be at most {LONGEST}; got {size}"
        for name, size in (("d_qk", p.q.dims[3]), ("d_v", p.v.dims[3])):
            if size > self.sizes[-1].depth:
                yield f"{name} must be at most {self.sizes[-1].depth}; got {size}"

    def _wrong_memory(self, p):
        yield from unreadable(p, self._rows(self._size(p)))
        chunk = line_of(p).chunk
        for name, size in (("d_qk", p.q.dims[3]), ("d_v", p.v.dims[3])):
            if size % chunk:
                yield f"{name} must be a multiple of {chunk} (16 bytes), as TMA stores; got {size}"

    @classmethod
    def _size(cls, p) -> Sizes:
        return next(s for s in cls.sizes if max(p.q.dims[3], p.v.dims[3]) <= s.depth)

    @staticmethod
    def _rows(size, owns="keys") -> dict:
        """Of the boxes of operands: who owns keys reads others than who owns queries."""
        found = dict(q=size.met, o=size.met, do=size.met, k=size.keys, v=size.keys)
        if owns == "queries":
            found = dict(q=size.queries, do=size.queries, k=size.seen, v=size.seen)
        return found | dict.fromkeys(("dq", "dk", "dv"), STORED_ROWS)

    # ---- Cost ----

    @staticmethod
    def _tiles(p, size) -> tuple[OwnTiles, OwnTiles]:
        """Of who owns keys, and of who owns queries."""
        (b, heads, s_q, _), kv_heads, s_kv = p.q.dims, p.k.dims[1], p.v.dims[2]
        edges, pairs = sum(bound >= 0 for bound in bounds(p)) / 2, seen(p) * s_q
        met = (pairs / s_kv + edges * size.keys) * (heads // kv_heads)
        found = pairs / s_q + edges * size.queries
        return (OwnTiles(b * kv_heads * ceil_div(s_kv, size.keys), met / size.met, size.key_clocks),
                OwnTiles(b * heads * ceil_div(s_q, size.queries), found / size.seen, size.query_clocks))

    def cost(self, p, dev, config):
        """Of the steps of the busiest SM in both launches, and the memory pass before them."""
        busy = sum(own.us(dev) for own in self._tiles(p, self._size(p)))
        moved = moved_us(p.region.traffic_bytes, dev) - dev.launch_us
        return 3 * dev.launch_us + together(2.5, busy, moved)

    # ---- How far its results may be off ----

    def magnitude(self, op, arrays, scalars, results):
        return with_rounded_gradients(op, arrays, scalars, results)

    def rounded_to(self, p):
        return p.q.dtype

    # ---- Its launches ----

    def plan(self, p, dev, config):
        size, (b, heads, s_q, _), steps = self._size(p), p.q.dims, []
        kv_heads, s_kv = p.k.dims[1:4:2]
        kind, (left, right) = p.q.dtype, (bound if bound >= 0 else ALL for bound in bounds(p))
        scale = number_as(p, "scale", "f32", steps)
        kept = dict(logs=p.scratch(4 * b * heads * s_q), dots=p.scratch(4 * b * heads * s_q))
        length = lambda d: d.strides[0] if d is not None else 0
        queries = dict(len_q=p.ptr("len_q"), len_q_step=length(p.len_q))
        common = dict(kept, **queries, len_kv=p.ptr("len_kv"), len_kv_step=length(p.len_kv), batches=b,
                      s_q=s_q, s_kv=s_kv, from_end=int(p.op.diagonal == "bottom_right"), scale=scale,
                      **{f"{param}_moves": moves(p, name) for param, name in READ.items()})
        row_bytes = (p.q.dims[3] + p.v.dims[3]) * line_of(p).bytes
        rows = dict(kept, **queries, o=p.ptr("o"), d_o=p.ptr("do"), stats=p.ptr("stats"), batches=b,
                    heads=heads, s_q=s_q, d_v=p.v.dims[3], o_steps=p.o.strides[:3],
                    do_steps=p.operands["do"].strides[:3], stats_steps=p.stats.strides[:3])
        of_keys = dict(common, heads=kv_heads, span=heads // kv_heads, left=right, right=left,
                       section=self._section(p, dev, s_q * row_bytes * heads // kv_heads),
                       **self._maps(p, self._rows(size), dk="dk", dv="dv"))
        of_queries = dict(common, heads=heads, per_kv=heads // kv_heads, left=left, right=right,
                          section=self._section(p, dev, s_kv * row_bytes * kv_heads // heads),
                          **self._maps(p, self._rows(size, "queries"), dq="dq"))
        name, pair = f"{kind}_{size.depth}", "_pair" if size.keys < 128 else ""
        blocks = [dict(blocks=own.blocks(dev)) for own in self._tiles(p, size)]
        return [*steps, Launch(f"sdpa_bwd_wgmma_rows_{kind}", rows, {}),
                Launch(f"sdpa_bwd_wgmma_dkv{pair}_{name}_{size.keys}x{size.met}", of_keys, blocks[0]),
                Launch(f"sdpa_bwd_wgmma_dq_{name}_{size.queries}x{size.seen}", of_queries, blocks[1]),
                *sum_sinks(p, kept["dots"])]

    @staticmethod
    def _maps(p, rows, **written) -> dict:
        return {param: head_map(p, name, rows[name]) for param, name in (READ | written).items()}

    @staticmethod
    def _section(p, dev, head_bytes) -> int:
        """Heads whose others the L2 cache has room for."""
        return min(max(int(dev.l2_bytes * KEPT / max(head_bytes, 1)), 1), p.q.dims[0] * p.q.dims[1])
