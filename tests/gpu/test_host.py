"""What a call does on the host: one launch, and nothing allocated. benchmarks/host.py measures its time. Its
memory lies between zones, which are looked at behind all calls.
"""
from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cydnn.ops import Problem
from support.guard.buffers import FILLS
from support.guard.zones import Zoned

pytestmark = pytest.mark.gpu

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))


def test_calls_are_one_launch_and_allocate_nothing(gpu):
    import host
    found = []
    for fill in FILLS:
        case = Zoned(Problem.parse(host.TINY), gpu, fill=fill)
        rows = host.host_times(gpu, case)
        assert rows["launches of the plan"] == 1, rows
        assert (rows["bytes allocated per execute"] < 1
                and rows["bytes allocated per convolutionForward"] < 1), rows
        assert not case.beside()
        found.append(case.output("y"))
    assert (found[0] == found[1]).all()
