"""Builds the extensions and installs the folder ptx/ as cydnn/_ptx. No logic of its own;
the rest is in pyproject.toml."""
from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

DIRECTIVES = dict(language_level=3, binding=False, boundscheck=False, wraparound=False, cdivision=True,
                  initializedcheck=False, auto_pickle=False, embedsignature=True,
                  **{"embedsignature.format": "python"})
EXTENSIONS = [Extension(f"cydnn.{name}", [f"cydnn/{name}.pyx"], extra_compile_args=["-O2", "-g0"])
              for name in ("_driver", "_address", "_context", "_handles", "_numbers", "_operands", "_step",
                           "_tape", "_table", "_call", "_core")]

setup(
    packages=[*find_packages(include=["cydnn", "cydnn.*"]), "cydnn._ptx"],
    package_dir={"cydnn._ptx": "ptx"},
    package_data={"cydnn": ["*.pyx", "*.pxd", "*.pyi", "py.typed"], "cydnn.backend": ["*.csv"],
                  "cydnn._ptx": ["*.json", "**/*.ptx", "**/*.xz"]},
    include_package_data=False,
    ext_modules=cythonize(EXTENSIONS, build_dir="build/cython", compiler_directives=DIRECTIVES),
)
