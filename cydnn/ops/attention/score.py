"""The scores of attention as the callers of it ask for them: which rows (ops/rows.py) make which option.

The scale, the bounds and the lengths are the operation's own: kernels need them to know which keys to read.
"""
from __future__ import annotations

from typing import Callable, NamedTuple

from ...given import real, shown, whole
from ...status import BadParam
from ..pointwise import Pointwise


class Step(NamedTuple):
    """An option. ``add``: (Score, the option's value) -> the name of the new scores."""
    name: str
    add: Callable
    doc: str


class Score:
    """Rows as they are written. ``last``: the name of the scores so far; ``extras``: what e0, e1 … are."""

    def __init__(self, heads: int):
        self.heads, self.rows, self.extras, self.last = heads, [], [], "s"

    def point(self, mode: str, *reads) -> str:
        """The name of mode(reads), which are names and numbers."""
        self.rows.append((Pointwise(mode=mode), reads))
        return f"n{len(self.rows) - 1}"

    def tensor(self, given) -> str:
        if given not in self.extras:
            self.extras.append(given)
        return f"e{self.extras.index(given)}"


def _modified(score: Score, given):
    score.rows, score.extras = map(list, given)
    return f"n{len(score.rows) - 1}" if score.rows else "s"


def _capped(score: Score, most):
    most = real("sdpa: soft_cap", most)
    return score.point("mul", score.point("tanh_fwd", score.point("div", score.last, most)), most)


def _with_bias(score: Score, bias):
    return score.point("add", score.last, score.tensor(bias))


def _masked(score: Score, mask):
    return score.point("binary_select", score.last, float("-inf"), score.tensor(mask))


def _with_alibi(score: Score, given):
    """The slope of head i = 1 to h is 2^(-8 i / h), where h is a power of two. Of other counts the first
    heads have those of the power of two below, the rest every second one of twice as many."""
    if given is True:
        some = 1 << max(score.heads, 1).bit_length() - 1
        count = score.point("add", "head", 1)
        slope = score.point("pow", 2, score.point("mul", count, -8 / some))
        if some < score.heads:
            odd = score.point("sub", score.point("mul", score.point("sub", count, some), 2), 1)
            other = score.point("pow", 2, score.point("mul", odd, -4 / some))
            slope = score.point("binary_select", slope, other, score.point("cmp_le", count, some))
    else:
        slope = score.tensor(given)
    return score.point("add", score.last, score.point("mul", score.point("sub", "col", "row"), slope))


STEPS = (                                        # in the order in which they are applied
    Step("score_mod", _modified, "(rows, tensors that they call e0 …): a caller's own"),
    Step("soft_cap", _capped, "a number c: c tanh(s / c)"),
    Step("bias", _with_bias, "a tensor, added"),
    Step("alibi", _with_alibi,
         "(column - row) times a head's slope, added: True for the slopes of the paper, or a tensor of them"),
    Step("mask", _masked, "a tensor: -inf where it is 0"),
)


def scores(heads: int, **wanted) -> tuple[tuple, tuple]:
    """(rows, tensors that they read as e0 …) of the options that are wanted: ``Sdpa(score=rows)`` and its
    operand ``extras``. ``heads``: of the queries. A tensor may be its uid, or what a front end has for one;
    an option that is None or False is not wanted. Raises BadParam.
    Spec: front end, sdpa."""
    known = {step.name for step in STEPS}
    for name in wanted:
        if name not in known:
            raise BadParam(f"sdpa: score must have the options {' '.join(s.name for s in STEPS)}; "
                           f"got {shown(name)}")
    score = Score(whole("sdpa: heads", heads))
    for step in STEPS:
        given = wanted.get(step.name)
        if given is not None and given is not False:
            score.last = step.add(score, given)
    return tuple(score.rows), tuple(score.extras)
