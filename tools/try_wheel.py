"""A wheel as a user meets it: made, installed into a fresh environment, and tried there.

    python tools/try_wheel.py                 of a clean clone, with what it needs from the index (a minute)
    python tools/try_wheel.py --wheel FILE    one that is there
    python tools/try_wheel.py --quick         of the extensions built here, with what this Python has
    python tools/try_wheel.py --python 3.10 3.13        with other Pythons, of PATH or pyenv; `all`: each

A clean clone is packed as the archive of sources first, of which the wheel is built in isolation.

Tried: a convolution on NumPy and on the interpreter of the kernels, `cydnn info`, an example, a program that
is built by `cimport cydnn`, and, where nvcc 13.0 is, a kernel compiled by the installed copy.
"""
from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14")
BUILT_BY = ("cython>=3.3,<3.4", "setuptools>=77")
CONV = """
import numpy as np, cydnn
assert "site-packages" in cydnn.__file__, cydnn.__file__
rng = np.random.default_rng(0)
x, w = rng.random((1, 4, 6, 6), np.float32), rng.random((8, 4, 3, 3), np.float32)
y = cydnn.conv(x, w, padding=1)
np.testing.assert_allclose(cydnn.conv(x, w, padding=1, device="ptx:sm_80"), y, rtol=1e-4)
print("a convolution on NumPy and on ptx:sm_80")
"""
BUILT = """
import numpy as np, cydnn
from cydnn import kernels
image = kernels.get("softmax_fwd_warp_f32_32").image_for(86)
assert image.target == "sm_86" and image.folder == kernels.overlay_folder(kernels.seal_in_use()), image
x = np.random.default_rng(0).random((8, 64), np.float32)
np.testing.assert_allclose(cydnn.softmax(x, 1, device="ptx:sm_86"), cydnn.softmax(x, 1), rtol=1e-5)
print("a kernel compiled by the installed copy")
"""


def call(*words, **kw) -> str:
    """What a command prints. Raises SystemExit with all that it said where it fails."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, **kw)
    if done.returncode:
        raise SystemExit(f"try_wheel: {' '.join(map(str, words))} ended with {done.returncode}\n"
                         f"{done.stdout}{done.stderr}")
    return done.stdout


def python_of(version: str) -> Path | None:
    """An interpreter of CPython ``version``, "3.12", that makes environments: of PATH or pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    asked = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    for python in filter(None, places):
        done = subprocess.run([python, "-c", asked], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.strip() == version:
            return Path(python)
    return None


def cleanly(place: Path, python: Path) -> Path:
    """The wheel of the archive of sources of a clean clone; ``python`` has pip."""
    call("git", "clone", "-q", ROOT, place / "clone")
    call(python, "-m", "pip", "install", "-q", *BUILT_BY)
    call(python, "-c", f"from setuptools import build_meta; build_meta.build_sdist({str(place)!r})",
         cwd=place / "clone")
    call(python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", place, next(place.glob("cydnn-*.tar.gz")))
    return next(place.glob("cydnn-*.whl"))


def quickly(place: Path) -> Path:
    """The wheel of the files here and of the extensions that are built here: nothing is compiled."""
    lib = place / "lib"
    (place / "extra.cfg").write_text(f"[build]\nbuild_lib={lib}\n[egg_info]\negg_base={place}\n")
    env = {**os.environ, "DIST_EXTRA_CONFIG": str(place / "extra.cfg")}
    call(sys.executable, "setup.py", "-q", "build_py", cwd=ROOT, env=env)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    for path in (ROOT / "cydnn").rglob(f"*{suffix}"):
        shutil.copy(path, lib / path.relative_to(ROOT))
    call(sys.executable, "setup.py", "-q", "bdist_wheel", "--skip-build", "--bdist-dir", place / "bdist",
         "--dist-dir", place, cwd=ROOT, env=env)
    return next(place.glob("cydnn-*.whl"))


def environment(place: Path, is_quick: bool) -> Path:
    """The Python of a fresh environment."""
    venv.create(place / "env", with_pip=not is_quick, symlinks=True)
    return place / "env" / "bin" / "python"


def install(wheel: Path, python: Path, is_quick: bool):
    """Put the wheel into an environment."""
    if is_quick:                                 # behind its own: what this Python has
        own = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        (own / "behind.pth").write_text("\n".join(p for p in sys.path if p.endswith("-packages")))
        call(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile",
             "--target", own, wheel)
    else:
        call(python, "-m", "pip", "install", "-q", wheel, *BUILT_BY, "tomli; python_version < '3.11'")


def has_nvcc() -> bool:
    nvcc = shutil.which("nvcc")
    return nvcc is not None and "release 13.0" in call(nvcc, "--version")


def tried(python: Path, place: Path) -> list[str]:
    """What works, a line each; SystemExit where something does not."""
    drop = ("PYTHONPATH", "CYDNN_PTX_DIR", "CYDNN_DEBUG")
    at = dict(cwd=place, env={**{k: v for k, v in os.environ.items() if k not in drop},
                              "CYDNN_CACHE": str(place / "cache")})
    said = [call(python, "-c", CONV, **at)]
    info = call(python, "-m", "cydnn", "info", **at)
    said.append("cydnn info: " + next(line for line in info.splitlines() if line.startswith("ptx ")))
    said.append("examples/explain: " + call(python, "-m", "cydnn.examples.explain", **at).splitlines()[-1])
    said.append("examples/embed: " + call(python, "-m", "cydnn.examples.embed", **at))
    if not has_nvcc():
        return [*said, "no kernel was compiled: nvcc 13.0 is not here"]
    build = ("ptx", "softmax_fwd_warp_f32_32", "--build", "--arch", "sm_86")
    said.append(call(python, "-m", "cydnn", *build, **at))
    assert "overlay       1 images for sm_86" in call(python, "-m", "cydnn", "info", **at)
    return [*said, call(python, "-c", BUILT, **at)]


def with_others(versions) -> list[str]:
    """What is said with other Pythons; a sentence for each that is not here."""
    said = []
    for version in SUPPORTED if versions == ["all"] else versions:
        python = python_of(version)
        said.append(f"Python {version}: " + ("not on PATH nor in pyenv" if python is None else
                                             call(python, __file__)))
        print(said[-1].strip(), flush=True)
    return said


def main(argv=None) -> list[str]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--python", nargs="+", metavar="VERSION")
    args = parser.parse_args(argv)
    if args.python:
        return with_others(args.python)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        python = environment(place, args.quick)
        wheel = args.wheel or (quickly(place) if args.quick else cleanly(place, python))
        said = [f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB"]
        install(wheel, python, args.quick)
        said += tried(python, place)
    print("\n".join(line.strip() for line in said))
    return said


if __name__ == "__main__":
    main()
