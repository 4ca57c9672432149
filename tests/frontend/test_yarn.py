"""Angles of rotary embeddings for long contexts, by the formulas of the paper."""
from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from cydnn.frontend.yarn import compute_yarn_freqs, compute_yarn_inv_freq, yarn_get_mscale
from cydnn.status import BadParam


@pytest.fixture(autouse=True)
def torch(monkeypatch):
    """NumPy, whose functions are called the same."""
    monkeypatch.setitem(sys.modules, "torch", np)


def share(i, d, base, length, fast, slow) -> float:
    """How much of its angle a pair keeps: 1 where it turns often, 0 where it hardly turns."""
    turn = lambda turns: d * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))
    first, last = max(math.floor(turn(fast)), 0), min(math.ceil(turn(slow)), d - 1)
    return 1 - min(max((i - first) / (last - first), 0), 1)


@pytest.mark.parametrize("d, scale, length", [(64, 40.0, 4096), (128, 4.0, 32768), (16, 1.0, 4096)])
def test_angles(d, scale, length):
    found = compute_yarn_inv_freq(d, scaling_factor=scale, original_max_position=length, device="cpu")
    for i, got in enumerate(found):
        whole = 10000.0 ** (-2 * i / d)
        kept = 1 if scale == 1 else share(i, d, 10000.0, length, 32, 1)
        assert got == pytest.approx(whole * (kept + (1 - kept) / scale), rel=1e-5)


def test_what_rope_takes():
    angles, scale = compute_yarn_freqs(5, 8, scaling_factor=4.0, original_max_position=64, device="cpu")
    step = compute_yarn_inv_freq(8, scaling_factor=4.0, original_max_position=64, device="cpu")
    assert angles.shape == (5, 1, 1, 8) and not angles[..., 4:].any() and angles.dtype == np.float32
    np.testing.assert_allclose(angles[3, 0, 0, :4], 3 * step, rtol=1e-6)
    assert scale == yarn_get_mscale(4.0) == 0.1 * math.log(4) + 1 and yarn_get_mscale(0.5) == 1
    assert compute_yarn_freqs(5, 8, scaling_factor=4.0, mscale_all_dim_factor=1.0, device="cpu")[1] == 1
    # pairs between which nothing is blended
    short = compute_yarn_inv_freq(4, scaling_factor=2.0, original_max_position=1, device="cpu")
    np.testing.assert_allclose(short, [0.5 * 1 + 0.5, 0.01 / 2], rtol=1e-6)


def test_what_is_refused(monkeypatch):
    with pytest.raises(BadParam, match="yarn: head_dim must be even and positive; got 7"):
        compute_yarn_inv_freq(7)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BadParam, match="yarn: torch must be installed"):
        compute_yarn_freqs(4, 8)
