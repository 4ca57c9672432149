"""The gradients of attention of 8 bits on Hopper's tensor cores, with the factors of what it reads."""
from __future__ import annotations

from typing import ClassVar, NamedTuple

from ... import fusion, kernels
from ...dtypes import bf16
from ...fusion import CannotPlace
from ...graph import Tensor, core, many, source_of
from ...ops import Pointwise, SdpaBwd
from ...steps import Launch, Pointer, TensorMap
from ...tensor import TensorDesc
from ..cast import number_as
from ..engine import moved_us, no_elements, numbers, together, wrong_device
from ..tile.line import CHUNK_BYTES
from ..tile.maps import tiled_map
from .sdpa_bwd_any import of_sinks, sum_sinks
from .sdpa_bwd_wgmma import ALL, SIZES, SdpaBwdWgmma
from .sdpa_fwd_fp8_wgmma import is_number
from .sdpa_fwd_wgmma import AXES, bounds

READ, WRITTEN = ("q", "k", "v", "o", "do"), ("dq", "dk", "dv")
WIDE = 2                                         # bytes of an element of what is widened


class Held(NamedTuple):
    """What an operand of f32 stands for: a tensor of 8 bits, and the uid of its factor or None."""
    tensor: Tensor
    factor: int | None


@fusion.attempt
def held(p) -> dict:
    """{operand: Held}"""
    return {name: _held(p, name) for name in READ}


def _held(p, name) -> Held:
    operand, nodes = p.operands[name], p.before.get(name, ())
    if not nodes:
        return Held(operand, None)
    if operand.dtype.name != "f32":
        raise CannotPlace(f"{name} must be f32 where it is made of others; got {operand.dtype}")
    node, others = nodes[-1], [uid for uid in nodes[-1].reads if is_number(p, uid)]
    tensors = [p.graph.tensors[uid] for uid in node.reads if uid not in others]
    is_product = node.op.mode == "mul" and node.op.math == "f32" and not node.scalars
    if len(nodes) > 1 or not is_product or len(others) != 1 or len(tensors) != 1:
        raise CannotPlace(f"{node.name}: must be {name} times one f32 number alone; got {node.op.mode} of "
                          f"{len(node.reads)} tensors behind {len(nodes) - 1} nodes")
    return Held(tensors[0], others[0])


def strides_of(tensor, name) -> tuple:
    """Of batches, heads and rows."""
    return tuple([tensor.strides[axis] for axis in reversed(AXES.get(name, AXES["o"])[1:])])


class SdpaBwdFp8Wgmma(SdpaBwdWgmma):
    """What is read of 8 bits is widened to bf16, which holds its values, in the workspace; the loops are
    those of engine 431. The factors of what is read are the kernels'; gradients are stored as they were
    summed, with the largest gradients of scores. Weights and gradients of scores are rounded to 16 bits, not
    to 8."""
    index = 433
    takes = core(SdpaBwd, before=many(Pointwise, at="q k v o do"))
    understands = numbers("f32") | {SdpaBwd.special["peak"]}
    source: ClassVar[str] = "attention/sdpa_bwd_fp8_widen.cu"
    sizes: ClassVar[tuple] = SIZES[:2]           # heads of up to 128

    def refuse(self, p, dev):
        found = held(p)
        wrong = [*wrong_device(dev, 90), *fusion.reasons(found)]
        wrong = wrong or [*self._wrong_types(p, found), *self._wrong(p, dev),
                          *no_elements({name: p.operands[name] for name in (*READ, *WRITTEN)})]
        yield from wrong or (*self._wrong_memory(p), *fusion.reasons(*of_sinks(p).values()))

    def _wrong_types(self, p, found):
        known = kernels.axis(self.source, "T")
        for name, (tensor, _) in found.items():
            if tensor.dtype.name not in known:
                yield f"{name} must hold one of {' '.join(known)}; got {tensor.dtype}"
        for name in (*WRITTEN, "peak"):
            if p.operands[name] is not None and p.operands[name].dtype.name != "f32":
                yield f"{name} must be f32; got {p.operands[name].dtype}"

    def _wrong_memory(self, p):
        for name, size in (("d_qk", p.q.dims[3]), ("d_v", p.v.dims[3])):
            if size % CHUNK_BYTES:
                yield f"{name} must be a multiple of {CHUNK_BYTES}; got {size}"
        tensors = {name: tensor for name, (tensor, _) in held(p).items()}
        for name, tensor in (tensors | {name: p.operands[name] for name in WRITTEN}).items():
            axis, unit = AXES.get(name, AXES["o"])[0], CHUNK_BYTES if name in READ else 2
            steps = [s for at, (s, n) in enumerate(zip(tensor.strides, tensor.dims)) if n > 1 and at != axis]
            if tensor.strides[axis] != 1 and tensor.dims[axis] > 1:
                yield f"{name} must be contiguous along a head's elements; got strides {tensor.strides}"
            elif any(step % unit for step in steps):
                yield f"{name} must have strides that are multiples of {unit}; got {tensor.strides}"
            elif tensor.alignment < unit * tensor.dtype.bytes:
                yield f"{name} must be aligned to {unit * tensor.dtype.bytes} bytes; got {tensor.alignment}"

    # ---- Cost ----

    def cost(self, p, dev, config):
        """Of the steps of the busiest SM in both launches, and of what is widened before them."""
        busy = sum(own.us(dev) for own in self._tiles(p, self._size(p)))
        wide = sum(held(p)[name].tensor.count for name in ("q", "k", "v", "do")) * (1 + WIDE)
        before = moved_us(wide + p.o.count, dev, 0.8) - dev.launch_us
        moved = moved_us(p.region.traffic_bytes, dev) - dev.launch_us
        return 6 * dev.launch_us + before + together(2.5, busy, moved)

    # ---- How far its results may be off ----

    def rounded_to(self, p):
        return bf16

    # ---- Its launches ----

    def plan(self, p, dev, config):
        size, (b, heads, s_q, d_qk), steps = self._size(p), p.q.dims, []
        kv_heads, s_kv, d_v = p.k.dims[1], *p.v.dims[2:]
        scale = number_as(p, "scale", "f32", steps)
        kept = dict(logs=p.scratch(4 * b * heads * s_q), dots=p.scratch(4 * b * heads * s_q))
        length = lambda d: d.strides[0] if d is not None else 0
        queries = dict(len_q=p.ptr("len_q"), len_q_step=length(p.len_q))
        wide = {name: self._widened(p, name, steps) for name in ("q", "k", "v")}
        wide["do"] = p.scratch(WIDE * b * heads * s_q * d_v)
        steps.append(self._of_rows(p, dict(kept, **queries, wide=wide["do"])))
        common = dict(kept, **queries, len_kv=p.ptr("len_kv"), len_kv_step=length(p.len_kv), batches=b,
                      s_q=s_q, s_kv=s_kv, d_qk=d_qk, from_end=int(p.op.diagonal == "bottom_right"),
                      scale=scale, **{f"of_{name}": self._factor(p, name) for name in wide})
        row_bytes = (d_qk + d_v) * WIDE
        left, right = (bound if bound >= 0 else ALL for bound in bounds(p))
        of_keys = dict(common, heads=kv_heads, span=heads // kv_heads, left=right, right=left, d_v=d_v,
                       section=self._section(p, dev, s_q * row_bytes * heads // kv_heads),
                       **self._wide_maps(p, wide, self._rows(size)), **self._gradients(p, "dk", "dv"))
        is_kept = p.uids.get("peak") in p.region.outputs
        of_queries = dict(common, heads=heads, per_kv=heads // kv_heads, left=left, right=right,
                          section=self._section(p, dev, s_kv * row_bytes * kv_heads // heads),
                          peaks=p.ptr("peak") if is_kept else None,
                          peak_steps=p.peak.strides[:3] if is_kept else (0, 0, 0),
                          **self._wide_maps(p, wide, self._rows(size, "queries")), **self._gradients(p, "dq"))
        blocks = [dict(blocks=own.blocks(dev)) for own in self._tiles(p, size)]
        name = "sdpa_bwd_fp8_wgmma"
        return [*steps, Launch(f"{name}_dkv_{size.depth}_{size.keys}x{size.met}", of_keys, blocks[0]),
                Launch(f"{name}_dq_{size.depth}_{size.queries}x{size.seen}", of_queries, blocks[1]),
                *sum_sinks(p, kept["dots"])]

    @staticmethod
    def _factor(p, name):
        factor = held(p)[name].factor
        return 1.0 if factor is None else source_of(p.graph.tensors[factor])

    @staticmethod
    def _widened(p, name, steps) -> Pointer:
        """Where an operand lies as bf16; ``steps`` get what brings it there."""
        tensor = held(p)[name].tensor
        b, heads, rows, depth = [tensor.dims[axis] for axis in reversed(AXES[name])]
        to = p.scratch(WIDE * tensor.count)
        args = dict(x=Pointer(tensor.uid), y=to, batches=b,
                    heads=heads, rows=rows, depth=depth, x_steps=strides_of(tensor, name))
        steps.append(Launch(f"sdpa_bwd_fp8_widen_{tensor.dtype}", args, {}))
        return to

    def _of_rows(self, p, given) -> Launch:
        (b, heads, s_q, d_v), (o, do) = p.o.dims, (held(p)[name].tensor for name in ("o", "do"))
        args = dict(given, o=Pointer(o.uid), d_o=Pointer(do.uid), stats=p.ptr("stats"), batches=b,
                    heads=heads, s_q=s_q, d_v=d_v, of_o=self._factor(p, "o"), of_do=self._factor(p, "do"),
                    o_steps=strides_of(o, "o"), do_steps=strides_of(do, "do"),
                    stats_steps=p.stats.strides[:3])
        return Launch(f"sdpa_bwd_fp8_rows_{o.dtype}_{do.dtype}", args, {})

    @staticmethod
    def _wide_maps(p, wide, rows) -> dict:
        """Of q, k, v and do, heads one behind the other."""
        return {"o" if name == "do" else name: _wide_map(held(p)[name].tensor, name, at, rows[name])
                for name, at in wide.items()}

    @staticmethod
    def _gradients(p, *names) -> dict:
        found = {name: p.ptr(name) for name in names}
        return found | {f"{name}_steps": strides_of(p.operands[name], name) for name in names}


def _wide_map(tensor, name, at, rows) -> TensorMap:
    b, heads, n, depth = dims = tuple([tensor.dims[axis] for axis in reversed(AXES[name])])
    wide = TensorDesc.packed(bf16, dims)
    return tiled_map(at, wide, (depth, n, heads, b, 1), (*wide.strides[2::-1], 0), rows, 1, 1, 1)
