"""Ragged tensors: their offsets are read by every node that uses them, their extent is not known."""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from nodes import binary, t, unary, v
from cydnn import plan
from cydnn.device import get
from cydnn.graph import Graph, Match, Node, inplace
from cydnn.layout import Layout
from cydnn.ops import Matmul
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc

NUMPY = get("numpy")
LENGTHS, S, D = [3, 0, 4, 2], 4, 5
STARTS = np.cumsum([0, *LENGTHS])                # of tokens
DIMS = (len(LENGTHS), S, D)


def offsets_of(kind="virtual", dtype="i32"):
    """(node, tensors) that make the offsets, uid 90, of the tokens' starts and a number."""
    dims = (len(LENGTHS) + 1, 1, 1)
    return binary(1, 2, 90, "mul"), [t(1, dims, dtype), t(2, (1, 1, 1), dtype, "value"),
                                     t(90, dims, dtype, kind)]


def made(kind="virtual", dtype="i32", x="f32", y="f32", ragged=(True, True)) -> Graph:
    """y = relu(x), both ragged; the node that makes their offsets writes the highest uid."""
    node, tensors = offsets_of(kind, dtype)
    at = [90 if one else None for one in ragged]
    return Graph([unary(3, 4, "relu_fwd"), node],
                 [*tensors, t(3, DIMS, x, ragged=at[0]), t(4, DIMS, y, ragged=at[1])])


@pytest.mark.parametrize("ragged", [(True, False), (False, True)], ids=["read", "written"])
def test_offsets_are_read_by_the_node_of_the_tensor(ragged):
    graph = made(ragged=ragged)
    assert [node.writes for node in graph.nodes] == [(90,), (4,)]
    assert graph.consumers[90] == (1,) and graph.above == (0, 1) and graph.slots == (1, 3, 4)
    both = Match.elementwise(graph, 3)           # one kernel cannot make them and read them
    assert both.features.keys() >= {"ragged offsets that it makes"}
    assert Match.single(graph, 1).region.inputs == (3, 90) and 90 in Match.single(graph).region.outputs


def test_offsets_that_wait_for_their_tensor():
    with pytest.raises(BadParam, match="graph: it must have no cycle; got one through abs34, abs45"):
        Graph([unary(3, 4), unary(4, 5)],
              [t(3, (2, 1), "i32"), t(4, (2, 1), "i32", ragged=5), t(5, (3, 1), "i32")])


@pytest.mark.parametrize("x, offsets, sentence", [
    (t(3, ragged=9), t(8), "the ragged offsets of uid 3 must be a tensor of the graph; got uid 9"),
    (v(3).replace(ragged=9), t(9, (3,), "i32"), "ragged tensor uid 3 must be in memory; got a virtual one"),
    (t(3, ragged=9), t(9, (2,), "i32"), "must be 3 packed elements of i32 or i64, .*; got uid 9, memory 2"),
    (t(3, ragged=9), t(9, (3,), "f32"), "got uid 9, memory 3:f32"),
    (t(3, ragged=9), t(9, (3,), "i64", ragged=8), "got uid 9, ragged 3:i64"),
    (t(3, ragged=9), t(9, (3,), "i32", "value"), "got uid 9, value 3:i32")])
def test_tensors_that_cannot_be_ragged(x, offsets, sentence):
    nodes = [unary(2, 3), unary(3, 4)]
    with pytest.raises(BadParam, match=f"^graph: .*{sentence}"):
        Graph(nodes, [t(2), x, t(4), offsets, t(8, (4,), "i32")][:4 + (offsets.uid != 8)])


def test_the_stride_of_ragged_batches_says_nothing():
    """Batches of packed tokens may have that of a token; what overlaps in itself is refused as ever."""
    of_tokens = TensorDesc("f32", DIMS, (D, D, 1))
    assert t(3, DIMS, ragged=90).replace(desc=of_tokens).desc == t(3, DIMS).desc != of_tokens
    assert t(3, DIMS).replace(desc=of_tokens).desc == of_tokens
    with pytest.raises(BadParam, match="y must not overlap itself; got dims .*, strides .11, 2, 1"):
        Graph([unary(3, 4)], [t(3, DIMS), t(90, (5,), "i32"),
                              t(4, DIMS, ragged=90).replace(desc=TensorDesc("f32", DIMS, (2, 2, 1)))])


def test_what_a_plan_knows_of_their_memory():
    """No extent, no place in another's gaps, no place of another; of their offsets no place either."""
    layout = Layout.of(made("memory"), NUMPY.facts)
    rows = {t.uid: row for t, row in zip(layout.slots, layout.operands)}
    assert [(uid, row.bytes, row.is_ragged) for uid, row in rows.items()] == [
        (1, 20, False), (3, 0, True), (4, 0, True), (90, 20, False)]
    assert inplace.pairs(made()) == () != inplace.pairs(made(ragged=(False, False)))
    relu = Graph([unary(90, 5, "relu_fwd"), unary(3, 4, "relu_fwd")], [
        t(90, (5,), "i32"), t(5, (5,), "i32"), t(3, DIMS, ragged=90), t(4, DIMS)])
    assert inplace.pairs(relu) == ()
    again = Layout.from_json(layout.to_json())
    assert again.graph.key == layout.graph.key and again.operands == layout.operands


# ---- On the NumPy device ----

def run(graph, values: dict, scalars=None):
    plan_ = plan.build(graph, NUMPY)
    space = NUMPY.alloc(max(plan_.workspace_bytes, 1))
    plan_.execute([values[t.uid] for t in plan_.slots], space, scalars=scalars)


def batches(array):
    return [array[a:b] for a, b in zip(STARTS, STARTS[1:])]


@pytest.mark.parametrize("kind", ["virtual", "memory"])
@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_a_graph_makes_its_own_offsets(kind, dtype):
    """Token starts times what a token has; arrays end with the last token, behind it nothing is touched."""
    rng, total = np.random.default_rng(0), STARTS[-1]
    x, y = rng.standard_normal((total, D)).astype("f4"), np.full((total + 2, D), 7, "f2")
    starts = STARTS.astype(dtype.replace("i", "int")).reshape(-1, 1, 1)
    run(made(kind, dtype, y="f16"), {1: starts, 3: x, 4: y, 90: np.zeros_like(starts)}, [D])
    assert np.array_equal(y[:total], np.maximum(x, 0).astype("f2")) and (y[total:] == 7).all()


@pytest.mark.parametrize("blend", [0.0, 1.0], ids=["", "beta"])
def test_products_of_each_batch(blend):
    """Ragged rows of both factors: what a batch does not have counts 0."""
    rng, total, n = np.random.default_rng(1), STARTS[-1], 3
    q, k = (rng.standard_normal((total, D)).astype("f4") for _ in range(2))
    mixed, held = np.full((total, n), 2, "f4"), np.full((total, n), 2, "f4")
    w = rng.standard_normal((len(LENGTHS), D, n)).astype("f4")
    scores = np.empty((len(LENGTHS), S, S), "f4")
    offsets = {uid: (STARTS * width).astype("i4").reshape(-1, 1, 1) for uid, width in ((8, D), (9, n))}
    tensors = [t(1, DIMS, ragged=8), t(2, DIMS, ragged=8).replace(dims=(len(LENGTHS), D, S),
                                                                  strides=(S * D, 1, D)),
               t(3, scores.shape), t(4, w.shape), t(5, (len(LENGTHS), S, n), ragged=9),
               *(t(uid, (5, 1, 1), "i32") for uid in offsets)]
    nodes = [Node(Matmul(), dict(a=1, b=2, c=3)), Node(Matmul(), dict(a=1, b=4, c=5), dict(beta=blend))]
    run(Graph(nodes, tensors), {1: q, 2: k, 3: scores, 4: w, 5: mixed, **offsets})
    for b, (rows, keys, out, n_b) in enumerate(zip(batches(q), batches(k), batches(mixed), LENGTHS)):
        assert np.allclose(scores[b, :n_b, :n_b], rows @ keys.T, atol=1e-5)
        assert not scores[b, n_b:].any() and not scores[b, :, n_b:].any()
        assert np.allclose(out, rows @ w[b] + blend * held[:n_b], atol=1e-5)


@pytest.mark.parametrize("x, starts, sentence", [
    (np.zeros(44, "f4"), STARTS * D, r"uid 3: must have at least 180 bytes, as far as its ragged offsets "
                                     r"\[0, 15, 15, 35, 45\] reach; got 176"),
    (np.zeros(99, "f4"), STARTS * D - 5, r"uid 3: ragged offsets must be >= 0; got \[-5, 10"),
    (np.zeros(99, "i4"), STARTS * D, "uid 3: array must be of type float32")])
def test_memory_that_does_not_fit_its_offsets(x, starts, sentence):
    graph = Graph([unary(3, 4)], [t(3, DIMS, ragged=9), t(4, DIMS), t(9, (5,), "i64")])
    with pytest.raises(BadParam, match=sentence):
        run(graph, {3: x, 4: np.zeros(DIMS, "f4"), 9: starts.astype("i8")})
