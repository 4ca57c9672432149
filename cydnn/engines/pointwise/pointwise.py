"""Pointwise regions, and the v5 tensor operations that read as one pointwise step.

``vector`` is the kernel for outputs without gaps, ``launches`` that for any strides and types; both
leave the work to a spliced program (cydnn/fusion). A recipe says how an op reads as a pointwise
node; y = alpha * R + beta * y.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Callable

from ... import fusion, kernels
from ...dtypes import ALL
from ...fusion import Builder, CannotPlace, Site, math_of
from ...graph import Graph, Lead, Match, bits, many
from ...ops import AddTensor, OpTensor, Pointwise, ScaleTensor, SetTensor, Transform
from ...steps import Launch, Pointer, mapped
from ..engine import Engine, memory_us, numbers, wrong_device

MOST = 2 ** 31                                   # more elements than one launch of pointwise_any may have
VECTOR = "pointwise/pointwise_vector.cu"


@dataclass(frozen=True)
class Recipe:
    """R = step(scales * reads); ``alpha`` and ``beta`` are scalars of the op by name, or numbers."""
    step: Callable                               # op -> Pointwise
    reads: Callable                              # op -> names of operands (or of scalars) that the step reads
    scales: tuple = ()
    alpha: str | float = "alpha"
    beta: str | float = "beta"


IDENTITY = Pointwise(mode="identity")
RECIPES = {
    Pointwise: Recipe(lambda op: op, lambda op: op.inputs(), ("alpha1", "alpha2")),
    Transform: Recipe(lambda op: IDENTITY, lambda op: ("x",)),
    AddTensor: Recipe(lambda op: IDENTITY, lambda op: ("a",)),
    OpTensor: Recipe(lambda op: Pointwise(mode=op.mode, nan=op.nan), lambda op: ("a", "b"),
                     ("alpha1", "alpha2"), 1.0),
    SetTensor: Recipe(lambda op: IDENTITY, lambda op: ("value",), (), 1.0, 0.0),
    ScaleTensor: Recipe(lambda op: IDENTITY, lambda op: ("y",), (), "alpha", 0.0),
}


def number(p, name):
    """A scalar of the op, or the number itself."""
    return p.scalar(name) if isinstance(name, str) else name


def only_node(p: Match):
    """The node of a match that has just one."""
    return p.node or (p.behind[0] if len(p.behind) == 1 else None)


def outputs(p: Match) -> list:
    """The tensors that a match writes to memory, in the order of its nodes."""
    return [p.graph.tensors[u] for u in p.region.outputs]


def lead_of(p: Match, *native: str) -> Lead:
    """The output that a kernel walks: the last without gaps of a type it has,
    of the widest dims; else the last."""
    found = outputs(p)
    count = max(t.count for t in found)
    wide = [t for t in reversed(found) if t.count == count]
    best = next((t for t in wide if t.dtype.name in native and (t.is_dense or not t.count)), None)
    return Lead(best.uid, best, True) if best is not None else Lead(wide[0].uid, wide[0], False)


def program(p: Match, site: Site, lead: Lead):
    """(what a kernel splices at its mark "value", alpha, beta). The kernel (or its mark "store") scales and
    adds what a lone op says; in a region of several nodes there is nothing to add. Raises CannotPlace."""
    node = only_node(p)
    if node is None:
        return fusion.region(p, site, lead), 1.0, 0.0
    single = p if p.node else Match(p.graph, node, p.region.mask)
    recipe = RECIPES[type(node.op)]
    step = recipe.step(node.op)
    builder = Builder(math_of([node], single.descs), site, p.graph)
    inputs = [builder.read(single.uids[n]) if n in single.uids else builder.number(node, n)
              for n in recipe.reads(node.op)]
    scales = [builder.number(node, s) for s in recipe.scales[:len(inputs)]]
    out, alpha, factor = single.uids[node.op.writes[0]], number(single, recipe.alpha), ""
    if isinstance(alpha, Pointer):
        alpha, factor = 1.0, builder.source(alpha)
    made = builder.values[out] = builder.step(step, inputs, scales, factor, p.graph.tensors[out])
    return builder.finish(made, (lead.tensor.dtype,)), alpha, number(single, recipe.beta)


# ---- Outputs without gaps ----

def memory_order(tensor) -> tuple:
    """Dims of more than one element, by stride, the outermost first."""
    longer = (a for a in range(tensor.rank) if tensor.dims[a] != 1)
    return tuple(sorted(longer, key=lambda a: -tensor.strides[a])) or (0,)


class VectorForm(Engine):
    """Outputs without gaps, inputs laid out like them or broadcast:
    16 bytes an access, one read, one write."""
    understands = numbers()

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        lead = self._lead(p)
        out = lead.tensor
        if not lead.is_native:
            yield from self._wrong_output(out)
            return
        if out.alignment < 16:
            yield f"output must be aligned to 16 bytes; got {out.alignment}"
        node = only_node(p)
        if node is not None and node.op.math == "f64" and out.dtype.name != "f64":
            yield f"compute must be f32 for an output of {out.dtype}; got {node.op.compute}"
        if out.count * out.dtype.bytes > 16 * (2 ** 31 - 512):
            yield f"output must have at most 2^31 - 512 vectors of 16 bytes; got {out.count} elements"
        yield from fusion.reasons(self._program(p))

    @staticmethod
    def _wrong_output(out):
        types = [t.name for t in ALL if t.name in kernels.axis(VECTOR, "T")]
        if out.dtype.name not in types:
            yield f"output must be one of {' '.join(types)}; got {out.dtype}"
        else:
            yield f"output must have no gaps; got dims {out.dims}, strides {out.strides}"

    @staticmethod
    def _lead(p):
        return lead_of(p, *kernels.axis(VECTOR, "T"))

    @fusion.attempt
    def _program(self, p):
        lead = self._lead(p)
        out = lead.tensor
        lanes = 16 // out.dtype.bytes
        site = Site(out.dims, out, (("vec", memory_order(out)),), "vec", lanes, counts_vectors=True)
        made = program(p, site, lead)
        if isinstance(made[2], Pointer):
            raise CannotPlace("beta must be given at execute; got a tensor in memory")
        self._near(p, made[0])
        return made

    @staticmethod
    def _near(p, fused):
        """Refuse neighbours of the output that lie apart in another tensor:
        a copy that turns them is a kernel of its own."""
        for extra, pointer in zip(fused.program.tensors, fused.pointers):
            if extra.at.lanes not in (0, 1):
                tensor = p.graph.tensors[pointer.uid]
                raise CannotPlace(f"tensor {tensor.label} must be contiguous or constant along the "
                                  f"innermost dim of the output; got {tensor}")

    def cost(self, p, dev, config):
        return memory_us(p, dev, efficiency=0.87)

    def plan(self, p, dev, config):
        out = self._lead(p).tensor
        if not out.count:
            return []
        fused, alpha, beta = self._program(p)
        args = dict(y=Pointer(out.uid), count=out.count, alpha=alpha, beta=beta)
        return [Launch(f"pointwise_vector_{out.dtype}", args, {}, {"value": fused})]


# ---- Any outputs ----

class AnyForm(Engine):
    """Any strides, any broadcast, any mix of types: one element at a time.
    Larger tensors take several launches."""
    understands = numbers()

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from fusion.reasons(fused_any(p))

    def cost(self, p, dev, config):
        return memory_us(p, dev, efficiency=0.3)

    def plan(self, p, dev, config):
        return launches_of(p)


def any_site(lead: Lead) -> Site:
    """Where the marks of pointwise_any stand: ``i`` counts in the order of the lead's memory.
    A packed boolean is walked eight at a time."""
    tensor, is_bits = lead.tensor, lead.tensor.dtype.bits < 8
    walked = tensor if tensor.is_dense else None
    return Site(tensor.dims, walked, (("i", memory_order(tensor)),), "i" if is_bits else "",
                8 if is_bits else 1, scattered=is_bits)


@fusion.attempt
def fused_any(p: Match) -> tuple:
    """(math type, lanes, {mark: Fused}, lead) of a match on pointwise_any, or the CannotPlace."""
    found = outputs(p)
    count = max(t.count for t in found)
    wide = [t for t in reversed(found) if t.count == count]
    main = next((t for t in wide if t.dtype.bits < 8), wide[0])             # packed booleans decide the walk
    lead = Lead(main.uid, main, True)
    site = any_site(lead)
    modes = {getattr(node.op, "mode", "") for node in ((p.node,) if p.node else p.behind)}
    if count >= MOST and (site.lanes > 1 or "gen_index" in modes):
        raise CannotPlace(f"packed booleans and indices must have fewer than 2^31 elements; got {count}")
    value, alpha, beta = program(p, site, lead)
    store = Builder(value.program.math, site, p.graph)
    store.values[main.uid] = "v"
    store.alpha = store.scalar(alpha) if alpha != 1.0 else ""
    if beta != 0.0:
        store.blend = store.tensor(main.uid), store.source(beta)
    store.store(main.uid)
    fuse = {"value": value, "store": store.finish("")}
    for sentence in fusion.reasons(*fuse.values()):
        raise CannotPlace(sentence)
    return value.program.math, site.lanes, fuse, lead


def launches_of(p: Match) -> list:
    """The launches of a match on pointwise_any: one, or one for each box of fewer than 2^31 elements."""
    math, lanes, fuse, lead = fused_any(p)
    tensor = lead.tensor
    if not tensor.count:
        return []
    if tensor.count < MOST:
        return [Launch(f"pointwise_any_{math}_{lanes}", dict(count=tensor.count), {}, fuse)]
    parts = boxes(tensor.dims, memory_order(tensor))
    return [step for dims, starts in parts for step in _box(p, dims, starts)]


def _box(p, dims, starts) -> list:
    """The launches of a part of a large match: its nodes on views that begin elsewhere."""
    tensors, at = [], {}
    for uid in dict.fromkeys((*p.region.inputs, *p.region.writes)):
        tensor = p.graph.tensors[uid]
        kind = "virtual" if uid in p.region.inner else "value" if tensor.is_by_value else "memory"
        if tensor.is_by_value:
            tensors.append(tensor)
            continue
        view = tuple([1 if d == 1 else n for d, n in zip(tensor.dims, dims)])
        skipped = sum(s * t for s, t, d in zip(starts, tensor.strides, tensor.dims) if d != 1)
        at[uid] = tensor.dtype.bytes_of(skipped)
        tensors.append(tensor.replace(dims=view, kind=kind, alignment=max(tensor.dtype.bits // 8, 1)))
    nodes = [p.graph.nodes[i] for i in p.region.nodes]
    graph = Graph(nodes, tensors)
    everything = (1 << len(nodes)) - 1
    part = Match(graph, p.node, everything, behind=() if p.node else range(len(nodes)))
    move = lambda v: v + at[v.uid] if isinstance(v, Pointer) else v
    return [mapped(step, move) for step in launches_of(part)]


def boxes(dims: tuple, order: tuple):
    """(dims, where it begins) of boxes of fewer than 2^31 elements that fill ``dims``;
    ``order``: the outermost dim first."""
    outer, *inner = order
    rest = prod(dims[a] for a in inner)
    step = (MOST - 1) // rest
    if step:
        for at in range(0, dims[outer], step):
            size = min(step, dims[outer] - at)
            yield (tuple(size if a == outer else d for a, d in enumerate(dims)),
                   tuple(at if a == outer else 0 for a in range(len(dims))))
        return
    for at in range(dims[outer]):
        thin = tuple(1 if a == outer else d for a, d in enumerate(dims))
        for box, starts in boxes(thin, tuple(inner)):
            yield box, tuple(at if a == outer else s for a, s in enumerate(starts))


def launches(graph: Graph) -> list:
    """The launches of a graph of pointwise nodes on pointwise_any."""
    mask = (1 << len(graph.nodes)) - 1
    return launches_of(Match(graph, None, mask, behind=tuple(bits(mask))))


class PointwiseVector(VectorForm):
    """Any DAG of pointwise nodes of one shape, spliced into pointwise_vector."""
    index = 270
    takes = many(Pointwise)


class PointwiseAny(AnyForm):
    """Any DAG of pointwise nodes of one shape, spliced into pointwise_any."""
    index = 271
    takes = many(Pointwise)
