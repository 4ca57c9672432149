"""Attention of 8 bits on Hopper's tensor cores, with the scales around it: TMA and wgmma."""
from __future__ import annotations

from math import ceil, nan
from typing import ClassVar, NamedTuple

from ... import fusion, kernels
from ...dtypes import ALL, f8_e4m3
from ...fusion import CannotPlace
from ...graph import core, many, source_of
from ...kernels.expressions import ceil_div
from ...ops import Pointwise, Reduction, Sdpa
from ...steps import Launch, Memset, Pointer, TensorMap
from ..cast import number_as
from ..engine import Config, Engine, Knob, moved_us, no_elements, no_variant, numbers, together, wrong_device
from ..tile.line import CHUNK_BYTES, LINE_BYTES
from .rounded import with_rounded_weights
from .sdpa_fwd_any import seen
from .sdpa_fwd_wgmma import AROUND, AXES, KEPT, LONGEST, bounds, moves

DEPTH, KEYS = 128, 128                           # of a head at most; of a step
# Numbers of the kernel: of scores; of o, in front of its largest element and behind it
OF_SCORES, BEFORE, AFTER = ("of_q", "of_k"), ("of_v", "of_weights", "of_sums"), ("of_o",)
SUMS = ("stats", "score_max", "score_sum_exp")
STRIDES = dict(stats="stats_steps", score_max="max_steps", score_sum_exp="sum_steps")
WORD = 4                                         # elements of o that a thread stores at once
LEAST = 2.0 ** -18                               # weights that are lost: half of e4m3's least, less 2^8
PRECISION = 2.0 ** -10                           # of sums of 8-bit products on tensor cores


class Size8(NamedTuple):
    """A kernel whose blocks take ``rows`` queries at a time, of so many ``clocks`` a step; ``seam``: those of
    a tile that are not its steps'. Fitted to an H200."""
    rows: int
    clocks: int
    seam: int

    @property
    def tile(self) -> str:
        return f"{self.rows}x{KEYS}"


SIZES = (Size8(128, 2580, 6300), Size8(192, 3650, 15000))


class Around(NamedTuple):
    """What stands around the attention: uids of the factors of scores, and of those of o in front of the
    largest |o| and behind it; the tensor that is stored."""
    scores: tuple
    before: tuple
    after: tuple
    stored: int


def is_number(p, uid) -> bool:
    """One of f32, in memory or given at execute."""
    tensor = p.graph.tensors[uid]
    return tensor.count == 1 and tensor.dtype.name == "f32" and not tensor.is_virtual


def factors_of_scores(p) -> tuple:
    """Rows that are products with a number each."""
    numbers = {f"e{i}": uid for i, uid in enumerate(p.uids.get("extras", ()))}
    last, found = "s", []
    for i, (op, reads) in enumerate(p.op.score):
        own = [numbers[name] for name in reads if name in numbers and is_number(p, numbers[name])]
        if op.mode != "mul" or op.math != "f32" or last not in reads or len(own) != 1:
            row = f"{op.mode}({','.join(map(str, reads))})"
            raise CannotPlace(f"score must be products with one f32 number each; got {row}")
        found, last = [*found, own[0]], f"n{i}"
    if len(found) > len(OF_SCORES):
        raise CannotPlace(f"score must have at most {len(OF_SCORES)} rows; got {len(found)}")
    return tuple(found)


def factors_of_o(p) -> tuple:
    """(a uid for each node behind, in their order; the tensors that they make of o, o the first)"""
    found, made = [], [p.uids["o"]]
    for node in p.behind:
        others = [uid for uid in node.reads if uid != made[-1]]
        is_product = node.op.mode == "mul" and node.op.math == "f32" and not node.scalars
        if not is_product or len(others) != 1 or not is_number(p, others[0]):
            raise CannotPlace(f"{node.name}: must be o times one f32 number; got {node.op.mode} of "
                              f"{len(node.reads)} tensors")
        found, made = [*found, others[0]], [*made, node.operands["y"]]
    read = {*made[:-1], *([p.last.operands["x"]] if p.last else [])}
    for tensor in [p.graph.tensors[uid] for uid in made if uid in read]:
        if tensor.dtype.name != "f32":
            raise CannotPlace(f"{tensor.label} must be f32, as it is read on; got {tensor.dtype}")
    if (kept := [uid for uid in made if uid in p.region.outputs]) != made[-1:]:
        labels = " ".join(p.graph.tensors[uid].label for uid in kept)
        raise CannotPlace(f"of o and its products the last alone must be stored; got {labels or 'none'}")
    return found, made


@fusion.attempt
def around(p) -> Around:
    scores, (found, made) = factors_of_scores(p), factors_of_o(p)
    at = min(len(found), len(BEFORE))
    if p.last:
        at, y = made.index(p.last.operands["x"]), p.graph.tensors[p.last.operands["y"]]
        is_plain = p.last.op.math == "f32" and not p.last.scalars
        if p.last.op.mode != "amax" or not is_plain or y.count != 1 or y.dtype.name != "f32":
            raise CannotPlace(f"{p.last.name}: must be the largest |o|, one number of f32; got "
                              f"{p.last.op.mode} of dims {y.dims}, {y.dtype}")
    if at > len(BEFORE) or len(found) - at > len(AFTER):
        raise CannotPlace(f"o must have at most {len(BEFORE)} factors in front of its largest element, and "
                          f"{len(AFTER)} behind; got {at} and {len(found) - at}")
    return Around(scores, tuple(found[:at]), tuple(found[at:]), made[-1])


class SdpaFwdFp8Wgmma(Engine):
    """Two warpgroups take 64 queries each and go through the keys that they see: while one makes weights of
    its scores, the tensor cores are the other's. Two warps transpose the values, as products of 8 bits read
    them along the keys. Weights are rounded to e4m3, 2^8 times their share of the row's largest so far; the
    sums of each step are added to o in f32. Factors of scores and of o, and the largest |o|, are the
    kernel's."""
    index = 423
    takes = core(Sdpa, behind=many(Pointwise), last=(Reduction,))
    understands = numbers("f32") | {Sdpa.special["score_max"]}
    notes = ("deterministic", "tensor_core")
    knobs = (Knob("tile", tuple([size.tile for size in SIZES])),)
    source: ClassVar[str] = "attention/sdpa_fwd_fp8_wgmma.cu"

    def refuse(self, p, dev):
        wrong = [*wrong_device(dev, 90), *no_variant(p, self.source, "q", "k", "v"), *self._wrong(p, dev),
                 *no_elements({name: p.operands[name] for name in "qkvo"})]
        yield from wrong or self._wrong_memory(p)

    def _wrong(self, p, dev):
        if dev.kind == "cuda" and dev.sm > 90:
            yield f"needs sm_90 itself (wgmma); device is sm_{dev.sm}"
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.q.dtype} tensors; got {p.op.compute}"
        for name in SUMS:
            if p.operands[name] is not None and p.operands[name].dtype.name != "f32":
                yield f"{name} must be f32; got {p.operands[name].dtype}"
        for name, size in (("s_q", p.q.dims[2]), ("s_kv", p.v.dims[2])):
            if size > LONGEST:
                yield f"{name} must be at most {LONGEST}; got {size}"
        d_qk, d_v = p.q.dims[3], p.v.dims[3]
        if d_qk > DEPTH:
            yield f"d_qk must be at most {DEPTH}; got {d_qk}"
        if d_v > DEPTH or d_v % WORD:
            yield f"d_v must be a multiple of {WORD}, at most {DEPTH}; got {d_v}"
        yield from fusion.reasons(around(p))

    def _wrong_memory(self, p):
        o = p.graph.tensors[around(p).stored]
        accepted = [t.name for t in ALL if t.name in kernels.axis(self.source, "O")]
        if o.dtype.name not in accepted:
            yield f"o must be one of {' '.join(accepted)}; got {o.dtype}"
        others = [s for s, n in zip(o.strides[:3], o.dims) if n > 1]
        if o.strides[3] != 1 and o.dims[3] > 1 or any(s % WORD for s in others):
            yield f"o must have {WORD} elements side by side everywhere; got strides {o.strides}"
        elif o.alignment < WORD * o.dtype.bytes:
            yield f"o must be aligned to {WORD * o.dtype.bytes} bytes; got {o.alignment}"
        for name in "qkv":
            tensor, axis = p.operands[name], AXES[name][0]
            if tensor.strides[axis] != 1 and tensor.dims[axis] > 1:
                yield f"{name} must be contiguous along a head's elements; got strides {tensor.strides}"
            elif tensor.alignment < CHUNK_BYTES:
                yield f"{name} must be aligned to {CHUNK_BYTES} bytes; got {tensor.alignment}"
            else:
                of_map = kernels.map_reasons(self._map(p, name, SIZES[0]))
                yield from (f"{name}: {reason}" for reason in of_map)

    @staticmethod
    def _size(config) -> Size8:
        return next(size for size in SIZES if size.tile == config.tile)

    def configs(self, p, dev):
        found = [Config(tile=size.tile) for size in SIZES]
        yield from sorted(found, key=lambda config: self.cost(p, dev, config))

    @staticmethod
    def _map(p, name, size) -> TensorMap:
        """A tensor in boxes of a line by the queries of a tile or the keys of a step."""
        tensor, axes = p.operands[name], AXES[name]
        dims = [tensor.dims[axis] if move else 1 for axis, move in zip(axes, (1, 1, *moves(p, name)))]
        strides = [CHUNK_BYTES if n == 1 else tensor.strides[axis] for n, axis in zip(dims[1:], axes[1:])]
        box = (LINE_BYTES, size.rows if name == "q" else KEYS, 1, 1, 1)
        return TensorMap(p.ptr(name), tensor.dtype.name, (*dims, 1), (*strides, CHUNK_BYTES), box,
                         swizzle=LINE_BYTES)

    # ---- Cost ----

    @staticmethod
    def _is_uneven(p) -> bool:
        """Not all queries see as many keys: blocks take tiles as they come."""
        return bounds(p) != (-1, -1) or p.len_q is not None or p.len_kv is not None

    @staticmethod
    def _tiles(p, size) -> int:
        return p.q.dims[0] * p.q.dims[1] * ceil_div(p.q.dims[2], size.rows)

    def cost(self, p, dev, config):
        """Of the steps of the busiest SM, beside what comes from memory."""
        size, edges = self._size(config), sum(bound >= 0 for bound in bounds(p))
        rounds, steps = self._tiles(p, size) / dev.sms, (seen(p) + edges * size.rows) / KEYS
        whole = (lambda n: max(n, 1)) if self._is_uneven(p) else ceil
        rounds, steps = whole(rounds), whole(steps)
        busy = (rounds * (steps * size.clocks + size.seam) + AROUND) / dev.clock_mhz
        return dev.launch_us + together(2.5, busy, moved_us(p.region.traffic_bytes, dev) - dev.launch_us)

    # ---- How far its results may be off ----

    def magnitude(self, op, arrays, scalars, results):
        return with_rounded_weights(op, arrays, scalars, results, LEAST, f8_e4m3, PRECISION)

    def rounded_to(self, p):
        return f8_e4m3

    # ---- Its launch ----

    @staticmethod
    def _section(p, dev) -> int:
        """Heads whose keys and values the L2 cache has room for."""
        heads, sizes = p.q.dims[1], p.k.dims[2] + p.v.dims[3]
        kept = p.v.dims[2] * sizes * max(p.k.dims[1], p.v.dims[1]) / heads
        return min(max(int(dev.l2_bytes * KEPT / kept), 1), p.q.dims[0] * heads)

    @staticmethod
    def _numbers(p) -> dict:
        """The factors, 1 where there is none."""
        found, given = around(p), {}
        for names, uids in ((OF_SCORES, found.scores), (BEFORE, found.before), (AFTER, found.after)):
            given |= {name: source_of(p.graph.tensors[uid]) for name, uid in zip(names, uids)}
        return dict.fromkeys((*OF_SCORES, *BEFORE, *AFTER), 1.0) | given

    @staticmethod
    def _sums(p) -> dict:
        found = {}
        for name, steps in STRIDES.items():
            tensor = p.operands[name]
            is_kept = tensor is not None and p.uids[name] in p.region.outputs
            found[name] = p.ptr(name) if is_kept else None
            found[steps] = tensor.strides[:3] if is_kept else (0, 0, 0)
        return found

    def plan(self, p, dev, config):
        (b, heads, s_q, _), steps, stored = p.q.dims, [], around(p).stored
        length = lambda d: d.strides[0] if d is not None else 0
        left, right = bounds(p)
        size = self._size(config)
        tiles = self._tiles(p, size)
        blocks = min(dev.sms, tiles)
        taken = p.scratch(4) if self._is_uneven(p) and blocks < tiles else None
        amax = Pointer(p.last.operands["y"]) if p.last else None
        o = p.graph.tensors[stored]
        args = dict({name: self._map(p, name, size) for name in "qkv"}, o=Pointer(stored), amax=amax,
                    next_tile=taken, len_q=p.ptr("len_q"), len_kv=p.ptr("len_kv"),
                    scale=number_as(p, "scale", "f32", steps), **self._numbers(p), **self._sums(p),
                    len_q_step=length(p.len_q), len_kv_step=length(p.len_kv), batches=b, heads=heads,
                    per_k=heads // p.k.dims[1], per_v=heads // p.v.dims[1], s_q=s_q, s_kv=p.v.dims[2],
                    d_v=p.v.dims[3], left=left, right=right, from_end=int(p.op.diagonal == "bottom_right"),
                    section=self._section(p, dev), empty=0.0 if p.op.empty == "zero" else nan,
                    o_steps=o.strides[:3], **{f"{name}_moves": moves(p, name) for name in "qkv"})
        zeroed = [Memset(place, 4) for place in (taken, amax) if place is not None]
        launch = Launch(f"sdpa_fwd_fp8_wgmma_{p.q.dtype}_{o.dtype}_{size.tile}", args, dict(blocks=blocks))
        return [*steps, *zeroed, launch]
