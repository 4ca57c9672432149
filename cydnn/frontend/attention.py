"""The attention of a pygraph: one call is one operation, whose options are rows of its scores."""
from __future__ import annotations

from contextlib import contextmanager

from ..given import flag, function, real, several, shown, whole
from ..ops import Pointwise, Sdpa, rows
from ..ops.attention import scores
from ..ops.attention.sdpa import COORDINATES
from ..status import BadParam
from .enums import attention_implementation, data_type, diagonal_alignment, member, scalar_type
from .errors import cudnnGraphNotSupportedError
from .tensor import tensor

NOT_SET, AUTO, TOP_LEFT = data_type.NOT_SET, attention_implementation.AUTO, diagonal_alignment.TOP_LEFT
MISSING = dict(                                  # arguments that cannot be given yet: why
    block_mask="every block of the scores is computed", dropout="scores have no random numbers",
    rng_dump="scores have no random numbers", paged_attention_k_table="keys lie in one piece",
    paged_attention_v_table="values lie in one piece", paged_attention_max_seq_len_kv="keys lie in one piece",
    score_max="of a row's statistics there is the logarithm of its sum", sink_token="rows have no sink",
    score_sum_exp="of a row's statistics there is the logarithm of its sum")


class AttentionOperations:
    """Scaled dot product attention. Keys are given as (b, h, s, d); O, gradients and statistics are virtual
    until ``set_output(True)``."""

    def sdpa(self, q, k, v, is_inference=None, attn_scale=None, bias=None, block_mask=None,
             use_alibi_mask=False, use_padding_mask=False, seq_len_q=None, seq_len_kv=None,
             use_causal_mask=False, use_causal_mask_bottom_right=False, sliding_window_length=None,
             diagonal_alignment=TOP_LEFT, diagonal_band_left_bound=None, diagonal_band_right_bound=None,
             dropout=None, rng_dump=None, paged_attention_k_table=None, paged_attention_v_table=None,
             paged_attention_max_seq_len_kv=None, compute_data_type=NOT_SET, name="", score_mod=None,
             generate_stats=None, implementation=AUTO, score_max=None, score_sum_exp=None, sink_token=None,
             unfuse_fma=False):
        """[O, Stats or None]: O = softmax(score(attn_scale * q @ k^T)) @ v, where a query that sees no key
        has 0; Stats, the logarithm of a row's sum, where ``generate_stats``, of which or of ``is_inference``
        one must be given. k and v may have fewer heads. Scores are changed by ``score_mod(graph, scores)``,
        which adds pointwise operations, then the bias, then ALiBi. Bounds count keys from the diagonal, the
        left one the diagonal itself."""
        name = self._named("sdpa", name)
        missing(name, block_mask=block_mask, dropout=dropout, rng_dump=rng_dump, score_max=score_max,
                paged_attention_k_table=paged_attention_k_table, sink_token=sink_token,
                paged_attention_v_table=paged_attention_v_table, score_sum_exp=score_sum_exp,
                paged_attention_max_seq_len_kv=paged_attention_max_seq_len_kv)
        member(name, "implementation", attention_implementation, implementation)
        flag(f"{name}: unfuse_fma", unfuse_fma)
        keeps = keeps_stats(name, is_inference, generate_stats)
        band = band_of(name, use_causal_mask, use_causal_mask_bottom_right, sliding_window_length,
                       diagonal_alignment, diagonal_band_left_bound, diagonal_band_right_bound)
        with self._whole():
            inputs = self._attended(name, q, k, v)
            inputs |= self._lengths(name, use_padding_mask, seq_len_q, seq_len_kv, score_mod)
            score, extras = self._score(name, q, score_mod, bias, use_alibi_mask)
            outputs = dict(o="O", stats="Stats") if keeps else dict(o="O")
            made = self._record("sdpa", Sdpa, {**inputs, **extras}, outputs, compute_data_type, name,
                                attributes={**band, "score": ("score_mod", score)},
                                scalars=self._scale(name, attn_scale))
        return [made["o"], made.get("stats")]

    scaled_dot_product_flash_attention = sdpa

    # ---- Arguments ----

    @contextmanager
    def _whole(self):
        """A call that is refused leaves nothing behind."""
        tensors, steps = list(self.tensors), list(self.steps)
        try:
            yield
        except BaseException:
            self.tensors, self.steps = tensors, steps
            raise

    def _attended(self, name, q, k, v) -> dict:
        given = dict(q=q, k=k, v=v)
        return {o: (o, self._mine(name, o, t)) for o, t in given.items()}

    def _lengths(self, name, is_padded, seq_len_q, seq_len_kv, score_mod) -> dict:
        given = dict(len_q=("seq_len_q", seq_len_q), len_kv=("seq_len_kv", seq_len_kv))
        there = {o: pair for o, pair in given.items() if pair[1] is not None}
        is_padded = flag(f"{name}: use_padding_mask", is_padded)
        if is_padded and len(there) < 2:
            raise BadParam(f"{name}: seq_len_q and seq_len_kv must be given with use_padding_mask; got "
                           f"{' '.join(argument for argument, _ in there.values()) or 'neither'}")
        if there and not is_padded and score_mod is None:
            raise BadParam(f"{name}: use_padding_mask must be True where lengths are given; got "
                           f"{' and '.join(argument for argument, _ in there.values())}")
        return {o: (argument, self._mine(name, argument, t)) for o, (argument, t) in there.items()}

    def _scale(self, name, attn_scale) -> dict:
        """A number of the graph, or the caller's tensor."""
        if attn_scale is None:
            return {}
        if not isinstance(attn_scale, tensor):
            number = real(f"{name}: attn_scale", attn_scale)
            attn_scale = self.tensor_scalar(number, scalar_type.COMPILE_TIME_CONST)
        return dict(scale=("attn_scale", attn_scale))

    def _score(self, name, q, score_mod, bias, use_alibi_mask) -> tuple:
        """(the rows of the scores as text, {operand: (argument, tensor)} of what they read)."""
        has_alibi = flag(f"{name}: use_alibi_mask", use_alibi_mask)
        if has_alibi and len(q.dim) != 4:
            raise BadParam(f"{name}: q must have its dim of rank 4 set where ALiBi is used; got "
                           f"{list(q.dim)}")
        own = None if score_mod is None else self._recorded(name, "score_mod", score_mod)
        if bias is not None and self._mine(name, "bias", bias).data_type is data_type.BOOLEAN:
            raise cudnnGraphNotSupportedError(f"{name}: bias must be of numbers; got BOOLEAN: add -inf where "
                                              "keys are left out")
        made, read = scores(q.dim[1] if has_alibi else 1, score_mod=own, bias=bias, alibi=has_alibi)
        words = lambda t: "bias" if t is bias else "score_mod"
        extras = {f"extras.{i}": (words(t), t) for i, t in enumerate(read)}
        return rows.text(Sdpa(score=made).score), extras

    def _recorded(self, name, argument, change) -> tuple:
        """(rows, tensors that they read as e0 …) of a callback (graph, scores), which adds pointwise
        operations and returns what it makes of the scores."""
        function(f"{name}: {argument}", change)
        first = len(self.steps)
        start = self._added(tensor().set_is_virtual(True).set_name(f"{name}::S"))
        last = change(self, start)
        steps, self.steps = self.steps[first:], self.steps[:first]
        inside = {start, *(t for step in steps for t in step.outputs.values())}
        self.tensors = [t for t in self.tensors if t not in inside]
        return recorded(f"{name}: {argument}", steps, start, last)


def missing(name: str, **given):
    """Refuse the arguments that cannot be given yet."""
    for argument, value in given.items():
        if value is not None:
            raise cudnnGraphNotSupportedError(f"{name}: {argument} must be None, as {MISSING[argument]} yet; "
                                              f"got {type(value).__name__}")


def keeps_stats(name: str, is_inference, generate_stats) -> bool:
    if (is_inference is None) == (generate_stats is None):
        raise BadParam(f"{name}: generate_stats must be given, or is_inference in its place; got "
                       f"{'neither' if generate_stats is None else 'both'}")
    if generate_stats is None:
        return not flag(f"{name}: is_inference", is_inference)
    return flag(f"{name}: generate_stats", generate_stats)


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


# ---- A caller's own changes of the scores ----

def recorded(where: str, steps, start: tensor, last) -> tuple:
    """(rows, tensors that they read as e0 …) of the operations that a callback has added."""
    known, made, read = {start: "s"}, [], []
    for step in steps:
        y = step.outputs["y"] if step.op is Pointwise else None
        if y is None or not y.is_virtual:
            what = f"output {y.label}" if y is not None else step.op.name
            raise cudnnGraphNotSupportedError(f"{where} must add pointwise operations alone, whose values "
                                              f"are virtual; got {what}")
        op = Pointwise(**step.attributes)
        if op.mode == "gen_index":
            known[y] = _index(where, op.axis, step.inputs["x"], known)
            continue
        made.append((op, tuple([_name(t, known, read) for t in step.inputs.values()])))
        known[y] = f"n{len(made) - 1}"
    if last not in known if isinstance(last, tensor) else True:
        raise BadParam(f"{where} must return a tensor that it made of the scores; got {shown(last)}")
    if known[last] not in ("s", f"n{len(made) - 1}") or known[last] == "s" and made:
        made.append((Pointwise(mode="identity"), (known[last],)))
    return tuple(made), tuple(read)


def _index(where: str, axis: int, of: tensor, known: dict):
    """A coordinate; 0 along a dim of 1 of a tensor that is not made of the scores."""
    if not 0 <= axis < 4:
        raise BadParam(f"{where} must have indices along the dims 0 to 3; got axis {axis}")
    return 0.0 if of not in known and of.dim and of.dim[axis:axis + 1] == (1,) else COORDINATES[axis]


def _name(t: tensor, known: dict, read: list):
    """What a row calls a value: a name, or a number that never changes."""
    if t in known:
        return known[t]
    if t.is_constant and t.value is not None:
        return float(t.value)
    read += [] if t in read else [t]
    return f"e{read.index(t)}"
