"""Products with a matrix of few columns: the large one is either operand, and blocks share its steps."""
from __future__ import annotations

import random
import re

import pytest

from cydnn import kernels
from cydnn.engines import BY_INDEX
from cydnn.engines.matmul.thin import PIECES
from cydnn.kernels.expressions import ceil_div
from cydnn.ops import Matmul, Problem
from cydnn.status import NotSupported
from cydnn.tensor import TensorDesc
from support.draw import alone
from support.check import hopper
from lab import sampling
from support.check.matrix import blended, plain

ENGINE = BY_INDEX[186]
# the large one is b, is a; one tile; matrices of which one stays; c across, with gaps; m and n alike
LINES = ("matmul a=7x456:f16 b=456x392:f16@1,456 c=7x392:f16",
         "matmul a=520x200:bf16@1,520 b=200x24:bf16 c=520x24:bf16",
         "matmul a=1x320:f16 b=320x104:f16 c=1x104:f16",
         "matmul a=3x40x200:f16@8000,1,40 b=1x200x136:f16 c=3x40x136:f16",
         "matmul a=300x136:bf16 b=136x5:bf16@1,136 c=300x5:bf16@1,304",
         "matmul a=33x72:f16 b=72x200:f16 c=33x200:f32@208,1",
         "matmul 64x264 264x64 bf16")


def drawn(rng) -> Problem:
    """Sizes that are no whole tiles, any batch of two dims, operands along either index."""
    kind, few = rng.choice(["f16", "bf16"]), rng.choice([1, 8, 16, rng.randint(1, 64)])
    wide, k = rng.choice([1, 64, 128, 136, rng.randint(1, 400)]), rng.choice([1, 64, rng.randint(1, 700)])
    m, n = rng.sample([few, wide], 2)
    outer = [rng.choice([(), (2,), (2, 3)])] * 3
    if outer[0] and rng.random() < 0.5:
        outer[rng.randint(0, 1)] = (1,) * len(outer[0])
    whole = lambda size: ceil_div(size, 8) * 8 + rng.choice([0, 0, 8])
    descs = {}
    for name, batch, sides, kinds in zip("abc", outer, ((m, k), (k, n), (m, n)), (kind, kind, rng.choice(
            [kind, kind, "f32"]))):
        rows = rng.random() < 0.5
        line = sides[1] if rows else sides[0]
        line = whole(line) if name != "c" else line + rng.choice([0, 0, 3])
        matrix = (line, 1) if rows else (1, line)
        step, steps = line * sides[0 if rows else 1], []
        for size in reversed(batch):
            steps, step = [step, *steps], step * size
        descs[name] = TensorDesc(kinds, (*batch, *sides), (*steps, *matrix))
    return Problem(Matmul(), descs)


@pytest.mark.share(7)
@pytest.mark.parametrize("draw", range(3))
@pytest.mark.parametrize("line", LINES)
def test_values(line, draw):
    """The exact sums on a few SMs, under a drawn schedule."""
    problem, rng = Problem.parse(line), random.Random(f"{line} {draw}")
    machine = hopper.device(rng.choice([2, 3, 5, 7]))
    machine.seed = rng.choice([None, rng.randrange(100)])
    config = rng.choice(list(ENGINE.configs(alone.match(problem), machine.facts)))
    hopper.check(ENGINE, problem, config, rng.choice([plain, blended]), machine)


@pytest.mark.parametrize("seed", sampling.of(range(60), 10, "thin problems"))
def test_drawn_problems(seed):
    hopper.check_drawn(ENGINE, drawn, seed)


@pytest.mark.share(1)
def test_what_is_fused():
    hopper.check_graphs(ENGINE, Matmul, 6)


def test_every_number_of_pieces_is_on_offer():
    """Up to that of the steps; whole tiles where blocks have as many of them."""
    configs = lambda line: ENGINE.configs(alone.match(Problem.parse(line)), hopper.H200)
    pieces = lambda line: [c.blocks_per_tile for c in configs(line)]
    assert sorted(pieces("matmul 16x8192 8192x8192 bf16")) == [*PIECES]
    assert sorted(pieces("matmul 16x128 128x8192 bf16")) == [1]
    even = Problem.parse(f"matmul 16x8192 8192x{128 * hopper.H200.sms} bf16")
    assert [c.blocks_per_tile for c in ENGINE.configs(alone.match(even), hopper.H200)] == [1]


@pytest.mark.parametrize("line, reason", [
    ("matmul 65x128 128x72 bf16", "the smaller of m and n must be at most 64; got 65"),
    ("matmul a=16x128:f16@1,15 b=128x72:f16 c=16x72:f16", "a must have one contiguous matrix dim"),
    ("matmul a=16x128:f16 b=128x71:f16 c=16x71:f16", "b must have one contiguous matrix dim"),
    ("matmul 16x128 128x72 f32", "f16 or bf16|f32")])
def test_what_it_refuses(line, reason):
    match = alone.match(Problem.parse(line))
    said = " ".join(ENGINE.refuse(match, hopper.H200))
    assert re.search(reason, said), said


def test_what_the_kernel_refuses():
    """Steps that nobody takes, or two blocks; more columns than a tile has."""
    match, facts = alone.match(Problem.parse(LINES[0])), hopper.device(3).facts
    config = next(c for c in ENGINE.configs(match, facts) if c.blocks_per_tile == 4)
    launch, = ENGINE.plan(match, facts, config)
    kernel = kernels.get(launch.kernel)
    assert kernel.pack(launch.args, **launch.extra).attributes.cooperative
    for change in (dict(share=launch.args["share"] - 1), dict(alone=1), dict(rest=launch.args["rest"] - 1),
                   dict(share=0), dict(columns=17)):
        with pytest.raises(NotSupported, match=f"{launch.kernel}: needs"):
            kernel.pack({**launch.args, **change}, **launch.extra)
