"""Attention's gradients on Hopper's tensor cores, on the interpreter and a GPU: random problems, what no
query sees, scales of any sign, the same bits each time, how much workspace, and where it is chosen."""
from __future__ import annotations

import random

import numpy as np
import pytest

from cydnn import plan
from cydnn.bench import graph_of
from cydnn.device import get
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.heuristics import Wish, best
from cydnn.layout import Layout
from cydnn.ops import Problem
from support.check import hopper, matrix
from support.draw import graphs
from support.draw.alone import match
from support.draw.attention import band, length, lengths, strided, worded

ENGINE, H200 = BY_INDEX[431], KNOWN["h200"]


def drawn(rng, most=(40, 130, 200)) -> Problem:
    kind, b, heads, group = rng.choice(["f16", "bf16"]), *(rng.choice([1, 1, 2, 3]) for _ in range(3))
    s_q, s_kv, h = length(rng, most), length(rng, most), heads * group
    d_qk, d_v = rng.choice([8, 40, 64, 72, 128, 200, 256]), rng.choice([8, 64, 64, 104, 128, 192, 256])
    dims = dict(q=(b, h, s_q, d_qk), k=(b, heads, d_qk, s_kv), v=(b, heads, s_kv, d_v), o=(b, h, s_q, d_v))
    dims |= dict(do=dims["o"], dq=dims["q"], dk=dims["k"], dv=dims["v"])
    text = {name: strided(rng, kind, d, 2 if "k" in name else 3) for name, d in dims.items()}
    text |= dict(stats=f"{b}x{h}x{s_q}x1:f32")
    text |= band(rng)
    text |= lengths(rng, b)
    text |= dict.fromkeys(("sink", "dsink"), f"1x{h}x1x1:f32") if rng.random() < 0.2 else {}
    return worded("sdpa_bwd", text)


@pytest.mark.parametrize("seed", range(8))
def test_random_problems(seed):
    hopper.check_drawn(ENGINE, drawn, seed)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(40))
def test_random_problems_on_a_gpu(seed, gpu):
    rng = random.Random(seed)
    for _ in range(15):
        problem = drawn(rng, (200, 700, 1500))
        if ENGINE.accepts(match(problem), H200):
            found = matrix.run(problem, gpu, seed, [ENGINE], scalars=dict(problem.op.scalars))
            assert found.ran and not found.findings, (str(problem), found)


def test_most_draws_are_taken():
    rng = random.Random(0)
    assert sum(ENGINE.accepts(match(drawn(rng)), H200) for _ in range(100)) >= 70


# ---- Values ----

LINE = ("sdpa_bwd q=1x2x{q}x64:{kind} k=1x1x64x{kv}:{kind}@{all},{all},1,64 v=1x1x{kv}x64:{kind} "
        "o=1x2x{q}x64:{kind} do=1x2x{q}x64:{kind} stats=1x2x{q}x1:f32 {more}")


def line(q, kv, kind="bf16", more=""):
    return LINE.format(q=q, kv=kv, kind=kind, all=64 * kv, more=more)


def values(problem, scale=1.0, seed=3):
    """Drawn, with the statistics and the output that belong to them."""
    gen, op = np.random.default_rng(seed), problem.op
    made = {n: gen.normal(size=problem.operands[n].dims) for n in ("q", "k", "v", "do")}
    scores = op._scores(made["q"], made["k"], None, None, None, scale)[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        stats = np.log(np.exp(scores).sum(3, keepdims=True))
        weights = np.nan_to_num(np.exp(scores - stats))
    return made | dict(o=weights @ np.repeat(made["v"], 2, 1), stats=stats)


def run(problem, given, device="ptx:sm_90", engine=431, scale=1.0):
    graph = graph_of(problem, dict(scale=scale))
    built = plan.build(graph, get(device) if isinstance(device, str) else device, Wish(engines=(engine,)))
    names = {t.name: uid for uid, t in graph.tensors.items()}
    found = graphs.execute(built, {names[n]: v for n, v in given.items()})
    return {n: found[names[n]] for n in ("dq", "dk", "dv")}


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("scale", [0.125, -0.2, 0.0])
def test_scales_of_any_sign(kind, scale):
    problem = Problem.parse(line(70, 150, kind, "right=0 diagonal=bottom_right"))
    given = values(problem, scale)
    want, got = (run(problem, given, *where, scale) for where in (("numpy", 0), ("ptx:sm_90", 431)))
    for name in want:
        np.testing.assert_allclose(got[name], want[name], atol=0.03, rtol=0.02)


def test_queries_without_keys_and_keys_without_queries():
    """More queries than keys: the first see none. More keys than queries: the last are seen by none."""
    problem = Problem.parse(line(150, 70, more="right=0 diagonal=bottom_right"))
    got = run(problem, values(problem))
    assert not got["dq"][:, :, :80].any() and np.abs(got["dq"][:, :, 81:]).max(3).all()
    problem = Problem.parse(line(70, 150, more="right=0"))
    got = run(problem, values(problem))
    assert not got["dk"][..., 70:].any() and not got["dv"][:, :, 70:].any() and got["dv"][:, :, 69].any()


def test_a_query_that_is_no_number_stays_alone():
    problem = Problem.parse(line(70, 150))
    given = values(problem)
    given["stats"][0, 1, 13] = np.nan
    wrong = np.isnan(run(problem, given)["dq"]).any(3)
    assert wrong[0, 1, 13] and wrong.sum() == 1


def test_what_lies_beyond_a_length_reaches_nothing():
    problem = Problem.parse(line(150, 150, more="len_q=1x1x1x1:i32 len_kv=1x1x1x1:i32 right=20"))
    given = values(problem) | dict(len_q=np.full((1, 1, 1, 1), 100), len_kv=np.full((1, 1, 1, 1), 70))
    want = run(problem, given, "numpy", 0)
    for name in ("q", "o", "do", "stats"):
        given[name][:, :, 100:] = np.nan
    given["k"][..., 70:] = given["v"][:, :, 70:] = np.nan
    got = run(problem, given)
    for name in want:
        np.testing.assert_allclose(got[name], want[name], atol=0.03, rtol=0.02)
    assert got["dq"][0, 0, 89].all() and not got["dk"][..., 70:].any() and not got["dv"][:, :, 70:].any()


@pytest.mark.gpu
def test_the_same_bits_each_time(gpu):
    problem = Problem.parse(line(3000, 2500, more="right=0"))
    given = values(problem, 0.125)
    first = run(problem, given, gpu, scale=0.125)
    for _ in range(20):
        for name, found in run(problem, given, gpu, scale=0.125).items():
            np.testing.assert_array_equal(found, first[name])


# ---- Where it is chosen, and what it takes ----

LARGE = ("sdpa_bwd q=4x{h}x4096x{d}:bf16 k=4x8x{d}x4096:bf16@{all},{each},1,{d} v=4x8x4096x{d}:bf16 "
         "o=4x{h}x4096x{d}:bf16 do=4x{h}x4096x{d}:bf16 stats=4x{h}x4096x1:f32 {more}")


@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("more", ["", "right=0", "len_kv=4x1x1x1:i32"])
def test_it_is_chosen_and_keeps_two_numbers_a_query(d, more):
    text = LARGE.format(h=32, d=d, each=4096 * d, all=8 * 4096 * d, more=more)
    found = best(graph_of(Problem.parse(text)), H200)
    assert found.text.startswith("part 0: 431")
    assert Layout(found).workspace_bytes <= 8 * 4 * 32 * 4096 + 512
