"""Random problems in unusual memory (draw/layouts.py), every engine that takes them, on the
interpreter: right, or refused by name.

``CYDNN_LAYOUTS`` problems in all (default 36), drawn anew for every state of the library; ``CYDNN_SEED``
repeats a run. A failure prints the problem and its seed; ``CYDNN_LINE='sm_80 PROBLEM seed=N'`` runs that
alone.
"""
from __future__ import annotations

import functools
import os
import random

import pytest

from cydnn import ops
from cydnn.ops import Problem
from support.guard.buffers import shift_of
from support.draw.layouts import WILD, check, layouts

import watched

COUNT = int(os.environ.get("CYDNN_LAYOUTS", 36))
LINE = os.environ.get("CYDNN_LINE", "")
TARGETS = ("sm_75", "sm_80", "sm_90")
device_of = functools.cache(watched.PtxDevice)   # which keeps the kernels that it has read


def cases(op):
    """(target, problem, seed) of this run."""
    if LINE:
        target, _, rest = LINE.partition(" ")
        text, _, seed = rest.partition(" seed=")
        problem = Problem.parse(text)
        return [(target, problem, int(seed))] * (type(problem.op) is op)
    rng = random.Random(f"{os.environ['CYDNN_SEED']} layouts {op.name}")
    count = -(-COUNT // len(ops.OPS))
    return [(rng.choice(TARGETS), layouts(op, rng), rng.randrange(2 ** 31)) for _ in range(count)]


@pytest.mark.parametrize("op", [op for op in ops.OPS if not op.shared - op.optional], ids=lambda o: o.name)
def test_layouts(op, record_property):
    launched, wrong = 0, []
    with watched.watching():
        for target, problem, seed in cases(op):
            ran, texts = check(problem, device_of(target), seed)
            launched += ran
            wrong += [f"CYDNN_LINE='{target} {problem} seed={seed}': {text}" for text in texts]
    record_property("launched", launched)
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:8])


def test_the_draws_hold_every_kind():
    rng = random.Random(5)
    drawn = [layouts(op, rng) for op in ops.OPS for _ in range(20)]
    tensors = [(p, d) for p in drawn for d in p.descs]
    ranks = {d.rank for _, d in tensors}
    assert {1, 2, 3, 4, 5, 6, 7, 8} <= ranks
    assert {s for _, d in tensors for n, s in zip(d.dims, d.strides) if n == 1} >= set(WILD)
    assert any(d.is_overlapping for _, d in tensors) and any(d.count == 0 for _, d in tensors)
    assert sum(not d.is_dense and not d.is_overlapping for _, d in tensors) > len(tensors) / 5
    starts = {shift_of(n, d, p.alignment, str(p)) for p in drawn for n, d in p.tensors.items()}
    assert starts >= set(range(16))
