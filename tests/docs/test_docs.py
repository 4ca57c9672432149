"""What the documents show, works: doctests, the README's lines, links to files."""
from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import cydnn
import cydnn.frontend

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = [*PAGES, *sorted((ROOT / "docs" / "legacy").glob("*.md"))]


def test_every_public_name_is_on_a_page():
    words = set(re.findall(r"\w+", "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))))
    public = {*cydnn.__all__, *cydnn.frontend.__all__, *cydnn.functional.FUNCTIONS, *cydnn.cudnn.__all__,
              *cydnn.backend.__all__, *(n for n in dir(cydnn.pygraph) if n[0] != "_")}
    assert len(public) > 800 and public <= words, sorted(public - words)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_doctests(page):
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert not failed


def printer(tool: str):
    spec = spec_from_file_location(tool, ROOT / "tools" / f"{tool}.py")
    spec.loader.exec_module(made := module_from_spec(spec))
    return made


@pytest.mark.parametrize("tool, name", [
    *[("print_docs", name) for name in ("engines.md", "api.md", "backend_attributes.md",
                                       "backend_names.md")],
    *[("print_reference", f"{name}_reference.md") for name in ("functions", "pygraph", "operations")],
    ("print_reference", "llms.txt")])
def test_printed_pages_are_what_the_tables_say(tool, name):
    assert (ROOT / "docs" / name).read_text() == printer(tool).PAGES[name](), f"run: python tools/{tool}.py"


def test_pages_of_the_v5_functions_are_what_the_catalogue_says():
    pages, folder = printer("print_legacy").pages(), ROOT / "docs" / "legacy"
    assert sorted(pages) == sorted(path.name for path in folder.iterdir())
    wrong = [name for name, text in pages.items() if (folder / name).read_text() != text]
    assert not wrong, "run: python tools/print_legacy.py"


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80"])
@pytest.mark.parametrize("page", ["README.md", "docs/graphs.md"])
def test_first_lines_run(capsys, page, device):
    """The same on every device: one word is another."""
    code = re.search(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)[1]
    assert code.count('"numpy"') == 1 and ":=" not in code
    exec(compile(code.replace('"numpy"', repr(device)), page, "exec"), {})
    what, _, error = capsys.readouterr().out.partition(":")
    assert what == "largest error" and float(error) < 1e-4


@pytest.mark.parametrize("page", ["README.md", "docs/torch.md"])
def test_lines_for_torch_run(page):
    """All blocks of a page, one behind the other."""
    torch = pytest.importorskip("torch")
    blocks = re.findall(r"```python\n(import torch.*?|with.*?)```", (ROOT / page).read_text(), re.S)
    room = dict(model=torch.nn.Conv2d(3, 4, 3))
    for code in blocks:
        exec(compile(code, page, "exec"), room)
    assert blocks and room["x"].grad is not None


def test_lines_for_jax_run():
    jax = pytest.importorskip("jax")
    room: dict = {}
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "jax.md").read_text(), re.S):
        exec(compile(code, "jax.md", "exec"), room)
    assert room["dw"].shape == room["w"].shape and isinstance(room["dx"], jax.Array)


def test_the_planted_race_is_found_as_shown(tmp_path):
    """The commands of debug_a_kernel.md, pasted into a shell; what they print is what the page shows."""
    page = (ROOT / "docs" / "debug_a_kernel.md").read_text()
    commands, shown = re.search(r"```sh\n(.*?)```\n\n```\n(.*?)```", page, re.S).groups()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "python").chmod(0o755)
    done = subprocess.run(["bash", "-o", "pipefail", "-c", commands], cwd=tmp_path,
                          env=env, capture_output=True, text=True)
    words = lambda text: " ".join(text.split())
    assert done.returncode == 1 and words(shown) in words(done.stdout), done.stderr


@pytest.mark.parametrize("page", LINKED, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    dead = [t for t in re.findall(r"\]\((?!http)([^)#]+)", page.read_text())
            if not (page.parent / t).exists()]
    assert not dead


def test_every_public_name_has_its_page():
    """Functions, operations and methods have a section; other names stand in the table of their page."""
    from cydnn import __all__, backend, cudnn, functional, ops, pygraph
    text = lambda name: (ROOT / "docs" / name).read_text()
    lost = lambda names, page: [n for n in names if not re.search(rf"`{n}\b", text(page))]
    own = [n for n in dir(pygraph) if n[0] != "_"]
    kept = {n for n in own if isinstance(getattr(pygraph, n), property)}
    for page, names in (("functions", functional.FUNCTIONS), ("operations", ops.BY_NAME),
                        ("pygraph", set(own) - kept)):
        assert set(names) <= set(re.findall(r"^## (\w+)$", text(f"{page}_reference.md"), re.M))
    of_v5 = [n for n in cudnn.__all__ if n[0].islower()]
    assert not lost(kept, "pygraph_reference.md") and not lost(__all__, "api.md")
    assert not lost(of_v5, "legacy_api.md") and not lost(backend.__all__, "backend_names.md")


def test_every_promise_has_its_test():
    """Rows of guarantees.md name functions that are there."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "guarantees.md").read_text())
    lost = [f"{file}::{name}" for file, name in named if f"def {name}(" not in (ROOT / file).read_text()]
    assert len(named) > 20 and not lost


def test_every_example_is_listed():
    listed = set(re.findall(r"\(\.\./examples/([\w.]+)\)", (ROOT / "docs" / "examples.md").read_text()))
    assert listed == {path.name for path in (ROOT / "examples").glob("*.py*")}


def test_every_page_is_on_the_site():
    index = (ROOT / "docs" / "index.md").read_text()
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages == set(re.findall(r"^[a-z_0-9]+$", index, re.M)) and "legacy/*" in index
