"""Attention of operands of 8 bits in a pygraph: ``sdpa`` with scales around it."""
from __future__ import annotations

from .attention import NOT_SET, TOP_LEFT, keeps_stats
from .enums import data_type, reduction_mode, scalar_type
from .errors import cudnnGraphNotSupportedError
from .tensor import tensor


GRADIENTS = ("dQ", "dK", "dV")


class Attention8Operations:
    """Scaled dot product attention whose operands stand for ``descale`` times what they hold."""

    def sdpa_fp8(self, q, k, v, descale_q, descale_k, descale_v, descale_s, scale_s, scale_o,
                 is_inference=None, attn_scale=None, bias=None, use_alibi_mask=False, use_padding_mask=False,
                 seq_len_q=None, seq_len_kv=None, use_causal_mask=False, use_causal_mask_bottom_right=False,
                 sliding_window=None, diagonal_alignment=TOP_LEFT, left_bound=None, right_bound=None,
                 dropout=None, rng_dump=None, paged_attention_k_table=None, paged_attention_v_table=None,
                 paged_attention_max_seq_len_kv=None, compute_data_type=NOT_SET, name="", fn=None,
                 generate_stats=None, score_max=None, score_sum_exp=None, sink_token=None):
        """[O, Stats or None, Amax_S, Amax_O]: ``sdpa`` of descale_q * q, descale_k * k, descale_v * v, times
        scale_s * descale_s, as O * scale_o; the largest weight, and the largest |O| before scale_o. Weights
        are rounded to 8 bits, by a scale of their own, where tensor cores multiply these; else they stay as
        they are. ``fn``: what ``sdpa`` calls score_mod."""
        name = self._named("sdpa_fp8", name)
        keeps = keeps_stats(name, is_inference, generate_stats)
        if sink_token is not None:
            raise cudnnGraphNotSupportedError(f"{name}: sink_token must be None, as Amax_S is that of rows "
                                              "without one; got a tensor")
        scales = dict(descale_q=descale_q, descale_k=descale_k, descale_v=descale_v, descale_s=descale_s,
                      scale_s=scale_s, scale_o=scale_o)
        for argument, t in scales.items():
            self._mine(name, argument, t)
        with self._whole():
            if score_sum_exp is None:
                score_sum_exp = self._added(tensor().set_is_virtual(True).set_data_type(data_type.FLOAT))
            o, stats = self.sdpa(
                q, k, v, None, attn_scale, bias, None, use_alibi_mask, use_padding_mask, seq_len_q,
                seq_len_kv, use_causal_mask, use_causal_mask_bottom_right, sliding_window, diagonal_alignment,
                left_bound, right_bound, dropout, rng_dump, paged_attention_k_table, paged_attention_v_table,
                paged_attention_max_seq_len_kv, compute_data_type, f"{name}::SDPA",
                _descaled(fn, descale_q, descale_k), keeps, score_max=score_max, score_sum_exp=score_sum_exp)
            o = self._by(name, o.set_data_type(data_type.FLOAT), descale_v=descale_v, scale_s=scale_s,
                         descale_s=descale_s)
            amax_o = self._amax(f"{name}::Amax_O", o)
            out = self.mul(o, scale_o, compute_data_type, name).set_name(f"{name}::O")
            return [out, stats, self._largest_weight(name, score_sum_exp), amax_o]

    def sdpa_fp8_backward(self, q, k, v, o, dO, stats, descale_q, descale_k, descale_v, descale_o, descale_dO,
                          descale_s, descale_dP, scale_s, scale_dQ, scale_dK, scale_dV, scale_dP,
                          attn_scale=None, use_padding_mask=False, seq_len_q=None, seq_len_kv=None,
                          use_causal_mask=False, use_causal_mask_bottom_right=False,
                          diagonal_alignment=TOP_LEFT, left_bound=None, right_bound=None,
                          use_deterministic_algorithm=False, dropout=None, compute_data_type=NOT_SET, name="",
                          sink_token=None, dSink_token=None):
        """[dQ, dK, dV, Amax_dQ, Amax_dK, Amax_dV, Amax_dP]: ``sdpa_backward`` of what the operands stand for,
        descale_q * q and so on, each gradient times its scale; the largest gradients before that, and the
        largest of q @ k^T. Weights and gradients of scores are not rounded to 8 bits on their way: dV has the
        factor scale_s * descale_s, dQ and dK scale_dP * descale_dP."""
        name = self._named("sdpa_fp8_backward", name)
        factors = dict(descale_s=descale_s, descale_dP=descale_dP, scale_s=scale_s, scale_dP=scale_dP)
        for argument, t in factors.items():
            self._mine(name, argument, t)
        with self._whole():
            stand = dict(q=descale_q, k=descale_k, v=descale_v, o=descale_o, dO=descale_dO)
            read = [self._by(name, self._mine(name, argument, t), **{f"descale_{argument}": stand[argument]})
                    for argument, t in dict(q=q, k=k, v=v, o=o, dO=dO).items()]
            made = self.sdpa_backward(
                *read, stats, attn_scale, None, None, False, use_padding_mask, seq_len_q, seq_len_kv, None,
                None, use_causal_mask, use_causal_mask_bottom_right, None, diagonal_alignment, left_bound,
                right_bound, dropout, None, use_deterministic_algorithm, compute_data_type, f"{name}::SDPA",
                sink_token=sink_token, dSink_token=dSink_token)
            peak = self._added(tensor().set_is_virtual(True).set_data_type(data_type.FLOAT))
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

    def _by(self, name, t, **factors) -> tensor:
        """A tensor times numbers of the graph, in 32 bits."""
        for argument, factor in factors.items():
            t = self.mul(t, factor, name=f"{name}::{argument}").set_data_type(data_type.FLOAT)
        return t

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


def _descaled(fn, descale_q, descale_k):
    """The callback of the scores: what q and k stand for, then the caller's own."""
    def change(graph, scores):
        scores = graph.mul(graph.mul(scores, descale_q), descale_k)
        return scores if fn is None else fn(graph, scores)
    return change
