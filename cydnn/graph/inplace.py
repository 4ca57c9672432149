"""Which outputs of a graph may lie where an input lies: a fact of the graph, whatever plan computes it."""
from __future__ import annotations

from .graph import Graph, Node
from .region import bits


def pairs(graph: Graph) -> tuple:
    """(written uid, read uid) of tensors in memory that may have one address. They have one type and one
    layout, and each node that reads the input goes through it element by element with the output, or has
    read all of it by then:

    - the node that writes the output does so, if its operation works in place on this operand;
    - a node that it waits for does so, unless one operation that neither works in place nor makes less of
      what it reads, such as a product, stands on the way, which an engine may compute together with both;
    - another node is pointwise, with nothing but pointwise nodes between it and the node that writes.

    Ragged tensors are none of them, nor their offsets, which every element waits for.
    """
    ragged = {*graph.offsets, *graph.offsets.values()}
    slots = [u for u in graph.slots if u not in ragged]
    read_only = [u for u in slots if u not in graph.producer and graph.consumers[u]]
    outputs = [u for u in slots if u in graph.producer and _is_fresh(graph, u)]
    form = {u: (t.dtype.name, t.dims, [s for s, d in zip(t.strides, t.dims) if d != 1])
            for u, t in graph.tensors.items()}
    anchors = sum(1 << i for i in graph.anchors)
    return tuple([(out, read) for out in outputs for read in read_only
                  if form[out] == form[read]
                  and all([_allows(graph, anchors, out, read, n) for n in graph.consumers[read]])])


def _is_fresh(graph, out: int) -> bool:
    """What an output held before is not read; of a node alone it may be."""
    node = graph.nodes[graph.producer[out]]
    name = next(o for o, uid in node.operands.items() if uid == out)
    beta = node.op.blends.get(name, ("", None))[1]
    return len(graph.nodes) == 1 or name not in node.op.keeps and (
        beta is None or node.scalars.get(beta, 0.0) == 0 == node.op.scalars[beta])


def works_in_place(node: Node, out: int, read: int) -> bool:
    """The operation itself may write one tensor over the other, wherever it reads that."""
    at = node.operands.get
    named = sum(at(o) == out and at(r) == read for o, r in node.op.inplace)
    return 0 < named == sum(uid == read for uid in node.operands.values())


def _allows(graph, anchors: int, out: int, read: int, reader: int) -> bool:
    writer = graph.producer[out]
    if reader == writer:
        return works_in_place(graph.nodes[reader], out, read)
    first, last = (reader, writer) if graph.above[writer] >> reader & 1 else (writer, reader)
    between = (graph.below[first] & graph.above[last]) | 1 << reader | 1 << writer
    others = [graph.nodes[i] for i in bits(between & anchors)]
    if first == writer:                          # or neither waits for the other
        return not others
    folds = lambda n: all(graph.tensors[u].count < graph.tensors[read].count for u in n.writes)
    return len(others) != 1 or bool(others[0].op.inplace) or folds(others[0])
