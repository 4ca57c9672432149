"""Graphs that are changed before they are covered: composed operations stand in the place of what they are
made of; a node that no engine takes is computed between casts, or replaced by what it is made of."""
from __future__ import annotations

from functools import lru_cache
from itertools import islice

from ..engines import REFERENCE, engines_for
from ..graph import Graph, bits, lower, merged, rules, union
from ..status import NotSupported
from .cover import cheapest
from .offers import Offers
from .refusal import refuse

MOST_STUCK = 2                                   # nodes of no engine of which every change is followed


@lru_cache(maxsize=None)
def served() -> tuple:
    """The composed operations that an engine computes on a GPU; others would be taken apart again."""
    return tuple(op for op in rules.COMPOSED if any(engine is not REFERENCE for engine in engines_for(op)))


CHANGES = {"compose": lambda graph, number: rules.composed(graph, number, served()), "cast": lower.cast,
           "lower": lower.lowered}


def changed(graph: Graph, word: str) -> Graph | None:
    """The graph after a change such as "lower 3"; None where there is nothing to change."""
    way, _, number = word.partition(" ")
    return CHANGES[way](graph, int(number))


def covered(graph: Graph, facts, wish, is_brief=False) -> tuple:
    """(offers, changes, parts) of the cheapest cover: of the graph with or without the composed
    operations that its nodes amount to, and with nodes that no engine takes computed between casts, or
    replaced by what they are made of; so are those of general engines where that is cheaper."""
    return _apart(*with_engines(graph, facts, wish, is_brief))


def with_engines(graph: Graph, facts, wish, is_brief=False) -> tuple:
    """``covered``, where what some engine takes is not replaced by what it is made of."""
    offers = Offers(graph, facts, wish, is_brief)
    plain, whole = _settled(offers, MOST_STUCK), (1 << len(graph.nodes)) - 1
    if wish.mode == "fallback" or facts.kind != "cuda":
        return plain
    after, words, found = _composed(offers, whole)
    if not words:
        return plain
    covers, gain = [plain, _settled_after(after, words)], whole
    if len(words) > 1:
        gain = _gain(found, *covers)
    if any(mask & gain for mask in found) and not all(mask & gain for mask in found):
        covers.insert(1, _settled_after(*_composed(offers, gain)[:2]))
    return min(covers, key=lambda row: _us(row[2]))


def _apart(offers: Offers, changes: tuple, parts) -> tuple:
    """The cover, or a cheaper one in which nodes of general engines are what they are made of: all of them,
    or those that are cheaper so."""
    best = offers, changes, parts
    nodes = [part.match.node for part in parts if part.engine.is_general]
    if not nodes or offers.wish.mode == "fallback":
        return best
    try:
        found = _lowered(offers, changes, nodes)
        if found is None:
            return best
        place = {node: offers.origin(1 << offers.graph.nodes.index(node)) for node in nodes}
        gain = _gain(place.values(), best, found)
        some = [node for node in nodes if place[node] & gain]
        mixed = _lowered(offers, changes, some) if 0 < len(some) < len(nodes) else None
    except NotSupported:                         # the engine is wished for, or others are not
        return best
    return min([best, found, *([mixed] if mixed else [])], key=lambda row: _us(row[2]))


def _lowered(offers: Offers, changes: tuple, nodes) -> tuple | None:
    """The cover of the graph with those of some nodes that are made of others as these; None where none is.
    Raises NotSupported."""
    words: tuple = ()
    for node in nodes:
        number = offers.graph.nodes.index(node)
        apart = lower.lowered(offers.graph, number)
        if apart is not None:
            words, offers = (*words, f"lower {number}"), offers.of_graph(apart)
    return _settled_after(offers, (*changes, *words)) if words else None


def _composed(offers: Offers, among: int) -> tuple:
    """(offers, changes, masks of the nodes that are gone) of the graph with the composed operations that some
    of the nodes amount to; one may stand on another."""
    words, found = (), []
    while rows := [row for row in rules.recognised(offers.graph, served())
                   if not offers.origin(row[2]) & ~among]:
        nodes, taken = offers.graph.nodes, 0
        for number, node, mask in rows:
            if not mask & taken:
                taken |= mask
                words = *words, f"compose {offers.graph.nodes.index(nodes[number])}"
                offers = offers.of_graph(rules.put(offers.graph, node, [nodes[i] for i in bits(mask)]))
                found.append(offers.origin(1 << offers.graph.nodes.index(node)))
    return offers, words, found


def _settled_after(offers: Offers, words: tuple) -> tuple:
    offers, changes, parts = _settled(offers, MOST_STUCK)
    return offers, (*words, *changes), parts


def _gain(found, plain, every) -> int:
    """The nodes around composed operations without which the graph would be dearer. Two covers are compared
    group by group: each has parts of its own for the nodes of a group, and for no others."""
    rows = [(offers.origin(part.region.mask), sign * part.us)
            for sign, (offers, _, parts) in ((1, every), (-1, plain)) for part in parts]
    groups = merged([*found, *(mask for mask, _ in rows)])
    return union(group for group in groups if sum([us for mask, us in rows if mask & group]) < 0)


def _us(parts) -> float:
    return sum(p.us for p in parts)


def _settled(offers: Offers, both: int) -> tuple:
    """(offers, changes, parts) of a graph every node of which an engine takes after some changes.
    Where a node can be changed in two ways, both are followed, for ``both`` nodes; then the first. Raises
    NotSupported where all that is followed leads nowhere."""
    graph = offers.graph
    stuck = next((i for i in offers.anchors if not offers.anchored(i)), None)
    if both <= 0 and (found := _settled_at_once(offers, both)):
        return found
    parts = cheapest(offers) if stuck is None or offers.is_last(stuck) else None
    if stuck is None and parts is not None:
        return offers, (), parts
    if stuck is None:
        stuck = next(i for i in range(len(graph.nodes)) if not offers.single(i))
    found, refusals = [(offers, (), parts)] if parts is not None else [], []
    for word, after in islice(_ways(offers, stuck), 2 if both > 0 else 1):
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


def _settled_at_once(offers: Offers, both: int) -> tuple | None:
    """``_settled`` where several nodes that share no tensor are changed in the first way: all of them before
    engines are asked again. None where there are none, or some cannot be changed: one by one it is seen
    which."""
    graph, words, beside = offers.graph, (), 0
    stuck = []
    for i in offers.anchors:
        if not (beside >> i & 1 or offers.anchored(i) or offers.is_last(i)):
            stuck.append(graph.nodes[i])
            beside |= graph.beside[i]
    if len(stuck) < 2:
        return None
    for node in stuck:
        way = next(_ways(offers, offers.graph.nodes.index(node)), None)
        if way is None:
            return None
        words, offers = (*words, way[0]), way[1]
    try:
        offers, changes, parts = _settled(offers, both)
    except NotSupported:
        return None
    return offers, (*words, *changes), parts


def _ways(offers: Offers, number: int):
    """(word, offers for the graph then): a node between casts, where then an engine takes it;
    what it is made of."""
    graph = offers.graph
    node = graph.nodes[number]
    between = lower.cast(graph, number)
    if between is not None:
        again = next(i for i, n in enumerate(between.nodes) if n.op == node.op and n not in graph.nodes)
        if (then := offers.of_graph(between)).single(again):
            yield f"cast {number}", then
    apart = lower.lowered(graph, number)
    if apart is not None:
        yield f"lower {number}", offers.of_graph(apart)
