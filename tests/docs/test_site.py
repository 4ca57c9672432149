"""The site: built without a warning, every link leads to a place on a page, each page is Markdown too."""
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Page(HTMLParser):
    """What a page links to, and the places that it has."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.places.add(given.get("id") or "")
        self.links |= {given[key] for key in ("href", "src") if given.get(key)}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for module in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(module)
    place = tmp_path_factory.mktemp("site")
    done = subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", ROOT / "docs", place],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return place, {path: Page(path) for path in place.rglob("*.html")}


def test_every_link_leads_to_a_place(site):
    place, pages = site
    dead = []
    for path, page in pages.items():
        for link in page.links:
            name, _, anchor = unquote(link).partition("#")
            target = (path.parent / name.partition("?")[0]).resolve() if name else path
            if not re.match("[a-z]+:", link) and not (
                    target in pages and anchor in pages[target].places | {""} or
                    target not in pages and target.is_file()):
                dead.append(f"{path.relative_to(place)}: {link}")
    assert len(pages) > 40 and not dead


def test_every_page_of_docs_is_there_as_markdown_too(site):
    place, pages = site
    wanted = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    assert wanted <= {path.relative_to(place).with_suffix("") for path in pages}
    assert {place / "_sources" / f"{name}.md.txt" for name in wanted} <= set((place / "_sources").rglob("*"))
    assert (place / "llms.txt").is_file()
