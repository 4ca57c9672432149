"""Every shipped kernel on the GPU, by the problems of its contract: guarded, poisoned buffers,
two runs with equal bits, against float64."""
from __future__ import annotations

import pytest

from cydnn import kernels
from support.guard import images
from support.check import sums
from support.draw.cases import SERVING, cases
from support.check.matrix import blended, plain, run

SOURCES = sorted({kernels.get(name).source for name in SERVING})


@pytest.mark.gpu
@pytest.mark.parametrize("sm", [*images.OLDER, images.NEWEST])
@pytest.mark.parametrize("source", SOURCES)
def test_kernels_of(source, sm, gpu, family_counts):
    """Once storing what is computed, once scaling and adding, with other numbers. Every image: those
    for older targets as on an older GPU."""
    gpu = images.as_if(gpu, sm)
    names = images.names(sm, [n for n in kernels.names() if kernels.get(n).source == source])
    count = {"problems": 0, "engine_runs": 0, "wrong": 0, "engines": {}, "kernels": 0, "images": 0}
    wrong = []
    for name in names:
        of_kernel = cases(name, gpu.facts)
        count["images"] += bool(of_kernel)
        count["kernels"] += bool(of_kernel) and sm == 90
        for case in of_kernel:
            for seed, scalars in enumerate((plain(case.problem.op), blended(case.problem.op))):
                blends = seed > 0                # which an engine may refuse
                outcome = run(case.problem, gpu, seed, [case.engine], case.config, scalars)
                count["problems"] += 1
                count["engine_runs"] += len(outcome.ran)
                count["wrong"] += bool(outcome.findings) or not outcome.ran and not blends
                count["engines"][case.engine.name] = count["engines"].get(case.engine.name, 0) + 1
                refused = [f"refused: {outcome.refused}"] if not outcome.ran and not blends else []
                wrong += [f"{case} seed={seed}: {text}" for text in outcome.findings or refused]
    family_counts[f"kernels of {source}" + (f" as on sm_{sm}" if sm < 90 else "")] = count
    assert not wrong, f"{len(wrong)} findings:\n" + "\n".join(wrong[:12])
    assert (count["images"]
            == len(names)), f"{len(names) - count['images']} kernels of {source} were not launched"


@pytest.mark.gpu
@pytest.mark.parametrize("source", sorted({kernels.get(name).source for name in sums.names()}))
def test_kernels_of_graphs(source, hopper, family_counts):
    """Those that no problem of one operation launches: of small whole numbers, the very bits."""
    names, wrong = images.names(90, [n for n in sums.names() if kernels.get(n).source == source]), []
    runs = [(name, way) for name in names for way in sums.ways(name)]
    for name, way in runs:
        wrong += sums.wrong(hopper, name, [way])
    family_counts[f"kernels of {source}"] = {
        "problems": len(runs), "engine_runs": len(runs), "wrong": len(wrong), "engines": {},
        "kernels": len(names), "images": len(names)}
    assert not wrong, f"{len(wrong)} findings:\n" + "\n".join(wrong[:12])
