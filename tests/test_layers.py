"""Every room of cydnn stands at a height, and imports only from rooms below it: read from the sources."""
from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "cydnn"
CORE = ("_core _address _call _context _descriptor _driver _handles _numbers _operands _step _table _tape "
        "atomics cuda symbols")
HEIGHTS = (                                      # the lowest first; rooms of one line do not know each other
    "status locks",
    # the errors and the version; all else is loaded when it is asked for
    "__init__",
    "arena files given _seal",
    "dtypes",
    "tensor",
    "operand",
    "steps",
    "kernels",
    # one room in several files: bytes and launches, never operations
    CORE,
    "log",
    "ops",
    "graph",
    "fusion",
    "engines",
    "heuristics",
    # above what plans: engines and heuristics know facts, no device
    "device",
    "layout",
    "plan",
    "legacy frontend bench",
    # descriptors: handles, caches and facts of devices are the front end's
    "backend",
    "cudnn",
    "__main__",
)
HEIGHT = {room: i for i, line in enumerate(HEIGHTS) for room in line.split()}
SOURCES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyx", ".pxd", ".pyi"))
IMPORT = re.compile(r"^\s*(?:from\s+(\S+)\s+c?import\s+([^#\n]+)|c?import\s+(\S+))", re.M)


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].split(".")[0]


def imported(source: str, is_python: bool):
    """(module with its dots, names, line) of every import, also inside of functions."""
    if not is_python:
        for found in IMPORT.finditer(source):
            names = re.findall(r"\w+", found[2] or "")
            yield found[1] or found[3], names, source.count("\n", 0, found.start(1 if found[1] else 3)) + 1
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), [a.name for a in node.names], node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, [], node.lineno


def rooms(path: Path):
    """(room, line) of every import of the package in a file. A name that is no room comes from the package
    itself."""
    package = ["cydnn", *path.relative_to(PACKAGE).parts[:-1]]
    for module, names, line in imported(path.read_text(), path.suffix in (".py", ".pyi")):
        dots = len(module) - len(module.lstrip("."))
        parts = package[:len(package) - dots + 1] if dots else []
        parts += module.lstrip(".").split(".") if module.strip(".") else []
        if parts[:1] == ["cydnn"]:
            found = parts[1:2] or [name if name in HEIGHT else "__init__" for name in names or ["__init__"]]
            yield from ((room, line) for room in found)


def test_every_room_has_a_height():
    here = {room_of(path) for path in SOURCES}
    assert here - set(HEIGHT) == set() and set(HEIGHT) - here == set()
    assert len(HEIGHT) == sum(len(line.split()) for line in HEIGHTS)


@pytest.mark.parametrize("room", HEIGHT)
def test_imports_go_down(room):
    below = {r for r in HEIGHT
             if HEIGHT[r] < HEIGHT[room]} | (set(CORE.split()) if room in CORE.split() else {room})
    wrong = [f"{path.relative_to(PACKAGE)}:{line} imports {target}" for path in SOURCES
             if room_of(path) == room
             for target, line in rooms(path) if target not in below]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("source, is_python, want", [
    ("from ..a.b import c\nimport cydnn.d\n", True, [("..a.b", ["c"]), ("cydnn.d", [])]),
    ("def f():\n    from . import e, f\n", True, [(".", ["e", "f"])]),
    ("cimport cython\nfrom cydnn._a cimport b, c\nimport cydnn._d as d\n", False,
     [("cython", []), ("cydnn._a", ["b", "c"]), ("cydnn._d", [])])])
def test_imports_are_read(source, is_python, want):
    assert [(module, names) for module, names, _ in imported(source, is_python)] == want
