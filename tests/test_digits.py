"""The main job: the digits network learns on the NumPy device, and a GPU computes the same losses."""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))


@pytest.fixture(scope="module")
def digits():
    """The example; what it needs takes seconds to import, in every process that collects tests."""
    pytest.importorskip("sklearn")
    import digits
    return digits


def test_one_epoch_learns(digits):
    result = digits.train("numpy", epochs=2, bar=False)
    assert result["accuracy"] > 0.9, result["accuracies"]
    assert np.mean(result["losses"][-10:]) < 0.5 < np.mean(result["losses"][:3])


@pytest.mark.gpu
@pytest.mark.usefixtures("between_zones")
def test_gpu_follows_the_reference(gpu, digits):
    want = digits.train("numpy", bar=False, most_steps=10)["losses"]
    got = digits.train(gpu.name, bar=False, most_steps=10)["losses"]
    assert np.abs(np.subtract(got, want)).max() < 1e-3, list(zip(got, want))


@pytest.mark.gpu
@pytest.mark.timing
def test_gpu_accuracy_and_time(gpu, digits):
    result = digits.train(gpu.name, bar=False)
    assert result["accuracy"] >= 0.97, result["accuracies"]
    assert result["seconds_per_epoch"] <= 1.0
