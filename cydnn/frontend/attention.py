"""The attention of a pygraph: one call is one operation, whose options are rows of its scores."""
from __future__ import annotations

from contextlib import contextmanager
from math import e, log2

from ..given import flag, function, real, several, shown, whole
from ..ops import Sdpa, SdpaBwd, rows
from ..ops.attention import scores
from ..status import BadParam
from .dropping import DroppingOperations
from .enums import attention_implementation, data_type, diagonal_alignment, member, scalar_type
from .errors import cudnnGraphNotSupportedError
from .scoring import Recorded
from .tensor import FREE, tensor

NOT_SET, AUTO, TOP_LEFT = data_type.NOT_SET, attention_implementation.AUTO, diagonal_alignment.TOP_LEFT
WHOLE = data_type.INT32, data_type.INT64


class AttentionOperations(DroppingOperations):
    """Scaled dot product attention. Keys are given as (b, h, s, d); O, gradients and statistics are virtual
    until ``set_output(True)``."""

    def sdpa(self, q, k, v, is_inference=None, attn_scale=None, bias=None, block_mask=None,
             use_alibi_mask=False, use_padding_mask=False, seq_len_q=None, seq_len_kv=None,
             use_causal_mask=False, use_causal_mask_bottom_right=False, sliding_window_length=None,
             diagonal_alignment=TOP_LEFT, diagonal_band_left_bound=None, diagonal_band_right_bound=None,
             dropout=None, rng_dump=None, paged_attention_k_table=None, paged_attention_v_table=None,
             paged_attention_max_seq_len_kv=None, max_total_seq_len_q=None, max_total_seq_len_kv=None,
             compute_data_type=NOT_SET, name="", score_mod=None, generate_stats=None, implementation=AUTO,
             score_max=None, score_sum_exp=None, sink_token=None, unfuse_fma=False, cu_seq_len_q=None,
             cu_seq_len_kv=None, stats_use_log2=False, softmax_precision=None):
        """[O, Stats or None]: O = softmax(score(attn_scale * q @ k^T)) @ v, 0 where a query sees no key;
        Stats, the log of a row's sum (``stats_use_log2``: to the base 2), where ``generate_stats``, of which
        or of ``is_inference`` one must be given. Heads of k and v may be fewer. ``score_mod(graph, scores)``
        adds pointwise operations, then come bias and ALiBi. Bounds count keys from the diagonal, the left
        one itself; ``block_mask`` of UINT8 (b, h, s_q / 128, s_kv / 1024) has a bit for 128 queries and
        keys. ``sink_token``: a score more of each row, of no key. With tables, k and v are (pages, h,
        keys of a page, d). ``dropout``: (probability, seed, offset), or (mask, scale). ``cu_seq_len_…`` of
        b + 1: sums of lengths. rng_dump (what is kept, as ``rng`` has it), score_max, score_sum_exp become
        outputs."""
        name = self._named("sdpa", name)
        tokens = max_total_seq_len_q, max_total_seq_len_kv
        check_ways(name, implementation, tokens, unfuse_fma, softmax_precision)
        keeps = dict(stats="Stats") if keeps_stats(name, is_inference, generate_stats) else {}
        band = band_of(name, use_causal_mask, use_causal_mask_bottom_right, sliding_window_length,
                       diagonal_alignment, diagonal_band_left_bound, diagonal_band_right_bound)
        special = dict(sink=("sink_token", sink_token), blocks=("block_mask", block_mask),
                       table_k=("paged_attention_k_table", paged_attention_k_table),
                       table_v=("paged_attention_v_table", paged_attention_v_table))
        with self._whole():
            inputs = self._attended(name, q, k, v, **special) | self._lengths(
                name, q, use_padding_mask, score_mod, seq_len_q, seq_len_kv, cu_seq_len_q, cu_seq_len_kv)
            band |= most_keys(name, paged_attention_max_seq_len_kv)
            score, extras = self._score(name, q, score_mod, bias, use_alibi_mask)
            drop, extras, numbers = self._dropped(name, dropout, extras)
            made = self._record("sdpa", Sdpa, {**inputs, **extras}, dict(o="O", **keeps), compute_data_type,
                                name, attributes={**band, **score, **drop},
                                scalars={**self._scale(name, attn_scale), **numbers}, optional=special)
            self._also(name, score_max=("score_max", score_max),
                       score_sum_exp=("score_sum_exp", score_sum_exp))
            self._dumped(name, rng_dump, dropout, q, k, special["table_k"][1], band.get("max_kv", (0, 0))[1])
            return [made["o"], self._in_log2(name, made.get("stats"), stats_use_log2)]

    scaled_dot_product_flash_attention = sdpa

    def sdpa_backward(self, q, k, v, o, dO, stats, attn_scale=None, bias=None, dBias=None,
                      use_alibi_mask=False, use_padding_mask=False, seq_len_q=None, seq_len_kv=None,
                      max_total_seq_len_q=None, max_total_seq_len_kv=None, use_causal_mask=False,
                      use_causal_mask_bottom_right=False, sliding_window_length=None,
                      diagonal_alignment=TOP_LEFT, diagonal_band_left_bound=None,
                      diagonal_band_right_bound=None, dropout=None, rng_dump=None,
                      use_deterministic_algorithm=False, compute_data_type=NOT_SET, name="", score_mod=None,
                      score_mod_bprop=None, sink_token=None, dSink_token=None, implementation=AUTO,
                      cu_seq_len_q=None, cu_seq_len_kv=None):
        """[dQ, dK, dV] of ``sdpa``, whose options must be given again; ``stats`` are its Stats. dBias, a
        tensor of the graph, becomes an output: the bias's gradient, summed along its dims of 1; so does
        dSink_token. The gradient of ``score_mod`` follows from it, or ``score_mod_bprop(graph, gradient)``
        makes it, which may read what ``score_mod`` made. ``dropout`` as ``sdpa`` has it. Every sum has a
        fixed order: the same bits each time."""
        name = self._named("sdpa_backward", name)
        flag(f"{name}: use_deterministic_algorithm", use_deterministic_algorithm)
        check_ways(name, implementation, (max_total_seq_len_q, max_total_seq_len_kv))
        band = band_of(name, use_causal_mask, use_causal_mask_bottom_right, sliding_window_length,
                       diagonal_alignment, diagonal_band_left_bound, diagonal_band_right_bound)
        with self._whole():
            inputs = self._attended(name, q, k, v, sink=("sink_token", sink_token))
            inputs |= {o: (argument, self._mine(name, argument, t))
                       for o, argument, t in (("o", "o", o), ("do", "dO", dO), ("stats", "stats", stats))}
            inputs |= self._lengths(name, q, use_padding_mask, score_mod, seq_len_q, seq_len_kv, cu_seq_len_q,
                                    cu_seq_len_kv)
            score, extras = self._score(name, q, score_mod, bias, use_alibi_mask, score_mod_bprop)
            if dBias is not None:
                places = [o for o, (_, t) in extras.items() if t is bias]
                if not places:
                    raise BadParam(f"{name}: bias must be given with dBias; got None")
                score |= dict(dbias_of=("bias", int(places[0].removeprefix("extras."))))
            drop, extras, numbers = self._dropped(name, dropout, extras)
            made = self._record("sdpa_backward", SdpaBwd, {**inputs, **extras},
                                dict(dq="dQ", dk="dK", dv="dV"), compute_data_type, name,
                                attributes={**band, **score, **drop},
                                scalars={**self._scale(name, attn_scale), **numbers})
            self._also(name, dbias=("dBias", dBias), dsink=("dSink_token", dSink_token))
            self._dumped(name, rng_dump, dropout, q, k)
        return [made[o] for o in ("dq", "dk", "dv")]

    scaled_dot_product_flash_attention_backward = sdpa_backward

    # ---- Arguments ----

    def _also(self, name, **outputs):
        """The caller's own tensors, {operand: (argument, tensor)}, as outputs of the last operation."""
        for operand, (argument, t) in outputs.items():
            if t is not None:
                self._adopt(self._mine(name, argument, t))
                self.steps[-1].outputs[operand] = t
                self.steps[-1].words[operand] = argument

    @contextmanager
    def _whole(self):
        """A call that is refused leaves nothing behind."""
        tensors, steps = list(self._tensors), list(self.steps)
        try:
            yield
        except BaseException:
            for t in self._tensors[len(tensors):]:
                t.owner = FREE
            self._tensors, self.steps = tensors, steps
            raise

    def _attended(self, name, q, k, v, **more) -> dict:
        """q, k and v, and those of ``more`` that are there."""
        given = dict(q=q, k=k, v=v)
        return {o: (o, self._mine(name, o, t)) for o, t in given.items()} | self._given(name, **more)

    def _given(self, name, **operands) -> dict:
        """Those of {operand: (argument, tensor)} that are there."""
        return {o: (argument, self._mine(name, argument, t)) for o, (argument, t) in operands.items()
                if t is not None}

    def _counted(self, name, q, lengths: dict, **sums) -> dict:
        """{argument: lengths} of what are sums of the lengths so far: their differences."""
        found = {}
        for argument, t in sums.items():
            if t is None:
                continue
            length = argument.removeprefix("cu_")
            if lengths[length] is not None:
                raise BadParam(f"{name}: {argument} must not be given with {length}; got both")
            t = self._of_rank_4(name, argument, t)
            count = (t.dim or (1,))[0] - 1
            batches = (q.get_dim() or [count])[0]
            if tuple(t.dim) != (batches + 1, 1, 1, 1) or t.data_type not in WHOLE:
                raise BadParam(f"{name}: {argument} must be INT32 or INT64 of dim [{batches + 1}], batches + "
                               f"1; got {t.data_type.name} of {list(t.dim)}")
            ends = [self.slice(t, [slice(at, at + count), *[slice(0, 1)] * 3], name=f"{name}::{argument}{at}")
                    for at in (1, 0)]
            made = self.sub(*ends, compute_data_type=data_type.INT32, name=f"{name}::{length}")
            found[length] = made.set_data_type(data_type.INT32)
        return found

    def _lengths(self, name, q, is_padded, score_mod, seq_len_q, seq_len_kv, cu_q, cu_kv) -> dict:
        lengths = dict(seq_len_q=seq_len_q, seq_len_kv=seq_len_kv)
        lengths |= self._counted(name, q, lengths, cu_seq_len_q=cu_q, cu_seq_len_kv=cu_kv)
        there = self._given(name, **{
            argument.removeprefix("seq_"): (argument, self._length(name, argument, t))
            for argument, t in lengths.items()})
        is_padded = flag(f"{name}: use_padding_mask", is_padded)
        if is_padded and len(there) < 2:
            raise BadParam(f"{name}: seq_len_q and seq_len_kv must be given with use_padding_mask; got "
                           f"{' '.join(argument for argument, _ in there.values()) or 'neither'}")
        if there and not is_padded and score_mod is None:
            raise BadParam(f"{name}: use_padding_mask must be True where lengths are given; got "
                           f"{' and '.join(argument for argument, _ in there.values())}")
        return there

    def _of_rank_4(self, name, argument, t) -> tensor:
        """A tensor of one dim, which gets three of 1 behind it; any other as it is."""
        if len(self._mine(name, argument, t).dim) == 1 and not t.is_built:
            t.set_dim((*t.dim, 1, 1, 1)).set_stride((*t.stride, 1, 1, 1) if t.stride else ())
        return t

    def _length(self, name, argument, t) -> tensor | None:
        """Lengths as attention reads them: of rank 4, and those of 64 bits, as torch makes them, of 32."""
        if t is None or self._of_rank_4(name, argument, t).data_type is not data_type.INT64:
            return t
        made = self.identity(t, compute_data_type=data_type.INT32, name=f"{name}::{argument}")
        return made.set_data_type(data_type.INT32)

    def _in_log2(self, name, stats, is_asked) -> tensor | None:
        """Statistics times log2(e) where that is asked for."""
        if not flag(f"{name}: stats_use_log2", is_asked) or stats is None:
            return stats
        stats.set_name(f"{name}::STATS_LN").set_data_type(data_type.FLOAT)
        factor = self.tensor_scalar(log2(e), scalar_type.COMPILE_TIME_CONST)
        return self.mul(stats, factor, name=f"{name}::log2").set_name(f"{name}::Stats")

    def _scale(self, name, attn_scale) -> dict:
        """A number of the graph, or the caller's tensor."""
        if attn_scale is None:
            return {}
        if not isinstance(attn_scale, tensor):
            number = real(f"{name}: attn_scale", attn_scale)
            attn_scale = self.tensor_scalar(number, scalar_type.COMPILE_TIME_CONST)
        return dict(scale=("attn_scale", attn_scale))

    def _score(self, name, q, score_mod, bias, use_alibi_mask, score_mod_bprop=None) -> tuple:
        """({attribute: (argument, rows as text)} of the scores, {operand: (argument, tensor)} of what they
        read)."""
        has_alibi = flag(f"{name}: use_alibi_mask", use_alibi_mask)
        if has_alibi and len(q.dim) != 4:
            raise BadParam(f"{name}: q must have its dim of rank 4 set where ALiBi is used; got "
                           f"{list(q.dim)}")
        own, found = Recorded(), {}
        if score_mod is not None:
            self._recorded(own, f"{name}: score_mod", score_mod, "s")
        forward = tuple(own.rows)
        if score_mod_bprop is not None:
            self._recorded(own, f"{name}: score_mod_bprop", score_mod_bprop, "d")
            found = dict(score_bwd=("score_mod_bprop", rows.text(SdpaBwd(score_bwd=own.rows).score_bwd)))
        if bias is not None and self._mine(name, "bias", bias).data_type is data_type.BOOLEAN:
            raise cudnnGraphNotSupportedError(f"{name}: bias must be of numbers; got BOOLEAN: add -inf where "
                                              "keys are left out")
        made, read = scores(q.dim[1] if has_alibi else 1, score_mod=(forward, own.read), bias=bias,
                            alibi=has_alibi)
        words = lambda t: "bias" if t is bias else "score_mod"
        extras = {f"extras.{i}": (words(t), t) for i, t in enumerate(read)}
        return {"score": ("score_mod", rows.text(Sdpa(score=made).score)), **found}, extras

    def _recorded(self, own, where, change, start: str):
        """Add to ``own`` the rows of a callback (graph, tensor), which adds pointwise operations and returns
        what it makes of the tensor: of the scores (``start`` "s") or their gradient ("d")."""
        function(where, change)
        first = len(self.steps)
        given = self._added(tensor().set_is_virtual(True).set_name(f"{where}::{start}"))
        last = change(self, given)
        steps, self.steps = self.steps[first:], self.steps[:first]
        inside = {given, *(t for step in steps for t in step.outputs.values())}
        self._tensors = [t for t in self._tensors if t not in inside]
        own.add(where, steps, given, start, last)


def check_ways(name, implementation, tokens, unfuse_fma=False, softmax_precision=None):
    """What changes nothing: engines are chosen by their time, sums are done in the compute type, and no
    workspace depends on how many queries and keys all batches have together."""
    member(name, "implementation", attention_implementation, implementation)
    if softmax_precision is not None:
        member(name, "softmax_precision", data_type, softmax_precision)
    flag(f"{name}: unfuse_fma", unfuse_fma)
    for side, count in zip(("q", "kv"), tokens):
        whole(f"{name}: max_total_seq_len_{side}", count or 0)


def keeps_stats(name: str, is_inference, generate_stats) -> bool:
    if (is_inference is None) == (generate_stats is None):
        raise BadParam(f"{name}: generate_stats must be given, or is_inference in its place; got "
                       f"{'neither' if generate_stats is None else 'both'}")
    if generate_stats is None:
        return not flag(f"{name}: is_inference", is_inference)
    return flag(f"{name}: generate_stats", generate_stats)


def most_keys(name, most) -> dict:
    """How many keys pages hold at most as {attribute: (argument, value)}."""
    argument = "paged_attention_max_seq_len_kv"
    return {} if most is None else dict(max_kv=(argument, whole(f"{name}: {argument}", most)))


def band_of(name, use_causal_mask, use_causal_mask_bottom_right, sliding_window_length, alignment, left,
            right) -> dict:
    """The bounds as {attribute: (argument, value)}; the older names mean one of them each."""
    member(name, "diagonal_alignment", diagonal_alignment, alignment)
    older = dict(use_causal_mask=use_causal_mask, use_causal_mask_bottom_right=use_causal_mask_bottom_right)
    causal = [argument for argument, value in older.items() if flag(f"{name}: {argument}", value)]
    if len(causal) == 2:
        raise BadParam(f"{name}: use_causal_mask must not be given with use_causal_mask_bottom_right; got "
                       "both")
    if causal and right not in (None, 0):
        raise BadParam(f"{name}: diagonal_band_right_bound must be 0 or None with {causal[0]}; got "
                       f"{shown(right)}")
    is_end = causal == ["use_causal_mask_bottom_right"]
    if causal == ["use_causal_mask"] and alignment is not TOP_LEFT:
        raise BadParam(f"{name}: diagonal_alignment must be TOP_LEFT with use_causal_mask; got "
                       f"{alignment.name}")
    if None not in (sliding_window_length, left) and sliding_window_length != left:
        raise BadParam(f"{name}: sliding_window_length must not be given with diagonal_band_left_bound; got "
                       f"{shown(sliding_window_length)} and {shown(left)}")
    found = dict(diagonal=("diagonal_alignment", "bottom_right" if is_end else alignment.name.lower()))
    window = ("diagonal_band_left_bound", left) if left is not None else (
        "sliding_window_length", sliding_window_length)
    right = 0 if causal else right
    for attribute, least, (argument, value) in (("left", 1, window),
                                                ("right", 0, ("diagonal_band_right_bound", right))):
        if value is not None:
            if whole(f"{name}: {argument}", value) < least:
                raise cudnnGraphNotSupportedError(f"{name}: {argument} must be at least {least}; got {value}")
            found[attribute] = argument, whole(argument, value)
    return found
