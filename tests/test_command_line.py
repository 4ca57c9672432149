"""``python -m cydnn`` without a GPU: every verb, its JSON, its exit codes."""
from __future__ import annotations

import json

import pytest

from cydnn import kernels
from cydnn.__main__ import main


def run(capsys, *words):
    code = main(list(words))
    return code, capsys.readouterr().out


def test_info(capsys):
    code, out = run(capsys, "info", "--json")
    facts = json.loads(out)
    assert code == 0 and facts["ptx"].startswith("ok") and "numpy" in [d["name"] for d in facts["devices"]]
    assert "would use" in run(capsys, "info")[1]


def test_bench_on_the_numpy_device(capsys):
    code, out = run(capsys, "bench", "softmax_fwd 8x64 f32", "conv_fprop n1c4h6w6 k4r3s3 pad1 f16 nhwc", "--device", "numpy", "--json")
    rows = json.loads(out)
    assert code == 0 and len(rows) == 2 and all(r["us"] > 0 and "reference" in r["engine"] for r in rows)


def test_bench_says_what_it_cannot_read(capsys):
    code, out = run(capsys, "bench", "softmax_fwd 8x64 f31", "--device", "numpy")
    assert code == 1 and "'f31' is no word of softmax_fwd" in out


def test_ptx(capsys):
    name = kernels.names()[0]
    code, out = run(capsys, "ptx", name)
    assert code == 0 and "regs" in out or json.loads(out)["params"]
    assert run(capsys, "ptx", "--check")[1].startswith("ok")
    assert run(capsys, "ptx", "no_such_kernel")[0] == 1


@pytest.mark.parametrize("text", ["", "bench"])
def test_usage(text):
    with pytest.raises(SystemExit):
        main(text.split())
