"""Attention's gradients on tensor cores from sm_80 on, on the interpreter and a GPU: random problems, batches
that begin anywhere, and where it is chosen."""
from __future__ import annotations

import random

import numpy as np
import pytest

from cydnn import plan
from cydnn.bench import graph_of
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.graph import Graph, Node, Tensor
from cydnn.heuristics import Wish, best
from cydnn.layout import Layout
from cydnn.ops import Problem, SdpaBwd
from cydnn.tensor import TensorDesc
from support.check import hopper, matrix
from support.draw.alone import match
from support.draw.attention import band, length, lengths, strided, worded
from test_sdpa_bwd_wgmma import LARGE

ENGINE, H200 = BY_INDEX[432], KNOWN["h200"]
SCORES = ("add(s,e0)", "mul(s,#0.1);tanh_fwd(n0);mul(n1,#10.0)", "sub(col,row);mul(n0,#-0.01);add(s,n1)",
          "add(s,e0);add(n0,e1)", "cmp_gt(col,row);binary_select(#-inf,s,n0)")


def drawn(rng, most=(40, 130, 200)) -> Problem:
    kind, b = rng.choice(["f16", "bf16"]), rng.choice([1, 1, 2, 3])
    h_k, h_v, of = (rng.choice(n) for n in ((1, 1, 2), (1, 1, 2), (1, 1, 2, 3)))
    h_v = h_k if rng.random() < 0.6 else h_v
    s_q, s_kv, h = length(rng, most), length(rng, most), of * (h_k if h_k == h_v else 2)
    d_qk, d_v = rng.choice([8, 40, 64, 72, 128, 200, 256]), rng.choice([8, 64, 64, 104, 128, 256])
    dims = dict(q=(b, h, s_q, d_qk), k=(b, h_k, d_qk, s_kv), v=(b, h_v, s_kv, d_v), o=(b, h, s_q, d_v))
    dims |= dict(do=dims["o"], dq=dims["q"], dk=dims["k"], dv=dims["v"])
    text = {name: strided(rng, kind, d, 2 if "k" in name else 3) for name, d in dims.items()}
    text |= dict(stats=f"{b}x{h}x{s_q}x1:f32")
    text |= band(rng, 0.5)
    text |= lengths(rng, b)
    text |= dict(drop=rng.choice([0.1, 0.5])) if rng.random() < 0.4 else {}
    text |= dict.fromkeys(("sink", "dsink"), f"1x{h}x1x1:f32") if rng.random() < 0.2 else {}
    return worded("sdpa_bwd", text | scored(rng, kind, (b, h, s_q, s_kv)))


def scored(rng, kind, space) -> dict:
    """Rows that change scores and factors, what they read, and its gradient."""
    score, keep = (rng.choice(made) if rng.random() < 0.4 else "" for made in (SCORES, ("mul(e0,#0.5)",)))
    some = lambda: "x".join(str(rng.choice([1, n])) for n in space)
    count = max(1 + ("e1" in score) if "e0" in score else 0, bool(keep))
    found = {name: rows for name, rows in dict(score=score, keep=keep).items() if rows}
    extra = lambda: f"{some()}:{rng.choice(['f32', kind])}"
    found |= dict(extras="+".join(extra() for _ in range(count))) if count else {}
    return found | (dict(dbias=f"{some()}:f32", dbias_of=0) if "e0" in score and rng.random() < 0.5 else {})


@pytest.mark.parametrize("seed", range(8))
def test_random_problems(seed):
    hopper.check_drawn(ENGINE, drawn, seed)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(40))
def test_random_problems_on_a_gpu(seed, gpu):
    rng = random.Random(seed)
    for _ in range(10):
        problem = drawn(rng, (200, 400, 700))
        if ENGINE.accepts(match(problem), H200):
            found = matrix.run(problem, gpu, seed, [ENGINE], scalars=dict(problem.op.scalars))
            assert found.ran and not found.findings, (str(problem), found)


def test_most_draws_are_taken():
    rng = random.Random(0)
    assert sum(ENGINE.accepts(match(drawn(rng)), H200) for _ in range(100)) >= 70


# ---- Batches that lie behind each other ----

def ragged(lengths, start, more, device, engine):
    """Gradients of batches that lie behind each other, from element ``start`` on; 7 where nothing is."""
    (n_q, n_kv), b, rng = lengths, len(lengths[0]), np.random.default_rng(5)
    wide, flat, tensors = np.int64 if start else np.int32, {}, []
    rows = dict(q=(4, n_q, 40), k=(2, n_kv, 40), v=(1, n_kv, 24), o=(4, n_q, 24), do=(4, n_q, 24),
                stats=(4, n_q, 1))
    rows |= {f"d{name}": rows[name] for name in "qkv"}
    for i, (name, (h, n, d)) in enumerate(rows.items()):
        kind, most = "f32" if name == "stats" else "f16", max(n)
        at = start + np.concatenate([[0], np.cumsum(n)]) * h * d
        turn = [0, 1, 3, 2] if name in ("k", "dk") else [0, 1, 2, 3]
        desc = TensorDesc(kind, *(tuple(np.array(x)[turn].tolist()) for x in (
            (b, h, most, d), (most * h * d, d, h * d, 1))))
        flat[i] = np.full(at[-1] + 9, 7, kind.replace("f", "float"))
        flat[20 + i] = at.astype(wide).reshape(-1, 1)
        if name in ("q", "k", "v", "o", "do", "stats"):
            flat[i][:] = 0.4 * rng.normal(size=flat[i].shape) + 3 * (name == "stats")
        tensors += [Tensor(i, desc, ragged=20 + i, name=name),
                    Tensor(20 + i, TensorDesc.packed("i64" if start else "i32", (b + 1, 1)))]
    for uid, n in ((40, n_q), (41, n_kv)):
        flat[uid] = np.array(n, np.int32).reshape(-1, 1, 1, 1)
        tensors.append(Tensor(uid, TensorDesc.packed("i32", (b, 1, 1, 1))))
    names = dict(zip(rows, range(len(rows))), len_q=40, len_kv=41)
    built = plan.build(Graph([Node(SdpaBwd(**more), names)], tensors), get(device), Wish(engines=(engine,)))
    built.execute([flat[t.uid] for t in built.slots], get(device).alloc(max(built.workspace_bytes, 1)))
    return [flat[names[name]] for name in ("dq", "dk", "dv")]


@pytest.mark.parametrize("start", [0, 8, 5])
def test_batches_that_begin_anywhere(start):
    lengths, more = ((13, 0, 1, 80), (70, 9, 0, 129)), dict(right=0, diagonal="bottom_right", drop=0.25)
    want, got = (ragged(lengths, start, more, *where) for where in (("numpy", 0), ("ptx:sm_80", 432)))
    for found, one in zip(got, want):
        np.testing.assert_allclose(found, one, atol=0.03, rtol=0.01)


# ---- Where it is chosen ----

@pytest.mark.parametrize("device, more", [
    ("h200", "drop=0.1"), ("h200", "extras=1x1x1x4096:f32 score=add(s,e0)"), ("a100", ""),
    ("a100", "right=0")])
def test_it_is_chosen_and_keeps_two_numbers_a_query(device, more):
    text = LARGE.format(h=32, d=128, each=4096 * 128, all=8 * 4096 * 128, more=more)
    found = best(graph_of(Problem.parse(text)), KNOWN[device])
    assert found.text.startswith("part 0: 432")
    assert Layout(found).workspace_bytes <= 8 * 4 * 32 * 4096 + 512
