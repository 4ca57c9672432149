"""Tensors without elements, dims of 1, any type: for every op, each dim of each operand in turn.

``CYDNN_PROBLEMS`` problems for each op (default 8); of more than that, one in eight is run on the interpreter
if it is small. ``CYDNN_SEED`` repeats a run.
"""
from __future__ import annotations

import os
import random
import time
import zlib

import numpy as np
import pytest

from cydnn import device, dtypes, ops, plan
from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.engines import engines_for
from cydnn.heuristics import best
from cydnn.layout import Layout
from cydnn.ops import Problem
from cydnn.status import BadParam, NotSupported
from cydnn.steps import Launch
from cydnn.tensor import TensorDesc
from support.check import matrix
from support.draw.alone import match
from support.draw import draw
from support.draw.edges import edges, nowhere
from test_contracts import check_launch

PROBLEMS = int(os.environ.get("CYDNN_PROBLEMS", "8"))
SEED = int(os.environ.get("CYDNN_SEED") or time.time_ns() % 10 ** 9)
SMALL = 50000                                    # operations and bytes of a problem that is run
# DropoutStates is of one size, and what is shared waits for others
OPS = [op for op in ops.OPS if op is not ops.DropoutStates and not op.shared - op.optional]
ASKED = *(KNOWN[card] for card in ("t4", "a100", "h200", "b200")), device.get("ptx:sm_90").facts


def drawn(op) -> tuple:
    """(problems of an op that have an edge, most of them without an element somewhere; random numbers)."""
    rng, empty, thin = random.Random(SEED + zlib.crc32(op.name.encode())), [], []
    share = PROBLEMS * 3 // 4
    for tries in range(PROBLEMS):
        if tries >= PROBLEMS // 8 and len(empty) >= share:
            break
        for found in edges(draw(op, rng)):
            if all(d.count for d in found.descs):
                thin.append(found)
            else:
                empty.append(nowhere(found, rng) if rng.random() < 0.5 else found)
    assert thin, said(op.name)                   # some ops take nothing empty
    some = rng.sample(empty, min(share, len(empty))) + rng.sample(thin, min(PROBLEMS - share, len(thin)))
    return rng.sample(some, len(some)), rng


def is_empty(problem) -> bool:
    """There is nothing to write."""
    written = [problem.operands[name] for name in problem.op.writes]
    return not any(d.count for d in written if d is not None)


def said(*words) -> str:
    return " ".join(map(str, (f"CYDNN_SEED={SEED}", *words)))


@pytest.mark.parametrize("op", OPS, ids=lambda o: o.name)
def test_every_engine_is_asked(op):
    """It refuses in a sentence, or has estimates, and launches that pack; none where nothing is written."""
    problems, rng = drawn(op)
    for problem in problems:
        p, facts = match(problem), rng.choice(ASKED)
        for engine in engines_for(op)[:-1]:
            assert 0 <= engine.least_us(p, facts) < float("inf"), said(problem, engine)
            if not engine.reasons(p, facts):
                check_engine(problem, p, engine, facts, rng)


def check_engine(problem, p, engine, facts, rng):
    offered = list(engine.configs(p, facts))
    for config in [offered[0], rng.choice(offered)]:
        words = said(problem, engine, facts.name)
        assert 0 <= engine.cost(p, facts, config) < float("inf"), words
        steps = engine.plan(p, facts, config)
        assert not steps or not is_empty(problem), words
        for step in steps:
            assert isinstance(step, Launch) or step.bytes > 0, words
            if isinstance(step, Launch):
                check_launch(step, facts, words)


def typed(problem) -> list:
    """The problem with other types: in every operand, and in one."""
    found, one = [], {n: d for n, d in problem.operands.items() if isinstance(d, TensorDesc)}
    for kind in dtypes.BY_NAME:
        for names in (tuple(one), *((name,) for name in one)):
            changed = {n: one[n].replace(dtype=kind) for n in names}
            try:
                made = Problem(problem.op, {**problem.operands, **changed}, problem.alignment)
                match(made)                      # a graph looks at more than a line does
                found.append(made)
            except BadParam:
                continue                         # types that do not belong together
    return found


@pytest.mark.parametrize("op", OPS, ids=lambda o: o.name)
def test_every_engine_is_asked_about_every_type(op):
    """Bits and bytes of an element too: it takes them, or refuses in a sentence."""
    rng = random.Random(SEED + zlib.crc32(op.name.encode()))
    for problem in typed(draw(op, rng)):
        for facts in ASKED:
            p = match(problem)
            assert all(isinstance(reason, str) for e in engines_for(op)[:-1]
                       for reason in e.reasons(p, facts)), said(problem)


@pytest.mark.parametrize("op", OPS, ids=lambda o: o.name)
def test_every_device_computes_it(op):
    """The NumPy device whatever it is; an interpreter's plan has no step where nothing is written."""
    (problems, rng), ran = drawn(op), 0
    for problem in problems:
        built = plan.build(graph_of(problem), "numpy")
        built.execute([np.zeros(max(slot.bytes, 8), np.uint8) for slot in built.slots],
                      np.zeros(built.workspace_bytes + 16, np.uint8))
        there = device.get(rng.choice(("ptx:sm_75", "ptx:sm_80", "ptx:sm_90")))
        try:
            layout = Layout(best(graph_of(problem), there.facts))
        except NotSupported as error:
            assert any(d.count == 0 for d in problem.descs) and "must have" in str(error), said(problem)
            continue
        is_one = len(layout.choice.parts) == 1   # casts in front of another part may run
        assert layout.explain() and not (is_one and layout.steps and is_empty(problem)), said(problem)
        if layout.steps and ran < (PROBLEMS - 16) // 8 and problem.flops + problem.bytes < SMALL:
            ran += 1
            found = matrix.run(problem, there, seed=SEED).findings
            assert not found, said(problem, there, found)


@pytest.mark.parametrize("line", ["add_tensor a=1x1x16x1 c=0x0x16x0:f32@0,0,0,0",
                                  "pointwise x=0x4x8:f64@0,1,8 y=0x4x8:f64@0,0,4 mode=exp",
                                  "matmul a=1x4x2x0:f64@8,0,1,8 b=4x4x0x1 c=4x4x2x1:f64 acc=f64",
                                  "conv_dgrad dy=1x0x4x4 w=0x3x1x1:f32@2147483653,3,0,1 dx=1x3x4x4"])
def test_nothing_lies_anywhere(line):
    """A tensor without elements does not overlap itself, and no engine asks where its elements are."""
    problem, there = Problem.parse(line), device.get("ptx:sm_90")
    layout = Layout(best(graph_of(problem), there.facts))
    assert bool(layout.steps) != is_empty(problem)
    for step in layout.steps:
        check_launch(step, there.facts, line)
