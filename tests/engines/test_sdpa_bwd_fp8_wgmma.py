"""Attention's gradients of 8 bits on Hopper's tensor cores, on the interpreter and a GPU: random problems,
factors of what is read, what stands around it, the same bits each time, and where it is chosen."""
from __future__ import annotations

import random

import ml_dtypes
import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.graph import Graph, Match, Node, Tensor
from cydnn.heuristics import best
from cydnn.ops import Pointwise, Problem, SdpaBwd
from cydnn.tensor import TensorDesc
from support.check import hopper, matrix
from support.draw.alone import match
from support.draw.attention import band, length, lengths, strided, worded
from support.guard.mirror import Mirror

from test_sdpa_bwd_wgmma import run, values
from test_sdpa_fwd_fp8_wgmma import F8, T

ENGINE, H200 = BY_INDEX[433], KNOWN["h200"]
E4, E5, READ = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ("q", "k", "v", "o", "do")


def drawn(rng, most=(40, 130, 200)) -> Problem:
    kind, b, heads, group = rng.choice(F8), *(rng.choice([1, 1, 2, 3]) for _ in range(3))
    s_q, s_kv, h = length(rng, most), length(rng, most), heads * group
    d_qk, d_v = rng.choice([16, 48, 64, 96, 128, 128]), rng.choice([16, 32, 64, 112, 128, 128])
    dims = dict(q=(b, h, s_q, d_qk), k=(b, heads, d_qk, s_kv), v=(b, heads, s_kv, d_v), o=(b, h, s_q, d_v))
    dims |= dict(do=dims["o"], dq=dims["q"], dk=dims["k"], dv=dims["v"])
    kinds = dict(dict.fromkeys(dims, "f32"), q=kind, k=kind, v=rng.choice(F8), o=kind, do=rng.choice(F8))
    text = {name: strided(rng, kinds[name], d, (2 if "k" in name else 3,), 16) for name, d in dims.items()}
    text |= dict(stats=f"{b}x{h}x{s_q}x1:f32")
    text |= dict(peak=f"{b}x{h}x{s_q}x1:f32") if rng.random() < 0.5 else {}
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
        found = matrix.run(problem, gpu, seed, [ENGINE], scalars=dict(problem.op.scalars))
        assert found.ran and not found.findings, (str(problem), found)


def test_all_draws_are_taken():
    rng = random.Random(0)
    assert all(ENGINE.accepts(match(drawn(rng)), H200) for _ in range(100))


LINE = ("sdpa_bwd q=1x2x150x64:f8_e4m3 k=1x1x64x150:f8_e4m3@9600,9600,1,64 v=1x1x150x64:f8_e4m3 "
        "o=1x2x150x64:f8_e4m3 do=1x2x150x64:f8_e5m2 stats=1x2x150x1:f32 dq=1x2x150x64:f32 "
        "dk=1x1x64x150:f32@9600,9600,1,64 dv=1x1x150x64:f32 len_q=1x1x1x1:i32 len_kv=1x1x1x1:i32 right=20")


def test_what_lies_beyond_a_length_reaches_nothing():
    problem = Problem.parse(LINE)
    given = values(problem) | dict(len_q=np.full((1, 1, 1, 1), 100), len_kv=np.full((1, 1, 1, 1), 70))
    given |= {name: given[name].astype(E5 if name == "do" else E4).astype(np.float64) for name in READ}
    want = run(problem, given, "numpy", 0)
    for name in ("q", "o", "do", "stats"):
        given[name][:, :, 100:] = np.nan
    given["k"][..., 70:] = given["v"][:, :, 70:] = np.nan
    got = run(problem, given, engine=433)
    for name in want:
        np.testing.assert_allclose(got[name], want[name], atol=0.03, rtol=0.02)
    assert got["dq"][0, 0, 89].all() and not got["dk"][..., 70:].any() and not got["dv"][:, :, 70:].any()


# ---- What stands around it ----

FACTORS = dict(descale_q=0.25, descale_k=0.5, descale_v=2.0, descale_o=0.125, descale_dO=-0.25,
               descale_s=1 / 64, descale_dP=1 / 32, scale_s=32.0, scale_dQ=8.0, scale_dK=4.0, scale_dV=2.0,
               scale_dP=64.0)
KINDS = {np.dtype(E4): T.FP8_E4M3, np.dtype(E5): T.FP8_E5M2, np.dtype("f4"): T.FLOAT}


def graph(memory, found, handle=None, **options):
    """sdpa_fp8_backward and what it is given."""
    strides = lambda x: [s // x.itemsize for s in x.strides]
    g = cudnn.pygraph(io_data_type=T.FP8_E4M3, intermediate_data_type=T.FLOAT, compute_data_type=T.FLOAT,
                      handle=handle)
    given = {n: g.tensor(x.shape, strides(x), KINDS[x.dtype], name=n) for n, x in memory.items()}
    made = g.sdpa_fp8_backward(**given, **options)
    for t, x in zip(made, found):
        t.set_output(True).set_dim(x.shape).set_stride(strides(x)).set_data_type(KINDS[x.dtype])
    as_bits = lambda x: x.view(np.uint8) if x.dtype == E5 else x
    return g, {given[n]: as_bits(x) for n, x in memory.items()} | dict(zip(made, found))


def memory(b, h, h_kv, s, d):
    """The gradient of o in e5m2; o and statistics that belong to the others."""
    rng, keys = np.random.default_rng(5), (b, h_kv, s + 60, d)
    dims = dict(q=(b, h, s, d), k=keys, v=keys, dO=(b, h, s, d))
    found = {n: rng.normal(size=size).astype(E5 if n == "dO" else E4) for n, size in dims.items()}
    real = lambda n: found[n].astype("f4") * FACTORS[f"descale_{n}"]
    q, k, v = (np.repeat(real(n), h // found[n].shape[1], 1) for n in "qkv")
    weights = np.exp(0.1 * q @ k.swapaxes(2, 3))
    found["o"] = (weights / weights.sum(3, keepdims=True) @ v / FACTORS["descale_o"]).astype(E4)
    found["stats"] = np.log(weights.sum(3, keepdims=True))
    return found | {n: np.full((1, 1, 1, 1), x, np.float32) for n, x in FACTORS.items()}


def outputs(given, kind) -> list:
    return [np.zeros(given[n].shape, kind) for n in "qkv"] + [np.zeros((1, 1, 1, 1), "f4") for _ in range(4)]


@pytest.mark.parametrize("kind, room", [(np.float32, 0.01), (E4, 0.07)])
def test_factors_and_the_largest_values(kind, room):
    given, results = memory(1, 2, 1, 70, 64), []
    for device in ("numpy", Mirror("sm_90")):
        found = outputs(given, kind)
        g, pack = graph(given, found, cudnn.create_handle(device), attn_scale=0.1)
        g.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        g.execute(pack, np.zeros(max(g.get_workspace_size(), 1), np.uint8))
        results.append([x.astype(np.float64) for x in found])
    for i, (want, got) in enumerate(zip(*results)):
        np.testing.assert_allclose(got, want, atol=room * np.abs(want).max(), rtol=room, err_msg=str(i))


@pytest.mark.gpu
def test_the_same_bits_each_time(gpu):
    given = memory(1, 4, 2, 1500, 128)
    found = outputs(given, E4)
    g, pack = graph(given, found, cudnn.create_handle(gpu), attn_scale=0.1)
    g.build([cudnn.heur_mode.A])
    there = {t: gpu.alloc(x.nbytes) for t, x in pack.items()}
    for t, x in pack.items():
        gpu.copy_in(there[t], np.ascontiguousarray(x))
    space, first = gpu.alloc(max(g.get_workspace_size(), 1)), None
    for _ in range(20):
        g.execute({t: b.ptr for t, b in there.items()}, space.ptr)
        gpu.synchronize()
        got = [gpu.copy_out(there[t], np.empty(x.nbytes, np.uint8)) for t, x in pack.items()]
        first = first or got
        assert all((x == y).all() for x, y in zip(first, got))


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_chosen_and_takes_the_factors(d, causal):
    """The keys' too, which lie transposed."""
    given = memory(1, 2, 1, 1000, d)
    found = outputs(given, E4)
    g, _ = graph(given, found, use_causal_mask=causal)
    g.validate()
    part = best(g._built_graph(), H200).parts[0]
    assert part.engine is ENGINE and len(part.match.region.nodes) == 6
    steps = ENGINE.plan(part.match, H200, part.config)
    assert [step.kernel.split("_f8")[0].split(f"_{d}_")[0] for step in steps] == [
        *["sdpa_bwd_fp8_widen"] * 3, "sdpa_bwd_fp8_rows", "sdpa_bwd_fp8_wgmma_dkv", "sdpa_bwd_fp8_wgmma_dq"]


def surrounded(mode="mul", kind="f32", b=(1, 1, 1, 1), of_b="f32"):
    """The match of an operation whose q is made of two tensors."""
    wide, desc = (1, 1, 9, 64), lambda dims, kind="f8_e4m3": TensorDesc.packed(kind, dims)
    keys = lambda kind: TensorDesc(kind, (1, 1, 64, 20), (1280, 1280, 1, 64))
    tensors = [Tensor(1, desc(wide)), Tensor(2, desc(b, of_b)), Tensor(3, desc(wide, kind), "virtual"),
               Tensor(4, keys("f8_e4m3")), Tensor(5, desc((1, 1, 20, 64))), Tensor(6, desc(wide)),
               Tensor(7, desc(wide)), Tensor(8, desc((1, 1, 9, 1), "f32")), Tensor(9, desc(wide, "f32")),
               Tensor(10, keys("f32")), Tensor(11, desc((1, 1, 20, 64), "f32"))]
    names = "q k v o do stats dq dk dv".split()
    nodes = [Node(Pointwise(mode=mode), dict(x=1, b=2, y=3)), Node(SdpaBwd(), dict(zip(names, range(3, 12))))]
    return Match.around(Graph(nodes, tensors), 1, 3, dict(q=1))


@pytest.mark.parametrize("sentence, given", [
    ("must be q times one f32 number alone; got add of 2 tensors behind 0 nodes", dict(mode="add")),
    ("must be q times one f32 number alone; got mul of 2 tensors behind 0 nodes", dict(b=(1, 1, 9, 1))),
    ("must be q times one f32 number alone; got mul of 2 tensors behind 0 nodes", dict(of_b="f16")),
    ("q must be f32 where it is made of others; got bf16", dict(kind="bf16"))])
def test_what_stands_in_front_of_it_that_it_does_not_take(sentence, given):
    assert any(sentence in reason for reason in ENGINE.reasons(surrounded(**given), H200))


def test_a_product_with_a_number_is_taken():
    assert ENGINE.accepts(surrounded(), H200)
