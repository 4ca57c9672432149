"""Attention and the DAG on its scores: text, parsing, keys, refusals, what is made of it."""
from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "graph"))
from nodes import t
from cydnn import plan as plans
from cydnn.device import get
from cydnn.graph import Graph, Node
from cydnn.graph.lower import lowered
from cydnn.graph.text import from_rows, rows as rows_of
from cydnn.layout import Layout
from cydnn.ops import Pointwise, Problem, Sdpa
from cydnn.ops.attention import scores
from cydnn.ops.rows import text as rows_text
from cydnn.status import BadParam
from support.draw import graphs

ALIBI = "sub(col,row);mul(n0,e1)"
EVERY = f"{ALIBI};mul(s,#0.5);add(n2,n1);add(n3,e0);div(n4,#5.0);tanh_fwd(n5);mul(n6,#5.0)"
LINE = (f"sdpa q=2x3x9x8:f16 k=2x3x8x12:f16 v=2x3x12x16:f16 extras=1x3x9x12:f16+1x3x1x1:f32 o=2x3x9x16:f16 "
        f"stats=2x3x9x1:f32 score={EVERY} right=0 diagonal=bottom_right")
OPTIONS = LINE.replace(EVERY, rows_text(scores(3, soft_cap=5, bias="bias", mask="mask", alibi=True)[0]))
DEVICES = pytest.mark.parametrize("device", ["numpy", "ptx:sm_80", "ptx:sm_90"])
WAYS = pytest.mark.parametrize("way", [lambda graph: graph, lambda graph: lowered(graph, 0)],
                               ids=["whole", "lowered"])


def test_a_score_is_text_that_parses_back():
    problem = Problem.parse(LINE)
    assert str(problem) == LINE and Problem.parse(str(problem)) == problem
    bounded = Sdpa(score="relu_fwd[relu_upper_clip=6.0](s)")
    assert bounded.score == ((Pointwise(mode="relu_fwd", relu_upper_clip=6.0), ("s",)),)
    assert Sdpa(score=[(Pointwise(mode="add", compute="f64"), ("s", 1))]) == Sdpa(score="add(s,#1.0)")


def test_a_score_is_part_of_the_key_and_of_what_is_written_down():
    problem = Problem.parse(LINE)
    graph = Graph.single(problem.op, problem.operands)
    other = Graph.single(Sdpa(score=EVERY.replace("#0.5", "#0.25"), right=0, diagonal="bottom_right"),
                         problem.operands)
    assert from_rows(rows_of(graph)).key == graph.key != other.key
    layout = plans.build(graph, "ptx:sm_80").layout
    assert Layout.from_json(layout.to_json()).to_json() == layout.to_json()


@pytest.mark.parametrize("score, sentence", [
    ("mul(s)", "must give mul 2 values; got .'s',."), ("add(s,x)", "got 'x' in row 0"),
    ("mul(s,n0)", "must read numbers, s batch .*; got 'n0' in row 0"),
    ("gen_index(s)", "must use the names batch head row col in place of gen_index"),
    ("blue(s)", "must be rows such as .*; got 'blue.s.'"), ("add(s,#x)", "numbers behind #; got 'add.s,#x.'"),
    ("elu_fwd[blue=1](s)", "must have the attributes of elu_fwd"), (7, "must be a list of at most 1000 rows"),
    (["s"], "must have rows .Pointwise, what it reads.; got 's'"),
    ("add(s,#nan)", "must read numbers other than NaN, which equals nothing; got NaN in row 0")])
def test_scores_that_are_refused(score, sentence):
    with pytest.raises(BadParam, match=f"sdpa: score .*{sentence}"):
        Sdpa(score=score)


@pytest.mark.parametrize("line", [LINE, OPTIONS], ids=["by hand", "options"])
@pytest.mark.parametrize("device", ["ptx:sm_80", "ptx:sm_90"])
def test_scale_bias_alibi_cap_and_a_bottom_right_diagonal(line, device):
    problem = Problem.parse(line)
    graph = Graph.single(problem.op, problem.operands, dict(scale=1 / math.sqrt(8)))
    random, found = np.random.default_rng(3), {}
    arrays = {t.uid: random.normal(size=t.dims).astype(t.dtype.numpy) for t in graph.tensors.values()}
    for name in ("numpy", device):
        plan, mine = plans.build(graph, get(name)), {u: a.copy() for u, a in arrays.items()}
        plan.execute([mine[t.uid] for t in plan.slots], np.zeros(plan.workspace_bytes + 1, np.uint8))
        found[name] = [mine[uid].astype("d") for uid in graph.nodes[0].writes]
    for want, got in zip(*found.values()):
        assert np.abs(got - want).max() <= 2e-3 * (1 + np.abs(want).max())


@pytest.mark.parametrize("score", ["exp(e0);mul(s,n0)", "exp(e0)", "exp(#0.5);mul(n0,e0)"])
def test_rows_that_read_no_score_have_the_dims_of_what_they_read(score):
    problem = Problem.parse(f"sdpa 1x2x3x4 1x2x4x5 1x2x5x4 f32 extras=1x2x1x1:f32 score={score}")
    graph = Graph.single(problem.op, problem.operands)
    random, found = np.random.default_rng(1), []
    arrays = {t.uid: random.normal(size=t.dims).astype(np.float32) for t in graph.tensors.values()}
    for one in (graph, lowered(graph, 0)):
        plan, mine = plans.build(one, get("numpy")), {u: a.copy() for u, a in arrays.items()}
        plan.execute([mine[t.uid] for t in plan.slots], np.zeros(plan.workspace_bytes + 1, np.uint8))
        found.append(mine[graph.nodes[0].operands["o"]])
    np.testing.assert_allclose(*found, atol=1e-6)


@DEVICES
@WAYS
def test_what_lies_beyond_a_length_reaches_nothing(way, device):
    problem = Problem.parse("sdpa 2x2x3x4 2x2x4x7 2x2x7x4 f16 extras=2x1x1x7:f32 score=add(s,e0) "
                            "len_kv=2x1x1x1:i32 stats=2x2x3x1:f32")
    graph, gen, found = Graph.single(problem.op, problem.operands), np.random.default_rng(4), []
    values = {x.name: gen.normal(size=x.dims) for x in graph.tensors.values()}
    values["len_kv"] = np.reshape([5, 0], (2, 1, 1, 1))
    for filled in (0.0, np.nan):
        values["k"][0, ..., 5:] = values["v"][0, :, 5:] = values["extras.0"][0, ..., 5:] = filled
        values["k"][1] = values["v"][1] = values["extras.0"][1] = filled
        given = {uid: values[x.name] for uid, x in graph.tensors.items()}
        found.append(graphs.run(way(graph), given, get(device)))
    for clean, soiled in zip(*(run.values() for run in found)):
        np.testing.assert_array_equal(soiled, clean)
    o, stats = (found[1][u] for u in graph.nodes[0].writes)
    assert np.isfinite(o).all() and not o[1].any() and (stats[1] == -np.inf).all()


@DEVICES
@WAYS
def test_lengths_are_cut_to_what_there_is(way, device):
    problem = Problem.parse("sdpa 2x2x3x4 2x2x4x7 2x2x7x4 f32 len_q=2x1x1x1:i32 len_kv=2x1x1x1:i32 "
                            "right=0 diagonal=bottom_right")
    graph, gen = Graph.single(problem.op, problem.operands), np.random.default_rng(6)
    values, found = {uid: gen.normal(size=x.dims) for uid, x in graph.tensors.items()}, []
    for lengths in ([[9, -2], [50, 5]], [[3, 0], [7, 5]]):
        values |= {graph.nodes[0].operands[n]: np.reshape(given, (2, 1, 1, 1))
                   for n, given in zip(("len_q", "len_kv"), lengths)}
        found.append(graphs.run(way(graph), values, get(device))[graph.nodes[0].writes[0]])
    np.testing.assert_array_equal(*found)
    assert found[0][0].any() and not found[0][1].any()


@DEVICES
@WAYS
def test_a_row_may_read_a_number_that_is_given_at_execute(way, device):
    """One plan serves every number."""
    dims = dict(q=(1, 2, 3, 4), k=(1, 2, 4, 5), v=(1, 2, 5, 4), o=(1, 2, 3, 4))
    tensors = [t(uid, d, name=n) for uid, (n, d) in enumerate(dims.items(), 1)]
    op = Sdpa(score="mul(s,e0);tanh_fwd(n0)")
    graph = Graph([Node(op, dict(q=1, k=2, v=3, o=4, extras=(5,)))],
                  [*tensors, t(5, (1, 1, 1, 1), "f32", "value")])
    assert from_rows(rows_of(graph)).key == graph.key
    built, gen = plans.build(way(graph), get(device)), np.random.default_rng(5)
    mine = {x.uid: gen.normal(size=x.dims).astype(np.float32) for x in tensors}
    space = np.zeros(built.workspace_bytes + 1, np.uint8)
    for number in (0.25, -3.0):
        built.run({**mine, 5: number}, space)
        read = [mine[u].astype("d") for u in (1, 2, 3)]
        want = op.reference(*read, None, None, [np.full((1, 1, 1, 1), number)], 1.0)["o"]
        np.testing.assert_allclose(mine[4], want, atol=1e-6)


@pytest.mark.parametrize("diagonal", ["top_left", "bottom_right"])
@pytest.mark.parametrize("left, right", [(0, -1), (0, 0), (3, 0), (1, 5), (4, -1), (60, 60)])
def test_work_is_that_of_what_is_seen(left, right, diagonal):
    for s_q, s_kv in ((9, 9), (5, 17), (17, 5), (1, 8), (0, 4)):
        shift = s_kv - s_q if diagonal == "bottom_right" else 0
        way = np.arange(s_kv) - np.arange(s_q)[:, None] - shift
        seen = (way <= right if right >= 0 else way == way) & (way > -left if left else way == way)
        op = Sdpa(left=left, right=right, diagonal=diagonal)
        assert op.pairs((2, 3, s_q, s_kv)) == 6 * seen.sum()


def test_a_query_that_sees_no_key():
    """0 and -inf; NaN where that is asked for, as 0 / 0 is."""
    q, k, v = np.ones((1, 1, 3, 2)), np.ones((1, 1, 2, 4)), np.ones((1, 1, 4, 2))
    for empty, want in (("zero", 0.0), ("nan", np.nan)):
        op = Sdpa(left=1, right=0, empty=empty)
        found = op.reference(q, k, v, None, np.array([1]).reshape(1, 1, 1, 1), None, 1.0)
        np.testing.assert_array_equal(found["o"][0, 0, :, 0], [1.0, want, want])
        np.testing.assert_array_equal(found["stats"][0, 0, 1:, 0], [-np.inf] * 2)


def test_tables_of_no_pages():
    """A page that is none holds 0."""
    given = dict(q=np.ones((1, 1, 3, 2)), k=np.ones((0, 1, 2, 4)), v=np.ones((0, 1, 4, 2)))
    given |= dict.fromkeys(("table_k", "table_v"), np.zeros((1, 1, 2, 1)))
    found = Sdpa().evaluate(given, dict(scale=1.0))
    np.testing.assert_array_equal(found["o"], np.zeros((1, 1, 3, 2)))
