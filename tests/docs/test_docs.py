"""What the documents show, works: doctests, the README's lines, links to files."""
from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_doctests(page):
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert not failed


def test_readme_lines_run(capsys):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip() == "73.0"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    dead = [t for t in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()) if not (page.parent / t).exists()]
    assert not dead
