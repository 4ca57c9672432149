"""Attention of 8 bits by way of pygraph: scales, the largest values, what is refused."""
from __future__ import annotations

import inspect

import ml_dtypes
import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.status import BadParam

from .test_attention import B, COL, D, DV, H, KV, ROW, S, T, expected, heads, strides
from .test_attention import world                # noqa: F401

E4 = ml_dtypes.float8_e4m3fn
FACTORS = dict(descale_q=0.25, descale_k=0.5, descale_v=2.0, descale_s=1 / 64, scale_s=64.0, scale_o=16.0)


def called(w, o_type, sink=None, asked=4, **options):
    """(the first ``asked`` results, what q, k and v stand for in float64, the names of the operations)"""
    dims = dict(q=(B, H, S, D), k=(B, 2, KV, D), v=(B, 1, KV, DV))
    memory = {n: w.rng.uniform(-4, 4, d).astype(E4) for n, d in dims.items()}
    g = cudnn.pygraph(io_data_type=T.FP8_E4M3, intermediate_data_type=T.FLOAT, compute_data_type=T.FLOAT,
                      handle=w.handle)
    tensors = {n: g.tensor(x.shape, strides(x), name=n) for n, x in memory.items()}
    pack = {tensors[n]: x for n, x in memory.items()}
    scales = {n: g.tensor([1, 1, 1, 1], [1, 1, 1, 1], T.FLOAT, name=n) for n in FACTORS}
    pack |= {t: np.full((1, 1, 1, 1), FACTORS[n], np.float32) for n, t in scales.items()}
    if sink is not None:
        options["sink_token"] = g.tensor(sink.shape, strides(sink), T.FLOAT)
        pack |= {options["sink_token"]: sink}
    made = g.sdpa_fp8(**tensors, **scales, generate_stats=True, **options)
    shapes = ((B, H, S, DV), (B, H, S, 1), (1, 1, 1, 1), (1, 1, 1, 1))
    found = [np.zeros(d, E4 if i == 0 and o_type is T.FP8_E4M3 else np.float32)
             for i, d in enumerate(shapes[:asked])]
    for t, x in zip(made, found):
        t.set_output(True).set_data_type(T.FLOAT if x.dtype == np.float32 else T.FP8_E4M3)
        t.set_dim(x.shape).set_stride(strides(x))
    g.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    g.execute(pack | dict(zip(made, found)), w.workspace(g.get_workspace_size()))
    real = [memory[n].astype(np.float64) * FACTORS[f"descale_{n}"] for n in "qkv"]
    return found, real, [node.op.name for node in g.graph.nodes]


@pytest.mark.parametrize("o_type, tolerance", [(T.FLOAT, 1e-4), (T.FP8_E4M3, 0.07)])
def test_scales_and_the_largest_values(world, o_type, tolerance):    # noqa: F811
    (o, stats, amax_s, amax_o), real, _ = called(world, o_type, attn_scale=0.125, use_causal_mask=True)
    want, sums = expected(*real, lambda s: 0.125 * s, COL <= ROW)
    world.close_to(o.astype(np.float64), want * FACTORS["scale_o"], tolerance, tolerance)
    world.close_to(stats, sums, 1e-4, 1e-4)
    world.close_to(amax_o, np.abs(want).max(), 1e-4, 1e-4)
    weights = np.exp(0.125 * (real[0] @ np.repeat(real[1], H // 2, 1).swapaxes(2, 3)) - sums)
    world.close_to(amax_s, np.where(COL <= ROW, weights, 0).max(), 1e-4, 1e-4)


def test_the_largest_weight_beside_a_sink(world):                # noqa: F811
    """Of keys alone. Scores without the sink are made for it, where it is asked for."""
    sink = np.linspace(-1, 3, H, dtype=np.float32).reshape(1, H, 1, 1)
    (o, stats, amax_s, _), real, ops = called(world, T.FLOAT, sink, attn_scale=0.125)
    s = 0.125 * (heads(real[0]) @ heads(real[1]).swapaxes(2, 3))
    sums = np.log(np.exp(s).sum(3, keepdims=True) + np.exp(sink))
    world.close_to(stats, sums, 1e-4, 1e-4)
    world.close_to(amax_s, np.exp(s - sums).max(), 1e-4, 1e-4)
    world.close_to(o, np.exp(s - sums) @ heads(real[2]) * FACTORS["scale_o"], 1e-4, 1e-4)
    assert ops.count("sdpa") == 2 and called(world, T.FLOAT, sink, 2)[2].count("sdpa") == 1


def test_a_sink_and_what_dropout_keeps():
    """It is drawn once, though scores are made twice; the largest weight knows nothing of it."""
    g = cudnn.pygraph(io_data_type=T.FP8_E4M3, intermediate_data_type=T.FLOAT)
    q, (sink, dump, scale) = g.tensor([1, 2, 4, 16]), (g.tensor(dim, data_type=T.FLOAT) for dim in (
        [1, 2, 1, 1], [1, 2, 4, 4], [1, 1, 1, 1]))
    made = g.sdpa_fp8(q, q, q, *[scale] * 6, generate_stats=False, sink_token=sink, dropout=(0.5, 1, 2),
                      rng_dump=dump)
    made[0].set_output(True).set_data_type(T.FLOAT), made[2].set_output(True)
    g.validate()
    assert [node.op.drop for node in g.graph.nodes if node.op.name == "sdpa"] == [0.5, 0.0]


@pytest.mark.parametrize("sentence, options", [
    ("left_bound must be at least 1; got 0", dict(left_bound=0)),
    ("fn must be a function; got 3", dict(fn=3)),
    ("sliding_window must not be given with left_bound; got 2 and 3",
     dict(sliding_window=2, left_bound=3)),
    ("fn must return a tensor that it made of what it got; got None", dict(fn=lambda g, s: None))])
def test_what_is_refused_in_the_words_of_the_call(sentence, options):
    g = cudnn.pygraph(io_data_type=T.FP8_E4M3, intermediate_data_type=T.FLOAT)
    q, scale = g.tensor([1, 1, 4, 16]), g.tensor([1, 1, 1, 1])
    with pytest.raises((BadParam, cudnn.cudnnGraphNotSupportedError), match=f"sdpa_fp8.0: {sentence}"):
        g.sdpa_fp8(q, q, q, *[scale] * 6, generate_stats=False, **options)
    assert not g.steps


BACKWARD = dict(descale_q=0.25, descale_k=0.5, descale_v=2.0, descale_o=0.125, descale_dO=0.25,
                descale_s=1 / 64, descale_dP=1 / 32, scale_s=64.0, scale_dQ=8.0, scale_dK=4.0, scale_dV=2.0,
                scale_dP=32.0)


def test_gradients_and_their_largest_values(world):              # noqa: F811
    dims = dict(q=(B, H, S, D), k=(B, 2, KV, D), v=(B, 1, KV, DV), o=(B, H, S, DV), dO=(B, H, S, DV))
    memory = {n: world.rng.uniform(-4, 4, d).astype(E4) for n, d in dims.items()}
    real = {n: memory[n].astype(np.float64) * BACKWARD[f"descale_{n}"] for n in dims}
    _, sums = expected(*(real[n] for n in "qkv"), lambda s: 0.125 * s)
    memory["stats"] = sums.astype(np.float32)
    g = cudnn.pygraph(io_data_type=T.FP8_E4M3, intermediate_data_type=T.FLOAT, compute_data_type=T.FLOAT,
                      handle=world.handle)
    kind = lambda n: T.FLOAT if n == "stats" else T.FP8_E4M3
    given = {n: g.tensor(x.shape, strides(x), kind(n)) for n, x in memory.items()}
    scales = {n: g.tensor([1, 1, 1, 1], [1, 1, 1, 1], T.FLOAT) for n in BACKWARD}
    made = g.sdpa_fp8_backward(**given, **scales, attn_scale=0.125)
    found = [np.zeros(d, np.float32) for d in (*(dims[n] for n in "qkv"), *[(1, 1, 1, 1)] * 4)]
    for t, x in zip(made, found):
        t.set_output(True).set_data_type(T.FLOAT).set_dim(x.shape).set_stride(strides(x))
    g.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    pack = {given[n]: x for n, x in memory.items()} | dict(zip(made, found))
    pack |= {t: np.full((1, 1, 1, 1), BACKWARD[n], np.float32) for n, t in scales.items()}
    g.execute(pack, world.workspace(g.get_workspace_size()))

    q, k, v, o, do = (np.repeat(x, H // x.shape[1], 1) for x in real.values())
    p = np.exp(0.125 * q @ k.swapaxes(2, 3) - sums)
    ds = 0.125 * p * (do @ v.swapaxes(2, 3) - (do * o).sum(3, keepdims=True))
    shared = lambda x, n: x.reshape(B, n, H // n, *x.shape[2:]).sum(2)
    want = ds @ k, shared(ds.swapaxes(2, 3) @ q, 2), shared(p.swapaxes(2, 3) @ do, 1)
    for got, exact, scale in zip(found, want, (8.0, 4.0, 2.0)):
        world.close_to(got, exact * scale, 1e-4, 1e-4)
    for got, exact in zip(found[3:], (*want, ds)):
        world.close_to(got, np.abs(exact).max(), 1e-4, 1e-4)


def test_keys_times_a_number_lie_as_the_kernels_read_them():
    """One transpose is left, of dK; a stored plan has the keys as the caller has them."""
    g = cudnn.pygraph(io_data_type=T.FP8_E4M3, intermediate_data_type=T.FLOAT, compute_data_type=T.FLOAT,
                      handle=cudnn.create_handle("numpy"))
    k = g.tensor([1, 2, 40, 64], [5120, 2560, 64, 1])
    q, o, do = (g.tensor([1, 2, 30, 64], [3840, 1920, 64, 1]) for _ in range(3))
    read = [q, k, g.tensor_like(k), o, do, g.tensor([1, 2, 30, 1], [60, 30, 1, 1], T.FLOAT)]
    made = g.sdpa_fp8_backward(*read, *(g.tensor([1, 1, 1, 1], [1, 1, 1, 1], T.FLOAT) for _ in BACKWARD))
    for i, t in enumerate(made):
        t.set_output(True).set_data_type(T.FLOAT if i > 2 else T.FP8_E4M3)
    g.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    assert [node.op.name for node in g._built_graph().nodes].count("transpose") == 1     # of dK
    again = cudnn.pygraph(handle=cudnn.create_handle("numpy"))
    again.deserialize(g.serialize())
    (found,) = (t for t in again._tensors if t.uid == k.get_uid())
    assert (found.get_dim(), found.get_stride()) == (k.get_dim(), k.get_stride())


def test_what_is_refused_and_the_arguments():
    g = cudnn.pygraph()
    one = g.tensor([1, 1, 1, 1], [1, 1, 1, 1], T.FLOAT)
    with pytest.raises(BadParam, match="sdpa_fp8.0: generate_stats must be given"):
        g.sdpa_fp8(*[one] * 9, sink_token=one)
    assert " ".join(inspect.signature(cudnn.pygraph.sdpa_fp8).parameters) == (
        "self q k v descale_q descale_k descale_v descale_s scale_s scale_o is_inference attn_scale bias "
        "use_alibi_mask use_padding_mask seq_len_q seq_len_kv use_causal_mask use_causal_mask_bottom_right "
        "sliding_window diagonal_alignment left_bound right_bound dropout rng_dump paged_attention_k_table "
        "paged_attention_v_table paged_attention_max_seq_len_kv max_total_seq_len_q max_total_seq_len_kv "
        "compute_data_type name fn generate_stats score_max score_sum_exp sink_token unfuse_fma "
        "implementation cu_seq_len_q cu_seq_len_kv stats_use_log2")
    assert " ".join(inspect.signature(cudnn.pygraph.sdpa_fp8_backward).parameters) == (
        "self q k v o dO stats descale_q descale_k descale_v descale_o descale_dO descale_s descale_dP "
        "scale_s scale_dQ scale_dK scale_dV scale_dP attn_scale use_padding_mask seq_len_q seq_len_kv "
        "use_causal_mask use_causal_mask_bottom_right diagonal_alignment left_bound right_bound "
        "use_deterministic_algorithm dropout compute_data_type name sink_token dSink_token "
        "max_total_seq_len_q max_total_seq_len_kv")
