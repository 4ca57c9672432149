"""The matrix product on Hopper's tensor cores, on the interpreter: random problems and graphs in random
configurations, more tiles than blocks, and what is refused."""
from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "device" / "ptx")]
import watched
from cydnn import device as devices, plan
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.heuristics import candidates
from cydnn.heuristics.choice import Part
from cydnn.ops import Matmul, Problem
from support import graphs
from support.alone import match, steps
from support.matrix import blended, plain

ENGINE, H200 = BY_INDEX[189], KNOWN["h200"]


def device(sms=0):
    found = watched.WatchedDevice("sm_90")
    found.facts = replace(found.facts, sms=sms or found.facts.sms)
    return found


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
    rng = random.Random(seed)
    problem = drawn(rng)
    while not ENGINE.accepts(match(problem), H200):
        problem = drawn(rng)
    config = rng.choice(list(ENGINE.configs(match(problem), H200)))
    numbers = rng.choice([plain, plain, blended])(problem.op)
    outcome = watched.run(problem, device(), seed, [ENGINE], config=config, scalars=numbers)
    assert outcome.ran and not outcome.findings, (str(problem), str(config), outcome)


def test_most_draws_are_taken():
    rng = random.Random(0)
    taken = sum(ENGINE.accepts(match(drawn(rng)), H200) for _ in range(100))
    assert taken >= 80


@pytest.mark.parametrize("config", [
    "tile=64x128 splits=1 out=boxes team=1", "tile=128x256 splits=2 out=boxes team=1",
    "tile=64x256 splits=1 out=rows team=1", "tile=128x128 splits=1 out=boxes team=1",
    "tile=64x128 splits=1 out=rows team=2"])
@pytest.mark.parametrize("seed", [None, 3])
def test_more_tiles_than_blocks(config, seed):
    """Three blocks take all tiles, in any order of warps."""
    problem = Problem.parse("matmul a=200x300:bf16@1,200 b=300x392:bf16 c=200x392:bf16")
    small = device(3)
    small.seed = seed
    config = type(ENGINE.best(match(problem), H200)).parse(config, ENGINE.knobs)
    outcome = watched.run(problem, small, 1, [ENGINE], config=config, scalars=plain(problem.op))
    assert outcome.ran and not outcome.findings, outcome


def test_graphs_around_it():
    """Nodes behind it, extra tensors and outputs, in random configurations."""
    machine, numpy, found = device(), devices.get("numpy"), 0
    for seed in range(400):
        rng = random.Random(f"wgmma {seed}")
        drawing = graphs.anchored(rng, Matmul)
        graph = drawing.graph(shuffled=True)
        for choice in candidates(graph, machine.facts):
            ours = [p for p in choice.parts if p.engine is ENGINE and p.match.behind]
            if not ours:
                continue
            found += 1
            config = rng.choice(list(ENGINE.configs(ours[0].match, machine.facts)))
            chosen = Part(ours[0].match, ENGINE, config, ours[0].us)
            parts = tuple(chosen if p is ours[0] else p for p in choice.parts)
            with np.errstate(all="ignore"):
                want = graphs.run(graph, drawing.values, numpy)
            with watched.watching():
                got = graphs.execute(plan.made(replace(choice, parts=parts), machine), drawing.values)
            wrong = graphs.differences(graph, got, want)
            assert not wrong, f"{choice.text}\n" + "\n".join(wrong)
            break
        if found == 12:
            return
    raise AssertionError(f"12 graphs must have it; got {found}")


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


@pytest.mark.parametrize("c, outs", [("8x8:f16", {"boxes", "rows"}), ("8x8:f16@1,8", {"rows"}),
                                     ("8x8:f16@12,1", {"rows"}), ("8x8:f32", {"rows"})])
def test_what_tma_cannot_store_goes_out_in_rows(c, outs):
    p = match(Problem.parse(f"matmul a=8x8:f16 b=8x8:f16 c={c}"))
    assert {config.out for config in ENGINE.configs(p, H200)} == outs


def test_one_launch_where_the_depth_is_whole():
    line = "matmul 256x8192 8192x256 bf16"
    names = [s.kernel for s in steps(ENGINE, match(Problem.parse(line)), H200)]
    assert len(names) == 2 and names[1] == "matmul_sum_bf16"
    launch, = steps(ENGINE, match(Problem.parse("matmul 4096x4096 4096x4096 bf16")), H200)
    assert launch.extra == {"blocks": 132} and launch.args["parts"] is None
