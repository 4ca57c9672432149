"""The forum's program through backend descriptors, and the guide's graphs in three forms, on every device."""
from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80", "ptx:sm_90"])
def test_the_forum_s_convolution(device, capsys):
    error = runpy.run_path(str(EXAMPLES / "forum_convolution.py"))["main"](device)
    assert error < 1e-4 and "largest error" in capsys.readouterr().out


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80", "ptx:sm_90"])
def test_three_graphs_in_three_forms_give_one_plan(device, capsys):
    error = runpy.run_path(str(EXAMPLES / "three_forms.py"))["main"](device)
    assert error < 1e-4 and capsys.readouterr().out.count("largest error") == 3
