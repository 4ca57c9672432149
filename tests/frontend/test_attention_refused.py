"""What attention by way of pygraph refuses, in the words of the call."""
from __future__ import annotations

import pytest

import cydnn.frontend as cudnn
from cydnn.status import BadParam

T, ALIGNMENT, Unsupported = cudnn.data_type, cudnn.diagonal_alignment, cudnn.cudnnGraphNotSupportedError


def one(g, **more):
    q, k = g.tensor([1, 2, 4, 8], [64, 32, 8, 1], T.HALF), g.tensor([1, 2, 4, 8], [64, 32, 8, 1], T.HALF)
    return g.sdpa(q, k, g.tensor([1, 2, 4, 8], [64, 32, 8, 1], T.HALF), **{"generate_stats": False, **more})


def lengths(g):
    return g.tensor([1, 1, 1, 1], [1, 1, 1, 1], T.INT32)


REFUSED = [
    (BadParam, "generate_stats must be given, or is_inference in its place; got neither",
     dict(generate_stats=None)),
    (BadParam, "generate_stats must be given, .* got both", dict(is_inference=True)),
    (BadParam, "seq_len_q and seq_len_kv must be given with use_padding_mask; got neither",
     dict(use_padding_mask=True)),
    (BadParam, "use_padding_mask must be True where lengths are given; got seq_len_q",
     dict(seq_len_q=lengths)),
    (BadParam, "use_causal_mask must not be given with use_causal_mask_bottom_right; got both",
     dict(use_causal_mask=True, use_causal_mask_bottom_right=True)),
    (BadParam, "diagonal_band_right_bound must be 0 or None with use_causal_mask; got 3",
     dict(use_causal_mask=True, diagonal_band_right_bound=3)),
    (BadParam, "diagonal_alignment must be TOP_LEFT with use_causal_mask; got BOTTOM_RIGHT",
     dict(use_causal_mask=True, diagonal_alignment=ALIGNMENT.BOTTOM_RIGHT)),
    (BadParam, "sliding_window_length must not be given with diagonal_band_left_bound; got 2 and 3",
     dict(sliding_window_length=2, diagonal_band_left_bound=3)),
    (BadParam, "diagonal_alignment must be one of diagonal_alignment.TOP_LEFT", dict(diagonal_alignment=1)),
    (BadParam, "score_mod must be a function; got 3", dict(score_mod=3)),
    (BadParam, "score_mod must return a tensor that it made of what it got; got None",
     dict(score_mod=lambda g, s: None)),
    (BadParam, "score_mod must have indices along the dims 0 to 3; got axis 4",
     dict(score_mod=lambda g, s: g.gen_index(s, 4))),
    (BadParam, "attn_scale must be a number", dict(attn_scale="x")),
    (Unsupported, "score_mod must add pointwise operations alone, .* got matmul",
     dict(score_mod=lambda g, s: g.matmul(s, s))),
    (Unsupported, "score_mod must add pointwise operations alone, .* got output",
     dict(score_mod=lambda g, s: g.neg(s).set_output(True))),
    (Unsupported, "sliding_window_length must be at least 1; got 0", dict(sliding_window_length=0)),
    (Unsupported, "diagonal_band_right_bound must be at least 0; got -1", dict(diagonal_band_right_bound=-1)),
    (BadParam, r"dropout must be \(probability, seed, offset\), or \(mask, scale\) of tensors; got 0.1",
     dict(dropout=0.1)),
    (BadParam, "dropout must be .*the probability 0 to 1; got", dict(dropout=(1.5, 1, 2))),
    (BadParam, "dropout's seed must be a whole number of at most 64 bits; got 0.5",
     dict(dropout=(0.1, 0.5, 2))),
    (BadParam, r"rng_dump must be given with dropout's \(probability, seed, offset\); got dropout None",
     dict(rng_dump=3)),
    (BadParam, "cu_seq_len_q must not be given with seq_len_q; got both",
     dict(seq_len_q=lengths, cu_seq_len_q=3)),
    (Unsupported, "bias must be of numbers; got BOOLEAN",
     dict(bias=lambda g: g.tensor([1, 1, 4, 4], [16, 16, 4, 1], T.BOOLEAN)))]


@pytest.mark.parametrize("error, sentence, options", REFUSED, ids=[r[1][:40] for r in REFUSED])
def test_what_is_refused(error, sentence, options):
    g = cudnn.pygraph()
    made = {n: v(g) if n in ("seq_len_q", "bias") else v for n, v in options.items()}
    with pytest.raises(error, match=f"sdpa.0: .*{sentence}"):
        one(g, **made)
    assert not g.steps and len(g._tensors) == 3 + len({"seq_len_q", "bias"} & {*options})


@pytest.mark.parametrize("sentence, operand, options", [
    ("paged_attention_v_table must be given with paged_attention_k_table, and .*; got one",
     "paged_attention_v_table", dict(paged_attention_k_table=[1, 1, 1, 1])),
    ("paged_attention_max_seq_len_kv must not be given without paged_attention_k_table; got 4", None,
     dict(paged_attention_max_seq_len_kv=4)),
    ("k must have heads of 8 elements like q; got 16", "k", dict(k=[1, 2, 4, 16])),
    (r"bias must broadcast to \(1, 2, 4, 4\), the dims of the scores; got", "bias", dict(bias=[1, 1, 4, 5])),
    (r"dropout must broadcast to \(1, 2, 4, 4\)", "dropout", dict(dropout=[[1, 1, 4, 5], 2.0]))])
def test_what_validate_refuses_is_named_as_it_was_given(sentence, operand, options):
    g = cudnn.pygraph(io_data_type=T.HALF, intermediate_data_type=T.FLOAT)
    given = dict(q=[1, 2, 4, 8], k=[1, 2, 4, 8], v=[1, 2, 4, 8]) | options
    given = {n: g.tensor(v) if n != "dropout" and isinstance(v, list) else v for n, v in given.items()}
    if mask := given.pop("dropout", None):
        given["dropout"] = g.tensor(mask[0]), mask[1]
    g.sdpa(**given, generate_stats=True)
    with pytest.raises(BadParam, match=f"sdpa.0: {sentence}") as caught:
        g.validate()
    assert caught.value.facts["operand"] == operand


def test_sums_of_lengths_have_one_more_than_batches():
    for kind, count in ((T.HALF, 2), (T.INT32, 1), (T.INT32, 3)):
        g = cudnn.pygraph()
        with pytest.raises(BadParam, match=r"cu_seq_len_q must be INT32 or INT64 of dim \[2\], batches "
                                           rf"\+ 1; got {kind.name} of \[{count}, 1, 1, 1\]"):
            one(g, cu_seq_len_q=g.tensor([count, 1, 1, 1], [1, 1, 1, 1], kind))


def test_alibi_needs_the_heads():
    g = cudnn.pygraph(io_data_type=T.HALF, intermediate_data_type=T.FLOAT)
    x = g.tensor([1, 2, 4, 8], [64, 32, 8, 1])
    with pytest.raises(BadParam, match="q must have its dim of rank 4 set where ALiBi is used"):
        g.sdpa(g.reshape(x), x, x, generate_stats=False, use_alibi_mask=True)


@pytest.mark.parametrize("pages, most, keys", [(0, None, 4), (3, None, 12), (3, 9, 9)])
def test_what_is_kept_has_the_dim_of_the_scores(pages, most, keys):
    """Keys in pages too."""
    g = cudnn.pygraph(io_data_type=T.HALF, intermediate_data_type=T.FLOAT)
    table = g.tensor([2, 1, pages, 1], data_type=T.INT32) if pages else None
    q, k = g.tensor([2, 4, 9, 8]), g.tensor([6 if pages else 2, 2, 4, 8])
    call = lambda dump: g.sdpa(q, k, k, generate_stats=False, dropout=(0.5, 1, 2), rng_dump=dump,
                               paged_attention_k_table=table, paged_attention_v_table=table,
                               paged_attention_max_seq_len_kv=most)
    with pytest.raises(BadParam, match=rf"sdpa.0: rng_dump must have dim \[2, 4, 9, {keys}\], that of the "
                                       rf"scores; got \[2, 4, 9, {keys + 1}\]"):
        call(g.tensor([2, 4, 9, keys + 1], data_type=T.FLOAT))
    dump = g.tensor((), data_type=T.FLOAT)
    call(dump)
    assert dump.get_dim() == [2, 4, 9, keys] and g.validate() is None
