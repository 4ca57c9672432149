"""Choices from their text: every line is checked against the graph and the engines
before anything is made of it."""
from __future__ import annotations

from ..engines import BY_INDEX, COMPOSITE, Config
from ..given import shown, text as read_text
from ..graph import Graph, Match, bits, grow
from ..ops import Pointwise
from ..status import BadParam, CydnnError
from . import errata
from .changes import CHANGES, changed
from .choice import Choice, Part, checked
from .cover import in_order


def parse(text: str, graph: Graph, facts) -> Choice:
    """The choice of a text for a graph on a device. Raises BadParam with the line that cannot be, and why."""
    asked, changes, parts, mode = graph, [], [], "a"
    for line in read_text("choice", text).splitlines():
        if line == "composite" and not (changes or parts):
            mode = "fallback"
        elif line.partition(" ")[0] in CHANGES and not parts:
            graph = _changed(graph, line)
            changes.append(line)
        else:
            parts.append(_part(line, graph, facts))
    _whole(graph, parts)
    return Choice(asked, graph, facts, tuple(parts), tuple(changes), mode)


def is_number(word: str) -> bool:
    """Digits that a choice would have; int() takes others too."""
    return word.isascii() and word.isdigit() and len(word) < 10


def _refuse(line, why):
    raise BadParam(f"choice: {why}; got {shown(line)}")


def _changed(graph, line):
    way, _, number = line.partition(" ")
    if not is_number(number) or int(number) >= len(graph.nodes):
        _refuse(line, f"{way} must name one of the nodes 0 to {len(graph.nodes) - 1}")
    found = changed(graph, line)
    if found is None:
        _refuse(line, f"{graph.nodes[int(number)].name} has nothing to {way}")
    return found


def _words(line: str) -> tuple:
    """(nodes, engine, words of the configuration) of a line."""
    head, _, tail = line.partition(":")
    words, rest = head.split(), tail.split()
    nodes = [int(w) for w in words[1:] if is_number(w)]
    is_part = words[:1] == ["part"] and nodes and len(words) == 1 + len(nodes)
    if not (is_part and rest and is_number(rest[0])):
        _refuse(line, "a line must be `part NODES: ENGINE [knob=value …]`")
    engine = BY_INDEX.get(int(rest[0]))
    if engine is None or engine is COMPOSITE:
        _refuse(line, f"there must be an engine {rest[0]}")
    return nodes, engine, " ".join(rest[1:])


def _part(line, graph, facts) -> Part:
    nodes, engine, words = _words(line)
    if max(nodes) >= len(graph.nodes):
        _refuse(line, f"nodes must be below {len(graph.nodes)}")
    match = _match(line, graph, sum({1 << i for i in nodes}), engine)
    reasons = ("it does not take nodes like these",)
    if engine.fits(match):
        reasons = errata.reasons(engine, match, facts)
    if reasons:
        _refuse(line, f"{engine} must take its nodes: {'; '.join(reasons)}")
    try:
        return Part(match, engine, *checked(match, engine, Config.parse(words, engine.knobs), facts))
    except CydnnError as error:
        _refuse(line, error.args[0])


def _match(line, graph, mask, engine) -> Match:
    """The match of a mask: its anchor, what is in front of it, and the rest behind."""
    inside = list(bits(mask))
    anchors = [i for i in inside if i in graph.anchors]
    last = [i for i in anchors[1:] if isinstance(graph.nodes[i].op, getattr(engine.takes, "last", ()))][:1]
    anchors = [i for i in anchors if i not in last]
    if len(inside) == 1:
        return Match.single(graph, inside[0])
    if not anchors:
        *_, widest = grow.pointwise(graph, grow.widest_first(graph, inside)[0], (Pointwise,), mask)
        if widest != mask:
            _refuse(line, "its nodes must be one region")
        return Match.elementwise(graph, mask)
    if len(anchors) > 1:
        named = ", ".join(graph.nodes[i].name for i in anchors)
        _refuse(line, f"at most one node may be no pointwise operation: {named}")
    anchor, takes = anchors[0], getattr(engine.takes, "before", None)
    end = sum(1 << i for i in last)
    free = mask & ~(1 << anchor | end)
    fronts = {o: grow.before(graph, anchor, o, takes, free) for o in (takes.at if takes else ())}
    fronts = {o: m for o, m in fronts.items() if m}
    ways = [1 << anchor, *grow.behind(graph, anchor, (Pointwise,), free & ~sum(fronts.values()))]
    is_whole = ways[-1] | sum(fronts.values()) | end == mask
    if not is_whole or end and mask not in grow.last(graph, anchor, mask & ~end, engine.takes.last, end):
        _refuse(line, f"its nodes must be {graph.nodes[anchor].name} and what is fused around it")
    return Match.around(graph, anchor, mask, fronts)


def _whole(graph, parts):
    """Every node is in one part, and no part comes before what it reads."""
    masks = [p.region.mask for p in parts]
    for i, node in enumerate(graph.nodes):
        count = sum(mask >> i & 1 for mask in masks)
        if count != 1:
            raise BadParam(f"choice: every node must be in one part; got {node.name} (node {i}) in {count}")
    if (order := in_order(graph, masks)) != list(range(len(masks))):
        way = f"run as {', '.join(map(str, order))}" if order else "wait for each other"
        raise BadParam(f"choice: its parts must stand in the order in which they run; got parts that {way}")
