"""Every shipped kernel on the GPU, by the problems of its contract: guarded, poisoned buffers,
two runs with equal bits, against float64."""
from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from cydnn import kernels
from cydnn.kernels import pick_target
from support.cases import cases
from support.matrix import blended, plain, run

SOURCES = sorted({kernels.get(name).source for name in kernels.names()})
OLDER = {75: 65536, 80: 166912}                  # target: bytes of shared memory of a block there


def as_if(gpu, sm: int):
    """The GPU with the facts of an older one, so that plans take the images which that would load."""
    if sm >= gpu.facts.sm:
        return gpu
    older = copy.copy(gpu)
    older.name, older.facts = f"{gpu.name} as sm_{sm}", replace(gpu.facts, sm=sm, smem_bytes=OLDER[sm])
    return older


@pytest.mark.gpu
@pytest.mark.parametrize("sm", [*OLDER, 90])
@pytest.mark.parametrize("source", SOURCES)
def test_kernels_of(source, sm, gpu, family_counts):
    """Once storing what is computed, once scaling and adding, with other numbers. Every image: those
    for older targets as on an older GPU."""
    gpu = as_if(gpu, sm)
    best = {n: pick_target(kernels.get(n).images, sm)
            for n in kernels.names() if kernels.get(n).source == source}
    names = [n for n, target in best.items()
             if target and (sm == 90 or target == f"sm_{sm}" != pick_target(kernels.get(n).images, 90))]
    count = {"problems": 0, "engine_runs": 0, "wrong": 0, "engines": {}, "kernels": 0, "images": 0}
    wrong = []
    for name in names:
        of_kernel = cases(name, gpu.facts)
        count["images"] += bool(of_kernel)
        count["kernels"] += bool(of_kernel) and sm == 90
        for case in of_kernel:
            for seed, scalars in enumerate((plain(case.problem.op), blended(case.problem.op))):
                outcome = run(case.problem, gpu, seed, [case.engine], case.config, scalars)
                count["problems"] += 1
                count["engine_runs"] += len(outcome.ran)
                count["wrong"] += bool(outcome.findings) or not outcome.ran
                count["engines"][case.engine.name] = count["engines"].get(case.engine.name, 0) + 1
                wrong += [f"{case} seed={seed}: {text}" for text in outcome.findings
                          or ([] if outcome.ran else [f"refused: {outcome.refused}"])]
    family_counts[f"kernels of {source}" + (f" as on sm_{sm}" if sm < 90 else "")] = count
    assert not wrong, f"{len(wrong)} findings:\n" + "\n".join(wrong[:12])
    assert (count["images"]
            == len(names)), f"{len(names) - count['images']} kernels of {source} were not launched"
