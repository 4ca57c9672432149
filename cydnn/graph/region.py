"""Regions: convex sets of nodes, what crosses their border, what must move."""
from __future__ import annotations

from dataclasses import dataclass

from ..locks import once
from .graph import Graph


def bits(mask: int):
    """The numbers of the set bits, the lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def union(masks) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def merged(masks) -> list[int]:
    """Masks of which no two have a bit in common: those that have one are one."""
    found: list[int] = []
    for mask in masks:
        apart = []
        for other in found:
            if mask & other:
                mask |= other
            else:
                apart.append(other)
        found = [*apart, mask]
    return found


@dataclass(frozen=True)
class Region:
    """Nodes of a graph, as a mask (bit i: node i). Convex: nothing that leaves it comes back into it.

    ``inputs``: uids needed from outside; ``outputs``: uids that it writes and someone outside needs (the
    caller, or another node: such an output may be virtual), or, where nobody needs any, what it ends with;
    ``inner``: virtual uids that live inside only.
    """
    graph: Graph
    mask: int

    @once
    def nodes(self) -> tuple:
        """Numbers of the nodes, in the order of the graph."""
        return tuple(bits(self.mask))

    @once
    def writes(self) -> tuple:
        return tuple([u for i in self.nodes for u in self.graph.nodes[i].writes])

    @once
    def inputs(self) -> tuple:
        own = set(self.writes)
        needs = (u for i in self.nodes for u in self.graph.needs(self.graph.nodes[i]))
        return tuple(dict.fromkeys(u for u in needs if u not in own))

    @once
    def outputs(self) -> tuple:
        g = self.graph
        leaves = lambda u: any(not self.mask >> j & 1 for j in g.consumers[u])
        needed = tuple([u for u in self.writes if not g.tensors[u].is_virtual or leaves(u)])
        return needed or tuple([u for u in self.writes if not g.consumers[u]])

    @once
    def inner(self) -> tuple:
        out = set(self.outputs)
        return tuple([u for u in self.writes if u not in out])

    @once
    def above(self) -> int:
        """All nodes that its nodes wait for, as a mask."""
        return union(self.graph.above[i] for i in self.nodes)

    @once
    def below(self) -> int:
        """All nodes that wait for its nodes, as a mask."""
        return union(self.graph.below[i] for i in self.nodes)

    @property
    def is_convex(self) -> bool:
        return not self.above & self.below & ~self.mask

    @once
    def traffic_bytes(self) -> int:
        """Bytes that must move: every tensor in memory at the border, once."""
        tensors = self.graph.tensors
        return sum(tensors[u].dtype.bytes_of(tensors[u].count) for u in (*self.inputs, *self.outputs)
                   if not tensors[u].is_by_value)

    def __contains__(self, node: int) -> bool:
        return bool(self.mask >> node & 1)
