"""tools/gpu_record.py and its rows as far as they go without a GPU: what is stale, what is put together."""
from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.layout import Layout
from cydnn.ops import Problem
from lab import record
from lab.goals import GOALS, goal_of

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import gpu_record       # noqa: E402

SOFTMAX, CONV = "kernels_src/softmax/softmax_fwd_warp.cu", "cydnn/ops/conv.py"


@pytest.fixture
def records(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RECORDS", tmp_path / "records")
    return tmp_path / "records"


def case(test, outcome="passed", covers=(SOFTMAX,), **counts) -> dict:
    return record.case(goal_of(test), test, outcome, 2.0, covers, counts, "NVIDIA Test", "CUDA 13.0")


BITS = "tests/gpu/test_bits.py::test_bits"
CASES = [case(f"{BITS}[a]", problems=3), case(f"{BITS}[b]", problems=4), case(f"{BITS}[c]", covers=[CONV]),
         case("tests/gpu/test_host.py::test_calls_are_one_launch")]


def test_every_goal_has_tests():
    names = [f"{path.relative_to(ROOT)}::{line[4:line.index('(')]}"
             for path in (ROOT / "tests/gpu").glob("*.py")
             for line in path.read_text().splitlines() if line.startswith("def test_")]
    assert {goal_of(name) for name in names} == GOALS.keys() - {"others"}
    assert goal_of("tests/legacy/test_rnn.py::test_x[gpu/test_bits]") == "others"


def test_what_a_plan_covers():
    layout = Layout.of(graph_of(Problem.parse("softmax_fwd 64x512 f16")), KNOWN["h200"])
    found = record.covers(layout)
    assert SOFTMAX in found and "cydnn/ops/softmax.py" in found and found <= record.hashes().keys()
    assert any(f.startswith("cydnn/engines/softmax/") for f in found)
    assert not found & {"cydnn/engines/engine.py", "cydnn/ops/op.py"}


def test_rows_are_of_one_function_that_covers_the_same():
    rows = record.rows_of(CASES)
    assert [(r["goal"], r["cases"], r["passed"], r["seconds"]) for r in rows] == [
        ("R12", ["c"], 1, 2.0), ("R12", ["a", "b"], 2, 4.0), ("calls", [""], 1, 2.0)]
    assert rows[1]["counts"] == dict(problems=7)


def test_a_changed_source_makes_its_rows_stale(monkeypatch):
    found = record.merged(dict(rows=[]), CASES)
    assert not any(map(record.is_stale, found["rows"]))
    monkeypatch.setattr(record, "hashes", lambda now={**record.hashes(), SOFTMAX: "other"}: now)
    assert record.known(found) == {f"{BITS}[c]"} and record.summary(found)["stale"] == 2


def test_what_failed_runs_again():
    found = record.merged(dict(rows=[]), [*CASES, case(f"{BITS}[d]", "failed", [CONV])])
    assert f"{BITS}[c]" not in record.known(found) and gpu_record.failures(found) == [f"{BITS}[d]"]
    found = record.merged(found, [case(f"{BITS}[{name}]", covers=[CONV]) for name in "cd"])
    assert record.known(found) >= {f"{BITS}[c]", f"{BITS}[d]"} and len(found["rows"]) == 3


def test_a_row_keeps_what_did_not_run_again():
    found = record.merged(record.merged(dict(rows=[]), CASES), [case(f"{BITS}[a]", covers=[SOFTMAX, CONV])])
    rows = {tuple(row["cases"]): row for row in found["rows"]}
    assert rows["b",]["passed"] == 1 and rows["b",]["counts"] == {} and ("a",) in rows


def test_the_cheapest_of_what_is_stale_come_first(records, monkeypatch):
    records.mkdir()
    old = [{**c, "sha256": "old", "seconds": s} for c, s in zip(CASES, (9, 9, 9, 1))]
    record.path_of("NVIDIA Test").write_text(record.text(record.merged(dict(rows=[]), old)))
    item = lambda c: SimpleNamespace(nodeid=c["test"], get_closest_marker=lambda name: name == "gpu")
    monkeypatch.setenv(record.GOALS, "R12 calls")
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
    names = [i.nodeid.partition("::")[2] for i in record.wanted(map(item, CASES), "NVIDIA Test")]
    assert names == ["test_calls_are_one_launch", "test_bits[b]", "test_bits[a]", "test_bits[c]"]
    monkeypatch.setenv(record.GOALS, "calls")
    assert len(record.wanted(map(item, CASES), "NVIDIA Test")) == 1


def test_parts_are_put_into_the_record(records, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(record.PART, str(tmp_path / "part"))
    for each in CASES:
        record.keep(each)
    with open(tmp_path / "part", "a") as part:
        part.write('{"device": "cut o')
    assert gpu_record.main(["--merge", str(tmp_path / "part")]) == 0
    found = json.loads((records / "nvidia-test.json").read_text())
    assert len(found["rows"]) == 3 and found["device"] == "NVIDIA Test"
    assert "all of these sources" in record.staleness()[0]
    assert gpu_record.main(["--check"]) == 0 and "R12" in capsys.readouterr().out


def test_parts_of_two_devices_are_no_record(records, tmp_path, capsys):
    lines = [json.dumps(c) for c in (CASES[0], {**CASES[1], "device": "another"})]
    (tmp_path / "part").write_text("\n".join(lines))
    assert gpu_record.main(["--merge", str(tmp_path / "part")]) == 1
    assert "one device; got ['NVIDIA Test', 'another']" in capsys.readouterr().out and not records.exists()


def test_what_takes_too_long_is_ended(tmp_path):
    hangs = [sys.executable, "-c", "import time; time.sleep(60)"]
    with (tmp_path / "log").open("w") as log:
        assert gpu_record.run(["R8"], tmp_path / "part", log, 1, False, hangs) == "ended after 1 s"


@pytest.mark.parametrize("memory, goals, count", [(141 << 30, ["R8"], 4), (79 << 30, ["R8"], 2),
                                                  (16 << 30, ["R8"], 1), (16 << 30, ["R6"], 14)])
def test_as_many_work_as_have_room(memory, goals, count):
    assert gpu_record.workers(goals, memory) == count


def test_what_cannot_be_asked_is_refused(capsys):
    for words in (["--out", "x", "--goals", "none"], []):
        with pytest.raises(SystemExit):
            gpu_record.main(words)
    assert "one of --check, --out, --merge" in capsys.readouterr().err
