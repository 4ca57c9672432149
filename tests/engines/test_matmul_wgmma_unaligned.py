"""Matrix products on Hopper's tensor cores of operands that lie anywhere, read without a copy, on the
interpreter: random strides, batches and addresses, more tiles than blocks, what is refused, when it is
chosen."""
from __future__ import annotations

import pytest

from cydnn.bench import graph_of
from cydnn.engines import BY_INDEX
from cydnn.heuristics import best
from cydnn.ops import Matmul, Problem
from support.check import hopper
from support.draw.alone import match, steps
from support.check.hopper import H200
from support.check.matrix import blended, plain

from test_matmul_wgmma_repack import drawn

UNALIGNED = BY_INDEX[185]
LIES = ["rows", "columns", "rows apart", "columns apart"]


@pytest.mark.share(12)
@pytest.mark.parametrize("seed", range(30))
def test_random_problems(seed):
    hopper.check_drawn(UNALIGNED, drawn, seed)


@pytest.mark.share(6)
@pytest.mark.parametrize("a", ["", "@1,37", "@80,1", "@1,41"], ids=LIES)
@pytest.mark.parametrize("b", ["", "@1,77", "@45,1", "@1,79"], ids=LIES)
def test_rows_that_begin_anywhere(a, b):
    """Addresses too: of two bytes alone. Each of two chunks beside an end is read element by element."""
    problem = Problem.parse(f"matmul a=37x77:f16{a} b=77x43:f16{b} c=37x43:f16 align=2")
    for config in UNALIGNED.configs(match(problem), H200):
        hopper.check(UNALIGNED, problem, config, blended)


@pytest.mark.parametrize("line", [
    "matmul 5x3 3x7 f16", "matmul a=300x1:f16@9,1 b=1x300:f16 c=300x300:f16", "matmul 1x15 15x1 bf16 align=2",
    "matmul a=5x16:f16@0,1 b=16x3:f16 c=5x3:f16", "matmul a=1x333:f16@1,1 b=333x9:f16@9,1 c=1x9:f32"])
def test_lines_of_a_few_elements(line):
    problem = Problem.parse(line)
    for numbers in (plain, blended):
        hopper.check(UNALIGNED, problem, UNALIGNED.best(match(problem), H200), numbers)


@pytest.mark.share(4)
@pytest.mark.parametrize("config", ["splits=1", "splits=2", "splits=1 stream_k=1"])
@pytest.mark.parametrize("seed", [None, 3])
def test_more_tiles_than_blocks(config, seed):
    hopper.check_turns(UNALIGNED, "matmul a=201x301:bf16@1,201 b=301x391:bf16 c=201x391:bf16", config, seed)


def test_graphs_around_it():
    hopper.check_graphs(UNALIGNED, Matmul, count=5, seeds=800)


@pytest.mark.parametrize("line, sentence", [
    ("matmul a=40x64 b=64x40 f16", "TMA reads a and b where they lie; matmul_wgmma takes them"),
    ("matmul a=20x72:f16@144,2 b=72x24 f16", "a must have one contiguous matrix dim; got strides (144, 2)"),
    ("matmul a=41x43 b=43x41 f32", "a must be one of f16 bf16; got f32"),
    ("matmul a=3x0 b=0x5 f16", "k must be at least 1; got 0")])
def test_refused(line, sentence):
    assert sentence in "; ".join(UNALIGNED.reasons(match(Problem.parse(line)), H200))


def test_nothing_is_copied():
    launch, = steps(UNALIGNED, match(Problem.parse("matmul 37x41 41x43 f16")), H200)
    assert launch.args["a_packed"] == launch.args["b_packed"] == 1
    launch, = steps(UNALIGNED, match(Problem.parse("matmul a=37x41:f16@43,1 b=41x13:f16 c=37x13:f16")), H200)
    assert launch.args["a_packed"] == launch.args["b_packed"] == 0       # apart; too short to read beside


def test_products_that_wait_for_memory_are_its_own():
    for line in ("matmul 35x2560 2560x8457 f16", "matmul a=100x100000 b=100000x100 bf16"):
        assert best(graph_of(Problem.parse(line)), H200).parts[0].engine is UNALIGNED
