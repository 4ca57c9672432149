"""The adjoint identity of every engine of a backward operation (check/adjoint.py), on shapes drawn here.

``CYDNN_SHAPES`` shapes for each engine (default 200).
"""
from __future__ import annotations

import os
from itertools import islice

import pytest

from support.check import adjoint

SHAPES, PARTS = int(os.environ.get("CYDNN_SHAPES", 200)), 4


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("engine", adjoint.ENGINES, ids=str)
def test_adjoint(engine, part, gpu, family_counts):
    done, in_f32, worst, wrong, most = 0, 0, 0.0, [], -(-SHAPES // PARTS)
    for problem, seed in islice(adjoint.problems(engine, gpu.facts), part, None, PARTS):
        found = adjoint.identity(problem, seed, engine, gpu)
        if found is None:                        # a slope jumps there
            continue
        done += 1
        if found.is_f32:
            in_f32, worst = in_f32 + 1, max(worst, found.error / found.size)
        wrong += [] if found.holds else [f"{problem} seed={seed}: {found}"]
        if done == most or len(wrong) > 12:
            break
    family_counts[f"adjoint/{engine}/{part}"] = dict(problems=done, engine_runs=done, wrong=len(wrong),
                                              in_f32=in_f32)
    print(f"{engine}: {done} shapes, {in_f32} in f32, the worst of these {worst:.2g}")
    assert not wrong, f"{len(wrong)} of {done}:\n" + "\n".join(wrong)
    assert done >= most, f"only {done} shapes"
