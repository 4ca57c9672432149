"""What a call costs on the host: bars of the foundation issue, measured by benchmarks/host.py."""
from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.timing]

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

BAR_US = 0.7                                     # above a raw cuLaunchKernel from C, in the same run


def test_calls_cost_what_the_launch_costs(gpu):
    import host
    rows = host.host_times(gpu)
    assert rows["launches of the plan"] == 1, rows
    for name in ("plan.execute, positional", "convolutionForward, 13 arguments"):
        assert rows[name] - rows["raw cuLaunchKernel from C"] <= BAR_US, rows
    assert (rows["bytes allocated per execute"] < 1
            and rows["bytes allocated per convolutionForward"] < 1), rows


def test_plan_build_time(gpu):
    import host
    rows = host.build_times(gpu)
    assert rows["build conv+bias+gelu, another shape, ms"] <= 2.0, rows
