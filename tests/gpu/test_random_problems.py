"""Random problems against the reference on the GPU: every op, every engine that accepts,
guarded buffers with two fills, bits twice.

``CYDNN_PROBLEMS`` problems for each op (default 320), and a quarter as many in unusual memory. A failure
prints the problem text, which ``Problem.parse`` reads back.
"""
from __future__ import annotations

import os
import random

import pytest

from cydnn import device as devices, ops
from cydnn.ops import SoftmaxBwd
from support.draw import layouts
from support.draw import gpu_draws
from support.check.matrix import run

PROBLEMS = int(os.environ.get("CYDNN_PROBLEMS", "320"))
LAYOUTS = PROBLEMS // 4                          # those in unusual memory
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


def checked(op, device, count) -> tuple[int, int, list[str]]:
    """(problems, engine runs, findings) of problems in unusual memory; always the same."""
    rng, runs, wrong = random.Random(f"layouts {op.name}"), 0, []
    for number in range(count):
        problem = layouts.layouts(op, rng)
        ran, texts = layouts.check(problem, device, number)
        runs += ran
        wrong += [f"{problem} seed={number}: {text}" for text in texts]
    return count, runs, wrong


@pytest.mark.gpu
@pytest.mark.parametrize("op", [op for op in ops.OPS if not op.shared - op.optional], ids=lambda o: o.name)
def test_layouts(op, gpu, family_counts):
    problems, runs, wrong = checked(op, gpu, LAYOUTS)
    family_counts[f"{op.name}/layouts"] = dict(problems=problems, engine_runs=runs, wrong=len(wrong),
                                               engines={})
    assert not wrong, f"{len(wrong)} findings:\n" + "\n".join(wrong[:12])


def test_layouts_without_a_gpu():
    """The same problems, where they can be tried."""
    problems, runs, wrong = checked(SoftmaxBwd, devices.get("ptx:sm_90"), 4)
    assert problems == 4 <= runs and not wrong, wrong
