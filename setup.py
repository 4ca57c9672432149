"""Builds the extensions and installs the folders ptx/ as cydnn/_ptx, examples/ as cydnn/examples, and as
cydnn/_build kernels_src/ and tools/, of which an installed cydnn makes kernels. The rest: pyproject.toml."""
import multiprocessing
import os
import sys
from glob import glob
from pathlib import Path
from runpy import run_path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

DIRECTIVES = dict(language_level=3, binding=False, boundscheck=False, wraparound=False, cdivision=True,
                  initializedcheck=False, auto_pickle=False, embedsignature=True,
                  freethreading_compatible=True, **{"embedsignature.format": "python"})
FLAGS = [] if "CFLAGS" in os.environ else ["-O2", "-g0"]      # what comes last wins
EXTENSIONS = [Extension(path[:-4].replace(os.sep, "."), [path], extra_compile_args=FLAGS)
              for path in (os.path.join("cydnn", "_core.pyx"),
                           *sorted(glob(os.path.join("cydnn", "core", "*.pyx"))))]

# The manifest that is built in: another one beside it is refused.
MANIFEST = Path(__file__).parent / "ptx" / "manifest.json"
KNOWS = run_path(str(MANIFEST.parent.parent / "cydnn" / "kernels" / "seal.py"))
KNOWS["read"](MANIFEST.read_bytes())             # looked through now, so that no process has to
SEAL = KNOWS["seal_of"](MANIFEST.read_bytes())
EXTENSIONS.append(Extension("cydnn.kernels._seal", ["cydnn/kernels/_seal.pyx"], depends=["ptx/manifest.json"],
                            define_macros=[("CYDNN_SEAL", f'"{SEAL}"')]))

# Cython and gcc on all cores. A process that is no fork would run this file again: elsewhere Cython has one.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
FORKS = sys.platform == "linux"
if FORKS:
    multiprocessing.set_start_method("fork", force=True)

OTHERS = {"cydnn._ptx": "ptx", "cydnn.examples": "examples", "cydnn._build.tools": "tools",
          "cydnn._build.kernels_src": "kernels_src"}

setup(
    packages=[*find_packages(include=["cydnn", "cydnn.*"]), *OTHERS],
    package_dir=OTHERS,
    package_data={"": ["*.pyx", "*.pxd", "*.pyi"], "cydnn": ["py.typed"], "cydnn.backend": ["*.csv"],
                  "cydnn.fusion": ["instructions.json"],
                  "cydnn.heuristics": ["errata.json", "shipped/*.txt"],
                  "cydnn._ptx": ["*.json", "**/*.ptx", "**/*.xz"],
                  "cydnn._build.kernels_src": ["**/*.cu", "**/*.cuh"]},
    include_package_data=False,
    ext_modules=cythonize(EXTENSIONS, nthreads=CORES if FORKS else 0,
                          build_dir="build/cython", compiler_directives=DIRECTIVES),
    options={"build_ext": {"parallel": CORES}},
)
