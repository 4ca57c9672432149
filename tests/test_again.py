"""A failed test is repeated by the line that the run prints for it, whatever it has drawn."""
from __future__ import annotations

import re
import shlex
import sys

import pytest
from hypothesis import core, settings

from support import again

RED = '''
import os, random
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from support import share

DRAWN = share.of(range(10 ** 6), 4, "red")

@pytest.mark.parametrize("number", DRAWN)
def test_a_share(number):
    assert not number, f"seen {number}"

@pytest.mark.parametrize("line", ["conv n1 'a' \\"b\\" $HOME x=1:f16@2,1"])
def test_a_line(line):
    assert not line, f"seen {random.Random(os.environ['CYDNN_SEED']).random()} {line}"

@settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(), min_size=5))
def test_examples(values):
    SEEN.append(values)
    assert len(SEEN) < 20, f"seen {SEEN[:20]}"

@pytest.fixture
def broken():
    raise ValueError(f"seen {os.environ['CYDNN_CALLS']}")

def test_set_up(broken):
    pass

SEEN = []
'''


class Said:
    """Keeps what is said of each failed test."""

    def __init__(self):
        self.said = {}

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.said[report.nodeid] = sorted(set(re.findall(r"seen .*", report.longreprtext)))


def run(capsys, *args) -> tuple:
    """(lines that are printed for failures, what is said of each), of tests that are imported anew."""
    sys.modules.pop("test_red", None)
    said = Said()
    pytest.main(["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-c", "empty.ini", *args],
                plugins=[again.Again(), said])
    return re.findall(r"^again: .*", capsys.readouterr().out, re.M), said.said


@pytest.fixture(params=["default", "ci"])
def place(request, tmp_path, monkeypatch):
    """A folder of tests that fail; the run's seed is a known one, hypothesis has one of its own profiles."""
    settings.load_profile(request.param)
    (tmp_path / "test_red.py").write_text(RED)
    (tmp_path / "empty.ini").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("support.share.ALL", False)
    monkeypatch.setattr("support.share.PART", 0.5)
    monkeypatch.setattr(core, "global_force_seed", core.global_force_seed)
    monkeypatch.setattr(again.os, "environ", {**again.os.environ, "CYDNN_SEED": "77", "CYDNN_CALLS": "1 2"})
    return tmp_path


def test_each_failure_is_repeated_by_its_line(place, capsys):
    lines, said = run(capsys)
    assert len(lines) == len(said) == 5 and all(said.values())
    for line in lines:
        *settings, python, _, module, test = shlex.split(line)[1:]
        assert (python, module) == ("python", "pytest")
        assert {"CYDNN_SEED=77", "CYDNN_CALLS=1 2"} <= {*settings}
        assert run(capsys, test) == ([line], {test: said[test]})


def test_another_seed_draws_others(place, capsys):
    _, said = run(capsys)
    again.os.environ["CYDNN_SEED"] = "78"
    _, others = run(capsys)
    same = [test for test in said if others.get(test) == said[test]]
    assert len(same) == 1 and "test_set_up" in same[0]
