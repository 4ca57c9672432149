"""Hopper's tile program on the GPU: random problems of its engines in random configurations, and the same
bits every time while another stream keeps the card busy.

``CYDNN_PROBLEMS`` problems of each engine (default 320), ``CYDNN_REPEATS`` runs of each way that a problem
has (default 50). A failure prints the problem text.
"""
from __future__ import annotations

import os
import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("engines", "device/ptx")]
import test_conv_wgmma
import test_conv_wgrad_wgmma
import test_matmul_wgmma
from cydnn import plan as plans
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX, engines_for
from cydnn.heuristics import Wish
from cydnn.ops import BY_NAME, Problem
from cydnn.tensor import TensorDesc
from support.check import streams
from support.draw.alone import match
from support.check.sums import FRONTED
from support.check.matrix import Prepared, blended, execute, plain, run, strays

pytestmark = pytest.mark.gpu
PROBLEMS = int(os.environ.get("CYDNN_PROBLEMS", "320"))
REPEATS = int(os.environ.get("CYDNN_REPEATS", "50"))

# Deep enough for splits and teams, with more tiles than an H200 has SMs, ragged; first layers; odd strides.
LINES = {
    "conv_fprop": ["n6c128h28w28 k136r3s3 pad1 f16 nhwc", "n3c512h9w9 k72r3s3 pad1 stride2 bf16 nhwc",
                   "n4c3h64w64 k64r7s7 pad3 stride2 bf16 nhwc", "n24c64h30w30 k64r3s3 pad1 bf16 nhwc",
                   "n32c16h56w56 k96r1s1 bf16 nhwc", "n16c96h56w56 k192r2s2 stride2 bf16 nhwc",
                   "n4c64h64w64 k3r3s3 pad1 bf16 nhwc"],
    "conv_dgrad": ["n6c136h28w28 k128r3s3 pad1 f16 nhwc", "n6c72h28w28 k128r3s3 pad1 stride2 bf16 nhwc",
                   "n4c3h64w64 k64r7s7 pad3 stride2 bf16 nhwc", "n24c64h30w30 k64r1s1 bf16 nhwc",
                   "n32c96h56w56 k16r1s1 bf16 nhwc", "n16c96h56w56 k192r2s2 stride2 bf16 nhwc",
                   "n4c64h64w64 k3r3s3 pad1 bf16 nhwc"],
    "conv_wgrad": ["n16c64h28w28 k64r3s3 pad1 bf16 nhwc", "n16c128h15w15 k136r3s3 pad1 stride2 f16 nhwc",
                   "n4c3h64w64 k64r7s7 pad3 stride2 bf16 nhwc", "n32c32h56w56 k16r1s1 bf16 nhwc",
                   "n16c96h56w56 k192r2s2 stride2 bf16 nhwc", "n4c64h64w64 k3r3s3 pad1 bf16 nhwc"],
    "matmul": ["384x4096 4096x520 bf16", "16x8192 8192x1024 f16", "1600x256 256x1608 bf16",
               "a=64x2048:f16@1,64 b=2048x512:f16@1,2048 c=64x512:f16", "8x2048 2048x1000 bf16",
               "255x1031 1031x333 bf16"]}


def needs_hopper(engine) -> bool:
    """It is refused to an older card."""
    if engine.op is None:                        # made of others
        return False
    older, line = replace(KNOWN["h200"], sm=80), LINES[engine.op.name][0]
    reasons = engine.reasons(match(Problem.parse(f"{engine.op.name} {line}")), older)
    return any("sm_90" in reason for reason in reasons)


ENGINES = [e.index for op in LINES for e in engines_for(BY_NAME[op])
           if needs_hopper(e) and e.index not in FRONTED]


def drawn(engine, rng) -> Problem:
    """A small problem that the interpreter's tests draw, or one of more images or rows."""
    if engine.op.name == "matmul":
        if rng.random() < 0.5:
            m, n, k = (rng.choice([rng.randint(1, 40), rng.randint(100, 700)]) for _ in range(3))
            kind, out = rng.choice(["f16", "bf16"]), rng.choice(["f32", "f16", "bf16"])
            a, b = rng.choice(["", f"@1,{m}"]), rng.choice(["", f"@1,{k}"])
            return Problem.parse(f"matmul a={m}x{k}:{kind}{a} b={k}x{n}:{kind}{b} c={m}x{n}:{out}")
        return test_matmul_wgmma.drawn(rng)
    found = (test_conv_wgrad_wgmma.drawn(rng) if engine.op.name == "conv_wgrad"
             else test_conv_wgmma.drawn(rng, engine.op))
    times = rng.choice([1, 1, 5, 30])
    more = lambda d: TensorDesc(d.dtype, (d.n * times, *d.dims[1:]), d.strides)
    images = {name: d if name in ("w", "dw") else more(d) for name, d in found.operands.items()}
    return Problem(found.op, images)


def accepted(engine, rng, facts):
    """(problem, configuration); None where the engine takes none of many."""
    for _ in range(200):
        problem = drawn(engine, rng)
        if engine.accepts(match(problem), facts):
            return problem, rng.choice(list(engine.configs(match(problem), facts)))
    return None


def inexact(engine, problem, config, device, seed):
    """Of small whole numbers, whose sums are exact, every output is what the sum rounds to."""
    made = Prepared(problem, seed, plain(problem.op), exact=True)
    built = plans.build(made.graph, device, Wish(engines=(engine.index,), config=config))
    buffers, space = execute(built, problem, made.values, {*problem.op.reads, *made.reads_old}, device)
    plans.forget()
    yield from strays(buffers, space, problem.op.writes)
    for name in problem.op.writes:
        want = problem.operands[name].dtype.round(made.want[name])
        wrong = np.count_nonzero(buffers[name].read()[0] != want)
        if wrong:
            yield f"{name}: {wrong} sums of whole numbers are not exact"


@pytest.mark.parametrize("index", ENGINES)
def test_random_problems(index, gpu, family_counts):
    engine, rng = BY_INDEX[index], random.Random(f"gpu {index}")
    count, wrong = {"problems": 0, "engine_runs": 0, "wrong": 0}, []
    for seed in range(PROBLEMS):
        found = accepted(engine, rng, gpu.facts)
        if found is None:
            pytest.skip(f"{engine} takes none of these problems")
        problem, config = found
        numbers = rng.choice([plain, plain, blended])
        outcome = run(problem, gpu, seed, [engine], config=config, scalars=numbers(problem.op))
        findings = [*outcome.findings, *inexact(engine, problem, config, gpu, seed)]
        count["problems"] += 1
        count["engine_runs"] += len(outcome.ran) + 1
        count["wrong"] += bool(findings)
        wrong += [f"{problem} {config} seed={seed}: {text}" for text in findings]
        if len(wrong) > 12:
            break
    family_counts[f"tile program/{engine}"] = count
    assert not wrong, f"{len(wrong)} findings:\n" + "\n".join(wrong[:12])


# ---- The same bits ----

def ways(engine, match, facts) -> list:
    """A configuration of each tile, and of each way to go: way out, team, splits or none."""
    first = {}
    for config in engine.configs(match, facts):
        first.setdefault(config.get("tile"), config)
        way = config.get("store"), config.get("cluster_k"), (config.get("splits") or 1) > 1
        first.setdefault(way, config)
    return list(dict.fromkeys(first.values())) or [None]


@pytest.mark.parametrize("index", ENGINES)
def test_the_same_bits_under_load(index, gpu, family_counts):
    engine, wrong, done = BY_INDEX[index], [], 0
    load, stream = streams.Load(gpu), streams.stream_of(gpu)
    for line in LINES[engine.op.name]:
        problem = Problem.parse(f"{engine.op.name} {line}")
        if not engine.accepts(match(problem), gpu.facts):
            continue
        for config in ways(engine, match(problem), gpu.facts):
            others = streams.repeated(streams.places(problem, engine, gpu, config), load, stream, REPEATS)
            done += 1
            wrong += [f"{problem} {config}: runs {others[:5]} of {REPEATS} have other bits"] if others else []
            plans.forget()
    family_counts[f"same bits/{engine}"] = dict(problems=done, engine_runs=done * REPEATS, wrong=len(wrong))
    assert done, f"{engine} takes none of {LINES[engine.op.name]}"
    assert not wrong, "\n".join(wrong)
