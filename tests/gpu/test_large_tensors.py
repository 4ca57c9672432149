"""Tensors of 2^31 - 1, 2^31, 2^31 + 1 and 2^32 + 3 elements (the next that whole slices make of these) by
every engine that takes them: each element looked at, on the device (check/periodic.py). The largest need a
card of some 40 GB for each process at work (tools/gpu_record.py).
"""
from __future__ import annotations

import os

import pytest

from cydnn.status import AllocFailed
from support.check import periodic
from support.draw.large_lines import LINES, SIZES

WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))          # at one time


@pytest.mark.gpu
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("line", LINES)
def test_every_element(line, size, gpu, family_counts):
    large = periodic.of_size(line, size)
    count = dict(problems=1, engine_runs=0, wrong=0, no_room=0, refused=0)
    family_counts[f"large/{line}/{size}"] = count
    assert periodic.fits(large, gpu.context.total_bytes // WORKERS), large.problem
    takers, wrong = periodic.takers(large.problem, gpu.facts), []
    count["refused"] = int(not takers)
    for engine in takers:
        try:
            texts = periodic.run(large, engine, gpu)
        except AllocFailed:                      # its workspace: no room for that
            count["no_room"] += 1
            continue
        count["engine_runs"] += 1
        count["wrong"] += bool(texts)
        wrong += [f"{large.problem} {engine}: {text}" for text in texts]
    assert not wrong, "\n".join(wrong)
