"""Gradients of attention by way of pygraph, against the same mathematics in float64."""
from __future__ import annotations

import inspect

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.ops import Rng
from cydnn.status import BadParam

from .test_attention import B, COL, D, DV, H, KINDS, KV, ROW, S, T, Called, expected, heads, made, strides
from .test_attention import world                # noqa: F401


def gradients(q, k, v, do, change, gradient, seen):
    """(dq, dk, dv, d): the last of the scores, before what they are summed along."""
    o, stats = expected(q, k, v, change, seen)
    s = heads(q) @ heads(k).swapaxes(2, 3)
    p = np.where(seen, np.exp(change(s) - stats), 0)
    d = p * (do @ heads(v).swapaxes(2, 3) - (do * o).sum(3, keepdims=True))
    ds, shared = gradient(s, d), lambda x, n: x.reshape(B, n, H // n, *x.shape[2:]).sum(2)
    return (ds @ heads(k), shared(ds.swapaxes(2, 3) @ heads(q), k.shape[1]),
            shared(p.swapaxes(2, 3) @ do, v.shape[1]), d)


class Backward(Called):
    """A graph with one call of sdpa_backward, of what ``expected`` says."""

    def __init__(self, w, change=lambda s: s, seen=True, **memory):
        super().__init__(w, **memory)
        self.g = cudnn.pygraph(io_data_type=T.HALF, intermediate_data_type=T.FLOAT,
                               compute_data_type=T.FLOAT, handle=w.handle)
        self.memory["dO"] = w.random((B, H, S, DV), "f16", "nchw")
        for name, value in zip(("o", "stats"), expected(*(self.memory[n] for n in "qkv"), change, seen)):
            self.memory[name][...] = value
        self.tensors = {name: self.g.tensor(x.shape, strides(x), KINDS[x.dtype.name], name=name)
                        for name, x in self.memory.items()}

    def run(self, **options):
        reads = {n: self.tensors[n] for n in ("q", "k", "v", "o", "dO", "stats")}
        made = self.g.sdpa_backward(**reads, **options)
        found = {}
        for t, name in zip(made, "qkv"):
            t.set_output(True).set_data_type(T.FLOAT)
            found[t] = self.w.empty(self.memory[name].shape, "f32", "nchw")
            t.set_dim(found[t].shape).set_stride(strides(found[t]))
        self.g.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        pack = {self.tensors[n]: x for n, x in self.memory.items()} | found
        self.g.execute(pack, self.w.workspace(self.g.get_workspace_size()))
        return list(found.values())

    def wanted(self, change, gradient, seen):
        given = [self.memory[n].astype(np.float64) for n in ("q", "k", "v", "dO")]
        return gradients(*given, change, gradient, seen)


@pytest.mark.filterwarnings("error")
def test_gradients_with_a_bias_of_its_own_gradient(world):
    bias, seen = world.random((1, H, S, KV), "f16", "nchw"), COL <= ROW
    change = lambda s: 0.5 * s + bias.astype(np.float64)
    call = Backward(world, change, seen, bias=bias, dbias=world.empty((1, H, S, KV), "f32", "nchw"))
    got = call.run(attn_scale=0.5, bias=call.tensors["bias"], dBias=call.tensors["dbias"],
                   use_causal_mask=True, use_deterministic_algorithm=True)
    *want, d = call.wanted(change, lambda s, d: 0.5 * d, seen)
    for found, one in zip((*got, call.memory["dbias"]), (*want, d.sum(0, keepdims=True))):
        world.close_to(found, one, 4e-3, 4e-3)


@pytest.mark.parametrize("way", ["seed", "mask"])
def test_gradients_with_dropout(world, way):
    """By the factors of the weights: what ``rng`` of the same seed keeps, or the caller's own."""
    if way == "seed":
        factors = Rng(probability=0.75).reference(5, 2, dict(y=(B, H, S, KV)))["y"] / 0.75
        call, dropout = Backward(world), (0.25, 5, 2)
    else:
        mask = world.random((B, H, S, KV), "f32", "nchw")
        half = made(world, np.full((1, 1, 1, 1), 0.5, "f"))
        factors, call = mask * 0.5, Backward(world, mask=mask, factor=half)
        dropout = call.tensors["mask"], call.tensors["factor"], call.tensors["factor"]
    q, k, v, do = (heads(call.memory[n]) for n in ("q", "k", "v", "dO"))
    s = q @ k.swapaxes(2, 3)
    p = np.exp(s - np.log(np.exp(s).sum(3, keepdims=True)))
    call.memory["o"][...] = (factors * p) @ v
    dq, dk, dv = call.run(dropout=dropout)
    sums = (do * call.memory["o"]).sum(3, keepdims=True)
    d = p * (factors * (do @ v.swapaxes(2, 3)) - sums)
    shared = lambda x: x.reshape(B, 2, H // 2, KV, D).sum(2)
    world.close_to(dq, d @ k, 4e-3, 4e-3)
    world.close_to(dk, shared(d.swapaxes(2, 3) @ q), 4e-3, 4e-3)
    world.close_to(dv, ((factors * p).swapaxes(2, 3) @ do).sum(1, keepdims=True), 4e-3, 4e-3)


def test_gradients_with_a_sink(world):
    sink = world.random((1, H, 1, 1), "f32", "nchw", 0, 2)
    call = Backward(world, sink=sink, dsink=world.empty((1, H, 1, 1), "f32", "nchw"))
    q, k, v, do = (heads(call.memory[n]) for n in ("q", "k", "v", "dO"))
    s = q @ k.swapaxes(2, 3)
    stats = np.log(np.exp(s).sum(3, keepdims=True) + np.exp(sink))
    p, weight = np.exp(s - stats), np.exp(sink - stats)
    call.memory["o"][...], call.memory["stats"][...] = p @ v, stats
    dq, _, _ = call.run(sink_token=call.tensors["sink"], dSink_token=call.tensors["dsink"])
    sums = (do * (p @ v)).sum(3, keepdims=True)
    world.close_to(dq, p * (do @ v.swapaxes(2, 3) - sums) @ k, 4e-3, 4e-3)
    world.close_to(call.memory["dsink"], -(weight * sums).sum((0, 2), keepdims=True), 8e-3, 8e-3)


class Cap:
    """A callback and its gradient, which reads what the callback made."""

    def __call__(self, g, s):
        five = g.tensor_scalar(5.0, cudnn.scalar_type.COMPILE_TIME_CONST)
        self.before = g.div(s, five)
        return g.mul(g.tanh(self.before), five)

    def backward(self, g, d):
        return g.tanh_backward(d, self.before)


@pytest.mark.parametrize("has_own", [True, False])
def test_the_gradient_of_a_callback(world, has_own):
    cap, change = Cap(), lambda s: 5 * np.tanh(s / 5)
    call = Backward(world, change)
    got = call.run(score_mod=cap, **(dict(score_mod_bprop=cap.backward) if has_own else {}))
    *want, _ = call.wanted(change, lambda s, d: d * (1 - np.tanh(s / 5) ** 2), True)
    for found, one in zip(got, want):
        world.close_to(found, one, 4e-3, 4e-3)
    assert len(call.g.steps) == 1


def test_forward_and_backward_share_their_keys():
    g = cudnn.pygraph(io_data_type=T.HALF, intermediate_data_type=T.FLOAT)
    q, k, v = (g.tensor([1, 2, 4, 8], [64, 32, 8, 1]) for _ in range(3))
    o, stats = g.sdpa(q, k, v, generate_stats=True)
    o.set_output(True), stats.set_output(True).set_data_type(T.FLOAT)
    dq, dk, dv = g.sdpa_backward(q, k, v, o, g.tensor([1, 2, 4, 8], [64, 32, 8, 1]), stats)
    for t in (dq, dk, dv):
        t.set_output(True)
    g.validate()
    assert dk.get_dim() == [1, 2, 4, 8] and dk.get_stride() == [64, 32, 8, 1]
    with pytest.raises(BadParam, match="bias must be given with dBias; got None"):
        g.sdpa_backward(q, k, v, o, q, stats, dBias=g.tensor([1, 2, 4, 4], [32, 16, 4, 1]))


def test_statistics_by_a_logarithm_of_2(world):
    call = Called(world)
    o, stats = call.run(stats_use_log2=True, use_causal_mask=True)
    want = expected(*(call.memory[n] for n in "qkv"), seen=COL <= ROW)
    world.close_to(o, want[0], 3e-3, 3e-3)
    world.close_to(stats, want[1] / np.log(2), 3e-3, 3e-3)


def test_arguments_are_those_of_the_package():
    assert " ".join(inspect.signature(cudnn.pygraph.sdpa_backward).parameters) == (
        "self q k v o dO stats attn_scale bias dBias use_alibi_mask use_padding_mask seq_len_q seq_len_kv "
        "max_total_seq_len_q max_total_seq_len_kv use_causal_mask use_causal_mask_bottom_right "
        "sliding_window_length diagonal_alignment diagonal_band_left_bound diagonal_band_right_bound dropout "
        "rng_dump use_deterministic_algorithm compute_data_type name score_mod score_mod_bprop sink_token "
        "dSink_token implementation cu_seq_len_q cu_seq_len_kv")
