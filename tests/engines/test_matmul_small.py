"""A warp for each product of small matrices, on the interpreter: random strides, batches and graphs, what is
refused, and when it is chosen."""
from __future__ import annotations

import random

import pytest

from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.heuristics import best
from cydnn.ops import Matmul, Problem
from cydnn.tensor import TensorDesc
from support.check import hopper
from support.draw.alone import match
from support.check.matrix import blended, plain

SMALL, H200 = BY_INDEX[188], KNOWN["h200"]


def spread(rng, kind, dims) -> TensorDesc:
    """In any order of dims, with gaps."""
    step, strides = 1, [0] * len(dims)
    for axis in rng.choice([sorted(range(len(dims)), reverse=True), rng.sample(range(len(dims)), len(dims))]):
        strides[axis] = step
        step = step * dims[axis] + rng.choice([0, 0, 4, 3])
    return TensorDesc(kind, dims, strides)


def drawn(rng) -> Problem:
    kind, batch = rng.choice(["f16", "bf16"]), tuple(rng.randint(1, 4) for _ in range(rng.randint(0, 4)))
    m, n, k = rng.randint(1, 32), rng.randint(1, 32), rng.choice([0, 1, 8, 16, rng.randint(1, 70)])
    one = lambda: tuple(1 if rng.random() < 0.2 else d for d in batch)
    of = lambda dims: spread(rng, kind, dims)
    a, b = one(), one()
    return Problem(Matmul(), dict(a=of((*a, m, k)), b=of((*b, k, n)), c=of((*map(max, a, b), m, n))))


@pytest.mark.parametrize("seed", range(60))
def test_random_problems(seed):
    rng = random.Random(seed)
    problem = drawn(rng)
    hopper.check(SMALL, problem, SMALL.best(match(problem), H200), rng.choice([plain, blended]), seed=seed)


@pytest.mark.parametrize("line", ["matmul a=9x16x16 b=9x16x16 c=9x16x16 f16",
                                  "matmul a=5x32x64 b=5x64x24@1536,1,64 c=5x32x24 bf16",
                                  "matmul a=5x30x64 b=5x64x24 c=5x30x24@720,1,30 bf16"])
def test_whole_vectors_and_columns(line):
    problem = Problem.parse(line)
    hopper.check(SMALL, problem, SMALL.best(match(problem), H200), blended)


def test_graphs_behind_it():
    hopper.check_graphs(SMALL, Matmul, count=8, seeds=800)


REFUSED = [
    ("matmul a=3x33x8 b=3x8x8 c=3x33x8 f16", "m must be at most 32; got 33"),
    ("matmul a=3x8x8 b=3x8x40 c=3x8x40 f16", "n must be at most 32; got 40"),
    ("matmul a=3x8x8 b=3x8x8 c=3x8x8 f32", "a must be one of f16 bf16; got f32"),
]


@pytest.mark.parametrize("line, sentence", REFUSED)
def test_refused(line, sentence):
    assert sentence in "; ".join(SMALL.reasons(match(Problem.parse(line)), H200))


@pytest.mark.parametrize("line, chosen", [("matmul a=16384x16x16 b=16384x16x16 c=16384x16x16 f16", True),
                                          ("matmul a=16384x32x32 b=16384x32x32 c=16384x32x32 bf16", True),
                                          ("matmul a=16x8192 b=8192x16 c=16x16 bf16", False)])
def test_many_small_ones_are_its_own(line, chosen):
    assert (best(graph_of(Problem.parse(line)), H200).parts[0].engine is SMALL) == chosen
