"""The tests that provoke a sentence of a refusal, one each: ``tests/refusals/tests.txt`` (test | sentence).
A test that is listed is watched while it runs, and fails where its sentence does not come.

    CYDNN_WITNESSES=1 pytest tests/graph tests/legacy      # adds sentences that have no row, and drops rows
                                                           # of tests that ran and no longer provoke theirs
"""
from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from .refusals import Watch, sentences

FILE = Path(__file__).resolve().parents[1] / "tests" / "refusals" / "tests.txt"
RECORDS = os.environ.get("CYDNN_WITNESSES", "") not in ("", "0")
DRAWN = ("share", "gpu", "timing", "hypothesis", "drawn")  # marks of tests that do not always run alike


def rows() -> list[list[str]]:
    return [line.split(" | ", 1) for line in FILE.read_text().splitlines()]


class Witnesses:
    """The plugin: watches those that are listed, or all of a run that records."""

    def __init__(self):
        self.wanted, self.found, self.ran = {}, {}, set()
        for test, sentence in rows():
            self.wanted.setdefault(test, set()).add(sentence)

    def pytest_collection_modifyitems(self, config, items):
        """Every test that is listed is there, in the files that were collected as a whole; where rows are
        made, those of one that is not are made anew."""
        there, files = {item.nodeid for item in items}, {item.nodeid.split("::")[0] for item in items}
        if any("::" in arg for arg in config.args):
            return
        lost = [test for test in self.wanted if test.split("::")[0] in files and test not in there]
        if RECORDS:
            self.ran.update(lost)
        elif lost:
            raise pytest.UsageError(f"{FILE.name} lists tests that are not there: {', '.join(lost)}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        is_drawn, is_traced = any(map(item.get_closest_marker, DRAWN)), sys.gettrace() is not None
        if is_drawn or not RECORDS and (item.nodeid not in self.wanted or is_traced):
            return (yield)                       # coverage and debuggers keep their trace
        begun = time.perf_counter()
        with Watch() as watch:
            result = yield
        self._judge(item, {s.key for s in watch.seen}, time.perf_counter() - begun)
        return result

    def _judge(self, item, seen, seconds):
        if not RECORDS:
            lost = sorted(self.wanted[item.nodeid] - seen)
            assert not lost, f"{FILE.name}: this test no longer provokes\n" + "\n".join(lost)
        else:
            self.ran.add(item.nodeid)
            for sentence in seen:
                self.found.setdefault(sentence, []).append((seconds, item.nodeid))

    def pytest_sessionfinish(self):
        if RECORDS:
            FILE.write_text("".join(f"{test} | {sentence}\n" for test, sentence in sorted(self.kept())))

    def kept(self):
        """A row for each sentence that no problem provokes: the one that it has, or its fastest test."""
        from .provoke import provoked            # needs every engine
        seen, _ = provoked()
        wanted = {s.key for s in sentences()} - {s.key for s in seen}
        old = {sentence: test for test, sentence in rows()}
        for sentence in wanted & (old.keys() | self.found.keys()):
            tests = {test for _, test in self.found.get(sentence, ())}
            if sentence in old and (old[sentence] in tests or old[sentence] not in self.ran):
                yield old[sentence], sentence
            elif tests:
                yield min(self.found[sentence])[1], sentence
