"""Attention by way of pygraph: every argument against the same mathematics in float64, on the references and
on the kernels in the interpreter; what is refused."""
from __future__ import annotations

import inspect

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.ops import Rng
from cydnn.status import BadParam
from support.guard.mirror import Mirror

from .worlds import Arrays

T, ALIGNMENT, Unsupported = cudnn.data_type, cudnn.diagonal_alignment, cudnn.cudnnGraphNotSupportedError
B, H, S, KV, D, DV = 2, 4, 9, 11, 8, 16
ROW, COL = np.arange(S)[:, None], np.arange(KV)


@pytest.fixture(scope="module", params=["numpy", "ptx:sm_80"])
def world(request):
    found = Arrays(Mirror("sm_80") if request.param.startswith("ptx") else "numpy")
    yield found
    found.close()


def heads(x):
    return np.repeat(x.astype(np.float64), H // x.shape[1], 1)


def expected(q, k, v, change=lambda s: s, seen=True):
    """(o, stats), with NaN where stats are -inf."""
    s = np.where(seen, change(heads(q) @ heads(k).swapaxes(2, 3)), -np.inf)
    top = np.maximum(s.max(3, keepdims=True), -1e300)
    total = np.exp(s - top).sum(3, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.exp(s - top) / np.maximum(total, 1e-300) @ heads(v), np.log(total) + top


def strides(x):
    return [s // x.itemsize for s in x.strides]


class Called:
    """A graph with one call of sdpa. ``memory``: arrays by name, for ``tensors`` of the same names."""

    def __init__(self, w, layout="bhsd", **memory):
        self.w, order = w, dict(bhsd=(0, 1, 2, 3), bshd=(0, 2, 1, 3))[layout]
        dims = dict(q=(B, H, S, D), k=(B, 2, KV, D), v=(B, 1, KV, DV), o=(B, H, S, DV))
        made = lambda d: w.random(tuple(d[a] for a in order), "f16", "nchw").transpose(np.argsort(order))
        self.memory = {name: made(d) for name, d in dims.items()} | memory
        self.memory["stats"] = w.empty((B, H, S, 1), "f32", "nchw")
        self.g = cudnn.pygraph(io_data_type=T.HALF, intermediate_data_type=T.FLOAT,
                               compute_data_type=T.FLOAT, handle=w.handle)
        self.tensors = {name: self.g.tensor(x.shape, strides(x), KINDS[x.dtype.name], name=name)
                        for name, x in self.memory.items() if name not in ("o", "stats")}

    def run(self, **options):
        """(o, stats)"""
        q, k, v = (self.tensors[n] for n in "qkv")
        o, stats = self.g.sdpa(q=q, k=k, v=v, generate_stats=True, **options)
        x = self.memory["o"]
        o.set_output(True).set_dim(x.shape).set_stride(strides(x))
        stats.set_output(True).set_data_type(T.FLOAT)
        self.g.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        used = {self.tensors.get(n, {"o": o, "stats": stats}.get(n)): x for n, x in self.memory.items()}
        self.g.execute(used, self.w.workspace(self.g.get_workspace_size()))
        return self.memory["o"], self.memory["stats"]

    def close_to(self, options, *want):
        got = self.run(**options)
        want = expected(*(self.memory[n] for n in "qkv"), *want)
        for found, one in zip(got, want):
            self.w.close_to(found, one, 3e-3, 3e-3)


KINDS = dict(float16=T.HALF, float32=T.FLOAT, int32=T.INT32, int64=T.INT64)
BANDS = [
    (dict(use_causal_mask=True), COL <= ROW), (dict(diagonal_band_right_bound=2), COL <= ROW + 2),
    (dict(use_causal_mask_bottom_right=True), COL <= ROW + KV - S),
    (dict(diagonal_band_left_bound=3, diagonal_band_right_bound=0), (COL <= ROW) & (COL + 3 > ROW)),
    (dict(sliding_window_length=2, use_causal_mask=True), (COL <= ROW) & (COL + 2 > ROW)),
    (dict(diagonal_alignment=ALIGNMENT.BOTTOM_RIGHT, diagonal_band_left_bound=1,
          diagonal_band_right_bound=1), (COL <= ROW + KV - S + 1) & (COL + 1 > ROW + KV - S))]


@pytest.mark.filterwarnings("error")             # arrays are what the tensors say
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("options, seen", BANDS, ids=lambda x: "-".join(x) if isinstance(x, dict) else "")
def test_bounds(world, options, seen, layout):
    Called(world, layout).close_to({**options, "attn_scale": 0.5}, lambda s: 0.5 * s, seen)


def test_bias_alibi_and_a_scale_that_is_a_tensor(world):
    bias = world.random((1, H, S, KV), "f32", "nchw")
    call = Called(world, bias=bias, scale=np.full((1, 1, 1, 1), 0.25, np.float32))
    slopes = np.reshape(2.0 ** (-2 * np.arange(1, H + 1)), (H, 1, 1))
    call.close_to(dict(bias=call.tensors["bias"], use_alibi_mask=True, attn_scale=call.tensors["scale"],
                       use_causal_mask=True), lambda s: s / 4 + bias + slopes * (COL - ROW), COL <= ROW)


@pytest.mark.parametrize("kind, rank", [(np.int32, 4), (np.int64, 1)])
def test_lengths(world, kind, rank):
    """Of 64 bits too, as torch makes whole numbers, and of one dim."""
    q, kv = (np.reshape(kind(n), (B, 1, 1, 1)[:rank]) for n in ((S, 4), (7, 0)))
    call = Called(world, seq_q=q, seq_kv=kv)
    for name, length in (("k", 7), ("v", 7)):
        call.memory[name][0, :, length:] = call.memory[name][1] = np.nan
    o, stats = call.run(use_padding_mask=True, seq_len_q=call.tensors["seq_q"],
                        seq_len_kv=call.tensors["seq_kv"], use_causal_mask_bottom_right=True)
    q, kv = (x.reshape(B, 1, 1, 1) for x in (q, kv))
    clean = [np.nan_to_num(call.memory[n]) for n in "qkv"]
    want = expected(*clean, seen=(COL < kv) & (ROW < q) & (COL <= ROW + kv - q))
    world.close_to(o, want[0], 3e-3, 3e-3)
    np.testing.assert_array_equal(np.isinf(stats), np.isinf(want[1]))
    assert np.isinf(stats[0, :, :2]).all() and np.isfinite(stats[0, :, 2:]).all()


def test_a_sink_and_sums_apart(world):
    sink = world.random((1, H, 1, 1), "f32", "nchw")
    apart = {n: world.empty((B, H, S, 1), "f32", "nchw") for n in ("top", "total")}
    call = Called(world, sink=sink, **apart)
    o, stats = call.run(sink_token=call.tensors["sink"], score_max=call.tensors["top"], use_causal_mask=True,
                        score_sum_exp=call.tensors["total"])
    s = np.where(COL <= ROW, heads(call.memory["q"]) @ heads(call.memory["k"]).swapaxes(2, 3), -np.inf)
    top = np.maximum(s.max(3, keepdims=True), sink)
    total = np.exp(s - top).sum(3, keepdims=True) + np.exp(sink - top)
    for found, want in ((o, np.exp(s - top) / total @ heads(call.memory["v"])), (stats, np.log(total) + top),
                        (apart["top"], top), (apart["total"], total)):
        world.close_to(found, want, 3e-3, 3e-3)


def test_keys_in_pages(world):
    """Tables that name pages in any order, none, and one that there is not behind the length."""
    tables = dict(tk=np.array([[3, 0, 5], [2, 4, -1]]), tv=np.array([[1, 2], [0, 99]]))
    tables = {n: x.astype(np.int32).reshape(B, 1, -1, 1) for n, x in tables.items()}
    lengths = {n: np.reshape(np.int32(x), (B, 1, 1, 1)) for n, x in (("lq", (S, 5)), ("lkv", (KV, 7)))}
    call = Called(world, k=world.random((6, 2, 4, D), "f16", "nchw"),
                  v=world.random((3, 1, 8, DV), "f16", "nchw"), **tables, **lengths)
    o, stats = call.run(use_padding_mask=True, seq_len_q=call.tensors["lq"], seq_len_kv=call.tensors["lkv"],
                        paged_attention_k_table=call.tensors["tk"], paged_attention_max_seq_len_kv=KV,
                        paged_attention_v_table=call.tensors["tv"])
    gather = lambda name, table: call.memory[name][np.maximum(table[:, 0, :, 0], 0) % 6 % len(
        call.memory[name])].swapaxes(1, 2).reshape(B, call.memory[name].shape[1], -1,
                                                   call.memory[name].shape[3])[:, :, :KV]
    k, v = gather("k", tables["tk"]), gather("v", tables["tv"])
    want = expected(call.memory["q"], k, v, seen=(COL < lengths["lkv"]) & (ROW < lengths["lq"]))
    world.close_to(o, want[0], 3e-3, 3e-3)
    world.close_to(stats, want[1], 3e-3, 3e-3)


@pytest.mark.parametrize("wide, ahead", [(np.int32, 4), (np.int64, 4), (np.int32, 0)])
def test_ragged_batches(world, wide, ahead):
    """Batches behind each other; what lies beside them is not touched, nor read. Where they begin at
    element 0, their offsets count tokens."""
    n = dict(q=(5, S), k=(KV, 3), v=(KV, 3), o=(5, S))
    width = dict(q=H * D, k=2 * D, v=DV, o=H * DV)
    g = cudnn.pygraph(io_data_type=T.HALF, intermediate_data_type=T.FLOAT, compute_data_type=T.FLOAT,
                      handle=world.handle)
    pack, tensors, flat = {}, {}, {}
    for name, heads_, size, rows_ in (("q", H, D, S), ("k", 2, D, KV), ("v", 1, DV, KV), ("o", H, DV, S)):
        times = 1 if ahead else width[name]
        at = ahead + np.concatenate([[0], np.cumsum(n[name])]) * width[name]
        flat[name] = np.full(at[-1] + 16, np.nan, np.float16)
        flat[name][ahead:at[-1]] = world.random((at[-1] - ahead,), "f16", "nchw")
        offsets = g.tensor([B + 1, 1, 1, 1], [1, 1, 1, 1], T.INT32 if wide is np.int32 else T.INT64)
        pack[offsets] = (at // times).astype(wide).reshape(-1, 1, 1, 1)
        tensors[name] = g.tensor([B, heads_, rows_, size], [rows_ * width[name], size, width[name], 1],
                                 ragged_offset=offsets, name=name, ragged_offset_multiplier=times)
        pack[tensors[name]] = flat[name]
    lengths = [g.tensor([B, 1, 1, 1], [1, 1, 1, 1], T.INT32) for _ in range(2)]
    pack |= {t: np.reshape(np.int32(n[name]), (B, 1, 1, 1)) for t, name in zip(lengths, "qk")}
    o, _ = g.sdpa(tensors["q"], tensors["k"], tensors["v"], generate_stats=False, use_padding_mask=True,
                  seq_len_q=lengths[0], seq_len_kv=lengths[1], use_causal_mask_bottom_right=True)
    o.like(tensors["o"]).set_output(True).set_name("O")
    before, pack[o] = flat["o"].copy(), flat["o"]
    g.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    g.execute(pack, world.workspace(g.get_workspace_size()))
    start = dict.fromkeys(n, ahead)
    for batch in range(B):
        one = {}
        for name in n:
            rows_, size = n[name][batch], dict(q=D, k=D, v=DV, o=DV)[name]
            end = start[name] + rows_ * width[name]
            one[name] = flat[name][start[name]:end].reshape(1, rows_, -1, size).swapaxes(1, 2)
            start[name] = end
        s_q, s_kv = n["q"][batch], n["k"][batch]
        seen = np.arange(s_kv) <= np.arange(s_q)[:, None] + s_kv - s_q
        world.close_to(one["o"], expected(one["q"], one["k"], one["v"], seen=seen)[0], 3e-3, 3e-3)
    np.testing.assert_array_equal(flat["o"][start["o"]:], before[start["o"]:])
    np.testing.assert_array_equal(flat["o"][:ahead], before[:ahead])


def capped(g, s):
    """What a user's callback looks like: a cap, then keys before the row left out."""
    five = g.tensor_scalar(5.0, cudnn.scalar_type.COMPILE_TIME_CONST)
    least = g.tensor_scalar(float("-inf"), cudnn.scalar_type.COMPILE_TIME_CONST)
    s = g.mul(a=g.tanh(g.div(a=s, b=five)), b=five)
    row, col = g.gen_index(s, axis=2), g.gen_index(s, axis=3)
    keep = g.cmp_ge(input=row, comparison=col, name="keep").set_data_type(T.BOOLEAN)
    return g.binary_select(input0=s, input1=least, mask=keep)


def test_a_callback_changes_the_scores(world):
    call = Called(world)
    call.close_to(dict(score_mod=capped), lambda s: 5 * np.tanh(s / 5), COL <= ROW)
    assert len(call.g.steps) == 1 and len(call.g.graph.nodes) == 1


def test_a_callback_reads_tensors_and_numbers_of_the_graph(world):
    call = Called(world, mine=world.random((1, H, 1, 1), "f32", "nchw"))
    mine = call.memory["mine"]
    number = call.g.tensor([1, 1, 1, 1], [1, 1, 1, 1], T.FLOAT, is_pass_by_value=True)
    call.tensors["number"], call.memory["number"] = number, 0.5
    call.close_to(dict(score_mod=lambda g, s: g.mul(g.add(s, call.tensors["mine"]), number)),
                  lambda s: (s + mine) * 0.5)


def test_a_graph_with_attention_comes_back_from_paper(world):
    call = Called(world, bias=world.random((1, H, S, KV), "f16", "nchw"))
    o, _ = call.run(bias=call.tensors["bias"], attn_scale=0.5)
    want, names = o.copy(), {t.get_name(): t.get_uid() for t in call.g._tensors}
    pack = {t.get_uid(): call.memory[n] for n, t in call.tensors.items()}
    pack |= {names["sdpa.0::O"]: o, names["sdpa.0::Stats"]: call.memory["stats"]}
    for stored in (bytes(call.g.serialize()), repr(call.g)):
        again = cudnn.pygraph(handle=world.handle)
        again.deserialize(stored)
        if isinstance(stored, str):
            again.build([cudnn.heur_mode.A])
        o[...] = 0
        again.execute(pack, world.workspace(again.get_workspace_size()))
        np.testing.assert_array_equal(o, want)
        assert again.query_tensor_attributes_of_uid(names["k"]).get_dim() == [B, 2, KV, D]


def made(world, values):
    """An array in the memory of the world."""
    kinds = {"i8": "i64", "i4": "i32", "f4": "f32", "u1": "u8"}
    x = world.empty(values.shape, kinds[values.dtype.str[1:]], "nchw")
    x[...] = values
    return x


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_dropout_and_what_it_keeps(world, share):
    """Weights that rng_dump calls kept grow by 1 / (1 - share); what is kept is what ``rng`` draws."""
    one = (1, 1, 1, 1)
    call = Called(world, dump=world.empty((B, H, S, KV), "f32", "nchw"),
                  seed=made(world, np.full(one, 7, "i8")), start=made(world, np.full(one, 3, "i4")))
    dump = call.tensors["dump"].set_output(True)
    o, stats = call.run(dropout=(share, call.tensors["seed"], call.tensors["start"]), rng_dump=dump)
    kept, (q, k, v) = call.memory["dump"], (call.memory[n] for n in "qkv")
    want = Rng(probability=1 - share).reference(7, 3, dict(y=kept.shape))["y"]
    np.testing.assert_array_equal(kept, want)
    _, sums = expected(q, k, v)
    weights = np.exp(heads(q) @ heads(k).swapaxes(2, 3) - sums) * kept / max(1 - share, 1e-9)
    world.close_to(o, weights @ heads(v), 3e-3, 3e-3)
    world.close_to(stats, sums, 3e-3, 3e-3)


@pytest.mark.parametrize("is_number", [False, True])
def test_dropout_by_a_mask(world, is_number):
    mask = world.random((B, 1, S, KV), "f32", "nchw")
    call = Called(world, mask=mask, factor=made(world, np.full((1, 1, 1, 1), 1.5, "f")))
    o, _ = call.run(dropout=(call.tensors["mask"], 1.5 if is_number else call.tensors["factor"]))
    q, k, v = (call.memory[n] for n in "qkv")
    weights = np.exp(heads(q) @ heads(k).swapaxes(2, 3) - expected(q, k, v)[1]) * mask * 1.5
    world.close_to(o, weights @ heads(v), 3e-3, 3e-3)


def test_a_mask_of_blocks(world):
    """128 queries and keys a bit, the lowest first."""
    rows, g = 130, cudnn.pygraph(io_data_type=T.HALF, compute_data_type=T.FLOAT, handle=world.handle)
    q, k, v = (world.random((1, 1, rows, 8), "f16", "nchw") for _ in range(3))
    bits = made(world, np.array([[[[2], [1]]]], "u1"))
    tensors = [g.tensor(x.shape, strides(x), T.UINT8 if x is bits else T.HALF) for x in (q, k, v, bits)]
    o, _ = g.sdpa(*tensors[:3], generate_stats=False, block_mask=tensors[3])
    o.set_output(True)
    g.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    out = world.empty((1, 1, rows, 8), "f16", "nchw")
    g.execute(dict(zip([*tensors, o], [q, k, v, bits, out])), world.workspace(g.get_workspace_size()))
    late = np.arange(rows) >= 128
    seen = late[:, None] != late
    s = np.where(seen, q[0, 0].astype(float) @ k[0, 0].astype(float).T, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    world.close_to(out[0, 0], p / p.sum(1, keepdims=True) @ v[0, 0].astype(float), 3e-3, 3e-3)


@pytest.mark.parametrize("kind, rank", [("i4", 4), ("i8", 1)])
def test_lengths_as_sums(world, kind, rank):
    """cu_seq_len: where each batch would begin, were they one behind the other."""
    sums = {f"cu_{n}": made(world, np.array([0, *np.cumsum(c)], kind).reshape(-1, *[1] * (rank - 1)))
            for n, c in dict(q=(4, 9), kv=(11, 3)).items()}
    call = Called(world, **sums)
    call.close_to(dict(use_padding_mask=True, cu_seq_len_q=call.tensors["cu_q"],
                       cu_seq_len_kv=call.tensors["cu_kv"]), lambda s: s,
                  (ROW < np.reshape([4, 9], (2, 1, 1, 1))) & (COL < np.reshape([11, 3], (2, 1, 1, 1))))


def test_keys_that_others_read_and_that_an_operation_makes(world):
    """Keys that are the values too, and keys that another operation writes: views, no launch."""
    x, y = (world.random((B, H, S, D), "f16", "nchw") for _ in range(2))
    for power in (1, 2):
        g = cudnn.pygraph(io_data_type=T.HALF, intermediate_data_type=T.FLOAT, compute_data_type=T.FLOAT,
                          handle=world.handle)
        q, k = (g.tensor(a.shape, strides(a)) for a in (x, y))
        o, _ = g.sdpa(q, k if power == 1 else g.mul(k, k), k, generate_stats=False)
        out = world.empty(x.shape, "f16", "nchw")
        o.set_output(True)
        g.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        g.execute({q: x, k: y, o: out}, world.workspace(g.get_workspace_size()))
        world.close_to(out, expected(x, y.astype(float) ** power, y)[0], 3e-3, 3e-3)
        choice = g.plan.layout.choice
        assert choice.facts.kind == "numpy" or len(list(choice.steps)) == power, g.explain()


def test_arguments_are_those_of_the_package():
    names = list(inspect.signature(cudnn.pygraph.sdpa).parameters)
    assert cudnn.pygraph.scaled_dot_product_flash_attention is cudnn.pygraph.sdpa
    assert " ".join(names[1:]) == (
        "q k v is_inference attn_scale bias block_mask use_alibi_mask use_padding_mask seq_len_q seq_len_kv "
        "use_causal_mask use_causal_mask_bottom_right sliding_window_length diagonal_alignment "
        "diagonal_band_left_bound diagonal_band_right_bound dropout rng_dump paged_attention_k_table "
        "paged_attention_v_table paged_attention_max_seq_len_kv max_total_seq_len_q max_total_seq_len_kv "
        "compute_data_type name score_mod generate_stats implementation score_max score_sum_exp sink_token "
        "unfuse_fma cu_seq_len_q cu_seq_len_kv stats_use_log2 softmax_precision")
