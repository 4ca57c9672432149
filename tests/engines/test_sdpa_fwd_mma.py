"""Attention on tensor cores from sm_80 on, on the interpreter and a GPU: random problems, keys in parts and
in pages, lengths that change, what no query sees, and where it is chosen."""
from __future__ import annotations

import random

import numpy as np
import pytest

from cydnn import plan
from cydnn.bench import graph_of
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.engines.engine import Config
from cydnn.graph import Graph, Match, Node, Tensor
from cydnn.heuristics import Wish, best
from cydnn.ops import Problem, Sdpa
from cydnn.tensor import TensorDesc
from support.draw import graphs
from support.check import hopper, matrix
from support.draw.alone import match
from support.draw.attention import SCORES, band, lengths, strided, worded

ENGINE, H200 = BY_INDEX[422], KNOWN["h200"]


def drawn(rng, most=(3, 40, 200)) -> Problem:
    """Few queries of many keys, or some of each; keys in pages now and then."""
    kind, b = rng.choice(["f16", "bf16"]), rng.choice([1, 1, 2, 3])
    h_k, h_v, of_k, of_v = (rng.choice(n) for n in ((1, 1, 2), (1, 1, 2), (1, 1, 4), (1, 2)))
    h = h_k * of_k * h_v * of_v
    s_q = rng.choice([1, 1, rng.randint(1, most[0]), rng.randint(1, most[1])])
    s_kv = rng.choice([1, rng.randint(1, most[1]), rng.randint(60, most[2]), most[2]])
    d_qk, d_v = rng.choice([8, 40, 64, 72, 128, 160, 256]), rng.choice([8, 64, 64, 104, 128, 256])
    text = dict(q=strided(rng, kind, (b, h, s_q, d_qk), (3,)), o=strided(rng, kind, (b, h, s_q, d_v), (3,)))
    if rng.random() < 0.5:
        blocks, pages = [rng.choice([1, 2, 3, 16, 64]) for _ in "kv"], [rng.randint(1, 7) for _ in "kv"]
        text |= dict(k=strided(rng, kind, (pages[0], h_k, d_qk, blocks[0]), (2,)),
                     v=strided(rng, kind, (pages[1], h_v, blocks[1], d_v), (3,)), max_kv=s_kv)
        text |= {f"table_{n}": f"{b}x1x{-(-s_kv // block) + 1}x1:i32" for n, block in zip("kv", blocks)}
    else:
        text |= dict(k=strided(rng, kind, (b, h_k, d_qk, s_kv), (2,)),
                     v=strided(rng, kind, (b, h_v, s_kv, d_v), (3,)))
    text |= dict(stats=f"{b}x{h}x{s_q}x1:f32") if rng.random() < 0.7 else {}
    text |= lengths(rng, b)
    text |= band(rng, 0.5, 0.6)
    score = rng.choice(SCORES) if rng.random() < 0.4 else ""
    size = lambda: "x".join(str(rng.choice([1, n])) for n in (b, h, s_q, s_kv))
    extra = lambda: f"{size()}:{rng.choice(['f32', kind])}"
    count = 1 + ("e1" in score) if "e0" in score else 0
    text |= dict(score=score) if score else {}
    text |= dict(extras="+".join(extra() for _ in range(count))) if count else {}
    text |= dict(sink=f"1x{h}x1x1:f32") if rng.random() < 0.3 else {}
    text |= dict(drop=rng.choice([0.1, 0.5])) if rng.random() < 0.3 else {}
    text |= dict(empty="nan") if "stats" not in text and rng.random() < 0.2 else {}
    return worded("sdpa", text)


@pytest.mark.parametrize("seed", range(8))
def test_random_problems(seed):
    hopper.check_drawn(ENGINE, drawn, seed)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(32))
def test_random_problems_on_a_gpu(seed, gpu):
    rng = random.Random(seed)
    for _ in range(10):
        problem = drawn(rng, (9, 150, 1500))
        for config in ENGINE.configs(match(problem), H200) if ENGINE.accepts(match(problem), H200) else ():
            found = matrix.run(problem, gpu, seed, [ENGINE], config=config)
            assert found.ran and not found.findings, (str(problem), str(config), found)


def test_most_draws_are_taken():
    rng = random.Random(0)
    assert sum(ENGINE.accepts(match(drawn(rng)), H200) for _ in range(100)) >= 70


# ---- Batches that lie behind each other ----

def ragged(lengths, start, more, device, engine, config=None):
    """o and stats of batches that lie behind each other, from element ``start`` on; 7 where nothing is."""
    (n_q, n_kv), b, rng = lengths, len(lengths[0]), np.random.default_rng(5)
    s_q, s_kv, wide, flat, tensors = max(n_q), max(n_kv), np.int64 if start else np.int32, {}, []
    for i, (name, h, n, d) in enumerate((("q", 4, n_q, 40), ("k", 2, n_kv, 40), ("v", 1, n_kv, 24),
                                         ("o", 4, n_q, 24), ("stats", 4, n_q, 1))):
        kind, rows = "f32" if name == "stats" else "f16", max(n)
        at = start + np.concatenate([[0], np.cumsum(n)]) * h * d
        turn = (0, 1, 3, 2) if name == "k" else (0, 1, 2, 3)
        desc = TensorDesc(kind, *(tuple(np.array(x)[list(turn)].tolist()) for x in (
            (b, h, rows, d), (rows * h * d, d, h * d, 1))))
        flat[i] = np.full(at[-1] + 9, 7, kind.replace("f", "float"))
        flat[10 + i] = at.astype(wide).reshape(-1, 1)
        if name in "qkv":
            flat[i][:] = rng.normal(size=flat[i].shape)
        tensors += [Tensor(i, desc, ragged=10 + i, name=name),
                    Tensor(10 + i, TensorDesc.packed("i64" if start else "i32", (b + 1, 1)))]
    for uid, n in ((20, n_q), (21, n_kv)):
        flat[uid] = np.array(n, np.int32).reshape(-1, 1, 1, 1)
        tensors.append(Tensor(uid, TensorDesc.packed("i32", (b, 1, 1, 1))))
    graph = Graph([Node(Sdpa(**more), dict(q=0, k=1, v=2, o=3, stats=4, len_q=20, len_kv=21))], tensors)
    built = plan.build(graph, get(device), Wish(engines=(engine,), config=config))
    built.execute([flat[t.uid] for t in built.slots], get(device).alloc(max(built.workspace_bytes, 1)))
    return flat[3], flat[4]


@pytest.mark.parametrize("start", [0, 8, 5])
@pytest.mark.parametrize("tile, splits", [(16, 1), (16, 2), (64, 2)])
def test_batches_that_begin_anywhere(start, tile, splits):
    lengths = ((13, 0, 1, 8), (70, 9, 0, 129))
    more = dict(right=0, diagonal="bottom_right")
    (want, sums), (o, stats) = (ragged(lengths, start, more, *where) for where in (
        ("numpy", 0), ("ptx:sm_80", 422, Config(tile=tile, splits=splits))))
    np.testing.assert_allclose(o, want, atol=2e-3)
    np.testing.assert_allclose(stats, sums, atol=1e-4)


def test_pages_are_not_ragged():
    dims = dict(q=(2, 1, 3, 8), k=(2, 1, 8, 4), v=(2, 1, 4, 8), table_k=(2, 1, 2, 1), table_v=(2, 1, 2, 1),
                o=(2, 1, 3, 8))
    tensors = [Tensor(i, TensorDesc("i32" if "table" in name else "f16", d, (32, 32, 1, 8) if name == "k" else
                                    TensorDesc.packed("f16", d).strides), ragged=90 if name == "v" else None)
               for i, (name, d) in enumerate(dims.items(), 1)]
    graph = Graph([Node(Sdpa(), dict(zip(dims, range(1, 7))))],
                  [*tensors, Tensor(90, TensorDesc.packed("i32", (3, 1, 1, 1)))])
    assert ENGINE.reasons(Match.single(graph), H200) == (
        "v must not be ragged where keys lie in pages; got offsets of v",)


# ---- Values ----

SMALL = ("sdpa q=2x4x{q}x64:bf16 k=2x1x64x200:bf16@12800,12800,1,64 v=2x1x200x64:bf16 o=2x4x{q}x64:bf16 "
         "stats=2x4x{q}x1:f32 len_kv=2x1x1x1:i32")


def inputs(q=1):
    rng = np.random.default_rng(3)
    return dict(q=rng.normal(size=(2, 4, q, 64)), k=rng.normal(size=(2, 1, 64, 200)),
                v=rng.normal(size=(2, 1, 200, 64)))


def built(text, device="ptx:sm_90", engine=422, config="tile=16 splits=2", **scalars):
    """What computes a problem: f(values) -> outputs, by the names of operands."""
    graph = graph_of(Problem.parse(text), scalars)
    wish = Wish(engines=(engine,), config=Config.parse(config, ENGINE.knobs) if engine else None)
    made, names = plan.build(graph, get(device), wish), {t.name: uid for uid, t in graph.tensors.items()}

    def call(values):
        found = graphs.execute(made, {names[n]: v for n, v in values.items()})
        return {n: found[uid] for n, uid in names.items() if uid in found}
    return call


@pytest.mark.parametrize("device", ["ptx:sm_80", "ptx:sm_90"])
@pytest.mark.parametrize("q", [1, 20])
def test_one_plan_serves_all_lengths(q, device):
    """NaN beyond them reaches nothing."""
    config = "tile=16 splits=4" if q == 1 else "tile=64 splits=2"
    text, values = SMALL.format(q=q), inputs(q)
    call, want = built(text, device, config=config), built(text, "numpy", 0)
    for lengths in ((200, 200), (0, 7), (64, 129), (-3, 999)):
        mine = {n: v.copy() for n, v in values.items()} | dict(len_kv=np.reshape(lengths, (2, 1, 1, 1)))
        for b, length in enumerate(lengths):
            mine["k"][b, ..., max(length, 0):], mine["v"][b, :, max(length, 0):] = np.nan, np.nan
        got, there = call(mine), want(values | dict(len_kv=mine["len_kv"]))
        np.testing.assert_allclose(got["o"], there["o"], atol=0.02)
        np.testing.assert_allclose(got["stats"], there["stats"], atol=1e-3)


@pytest.mark.parametrize("kind, scale", [("f16", 3.0), ("bf16", 3.0), ("f16", -0.7), ("bf16", 0.0)])
def test_scores_far_apart_and_scales_of_any_sign(kind, scale):
    text = SMALL.replace("bf16", kind).format(q=2)
    values = inputs(2) | dict(len_kv=np.full((2, 1, 1, 1), 190))
    got, want = (built(text, *where, scale=scale)(values) for where in ((), ("numpy", 0)))
    np.testing.assert_allclose(got["o"], want["o"], atol=0.04, rtol=0.02)
    np.testing.assert_allclose(got["stats"], want["stats"], atol=1e-3, rtol=1e-5)


def test_pages_that_there_are_not_hold_nothing():
    """Numbers outside the container; beyond a length no page is looked up, and its elements reach nothing."""
    text = ("sdpa q=1x2x1x64:f16 k=6x1x64x16:f16@1024,1024,1,64 v=6x1x16x64:f16 table_k=1x1x5x1:i32 "
            "table_v=1x1x5x1:i32 o=1x2x1x64:f16 len_kv=1x1x1x1:i32")
    rng = np.random.default_rng(4)
    values = dict(q=rng.normal(size=(1, 2, 1, 64)), k=rng.normal(size=(6, 1, 64, 16)),
                  v=rng.normal(size=(6, 1, 16, 64)), len_kv=np.full((1, 1, 1, 1), 60))
    for name in ("table_k", "table_v"):
        values[name] = np.reshape([5, -1, 2**31 - 1, 2, 77], (1, 1, 5, 1))
    want = built(text, "numpy", 0)(values)["o"]
    values["k"][2, ..., 12:], values["v"][2, :, 12:], values["k"][:2], values["v"][3:5] = (np.nan,) * 4
    np.testing.assert_allclose(built(text, config="tile=16 splits=2")(values)["o"], want, atol=2e-3)


# ---- Where it is chosen, and what it launches ----

DECODE = ("sdpa q={b}x32x1x128:bf16 k={b}x8x128x{kv}:bf16@{all},{each},1,128 v={b}x8x{kv}x128:bf16 "
          "o={b}x32x1x128:bf16 {more}")


def decode(b, kv, more=""):
    return Problem.parse(DECODE.format(b=b, kv=kv, each=128 * kv, all=1024 * kv, more=more))


@pytest.mark.parametrize("card", ["a100", "h200", "b200"])
@pytest.mark.parametrize("b, kv, more", [(64, 4096, ""), (1, 32768, ""), (1, 4096, "len_kv=1x1x1x1:i32")])
def test_decode_is_chosen(b, kv, more, card):
    found = best(graph_of(decode(b, kv, more)), KNOWN[card])
    assert found.text.startswith("part 0: 422") and "tile=16" in found.text


def test_parts_fill_the_device_and_little_workspace():
    for problem, few in ((decode(64, 4096), True), (decode(1, 32768), False)):
        p = match(problem)
        steps, config = ENGINE.plan(p, H200, ENGINE.best(p, H200)), ENGINE.best(p, H200)
        assert (len(steps) == 1) == few == (config.splits == 1)
        assert plan.build(graph_of(problem), get("ptx:sm_90")).workspace_bytes < 1 << 20
