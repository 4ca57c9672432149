"""What was chosen and what engines said before: an equal graph gets its choices again, and no engine is asked
about a part that looks like an earlier one. Plain facts; no memory of a device is kept."""
from __future__ import annotations

from dataclasses import replace

from ..graph import Graph
from ..locks import Bounded
from .changes import changed
from .choice import Choice
from .offers import TOLD
from .wish import Wish

CHOICES = Bounded(1024)                          # (way, key of the graph, facts, wish) -> choices


def remembered(way, graph: Graph, facts, wish: Wish) -> tuple[Choice, ...]:
    """``way(graph, facts, wish)``, choices of a graph, with the names that this graph has."""
    key = way, graph.key, facts, wish
    found = CHOICES.get(key)
    if found is None:
        found = CHOICES.setdefault(key, tuple(way(graph, facts, wish)))
    if found[0].asked.names != graph.names:
        found = CHOICES[key] = tuple([_of_equal(choice, graph) for choice in found])
    return found


def _of_equal(choice: Choice, graph: Graph) -> Choice:
    """The choice of an equal graph."""
    after = graph
    for word in choice.changes:
        after = changed(after, word)
    parts = tuple([replace(part, match=part.match.of_equal(after)) for part in choice.parts])
    return replace(choice, asked=graph, graph=after, parts=parts)


def forget():
    """Empty the memory of the process."""
    CHOICES.clear()
    TOLD.clear()
