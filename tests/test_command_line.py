"""``python -m cydnn`` without a GPU: every verb, its JSON, its exit codes."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from cydnn import bench, kernels
from cydnn.__main__ import main
from cydnn.about import libraries
from cydnn.bench.run import peer_of
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.status import BadParam


def run(capsys, *words):
    code = main(list(words))
    return code, capsys.readouterr().out


def test_info(capsys):
    code, out = run(capsys, "info", "--json")
    facts = json.loads(out)
    assert code == 0 and facts["ptx"].startswith("ok") and "numpy" in [d["name"] for d in facts["devices"]]
    said = run(capsys, "info")[1]
    assert "interpreters  ptx:sm_75 ptx:sm_80 ptx:sm_90\n" in said
    assert "would use" in said and "rows: " in facts["tuned"] and facts["tuned"] in said and (
        "rows that count in this version; yours: none" in facts["errata"])


def test_info_says_which_errata_are_broken(capsys, monkeypatch):
    monkeypatch.setenv("CYDNN_ERRATA", "/nowhere/errata.json")
    assert "errata        broken: errata: /nowhere/errata.json must be a JSON list" in run(capsys, "info")[1]


def test_bench_on_the_numpy_device(capsys):
    code, out = run(capsys, "bench", "softmax_fwd 8x64 f32", "conv_fprop n1c4h6w6 k4r3s3 pad1 f16 nhwc",
                    "--device", "numpy", "--json")
    rows = json.loads(out)
    assert code == 0 and len(rows) == 2 and all(r["us"] > 0 and "reference" in r["engine"] for r in rows)


def test_bench_says_what_it_cannot_read(capsys):
    """A sentence a line, beside the table of the others."""
    code = main(["bench", "softmax_fwd 8x64 f31", "softmax_fwd 8x64 f32", "--device", "numpy"])
    out, error = capsys.readouterr()
    assert code == 1 and "f31" not in out and "reference" in out
    assert "GB/s" in out and "peer us" not in out            # columns in which nothing stands
    assert error.startswith("softmax_fwd 8x64 f31: ") and "'f31' is no word of softmax_fwd" in error


def test_info_names_loadedlibraries(tmp_path):
    """As the system lists what is mapped."""
    (tmp_path / "maps").write_text("".join(
        f"7f00-7f01 r-xp 00000000 08:01 12 {path}\n" for path in (
            "/usr/lib/libcuda.so.580.82.07", "/usr/lib/libcuda.so.580.82.07", "/opt/x/libcudart.so.13",
            "/usr/lib/libc.so.6", "[heap]")))
    assert libraries(str(tmp_path / "maps")) == {
        "libcuda": "/usr/lib/libcuda.so.580.82.07", "libcudart": "/opt/x/libcudart.so.13"}
    assert libraries("/no/such/list") == {}


def test_graph_is_explain(capsys):
    words = ["softmax_fwd 64x4096 bf16", "--device", "h200"]
    assert run(capsys, "graph", *words) == run(capsys, "explain", *words)


def test_ptx(capsys):
    name = kernels.names()[0]
    code, out = run(capsys, "ptx", name)
    assert code == 0 and "regs" in out or json.loads(out)["params"]
    assert run(capsys, "ptx", "--check")[1].startswith("ok")


def test_what_is_wrong_with_images_is_said(capsys, monkeypatch):
    monkeypatch.setattr("cydnn.kernels.verify", lambda: ["a.ptx: must have sha256 1; got 2", "b"])
    code, out = run(capsys, "ptx", "--check")
    assert code == 1 and out.startswith("broken: a.ptx: must have sha256 1; got 2, and 1 more")


@pytest.mark.parametrize("text", ["", "bench"])
def test_usage(text):
    with pytest.raises(SystemExit):
        main(text.split())


@pytest.mark.parametrize("words, sentence", [
    (["@/no/such/file"],
     "@file must be a file of problem lines; got '/no/such/file' (No such file or directory)"),
    (["some.txt"], "a file of problem lines must be given as @file; got 'some.txt': write @some.txt"),
    (["softmax_fwd 8x64 f32", "--repeat", "0"], "--repeat must be >= 1; got 0"),
    ([""], "there must be at least one problem"),
    (["softmax_fwd 8x64 f32", "--device", "tpu"],
     "device: must be \"cuda:N\", \"ptx:sm_N\", \"numpy\" or a device; got 'tpu'"),
    (["@" + sys.executable], f"@file must be a file of problem lines; got {sys.executable!r} (not text)"),
])
def test_bench_refuses_in_one_line(capsys, words, sentence):
    assert main(["bench", *words]) == 1
    error = capsys.readouterr().err
    assert error.startswith("cydnn: ") and sentence in error and error.count("\n") == 1


@pytest.mark.parametrize("words, sentence", [
    (["no_such_kernel"], "ptx: name must begin like one of the"),
    (["matmul_sum_f32", "--text", "--target", "90"], "ptx: --target must be sm_ and a number; got '90'"),
    (["matmul_sum_f32", "--text", "--target", ""], "ptx: --target must be sm_ and a number; got ''"),
    (["matmul_sum_f32", "--text", "--target", "sm_999"], "ptx: --target must be one of sm_75 sm_80"),
    (["matmul_sum_f32", "--seed", "0"], "ptx: --seed must stand beside --run; got neither"),
    (["matmul_sum_f32", "--text", "--file", "x"], "ptx: --file must stand beside --run; got --text"),
    (["matmul_sum_f32", "--uncovered"], "ptx: --uncovered must stand beside --run; got neither"),
    (["--target", "sm_80"], "ptx: --target must stand beside --run or --text; got neither"),
    (["--run"], "ptx: --run must have the whole name of a kernel; got ''"),
    (["matmul_sum", "--text"], "ptx: --text must have the whole name of a kernel; got 'matmul_sum'"),
    (["matmul_sum_f32", "--check", "--run"], "ptx: --run must be alone among --run --text --check"),
])
def test_ptx_refuses_in_one_line(capsys, words, sentence):
    assert main(["ptx", *words]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"cydnn: {sentence}") and error.count("\n") == 1


def forgotten(monkeypatch, name):
    """A module of bench that an earlier test may have imported."""
    monkeypatch.delitem(sys.modules, f"cydnn.bench.{name}", raising=False)
    monkeypatch.delattr(bench, name, raising=False)


def test_peers_need_a_gpu_and_their_packages(monkeypatch):
    gpu = SimpleNamespace(name="cuda:0", context=object())
    with pytest.raises(BadParam, match="bench: against must be torch; got 'jax'"):
        peer_of("jax", gpu)
    with pytest.raises(BadParam, match="bench: --against torch needs a CUDA device, .*; got numpy"):
        peer_of("torch", get("numpy"))
    monkeypatch.setitem(sys.modules, "torch", None)
    forgotten(monkeypatch, "peer")
    with pytest.raises(BadParam, match="bench: against torch needs the package torch; import of torch"):
        peer_of("torch", gpu)


def test_the_fused_peer_needs_its_package(monkeypatch):
    """Beside a torch that has nothing but the library."""
    torch = SimpleNamespace(backends=SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 9)))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cudnn", None)
    forgotten(monkeypatch, "peer_graph")
    with pytest.raises(BadParam, match="needs the package nvidia-cudnn-frontend .import name cudnn.; import"):
        from cydnn.bench import peer_graph       # noqa: F401


def test_bench_json_is_json(capsys):
    """What was not measured is null: NaN is no JSON."""
    main(["bench", "softmax_fwd 8x64 f31", "--device", "numpy", "--json"])
    row, = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert row["us"] is None and "'f31' is no word" in row["note"]


def test_bench_takes_the_interpreter(capsys):
    code, out = run(capsys, "bench", "scale_tensor 8x8 f32", "--device",
                    "ptx:sm_75", "--json", "--repeat", "1")
    assert code == 0 and json.loads(out)[0]["us"] > 0


# ---- python -m cydnn ptx NAME --run ----

TRANSPOSE = "transform_transpose_f32_f32"


def test_ptx_run(capsys):
    code, out = run(capsys, "ptx", TRANSPOSE, "--run")
    assert (code == 0 and f"# {TRANSPOSE} on ptx:sm_80, the fixed order of warps" in out
            and out.count("\nok ") == len(kernels.get(TRANSPOSE).problems))
    assert "error 0 against reference" in out and " instructions ran" in out


def test_ptx_run_as_json(capsys):
    line = "transform x=2x3x5x7:f32 y=2x3x5x7:f32@nhwc"
    code, out = run(capsys, "ptx", TRANSPOSE, "--run", "--target", "sm_75",
                    "--seed", "7", "--line", line, "--json")
    report = json.loads(out)
    trial, = report["trials"]
    assert code == 0 and report["ok"] and report["target"] == "sm_75" and report["seed"] == 7
    assert trial["problem"] == line and trial["ok"] and trial["finding"] is None and trial["launches"] == 1
    assert 0 < report["executed"] < report["total"] == report["executed"] + len(report["uncovered"])


def test_ptx_run_lists_what_did_not_run(capsys):
    _, out = run(capsys, "ptx", TRANSPOSE, "--run", "--uncovered")
    assert f"\n{TRANSPOSE}.ptx:" in out


@pytest.mark.parametrize(
    "old, new, state, says",
    [("", "", "ok", "error 0 against reference"), ("bar.sync", "// bar.sync", "FINDING", "race: block"),
     ("mul.f32", "add.f32", "WRONG", "WRONG against reference")])
def test_ptx_run_of_a_file(capsys, tmp_path, old, new, state, says):
    text = kernels.get(TRANSPOSE).image_for(80).text().decode()
    assert old in text
    (tmp_path / "mine.ptx").write_text(text.replace(old, new) if old else text)
    code, out = run(capsys, "ptx", TRANSPOSE, "--run", "--file", str(tmp_path / "mine.ptx"))
    assert code == (state != "ok") and f"\n{state} " in out and says in out


@pytest.mark.parametrize("words, sentence", [
    (["--line", "softmax_fwd 8x8 f32"],
     f"--line must be a problem for which an engine launches {TRANSPOSE} on sm_80; "
     "got ['softmax_fwd 8x8 f32']"),
    (["--file", "/no/such/file"],
     "--file must be a file of PTX; got '/no/such/file' (No such file or directory)"),
    (["--file", "/dev/null"], f"expected an entry {TRANSPOSE}; there is none"),
    (["--target", "sm_12"], "must name a target from sm_75 on; got 'sm_12'"),
    (["--target", ""], "must name a target from sm_75 on; got ''"),
    (["--file", ""], "--file must be a file of PTX; got '' (Is a directory)"),
    (["--seed", "-5"], "--seed must be >= 0; got -5"),
])
def test_ptx_run_refuses_in_one_line(capsys, words, sentence):
    assert main(["ptx", TRANSPOSE, "--run", *words]) == 1
    error = capsys.readouterr().err
    assert error.startswith("cydnn: ") and sentence in error and error.count("\n") == 1


def test_explain_of_a_card_that_is_not_there(capsys):
    lines = "softmax_fwd 64x1000 f16", "matmul 64x64 64x64 f16"
    code, out = run(capsys, "explain", *lines, "--device", "h200")
    assert code == 0 and "us in all" in out and out.count("steps:") == 2
    assert run(capsys, "graph", lines[0], "--device", "sm_90")[0] == 0
    _, out = run(capsys, "explain", "softmax_fwd 64x1000 f16", "--device", "a100", "--json", "--mode", "b")
    assert json.loads(out)[0]["device"] == KNOWN["a100"].name
    assert main(["explain", "nonsense"]) == 1 and capsys.readouterr().err.count("\n") == 1


def test_info_is_a_bug_report(capsys, monkeypatch):
    monkeypatch.setenv("CYDNN_SOME", "1")
    facts = json.loads(run(capsys, "info", "--json")[1])
    assert facts["extras"]["ml_dtypes"] and facts["set"]["CYDNN_SOME"] == "1" and " on " in facts["python"]
    assert set(facts["caches"]) == {"kernels", "tuned"}
    assert "CYDNN_SOME 1" in run(capsys, "info")[1]


def test_explain_as_a_page(capsys, tmp_path):
    place = tmp_path / "plan.html"
    lines = "matmul 512x512 512x512 f16", "softmax_fwd 64x1000 f32"
    code, out = run(capsys, "explain", *lines, "--device", "h200", "--html", str(place))
    text = place.read_text()
    assert code == 0 and not out and text.count("<section>") == 2 and text.count("flowchart TD") == 2
    assert "NVIDIA H200" in text and "<th>why</th>" in text and "softmax_fwd_warp" in text


def test_a_plan_is_drawn_for_a_card_that_is_not_here(capsys):
    code, out = run(capsys, "explain", "matmul 512x512 512x512 f16", "--device", "h200", "--mermaid")
    assert code == 0 and out.startswith("flowchart TD") and "matmul_wgmma" in out
    assert "t1 --> n0" in out and "n0 --> t3" in out


def test_traced_problems_are_benched(capsys, tmp_path):
    """Each once; what a graph is made of as lines of their own."""
    code = ("import cydnn, numpy as np; x = np.ones((1, 4, 6, 6), 'f4'); w = np.ones((4, 4, 3, 3), 'f4')\n"
            "for _ in 1, 2: cydnn.plan.forget(); cydnn.functional.forget(); cydnn.conv(x, w, w[:, 0, 0, 0])")
    env = {**os.environ, "CYDNN_LOG": "trace", "CYDNN_LOG_FILE": str(tmp_path / "lines")}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=600)
    lines = (tmp_path / "lines").read_text().splitlines()
    assert len(lines) == 2 and lines[0].startswith("conv_fprop ") and lines[1].startswith("pointwise ")
    assert run(capsys, "bench", f"@{tmp_path / 'lines'}", "--device", "numpy")[0] == 0
