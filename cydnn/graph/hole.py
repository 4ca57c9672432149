"""Holes of rules: what a rule leaves open between two values, which is any DAG of pointwise nodes."""
from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..ops import Op, Pointwise
from .graph import Graph, Node
from .grow import fits, sides
from .region import bits


class Hole(NamedTuple):
    """The pointwise nodes that make one value of another, with what is made for them alone.

    ``start`` ``end``  uids of the two values; one uid where there is nothing between them
    ``nodes``          numbers of the nodes that ``end`` needs, in the order of the graph
    ``mask``           the nodes that nobody needs beside ``end``. Of ``nodes``, only indices and what is
                       made of them and of numbers may be others: they cost less to make again than to read
    ``inputs``         uids that the nodes read beside ``start``, in the order in which they are read
    """
    start: int
    end: int
    nodes: tuple
    mask: int
    inputs: tuple


def reads(node: Node) -> tuple:
    """uids whose values a pointwise node needs: an index is the same whatever its tensor holds."""
    return () if node.op.mode == "gen_index" else node.reads


def before(graph: Graph, end: int, readers: int, ops) -> Iterator[Hole]:
    """Holes that end in a value and start with what a node of ``ops`` writes. ``readers``: the nodes that may
    read the value ``end``, as a mask."""
    above = _pointwise_above(graph, end)
    starts = {u for i in bits(above) for u in graph.nodes[i].reads} | {end}
    for uid in sorted(starts & graph.producer.keys()):
        if isinstance(graph.nodes[graph.producer[uid]].op, ops):
            if found := _between(graph, uid, end, readers, above):
                yield found


def behind(graph: Graph, start: int, op: type[Op], operand: str) -> Iterator[tuple[int, Hole]]:
    """(number of a node, hole) for each node of an op that has its operand by way of pointwise nodes from the
    value ``start``, which nobody else reads."""
    seen, todo = 0, [start]
    while todo:
        for i in graph.consumers[todo.pop()]:
            node = graph.nodes[i]
            if isinstance(node.op, op) and not seen >> i & 1:
                end = node.operands[operand]
                if found := _between(graph, start, end, 1 << i, _pointwise_above(graph, end)):
                    yield i, found
            elif isinstance(node.op, Pointwise) and not seen >> i & 1:
                todo += node.writes
            seen |= 1 << i


def _between(graph: Graph, start: int, end: int, readers: int, above: int) -> Hole | None:
    """The hole between two values of equal dims; None where a value on the way is in memory, or read by
    others than ``readers`` (of ``end``). ``above``: the pointwise nodes that make ``end``."""
    dims, maker = graph.tensors[start].dims, graph.producer[start]
    way = sum(1 << i for i in bits(above) if graph.above[i] >> maker & 1)
    for uid in {start, end}.union(*(graph.nodes[i].writes for i in bits(way))):
        users = way | (readers if uid == end else 0)
        is_private = all(users >> i & 1 for i in graph.consumers[uid])
        if not (is_private and graph.tensors[uid].is_virtual and fits(graph.tensors[uid].dims, dims)):
            return None
    if graph.tensors[end].dims != dims or not way and start != end:
        return None
    mask = way | sides(graph, way, dims, (Pointwise,), above & ~way)
    nodes = _needed(graph, end, mask | _indices(graph, above, dims))
    made = {start}.union(*(graph.nodes[i].writes for i in nodes))
    inputs = dict.fromkeys(u for i in nodes for u in reads(graph.nodes[i]) if u not in made)
    return Hole(start, end, nodes, mask, tuple(inputs))


def _pointwise_above(graph: Graph, uid: int) -> int:
    """The pointwise nodes that make a value, as far as their values are virtual."""
    found, todo = 0, [uid]
    while todo:
        i = graph.producer.get(todo.pop())
        if i is None or found >> i & 1 or not isinstance(graph.nodes[i].op, Pointwise):
            continue
        if all(graph.tensors[u].is_virtual for u in graph.nodes[i].writes):
            found |= 1 << i
            todo += graph.nodes[i].reads
    return found


def _indices(graph: Graph, free: int, dims: tuple) -> int:
    """The nodes of ``free`` that make indices, or something of indices and numbers alone."""
    found = 0
    is_made = lambda u: graph.tensors[u].is_by_value or u in graph.producer and found >> graph.producer[u] & 1
    for i in bits(free):
        node = graph.nodes[i]
        if all(map(is_made, reads(node))) and all(fits(graph.tensors[u].dims, dims) for u in node.writes):
            found |= 1 << i
    return found


def _needed(graph: Graph, uid: int, free: int) -> tuple:
    """Those of the nodes ``free`` that a value depends on."""
    found, todo = 0, [uid]
    while todo:
        i = graph.producer.get(todo.pop())
        if i is not None and (free & ~found) >> i & 1:
            found |= 1 << i
            todo += reads(graph.nodes[i])
    return tuple(bits(found))
