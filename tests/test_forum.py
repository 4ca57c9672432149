"""The forum's program through backend descriptors, on every device."""
from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "forum_convolution.py"


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80", "ptx:sm_90"])
def test_the_forum_s_convolution(device, capsys):
    error = runpy.run_path(str(EXAMPLE))["main"](device)
    assert error < 1e-4 and "largest error" in capsys.readouterr().out
