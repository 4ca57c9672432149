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


@pytest.mark.parametrize("words, sentence", [
    (["@/no/such/file"], "@file must be a file of problem lines; got '/no/such/file' (No such file or directory)"),
    (["softmax_fwd 8x64 f32", "--repeat", "0"], "--repeat must be >= 1; got 0"),
    ([""], "there must be at least one problem"),
    (["softmax_fwd 8x64 f32", "--device", "gpu"], "device: must be \"cuda:N\", \"numpy\" or a device; got 'gpu'"),
])
def test_bench_refuses_in_one_line(capsys, words, sentence):
    assert main(["bench", *words]) == 1
    error = capsys.readouterr().err
    assert error.startswith("cydnn: ") and sentence in error and error.count("\n") == 1


def test_bench_json_is_json(capsys):
    """What was not measured is null: NaN is no JSON."""
    main(["bench", "softmax_fwd 8x64 f31", "--device", "numpy", "--json"])
    row, = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert row["us"] is None and "'f31' is no word" in row["note"]


def test_bench_takes_the_interpreter(capsys):
    code, out = run(capsys, "bench", "scale_tensor 8x8 f32", "--device", "ptx:sm_75", "--json", "--repeat", "1")
    assert code == 0 and json.loads(out)[0]["us"] > 0
