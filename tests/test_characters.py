"""The recurrent job: a character LSTM learns on the NumPy device, and a GPU computes the same."""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
pytest.importorskip("tqdm")
import text                                      # noqa: E402


def test_the_first_steps_learn():
    result = text.train("numpy", bar=False, most_steps=40, letters=30)
    assert abs(result["bits"][0] - np.log2(len(text.LETTERS))) < 0.2
    assert np.mean(result["bits"][-5:]) < 5.2, result["bits"]
    assert result["sample"].startswith("The ") and len(result["sample"]) == 34


@pytest.mark.gpu
@pytest.mark.usefixtures("between_zones")
def test_gpu_follows_the_reference(gpu):
    want, got = (text.train(device, bar=False, most_steps=10, letters=1)["bits"]
                 for device in ("numpy", gpu.name))
    assert np.abs(np.subtract(got, want)).max() < 1e-3, list(zip(got, want))


@pytest.mark.gpu
@pytest.mark.timing
def test_gpu_learns_the_language(gpu):
    result = text.train(gpu.name, bar=False, epochs=3)
    assert result["tests"][-1][1] < 2.6, result["tests"]
