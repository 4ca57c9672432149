"""Factors of the weights of attention: dropout, and what rows make of tensors."""
from __future__ import annotations

from ...fusion import Rows
from ...ops import philox
from .. import cast
from ..dropout.dropout import thresholds


def factor_of_weight(p, rows: Rows, values: dict, written):
    """What a mark does to the factor of a weight, None where that is nothing. It shares what is made once for
    the row; ``rows`` is finished behind it. ``values``: what the score's rows read."""
    if not p.op.keep:
        return None
    other, last = Rows(rows.each.math, rows.each.site, rows.axis, rows.graph), None
    other.once = rows.once
    for i, (op, reads) in enumerate(p.op.keep):
        last = other.step(op, [values[r] if isinstance(r, str) else other.number(r) for r in reads])
        values = values | {f"n{i}": last}
    return other.finish(last, written)[1]


def drawn(p, steps: list) -> dict:
    """The generator's parameters; ``steps`` get what brings seed and offset into their type."""
    if not p.op.drop:
        return dict(seed=0, offset=0, upper=0, lower=0, factor=1.0, drops=0)
    numbers = {name: cast.number_as(p, name, "i64", steps) for name in ("seed", "offset")}
    return dict(numbers, **thresholds(p.op.drop), factor=philox.factor(p.op.drop), drops=1)
