"""What somebody meets who tries the library for the first time."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cydnn
from cydnn import cudnn, frontend
from cydnn.__main__ import main
from cydnn.status import BadParam

ROOT = Path(__file__).resolve().parents[1]


def run(*words, cwd=ROOT, **kw):
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, **kw)


def test_version(capsys):
    with pytest.raises(SystemExit) as found:
        main(["--version"])
    assert found.value.code == 0 and capsys.readouterr().out == f"cydnn {cydnn.__version__}\n"


# ---- The package ----

def test_the_licence_is_named():
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0" and project["license-files"] == ["LICENSE"]
    assert project["authors"] == [{"name": "The cydnn developers"}]
    assert "SPDX-License-Identifier: Apache-2.0" in (ROOT / "LICENSE").read_text()


def test_what_is_packed(tmp_path):
    """The metadata, docs in the archive of sources, examples in what is installed."""
    made = run(sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(tmp_path),
               "build_py", "--build-lib", str(tmp_path / "lib"))
    assert made.returncode == 0, made.stderr
    info = (tmp_path / "cydnn.egg-info" / "PKG-INFO").read_text()
    assert "\nLicense-Expression: Apache-2.0\n" in info and "\nAuthor: The cydnn developers\n" in info
    assert "\nLicense-File: LICENSE\n" in info
    sources = (tmp_path / "cydnn.egg-info" / "SOURCES.txt").read_text().split("\n")
    assert {"LICENSE", "docs/tour.md", "docs/digits.png", "examples/digits.py"} <= set(sources)
    assert {p.name for p in (tmp_path / "lib/cydnn/examples").iterdir()} >= {"digits.py", "text.py"}


def test_a_folder_of_sources_says_what_it_is(tmp_path):
    """In the root of a clone, Python finds the sources before what was installed."""
    shutil.copytree(ROOT / "cydnn", tmp_path / "cydnn", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for words in (["-c", "import cydnn"], ["-m", "cydnn", "info"]):
        done = run(sys.executable, "-s", *words, cwd=tmp_path, env=env)
        assert done.returncode == 1 and "is the source, without the built extensions. Leave it" in done.stderr


@pytest.mark.parametrize("name, lost", [("digits", "sklearn"), ("digits", "tqdm"), ("text", "tqdm"),
                                        ("cupy_call", "cupy"), ("jax_call", "jax")])
def test_an_example_says_what_it_needs(name, lost):
    """A package of the extra `demo` is not there."""
    words = f"import runpy, sys; sys.modules[{lost!r}] = None; runpy.run_path('examples/{name}.py')"
    done = run(sys.executable, "-c", words, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(f"{name}: needs ") and "pip install " in done.stderr


# ---- The command line ----

def test_a_reader_that_leaves_early_is_no_error():
    done = run("bash", "-c", f'set -o pipefail; "{sys.executable}" -m cydnn ptx | head -n 1',
               env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.stdout.count("\n") == 1 and done.stderr == ""


def test_a_peer_without_a_gpu_is_refused_in_a_sentence(capsys):
    assert main(["bench", "softmax_fwd 4x8 f32", "--against", "torch", "--device", "numpy"]) == 1
    assert capsys.readouterr().err.startswith(
        "cydnn: bench: --against torch needs a CUDA device, where both run; got numpy")


@pytest.mark.parametrize("device, what", [
    ("numpy", "wall clock of the NumPy reference, not of a kernel, median of 3, caches as they are"),
    ("ptx:sm_80", "wall clock of the interpreter, not of a GPU, median of 3, caches as they are")])
def test_a_table_says_what_was_measured(capsys, device, what):
    assert main(["bench", "scale_tensor 8x8 f32", "--device", device]) == 0
    head = capsys.readouterr().out.split("\n")[0]
    assert what in head and "cold L2" not in head


def test_a_table_has_the_reasons_of_the_engines(capsys):
    main(["bench", "softmax_fwd x=2x3:i8x4 y=2x3:i8x4", "--device", "ptx:sm_80"])
    out = capsys.readouterr().err
    assert "softmax_fwd x=2x3:i8x4 y=2x3:i8x4: " in out and out.count("\n") > 4


# ---- The first graph ----

def graph():
    return frontend.pygraph(io_data_type=cydnn.data_type.FLOAT, handle=frontend.create_handle("numpy"))


@pytest.mark.parametrize("given, meant", [
    ({}, dict(padding=[0, 0], stride=[1, 1], dilation=[1, 1])),
    (dict(padding=1), dict(padding=[1, 1], stride=[1, 1], dilation=[1, 1])),
    (dict(stride=2, dilation=np.int64(2)), dict(padding=[0, 0], stride=[2, 2], dilation=[2, 2])),
    (dict(pre_padding=1, post_padding=0), dict(pre_padding=[1, 1], post_padding=[0, 0], stride=[1, 1],
                                               dilation=[1, 1]))])
def test_a_convolution_has_usual_numbers(given, meant):
    values = np.random.default_rng(0)
    x, w, found = values.random((2, 4, 9, 9), np.float32), values.random((3, 4, 3, 3), np.float32), []
    for options in (given, meant):
        g = graph()
        X, W = g.tensor_like(x), g.tensor_like(w)
        Y = g.conv_fprop(X, W, **options).set_output(True)
        g.build([cydnn.heur_mode.A])
        y = np.empty(4 * np.prod(Y.get_dim()), np.uint8)
        g.execute({X: x, W: w, Y: y}, np.empty(g.get_workspace_size(), np.uint8))
        found.append(y)
    np.testing.assert_array_equal(*found)
    again = graph()
    again.deserialize(repr(g))
    assert again.key() == g.key()


@pytest.mark.parametrize("options", [dict(padding="1"), dict(stride=1.5), dict(dilation=[1.5]),
                                     dict(stride=0)])
def test_what_is_no_number_of_a_convolution(options):
    g = graph()
    with pytest.raises(BadParam, match=next(iter(options))):
        g.conv_fprop(g.tensor([1, 1, 4, 4], [16, 16, 4, 1]), g.tensor([1, 1, 3, 3], [9, 9, 3, 1]), **options)
        g.validate()
