"""The problems in a kernel's contract that launch it: with which engine, in which configuration. Pure functions of plans; no GPU needed."""
from __future__ import annotations

from typing import NamedTuple

from cydnn import kernels, ops
from cydnn.bench import graph_of
from cydnn.engines import engines_for
from cydnn.engines.engine import Engine
from cydnn.engines.steps import Launch
from cydnn.heuristics.partition import match_of


class Case(NamedTuple):
    """``plan.build(graph_of(problem), device, only=(engine,), config=config)`` launches ``kernel``."""
    kernel: str
    problem: ops.Problem
    engine: Engine
    config: dict

    def __str__(self):
        return f"{self.kernel}: {self.problem} {self.engine}" + "".join(f" {k}={v}" for k, v in self.config.items())


def cases(kernel: str, facts) -> list[Case]:
    """Cases of each problem line in the kernel's contract on a device: one for each number of launches, so alone and among helpers."""
    found = {}
    for case, launches in every_case(kernel, facts):
        found.setdefault((case.problem, launches), case)
    return list(found.values())


def every_case(kernel: str, facts):
    """(case, number of launches) of every problem line with every engine and configuration that launches the kernel."""
    for line in kernels.get(kernel).problems:
        yield from _of_line(kernel, ops.Problem.parse(line), facts)


def _of_line(kernel, problem, facts):
    graph = graph_of(problem)
    match = lambda: match_of(graph, graph.nodes[0])
    for engine in engines_for(problem.op)[:-1]:
        if engine.accepts(match(), facts):
            for config in [{}, *engine.configs(match(), facts)]:
                launches = [s.kernel for s in engine.plan(match(), facts, **config) if isinstance(s, Launch)]
                if kernel in launches:
                    yield Case(kernel, problem, engine, config), len(launches)
