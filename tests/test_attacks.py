"""The attacks of ``support/hostile``: calls that nobody should make, files that somebody damaged."""
import os
import re
import sys

import pytest

from support.hostile import entries, run, threads
from support.hostile.attack import Attack
from support.hostile.rounds import ROUNDS

APIS = {"v5", "pygraph", "cydnn", "texts", "files", "behind files"}
ENOUGH = 10_000                                  # calls that draw every public entry point


@pytest.mark.drawn
def test_hostile_calls():
    """CYDNN_CALLS calls, drawn by CYDNN_SEED: no crash, no hang, no foreign exception, nothing in silence."""
    calls, seed = int(os.environ.get("CYDNN_CALLS", ENOUGH)), int(os.environ["CYDNN_SEED"])
    found = run.attack(calls, seed)
    print(found.table())
    assert not found.findings, found.table()
    assert found.counts.total() >= calls and found.counts.keys() == APIS
    assert min(found.counts.values()) > calls // 50
    files, refused = (sum(row[i] for row in found.files.values()) for i in (0, 1))
    assert files == found.counts["files"] > refused > files // 2
    missing = {*entries.NAMES.values(), *entries.VERBS} - found.drawn.keys()
    for more in range(seed + 1, seed + 4) if calls >= ENOUGH and missing else ():
        found = run.attack(calls, more)          # one of hundreds may wait for another round
        assert not found.findings, found.table()
        missing -= found.drawn.keys()
    assert calls < ENOUGH or not missing, f"never drawn: {sorted(missing)}"


def test_entry_points_are_those_of_the_library():
    """A new public name is one without a line here; what is left out by name is there."""
    known = entries.entries()
    some = """frontend.pygraph.conv_fprop cudnn.convolutionForward frontend.tensor.set_dim
        cydnn.TensorDesc.packed plan.ExecutionPlan.run frontend.Graph.set_io_tuples""".split()
    assert known.keys() >= {*some}
    assert not known.keys() & entries.INNER and len(known) > 450
    for name in entries.INNER:
        room, *path = name.split(".")
        found = next(r for r in entries.ROOMS if r.__name__.rpartition(".")[2] == room)
        for part in path:
            found = getattr(found, part)


PLANTED = """
import os, time
from support.hostile import attack, worker
worker.WAITS = 4
def fine(a): a.call("fine", int, "5")
def foreign(a): a.call("foreign", {}.__getitem__, 1)
def silent(a): a.call("none", int, "7"); a.wrong("a silent one", "here")
def crash(a): os.abort()
def leave(a): os._exit(7)
def hang(a): time.sleep(60)
def large(a): attack.MOST_MIB["x"] = 8; b"x" * (24 << 20)
def broken(a): 1 / 0
table = [("x", f) for f in (crash, leave, hang, foreign, silent, large, broken, fine)]
raise SystemExit(worker.main(table=table))
"""


def test_what_an_attack_finds():
    """Planted: each is found once, with the line that repeats it; behind a child that is gone it goes on."""
    found = run.attack(3, 3, child=(sys.executable, "-c", PLANTED), batch=24)
    said = {finding.round: finding for finding in found.findings.values()}
    for at, what in enumerate(("crashes: SIGABRT", "crashes: exit 7", "hangs", "KeyError: 1", "a silent one",
                               "MiB of memory", "the attack fails: .*ZeroDivisionError")):
        assert re.search(what, said[at].what, re.S), said[at]
        assert said[at].line == f"python -m support.hostile --seed 3 --rounds {said[at].round}"
    assert len(found.findings) == 7 and found.counts.total() == 3


def test_an_attack_is_repeated_by_its_seed():
    table = [row for row in ROUNDS if row[1].__module__ != threads.__name__]
    calls = [[], []]
    for seen in calls:
        attack = Attack(11)
        attack.judge = lambda name, error, *given: seen.append((name, type(error)))
        attack.run(table, range(len(table)))
    assert calls[0] == calls[1] and len(calls[0]) > 100
