"""Errata: an engine that must not serve is passed over, and the refusal says why."""
from __future__ import annotations

import json

import pytest

from cydnn import plan
from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.heuristics import Wish, best, candidates, errata, parse
from cydnn.ops import Problem
from cydnn.status import BadParam, NotSupported

H200, A100 = KNOWN["h200"], KNOWN["a100"]
GRAPH = graph_of(Problem.parse("softmax_fwd 64x1000 f16"))
ROW = dict(engine="softmax_fwd_warp", because="sums lose a row: issue 99")


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Puts rows into the user's file."""
    path = tmp_path / "errata.json"
    path.write_text("[]")
    monkeypatch.setenv("CYDNN_ERRATA", str(path))
    return lambda *found: path.write_text(found[0] if isinstance(found[0], str) else json.dumps(found))


def first(graph=GRAPH, facts=H200, wish=Wish()):
    return best(graph, facts, wish).engine


def test_an_engine_is_passed_over_and_the_reason_is_cited(rows):
    engine, text = first(), best(GRAPH, H200).text
    rows(dict(ROW, engine=engine.name))
    assert first() is not engine and engine not in {e for c in candidates(GRAPH, H200) for e in c.engines}
    cited = f"{engine} refused: erratum: sums lose a row: issue 99"
    assert cited in best(GRAPH, H200).explain()
    with pytest.raises(BadParam, match=f"{engine} must take its nodes: erratum: sums lose a row"):
        parse(text, GRAPH, H200)
    with pytest.raises(NotSupported, match=f"{engine}: erratum: sums lose a row: issue 99"):
        best(GRAPH, H200, Wish(engines=(engine.index,)))
    assert plan.build(GRAPH, "ptx:sm_90").choice.engine is not engine
    rows(dict(ROW, engine=engine.index, when="softmax_bwd"))
    assert first() is engine and plan.build(GRAPH, "ptx:sm_90").choice.engine is engine


@pytest.mark.parametrize("change, hits", [
    (dict(when=r"x=64x1000:f16\b"), True), (dict(when="x=64x1001"), False), (dict(sm=[90]), True),
    (dict(sm=[80, 86]), False), (dict(versions=">=0.1"), True), (dict(versions=">=0.0.9, <0.1"), False),
    (dict(versions="==0.1.0"), True), (dict(versions=">0.1.0,<9"), False), (dict(versions="<=0.1"), True)])
def test_when_a_row_counts(rows, change, hits):
    engine = first()
    rows(dict(ROW, engine=engine.name, **change))
    assert (first() is not engine) == hits


def test_cards_are_told_apart(rows):
    of_a100 = first(facts=A100)
    rows(dict(ROW, engine=of_a100.index, sm=[90]))
    assert first(facts=A100) is of_a100 and first() is not of_a100


@pytest.mark.parametrize("given, why", [
    ("nonsense", "must be a JSON list of rows; got JSONDecodeError"),
    ("{}", "must be a JSON list of rows; got"),
    ("[5]", "row 1 must have engine and because"),
    ('[{"engine": 110}]', "row 1 must have engine and because"),
    (dict(ROW, more=1), "row 1 must have engine and because"),
    (dict(ROW, engine="no_such"), "row 1: engine must be the index or name of one; got 'no_such'"),
    (dict(ROW, engine=True), "engine must be the index"),
    (dict(ROW, because=" "), "because must be a reason"),
    (dict(ROW, engine=110, sm=90), "sm must be a list of numbers such as 90; got 90"),
    (dict(ROW, engine=110, when="("), "when must be a regular expression"),
    (dict(ROW, engine=110, versions=1), "versions must be a text such as"),
    (dict(ROW, engine=110, versions="0.1"), "versions must be bounds such as")])
def test_what_is_no_row_is_an_error(rows, given, why):
    rows(given)
    with pytest.raises(BadParam, match=why):
        best(GRAPH, H200)


def test_a_file_that_is_not_there_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("CYDNN_ERRATA", str(tmp_path / "no"))
    with pytest.raises(BadParam, match="must be a JSON list of rows; got FileNotFoundError"):
        best(GRAPH, H200)


def test_what_ships_can_be_read():
    assert isinstance(errata.read(errata.SHIPPED), list)
