"""How a region grows around an anchor:
what may be fused behind it and in front of it, and regions of pointwise nodes."""
from __future__ import annotations

from collections.abc import Iterator

from .graph import Graph, every
from .region import bits


def fits(dims: tuple, space: tuple) -> bool:
    """A tensor of ``dims`` broadcasts to ``space``."""
    return len(dims) == len(space) and all(d in (1, n) for d, n in zip(dims, space))


def comes_back(graph: Graph, mask: int, node: int) -> bool:
    """``node`` depends on the region through a node outside of it."""
    return any(graph.above[k] & mask for k in bits(graph.above[node] & ~mask))


def sides(graph: Graph, mask: int, dims: tuple, ops: tuple, free: int) -> int:
    """The region with the nodes that make values for it alone:
    virtual, read by nobody else, of dims that broadcast."""
    start = mask
    for j in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[j]
        if mask >> j & 1 or not free >> j & 1 or not isinstance(node.op, ops) or graph.above[j] & start:
            continue
        tensors = [graph.tensors[u] for u in node.writes]
        users = [k for u in node.writes for k in graph.consumers[u]]
        is_private = users and all(mask >> k & 1 for k in users)
        if is_private and all(t.is_virtual and fits(t.dims, dims) for t in tensors):
            mask |= 1 << j
    return mask


def behind(graph: Graph, number: int, ops: tuple, free: int) -> list[int]:
    """Masks of regions, each larger than the one before: a node with more and more of what reads its first
    output elementwise. ``free``: the nodes that may be taken. Every region is convex."""
    node = graph.nodes[number]
    dims, mask, found = graph.tensors[node.writes[0]].dims, 1 << number, []
    free &= ~graph.above[number]
    for j in range(len(graph.nodes)):
        node = graph.nodes[j]
        if mask >> j & 1 or not free >> j & 1 or not isinstance(node.op, ops):
            continue
        reads_it = any(u in graph.producer and mask >> graph.producer[u] & 1 for u in node.reads)
        same = all(graph.tensors[u].dims == dims for u in node.writes)
        if reads_it and same:
            wider = sides(graph, mask | 1 << j, dims, ops, free)
            if not comes_back(graph, wider, j):
                mask = wider
                found.append(mask)
    return found


def last(graph: Graph, number: int, mask: int, ops: tuple, free: int) -> list[int]:
    """Masks of a region with one node of these ops more, which reads what the region of node ``number`` makes
    in its dims, and nothing else."""
    dims = graph.tensors[graph.nodes[number].writes[0]].dims
    made = {u for i in bits(mask) for u in graph.nodes[i].writes if graph.tensors[u].dims == dims}
    return [mask | 1 << j for j, node in enumerate(graph.nodes)
            if free >> j & 1 and isinstance(node.op, ops) and {*node.reads} <= made]


def before(graph: Graph, number: int, operand: str, ops: tuple, free: int) -> int:
    """The mask of the nodes that make operand ``operand`` of a node, elementwise and for it alone."""
    node, core = graph.nodes[number], 1 << number
    uid = node.operands.get(operand)
    if uid is None or isinstance(uid, tuple) or sum(uid in every(u) for u in node.operands.values()) > 1:
        return 0
    return sides(graph, core, graph.tensors[uid].dims, ops, free & ancestors_of(graph, uid)) & ~core


def ancestors_of(graph: Graph, uid: int) -> int:
    """The nodes that a tensor's value depends on."""
    if uid not in graph.producer:
        return 0
    i = graph.producer[uid]
    return graph.above[i] | 1 << i


def widest(graph: Graph, nodes) -> int:
    """The node with the largest output, which begins a region; of several the lowest."""
    return min(nodes, key=lambda i: (-graph.tensors[graph.nodes[i].writes[0]].count, i))


def pointwise(graph: Graph, first: int, ops: tuple, free: int, closed=lambda mask: True) -> Iterator[int]:
    """Masks of regions of pointwise nodes, each larger than the one before, that begin with node ``first``:
    nodes of its dims that are connected with it or read what it reads. ``closed(mask)``: nothing comes back
    into the region through others."""
    dims = graph.tensors[graph.nodes[first].writes[0]].dims
    mask = sides(graph, 1 << first, dims, ops, free)
    yield mask
    touched = {u for i in bits(mask) for u in (*graph.nodes[i].reads, *graph.nodes[i].writes)}
    for j in range(len(graph.nodes)):
        node = graph.nodes[j]
        if mask >> j & 1 or not free >> j & 1 or not isinstance(node.op, ops):
            continue
        if not touched & {*node.reads, *node.writes}:
            continue
        if any(graph.tensors[u].dims != dims for u in node.writes):
            continue
        wider = sides(graph, mask | 1 << j, dims, ops, free)
        if not comes_back(graph, wider, j) and closed(wider):
            mask = wider
            yield mask
            touched |= {u for i in bits(mask) for u in (*graph.nodes[i].reads, *graph.nodes[i].writes)}
