"""Attention of any types: what is spliced where, that the PTX device and a GPU compute what the op means,
what no query sees, where it is chosen."""
from __future__ import annotations


import numpy as np
import pytest

from cydnn import kernels, plan
from cydnn.bench import graph_of
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.fusion import splice
from cydnn.graph import FromTensor, Graph, Match, Node, Tensor
from cydnn.heuristics import Wish, best, candidates
from cydnn.ops import Pointwise, Problem, Sdpa
from cydnn.tensor import TensorDesc
from support.draw import graphs
from support.check import matrix

ENGINE, H200 = BY_INDEX[420], KNOWN["h200"]
SCORES = ("mul(s,#0.5);add(n0,e0);exp(e1);sub(col,row);mul(n2,n3);add(n1,n4);"     # scale, bias, ALiBi
          "div(n5,#20.0);tanh_fwd(n6);mul(n7,#20.0)")                                # a cap
EVERY = (f"sdpa q=2x6x37x24:f16 k=2x2x24x70:f16 v=2x3x70x40:f16 extras=1x6x37x70:f16+1x6x1x1:f32 "
         f"o=2x6x37x40:f16 stats=2x6x37x1:f32 score={SCORES} right=0 diagonal=bottom_right")
SMALL = "sdpa q=1x2x{q}x8:f32 k=1x1x8x{kv}:f32 v=1x2x{kv}x4:f32 stats=1x2x{q}x1:f32 {more}"


def reasons(ragged, **more):
    """Why a graph with ragged tensors is refused; ``more``: operands of attention beside q, k, v and o."""
    dims = dict(q=(2, 1, 3, 8), k=(2, 1, 8, 4), v=(2, 1, 4, 8), o=(2, 1, 3, 8), y=(2, 1, 3, 8)) | more
    tensors = [Tensor(i, TensorDesc.packed("f32", d), ragged=90 if name in ragged else None, name=name,
                      kind="virtual" if name == "o" and "y" in ragged else "memory")
               for i, (name, d) in enumerate(dims.items(), 1)]
    uids = {t.name: t.uid for t in tensors}
    nodes = [Node(Sdpa(), {n: u for n, u in uids.items() if n != "y"})]
    nodes += [Node(Pointwise(mode="neg"), dict(x=uids["o"], y=uids["y"]))] if "y" in ragged else []
    graph = Graph(nodes, [*tensors, Tensor(90, TensorDesc.packed("i32", (3, 1, 1, 1)), name="at")])
    return ENGINE.reasons(Match.around(graph, 0, (1 << len(nodes)) - 1), H200)


def test_what_may_be_ragged():
    assert not reasons("q k v o".split())
    assert reasons(["score_max"], score_max=(2, 1, 3, 1)) == ("score_max must not be ragged; got offsets at",)
    assert reasons(["q", "y"]) == ("ragged tensors must have no operations beside them; got q",)


def launched(line, facts=H200):
    return ENGINE.plan(Match.single(graph_of(Problem.parse(line))), facts, ENGINE.best(None, facts))[0]


def test_what_the_scores_of_a_row_share_is_kept():
    fuse = launched(EVERY).fuse
    assert [str(s) for s in fuse["row"].program.steps] == ["exp(t0)"]
    assert fuse["row"].program.kept == (("n0", "h0"),) and len(fuse["row"].pointers) == 1
    assert str(fuse["score"].program).splitlines()[:5] == [
        "n0 = mul(v, s0)", "n1 = mul(n0, s1)", "n2 = add(n1, t0)", "n3 = sub(@col, @row)", "n4 = mul(h0, n3)"]


@pytest.mark.parametrize("target", [75, 80, 90])
def test_each_row_of_a_thread_has_registers_of_its_own(target):
    step = launched(EVERY)
    kernel = kernels.get(step.kernel)
    text = splice(kernel.image_for(target).text(), kernel, step.fuse).decode()
    assert not any(f"@fuse.{mark} " in text for mark in step.fuse)
    assert all(text.count(f".reg .f32 %h0_{slot};") == 1 for slot in range(4)) and "%h0_4" not in text


LINES = [EVERY, *(SMALL.format(q=q, kv=kv, more=more) for q, kv, more in (
    (5, 90, "left=1 right=0"), (70, 33, "right=0 diagonal=bottom_right"), (33, 0, ""),
    (40, 3, "empty=nan right=0 diagonal=bottom_right"), (1, 65, "score=binary_select(#-inf,s,#1.0)")))]


def wrong(device, line, seed) -> list:
    return matrix.run(Problem.parse(line), device, seed, [ENGINE]).findings


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("line", LINES)
def test_on_the_interpreter(line, target):
    assert not wrong(get(f"ptx:{target}"), line, 1)


@pytest.mark.gpu
@pytest.mark.parametrize("line", LINES)
def test_on_a_gpu(line, gpu):
    assert not [text for seed in range(4) for text in wrong(gpu, line, seed)]


def run(line, values, device="ptx:sm_80", **scalars):
    """{operand: values} of a problem's outputs."""
    graph = graph_of(Problem.parse(line), scalars)
    built = plan.build(graph, get(device), Wish(engines=(420,)))
    names = {t.name: uid for uid, t in graph.tensors.items()}
    found = graphs.execute(built, {names[n]: v for n, v in values.items()})
    return {n: found[uid] for n, uid in names.items() if uid in found}


@pytest.mark.parametrize("kv", [3, 64])
def test_what_no_query_sees_reaches_nothing(kv):
    """NaN in keys and values beyond a length, or outside the band of a query."""
    line = SMALL.format(q=4, kv=kv + 9, more="len_kv=1x1x1x1:i32 right=0 diagonal=bottom_right")
    rng = np.random.default_rng(1)
    values = dict(q=rng.normal(size=(1, 2, 4, 8)), k=rng.normal(size=(1, 1, 8, kv + 9)),
                  v=rng.normal(size=(1, 2, kv + 9, 4)), len_kv=np.full((1, 1, 1, 1), kv))
    values["k"][..., kv:], values["v"][:, :, kv:] = np.nan, np.nan
    values["v"][:, :, kv - 1] = np.inf           # of the last query alone
    got = run(line, values)
    assert np.isfinite(got["o"][:, :, :-1]).all() and np.isinf(got["o"][:, :, -1]).all()
    assert np.isfinite(got["stats"][:, :, max(4 - kv, 0):]).all()


@pytest.mark.parametrize("length, want", [(-7, 0), (1000, 5)])
def test_lengths_are_cut_to_what_there_is(length, want):
    line = SMALL.format(q=5, kv=5, more="len_q=1x1x1x1:i32 len_kv=1x1x1x1:i32")
    values = dict(q=np.ones((1, 2, 5, 8)), k=np.ones((1, 1, 8, 5)), v=np.ones((1, 2, 5, 4)),
                  **{n: np.full((1, 1, 1, 1), length) for n in ("len_q", "len_kv")})
    got = run(line, values)
    assert got["o"].sum() == want * 8 and np.isfinite(got["stats"]).sum() == want * 2


def test_the_scale_may_lie_in_memory():
    dims = dict(q=(1, 2, 5, 8), k=(1, 2, 8, 6), v=(1, 2, 6, 4), o=(1, 2, 5, 4))
    tensors = [Tensor(i, TensorDesc.packed("f32", d)) for i, d in enumerate(dims.values(), 1)]
    graph = Graph([Node(Sdpa(), dict(q=1, k=2, v=3, o=4), dict(scale=FromTensor(5)))],
                  [*tensors, Tensor(5, TensorDesc.packed("f16", (1,)))])
    rng = np.random.default_rng(2)
    values = {uid: rng.normal(size=tensor.dims) for uid, tensor in graph.tensors.items() if uid < 4}
    values[5] = np.array([0.25])
    want, got = (graphs.execute(plan.build(graph, get(device), Wish(engines=(index,))), values)[4]
                 for device, index in (("numpy", 0), ("ptx:sm_80", 420)))
    np.testing.assert_allclose(got, want, atol=1e-6)


# ---- Where it is chosen ----

LARGE = "sdpa 4x32x4096x128 4x32x128x4096 4x32x4096x128 f16"


@pytest.mark.parametrize("line, wish, want", [
    ("sdpa 2x4x64x64 2x4x64x64 2x4x64x64 f16", {}, True), (LARGE, {}, False),
    (LARGE, dict(workspace_bytes=0), True), (LARGE, dict(engines=(420,)), True),
    (LARGE.replace("4x32x128x4096", "4x8x128x4096"), {}, False)])
def test_it_is_compared_with_what_attention_is_made_of(line, wish, want):
    """It needs no workspace."""
    graph = graph_of(Problem.parse(line))
    choice = best(graph, H200, Wish(**wish))
    assert (choice.text == "part 0: 420") == want and choice.text.startswith("lower 0") != want
    assert "part 0: 420" in [c.text for c in candidates(graph, H200, Wish(**wish))]


def test_each_attention_of_a_graph_is_what_is_cheaper():
    def node(first, b, s):
        dims = dict(q=(b, 8, s, 64), k=(b, 8, 64, s), v=(b, 8, s, 64), o=(b, 8, s, 64))
        return Node(Sdpa(), {n: first + i for i, n in enumerate(dims)}), [
            Tensor(first + i, TensorDesc.packed("f16", d)) for i, d in enumerate(dims.values())]
    (small, a), (large, b) = node(1, 1, 32), node(11, 4, 2048)
    choice = best(Graph([small, large], [*a, *b]), H200)
    assert choice.text.splitlines()[0] == "lower 1" and "part 0: 420" in choice.text
