"""tools/gpu_record.py as far as it goes without a GPU: what runs, what fits, what is put together."""
from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from support import record

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import gpu_record       # noqa: E402

FAMILIES = {"adjoint/1:a": dict(problems=3, engine_runs=5, wrong=0, words="x"),
            "adjoint/2:b": dict(problems=4, engine_runs=6, wrong=1),
            "bits/k": dict(cases=2, equal=1), "conv/0": dict(problems=7, engine_runs=9, wrong=0, engines={})}


def taken(goal, path: Path) -> list:
    """The test functions of a file that a goal runs."""
    names = re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    if not goal.words:
        return names
    option, words = goal.words
    assert option == "-k" and not set(words.split()) & {"and", "(", ")"}
    if words.startswith("not "):
        return [name for name in names if words.split()[1] not in name]
    return [n for n in names if any(word in n or word in path.name for word in words.split(" or "))]


def test_every_test_of_a_gpu_belongs_to_a_goal():
    of_goals = {}
    for goal in gpu_record.GOALS.values():
        for name in goal.tests:
            assert (ROOT / gpu_record.GPU / name).exists(), name
            if not name.startswith(".."):
                path = ROOT / gpu_record.GPU / name
                of_goals.setdefault(name, set()).update(taken(goal, path))
                assert taken(goal, path), f"{goal} runs nothing of {name}"
    for path in (ROOT / gpu_record.GPU).glob("test_*.py"):
        missing = set(re.findall(r"^def (test_\w+)", path.read_text(), re.M)) - of_goals.get(path.name, set())
        assert not missing, f"{path.name}: {missing}"


def test_what_fits_is_begun(monkeypatch):
    goals = dict(a=3, b=1, two=1)
    made = {name: gpu_record.Goal("", (), seconds, least_gpus=1 + (name == "two"))
            for name, seconds in goals.items()}
    monkeypatch.setattr(gpu_record, "GOALS", made)
    assert gpu_record.chosen(goals, 1e9, 2) == (["a", "b", "two"], [])
    assert gpu_record.chosen(goals, 1e9, 1) == (["a", "b"], ["two"])
    assert gpu_record.chosen(goals, 2, 2) == (["b", "two"], ["a"])


@pytest.mark.parametrize("memory, workers", [(141 << 30, "4"), (79 << 30, "2"), (16 << 30, "1")])
def test_as_many_work_as_have_room(memory, workers):
    words = gpu_record.command(gpu_record.GOALS["R8"], memory)
    assert words[words.index("-n") + 1] == workers
    words = gpu_record.command(gpu_record.GOALS["R6"], memory)
    assert words[words.index("-n") + 1] == "12"


def part(**facts) -> dict:
    return {**record.part("NVIDIA Test", "CUDA 13.0", FAMILIES, 5, 1, 2, ["tests/gpu/test_x.py::test_y"]),
            "seconds": 3, **facts}


def test_families_of_names_are_one_row():
    assert record.folded(FAMILIES) == {"adjoint": dict(names=2, problems=7, engine_runs=11, wrong=1),
                                       "bits": dict(kernels=1, cases=2, equal=1),
                                       "conv/0": FAMILIES["conv/0"]}


def test_parts_are_put_together(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(record, "RECORDS", tmp_path)
    parts = [dict(R4=part(), R7=part(covered_sha256="another")), dict(R5=part(families={}, passed=1)),
             dict(R8=dict(passed=0, failed=1, skipped=0, failures=["ended after 5 s"], families={}))]
    for number, each in enumerate(parts):
        (tmp_path / f"{number}.part").write_text(json.dumps(each))
    assert gpu_record.main(["--merge", *map(str, sorted(tmp_path.glob("*.part")))]) == 0
    told, found = capsys.readouterr().out, json.loads((tmp_path / "nvidia-test.json").read_text())
    assert "R7: left out" in told and "R8: left out: ['ended after 5 s']" in told
    assert (found["tests_passed"], found["tests_failed"], found["total"]["problems"]) == (6, 2, 14)
    assert found["goals"]["R4"]["failures"] == ["tests/gpu/test_x.py::test_y"] and "R7" not in found["goals"]
    assert found["bits"]["cases"] == 2 and found["families"]["adjoint"]["names"] == 2
    assert found["covered_sha256"] == record.covered_hash()
    assert "GPU record nvidia-test: 6 passed, 2 failed" in record.staleness()[0]


def test_parts_of_nothing_make_no_record(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(record, "RECORDS", tmp_path)
    (tmp_path / "a.part").write_text(json.dumps(dict(R4=part(covered_sha256="another"))))
    assert gpu_record.main(["--merge", str(tmp_path / "a.part")]) == 1
    assert not list(tmp_path.glob("*.json")) and "one device; got []" in capsys.readouterr().out


@pytest.mark.parametrize("code, failure", [
    ("import os; open(os.environ['CYDNN_RECORD'], 'w').write(open(r'{0}').read())", None),
    ("raise SystemExit(3)", "nothing was recorded: pytest ended with 3"),
    ("import os, time; open(os.environ['CYDNN_RECORD'] + '.gw0', 'w').write('{{\"a\": {{\"wrong\": 2}}}}'); "
     "time.sleep(60)", "nothing was recorded: ended after 5 s"),
    ("import os, time; place = os.environ['CYDNN_RECORD']; open(place, 'w').write(open(r'{0}').read()); "
     "open(place + '.gw0', 'w').write('{{\"a\": {{\"wrong\": 2}}}}'); time.sleep(60)",
     "nothing was recorded: ended after 5 s")], ids=["failed", "died", "hung", "hung behind its part"])
def test_a_goal_that_dies_or_hangs_is_said(code, failure, tmp_path):
    (tmp_path / "made.json").write_text(json.dumps(part()))
    with (tmp_path / "log").open("w") as log:
        found = gpu_record.run("R5", log, [sys.executable, "-c", code.format(tmp_path / "made.json")],
                               rest=5 if "sleep" in code else 100)
    assert found["failed"] == 1 and found["seconds"] < 60
    assert failure is None or found["failures"] == [failure]
    wrong = gpu_record.row("R5", found)[7]
    assert wrong == (2 if "sleep" in code else 0 if failure else 1), "what processes counted is told"
    assert gpu_record.table([gpu_record.row("R5", found)]).splitlines()[1].startswith("R5")


def test_what_a_record_covers(tmp_path, monkeypatch):
    """The facts of kernels, and the library: not what is said of them."""
    def covered(library="x = 1", **facts):
        row = dict(about="ab", source_sha256="cd", images={"sm_80": dict(sha256="1")}, problems=["a line"])
        (tmp_path / "ptx" / "manifest.json").write_text(json.dumps(dict(functions={}, kernels={
            "k": {**row, **facts}})))
        (tmp_path / "cydnn" / "a.py").write_text(library)
        return record.covered_hash()
    for room in ("ptx", "cydnn"):
        (tmp_path / room).mkdir()
    monkeypatch.setattr(record, "ROOT", tmp_path)
    assert covered() == covered(about="other", source_sha256="other")
    others = [covered(images={"sm_80": dict(sha256="2")}), covered(problems=[]), covered(library="x = 2")]
    assert len({covered(), *others}) == 4


def test_a_part_goes_where_it_is_wanted(tmp_path, monkeypatch):
    monkeypatch.setenv(record.PART, str(tmp_path / "part.json"))
    assert "part" in record.keep(part()) and json.loads((tmp_path / "part.json").read_text()) == part()
    monkeypatch.delenv(record.PART)
    monkeypatch.setattr(record, "RECORDS", tmp_path / "records")
    assert record.keep(part()) == f"GPU record written: {tmp_path / 'records' / 'nvidia-test.json'}"


def test_figures_are_added_up():
    families = {"memcheck": dict(names=4, launched=470, of=475, engine_runs=470, wrong=1),
                "racecheck": dict(names=4, launched=300, of=475, engine_runs=300, wrong=0, words="x")}
    row = gpu_record.row("R7", part(families=families))
    assert row[5:8] == (0, 770, 1) and row[9] == "names=8 launched=770 of=950"
    assert len(row) == len(gpu_record.HEAD) and "launched=770" in gpu_record.table([row])


def test_what_cannot_be_asked_is_refused(capsys):
    for words in (["no such goal", "--out", "x"], ["R4"]):
        with pytest.raises(SystemExit):
            gpu_record.main(words)
        assert "goals must be of" in capsys.readouterr().err
