"""What a call does on the host: one launch, and nothing allocated. benchmarks/host.py measures its time."""
from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))


def test_calls_are_one_launch_and_allocate_nothing(gpu):
    import host
    rows = host.host_times(gpu)
    assert rows["launches of the plan"] == 1, rows
    assert (rows["bytes allocated per execute"] < 1
            and rows["bytes allocated per convolutionForward"] < 1), rows
