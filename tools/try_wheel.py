"""A wheel as a user meets it: made, installed into a fresh environment, and tried there.

    python tools/try_wheel.py                 of a clean clone, with what it needs from the index (minutes)
    python tools/try_wheel.py --wheel FILE    one that is there
    python tools/try_wheel.py --quick         of the extensions built here, with what this Python has

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


def cleanly(place: Path) -> Path:
    """The wheel of a clean clone."""
    call("git", "clone", "-q", ROOT, place / "clone")
    call(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", place, place / "clone")
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


def installed(wheel: Path, place: Path, is_quick: bool) -> Path:
    """The Python of a fresh environment that has the wheel."""
    home = place / "env"
    venv.create(home, with_pip=not is_quick, symlinks=True)
    python = home / "bin" / "python"
    if is_quick:                                 # behind its own: what this Python has
        own = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        (own / "behind.pth").write_text("\n".join(p for p in sys.path if p.endswith("-packages")))
        call(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile",
             "--target", own, wheel)
    else:
        call(python, "-m", "pip", "install", "-q", wheel, "cython>=3.3,<3.4", "setuptools>=77")
    return python


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


def main(argv=None) -> list[str]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        wheel = args.wheel or (quickly if args.quick else cleanly)(place)
        said = [f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB"]
        said += tried(installed(wheel, place, args.quick), place)
    print("\n".join(line.strip() for line in said))
    return said


if __name__ == "__main__":
    main()
