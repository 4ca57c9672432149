"""Rows of layer, RMS and instance norm in registers, on the interpreter: random problems, when eight
neighbours are one access, what is chosen, and two launches of a gradient."""
from __future__ import annotations

import random

import pytest

from cydnn import device as devices, ops
from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.heuristics import best
from cydnn.ops import Problem
from support.check import matrix
from support.draw import alone, draw

H200 = KNOWN["h200"]


def drawn(engine, rng):
    while True:
        problem = draw(engine.op, rng)
        if (max(d.count for d in problem.descs) <= 3000
                and not list(engine.refuse(alone.match(problem), H200))):
            return problem


@pytest.mark.parametrize("index", [400, 405])
@pytest.mark.parametrize("seed", range(16))
def test_random_problems(index, seed):
    rng, engine = random.Random(seed), BY_INDEX[index]
    problem = drawn(engine, rng)
    for config in engine.configs(alone.match(problem), H200):
        found = matrix.run(problem, devices.get("ptx:sm_90"), seed, [engine], config)
        assert found.ran and not found.findings, (str(problem), found.findings)


@pytest.mark.parametrize("line, lanes", [
    ("norm_fwd 5x64 bf16", 8), ("norm_fwd 5x65 bf16", 1), ("norm_fwd x=5x64:bf16@72,1", 8),
    ("norm_fwd x=5x64:bf16@68,1", 1), ("norm_fwd x=2x16x3x3:f16@nhwc", 8),
    ("norm_fwd x=2x12x3x2:f16@nhwc", 1),
    ("norm_fwd x=2x16x4x4:f16@nhwc mode=instance axis=2", 1), ("norm_fwd 5x64 bf16 align=8", 1)])
def test_eight_neighbours_are_one_access(line, lanes):
    assert BY_INDEX[400].best(alone.match(Problem.parse(line)), H200).channels == lanes


@pytest.mark.parametrize("line, text", [
    ("norm_fwd 16384x4096 bf16", "part 0: 400 channels=8 cluster=1"),
    ("norm_bwd 16384x4096 bf16", "part 0: 405 channels=8 cluster=1"),
    ("norm_bwd 16384x4096 bf16 mode=rms", "part 0: 405 channels=8 cluster=1"),
    ("norm_bwd 64x512x1024 bf16 mode=ada_layer axis=2", "part 0: 405 channels=8 cluster=1"),
    ("norm_bwd 16384x4095 bf16", "part 0: 405 channels=1 cluster=1")])
def test_choices(line, text):
    assert best(graph_of(Problem.parse(line)), H200).text == text


@pytest.mark.parametrize("line, launches", [
    ("norm_bwd 9x64 f16", 2), ("norm_bwd 9x64 f16 dscale=none dbias=none", 1),
    ("norm_bwd 3x9x64 f16 mode=ada_layer axis=2", 2)])
def test_launches_of_a_gradient(line, launches):
    engine = BY_INDEX[405]
    assert engine.op is ops.NormBwd
    assert len(alone.steps(engine, alone.match(Problem.parse(line)), H200)) == launches
