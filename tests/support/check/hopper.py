"""The tile program of Hopper under its engines: on the interpreter, in random configurations."""
from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "device" / "ptx")]
import watched
from cydnn import device as devices, plan
from cydnn.device.facts import KNOWN
from cydnn.heuristics import candidates
from cydnn.heuristics.choice import Part
from cydnn.ops import ConvWgrad, Problem
from cydnn.tensor import TensorDesc, packed_strides
from ..draw import graphs
from lab import sampling
from ..draw.alone import match
from .matrix import blended, plain

H200 = KNOWN["h200"]


def device(sms=0):
    """One with all checks, of so many SMs."""
    found = watched.PtxDevice("sm_90")
    found.facts = replace(found.facts, sms=sms or found.facts.sms)
    return found


def channels_last(rng, kind, dims, gap=8) -> TensorDesc:
    """Channels innermost, some with ``gap`` elements between pixels, rows or images."""
    order = (0, *range(2, len(dims)), 1)
    step, strides = 1, [0] * len(dims)
    for axis in reversed(order):
        strides[axis] = step
        step = -(-step * dims[axis] // 8) * 8 + rng.choice([0, 0, 0, gap])
    return TensorDesc(kind, dims, strides)


def wgrad(rng, strides=(1, 1, 2, 3), sides=(1, 3, 5, 8, 9), taps=(1, 1, 2, 3)) -> Problem:
    """A small filter gradient, channels innermost, its filter in any layout."""
    kind, rank = rng.choice(["f16", "bf16"]), rng.choice([1, 2, 2, 2, 3])
    groups, c = rng.choice([1, 1, 1, 2, 3]), rng.choice([8, 40, 64, 64, 128, 192, rng.randint(1, 130)])
    k = rng.choice([8, 16, 40, rng.randint(1, 20), 72, 136])
    each = lambda values: tuple(rng.choice(values) for _ in range(rank))
    op = ConvWgrad(pre_pad=each([0, 1, 2]), post_pad=each([0, 1, 3]), stride=each(strides),
                   dilation=each([1, 1, 2]), mode=rng.choice(["cross_correlation"] * 2 + ["convolution"]))
    x = (rng.randint(1, 5), c * groups, *each([2, 3, 4] if rank == 3 else sides))
    dw = (k * groups, c, *each(taps))
    dy = op.out_dims(x, dw)
    if min(dy) < 1 or np.prod(dy) * np.prod(dw[1:]) > 2e6:
        return wgrad(rng, strides, sides, taps)
    out = rng.choice([kind, kind, kind, "f32", "f16", "bf16"])
    layout = rng.choice(["nhwc", "nhwc", "nhwc", "gaps", "any"])
    found = channels_last(rng, out, dw, rng.choice([3, 8])) if layout == "gaps" else (
        TensorDesc(out, dw, packed_strides(dw)) if layout == "any" else TensorDesc.packed(out, dw, "nhwc"))
    return Problem(op, dict(x=channels_last(rng, kind, x), dy=channels_last(rng, kind, dy), dw=found))


def check(engine, problem, config, numbers=plain, machine=None, seed=1, **more):
    """The very bits of small whole numbers, and no finding; ``more`` as in matrix.run."""
    outcome = watched.run(problem, machine or device(), seed, [engine], config=config,
                          scalars=numbers(problem.op), **more)
    assert outcome.ran and not outcome.findings, (str(problem), str(config), outcome)


def check_drawn(engine, draw, seed):
    """A random problem that the engine takes, in a random configuration."""
    rng = random.Random(seed)
    problem = draw(rng)
    while not engine.accepts(match(problem), H200):
        problem = draw(rng)
    config = rng.choice(list(engine.configs(match(problem), H200)))
    check(engine, problem, config, rng.choice([plain, plain, blended]), seed=seed)


def check_turns(engine, line, config, seed):
    """Three blocks take all tiles, in any order of warps."""
    problem, small = Problem.parse(line), device(3)
    small.seed = seed
    check(engine, problem, type(engine.best(match(problem), H200)).parse(config, engine.knobs), machine=small)


def check_graphs(engine, op, count=12, seeds=400, wanted=lambda match: True):
    """A drawn half of the first ``count`` graphs with nodes behind it, extra tensors and outputs, in random
    configurations, whose match is ``wanted``."""
    machine, numpy, found = device(), devices.get("numpy"), 0
    drawn = sampling.of(range(1, count + 1), count // 2, f"graphs {engine.name}")
    for seed in range(seeds):
        rng = random.Random(f"wgmma {seed}")
        drawing = graphs.anchored(rng, op)
        graph = drawing.graph(shuffled=True)
        for choice in candidates(graph, machine.facts):
            ours = [p for p in choice.parts if p.engine is engine and p.match.behind]
            if not ours or not wanted(ours[0].match):
                continue
            found += 1
            if found not in drawn:
                break
            config = rng.choice(list(engine.configs(ours[0].match, machine.facts)))
            chosen = Part(ours[0].match, engine, config, ours[0].us)
            parts = tuple(chosen if p is ours[0] else p for p in choice.parts)
            with np.errstate(all="ignore"):
                want = graphs.run(graphs.rounded(graph, choice), drawing.values, numpy)
            with watched.watching():
                got = graphs.execute(plan.made(replace(choice, parts=parts), machine), drawing.values)
            wrong = graphs.differences(graph, got, want)
            assert not wrong, f"{choice.text}\n" + "\n".join(wrong)
            break
        if found == count:
            return
    raise AssertionError(f"{count} graphs must have it; got {found}")
