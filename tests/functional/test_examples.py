"""The examples of functions on arrays, run small."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))


@pytest.mark.parametrize("card", ["h200", "t4"])
def test_explain(capsys, card):
    from explain import main
    found = main(card)
    assert found["error"] < 1e-4 and 0 < found["together"] < found["apart"]
    assert "refused" in capsys.readouterr().out


def test_embed(tmp_path):
    pytest.importorskip("Cython")
    from embed import main
    assert main(tmp_path, ["numpy", "ptx:sm_80"]) < 1e-4
    page = (Path(__file__).resolve().parents[2] / "docs" / "embed.md").read_text()
    assert (tmp_path / "embed_loop.pyx").read_text() in page


def test_torch_drop_in(capsys):
    pytest.importorskip("torch")
    from torch_drop_in import main
    assert all(abs(ours - theirs) < 1e-4 for ours, theirs in main(steps=3)["losses"])
    assert "conv2d: " in capsys.readouterr().out
