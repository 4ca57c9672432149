"""Attention of operands of 8 bits in a pygraph: ``sdpa`` with scales around it."""
from __future__ import annotations

from contextlib import contextmanager
from math import inf

from ..given import function
from ..status import CydnnError
from .attention import AUTO, NOT_SET, TOP_LEFT, keeps_stats
from .enums import data_type, reduction_mode, scalar_type
from .tensor import tensor

GRADIENTS = ("dQ", "dK", "dV")
WORDS = dict(sliding_window_length="sliding_window", diagonal_band_left_bound="left_bound",
             diagonal_band_right_bound="right_bound", score_mod="fn")    # of sdpa: what it is called here


class Attention8Operations:
    """Scaled dot product attention whose operands stand for ``descale`` times what they hold."""

    def sdpa_fp8(self, q, k, v, descale_q, descale_k, descale_v, descale_s, scale_s, scale_o,
                 is_inference=None, attn_scale=None, bias=None, use_alibi_mask=False, use_padding_mask=False,
                 seq_len_q=None, seq_len_kv=None, use_causal_mask=False, use_causal_mask_bottom_right=False,
                 sliding_window=None, diagonal_alignment=TOP_LEFT, left_bound=None, right_bound=None,
                 dropout=None, rng_dump=None, paged_attention_k_table=None, paged_attention_v_table=None,
                 paged_attention_max_seq_len_kv=None, max_total_seq_len_q=None, max_total_seq_len_kv=None,
                 compute_data_type=NOT_SET, name="", fn=None, generate_stats=None, score_max=None,
                 score_sum_exp=None, sink_token=None, unfuse_fma=False, implementation=AUTO,
                 cu_seq_len_q=None, cu_seq_len_kv=None, stats_use_log2=False):
        """[O, Stats or None, Amax_S, Amax_O]: ``sdpa`` of descale_q * q, descale_k * k, descale_v * v, times
        scale_s * descale_s, as O * scale_o; the largest weight, and the largest |O| before scale_o. Weights
        are rounded to 8 bits, by a scale of their own, where tensor cores multiply these; else they stay as
        they are. ``fn``: what ``sdpa`` calls score_mod."""
        name = self._named("sdpa_fp8", name)
        keeps = keeps_stats(name, is_inference, generate_stats)
        scales = dict(descale_q=descale_q, descale_k=descale_k, descale_v=descale_v, descale_s=descale_s,
                      scale_s=scale_s, scale_o=scale_o)
        for argument, t in scales.items():
            self._mine(name, argument, t)
        most = paged_attention_max_seq_len_kv if paged_attention_k_table is not None else None
        asked = (q, k, v, None, attn_scale, bias, None, use_alibi_mask, use_padding_mask, seq_len_q,
                 seq_len_kv, use_causal_mask, use_causal_mask_bottom_right, sliding_window,
                 diagonal_alignment, left_bound, right_bound)
        more = dict(paged_attention_k_table=paged_attention_k_table, paged_attention_max_seq_len_kv=most,
                    paged_attention_v_table=paged_attention_v_table, compute_data_type=compute_data_type,
                    max_total_seq_len_q=max_total_seq_len_q, max_total_seq_len_kv=max_total_seq_len_kv,
                    score_mod=_descaled(name, fn, descale_q, descale_k), implementation=implementation,
                    unfuse_fma=unfuse_fma, cu_seq_len_q=cu_seq_len_q, cu_seq_len_kv=cu_seq_len_kv)
        with self._whole(), self._in_own_words(name):
            sums = score_sum_exp if score_sum_exp is not None else self._row()
            o, stats = self.sdpa(*asked, dropout, rng_dump, name=f"{name}::SDPA", score_max=score_max,
                                 generate_stats=keeps or sink_token is not None, score_sum_exp=sums,
                                 sink_token=sink_token, **more)
            amax_s = self._spare(lambda: self._largest_weight(name, sums) if sink_token is None else
                                 self._largest_beside(name, stats, asked, more))
            o = self._by(name, o.set_data_type(data_type.FLOAT), descale_v=descale_v, scale_s=scale_s,
                         descale_s=descale_s)
            amax_o = self._amax(f"{name}::Amax_O", o)
            out = self.mul(o, scale_o, compute_data_type, name).set_name(f"{name}::O")
            return [out, self._in_log2(name, stats if keeps else None, stats_use_log2), amax_s, amax_o]

    def sdpa_fp8_backward(self, q, k, v, o, dO, stats, descale_q, descale_k, descale_v, descale_o, descale_dO,
                          descale_s, descale_dP, scale_s, scale_dQ, scale_dK, scale_dV, scale_dP,
                          attn_scale=None, use_padding_mask=False, seq_len_q=None, seq_len_kv=None,
                          use_causal_mask=False, use_causal_mask_bottom_right=False,
                          diagonal_alignment=TOP_LEFT, left_bound=None, right_bound=None,
                          use_deterministic_algorithm=False, dropout=None, compute_data_type=NOT_SET, name="",
                          sink_token=None, dSink_token=None, max_total_seq_len_q=None,
                          max_total_seq_len_kv=None):
        """[dQ, dK, dV, Amax_dQ, Amax_dK, Amax_dV, Amax_dP]: ``sdpa_backward`` of what the operands stand for,
        descale_q * q and so on, each gradient times its scale; the largest gradients before that, and the
        largest of q @ k^T. Weights and gradients of scores are not rounded to 8 bits on their way: dV has the
        factor scale_s * descale_s, dQ and dK scale_dP * descale_dP."""
        name = self._named("sdpa_fp8_backward", name)
        factors = dict(descale_s=descale_s, descale_dP=descale_dP, scale_s=scale_s, scale_dP=scale_dP)
        for argument, t in factors.items():
            self._mine(name, argument, t)
        with self._whole(), self._in_own_words(name):
            stand = dict(q=descale_q, k=descale_k, v=descale_v, o=descale_o, dO=descale_dO)
            read = [self._by(name, self._mine(name, argument, t), **{f"descale_{argument}": stand[argument]})
                    for argument, t in dict(q=q, k=k, v=v, o=o, dO=dO).items()]
            made = self.sdpa_backward(
                *read, stats, attn_scale, None, None, False, use_padding_mask, seq_len_q, seq_len_kv,
                max_total_seq_len_q, max_total_seq_len_kv, use_causal_mask, use_causal_mask_bottom_right,
                None, diagonal_alignment, left_bound, right_bound, dropout, None, use_deterministic_algorithm,
                compute_data_type, f"{name}::SDPA", sink_token=sink_token, dSink_token=dSink_token)
            peak = self._row()
            self._also(name, peak=("Amax_dP", peak))
            of_scores = dict(scale_dP=scale_dP, descale_dP=descale_dP)
            own = (of_scores, of_scores, dict(scale_s=scale_s, descale_s=descale_s))
            grads = [self._by(f"{name}::{end}", t.set_data_type(data_type.FLOAT), **those)
                     for end, t, those in zip(GRADIENTS, made, own)]
            scaled = [self.mul(t, self._mine(name, f"scale_{end}", scale), compute_data_type,
                               f"{name}::{end}").set_name(f"{name}::{end}")
                      for end, t, scale in zip(GRADIENTS, grads, (scale_dQ, scale_dK, scale_dV))]
            most = [self._amax(f"{name}::Amax_{end}", t) for end, t in zip(GRADIENTS, grads)]
            return [*scaled, *most, self._amax(f"{name}::Amax_dP", peak)]

    @contextmanager
    def _in_own_words(self, name):
        """What the attention inside of a call refuses, now or when the graph is validated, in the words of
        the call."""
        first, inside = len(self.steps), f"{name}::SDPA"
        try:
            yield
        except CydnnError as error:
            raise error.within(name, inside, WORDS) if error.facts["node"] == inside else error
        for step in self.steps[first:]:
            step.words = {o: WORDS.get(word, word) for o, word in step.words.items()}

    def _by(self, name, t, **factors) -> tensor:
        """A tensor times numbers of the graph, in 32 bits."""
        for argument, factor in factors.items():
            t = self.mul(t, factor, name=f"{name}::{argument}").set_data_type(data_type.FLOAT)
        return t

    def _spare(self, make):
        """What ``make`` makes, whose operations are left out where nobody asks for it."""
        first = len(self.steps)
        made = make()
        for step in self.steps[first:]:
            step.is_spare = True
        return made

    def _row(self) -> tensor:
        """A virtual tensor of numbers of 32 bits, for what an operation is asked for besides."""
        return self._added(tensor().set_is_virtual(True).set_data_type(data_type.FLOAT))

    def _amax(self, name, t) -> tensor:
        found = self.reduction(t, reduction_mode.AMAX, name=name).set_name(name)
        return found.set_dim([1, 1, 1, 1]).set_stride([1, 1, 1, 1]).set_data_type(data_type.FLOAT)

    def _largest_weight(self, name, sums) -> tensor:
        """Of each row 1 / its sum, as the largest score is subtracted; 0 of a row without a key."""
        zero, one = (self.tensor_scalar(n, scalar_type.COMPILE_TIME_CONST) for n in (0.0, 1.0))
        has_keys = self.cmp_gt(sums, zero, name=f"{name}::has_keys").set_data_type(data_type.BOOLEAN)
        safe = self.binary_select(sums, one, has_keys, name=f"{name}::safe").set_data_type(data_type.FLOAT)
        weight = self.reciprocal(safe, name=f"{name}::weight").set_data_type(data_type.FLOAT)
        weight = self.binary_select(weight, zero, has_keys, name=f"{name}::weights")
        return self._amax(f"{name}::Amax_S", weight.set_data_type(data_type.FLOAT))


    def _largest_beside(self, name, stats, asked, more) -> tensor:
        """The largest weight where a sink takes part in the sums: exp of the largest score of a key, which
        attention without the sink gives, less ``stats``. Dropped where nobody asks for it."""
        top = self._row()
        self.sdpa(*asked, name=f"{name}::SCORES", generate_stats=False, score_max=top, **more)
        zero, none = (self.tensor_scalar(n, scalar_type.COMPILE_TIME_CONST) for n in (0.0, -inf))
        has_keys = self.cmp_neq(top, none, name=f"{name}::has_keys").set_data_type(data_type.BOOLEAN)
        weight = self.exp(self.sub(top, stats, name=f"{name}::exponents"), name=f"{name}::weight")
        weight = self.binary_select(weight, zero, has_keys, name=f"{name}::weights")
        return self._amax(f"{name}::Amax_S", weight.set_data_type(data_type.FLOAT))


def _descaled(name, fn, descale_q, descale_k):
    """The callback of the scores: what q and k stand for, then the caller's own."""
    if fn is not None:
        function(f"{name}: fn", fn)

    def change(graph, scores):
        scores = graph.mul(graph.mul(scores, descale_q), descale_k)
        return scores if fn is None else fn(graph, scores)
    return change
