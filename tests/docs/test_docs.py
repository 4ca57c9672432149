"""What the documents show, works: doctests, the README's lines, links to files."""
from __future__ import annotations

import doctest
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_doctests(page):
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert not failed


@pytest.mark.parametrize("name", ["engines.md", "api.md"])
def test_printed_pages_are_what_the_tables_say(name):
    spec = spec_from_file_location("print_docs", ROOT / "tools" / "print_docs.py")
    spec.loader.exec_module(printer := module_from_spec(spec))
    assert (ROOT / "docs" / name).read_text() == printer.PAGES[name](), "run: python tools/print_docs.py"


def test_readme_lines_run(capsys):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip() == "73.0"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    dead = [t for t in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()) if not (page.parent / t).exists()]
    assert not dead
