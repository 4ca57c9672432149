"""Every engine on small problems, those that the contracts of the kernels name and drawn ones, one for each
list of kernels that it launches there: on the interpreter, as it would do them itself."""
from __future__ import annotations

import itertools
import random
from functools import cache

import pytest

from cydnn import device, kernels, ops
from cydnn.bench.trial import TrialCase
from cydnn.engines import TABLE
from cydnn.graph import Match
from cydnn.ops import Problem
from cydnn.steps import Launch
from support.check.sums import FRONTED
from support.draw.alone import match
from support.draw import draw
from support.check.trial import Trial

TARGETS = ("ptx:sm_80", "ptx:sm_90")
MOST, EACH, DRAWS = 3e6, 4, 24                   # operations and bytes of a problem; problems of an engine
# patches, and volumes that are images, of which no contract has any
MORE = ("conv_fprop n2c16h4w8 k8r2s2 stride=2 f16 nhwc",
        *(f"{op} n2c3d2h6w8 k8t1r3s3 pad=0,1,1 stride=1,2,2 f16 nhwc" for op in ("conv_fprop", "conv_dgrad")))


@cache
def problems() -> dict:
    """{op: the smallest first}"""
    lines = dict.fromkeys([*(line for name in kernels.names() for line in kernels.get(name).problems), *MORE])
    drawn = (draw(op, random.Random(f"{op.name} {i}")) for op in ops.OPS for i in range(DRAWS))
    found: dict = {}
    for problem in itertools.chain(map(Problem.parse, lines), drawn):
        if problem.flops + problem.bytes <= MOST:
            found.setdefault(type(problem.op), []).append(problem)
    return {op: sorted(some, key=lambda p: p.flops + p.bytes) for op, some in found.items()}


def cases(engine) -> list:
    """(problem, device), each of other kernels."""
    found: dict = {}
    for problem in problems()[engine.op]:
        p = match(problem)
        there = next((t for t in TARGETS if engine.accepts(p, device.get(t).facts)), None)
        if there and len(found) < EACH:
            steps = engine.plan(p, device.get(there).facts, engine.best(p, device.get(there).facts))
            found.setdefault(tuple(s.kernel for s in steps if isinstance(s, Launch)), (problem, there))
    return list(found.values())


@pytest.mark.share(24)
@pytest.mark.parametrize("engine", [e for e in TABLE if e.index not in FRONTED], ids=str)
def test_small_problems(engine):
    some = cases(engine)
    assert some, "there is no small problem for it"
    for seed, (problem, target) in enumerate(some):
        trial = Trial(TrialCase("", problem, engine, None), device.get(target), seed)
        if not engine.accepts(Match.single(trial.made.graph), trial.facts):       # it does not blend
            trial = Trial(TrialCase("", problem, engine, None), device.get(target), 2 * seed)
        assert trial() == [], f"{problem} on {target}, seed {seed}"
