"""Which shipped kernels do the GPU tests and benchmarks launch on an H200, and which not? ``cd tests; python -m support.reached``.

Plans are pure functions, so this needs no GPU. Fused graphs and the legacy tests are not counted: they add few kernels of their own.
"""
from __future__ import annotations

from pathlib import Path

from cydnn import kernels, ops
from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.engines import engines_for
from cydnn.engines.steps import Launch
from cydnn.heuristics import rank
from cydnn.heuristics.partition import match_of

from .draw import gpu_draws

FACTS = KNOWN["h200"]
PROBLEMS = Path(__file__).resolve().parents[2] / "benchmarks" / "problems"


def launched(problem, best_only: bool) -> set[str]:
    """Kernels of every engine that accepts a problem, or of the one that mode A puts first."""
    graph = graph_of(problem)
    match = lambda: match_of(graph, graph.nodes[0])
    engines = [rank(match(), FACTS)[0][0][1]] if best_only else [e for e in engines_for(problem.op) if e.accepts(match(), FACTS)]
    return {s.kernel for e in engines for s in e.plan(match(), FACTS) if isinstance(s, Launch)}


def main():
    found = set().union(*(launched(p, False) for op in ops.OPS for part in range(4) for p in gpu_draws(op, part, 80)))
    lines = [line.split("#")[0].strip() for path in PROBLEMS.glob("*.txt") for line in path.read_text().splitlines()]
    found |= set().union(*(launched(ops.Problem.parse(line), True) for line in lines if line))
    missing = sorted(set(kernels.names()) - found)
    print("\n".join(missing), f"\n{len(missing)} of {len(kernels.names())} shipped kernels are launched by no GPU problem", sep="")


if __name__ == "__main__":
    main()
