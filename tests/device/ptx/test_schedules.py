"""Correct kernels under random orders of warps: nothing is reported, and the values are right.
One variant of every source that shares memory.

Each source takes 3 of the 20 schedules here, all of them together all 20;
``CYDNN_SCHEDULES=20`` gives every source all.
"""
from __future__ import annotations

import os
import re

import pytest

from cydnn import kernels
from cydnn.bench import trial as debug
from support import mutation
from support.trial import Trial

import watched

SCHEDULES, EACH = 20, int(os.environ.get("CYDNN_SCHEDULES", 3))
SHARING = [n for n in mutation.smallest()
           if re.search(r"(?m)\.shared|^\s*(@!?%p\d+\s+)?bar(rier)?\.", mutation.text_of(n))]


@pytest.mark.parametrize("number, name", list(enumerate(SHARING)),
                         ids=lambda v: v if isinstance(v, str) else "")
def test_nothing_is_reported(number, name):
    device = watched.WatchedDevice(debug.target_of(kernels.get(name)))
    with watched.watching():
        trial = Trial(debug.cases(name, device.facts)[0], device)
        for seed in {(EACH * number + i) % SCHEDULES for i in range(EACH)}:
            device.seed = seed
            assert trial() == [], f"{trial.case} schedule {seed}"


def test_all_schedules_are_used():
    assert ({(EACH * number + i) % SCHEDULES for number in range(len(SHARING)) for i in range(EACH)}
            == set(range(SCHEDULES)))
