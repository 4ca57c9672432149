"""Choices as text: they parse back; a text that was changed is refused with a sentence."""
from __future__ import annotations

import pytest

from cydnn.device.facts import KNOWN
from cydnn.graph import Graph
from cydnn.given import shown
from cydnn.heuristics import best, candidates, parse
from cydnn.heuristics.read import is_number
from cydnn.status import BadParam
from support.draw.dags import dag

from . import graphs

H200 = KNOWN["h200"]


@pytest.mark.parametrize("seed", range(40))
def test_every_choice_parses_back(seed):
    graph, _ = dag(seed)
    for choice in candidates(graph, H200):
        again = parse(choice.text, graph, H200)
        assert again == choice and again.us == choice.us and again.workspace_bytes == choice.workspace_bytes
        assert hash(again) == hash(choice) and again.name == choice.name


def test_choices_for_other_devices_differ():
    graph = graphs.silu()
    assert best(graph, H200) != best(graph, KNOWN["a100"]) and best(graph, H200) != best(graph, KNOWN["t4"])


WRONG = [
    ("part 0 1 2: 110 tile=m128n64", "part 0 1: 110 tile=m128n64", "sigmoid and what|node 2. in 0"),
    (": 110 tile=m128n64", ": 110 tile=m77n64", "tile must be one of m128n256 .* got 'm77n64'"),
    (": 110 tile=m128n64", ": 110 stages=4", "knob must be one of tile; got 'stages'"),
    (": 110 tile=m128n64", ": 190 tile=128 splits=1",
     "190:matmul_mma must take its nodes: it does not take nodes like these"),
    (": 110", ": 9999", "there must be an engine 9999"),
    (": 110", ": 1", "there must be an engine 1"),
    ("part 0 1 2", "part 0 1 2 7", "nodes must be below 3"),
    ("part 0 1 2", "part zero", "a line must be"),
    ("part 0 1 2", "part 0 1²", "a line must be"),
    ("part 0 1 2", "part 0 1 " + "2" * 5000, "a line must be"),
    (": 110", ": ²", "a line must be"),
    ("part 0 1 2", "lower ²\npart 0 1 2", "lower must name one of the nodes 0 to 2"),
    ("part 0 1 2", "part 0 1 two 2", "a line must be"),
    ("part 0 1 2", "cast 1\npart 0 1 2", "has nothing to cast"),
    ("part 0 1 2", "lower 9\npart 0 1 2", "lower must name one of the nodes 0 to 2"),
    ("part 0 1 2", "lower 3\npart 0 1 2", "lower must name one of the nodes 0 to 2"),
    ("part 0 1 2", "part 0 1 3", "nodes must be below 3"),
    ("part 0 1 2: 110 tile=m128n64", "", "every node must be in one part; got conv_fprop .node 0. in 0"),
]


@pytest.mark.parametrize("before, after, why", WRONG)
def test_a_changed_text_is_refused(before, after, why):
    graph = graphs.silu()
    text = best(graph, H200).text
    text = "part 0 1 2: 110 tile=m128n64" if before not in text else text
    changed = text.replace(before, after)
    with pytest.raises(BadParam, match=f"(?s)^choice: .*(?:{why})") as error:
        parse(changed, graph, H200)
    lines = [f"; got {shown(line)}" for line in changed.splitlines()]
    assert error.value.args[0].endswith(tuple(lines)) or "every node" in error.value.args[0]


def test_where_a_line_may_stand():
    """First that it is the composite, then changes, then parts."""
    graph = graphs.softmax_of_scores()
    *changes, first, second, third = best(graph, H200).text.split("\n")
    assert changes == ["compose 5", "cast 1"] and first.startswith("part 0: ")
    parts = [first, second, third]
    for lines, wrong in (([*changes, "composite", *parts], "composite"),
                         ([*changes, *parts, "composite"], "composite"),
                         ([*changes, *parts, "cast 1"], "cast 1"), ([first, *changes], "compose 5")):
        with pytest.raises(BadParam, match=f"a line must be .*; got '{wrong}'"):
            parse("\n".join(lines), graph, H200)
    found = parse("\n".join(["composite", *changes, *parts]), graph, H200)
    assert found.mode == "fallback" and found.changes == tuple(changes) and found.asked is graph
    assert parse("\n".join([*changes, *parts]), graph, H200).mode == "a"


@pytest.mark.parametrize("word, is_one", [("0", True), ("123456789", True), ("1234567890", False),
                                          ("", False), ("\u00b2", False), ("\u0661", False), ("-1", False),
                                          ("1 ", False)])
def test_numbers_of_a_text(word, is_one):
    assert is_number(word) is is_one


def test_parts_in_a_wrong_order_are_refused():
    graph = graphs.conv_reduction()
    first, second = best(graph, H200).text.split("\n")
    with pytest.raises(BadParam, match="parts must stand in the order in which they run"):
        parse(f"{second}\n{first}", graph, H200)


def test_nodes_that_are_not_one_region_are_refused():
    graph = graphs.softmax_of_scores()
    with pytest.raises(BadParam, match="must be matmul and what is fused around it; got 'part 0 2: 180"):
        parse("part 0 2: 180 tile=t32x32 splits=1\npart 1: 280\npart 3: 270\npart 4: 280\npart 5: 270", graph,
              H200)


def test_pointwise_nodes_apart_are_no_region():
    graph = graphs.softmax_of_scores()
    with pytest.raises(BadParam, match="its nodes must be one region; got 'part 2 5: 270'"):
        parse("part 0: 180 tile=t32x32 splits=1\npart 1: 280\npart 2 5: 270\npart 3: 270\npart 4: 280", graph,
              H200)


@pytest.mark.parametrize("text", [None, 5, b"composite", ["composite"]])
def test_what_is_no_text(text):
    with pytest.raises(BadParam, match="choice must be a text; got "):
        parse(text, graphs.silu(), H200)


def test_two_operations_are_no_part():
    graph = graphs.conv_reduction()
    anchors = [i for i, node in enumerate(graph.nodes) if i in graph.anchors]
    with pytest.raises(BadParam, match="pointwise operation: conv_fprop, reduction; got 'part 0 1: 110'"):
        parse(f"part {' '.join(map(str, anchors))}: 110", graph, H200)


def test_pointwise_nodes_of_two_shapes_are_no_region():
    graph = Graph([graphs.point("abs", 1, 2), graphs.point("abs", 3, 4)],
                  [graphs.tensor(i, (4, 8) if i < 3 else (3, 5)) for i in (1, 2, 3, 4)])
    with pytest.raises(BadParam, match="choice: its nodes must be one region; got 'part 0 1: 270'"):
        parse("part 0 1: 270", graph, H200)


def test_explained_with_who_refused_why():
    text = best(graphs.silu(), H200).explain()
    assert "conv_fprop, pointwise, pointwise" in text
    assert "108:conv_fprop_depthwise refused: each group must have" in text
    assert "bytes of workspace" in text
