"""What the search passes over cannot win: an engine's least cost, and the first choice of all."""
from __future__ import annotations

import random

import pytest

from cydnn.device.facts import KNOWN
from cydnn.engines import engines_for
from cydnn.graph import Match
from cydnn.heuristics import best, candidates
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad, Matmul
from support.draw.dags import dag
from support.draw import draw
from support.check.matrix import graph_of

GPUS = [KNOWN[name] for name in ("t4", "a100", "h200")]


@pytest.mark.parametrize("op", [ConvFprop, ConvDgrad, ConvWgrad, Matmul], ids=lambda op: op.name)
def test_no_engine_costs_less_than_it_says(op):
    rng, asked = random.Random(7), 0
    for _ in range(60):
        graph = graph_of(draw(op, rng))
        match = Match.single(graph, 0)
        for facts in GPUS:
            for engine in (e for e in engines_for(op) if e.accepts(match, facts)):
                least, cost = engine.least_us(match, facts), min(
                    engine.cost(match, facts, config) for config in engine.configs(match, facts))
                assert least <= cost, (engine, match, facts.name)
                asked += least > 0
    assert asked > 100


@pytest.mark.parametrize("seed", range(60))
def test_the_best_choice_is_the_first_of_all(seed):
    graph, _ = dag(seed)
    for facts in GPUS:
        assert best(graph, facts).text == candidates(graph, facts)[0].text
