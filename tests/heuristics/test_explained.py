"""What ``explain`` says of a plan, in words and as data: engines that were not taken, what was measured."""
from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cydnn import plan
from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.heuristics import Wish, best, candidates, tuned
from cydnn.layout import Layout
from cydnn.ops import Problem

from .graphs import LISTED

H200 = replace(KNOWN["h200"], driver=13000)


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("CYDNN_TUNED", str(tmp_path / "tuned.txt"))
    monkeypatch.setattr(tuned, "SHIPPED", tmp_path / "shipped")


@pytest.mark.parametrize("name", LISTED)
def test_words_and_data_agree(name):
    graph = LISTED[name]()
    said, data = plan.explain(graph, "h200"), plan.explain(graph, KNOWN["h200"], as_data=True)
    assert json.loads(json.dumps(data)) == data and data["device"] == "NVIDIA H200"
    choice = best(graph, KNOWN["h200"])
    assert data["us"] == choice.us and data["notes"] == list(choice.notes)
    assert f"\nnotes: {' '.join(data['notes'])}\n" in said
    for part, row in zip(choice.parts, data["parts"], strict=True):
        us = [other["us"] for other in row["others"]]
        assert us == sorted(us) and all(str(e) not in str(row["others"]) for e in [part.engine])
        for other in row["others"]:
            named = f"{other['engine']} {other['config']}".rstrip()
            assert f"    {named} not taken: {other['us']:.1f} us, {other['workspace_bytes']:,} bytes" in said
        for engine, why in row["refused"].items():
            assert f"    {engine} refused: {'; '.join(why)}" in said
        assert all(f"{knob}={part.config.get(knob)}: {doc}" in said for knob, doc in row["knobs"].items())
    assert [step["part"] for step in data["steps"]] == [part for part, _ in choice.steps]


def test_engines_that_serve_only_who_asks_are_marked():
    said = plan.explain(graph_of(Problem.parse("conv_fprop n256c64h28w28 k64r3s3 pad1 f16 nhwc")), "h200")
    assert "114:conv_fprop_winograd2 tile=t128x64 chunks=1 not taken: " in said
    assert ", only where winograd is asked for" in said


def test_predicted_beside_measured():
    graph = LISTED["silu"]()
    first, other = candidates(graph, H200)[:2]
    assert "measured" not in Layout(first).explain() and Layout(first).told()["measured"] == {}
    tuned.save({tuned.key_of(graph, H200): tuned.TunedRow(tuned.canonical_text(first), 2 * first.us, 9.0)})
    said = Layout(first).explain()
    assert (f"measured: {2 * first.us:.1f} us, predicted {first.us:.1f} us (-50 %); "
            "mode A's choice 9.0 us") in said
    assert Layout(first).told()["measured"]["text"] == first.text
    assert "us of another choice, which mode B takes: part 0" in Layout(other).explain()
    assert plan.explain(graph, H200, Wish(mode="b")) == said
    old = best(graph, replace(H200, driver=12080))
    assert "a tuned row is not used: it was measured with driver 13000" in Layout(old).explain()
    tuned.save({tuned.key_of(graph, H200): tuned.TunedRow("lower 0", 1.0, 9.0)})
    assert "a tuned row is not used: choice: there is nothing to lower" in Layout(first).explain()


def test_devices_by_name_too():
    graph = LISTED["matmul_column"]()
    assert plan.explain(graph, "numpy").startswith("no estimate  0:reference")
    assert plan.explain(graph, "ptx:sm_90", as_data=True)["device"] == "ptx:sm_90"
