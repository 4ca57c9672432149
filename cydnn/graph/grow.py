"""Growth of a region around an anchor: nodes that may be fused behind and in front of it, and regions of
pointwise nodes."""
from __future__ import annotations

from collections.abc import Iterator

from .graph import Graph, every
from .pattern import Many
from .region import bits, union


def fits(dims: tuple, space: tuple) -> bool:
    """A tensor of ``dims`` broadcasts to ``space``."""
    return len(dims) == len(space) and all(d in (1, n) for d, n in zip(dims, space))


class Growing:
    """A region that grows: its nodes, and what they wait for (``above``) and is waiting for them (``below``)
    among all nodes of the graph."""

    def __init__(self, graph: Graph, mask: int):
        self.graph, self.mask, self.above, self.below = graph, 0, 0, 0
        self.take(mask)

    def take(self, mask: int):
        for i in bits(mask & ~self.mask):
            self.above |= self.graph.above[i]
            self.below |= self.graph.below[i]
        self.mask |= mask

    def comes_back(self, node: int, more: int) -> bool:
        """With the nodes ``more``, ``node`` among them, it would depend on itself through others."""
        below, outside = self.below, self.graph.above[node] & ~(self.mask | more)
        for i in bits(more):
            below |= self.graph.below[i]
        return bool(outside & below)


class Border:
    """The fixed border of a region, however it grows among the nodes ``free``:
    ``tensors`` in memory, and ``numbers`` given at execute."""

    def __init__(self, graph: Graph, free: int):
        self.graph, self.free, self.tensors, self.numbers = graph, free, set(), set()

    def take(self, mask: int):
        for i in bits(mask):
            for uid in self.graph.nodes[i].operands.values():
                tensor, maker = self.graph.tensors[uid], self.graph.producer.get(uid)
                if tensor.is_by_value:
                    self.numbers.add(tensor.scalar or uid)
                elif maker is None or not self.free >> maker & 1 or maker == i and not tensor.is_virtual:
                    self.tensors.add(uid)


def anything(border: Border) -> bool:
    return True


def sides(graph: Graph, mask: int, dims: tuple, ops: tuple, free: int, new: int | None = None) -> int:
    """The nodes that make values for a region alone: virtual, read by nobody else, of dims that broadcast.
    ``new``: the nodes that the region did not have when this was asked last (None: all of it)."""
    makers = lambda mask: {graph.producer[u] for i in bits(mask) for u in graph.nodes[i].reads
                           if u in graph.producer}
    found, waiting = 0, sorted(makers(mask if new is None else new))
    while waiting:
        j = waiting.pop()
        node = graph.nodes[j]
        if (mask | found) >> j & 1 or not free >> j & 1 or not isinstance(node.op, ops) or (
                graph.above[j] & mask):
            continue
        tensors = [graph.tensors[u] for u in node.writes]
        users = [k for u in node.writes for k in graph.consumers[u]]
        is_private = users and all((mask | found) >> k & 1 for k in users)
        if is_private and all(t.is_virtual and fits(t.dims, dims) for t in tensors):
            found |= 1 << j
            waiting = sorted({*waiting, *makers(1 << j)})    # from the last node to the first
    return found


def behind(graph: Graph, number: int, ops: tuple, free: int, has_room=anything) -> list[int]:
    """Masks of regions, each larger than the one before: a node with more and more of what reads its first
    output elementwise, and none of its others. ``free``: the nodes that may be taken. Every region is convex.
    No region follows one for which ``has_room`` of its Border without the first node is false: it would not
    have room either."""
    first, *others = graph.nodes[number].writes
    dims, found = graph.tensors[first].dims, []
    free &= ~(graph.above[number] | union(1 << j for uid in others for j in graph.consumers[uid]))
    region = Growing(graph, 1 << number)
    border, users = Border(graph, free | 1 << number), graph.users[number]
    while users := users & free & ~region.mask:
        new = users & -users                     # the first that reads what the region writes
        j = new.bit_length() - 1
        users ^= new
        node = graph.nodes[j]
        if isinstance(node.op, ops) and all(graph.tensors[u].dims == dims for u in node.writes):
            new |= sides(graph, region.mask | new, dims, ops, free, new)
            if not region.comes_back(j, new):
                region.take(new)
                users |= union(graph.users[i] for i in bits(new))
                found.append(region.mask)
                border.take(new)
                if not has_room(border):
                    break
    return found


def last(graph: Graph, number: int, mask: int, ops: tuple, free: int) -> list[int]:
    """Masks of a region with one node of these ops more, which reads what the region of node ``number`` makes
    in its dims, and nothing else."""
    dims = graph.tensors[graph.nodes[number].writes[0]].dims
    made = {u for i in bits(mask) for u in graph.nodes[i].writes if graph.tensors[u].dims == dims}
    users = sorted({j for u in made for j in graph.consumers[u]})
    return [mask | 1 << j for j in users
            if free >> j & 1 and isinstance(graph.nodes[j].op, ops) and made.issuperset(graph.nodes[j].reads)]


def before(graph: Graph, number: int, operand: str, many: Many, free: int) -> int:
    """The mask of the nodes that make operand ``operand`` of a node, elementwise and for it alone, or for the
    caller too where ``many`` says that it may leave."""
    node, core, ops = graph.nodes[number], 1 << number, many.ops
    uid = node.operands.get(operand)
    if uid is None or isinstance(uid, tuple) or sum(uid in every(u) for u in node.operands.values()) > 1:
        return 0
    dims, free = graph.tensors[uid].dims, free & ancestors_of(graph, uid)
    if not many.leaves or not _leaves(graph, number, uid, ops, free):
        return sides(graph, core, dims, ops, free)
    maker = 1 << graph.producer[uid]
    return maker | sides(graph, core | maker, dims, ops, free & ~maker, maker)


def _leaves(graph: Graph, number: int, uid: int, ops: tuple, free: int) -> bool:
    """A node of these ops makes the tensor alone, in memory, and no node that reads it stands above node
    ``number``."""
    maker = graph.producer.get(uid)
    if maker is None or not free >> maker & 1 or graph.tensors[uid].is_virtual:
        return False
    node, readers = graph.nodes[maker], union(1 << j for j in graph.consumers[uid])
    return isinstance(node.op, ops) and len(node.writes) == 1 and not readers & graph.above[number]


def ancestors_of(graph: Graph, uid: int) -> int:
    """The nodes that a tensor's value depends on."""
    if uid not in graph.producer:
        return 0
    i = graph.producer[uid]
    return graph.above[i] | 1 << i


def widest_first(graph: Graph, nodes) -> list[int]:
    """The nodes by their output: the largest, which begin regions, first; of several the lowest."""
    return sorted(nodes, key=lambda i: (-graph.tensors[graph.nodes[i].writes[0]].count, i))


def connected(graph: Graph, first: int, free: int) -> int:
    """The nodes of ``free`` that a region of pointwise nodes which begins with node ``first`` may reach: each
    reads or writes what another does, and no other operation stands between."""
    found, new = 0, 1 << first
    while new:
        found |= new
        new = union(graph.beside[i] & ~graph.apart[i] for i in bits(new)) & free & ~found
    return found


def pointwise(graph: Graph, first: int, ops: tuple, free: int,
              closed=lambda region, more: True, has_room=anything) -> Iterator[int]:
    """Masks of regions of pointwise nodes, each larger than the one before, that begin with node ``first``:
    nodes of its dims that are connected with it or read what it reads. ``closed(region, more)``: nothing
    comes back into the Growing with the nodes ``more`` through others. ``has_room``: as for ``behind``, of
    the whole Border."""
    dims = graph.tensors[graph.nodes[first].writes[0]].dims
    uids = lambda mask: {u for i in bits(mask) for u in (*graph.nodes[i].reads, *graph.nodes[i].writes)}
    region = Growing(graph, 1 << first | sides(graph, 1 << first, dims, ops, free))
    border = Border(graph, free)
    border.take(region.mask)
    yield region.mask
    touched = uids(region.mask)
    for j in bits(free):
        if not has_room(border):
            return
        node = graph.nodes[j]
        if region.mask >> j & 1 or not isinstance(node.op, ops):
            continue
        if touched.isdisjoint(node.reads) and touched.isdisjoint(node.writes):
            continue
        if any(graph.tensors[u].dims != dims for u in node.writes):
            continue
        new = 1 << j
        new |= sides(graph, region.mask | new, dims, ops, free, new)
        if not region.comes_back(j, new) and closed(region, new):
            region.take(new)
            border.take(new)
            yield region.mask
            touched |= uids(new)
