"""compute-sanitizer over the shipped kernels, every image in a drawn order, as many as there is time for.

``CYDNN_SANITIZER_SECONDS`` for each tool and part (default 75), ``CYDNN_SANITIZER_SHAPES`` problems of
each kernel (default 1). Coverage is in the record: ``launched`` of ``images``.
"""
from __future__ import annotations

import os
import random

import pytest

from support import images, sanitized

SECONDS, PARTS = float(os.environ.get("CYDNN_SANITIZER_SECONDS", 75)), 4


@pytest.mark.gpu
@pytest.mark.timeout(SECONDS + 240)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("tool", sanitized.TOOLS)
def test_kernels(tool, part, family_counts):
    if sanitized.sanitizer() is None:
        pytest.skip("needs compute-sanitizer")
    every = images.every()
    random.Random(os.environ["CYDNN_SEED"]).shuffle(every)
    mine = every[part::PARTS]
    found = sanitized.run(tool, mine, SECONDS)
    family_counts[f"{tool}/{part}"] = dict(launched=len(found.done), of=len(mine), runs=found.runs,
                                           engine_runs=len(found.done) * sanitized.SHAPES,
                                           wrong=len(found.findings))
    print(f"{tool}, part {part}: {len(found.done)} of {len(mine)} images, {len(found.findings)} findings")
    texts = [f"{kernel}: {text}" for (kernel, _), text in found.findings.items()]
    assert not texts, f"{len(texts)} findings:\n" + "\n\n".join(texts[:20])
    assert found.done, "no kernel ran"
