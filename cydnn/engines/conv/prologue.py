"""A convolution without the pointwise operations in front of its image: what the engines that splice them in,
or compute them apart, hand to engines that take an image in memory."""
from __future__ import annotations

from ... import fusion
from ...fusion import Builder, Site
from ...graph import FromTensor, Match, Node, Tensor, once_per_match, scalar_of
from .inner import match_of

DOWN_CONVERT = "down_convert_inputs"             # the note of engines that round x to the type of w
LANES = 8                                        # channels of a mark


@once_per_match
def source(p) -> Tensor | None:
    """The one tensor of x's dims that the operations in front of x read; None where there are several."""
    made = {u for node in p.before.get("x", ()) for u in node.writes}
    found = {u for node in p.before.get("x", ()) for u in node.reads
             if u not in made and p.graph.tensors[u].dims == p.x.dims}
    return p.graph.tensors[found.pop()] if len(found) == 1 else None


def reading(p, x: Tensor) -> Match:
    """The convolution, what follows it included, that reads ``x`` from memory."""
    nodes = [Node(p.op, {**p.node.operands, "x": x.uid}, p.node.scalars), *p.behind, *filter(None, [p.last])]
    return match_of(p, nodes, x, is_core=lambda node: node.op is p.op)


def front(p, x: Tensor) -> Match:
    """The operations in front of x, which write ``x`` to memory."""
    made = p.uids["x"]
    nodes = [Node(n.op, {o: x.uid if u == made else u for o, u in n.operands.items()}, _numbers(n))
             for n in p.before["x"]]
    return match_of(p, nodes, x)


def _numbers(node) -> dict:
    """Those of a node, under its name also where another one writes its output."""
    fixed = lambda name, v: isinstance(v, FromTensor) or v == node.op.scalars[name]
    return {name: v if fixed(name, v) else scalar_of(node, name) for name, v in node.scalars.items()}


@fusion.attempt
def spliced(p):
    """What a mark makes of neighbouring channels of the source, on their way to the type of w."""
    kinds = {fusion.math_before(p, "x", "f32"), *(node.op.math for node in p.before["x"])}
    if kinds != {"f32"}:
        raise fusion.CannotPlace("operations in front of x must compute in f32; got "
                                 f"{' '.join(sorted(kinds))}")
    builder = Builder("f32", Site(p.x.dims, None, (("col", (1,)),), "col", LANES), p.graph)
    builder.values[source(p).uid] = "v"
    for node in p.before["x"]:
        builder.node(node)
    return builder.finish(builder.read(p.uids["x"]), (p.w.dtype,))
