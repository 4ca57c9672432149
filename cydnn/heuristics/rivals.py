"""The choices of a graph that are worth measuring against each other."""
from __future__ import annotations

from dataclasses import replace

from ..given import whole
from ..graph import Graph
from ..status import BadParam
from .candidates import candidates
from .choice import Choice, Part
from .knobs import main_part
from .wish import ANYTHING, Wish


FAR = 4.0                                        # times the best estimate: the model is not that far off


def rivals(graph: Graph, facts, wish: Wish = ANYTHING, most: int = 20) -> list[Choice]:
    """At most so many: first what the cost model takes; then its other candidates, for half of the places;
    then all of them in the configurations of their main parts, the cheapest by its estimates first; none that
    it takes for four times as slow as its own. Raises NotSupported."""
    most = whole("tune: most", most)
    if most < 1:
        raise BadParam(f"tune: most must be >= 1; got {most}")
    wish = replace(wish, mode="a" if wish.mode == "b" else wish.mode)
    found = candidates(graph, facts, wish)
    found = [choice for choice in found if choice.us <= FAR * found[0].us]
    forms = sorted((form for choice in found for form in _forms(choice, wish)), key=lambda choice: choice.us)
    kept: dict = {}
    for choice in [*found[:1 + most // 2], *forms, *found]:
        if choice.us <= FAR * found[0].us:
            kept.setdefault(choice.text, choice)
    return list(kept.values())[:most]


def _forms(choice: Choice, wish: Wish) -> list[Choice]:
    """A choice with its main part in every configuration that is offered."""
    part = main_part(choice)
    match, engine, facts = part.match, part.engine, choice.facts
    others = [Part(match, engine, config, engine.cost(match, facts, config))
              for config in engine.configs(match, facts) if config != part.config]
    forms = [replace(choice, parts=tuple([other if p is part else p for p in choice.parts]))
             for other in others]
    limit = wish.workspace_bytes
    return [form for form in forms if limit is None or form.workspace_bytes <= limit]
