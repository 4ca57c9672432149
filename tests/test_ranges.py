"""Ranges of NVTX around what executes: their names, their ends, and what is said where there is no NVTX."""
import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import cydnn
from cydnn import functional, plan, ranges
from cydnn.status import BadParam

X = np.arange(4, dtype="f4") - 2


@pytest.fixture
def asked(monkeypatch):
    """The variable is set; plans and what was loaded are forgotten before and after."""
    def fresh():
        functional.forget()
        plan.forget()
        ranges._ways.cache_clear()
    monkeypatch.setenv("CYDNN_NVTX", "1")
    monkeypatch.setitem(sys.modules, "nvtx", None)
    fresh()
    yield monkeypatch
    fresh()


def test_a_call_is_in_a_range_named_by_its_problem(asked):
    seen: list = []
    nvtx = SimpleNamespace(push_range=seen.append, pop_range=lambda: seen.append("end"))
    asked.setitem(sys.modules, "nvtx", nvtx)
    for _ in range(2):
        assert cydnn.relu(X).tolist() == [0, 0, 0, 1]
    text = cydnn.relu.prepare(X).plan.layout.text
    assert seen == [text, "end"] * 2 and text.startswith("pointwise")
    call = cydnn.relu.prepare(X)
    with pytest.raises(BadParam, match="relu: input: array must have at least 16 bytes"):
        call(X[:2])
    assert seen[-2:] == [text, "end"] and call.plan.executable.workspace_bytes == 0


def test_libraries_of_old_and_new_toolkits(asked):
    seen: list = []

    def load(name):
        if name != "libnvToolsExt.so.1":
            raise OSError
        return SimpleNamespace(nvtxRangePushA=seen.append, nvtxRangePop=lambda: seen.append(0))
    asked.setattr(ctypes, "CDLL", load)
    cydnn.relu(X)
    assert [type(x) for x in seen] == [bytes, int]


@pytest.mark.parametrize("value, words", [
    ("1", "CYDNN_NVTX: no ranges, as the package nvtx and the libraries libnvtx3interop.so.1 and"),
    ("yes", "CYDNN_NVTX must be 0 or 1; got 'yes', taken as 0"), ("0", "")])
def test_what_is_not_there_is_said_once(asked, caplog, value, words):
    asked.setenv("CYDNN_NVTX", value)
    asked.setattr(ranges, "_library", lambda name: None)
    for kind in ("f4", "f8"):
        assert cydnn.relu(X.astype(kind)).sum() == 1
    said = [r.getMessage() for r in caplog.records if "NVTX" in r.getMessage()]
    assert len(said) == bool(words) and all(s.startswith(words) for s in said)
