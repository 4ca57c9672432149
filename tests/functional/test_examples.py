"""The examples of functions on arrays, run small."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))


@pytest.mark.parametrize("card", ["h200", "t4"])
def test_explain(capsys, card):
    from explain import main
    found = main(card)
    assert found["error"] < 1e-4 and 0 < found["together"] < 1.01 * found["apart"]
    assert "refused" in capsys.readouterr().out


def test_embed(tmp_path):
    pytest.importorskip("Cython")
    from embed import main
    assert main(tmp_path, ["numpy", "ptx:sm_80"]) < 1e-4
    page = (Path(__file__).resolve().parents[2] / "docs" / "embed.md").read_text()
    assert (tmp_path / "embed_loop.pyx").read_text() in page


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80"])
def test_cuda_graph(device):
    from cuda_graph import main
    found = main(device)
    assert found["error"] < 1e-6 and found["same"]


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80"])
def test_conv_bias_relu(device):
    from conv_bias_relu import main
    errors = main(device)
    assert len(errors) == 3 and max(errors.values()) < 1e-4


def test_debug_a_kernel(capsys):
    from debug_a_kernel import main
    facts = main()
    assert facts["kind"] == "race" and "as shipped: largest error 0\n" in capsys.readouterr().out


def test_resnet(capsys):
    for needed in ("torch", "sklearn", "PIL"):
        pytest.importorskip(needed)
    from resnet import main
    found = main(steps=3)
    assert all(abs(ours - theirs) < 1e-3 for ours, theirs in zip(*found["losses"].values()))
    assert "right: ours " in capsys.readouterr().out


def test_jax_call():
    pytest.importorskip("jax")
    from jax_call import main
    found = main()
    assert all(abs(ours - theirs) < 1e-4 for ours, theirs in zip(*found.values()))
    assert found["ours"][-1] < 0.3 * found["ours"][0]


def test_torch_drop_in(capsys):
    pytest.importorskip("torch")
    from torch_drop_in import main
    assert all(abs(ours - theirs) < 1e-4 for ours, theirs in main(steps=3)["losses"])
    assert "conv2d: " in capsys.readouterr().out
