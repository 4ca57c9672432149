"""Matrix products on Hopper's tensor cores of operands that TMA cannot read, on the interpreter: random
strides and batches, what is copied, what is refused, and when it is chosen."""
from __future__ import annotations

import random

import pytest

from cydnn.bench import graph_of
from cydnn.engines import BY_INDEX
from cydnn.heuristics import best
from cydnn.ops import Matmul, Problem
from cydnn.tensor import TensorDesc
from support.check import hopper
from support.draw.alone import match, steps
from support.check.hopper import H200
from support.check.matrix import blended, plain

REPACK = BY_INDEX[187]


def spread(rng, kind, dims) -> TensorDesc:
    """In some order of dims, with gaps, or as it comes."""
    step, strides, order = 1, [0] * len(dims), list(range(len(dims)))[::-1]
    if rng.random() < 0.5:
        order[:2] = order[1::-1]
    if rng.random() < 0.2:
        rng.shuffle(order)
    for axis in order:
        strides[axis] = step
        step = step * dims[axis] + rng.choice([0, 0, 3])
    return TensorDesc(kind, dims, strides)


def drawn(rng) -> Problem:
    kind, batch = rng.choice(["f16", "bf16"]), tuple(rng.randint(1, 3) for _ in range(rng.randint(0, 2)))
    m, n, k = (rng.choice([rng.randint(1, 40), rng.randint(60, 150)]) for _ in range(3))
    one = lambda: tuple(1 if rng.random() < 0.2 else d for d in batch)
    a, b = one(), one()
    out = rng.choice([kind, kind, "f32"])
    return Problem(Matmul(), dict(a=spread(rng, kind, (*a, m, k)), b=spread(rng, kind, (*b, k, n)),
                                  c=spread(rng, out, (*map(max, a, b), m, n))))


@pytest.mark.share(12)
@pytest.mark.parametrize("seed", range(30))
def test_random_problems(seed):
    hopper.check_drawn(REPACK, drawn, seed)


@pytest.mark.parametrize("line, copies", [
    ("matmul a=37x41 b=41x43 c=37x43 f16", 2), ("matmul a=37x40 b=40x43 c=37x43 bf16", 1),
    ("matmul a=37x40 b=40x43@1,41 c=37x43 bf16", 1), ("matmul a=3x20x72@1441,72,1 b=3x72x24 f16", 1),
    ("matmul a=20x72:f16@144,2 b=72x24 f16", 1)])
def test_what_is_copied(line, copies):
    problem = Problem.parse(line)
    assert len(steps(REPACK, match(problem), H200)) == copies + 1
    for numbers in (plain, blended):
        hopper.check(REPACK, problem, REPACK.best(match(problem), H200), numbers)


def test_graphs_behind_it():
    hopper.check_graphs(REPACK, Matmul, count=5, seeds=800)


@pytest.mark.parametrize("line, sentence", [
    ("matmul a=40x64 b=64x40 f16", "TMA reads a and b where they lie; matmul_wgmma takes them without a"),
    ("matmul a=41x43 b=43x41 f32", "a must be one of f16 bf16; got f32"),
    ("matmul a=3x0 b=0x5 f16", "k must be at least 1; got 0")])
def test_refused(line, sentence):
    assert sentence in "; ".join(REPACK.reasons(match(Problem.parse(line)), H200))


def test_odd_strides_are_its_own():
    line = "matmul a=4097x4099 b=4099x4095 bf16"
    assert best(graph_of(Problem.parse(line)), H200).parts[0].engine is REPACK
