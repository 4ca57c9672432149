"""What was chosen and what engines said before: an equal graph gets its choices again, and no engine is asked
about a part that looks like an earlier one. Plain facts; no memory of a device is kept."""
from __future__ import annotations

from dataclasses import dataclass, replace

from ..graph import Graph
from ..locks import Bounded
from . import errata, tuned
from .changes import changed
from .choice import Choice
from .offers import TOLD
from .wish import Wish

CHOICES = Bounded(1024)                          # (way, key of the graph, facts, wish) -> Rows


@dataclass
class Rows:
    """The choices of a graph, and those of the equal graph that was last asked about."""
    first: tuple
    last: tuple


def remembered(way, graph: Graph, facts, wish: Wish) -> tuple[Choice, ...]:
    """``way(graph, facts, wish)``, choices of a graph, with the names that this graph has."""
    key = way, graph.key, facts, wish, tables_of(wish)
    rows = CHOICES.get(key)
    if rows is None:
        found = tuple(way(graph, facts, wish))
        rows = CHOICES.setdefault(key, Rows(found, found))
    for found in (rows.first, rows.last):
        if found[0].asked.names == graph.names:
            return found
    rows.last = found = tuple([choice.of_equal(graph, lambda c=choice: _made(c, graph))
                               for choice in rows.first])
    return found


def tables_of(wish: Wish) -> tuple:
    """The tables that choices of a wish depend on, as they are now: errata, and for mode B what is tuned."""
    return errata.current(), tuned.current() if wish.mode == "b" else None


def _made(choice: Choice, graph: Graph) -> tuple:
    """(graph that is covered, parts) of a choice for an equal graph."""
    for word in choice.changes:
        graph = changed(graph, word)
    return graph, tuple([replace(part, match=part.match.of_equal(graph)) for part in choice.parts])


def forget():
    """Empty the memory of the process."""
    CHOICES.clear()
    TOLD.clear()
