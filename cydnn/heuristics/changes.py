"""Graphs that are changed before they are covered: composed operations stand in the place of what they are
made of; a node that no engine takes is computed between casts, or replaced by what it is made of."""
from __future__ import annotations

from ..graph import Graph, lower
from ..graph.rules import composed, recognised
from ..status import NotSupported
from .cover import cheapest
from .offers import Offers
from .refusal import refuse

CHANGES = {"compose": composed, "cast": lower.cast, "lower": lower.lowered}
MOST_STUCK = 2                                   # nodes of no engine of which every change is followed


def covered(graph: Graph, facts, wish, is_brief=False) -> tuple:
    """(offers, changes, parts) of the cheapest cover: of the graph with or without the composed
    operations that its nodes amount to, and with nodes that no engine takes computed between casts, or
    replaced by what they are made of."""
    best = _settled(Offers(graph, facts, wish, is_brief), MOST_STUCK)
    if wish.mode == "fallback" or facts.kind != "cuda":
        return best
    changes: tuple = ()
    while True:
        found = next(((f"compose {i}", i) for i, _, _ in recognised(graph)), None)
        if found is None:
            return best
        graph, changes = composed(graph, found[1]), (*changes, found[0])
        offers, more, parts = _settled(best[0].of_graph(graph), MOST_STUCK)
        if _us(parts) < _us(best[2]):
            best = offers, (*changes, *more), parts


def _us(parts) -> float:
    return sum(p.us for p in parts)


def _settled(offers: Offers, both: int) -> tuple:
    """(offers, changes, parts) of a graph every node of which an engine takes after some changes.
    Where a node can be changed in two ways, both are followed, for ``both`` nodes; then the first. Raises
    NotSupported where all that is followed leads nowhere."""
    graph = offers.graph
    stuck = next((i for i in offers.anchors if not offers.anchored(i)), None)
    parts = cheapest(offers) if stuck is None or offers.is_last(stuck) else None
    if stuck is None and parts is not None:
        return offers, (), parts
    if stuck is None:
        stuck = next(i for i in range(len(graph.nodes)) if not offers.single(i))
    found, refusals = [(offers, (), parts)] if parts is not None else [], []
    ways = _ways(offers, stuck)
    for word, after in ways if both > 0 else ways[:1]:
        try:
            then, changes, others = _settled(after, both - 1)
            found.append((then, (word, *changes), others))
        except NotSupported as refusal:
            refusals.append(refusal)
    if not found:
        others = {node.label for i, node in enumerate(graph.nodes) if i != stuck}
        for refusal in refusals:
            if refusal.facts["node"] in others:  # what stands in the way is no change of this node
                raise refusal
        refuse(offers, stuck, refusals)
    return min(found, key=lambda row: _us(row[2]))


def _ways(offers: Offers, number: int) -> list:
    """[(word, offers for the graph then)]: a node between casts, where then an engine takes it;
    what it is made of."""
    graph, found = offers.graph, []
    node = graph.nodes[number]
    between = lower.cast(graph, number)
    if between is not None:
        again = next(i for i, n in enumerate(between.nodes) if n.op == node.op and n not in graph.nodes)
        if (then := offers.of_graph(between)).single(again):
            found.append((f"cast {number}", then))
    apart = lower.lowered(graph, number)
    if apart is not None:
        found.append((f"lower {number}", offers.of_graph(apart)))
    return found
