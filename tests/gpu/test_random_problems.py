"""Random problems against the reference on the GPU: every op, every engine that accepts,
guarded and poisoned buffers, bits twice.

``CYDNN_PROBLEMS`` problems for each op (default 320). A failure prints the problem text,
which ``Problem.parse`` reads back.
"""
from __future__ import annotations

import os

import pytest

from cydnn import ops
from support.draw import gpu_draws
from support.matrix import run

PROBLEMS = int(os.environ.get("CYDNN_PROBLEMS", "320"))
SLICES = 4                                       # so that several workers share an op


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(SLICES))
@pytest.mark.parametrize("op", ops.OPS, ids=lambda o: o.name)
def test_matrix(op, part, gpu, family_counts):
    count = {"problems": 0, "engine_runs": 0, "wrong": 0, "engines": {}}
    wrong = []
    for number, problem in enumerate(gpu_draws(op, part, PROBLEMS // SLICES)):
        outcome = run(problem, gpu, seed=number)
        assert outcome.ran, f"no engine takes {problem}: {outcome.refused}"
        count["problems"] += 1
        count["engine_runs"] += len(outcome.ran)
        for engine, texts in outcome.ran.items():
            count["engines"][engine] = count["engines"].get(engine, 0) + 1
            count["wrong"] += bool(texts)
        wrong += [f"{problem} seed={number}: {text}" for text in outcome.findings]
        if len(wrong) > 12:
            break
    family_counts[f"{op.name}/{part}"] = count
    assert not wrong, f"{len(wrong)} findings:\n" + "\n".join(wrong[:12])
