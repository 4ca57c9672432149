"""Composed operations are recognised in the nodes that a user draws: spellings, absent operands, values that
leave, results of another type; and are right as what they become."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn import plan as plans
from cydnn.device import get
from cydnn.dtypes import BY_NAME
from cydnn.graph import Graph, Node, Tensor
from cydnn.graph.rules import composed, recognised
from cydnn.ops import Matmul, NormFwd, Pointwise, Reduction, SoftmaxFwd
from cydnn.steps import Scalar
from cydnn.tensor import TensorDesc

DEVICES = ("numpy", "ptx:sm_80", "ptx:sm_90")


class Drawing:
    """A graph as a user draws it: f32 values in between, what is kept is an output."""

    def __init__(self):
        self.tensors, self.nodes, self.uids = {}, [], {}

    def tensor(self, name, dims, dtype="f32", kind="memory", scalar=None) -> str:
        uid = self.uids[name] = len(self.uids) + 1
        self.tensors[uid] = Tensor(uid, TensorDesc.packed(dtype, dims), kind=kind, scalar=scalar, name=name)
        return name

    def constant(self, value, rank) -> str:
        scalar = Scalar(("constant", value), value)
        return self.tensor(f"c{len(self.uids)}", (1,) * rank, "f64", "value", scalar)

    def node(self, name, op, dims, dtype, kept, **operands) -> str:
        self.tensor(name, dims, dtype, "memory" if kept else "virtual")
        uids = {o: self.uids[n] for o, n in (operands | dict(y=name)).items()}
        self.nodes.append(Node(op, uids, {}, name))
        return name

    def point(self, name, mode, *reads, dtype="f32", kept=False):
        dims = tuple(max(d) for d in zip(*(self.tensors[self.uids[r]].dims for r in reads)))
        return self.node(name, Pointwise(mode=mode), dims, dtype, kept, **dict(zip(("x", "b", "t"), reads)))

    def fold(self, name, mode, x, axes, kept=False):
        dims = tuple(1 if i in axes else d for i, d in enumerate(self.tensors[self.uids[x]].dims))
        return self.node(name, Reduction(mode=mode), dims, "f32", kept, x=x)

    def graph(self) -> Graph:
        return Graph(self.nodes, self.tensors)


def layer_norm(dims=(6, 40), axes=(1,), dtype="f16", bias=True, scale=True, kept=(), square="mul",
               root="rsqrt", mean="avg", rms=False, twice=False):
    """A layer norm, or an RMS norm, drawn in one of its spellings."""
    d, rank = Drawing(), len(dims)
    d.tensor("x", dims, dtype), d.tensor("epsilon", (1,) * rank, "f32", "value", Scalar("epsilon", 1e-3))
    d.tensors[2] = d.tensors[2].replace(scalar=Scalar(2, 1e-3))
    row = tuple(n if i in axes else 1 for i, n in enumerate(dims))

    def average(name, of):
        if mean == "avg":
            return d.fold(name, "avg", of, axes, name in kept)
        return d.point(name, "mul", d.fold(f"{name}_sum", "add", of, axes),
                       d.constant(1.0 / np.prod([dims[a] for a in axes]), rank), kept=name in kept)
    apart = "x" if rms else d.point("apart", "sub", "x", average("mean", "x"))
    power = d.point("power", "mul", apart, apart) if square == "mul" else d.point(
        "power", "pow", apart, d.constant(2.0, rank))
    least = d.point("least", "add", average("variance", power), "epsilon")
    again = d.point("again", "sub", "x", "mean") if twice else apart
    last = "normal"
    dtypes = dict.fromkeys(("normal", "scaled", "y"), "f32")
    final = "y" if bias else "scaled" if scale else "normal"
    dtypes[final] = dtype
    if root == "div":
        deviation = d.point("deviation", "sqrt", least)
        d.point("normal", "div", again, deviation, dtype=dtypes["normal"], kept=final == "normal")
    else:
        rstd = d.point("rstd", "rsqrt", least, kept="rstd" in kept) if root == "rsqrt" else d.point(
            "rstd", "reciprocal", d.point("deviation", "sqrt", least), kept="rstd" in kept)
        d.point("normal", "mul", rstd, again, dtype=dtypes["normal"], kept=final == "normal")
    if scale:
        last = d.point("scaled", "mul", last, d.tensor("scale", row), dtype=dtypes["scaled"],
                       kept=final == "scaled")
    if bias:
        d.point("y", "add", last, d.tensor("bias", row), dtype=dtypes["y"], kept=True)
    return d, final


def softmax(dims=(5, 33), kept=(), log=False, dtype="f16", stats=False):
    d, axes = Drawing(), (len(dims) - 1,)
    d.tensor("x", dims, dtype)
    d.fold("top", "max", "x", axes, "top" in kept)
    d.point("shifted", "sub", "x", "top")
    d.point("raised", "exp", "shifted")
    d.fold("total", "add", "raised", axes, "total" in kept)
    if log or stats:
        d.point("size", "log", "total")
    last = ("sub", "shifted", "size") if log else ("div", "raised", "total")
    d.point("y", *last, dtype=dtype, kept=True)
    if stats:
        d.point("stats", "add", "top", "size", kept=True)
    return d, "y"


def run(graph, name, seed=0) -> dict:
    """{name: array} of all that is written, from random numbers."""
    random, device, arrays = np.random.default_rng(seed), get(name), {}
    plan = plans.build(graph, device)
    for t in plan.slots:
        values = random.normal(size=t.dims) if t.uid not in graph.producer else np.full(t.dims, np.nan)
        arrays[t.name] = values.astype(BY_NAME[t.dtype.name].numpy)
    plan.execute(list(arrays.values()), np.zeros(plan.workspace_bytes + 1, np.uint8))
    return {graph.tensors[u].name: arrays[graph.tensors[u].name] for u in graph.producer
            if not graph.tensors[u].is_virtual}


def check(drawing, op, operands):
    """The one composed op that is recognised, and that its graph gives what the nodes give on all devices."""
    graph = drawing.graph()
    (last, node, _), = recognised(graph)
    assert node.op == op and {o: graph.tensors[u].name for o, u in node.operands.items()} == operands
    after = composed(graph, last)
    assert len(after.nodes) == 1
    want = run(graph, "numpy")
    for device in DEVICES:
        for name, found in run(after, device).items():
            room = 2 ** -9 if found.dtype == np.float16 else 1e-4
            assert np.abs(found.astype("d") - want[name]).max() <= room * (1 + np.abs(want[name]).max())


SPELLINGS = [dict(square=s, root=r, mean=m) for s in ("mul", "pow") for r in ("rsqrt", "reciprocal", "div")
             for m in ("avg", "add")]


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda s: "-".join(s.values()))
def test_spellings_of_a_layer_norm(spelling):
    d, y = layer_norm(**spelling)
    check(d, NormFwd(mode="layer"), dict(x="x", scale="scale", bias="bias", y=y))


@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("bias, scale", [(True, True), (False, True), (False, False)])
def test_absent_operands(bias, scale, rms):
    d, y = layer_norm(bias=bias, scale=scale, rms=rms)
    given = {n: n for n, is_there in (("scale", scale), ("bias", bias)) if is_there}
    check(d, NormFwd(mode="rms" if rms else "layer"), dict(x="x", **given, y=y))


@pytest.mark.parametrize("kept", [("mean",), ("rstd",), ("mean", "rstd")])
@pytest.mark.parametrize("dtype, twice", [("f16", False), ("f32", True)])
def test_statistics_that_are_kept(kept, dtype, twice):
    d, y = layer_norm(dims=(3, 4, 5, 6), axes=(1, 2, 3), kept=kept, dtype=dtype, twice=twice)
    check(d, NormFwd(mode="layer"), dict(x="x", scale="scale", bias="bias", y=y, **{n: n for n in kept}))


def test_an_instance_norm():
    d, y = layer_norm(dims=(2, 3, 4, 5), axes=(2, 3), scale=False, bias=False)
    check(d, NormFwd(mode="layer", axis=2), dict(x="x", y=y))


@pytest.mark.parametrize("kept", [(), ("top",), ("top", "total")])
@pytest.mark.parametrize("log, stats", [(False, False), (False, True), (True, False), (True, True)])
def test_softmax_with_statistics(kept, log, stats):
    d, y = softmax((3, 5, 33), kept, log, stats=stats)
    found = dict(x="x", y=y, **{n: n for n in kept}, **(dict(stats="stats") if stats else {}))
    check(d, SoftmaxFwd(algorithm="log" if log else "accurate", axis=2), found)


def test_values_that_leave_and_are_no_statistics():
    for name in ("apart", "power"):
        d, _ = layer_norm()
        d.tensors[d.uids[name]] = d.tensors[d.uids[name]].replace(kind="memory")
        assert not list(recognised(d.graph()))
    d, _ = softmax()
    d.tensors[d.uids["raised"]] = d.tensors[d.uids["raised"]].replace(kind="memory")
    assert not list(recognised(d.graph()))


def test_what_is_something_else():
    """Another epsilon's place, a sum over other dims, a value in between of 16 bits."""
    d, _ = layer_norm()
    d.tensors[d.uids["apart"]] = d.tensors[d.uids["apart"]].replace(dtype="f16")
    assert not list(recognised(d.graph()))
    d, _ = softmax()
    d.nodes[0] = Node(Reduction(mode="min"), dict(d.nodes[0].operands), {}, "top")
    assert not list(recognised(d.graph()))


def test_a_bias_that_is_made_of_the_mean():
    """It waits for the norm, so it is no part of it: the norm ends before."""
    d, _ = layer_norm(bias=False, scale=False, dtype="f32")
    normal = d.uids["normal"]
    d.tensors[normal] = d.tensors[normal].replace(kind="virtual")
    d.point("made", "mul", "mean", d.tensor("factor", (1, 40)))
    d.point("y", "add", "normal", "made", kept=True)
    (last, node, _), = recognised(d.graph())
    assert d.graph().nodes[last].name == "normal" and node.operands["mean"] == d.uids["mean"]
    assert composed(d.graph(), last) is not None


def test_among_others():
    """Two norms and a softmax behind a product: each is found; only those that are asked for."""
    d, y = layer_norm(bias=False, dims=(1, 6, 40), axes=(2,))
    d.node("product", Matmul(), (1, 6, 7), "f32", False, a=y, b=d.tensor("w", (1, 40, 7), "f16"))
    d.nodes[-1] = Node(Matmul(), dict(a=d.uids[y], b=d.uids["w"], c=d.uids["product"]), {}, "product")
    d.fold("top", "max", "product", (2,))
    d.point("shifted", "sub", "product", "top")
    d.point("raised", "exp", "shifted")
    d.fold("total", "add", "raised", (2,))
    d.point("out", "div", "raised", "total", kept=True)
    graph = d.graph()
    assert [type(node.op) for _, node, _ in recognised(graph)] == [NormFwd, SoftmaxFwd]
    assert [type(node.op) for _, node, _ in recognised(graph, (SoftmaxFwd,))] == [SoftmaxFwd]
