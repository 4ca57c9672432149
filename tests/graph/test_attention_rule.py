"""Attention that is drawn as products, scores and a softmax: what is found, and that it means the same."""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from nodes import t
from cydnn.device import get
from cydnn.graph import FromTensor, Graph, Node, attention_rule
from cydnn.graph.rules import composed, recognised
from cydnn.ops import Matmul, Pointwise, Reduction, Sdpa, SoftmaxFwd
from cydnn.steps import Scalar
from support.draw import graphs

SPACE = B, H, Q, K = 2, 4, 5, 7
D = 4
ONE = (1, 1, 1, 1)
GIVEN = {"half": Scalar(20, 0.5), "two": Scalar(21, 2), "never": Scalar(("constant", -np.inf), -np.inf),
         "cap": Scalar(("constant", 5.0), 5.0)}
BIAS, PADDING = (1, H, Q, K), (B, 1, 1, 1)
SEEN = ("row = gen_index2 s", "col = gen_index3 s", "last = add row two", "is_seen = cmp_ge last col")
CAUSAL = (*SEEN, "a = binary_select s never is_seen")


class Drawn:
    """Attention whose scores are made by lines "name = mode names"; the last is what softmax is of, and of
    ``tail`` the last is what the second product reads. ``kinds``: what values are beside virtual f32;
    ``kept``: statistics of a softmax that is drawn, too, or None."""

    def __init__(self, *lines, kinds=(), softmax=(), tail=("p",), extra=(), before=(), after=(),
                 kept=None):
        self.kinds = dict(p="virtual f16", stats="memory f32") | dict(kinds)
        self.uids, self.tensors, self.nodes = {}, [], []
        memory = dict(q=(B, H, Q, D), k=(1, H, D, K), v=(B, 1, K, D), o=(B, H, Q, D), bias=BIAS)
        for name, dims in memory.items():
            self._add(name, dims, "memory f16")
        self._add("length", PADDING, "memory i32")
        for name, scalar in GIVEN.items():
            self._add(name, ONE, "value i32" if name == "two" else "value f32", scalar=scalar)
        self._node(Matmul(), "s", before, a="q", b="k")
        for line in (*lines, *extra):
            self._point(*line.replace("=", "").split())
        self._softmax(lines[-1].split()[0] if lines else "s", softmax, kept)
        for x, y in zip(tail, tail[1:]):
            self._point(y, "identity", x)
        self.nodes.append(Node(Matmul(), dict(a=self.uids[tail[-1]], b=3, c=4), dict(after)))
        read = {u for n in self.nodes for u in (*n.reads, *n.writes)}
        self.graph = Graph(self.nodes, [x for x in self.tensors if x.uid in read])

    def _add(self, name, dims, kind="virtual f32", **facts):
        kind, dtype = self.kinds.get(name, kind).split()
        self.uids[name] = len(self.uids) + 1
        self.tensors.append(t(self.uids[name], dims, dtype, kind, **facts))

    def _node(self, op, y, scalars=(), **reads):
        uids = {o: self.uids[name] for o, name in reads.items()}
        descs = op.read_of({o: self.tensors[u - 1].desc for o, u in uids.items()})
        usual = "virtual bool" if y.startswith("is_") else "virtual f32"
        self._add(y, op.inferred(descs)[op.writes[0]].dims, usual)
        self.nodes.append(Node(op, {**uids, op.writes[0]: self.uids[y]}, dict(scalars)))

    def _point(self, y, mode, *reads):
        axis, alpha = int(mode[-1]) if mode[-1].isdigit() else 0, "twice" in mode
        op = Pointwise(mode=mode.removesuffix("_twice").rstrip("0123456789"), axis=axis)
        self._node(op, y, dict(alpha1=2.0) if alpha else {}, **dict(zip("xbt", reads)))

    def _softmax(self, x, numbers, kept):
        if kept is None:
            return self._node(SoftmaxFwd(axis=3), "p", numbers, x=x)
        for mode, read, y in (("max", x, "top"), ("add", "raised", "total")):
            if y == "total":
                self._point("shifted", "sub", x, "top")
                self._point("raised", "exp", "shifted")
            self._add(y, (B, H, Q, 1), "memory f32" if y in kept else "virtual f32")
            self.nodes.append(Node(Reduction(mode=mode), dict(x=self.uids[read], y=self.uids[y])))
        self._point("p", "div", "raised", "total")
        if "stats" in kept:
            self._point("size", "log", "total")
            self._point("stats", "add", "top", "size")

    def found(self) -> list:
        starts = [(n, 1 << i) for i, n in enumerate(self.graph.nodes) if isinstance(n.op, SoftmaxFwd)]
        starts += [(node, mask) for _, node, mask in recognised(self.graph, (SoftmaxFwd,))]
        return list(attention_rule.found(self.graph, starts))


SCORES = [
    ((), "", [], None),
    (("a = mul s half",), "", [], "half"),
    (("a = mul half s", "b = add a bias"), "add s e0", ["bias"], "half"),
    (("a = add s bias", "b = mul a half"), "add s e0; mul n0 e1", ["bias", "half"], None),
    (("a = div s cap", "b = tanh_fwd a", "c = mul b cap"), "div s 5.0; tanh_fwd n0; mul n1 5.0", [], None),
    (("a = mul s half", *SEEN, "b = binary_select a never is_seen"),
     "add row e0; cmp_ge n0 col; binary_select s -inf n1", ["two"], "half"),
    (("col = gen_index3 s", "is_in = cmp_lt col length", "b = binary_select s never is_in"),
     "cmp_lt col e0; binary_select s -inf n0", ["length"], None),
    (("row = gen_index2 bias", "head = gen_index1 bias", "none = gen_index0 bias", "a = add row head",
      "b = add a none", "c = add s b"), "add row head; add n0 0.0; add s n1", [], None),
    (("a = exp s", "b = mul a s"), "exp s; mul n0 s", [], None),
]


@pytest.mark.parametrize("lines, rows, extras, scale", SCORES, ids=lambda value: str(value)[:40])
def test_scores_are_found_and_mean_the_same(lines, rows, extras, scale):
    drawn = Drawn(*lines)
    one, = drawn.found()
    assert "; ".join(f"{op.mode} {' '.join(map(str, reads))}" for op, reads in one.scores.rows) == rows
    assert list(one.scores.extras) == [drawn.uids[name] for name in extras]
    assert one.scale == (scale and FromTensor(drawn.uids[scale]))
    assert one.mask == (1 << len(drawn.graph.nodes)) - 1
    rng = np.random.default_rng(len(rows))
    values = {x.uid: rng.standard_normal(x.dims).astype(x.dtype.numpy) for x in drawn.graph.tensors.values()
              if x.kind == "memory" and x.dtype.kind == "float" and x.uid != 4}
    values |= {drawn.uids["length"]: np.array([3, 6], np.int32).reshape(PADDING)}
    want = graphs.run(drawn.graph, values, get("numpy"))[4]
    o = meaning(drawn, one, values)
    assert np.abs(o - want).max() <= 4e-3 * np.abs(want).max()       # probabilities in f16


def meaning(drawn, one, values):
    """What is found, in float64."""
    numbers = {u: np.float64(x.scalar.default).reshape(ONE) if x.is_by_value else
               values.get(u) for u, x in drawn.graph.tensors.items()}
    q, k, value = (numbers[u].astype(np.float64) for u in (1, 2, 3))
    s = q @ k * (numbers[one.scale.uid] if one.scale else 1)
    known = {"s": s, **{f"e{i}": numbers[u] for i, u in enumerate(one.scores.extras)}}
    known |= dict(zip(attention_rule.COORDINATES, np.indices(SPACE).astype(np.float64)))
    for i, (op, reads) in enumerate(one.scores.rows):
        arrays = [known[x] if isinstance(x, str) else np.full(ONE, x) for x in reads]
        s = known[f"n{i}"] = op.evaluate(dict(zip("xbt", arrays)), op.scalars)["y"]
    p = np.exp(s - s.max(axis=3, keepdims=True))
    return p / p.sum(axis=3, keepdims=True) @ value


@pytest.mark.parametrize("kept", [(), ("top", "total"), ("stats",), ("top", "stats")])
def test_the_softmax_may_be_drawn_and_keep_its_statistics(kept):
    drawn = Drawn(*CAUSAL, kept=kept)
    one, = drawn.found()
    assert [o for o in ("top", "total", "stats") if o in one.softmax.operands] == list(kept)
    assert one.mask == (1 << len(drawn.graph.nodes)) - 1 and len(one.scores.rows) == 3


@pytest.mark.parametrize("lines, more, is_found", [
    ((), dict(tail=("p", "cast"), kinds=dict(p="virtual f32", cast="virtual f16")), True),
    ((), dict(kinds=dict(p="virtual f32")), True),
    (("a = add s bias",), dict(extra=("b = exp bias",), kinds=dict(b="memory f32")), True),
    (CAUSAL, dict(kinds=dict(row="virtual i32", last="virtual i64")), True),
    (CAUSAL, dict(kinds=dict(row="virtual f16")), False),
    # values on the way leave, or are rounded
    ((), dict(kinds=dict(s="memory f32")), False),
    ((), dict(kinds=dict(p="memory f16")), False),
    ((), dict(kinds=dict(s="virtual f16")), False),
    ((), dict(kinds=dict(p="virtual bf16")), False),
    (("a = add s bias",), dict(kinds=dict(a="virtual bf16")), False),
    (("a = add s bias",), dict(extra=("b = exp s",), kinds=dict(b="memory f32")), False),
    # nodes have numbers of their own
    (("a = add_twice s bias",), {}, False),
    ((), dict(softmax=dict(alpha=0.5)), False),
    ((), dict(after=dict(alpha=0.5)), False),
    ((), dict(before=dict(alpha=0.5)), True),
])
def test_what_is_attention(lines, more, is_found):
    assert len(Drawn(*lines, **more).found()) == is_found


class Whole(Drawn):
    """With keys and values of every batch; two heads share keys."""

    def _add(self, name, dims, kind="virtual f32", **facts):
        dims = dict(k=(B, H // 2, D, K), v=(B, H, K, D)).get(name, dims)
        super()._add(name, dims, kind, **facts)


@pytest.mark.parametrize("lines", [
    (), ("a = add s bias",), CAUSAL, ("a = div s cap", "b = tanh_fwd a", "c = mul b cap")],
    ids=("plain", "bias", "causal", "cap"))
@pytest.mark.parametrize("kept", [None, (), ("stats",)])
def test_it_becomes_one_operation_and_is_right_on_all_devices(lines, kept):
    graph = Whole(*lines, kept=kept).graph
    (last, node, mask), = recognised(graph)
    after = composed(graph, last)
    assert [type(n.op) for n in after.nodes] == [Sdpa] and mask == (1 << len(graph.nodes)) - 1
    assert not [row for row in recognised(graph, (SoftmaxFwd,)) if isinstance(row[1].op, Sdpa)]
    rng = np.random.default_rng(len(lines))
    values = {x.uid: rng.standard_normal(x.dims).astype(x.dtype.numpy) for x in after.tensors.values()
              if x.kind == "memory" and x.dtype.kind == "float" and x.uid not in after.producer}
    want = graphs.run(graph, values, get("numpy"))
    for device in ("numpy", "ptx:sm_80", "ptx:sm_90"):
        for uid, found in graphs.run(after, values, get(device)).items():
            assert np.abs(found - want[uid]).max() <= 4e-3 * np.abs(want[uid]).max(), device
