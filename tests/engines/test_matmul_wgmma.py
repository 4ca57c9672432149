"""The matrix product on Hopper's tensor cores, on the interpreter: random problems and graphs in random
configurations, more tiles than blocks, and what is refused."""
from __future__ import annotations

import random

import pytest

from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.ops import Matmul, Problem
from support.check import hopper
from support.draw.alone import match, steps
from support.check.hopper import H200

ENGINE = BY_INDEX[189]


def operand(rng, kind, batch, rows, columns, transposed, gap) -> tuple:
    """(text of a tensor, its batch dims): rows or columns contiguous, in lines of 16 bytes, some with gaps,
    some broadcast."""
    dims, outer = [rows, columns], []
    line = -(-(rows if transposed else columns) // 8) * 8 + 8 * rng.randint(0, gap)
    strides = [1, line] if transposed else [line, 1]
    size = line * (columns if transposed else rows)
    for count in reversed(batch):
        count = rng.choice([1, count, count])
        outer.insert(0, (count, size))
        size *= count
    text = lambda numbers, sign: sign.join(map(str, numbers))
    return (text([c for c, _ in outer] + dims, "x") + f":{kind}@"
            + text([s for _, s in outer] + strides, ",")), [c for c, _ in outer]


def drawn(rng) -> Problem:
    kind = rng.choice(["f16", "bf16"])
    batch = rng.choice([(), (), (3,), (2, 2)])
    m, n, k = (rng.choice([1, 8, rng.randint(1, 40), rng.randint(60, 150)]) for _ in range(3))
    n = n if rng.random() < 0.5 else -(-n // 8) * 8
    a, a_batch = operand(rng, kind, batch, m, k, rng.random() < 0.5, 1)
    b, b_batch = operand(rng, kind, batch, k, n, rng.random() < 0.5, 1)
    c = "x".join(map(str, (*map(max, a_batch, b_batch), m, n)))
    c += ":" + rng.choice([kind, kind, kind, "f32", "f16", "bf16"])
    return Problem.parse(f"matmul a={a} b={b} c={c}")


@pytest.mark.parametrize("seed", range(40))
def test_random_problems(seed):
    hopper.check_drawn(ENGINE, drawn, seed)


def test_most_draws_are_taken():
    rng = random.Random(0)
    taken = sum(ENGINE.accepts(match(drawn(rng)), H200) for _ in range(100))
    assert taken >= 80


@pytest.mark.share(3)
@pytest.mark.parametrize("config", [
    "tile=64x128 splits=1 store=tma cluster_k=1", "tile=128x256 splits=2 store=tma cluster_k=1",
    "tile=64x256 splits=1 store=rows cluster_k=1", "tile=128x128 splits=1 store=tma cluster_k=1",
    "tile=64x128 splits=1 store=rows cluster_k=2", "tile=128x256 splits=1 store=tma cluster_k=1 multicast=2",
    "tile=128x256 splits=2 store=rows cluster_k=1 multicast=2", "tile=128x192 splits=1 store=tma cluster_k=1",
    "tile=128x192 splits=1 store=rows cluster_k=2"])
@pytest.mark.parametrize("seed", [None, 3])
def test_more_tiles_than_blocks(config, seed):
    hopper.check_turns(ENGINE, "matmul a=200x300:bf16@1,200 b=300x392:bf16 c=200x392:bf16", config, seed)


@pytest.mark.parametrize("index", [186, 187, 189])
def test_operands_of_nothing_may_lie_anyhow(index):
    empty = match(Problem.parse("matmul a=0x7x5:f16@35,1,9 b=0x5x3:f16@15,2,7 c=0x7x3:f16"))
    engine = BY_INDEX[index]
    assert not [*engine.reasons(empty, H200)]
    assert all(engine.plan(empty, H200, c) == [] for c in engine.configs(empty, H200))


def test_graphs_around_it():
    hopper.check_graphs(ENGINE, Matmul)


# ---- What it says no to ----

REFUSED = [
    ("matmul 8x8 8x8 f32", "a must be one of f16 bf16; got f32"),
    ("matmul a=8x8:f16 b=8x8:bf16 c=8x8:f16", "operands must have one type; got bf16 f16"),
    ("matmul 8x0 0x8 f16", "k must be at least 1; got 0"),
    ("matmul 8x9 9x8 f16", "a must have one contiguous matrix dim, and another stride that is a multiple "
     "of 8 (16 bytes) and not 0; got strides (9, 1)"),
    ("matmul a=8x8:f16@0,1 b=8x8:f16 c=8x8:f16", "and not 0; got strides (0, 1)"),
    ("matmul a=3x8x8:f16@68,8,1 b=3x8x8:f16 c=3x8x8:f16", "a: strides must be multiples of 16 bytes"),
    ("matmul a=2x1x2x1x8x8:f16 b=1x2x1x2x8x8:f16 c=2x2x2x2x8x8:f16",
     "batch dims must be at most 3 after merging; got (2, 2, 2, 2, 1, 1)"),
]


@pytest.mark.parametrize("line, sentence", REFUSED)
def test_refused(line, sentence):
    assert sentence in "; ".join(ENGINE.reasons(match(Problem.parse(line)), H200))


def test_it_needs_hopper():
    p = match(Problem.parse("matmul 8x8 8x8 f16"))
    assert list(ENGINE.reasons(p, KNOWN["a100"])) == ["needs sm_90 or newer; device is sm_80"]
    assert list(ENGINE.reasons(p, KNOWN["b200"])) == ["needs sm_90 itself (wgmma); device is sm_100"]
    assert ENGINE.accepts(p, H200)


@pytest.mark.parametrize("c, outs", [("8x8:f16", {"tma", "rows"}), ("8x8:f16@1,8", {"rows"}),
                                     ("8x8:f16@12,1", {"rows"}), ("8x8:f32", {"rows"})])
def test_what_tma_cannot_store_goes_out_in_rows(c, outs):
    p = match(Problem.parse(f"matmul a=8x8:f16 b=8x8:f16 c={c}"))
    assert {config.store for config in ENGINE.configs(p, H200)} == outs


def test_one_launch_where_the_depth_is_whole():
    deep = match(Problem.parse("matmul 256x8192 8192x256 bf16"))
    launch, = steps(ENGINE, deep, H200)
    assert launch.args["share"] > 0                          # its blocks add what they have
    config = next(c for c in ENGINE.configs(deep, H200) if c.splits > 1)
    names = [s.kernel for s in ENGINE.plan(deep, H200, config)]
    assert len(names) == 2 and names[1] == "matmul_sum_bf16"
    launch, = steps(ENGINE, match(Problem.parse("matmul 1536x4096 4096x2816 bf16")), H200)
    assert launch.extra == {"blocks": 132} and launch.args["parts"] is None
