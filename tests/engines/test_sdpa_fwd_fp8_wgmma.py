"""Attention of 8 bits on Hopper's tensor cores, on the interpreter and a GPU: random problems, scales and the
largest values around it, values that lie transposed, and where it is chosen."""
from __future__ import annotations

import random
import re

import ml_dtypes
import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn import plan
from cydnn.heuristics import Choice, Part, best
from cydnn.graph import Graph, Match, Node, Tensor
from cydnn.ops import Pointwise, Problem, Reduction, Sdpa
from cydnn.steps import Launch, Memset
from cydnn.tensor import TensorDesc
from support.check import hopper, matrix
from support.draw import dags
from support.draw.alone import match
from support.draw.attention import band, length, lengths, strided, worded
from support.guard.mirror import Mirror

from test_sdpa_fwd_wgmma import run

T, ENGINE, H200 = cudnn.data_type, BY_INDEX[423], KNOWN["h200"]
F8 = ("f8_e4m3", "f8_e5m2")


def drawn(rng, most=(40, 130, 200)) -> Problem:
    kind, out, b = rng.choice(F8), rng.choice([*F8, "f16", "bf16"]), rng.choice([1, 1, 2, 3])
    h_k, h_v, of_k, of_v = (rng.choice([1, 1, 2]) for _ in range(4))
    h = h_k * of_k * h_v * of_v
    s_q, s_kv = length(rng, most), length(rng, most)
    d_qk, d_v = rng.choice([3, 8, 40, 64, 128, 128]), rng.choice([4, 12, 64, 100, 128, 128])
    text = dict(q=strided(rng, kind, (b, h, s_q, d_qk), (3,), 16),
                k=strided(rng, kind, (b, h_k, d_qk, s_kv), (2,), 16),
                v=strided(rng, kind, (b, h_v, s_kv, d_v), (3,), 16),
                o=strided(rng, out, (b, h, s_q, d_v), (3,), 4))
    sums = rng.sample(["stats", "score_max", "score_sum_exp"], rng.randint(0, 3))
    text |= {name: f"{b}x{h}x{s_q}x1:f32" for name in sums}
    text |= lengths(rng, b)
    text |= band(rng)
    text |= dict(empty="nan") if not sums and rng.random() < 0.2 else {}
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
        for config in ENGINE.configs(match(problem), H200):
            found = matrix.run(problem, gpu, seed, [ENGINE], config=config, scalars=dict(problem.op.scalars))
            assert found.ran and not found.findings, (str(problem), str(config), found)


def test_all_draws_are_taken():
    rng = random.Random(0)
    assert all(ENGINE.accepts(match(drawn(rng)), H200) for _ in range(100))


LINE = ("sdpa q=4x1x{q}x128:f8_e4m3 k=4x1x128x{kv}:f8_e4m3@{each},{each},1,128 v=4x1x{kv}x128:f8_e4m3 "
        "o=4x1x{q}x128:f16 {more}")


def line(q, kv, more):
    return LINE.format(q=q, kv=kv, each=kv * 128, more=more)


@pytest.mark.parametrize("tile", ["128x128", "192x128"])
@pytest.mark.parametrize("seed", [None, 3])
def test_more_tiles_than_blocks(tile, seed):
    """Tiles without keys between others, too."""
    hopper.check_turns(ENGINE, line(200, 270, "len_q=4x1x1x1:i32 len_kv=4x1x1x1:i32 right=2 left=60 "
                                    "diagonal=bottom_right"), f"tile={tile}", seed)


# ---- Values ----

SMALL = ("sdpa q=1x2x70x128:{kind} k=1x1x128x400:{kind}@51200,51200,1,128 v=1x1x400x128:{kind} "
         "o=1x2x70x128:f16 stats=1x2x70x1:f32 {more}")


def inputs(kind):
    rng, of = np.random.default_rng(3), getattr(ml_dtypes, "float8_" + kind[3:].replace("e4m3", "e4m3fn"))
    dims = dict(q=(1, 2, 70, 128), k=(1, 1, 128, 400), v=(1, 1, 400, 128))
    return {name: rng.normal(size=d).astype(of).astype(np.float64) for name, d in dims.items()}


@pytest.mark.parametrize("kind", F8)
def test_weights_of_one_key_give_its_value(kind):
    """Scores so far apart that one key has it all: each element of its value in its place."""
    text, values = SMALL.format(kind=kind, more=""), inputs(kind)
    scores = values["q"] @ values["k"]
    got = run(text, values, engine=423, scale=1e3)
    np.testing.assert_allclose(got["o"], values["v"][0, 0, scores.argmax(-1)], rtol=0.01)


@pytest.mark.parametrize("rising", [False, True])
@pytest.mark.parametrize("scale", [0.1, -0.07, 0.0])
def test_scores_that_rise_and_scales_of_any_sign(rising, scale):
    """Keys are read from the last to the first."""
    text, values = SMALL.format(kind="f8_e4m3", more="right=0 diagonal=bottom_right"), inputs("f8_e4m3")
    values["k"] = values["k"] * np.exp2(np.linspace(*(0, -3) if rising else (-3, 0), 400).round())
    want, got = (run(text, values, *where, scale=scale) for where in (("numpy", 0), ("ptx:sm_90", 423)))
    np.testing.assert_allclose(got["o"], want["o"], atol=0.05, rtol=0.06)
    np.testing.assert_allclose(got["stats"], want["stats"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("length", [0, 5, 128, 333])
def test_what_lies_beyond_a_length_reaches_nothing(length):
    text, values = SMALL.format(kind="f8_e4m3", more="len_kv=1x1x1x1:i32"), inputs("f8_e4m3")
    values["k"][..., length:], values["v"][:, :, length:] = np.nan, np.nan
    got = run(text, values | dict(len_kv=np.full((1, 1, 1, 1), length)), engine=423)
    assert np.isfinite(got["o"]).all() and (np.isfinite(got["stats"]) == (length > 0)).all()
    assert got["o"].any() == (length > 0)


# ---- What stands around it ----

SCALES = dict(descale_q=0.25, descale_k=0.5, descale_v=2.0, descale_s=1 / 64, scale_s=32.0, scale_o=16.0)


def graph(memory, found, handle=None, **options):
    """sdpa_fp8 and what it is given; outputs that ``found`` has no array of are not asked for."""
    strides = lambda x: [s // x.itemsize for s in x.strides]
    g = cudnn.pygraph(io_data_type=T.FP8_E4M3, intermediate_data_type=T.FLOAT, compute_data_type=T.FLOAT,
                      handle=handle)
    given = {n: g.tensor(x.shape, strides(x), T.FLOAT if n in SCALES else T.FP8_E4M3, name=n)
             for n, x in memory.items()}
    made = g.sdpa_fp8(**given, generate_stats=True, **options)
    pack = {given[n]: x for n, x in memory.items()}
    for t, x in zip(made, found):
        if x is not None:
            t.set_output(True).set_dim(x.shape).set_stride(strides(x)).set_data_type(KINDS[x.dtype.name])
            pack[t] = x
    return g, pack


KINDS = dict(float32=T.FLOAT, float16=T.HALF, float8_e4m3fn=T.FP8_E4M3)


def memory(b, h, h_k, s, d):
    rng = np.random.default_rng(5)
    dims = dict(q=(b, h, s, d), k=(b, h_k, s + 60, d), v=(b, h_k, s + 60, d))
    found = {n: rng.normal(size=size).astype(ml_dtypes.float8_e4m3fn) for n, size in dims.items()}
    return found | {n: np.full((1, 1, 1, 1), x, np.float32) for n, x in SCALES.items()}


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.float8_e4m3fn])
def test_scales_and_the_largest_values(kind):
    given, results = memory(1, 4, 2, 100, 128), []
    for device in ("numpy", Mirror("sm_90")):
        handle = cudnn.create_handle(device)
        shapes = ((1, 4, 100, 128), (1, 4, 100, 1), (1, 1, 1, 1), (1, 1, 1, 1))
        found = [np.zeros(d, kind if i == 0 else np.float32) for i, d in enumerate(shapes)]
        g, pack = graph(given, found, handle, attn_scale=0.1, use_causal_mask=True)
        g.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        g.execute(pack, np.zeros(max(g.get_workspace_size(), 1), np.uint8))
        results.append([x.astype(np.float64) for x in found])
    for name, want, got, room in zip(("o", "stats", "amax_s", "amax_o"), *results, (0.07, 1e-5, 1e-5, 0.02)):
        np.testing.assert_allclose(got, want, atol=room * np.abs(want).max(), rtol=room, err_msg=name)


def test_one_launch_has_all_but_the_largest_weight():
    given, ones = memory(2, 8, 4, 1000, 128), [np.zeros((1, 1, 1, 1), np.float32)] * 2
    g, _ = graph(given, [np.zeros((2, 8, 1000, 128), np.float16), None, *ones], use_causal_mask=True)
    g.validate()
    chosen = best(g._built_graph(), H200)
    assert chosen.parts[0].engine is ENGINE and len(chosen.parts[0].match.region.nodes) == 6
    steps = ENGINE.plan(chosen.parts[0].match, H200, chosen.parts[0].config)
    assert [type(step) for step in steps] == [Memset, Launch]


def surrounded(score="", o="f32", kind="virtual", behind=(), last=None, stored="f32", empty="zero"):
    """The match of an attention with products behind it, and a reduction of the first of them."""
    desc = lambda dims, kind="f8_e4m3": TensorDesc.packed(kind, dims)
    k = TensorDesc("f8_e4m3", (1, 2, 128, 20), (5120, 2560, 1, 128))
    one, wide = desc((1, 1, 1, 1), "f32"), (1, 2, 9, 128)
    tensors = [Tensor(1, desc(wide)), Tensor(2, k), Tensor(3, desc((1, 2, 20, 128))),
               Tensor(4, desc(wide, o), kind if behind or last else "memory"), Tensor(5, one)]
    nodes = [Node(Sdpa(score=score, empty=empty), dict(q=1, k=2, v=3, o=4))]
    for i, op in enumerate(behind):
        tensors.append(Tensor(6 + i, desc(wide, stored), "memory" if i == len(behind) - 1 else "virtual"))
        nodes.append(Node(Pointwise(mode=op), dict(x=4 if i == 0 else 5 + i, b=5, y=6 + i)))
    if last:
        tensors.append(Tensor(30, one))
        nodes.append(Node(Reduction(mode=last), dict(x=4, y=30)))
    return Match.around(Graph(nodes, tensors), 0, (1 << len(nodes)) - 1)


@pytest.mark.parametrize("empty", ["zero", "nan"])
def test_rows_that_are_not_there_give_no_largest_value(empty):
    """They lie in the tile and see no key: 0 / 0 where that is NaN."""
    around, machine = surrounded(behind=["mul"], last="amax", stored="f16", empty=empty), Mirror("sm_90")
    graph = around.graph
    chosen = Part(around, ENGINE, ENGINE.best(around, H200), 1.0)
    built = plan.made(Choice(graph, graph, machine.facts, (chosen,)), machine)
    assert not dags.check(graph, True, machine, 1, built=built)


@pytest.mark.parametrize("sentence, given", [
    ("must be o times one f32 number; got add of 2 tensors", dict(behind=["add"])),
    ("uid 4 must be f32, as it is read on; got bf16", dict(behind=["mul"], o="bf16")),
    ("of o and its products the last alone must be stored; got uid 4 uid 6",
     dict(behind=["mul"], kind="memory")),
    ("uid 4 must be f32, as it is read on; got f16", dict(last="amax", o="f16")),
    ("of o and its products the last alone must be stored; got none", dict(last="amax")),
    (r"must be the largest \|o\|, one number of f32; got max of dims", dict(behind=["mul"], last="max")),
    ("o must have at most 3 factors in front of its largest element, and 1 behind; got 3 and 2",
     dict(behind=["mul"] * 5)),
    ("o must be one of f16 bf16 f8_e4m3 f8_e5m2; got f32", dict(behind=["mul"]))])
def test_what_stands_around_it_that_it_does_not_take(sentence, given):
    assert re.search(sentence, " ".join(ENGINE.reasons(surrounded(**given), H200)))
