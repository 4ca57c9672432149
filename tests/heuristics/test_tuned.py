"""The tuned table: what it holds comes back, for the graphs and cards that it is of, whole or not at all."""
from __future__ import annotations

import logging
import random
import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import pytest

from cydnn import bench, kernels, plan
from cydnn.device.facts import KNOWN
from cydnn.graph import Graph, Node, canonical
from cydnn.heuristics import Wish, best, candidates, parse, tuned
from cydnn.ops import Problem
from cydnn.steps import Scalar
from cydnn.status import BadParam

from .graphs import LISTED

H200 = replace(KNOWN["h200"], driver=13000)
B = Wish(mode="b")


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    """The file of a table that is not there yet."""
    monkeypatch.setenv("CYDNN_TUNED", str(tmp_path / "folder" / "tuned.txt"))
    monkeypatch.setattr(tuned, "SHIPPED", tmp_path / "shipped")
    return tuned.place()


def numbered_anew(graph: Graph, seed: int) -> Graph:
    """The same graph with other uids, nodes in another order."""
    draw = random.Random(seed)
    uid = dict(zip(graph.tensors, draw.sample(range(100, 1000), len(graph.tensors))))
    turn = lambda uids: tuple(map(uid.get, uids)) if isinstance(uids, tuple) else uid[uids]
    tensors = [t.replace(uid=uid[t.uid], scalar=t.scalar and Scalar(uid[t.scalar.key], t.scalar.default))
               for t in graph.tensors.values()]
    nodes = [Node(n.op, {o: turn(u) for o, u in n.operands.items()}, n.scalars) for n in graph.nodes]
    return Graph(draw.sample(nodes, len(nodes)), tensors)


def keep(graph: Graph, choice, facts=H200, us=1.5):
    tuned.save({tuned.key_of(graph, facts): tuned.TunedRow(tuned.canonical_text(choice), us, 2.0)})


def shapes(choice) -> list:
    """Engines, configurations and operations of the parts, whatever the nodes are numbered."""
    return sorted((str(p.engine), str(p.config), sorted(n.op.name for n in p.nodes)) for p in choice.parts)


@pytest.mark.parametrize("name", LISTED)
def test_every_candidate_comes_back_for_a_graph_that_is_numbered_anew(name):
    graph = LISTED[name]()
    for seed, choice in enumerate(candidates(graph, H200)):
        keep(graph, choice)
        assert best(graph, H200, B).text == candidates(graph, H200, B)[0].text == choice.text
        again = numbered_anew(graph, seed)
        assert canonical.problem_of(again) == canonical.problem_of(graph)
        assert shapes(best(again, H200, B)) == shapes(choice)
    assert len(tuned.current().rows) == 1 and best(graph, H200).text == candidates(graph, H200)[0].text


def test_graphs_that_are_wired_otherwise_are_others():
    """x - y and y - x read the same tensors by the same operation."""
    graph = LISTED["silu"]()
    product = next(n for n in graph.nodes if n.op.name == "pointwise" and len(n.reads) == 2)
    turned = Node(product.op, {**product.operands, "x": product.operands["b"], "b": product.operands["x"]})
    other = Graph([turned if n is product else n for n in graph.nodes], graph.tensors)
    assert canonical.digest(other) != canonical.digest(graph)


@pytest.mark.parametrize("facts, why", [
    (replace(H200, driver=12080), "measured with driver 13000, this is driver 12080"),
    (replace(H200, sms=100), "measured on NVIDIA H200 with 132 SMs, this is NVIDIA H200 with 100"),
    (KNOWN["h100"], "this is NVIDIA H100")])
def test_a_row_of_another_card_or_driver(facts, why, caplog):
    graph = LISTED["silu"]()
    keep(graph, candidates(graph, H200)[-1])
    with caplog.at_level(logging.INFO, "cydnn"):
        assert best(graph, facts, B).text == best(graph, facts).text
    assert "a tuned row is not used: it was " in caplog.text
    row, said = tuned.lookup(graph, facts)
    assert row is None and re.search(why, said)


@pytest.mark.parametrize("change", ["kernel of the row", "kernel of mode A", "mode A", "another kernel"])
def test_a_row_of_another_version(change, caplog, monkeypatch):
    """It counts for the images that both choices launch and the choice that it was measured against."""
    graph = LISTED["silu"]()
    first, *_, last = candidates(graph, H200)
    against = candidates(graph, H200)[1] if change == "mode A" else first
    row = tuned.TunedRow(tuned.canonical_text(last), 1.0, 2.0, tuned.version_of(last, against))
    tuned.save({tuned.key_of(graph, H200): row})
    launched = {"kernel of the row": last, "kernel of mode A": first}.get(change)
    name = next(s.kernel for _, s in launched.steps if hasattr(s, "kernel")) if launched else "softmax_fwd"
    found = kernels.get
    changed = SimpleNamespace(image_for=lambda sm: SimpleNamespace(sha256="0" * 64))
    monkeypatch.setattr(kernels, "get", lambda wanted: changed if wanted == name else found(wanted))
    with caplog.at_level(logging.INFO, "cydnn"):
        taken = best(graph, H200, B)
    counts = change == "another kernel"
    assert taken.text == (last if counts else first).text
    assert ("it was measured with version " in caplog.text) == (not counts)


def test_facts_without_a_driver_take_the_newest_row():
    graph, found = LISTED["silu"](), candidates(LISTED["silu"](), H200)
    keep(graph, found[1], replace(H200, driver=12080))
    keep(graph, found[2])
    assert best(graph, KNOWN["h200"], B).text == found[2].text


@pytest.mark.parametrize("wish, why", [
    (Wish(mode="b", without=(270,)), "the wish leaves out 270:pointwise_vector"),
    (Wish(mode="b", workspace_bytes=0), "bytes of workspace, more than 0")])
def test_a_wish_bars_a_row(wish, why, caplog):
    graph = LISTED["silu"]()
    keep(graph, next(c for c in candidates(graph, H200) if c.workspace_bytes and "270" in c.text))
    with caplog.at_level(logging.INFO, "cydnn"):
        assert best(graph, H200, wish).text == best(graph, H200, replace(wish, mode="a")).text
    assert why in caplog.text


@pytest.mark.parametrize("text, why", [
    ("part 9: 110", "nodes must be below 3"), ("lower 0", "nothing to lower"), ("nonsense", "line must be"),
    ("part 0 1: 100000", "there must be an engine 100000")])
def test_a_row_that_is_no_choice_is_not_used(text, why, caplog):
    graph = LISTED["silu"]()
    tuned.save({tuned.key_of(graph, H200): tuned.TunedRow(text, 1.0, 2.0)})
    with caplog.at_level(logging.INFO, "cydnn"):
        assert best(graph, H200, B).text == best(graph, H200).text
    assert "a tuned row is not used: choice: " in caplog.text and why in caplog.text


def test_a_plan_is_built_anew_when_the_table_changes():
    graph = LISTED["silu"]()
    facts = plan.build(graph, "ptx:sm_90", B).device.facts
    found = candidates(graph, facts)
    for choice in found[1], found[2]:
        keep(graph, choice, facts)
        assert plan.build(graph, "ptx:sm_90", B).choice.text == choice.text


# ---- The file ----

def test_a_table_cut_at_any_byte_is_refused(table, caplog):
    for name in ("silu", "matmul_column"):
        keep(LISTED[name](), candidates(LISTED[name](), H200)[1])
    whole = table.read_bytes()
    assert tuned.Table.parse(whole.decode()).text == whole.decode()
    for size in range(len(whole)):
        with pytest.raises(BadParam, match="the last line must be `end`"):
            tuned.Table.parse(whole[:size].decode())
    table.write_bytes(whole[:-3])
    with caplog.at_level(logging.WARNING, "cydnn"):
        assert not tuned.current().rows
    assert "the tuned table is not used" in caplog.text
    with pytest.raises(BadParam, match="it was cut"):
        keep(LISTED["silu"](), best(LISTED["silu"](), H200))
    assert table.read_bytes() == whole[:-3]


def test_a_table_that_cannot_be_written(table):
    """There is a file where a folder must be; it is told before anything is measured, too."""
    table.parent.write_text("mine")
    for call in (lambda: keep(LISTED["silu"](), best(LISTED["silu"](), H200)), lambda: tuned.check(table)):
        with pytest.raises(BadParam, match=f"tuned table: {table} must be a file that can be written; got "
                                           "FileExistsError: .*: CYDNN_TUNED names another"):
            call()
    assert table.parent.read_text() == "mine"


HEAD = "card NVIDIA H200, 132 SMs, driver 13000\n"


@pytest.mark.parametrize("text, why", [
    ("softmax_fwd 8x8 f32\n", "line 1: there must be a `card` line above the first problem"),
    (HEAD + "  1.00 us\n", "line 2: there must be a `card` line"),
    (HEAD + "softmax_fwd 8x8 f32\n", "line 2: below 'softmax_fwd x=8x8:f32 y=8x8:f32' must stand"),
    (HEAD + "a x=1\n  1 ms, default 2.00 us\n  part 0: 210\n", "below 'a x=1' must stand"),
    (HEAD + "a\n", "line 2: a problem must be one that benchmarks read: .*; got 'a'"),
    (HEAD + 2 * "a x=1\n  1.00 us, default 2 us\n  part 0: 210\n", "'a x=1' must stand once below a card")])
def test_what_is_no_table(text, why):
    with pytest.raises(BadParam, match=f"tuned table: .*{why}"):
        tuned.Table.parse(text + "end\n")


def test_a_table_by_hand(table):
    """Empty lines, comments, indents and ends of lines are free; a single operation is as benchmarks read
    it."""
    table.parent.mkdir()
    table.write_text(f"# mine\n{tuned.Card.of(H200)}\nsoftmax_fwd 64x1000 f16\n"
                     "\n    1 us, default 2.00 us\r\n # why\n  part 0: 211\n\n# the last\nend\n", newline="")
    problem = "softmax_fwd x=64x1000:f16 y=64x1000:f16"
    assert tuned.current().rows == {problem: {tuned.Card.of(H200): tuned.TunedRow("part 0: 211", 1.0, 2.0)}}


def test_the_users_table_stands_above_those_that_ship(tmp_path, monkeypatch):
    graph, found = LISTED["silu"](), candidates(LISTED["silu"](), H200)
    monkeypatch.setattr(tuned, "SHIPPED", tmp_path)
    keep(graph, found[1])
    tuned.place().rename(tmp_path / "shipped.txt")
    assert best(graph, H200, B).text == found[1].text
    keep(graph, found[2])
    assert best(graph, H200, B).text == found[2].text


def test_tables_that_ship_are_read():
    """Each choice is one of its problem on its card."""
    for path in Path(tuned.__file__).with_name("shipped").glob("*.txt"):
        for problem, mine in tuned.read(path).rows.items():
            graph = bench.graph_of(Problem.parse(problem))
            assert all(parse(tuned.own(row.text, graph), graph, H200).text for row in mine.values())


def _many(at: int):
    """Rows that another process saves meanwhile, one by one."""
    for i in range(100):
        key = f"softmax_fwd x={at + 1}x{i + 1}:f16", tuned.Card.of(H200)
        tuned.save({key: tuned.TunedRow("part 0: 210", 1.0, 2.0)})


def test_two_processes_lose_nothing():
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(_many, range(2)))
    assert tuned.read(tuned.place()).rows.keys() == {f"softmax_fwd x={at + 1}x{i + 1}:f16"
                                                     for at in range(2) for i in range(100)}
