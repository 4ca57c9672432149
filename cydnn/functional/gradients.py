"""Gradients of the pointwise modes that declare none: what a walk backwards writes for each operand."""
from __future__ import annotations

from math import pi

from ..ops import Pointwise, Reduction


def _quotient(t, g, y, x, b):
    return t.point("div", g, b), lambda: t.point("neg", t.point("div", t.point("mul", g, y), b))


def _power(t, g, y, x, b):
    """b * x ** (b - 1), and log(x) * y; 0 where b is, or y is."""
    zero, one = t.constant(0.0, x), t.constant(1.0, x)
    slope = lambda: t.point("mul", b, t.point("pow", x, t.point("sub", b, one)))
    growth = lambda: t.point("mul", y, t.point("log", x))
    return (lambda: t.point("mul", g, t.point("binary_select", slope(), zero, b)),
            lambda: t.point("mul", g, t.point("binary_select", growth(), zero, y)))


def _sign(t, x):
    zero = t.constant(0.0, x)
    return t.point("sub", t.point("cmp_gt", x, zero), t.point("cmp_lt", x, zero))


def _extreme(more: str, more_or_equal: str):
    """All of it for the one that wins, half for each of two that are equal."""
    def rule(t, g, y, x, b):
        share = lambda one, other: lambda: t.point("mul", g, t.point("mul", t.constant(0.5, x), t.point(
            "add", t.point(more, one, other), t.point(more_or_equal, one, other))))
        return share(x, b), share(b, x)
    return rule


def _selected(t, g, y, x, b, condition):
    zero = t.constant(0.0, g)
    return (lambda: t.point("binary_select", g, zero, condition),
            lambda: t.point("binary_select", zero, g, condition))


def _slope_of_erf(t, x):
    square = t.point("neg", t.point("mul", x, x))
    return t.point("mul", t.constant(2 / pi ** 0.5, x), t.point("exp", square))


def _none(t, g, y, *operands):
    """A step: its gradient is 0 wherever it has one."""
    return ()


RULES = {                                        # mode: (trace, gradient, result, operands) -> gradients
    "identity": lambda t, g, y, x: (g,),
    "neg": lambda t, g, y, x: (t.point("neg", g),),
    "abs": lambda t, g, y, x: (t.point("mul", g, _sign(t, x)),),
    "exp": lambda t, g, y, x: (t.point("mul", g, y),),
    "log": lambda t, g, y, x: (t.point("div", g, x),),
    "sqrt": lambda t, g, y, x: (t.point("div", g, t.point("add", y, y)),),
    "rsqrt": lambda t, g, y, x: (t.point("mul", t.point("div", g, x), t.point(
        "mul", y, t.constant(-0.5, x))),),
    "reciprocal": lambda t, g, y, x: (t.point("neg", t.point("mul", g, t.point("mul", y, y))),),
    "sin": lambda t, g, y, x: (t.point("mul", g, t.point("cos", x)),),
    "cos": lambda t, g, y, x: (t.point("neg", t.point("mul", g, t.point("sin", x))),),
    "tan": lambda t, g, y, x: (t.point("mul", g, t.point("add_square", t.constant(1.0, x), y)),),
    "erf": lambda t, g, y, x: (t.point("mul", g, _slope_of_erf(t, x)),),
    "add": lambda t, g, y, x, b: (g, g),
    "sub": lambda t, g, y, x, b: (g, lambda: t.point("neg", g)),
    "mul": lambda t, g, y, x, b: (lambda: t.point("mul", g, b), lambda: t.point("mul", g, x)),
    "div": _quotient,
    "pow": _power,
    "max": _extreme("cmp_gt", "cmp_ge"),
    "min": _extreme("cmp_lt", "cmp_le"),
    "binary_select": _selected,
    **{mode: _none for mode in ("cmp_eq", "cmp_neq", "cmp_gt", "cmp_ge", "cmp_lt", "cmp_le")},
}
OF_RESULT = {                                    # those that read the result
    Pointwise: frozenset(("exp", "sqrt", "rsqrt", "reciprocal", "tan", "div", "pow")),
    Reduction: frozenset(("max", "min"))}
