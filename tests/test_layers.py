"""Every room of cydnn stands at a height, and imports only from rooms below it: read from the sources."""
from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "cydnn"
CORE = "_core core"                              # the door and its room
HEIGHTS = (                                      # the lowest first; rooms of one line do not know each other
    "elsewhere",
    "status locks names",
    # the errors and the version; all else is loaded when it is asked for
    "__init__",
    "arena files given",
    "dtypes",
    "tensor",
    "operand",
    "steps",
    "kernels",
    # bytes and launches, never operations
    CORE,
    "log",
    "ranges",
    "ops",
    "graph",
    "fusion",
    "engines",
    "heuristics",
    # above what plans: engines and heuristics know facts, no device
    "device",
    "layout",
    "plan",
    "clock",
    "tune",
    "legacy frontend bench functional",
    # descriptors: handles, caches and facts of devices are the front end's
    "torch_attention torch_names torch_theirs",
    "torch_operators",
    "torch_recording torch_transforms",
    "backend torch jax",
    "cudnn",
    "about",
    "__main__",
)
ENGINES = (                                      # the same inside of engines/
    "knobs sums",
    "engine",
    "composite nested reference",
    "im2col lrn paged_cache_load pointwise pool reduction resample rope softmax spatial",
    "cast",
    "block_scale divisive_norm dropout layout norm",
    "move rng signal",
    # the host side of the tile programs; the families on them do not know each other
    "tile",
    "attention conv grouped_matmul matmul",
    # a network is products and sums of all steps around a recurrence: it is put together from their engines
    "rnn",
    # the table, which also hands engines to those that are put together from them
    "__init__",
)
HOUSES = {(): HEIGHTS, ("engines",): ENGINES}    # by where they are in the package
SHARED = "Graph Handle Filter Dropout Pooling Step Rows".split()                 # docs/design.md, section 9
SOURCES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyx", ".pxd", ".pyi")
                 and not (path.suffix == ".pyi" and path.with_suffix(".py").exists())    # stubs run nowhere
                 and path != PACKAGE / "__init__.pxd")       # for programs that embed: none of ours reads it
IMPORT = re.compile(r"^\s*(?:from\s+(\S+)\s+c?import\s+([^#\n]+)|c?import\s+(\S+))", re.M)


def heights(house: tuple) -> dict:
    return {room: i for i, line in enumerate(HOUSES[house]) for room in line.split()}


def sources(house: tuple) -> dict:
    """{file of a house: its room}."""
    inside = (path.relative_to(PACKAGE) for path in SOURCES)
    return {PACKAGE / path: path.parts[len(house)].split(".")[0] for path in inside
            if path.parts[:len(house)] == house}


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


def rooms(path: Path, house: tuple):
    """(room, line) of every import of a house in a file. A name that is no room comes from the house
    itself."""
    package, inside = ["cydnn", *path.relative_to(PACKAGE).parts[:-1]], ["cydnn", *house]
    for module, names, line in imported(path.read_text(), path.suffix in (".py", ".pyi")):
        dots = len(module) - len(module.lstrip("."))
        parts = package[:len(package) - dots + 1] if dots else []
        parts += module.lstrip(".").split(".") if module.strip(".") else []
        if parts[:len(inside)] == inside:
            own = [name if name in heights(house) else "__init__" for name in names or ["__init__"]]
            yield from ((room, line) for room in parts[len(inside):len(inside) + 1] or own)


@pytest.mark.parametrize("house", HOUSES, ids="/".join)
def test_every_room_has_a_height(house):
    here, known = set(sources(house).values()), heights(house)
    assert here - set(known) == set() and set(known) - here == set()
    assert len(known) == sum(len(line.split()) for line in HOUSES[house])


@pytest.mark.parametrize("house, room", [(house, room) for house in HOUSES for room in heights(house)],
                         ids=lambda of: of if isinstance(of, str) else "/".join(of))
def test_imports_go_down(house, room):
    known, core = heights(house), set(CORE.split())
    below = {r for r in known if known[r] < known[room]} | (core if not house and room in core else {room})
    wrong = [f"{path.relative_to(PACKAGE)}:{line} imports {target}" for path, of in sources(house).items()
             if of == room for target, line in rooms(path, house) if target not in below]
    assert not wrong, "\n".join(wrong)


def test_a_class_has_its_name_to_itself():
    found: dict = {}
    for path in (path for path in SOURCES if path.suffix == ".py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name not in SHARED:
                found.setdefault(node.name, []).append(path.relative_to(PACKAGE).as_posix())
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}


@pytest.mark.parametrize("source, is_python, want", [
    ("from ..a.b import c\nimport cydnn.d\n", True, [("..a.b", ["c"]), ("cydnn.d", [])]),
    ("def f():\n    from . import e, f\n", True, [(".", ["e", "f"])]),
    ("cimport cython\nfrom cydnn._a cimport b, c\nimport cydnn._d as d\n", False,
     [("cython", []), ("cydnn._a", ["b", "c"]), ("cydnn._d", [])])])
def test_imports_are_read(source, is_python, want):
    assert [(module, names) for module, names, _ in imported(source, is_python)] == want
