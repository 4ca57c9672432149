"""Attention of operands of 8 bits with a scale for each 32 of their elements: ``sdpa`` of what they stand
for."""
from __future__ import annotations

from .attention import AUTO, NOT_SET, TOP_LEFT, keeps_stats
from .enums import data_type
from .tensor import tensor

ALONG_ROWS, ALONG_COLUMNS = [1, 1, 1, 32], [1, 1, 32, 1]             # of (b, h, s, d)


class BlockScaledAttention:
    """Scaled dot product attention of block scaled operands, which are made BFLOAT16 in front of it: that
    holds numbers of 8 bits times powers of two as they are."""

    def sdpa_mxfp8(self, q, k, v, descale_q, descale_k, descale_v, attn_scale=None, use_padding_mask=False,
                   seq_len_q=None, seq_len_kv=None, use_causal_mask=False, use_causal_mask_bottom_right=False,
                   sliding_window_length=None, diagonal_alignment=TOP_LEFT, diagonal_band_left_bound=None,
                   diagonal_band_right_bound=None, dropout=None, compute_data_type=NOT_SET, name="",
                   generate_stats=None, is_inference=None, sink_token=None, implementation=AUTO,
                   max_total_seq_len_q=None, max_total_seq_len_kv=None, stats_use_log2=False, score_mod=None,
                   bias=None):
        """[O, Stats or None, Amax_O]: ``sdpa`` of q, k and v times their scales, which are those of 32
        elements of a row of q and k (b, h, s, d / 32), of 32 rows of v (b, h, s / 32, d); the largest |O|."""
        name = self._named("sdpa_mxfp8", name)
        keeps = keeps_stats(name, is_inference, generate_stats)
        given = dict(q=(q, descale_q, ALONG_ROWS), k=(k, descale_k, ALONG_ROWS),
                     v=(v, descale_v, ALONG_COLUMNS))
        with self._whole():
            read = self._stand(name, given)
            o, stats = self.sdpa(
                *read, attn_scale=attn_scale, bias=bias, use_padding_mask=use_padding_mask,
                seq_len_q=seq_len_q, seq_len_kv=seq_len_kv, use_causal_mask=use_causal_mask,
                use_causal_mask_bottom_right=use_causal_mask_bottom_right,
                sliding_window_length=sliding_window_length, diagonal_alignment=diagonal_alignment,
                diagonal_band_left_bound=diagonal_band_left_bound,
                diagonal_band_right_bound=diagonal_band_right_bound, dropout=dropout,
                max_total_seq_len_q=max_total_seq_len_q, max_total_seq_len_kv=max_total_seq_len_kv,
                compute_data_type=compute_data_type, name=f"{name}::SDPA", score_mod=score_mod,
                generate_stats=keeps, implementation=implementation, sink_token=sink_token,
                stats_use_log2=stats_use_log2)
            o.set_data_type(data_type.FLOAT)
            amax = self._spare(lambda: self._amax(f"{name}::Amax_O", o))
            return [self.identity(o, name=name).set_name(f"{name}::O"), stats, amax]

    def sdpa_mxfp8_backward(self, q, q_T, k, k_T, v, o_f16, dO_f16, dO, dO_T, stats, descale_q, descale_q_T,
                            descale_k, descale_k_T, descale_v, descale_dO, descale_dO_T, attn_scale=None,
                            use_padding_mask=False, seq_len_q=None, seq_len_kv=None, use_causal_mask=False,
                            use_causal_mask_bottom_right=False, diagonal_alignment=TOP_LEFT, left_bound=None,
                            right_bound=None, use_deterministic_algorithm=False, dropout=None,
                            compute_data_type=NOT_SET, name="", sink_token=None, dSink_token=None,
                            max_total_seq_len_q=None, max_total_seq_len_kv=None):
        """[dQ, dK, dV, Amax_dQ, Amax_dK, Amax_dV]: ``sdpa_backward`` of q, k and v times their scales, all of
        32 elements of a row, and of o_f16 and dO_f16 as they are; the largest gradients. What the other
        operands hold are the same numbers in 8 bits by other scales: they are tensors of the graph, and
        nobody reads them."""
        name = self._named("sdpa_mxfp8_backward", name)
        others = dict(q_T=q_T, k_T=k_T, dO=dO, dO_T=dO_T, descale_q_T=descale_q_T, descale_k_T=descale_k_T,
                      descale_dO=descale_dO, descale_dO_T=descale_dO_T)
        for argument, t in others.items():
            self._mine(name, argument, t)
        given = dict(q=(q, descale_q, ALONG_ROWS), k=(k, descale_k, ALONG_ROWS), v=(v, descale_v, ALONG_ROWS))
        with self._whole(), self._in_own_words(name):
            made = self.sdpa_backward(
                *self._stand(name, given), o_f16, dO_f16, stats, attn_scale,
                use_padding_mask=use_padding_mask, seq_len_q=seq_len_q, seq_len_kv=seq_len_kv,
                max_total_seq_len_q=max_total_seq_len_q, max_total_seq_len_kv=max_total_seq_len_kv,
                use_causal_mask=use_causal_mask, use_causal_mask_bottom_right=use_causal_mask_bottom_right,
                diagonal_alignment=diagonal_alignment, diagonal_band_left_bound=left_bound,
                diagonal_band_right_bound=right_bound, dropout=dropout,
                use_deterministic_algorithm=use_deterministic_algorithm, compute_data_type=compute_data_type,
                name=f"{name}::SDPA", sink_token=sink_token, dSink_token=dSink_token)
            made = [t.set_data_type(data_type.FLOAT) for t in made]
            ends = "dQ", "dK", "dV"
            most = [self._spare(lambda: self._amax(f"{name}::Amax_{end}", t)) for end, t in zip(ends, made)]
            return [*(self.identity(t, name=f"{name}::{end}").set_name(f"{name}::{end}")
                      for end, t in zip(ends, made)), *most]

    def _stand(self, name, given: dict) -> list[tensor]:
        """What {argument: (numbers, scales, blocks)} stand for."""
        for argument, (t, scale, _) in given.items():
            self._mine(name, argument, t), self._mine(name, f"descale_{argument}", scale)
        return [self.block_scale_dequantize(t, scale, block, name=f"{name}::{argument}").set_data_type(
            data_type.BFLOAT16) for argument, (t, scale, block) in given.items()]
