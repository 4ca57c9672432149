"""What an installed cydnn has: every module, the Cython sources and declarations, the stubs,
and all of ptx/ as cydnn/_ptx."""
import json
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = {".py", ".pyx", ".pxd", ".pyi", ".typed"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The files a wheel would have, without compiling."""
    pytest.importorskip("Cython")
    pytest.importorskip("setuptools")
    place = tmp_path_factory.mktemp("built")
    run = subprocess.run([sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(place)],
                         cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return place / "cydnn"


def files(folder, wanted):
    return {p.relative_to(folder) for p in folder.rglob("*")
            if p.is_file() and "__pycache__" not in p.parts and wanted(p)}


def test_every_source_file_is_installed(built):
    ours = files(ROOT / "cydnn", lambda p: p.suffix in SHIPPED)
    assert ours - files(built, lambda p: True) == set()
    assert {Path("_core.pxd"), Path("_core.pyi"), Path("_core.pyx"), Path("core/cuda.pxd"),
            Path("__init__.pxd"), Path("py.typed")} <= ours


def test_every_image_is_installed(built):
    manifest = json.loads((built / "_ptx" / "manifest.json").read_text())
    images = {image["file"] for kernel in manifest["kernels"].values() for image in kernel["images"].values()}
    assert images and images - {str(p) for p in files(built / "_ptx", lambda p: True)} == set()


def test_extensions_need_the_c_library_alone():
    """So a wheel is a manylinux one: no driver, no library of CUDA, nothing to be found beside it."""
    if shutil.which("readelf") is None:
        pytest.skip("needs readelf")
    found = sorted((ROOT / "cydnn").rglob("*.so"))
    said = subprocess.run(["readelf", "-d", *map(str, found)], capture_output=True, text=True).stdout
    assert len(found) > 10
    assert set(re.findall(r"NEEDED.*\[(.*?)\.so", said)) <= {"libc", "libm", "libpthread", "libdl"}


def test_run_time_needs_are_three():
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert sorted(project["project"]["dependencies"]) == [
        "cuda-bindings>=12.9,<14,!=13.0.0", "ml_dtypes>=0.4", "numpy>=1.26"]
    assert not any("cuda" in need for need in project["build-system"]["requires"])


def test_the_command_and_the_wheels_are_declared():
    tomllib = pytest.importorskip("tomllib")
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())
    module, _, name = found["project"]["scripts"]["cydnn"].partition(":")
    assert callable(getattr(import_module(module), name))
    wheels = found["tool"]["cibuildwheel"]
    assert wheels["linux"]["archs"] == ["x86_64", "aarch64"]
    assert {f"cp3{minor}-*" for minor in range(10, 15)} <= set(wheels["build"])
    command = wheels["test-command"].partition('python -c "')[2].rstrip('"')
    exec(command, {})


def test_there_is_one_version():
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == import_module("cydnn").__version__


def test_the_licence_is_whole():
    text = (ROOT / "LICENSE").read_text()
    assert "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in text and "END OF TERMS" in text
