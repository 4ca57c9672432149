"""Every shipped kernel on the GPU, by the problems of its contract: guarded, poisoned buffers, two runs with equal bits, against float64."""
from __future__ import annotations

import pytest

from cydnn import kernels
from support.cases import cases
from support.matrix import blended, plain, run

SOURCES = sorted({kernels.get(name).source for name in kernels.names()})


@pytest.mark.gpu
@pytest.mark.parametrize("source", SOURCES)
def test_kernels_of(source, gpu, family_counts):
    """Once storing what is computed, once scaling and adding, with other numbers."""
    names = [n for n in kernels.names() if kernels.get(n).source == source and any(int(t[3:]) <= gpu.facts.sm for t in kernels.get(n).images)]
    count = {"problems": 0, "engine_runs": 0, "wrong": 0, "engines": {}, "kernels": 0}
    wrong = []
    for name in names:
        of_kernel = cases(name, gpu.facts)
        count["kernels"] += bool(of_kernel)
        for case in of_kernel:
            for seed, scalars in enumerate((plain(case.problem.op), blended(case.problem.op))):
                outcome = run(case.problem, gpu, seed, [case.engine], case.config, scalars)
                count["problems"] += 1
                count["engine_runs"] += len(outcome.ran)
                count["wrong"] += bool(outcome.findings) or not outcome.ran
                count["engines"][case.engine.name] = count["engines"].get(case.engine.name, 0) + 1
                wrong += [f"{case} seed={seed}: {text}" for text in outcome.findings or ([] if outcome.ran else [f"refused: {outcome.refused}"])]
    family_counts[f"kernels of {source}"] = count
    assert not wrong, f"{len(wrong)} findings:\n" + "\n".join(wrong[:12])
    assert count["kernels"] == len(names), f"{len(names) - count['kernels']} kernels of {source} were not launched"
