"""Without a GPU: whatever an engine accepts, its plan packs: every kernel is in the manifest,
every argument and limit fits."""
from __future__ import annotations

import random
import zlib

import pytest

from cydnn import kernels, ops
from cydnn.device.facts import KNOWN
from cydnn.engines import TABLE, engines_for
from cydnn.steps import Launch, Memset, Pointer, Scalar
from cydnn.heuristics.cover import match_of
from support.draw import draw, gpu_draws
from support.matrix import graph_of

CARDS = ("h200", "a100", "t4")
DRAWS = 60


def plans_of(op):
    """(problem, engine, facts, steps) for random problems on several cards."""
    rng = random.Random(zlib.crc32(op.name.encode()))
    for _ in range(DRAWS):
        problem, facts = draw(op, rng), KNOWN[rng.choice(CARDS)]
        graph = graph_of(problem, {})
        match = match_of(graph, graph.nodes[0])
        for engine in engines_for(op):
            if engine.accepts(match, facts):
                yield problem, engine, facts, engine.plan(match, facts), match


@pytest.mark.parametrize("op", ops.OPS, ids=lambda o: o.name)
def test_every_accepted_problem_packs(op):
    ran = set()
    for problem, engine, facts, steps, match in plans_of(op):
        ran.add(engine.name)
        for step in steps:
            assert isinstance(step, (Launch, Memset)), (str(problem), engine)
            if isinstance(step, Memset):
                assert isinstance(step.pointer, Pointer) and step.bytes > 0
                continue
            kernel = kernels.get(step.kernel)
            packed = kernel.pack(step.args, **step.extra)
            assert kernel.image_for(facts.sm), (str(problem), step.kernel)
            total = packed.smem + kernel.image_for(facts.sm).smem_static
            assert total <= facts.smem_bytes, (str(problem), step.kernel, total)
            assert (all(isinstance(p, Pointer) for _, p in packed.pointers)
                    and all(isinstance(s, Scalar) for *_, s in packed.scalars))
        assert engine.cost(match, facts) > 0
    assert ran, f"no engine takes any {op.name}"


@pytest.mark.parametrize("op", ops.OPS, ids=lambda o: o.name)
def test_the_gpu_matrix_reaches_every_engine(op):
    """An engine that takes hardly any of the problems drawn for the GPU is not tested there."""
    taken = {e.name: 0 for e in engines_for(op)[:-1]}
    for problem in (p for part in range(4) for p in gpu_draws(op, part, 80)):
        graph = graph_of(problem, {})
        match = match_of(graph, graph.nodes[0])
        for engine in engines_for(op)[:-1]:
            taken[engine.name] += engine.accepts(match, KNOWN["h200"])
    assert min(taken.values()) >= 4, taken


def test_indexes_are_unique():
    assert len({e.index for e in TABLE}) == len(TABLE), sorted((e.index, e.name) for e in TABLE)


@pytest.mark.parametrize("op", ops.OPS, ids=lambda o: o.name)
def test_something_takes_every_problem(op):
    """The generic engines refuse nothing that the op allows, on the oldest card."""
    rng = random.Random(5)
    for _ in range(DRAWS):
        problem = draw(op, rng)
        graph = graph_of(problem, {})
        match = match_of(graph, graph.nodes[0])
        reasons = {e.name: next(iter(e.refuse(match, KNOWN["t4"])), None) for e in engines_for(op)}
        assert any(r is None for r in reasons.values()), f"{problem}: {reasons}"
