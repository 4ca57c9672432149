"""Attention on Hopper's tensor cores, on the interpreter and a GPU: random problems, blocks that take tile
after tile, scores that rise, what no query sees, and where it is chosen."""
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
from cydnn.ops import Problem
from cydnn.steps import Memset
from support.draw import graphs
from support.check import hopper, matrix
from support.draw.alone import match
from support.draw.attention import band, length, lengths, strided, worded

ENGINE, H200 = BY_INDEX[421], KNOWN["h200"]


def drawn(rng, most=(40, 130, 200)) -> Problem:
    kind, b = rng.choice(["f16", "bf16"]), rng.choice([1, 1, 2, 3])
    h_k, h_v, of_k, of_v = (rng.choice([1, 1, 2]) for _ in range(4))
    h = h_k * of_k * h_v * of_v
    s_q, s_kv = length(rng, most), length(rng, most)
    d_qk, d_v = rng.choice([8, 40, 64, 72, 128, 160, 200, 256]), rng.choice([8, 64, 64, 104, 128, 256])
    text = dict(q=strided(rng, kind, (b, h, s_q, d_qk), 3), k=strided(rng, kind, (b, h_k, d_qk, s_kv), 2),
                v=strided(rng, kind, (b, h_v, s_kv, d_v), 3), o=strided(rng, kind, (b, h, s_q, d_v), 3))
    some = rng.random() < 0.7
    text |= dict(stats=f"{b}x{h}x{s_q}x1:f32") if some else {}
    text |= lengths(rng, b)
    text |= band(rng)
    text |= dict(sink=f"1x{h}x1x1:f32") if rng.random() < 0.3 else {}
    text |= dict(empty="nan") if "stats" not in text and rng.random() < 0.2 else {}
    return worded("sdpa", text)


@pytest.mark.parametrize("seed", range(8))
def test_random_problems(seed):
    hopper.check_drawn(ENGINE, drawn, seed)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(40))
def test_random_problems_on_a_gpu(seed, gpu):
    rng = random.Random(seed)
    for _ in range(15):
        problem = drawn(rng, (200, 700, 1500))
        for config in ENGINE.configs(match(problem), H200) if ENGINE.accepts(match(problem), H200) else ():
            found = matrix.run(problem, gpu, seed, [ENGINE], config=config, scalars=dict(problem.op.scalars))
            assert found.ran and not found.findings, (str(problem), str(config), found)


def test_most_draws_are_taken():
    rng = random.Random(0)
    assert sum(ENGINE.accepts(match(drawn(rng)), H200) for _ in range(100)) >= 70


LINE = ("sdpa q=4x1x{q}x{d}:bf16 k=4x1x{d}x{kv}:bf16@{all},{each},1,{d} v=4x1x{kv}x{d} bf16 "
        "len_q=4x1x1x1:i32 len_kv=4x1x1x1:i32 {more}")


def line(d, more, q=200, kv=150):
    return LINE.format(q=q, kv=kv, d=d, each=kv * d, all=kv * d, more=more)


@pytest.mark.parametrize("d, tile", [(64, "128x128"), (64, "192x96"), (128, "128x128"), (256, "128x80")])
@pytest.mark.parametrize("seed", [None, 3])
def test_more_tiles_than_blocks(d, tile, seed):
    """Tiles without keys between others, too."""
    hopper.check_turns(ENGINE, line(d, "right=2 left=60 diagonal=bottom_right"), f"tile={tile}", seed)


# ---- Values ----

def run(text, values, device="ptx:sm_90", engine=421, scale=1.0):
    graph = graph_of(Problem.parse(text), dict(scale=scale))
    built = plan.build(graph, get(device), Wish(engines=(engine,)))
    names = {t.name: uid for uid, t in graph.tensors.items()}
    found = graphs.execute(built, {names[n]: v for n, v in values.items()})
    return {n: found[uid] for n, uid in names.items() if uid in found}


SMALL = ("sdpa q=1x2x70x64:{kind} k=1x1x64x400:{kind}@25600,25600,1,64 v=1x1x400x64:{kind} "
         "o=1x2x70x64:{kind} stats=1x2x70x1:f32 {more}")


def inputs():
    rng = np.random.default_rng(3)
    return dict(q=rng.normal(size=(1, 2, 70, 64)), k=rng.normal(size=(1, 1, 64, 400)),
                v=rng.normal(size=(1, 1, 400, 64)))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("factor, scale", [(np.linspace(40, 0, 400), 1.0), (np.linspace(0, 40, 400), 1.0),
                                           (1.0, -0.7), (1.0, 0.0)])
def test_scores_that_rise_and_scales_of_any_sign(kind, factor, scale):
    """Keys are read from the last to the first."""
    text, values = SMALL.format(kind=kind, more="right=0 diagonal=bottom_right"), inputs()
    values["k"] = values["k"] * factor
    want, got = (run(text, values, *where, scale=scale) for where in (("numpy", 0), ("ptx:sm_90", 421)))
    np.testing.assert_allclose(got["o"], want["o"], atol=0.04, rtol=0.02)
    np.testing.assert_allclose(got["stats"], want["stats"], atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("length", [0, 5, 128, 333])
def test_what_lies_beyond_a_length_reaches_nothing(length):
    text, values = SMALL.format(kind="bf16", more="len_kv=1x1x1x1:i32"), inputs()
    values["k"][..., length:], values["v"][:, :, length:] = np.nan, np.inf
    got = run(text, values | dict(len_kv=np.full((1, 1, 1, 1), length)))
    assert np.isfinite(got["o"]).all() and (np.isfinite(got["stats"]) == (length > 0)).all()
    assert got["o"].any() == (length > 0)


def test_a_query_that_is_no_number_stays_alone():
    text, values = SMALL.format(kind="bf16", more=""), inputs()
    values["q"][0, 1, 13, 5] = np.nan
    wrong = np.isnan(run(text, values)["o"]).any(-1)
    assert wrong[0, 1, 13] and wrong.sum() == 1


# ---- Where it is chosen, and what it launches ----

LARGE = "sdpa q=4x{h}x4096x{d}:bf16 k=4x8x{d}x4096:bf16@{all},{each},1,{d} v=4x8x4096x{d} bf16 {more}"


def large(h, d, more=""):
    return Problem.parse(LARGE.format(h=h, d=d, each=4096 * d, all=8 * 4096 * d, more=more))


@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("more", ["", "right=0"])
def test_it_is_chosen(d, more):
    assert best(graph_of(large(32, d, more)), H200).text.startswith("part 0: 421")


@pytest.mark.parametrize("more, count", [("", 0), ("right=5000", 0), ("right=0", 1), ("left=9", 1),
                                         ("len_kv=4x1x1x1:i32", 1)])
def test_blocks_take_tiles_as_they_come_where_some_see_fewer_keys(more, count):
    p = match(large(32, 128, more))
    steps = ENGINE.plan(p, H200, ENGINE.best(p, H200))
    assert sum(isinstance(step, Memset) for step in steps) == count and len(steps) == count + 1


@pytest.mark.parametrize("length, tile", [(1024, "128x128"), (8192, "192x96")])
def test_long_rows_of_small_heads_have_larger_tiles(length, tile):
    p = match(Problem.parse(f"sdpa q=16x16x{length}x64:bf16 k=16x16x64x{length}:bf16@{1024 * length},"
                            f"{64 * length},1,64 v=16x16x{length}x64 bf16"))
    assert ENGINE.best(p, H200).tile == tile
