"""The import chain of docs/design.md §1, read from the sources."""
from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "cydnn"
CHAIN = ("status", "dtypes", "tensor", "ops", "graph", "engines", "heuristics", "plan", "frontend")
BESIDE = {"legacy": "frontend", "fusion": "engines"}     # a room and the link of the chain it stands beside


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(path: Path):
    """(room, line) of every import of the package in a file, at any depth."""
    depth = len(path.relative_to(PACKAGE).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            names = [node.module] if node.module else [a.name for a in node.names]
            for name in names:
                yield name.split(".")[0], node.lineno


def test_imports_go_down_the_chain():
    height = {room: i for i, room in enumerate(CHAIN)}
    height.update({room: height[link] for room, link in BESIDE.items()})
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        room = room_of(path)
        for target, line in imports(path):
            if room in height and target in height and target != room and height[target] > height[room]:
                wrong.append(f"{path.relative_to(PACKAGE)}:{line} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_files_fit_in_a_head():
    long = [f"{p.relative_to(PACKAGE)}: {n} lines" for p in PACKAGE.rglob("*.py")
            if (n := len(p.read_text().splitlines())) > 430]
    assert not long, "\n".join(long)
