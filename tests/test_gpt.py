"""The attention job: a small GPT learns on the NumPy device, its gradient is that of its loss, it writes with
pages of keys what it would compute at once; a GPU does the same."""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from cydnn import device as devices

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
pytest.importorskip("tqdm")
import decode                                    # noqa: E402
import gpt                                       # noqa: E402


def test_the_first_steps_learn():
    bits = gpt.train("numpy", steps=12, layers=1, say=None)["bits"]
    assert abs(bits[0] - np.log2(len(gpt.LETTERS))) < 1 and bits[-1] < bits[0] - 0.3, bits


def test_the_gradient_is_that_of_the_loss():
    """Along the gradient the loss falls as fast as the gradient is long."""
    device, letters = devices.get("numpy"), np.random.default_rng(3).integers(0, 96, (8, gpt.CONTEXT + 1))
    trainer = gpt.Trainer(device, layers=1)
    value, grad = (np.empty(trainer.count, np.float32) for _ in range(2))
    device.copy_out(trainer.memory["value"], value)
    trainer.step(letters, 0.0)
    device.copy_out(trainer.memory["grad"], grad)
    length, losses = float(np.linalg.norm(grad.astype(float))), []
    for way in (-1, 1):
        device.copy_in(trainer.memory["value"], (value + way * 0.02 * grad / length).astype(np.float32))
        losses.append(trainer.step(letters, 0.0) * np.log(2))
    assert (losses[1] - losses[0]) / 0.04 == pytest.approx(length, rel=0.02)


def test_decoding_with_pages_is_the_whole_forward():
    """The bits of sequences, a letter at a time, are the loss of the training graph over them."""
    letters = np.random.default_rng(5).integers(0, 96, (8, gpt.CONTEXT + 1))
    trainer = gpt.Trainer(devices.get("numpy"), layers=1)
    bits = []
    for row in letters:
        decoder = decode.Decoder(trainer, layers=1, page=5, most=40)
        for letter, following in zip(row, row[1:]):
            scores = decoder.scores(letter)
            bits.append(np.log2(np.exp(scores).sum()) - scores[following] / np.log(2))
    assert np.mean(bits) == pytest.approx(trainer.step(letters, 0.0), rel=1e-5)


@pytest.mark.gpu
@pytest.mark.usefixtures("between_zones")
def test_gpu_follows_the_reference(gpu):
    want, got = (gpt.train(device, steps=8, layers=1, say=None)["bits"] for device in ("numpy", gpu.name))
    assert np.abs(np.subtract(got, want)).max() < 2e-3, list(zip(got, want))
    assert len(decode.run(gpu.name, steps=4, layers=1, letters=20, say=None)["text"]) == 24
