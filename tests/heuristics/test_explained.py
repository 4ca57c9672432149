"""What ``explain`` says of a plan, in words and as data: engines that were not taken, what was measured."""
from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import cydnn
from cydnn import device as devices, plan
from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.heuristics import Wish, best, candidates, tuned
from cydnn.layout import Layout
from cydnn.ops import Problem
from cydnn.status import BadParam

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
    assert "115:conv_fprop_winograd4 chunks=1 not taken: " in said
    assert ", only where winograd or winograd_tile_6x6 is asked for" in said


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


@pytest.mark.parametrize("name, product, sm", [
    ("H200", "NVIDIA H200", 90), ("RTX 4090", "NVIDIA GeForce RTX 4090", 89),
    ("NVIDIA B200", "NVIDIA B200", 100),
    ("sm_86", "sm_86", 86), ("sm90a", "sm_90", 90)])
def test_a_card_has_its_names(name, product, sm):
    facts = devices.facts_of(name)
    assert (facts.name, facts.sm) == (product, sm) and devices.facts_of(facts) is facts
    assert cydnn.create_device_properties(name).facts == facts


def test_every_door_tells_of_a_card_that_is_not_here():
    x, w = np.ones((1, 8, 8, 8), "f2"), np.ones((8, 8, 3, 3), "f2")
    g = cydnn.pygraph(io_data_type=cydnn.data_type.HALF, handle=cydnn.create_handle("numpy"))
    g.conv_fprop(g.tensor_like(x), g.tensor_like(w)).set_output(True)
    said = [call(x, w, explain=True, device="h200") for call in (cydnn.conv, cydnn.conv.prepare)]
    said += [plan.explain(cydnn.conv.prepare(x, w).plan.graph, "h200"),
             g.explain(device="h200")]
    assert all("conv_fprop" in text.split("\n")[0] for text in said) and len({*said[:3]}) == 1
    assert not g.is_built and g.explain(device="sm_80", as_data=True)["device"] == "sm_80"


def test_a_card_that_is_none_or_must_be_here():
    with pytest.raises(BadParam, match="got 'h300': cards are t4 a100 .* and targets such as sm_90"):
        devices.facts_of("h300")
    with pytest.raises(BadParam, match="must be one that is here, as plans run on it; got the card 'sm_90'"):
        devices.get("sm_90")
    with pytest.raises(BadParam, match="explain: index must be None where device is given; got 0"):
        cydnn.pygraph().explain(0, device="h200")
