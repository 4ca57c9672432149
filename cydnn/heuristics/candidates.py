"""The room that chooses: whole-graph choices, the cheapest first.
A pure function of graph, device facts and wish."""
from __future__ import annotations

from dataclasses import replace

from ..graph import Graph
from ..status import BadParam, NotSupported
from .changes import covered, with_engines
from .choice import Choice, Part, checked
from .cover import cheapest
from . import tuned
from .memory import remembered
from .offers import Offers
from .wish import ANYTHING, Wish


def candidates(graph: Graph, facts, wish: Wish = ANYTHING) -> list[Choice]:
    """Every choice worth a look, the cheapest first, in mode B behind the one that was measured: the cheapest
    cover, one for each other engine that could compute its costliest part, one in which what engines take is
    not lowered, and node by node. None needs more workspace than is wished for. Raises NotSupported with
    what each engine said, BadParam for a configuration that the engine does not offer. An equal graph gets
    what was found before, with its own names."""
    return list(remembered(_measured_first, graph, facts, wish))


def _candidates(graph: Graph, facts, wish: Wish) -> list[Choice]:
    offers, changes, parts = covered(graph, facts, wish)
    make = lambda parts, mode=wish.mode: Choice(graph, offers.graph, facts, tuple(parts), changes, mode)
    found = [make(_configured(parts, wish, facts))]
    if wish.config is None:
        others = (cheapest(offers, allows) for allows in _others(offers, parts))
        found += [make(other) for other in others if other]
    if any(word.startswith("lower") for word in changes) and wish.config is None:
        whole, kept, parts = with_engines(graph, facts, wish)
        found.append(Choice(graph, whole.graph, facts, tuple(parts), kept, wish.mode))
    if wish.mode != "fallback" and len(graph.nodes) > 1 and wish.config is None:
        found += _fallback(graph, facts, wish)
    if wish.workspace_bytes is not None and wish.config is None:
        found = [slimmer(c, wish.workspace_bytes) for c in found]
    fits = [c for c in found if wish.workspace_bytes is None or c.workspace_bytes <= wish.workspace_bytes]
    if not fits:
        least = min(c.workspace_bytes for c in found)
        raise NotSupported(f"graph: no choice needs at most {wish.workspace_bytes} bytes of workspace; "
                           f"the least is {least} bytes", reasons=[])
    unique: dict = {}
    for choice in fits:
        unique.setdefault(choice.text, choice)
    return sorted(unique.values(), key=lambda c: c.us)


def _measured_first(graph, facts, wish) -> list[Choice]:
    """The choices of the cost model behind the one of the tuned table, where that has one."""
    measured, found = _measured(graph, facts, wish), []
    try:
        found = _candidates(graph, facts, wish)
    except NotSupported:
        if measured is None:
            raise
    return found if measured is None else [measured, *(c for c in found if c.text != measured.text)]


def _measured(graph, facts, wish) -> Choice | None:
    """The choice of the tuned table, where that has one that counts."""
    return tuned.choice_of(graph, facts, wish, lambda: best(graph, facts))


def best(graph: Graph, facts, wish: Wish = ANYTHING) -> Choice:
    """The first of ``candidates``, without making the others where it fits."""
    return remembered(_best, graph, facts, wish)[0]


def _best(graph: Graph, facts, wish: Wish) -> list[Choice]:
    measured = _measured(graph, facts, wish)
    if measured is not None:
        return [measured]
    offers, changes, parts = covered(graph, facts, wish, is_brief=True)
    choice = Choice(graph, offers.graph, facts, tuple(_configured(parts, wish, facts)), changes, wish.mode)
    if wish.workspace_bytes is None or choice.workspace_bytes <= wish.workspace_bytes:
        return [choice]
    return candidates(graph, facts, wish)[:1]


def slimmer(choice: Choice, limit: int) -> Choice:
    """The choice with configurations that need at most ``limit`` bytes of workspace, where there are such;
    each the cheapest of its engine that leaves room for the parts behind it at their least."""
    if choice.workspace_bytes <= limit:
        return choice
    alone = lambda part: replace(choice, parts=(part,)).workspace_bytes
    parts = [min(_forms(part, choice.facts), key=alone) for part in choice.parts]
    for k, part in enumerate(choice.parts):
        tries = ([*parts[:k], form, *parts[k + 1:]] for form in (part, *_forms(part, choice.facts)))
        fits = (t for t in tries if replace(choice, parts=tuple(t)).workspace_bytes <= limit)
        parts = next(fits, parts)
    return replace(choice, parts=tuple(parts))


def _forms(part: Part, facts) -> list:
    """A part in every configuration that its engine offers, the cheapest first."""
    match, engine = part.match, part.engine
    found = [Part(match, engine, c, engine.cost(match, facts, c)) for c in engine.configs(match, facts)]
    return sorted(found, key=lambda part: part.us)


def _others(offers: Offers, parts):
    """What a cover must keep to, so that another engine computes the costliest anchor (or
    region, where there is none)."""
    anchored = [p for p in parts if p.region.mask & ~offers.pointwise] or parts
    main = max(anchored, key=lambda p: p.us)
    number = next((i for i in offers.anchors if i in main.region), main.region.nodes[0])
    rivals = offers.anchored(number) if number in offers.anchors else offers.elementwise(main.region.mask)
    for index in dict.fromkeys(p.engine.index for p in rivals):
        if index != main.engine.index:
            yield lambda part, index=index: number not in part.region or part.engine.index == index


def _fallback(graph, facts, wish) -> list:
    """Node by node, where every node has an engine of its own."""
    try:
        offers, changes, parts = covered(graph, facts, replace(wish, mode="fallback"))
    except NotSupported:
        return []
    return [Choice(graph, offers.graph, facts, tuple(parts), changes, "fallback")]


def _configured(parts, wish, facts) -> list:
    """The parts with the configuration that is wished for."""
    if wish.config is None:
        return parts
    if len(parts) > 1:
        engines = " ".join(str(p.engine) for p in parts)
        raise BadParam(f"build: config must belong to one engine; "
                       f"got {wish.config} for the engines {engines}")
    part, = parts
    return [Part(part.match, part.engine, *checked(part.match, part.engine, wish.config, facts))]
