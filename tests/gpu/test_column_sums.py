"""Sums of columns behind Hopper's tile program on the GPU: random products, tails and configurations, of
whole numbers and of others, and the same bits every time.

``CYDNN_PROBLEMS`` graphs of each engine (default 160), a fifth of ``CYDNN_REPEATS`` (50) runs of
each way that a large one has.
"""
from __future__ import annotations

import os
import random

import numpy as np
import pytest

from cydnn import plan
from cydnn.engines import BY_INDEX
from cydnn.ops import Problem
from support.draw import graphs
from support.check import sums

from test_tile_program import drawn, ways

pytestmark = pytest.mark.gpu
PROBLEMS = int(os.environ.get("CYDNN_PROBLEMS", "160"))
REPEATS = int(os.environ.get("CYDNN_REPEATS", "50"))
LARGE = ["conv_fprop n32c64h56w56 k256r1s1 bf16 nhwc", "conv_fprop n32c128h28w28 k128r3s3 pad1 f16 nhwc",
         "conv_dgrad n32c72h28w28 k128r3s3 pad1 bf16 nhwc", "matmul a=5000x1024 b=1024x1000 c=5000x1000 f16"]


def graph_drawn(engine, rng, facts):
    """(graph, configuration) that the engine takes."""
    while True:
        problem = drawn(engine, rng)
        out = problem.operands[problem.op.writes[0]]
        kind = problem.operands[problem.op.reads[0]].dtype.name
        kept = rng.choice(["memory", "memory", "virtual"])
        if out.count > 4e6 or kept == "memory" and out.dtype.name != kind and rng.random() < 0.5:
            continue
        end = "bias" if engine.op.name == "matmul" and out.rank > 2 else rng.choice(sums.ENDS)
        graph = sums.graph_of(problem, rng.choice(sums.TAILS), end, kept,
                              rng.choice(["f32", kind]))
        kind = sums.between(engine, problem)
        graph = sums.fronted(graph, kind) if kind else graph
        match = sums.whole(graph)
        if engine.fits(match) and engine.accepts(match, facts):
            return graph, rng.choice(list(engine.configs(match, facts)))


@pytest.mark.parametrize("index", sums.INDEX.values())
def test_random_graphs(index, hopper, family_counts):
    engine, rng, wrong = BY_INDEX[index], random.Random(f"sums {index}"), []
    for seed in range(PROBLEMS):
        graph, config = graph_drawn(engine, rng, hopper.facts)
        found = sums.differences(hopper, graph, lambda c, config=config: c == config, engine)
        wrong += [f"{graph.nodes[0]} {config} seed={seed}: {text}" for text in found]
        plan.forget()
    family_counts[f"sums of columns/{engine}"] = dict(problems=PROBLEMS, engine_runs=PROBLEMS,
                                                       wrong=len(wrong))
    assert not wrong, f"{len(wrong)} findings:\n" + "\n".join(wrong[:12])


@pytest.mark.parametrize("tail, end", [("", "stats"), ("relu", "stats"), ("relu_bwd", "bias")])
@pytest.mark.parametrize("line", LARGE)
def test_random_numbers_and_the_same_bits(line, tail, end, hopper):
    """The sums are those of what is stored, and of each configuration the same in every run."""
    graph = sums.graph_of(Problem.parse(line), tail, end)
    rng = np.random.default_rng(0)
    values = sums.values_of(graph, rng, lambda dims: rng.normal(0.25, 1, dims))
    part = sums.choice_of(graph, hopper.facts).parts[0]
    for config in ways(part.engine, part.match, hopper.facts):
        choice = sums.choice_of(graph, hopper.facts, is_meant=lambda c, config=config: c == config)
        placed = graphs.Placed(plan.made(choice, hopper), values)
        placed.execute()
        first = placed.raw()
        assert not sums.too_far(graph, placed.found()), config
        for _ in range(REPEATS // 5):
            placed.clear(), placed.execute()
            again = placed.raw()
            assert all(np.array_equal(again[uid], first[uid]) for uid in first), config
