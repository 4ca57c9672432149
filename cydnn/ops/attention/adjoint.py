"""The gradient of a DAG on scores, as such a DAG: rows (ops/rows.py) over what the DAG reads and ``d``, the
gradient of its result."""
from __future__ import annotations

from dataclasses import replace

from ..pointwise import MODES, Pointwise

FLAT = ("ceil", "floor")                         # whose gradient is 0, beside comparisons and logic


class Tape:
    """Rows as they are written, those of the DAG first: ``n0`` … are what they were there."""

    def __init__(self, score):
        self.rows = list(score)

    def __call__(self, op, *reads) -> str:
        """The name of a mode's value, or of an operation's."""
        self.rows.append((Pointwise(mode=op) if isinstance(op, str) else op, reads))
        return f"n{len(self.rows) - 1}"


def _power(t, g, y, a, b):
    return (lambda: t("mul", g, t("mul", b, t("pow", a, t("sub", b, 1.0)))),
            lambda: t("mul", g, t("mul", y, t("log", a))))


def _chosen(t, g, is_first):
    return lambda: t("binary_select", g, 0.0, is_first()), lambda: t("binary_select", 0.0, g, is_first())


def _to_power(t, g, scale, base, power):
    """g * scale * base ** power, of few numbers."""
    for _ in range(power):
        g = t("mul", g, base)
    return t("mul", g, scale)


ROWS = {   # mode: (tape, gradient, value, *what is read) -> for each of what is read, what makes its gradient
    "identity": lambda t, g, y, a: (lambda: g,),
    "add": lambda t, g, y, a, b: (lambda: g, lambda: g),
    "sub": lambda t, g, y, a, b: (lambda: g, lambda: t("neg", g)),
    "mul": lambda t, g, y, a, b: (lambda: t("mul", g, b), lambda: t("mul", g, a)),
    "div": lambda t, g, y, a, b: (lambda: t("div", g, b), lambda: t("neg", t("div", t("mul", g, y), b))),
    "add_square": lambda t, g, y, a, b: (lambda: g, lambda: _to_power(t, g, 2.0, b, 1)),
    "pow": _power,
    "max": lambda t, g, y, a, b: _chosen(t, g, lambda: t("cmp_ge", a, b)),
    "min": lambda t, g, y, a, b: _chosen(t, g, lambda: t("cmp_le", a, b)),
    "binary_select": lambda t, g, y, a, b, c: (*_chosen(t, g, lambda: c), None),
    "neg": lambda t, g, y, a: (lambda: t("neg", g),),
    "abs": lambda t, g, y, a: (lambda: t("binary_select", g, t("neg", g), t("cmp_ge", a, 0.0)),),
    "exp": lambda t, g, y, a: (lambda: t("mul", g, y),),
    "log": lambda t, g, y, a: (lambda: t("div", g, a),),
    "sqrt": lambda t, g, y, a: (lambda: t("div", t("mul", g, 0.5), y),),
    "rsqrt": lambda t, g, y, a: (lambda: _to_power(t, g, -0.5, y, 3),),
    "reciprocal": lambda t, g, y, a: (lambda: _to_power(t, g, -1.0, y, 2),),
    "sin": lambda t, g, y, a: (lambda: t("mul", g, t("cos", a)),),
    "cos": lambda t, g, y, a: (lambda: t("neg", t("mul", g, t("sin", a))),),
    "tan": lambda t, g, y, a: (lambda: t("add", g, _to_power(t, g, 1.0, y, 2)),),
    "erf": lambda t, g, y, a: (lambda: _to_power(
        t, t("mul", g, t("exp", t("neg", t("mul", a, a)))), 1.1283791670955126, a, 0),),
}


def known(mode: str) -> bool:
    """A row with this mode has a gradient, or one that is 0 everywhere."""
    return mode in ROWS or mode in FLAT or mode.startswith(("cmp_", "logical_")) or (
        mode.endswith("_fwd") and mode.replace("_fwd", "_bwd") in MODES)


def adjoint(score: tuple, of: str = "s") -> tuple:
    """The rows whose last one is the gradient of what they call ``of``. What it does not depend on is a row
    of 0."""
    tape, depends = Tape(score), {of}
    for i, (_, reads) in enumerate(score):
        depends |= {f"n{i}"} if depends & {r for r in reads if isinstance(r, str)} else set()
    gradients = {f"n{len(score) - 1}" if score else "s": "d"}
    for i in reversed(range(len(score))):
        op, reads = score[i]
        if f"n{i}" not in gradients or f"n{i}" not in depends:
            continue
        for read, make in zip(reads, _made(tape, op, gradients[f"n{i}"], f"n{i}", reads)):
            if read in depends and isinstance(read, str) and make is not None:
                one = make()
                gradients[read] = tape("add", gradients[read], one) if read in gradients else one
    last = gradients.get(of)
    if last == "d" and not score:
        return ()
    if last != f"n{len(tape.rows) - 1}" or last is None:
        tape("identity", 0.0 if last is None else last)
    return _needed(tape.rows)


def _made(tape, op, g, y, reads) -> tuple:
    """For each of what a row reads, what makes its gradient; None where that is 0."""
    if op.mode in ROWS:
        return ROWS[op.mode](tape, g, y, *reads)
    if op.mode.endswith("_fwd"):
        return (lambda: tape(replace(op, mode=op.mode.replace("_fwd", "_bwd")), g, reads[0]),)
    return (None,) * len(reads)


def _needed(found: list) -> tuple:
    """The rows that the last one depends on, numbered anew."""
    wanted, name = {len(found) - 1}, lambda r: isinstance(r, str) and r[0] == "n" and r[1:].isdecimal()
    for i in reversed(range(len(found))):
        if i in wanted:
            wanted |= {int(r[1:]) for r in found[i][1] if name(r)}
    number = {f"n{i}": f"n{place}" for place, i in enumerate(sorted(wanted))}
    return tuple([(op, tuple([number.get(r, r) if isinstance(r, str) else r for r in reads]))
                  for i, (op, reads) in enumerate(found) if i in wanted])
