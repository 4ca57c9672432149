"""compute-sanitizer over every image of the shipped kernels, in groups of sources; within a group in a drawn
order.

``CYDNN_SANITIZER_SHAPES`` problems of each kernel (default 1).
"""
from __future__ import annotations

import os
import random
import zlib

import pytest

from cydnn import kernels
from support.guard import images, sanitized
from lab import record

SECONDS, GROUPS = 240, 32
SOURCES = sorted({kernels.get(name).source for name, _ in images.every()})
# A warp writes shared memory, and behind __syncwarp one of its lanes arrives at a barrier for all: racecheck
# sees 31 lanes that have told nobody. The interpreter follows both (tests/device/ptx).
ELECTED = ("sdpa_bwd_wgmma_dkv", "sdpa_bwd_fp8_wgmma_dkv")
group_of = lambda source: zlib.crc32(source.encode()) % GROUPS


@pytest.mark.gpu
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.parametrize("group", sorted(set(map(group_of, SOURCES))))
@pytest.mark.parametrize("tool", sanitized.TOOLS)
def test_kernels(tool, group, family_counts):
    if sanitized.sanitizer() is None:
        pytest.skip("needs compute-sanitizer")
    mine = [(name, sm) for name, sm in images.every() if group_of(kernels.get(name).source) == group]
    mine = [row for row in mine if tool != "racecheck" or not row[0].startswith(ELECTED)]
    random.Random(os.environ["CYDNN_SEED"]).shuffle(mine)
    record.note(f"kernels_src/{source}" for source in SOURCES if group_of(source) == group)
    found = sanitized.run(tool, mine, SECONDS)
    family_counts[tool] = dict(launched=len(found.done), of=len(mine), runs=found.runs,
                               engine_runs=len(found.done) * sanitized.SHAPES, wrong=len(found.findings))
    texts = [f"{kernel}: {text}" for (kernel, _), text in found.findings.items()
             if tool != "racecheck" or not kernel.startswith(ELECTED)]       # launched beside others
    assert not texts, f"{len(texts)} findings:\n" + "\n\n".join(texts[:20])
    assert len(found.done) == len(mine), f"{len(mine) - len(found.done)} of {len(mine)} images did not run"
