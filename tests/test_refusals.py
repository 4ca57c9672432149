"""Every sentence that something is refused with has a problem, a call or a test that provokes it.

tests/refusals holds what lab/provoke.py found: ``engines.txt`` (card | engine | problem | reason),
and ``operations.txt`` (line | error), more of both in ``*_by_hand.txt``; and ``tests.txt``, tests that are
watched while they run (lab/witnesses.py). What lies beside what is refused: test_rules.py.
"""
from __future__ import annotations

import re

from lab import refusals, witnesses
from lab.provoke import provoked

PAGE = refusals.PACKAGE.parent / "docs" / "refusals.md"


def test_every_sentence_is_provoked():
    """The rows say what they said, and who has no row has a test. ``CYDNN_WITNESSES=1 pytest <files>`` finds
    tests for new sentences, ``python -m lab.provoke`` problems for those of engines and operations."""
    seen, wrong = provoked()
    assert not wrong, "\n".join(wrong[:20])
    witnessed = {sentence for _, sentence in witnesses.rows()}
    known = {s.key for s in refusals.sentences()}
    assert witnessed <= known, "tests.txt lists what nothing says:\n" + "\n".join(sorted(witnessed - known))
    missing = sorted(known - witnessed - {s.key for s in seen})
    assert not missing, "neither a problem nor a test:\n" + "\n".join(missing)


def test_what_is_refused_is_named():
    """The value that was given, or what must be there or not: a sentence without a value says so."""
    words = ("given", "absent", "without", "got ", "must be", "must not be", "takes", "expected", "must end")
    bare = [s.key for s in refusals.sentences() if "{" not in s.pattern
            and not any(word in s.pattern for word in words)]
    assert not bare, "\n".join(bare)


def test_what_a_sentence_points_to_is_installed():
    """A command or a name to ask for help on: the pages of docs/ are no part of an installed copy."""
    pages = [s.key for s in refusals.sentences() if re.search(r"docs/|\.md\b|tools/|kernels_src", s.pattern)]
    assert not pages, "\n".join(pages)


def test_the_page_lists_them():
    """``python -m lab.refusals > docs/refusals.md`` prints it anew."""
    assert PAGE.read_text() == refusals.page()
