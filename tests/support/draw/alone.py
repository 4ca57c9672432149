"""An operation alone in a graph, as an engine sees it."""
from __future__ import annotations

from cydnn.bench import graph_of
from cydnn.engines import REFERENCE, TABLE, engines_for
from cydnn.graph import Graph, Match

BY_NAME = {engine.name: engine for engine in TABLE}


def match(problem, scalars=()) -> Match:
    """The match of a problem."""
    return Match.single(graph_of(problem, scalars))


def of(op, scalars=(), absent=(), alignment=16, **descs) -> Match:
    """The match of an op on descriptors by operand name."""
    return Match.single(Graph.single(op, descs, scalars, absent, alignment))


def takers(p: Match, facts) -> list:
    """The engines of the table that take it."""
    return [e for e in engines_for(p.op) if e is not REFERENCE and e.accepts(p, facts)]


def steps(engine, p: Match, facts, config=None) -> list:
    """What an engine does, in its best configuration or another."""
    return engine.plan(p, facts, engine.best(p, facts) if config is None else config)


def cost(engine, p: Match, facts) -> float:
    """The estimate of an engine's best configuration, in microseconds."""
    return engine.cost(p, facts, engine.best(p, facts))
