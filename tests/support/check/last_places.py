"""How far results are from the exact ones on the whole, not in the worst element: where thousands of terms
allow much for one element, sums in too short a type or a second rounding still show in all of them together.

Errors are measured in half a step of the output's type and ``SHARE`` steps of the arithmetic at the sum of
absolute values; of recurrent networks, which round on the way, in ``NOISE`` of what the op makes of random
roundings, and of gradients of attention, whose weights are rounded, in what random roundings of these make.
Where all are as they should be, their root mean square is 0.58 or little more for a short type (errors of one
rounding are uniform), 0.17 for others, and nearly every element of a short type is the exact result rounded
once.
"""
from __future__ import annotations

import numpy as np

from cydnn import dtypes, plan
from cydnn.graph import Match

from . import matrix
from ..draw import regimes
from .compare import half_step

SHARE, NOISE, LEAST = 2.0, 1 / 16, 64            # LEAST: elements of which something can be said
SHORT = 64                                       # how many times larger the steps of a short type are
MOST_RMS, MOST_OFF = (0.85, 0.4), 0.003          # the former of a short type or a network, and of another


def texts(case, device, seed: int = 0) -> list[str]:
    """What is too far from the exact results of a case, which stores what it computes."""
    op = case.problem.op
    made = matrix.Prepared(case.problem, seed, matrix.plain(op), exact=False)
    if regimes.OTHER_NUMBERS & set(case.engine.notes) or made.is_exact:
        return []
    plan.forget()
    built = plan.build(made.graph, device, case.wish)
    filled = made.values.keys() - (set(op.writes) - made.reads_old)
    buffers, _ = matrix.execute(built, case.problem, made.values, filled, device)
    plan.forget()
    magnitude = case.engine.magnitude(op, made.arrays, made.scalars, made.raw)
    noise = rounded(made, case.engine)
    found = ((n, judged(made, n, b.desc.dtype, b.read()[0], magnitude[n], noise.get(n, 0.0)))
             for n, b in buffers.items() if n in op.writes and b.desc.dtype.eps)
    return [f"{name}: {text}" for name, text in found if text]


def rounded(made, engine) -> dict:
    """{gradient: sqrt(3) of the mean error, by its square} of attention whose weights and gradients of scores
    an engine rounds: one uniform error has half a step."""
    op, kind, rng = made.problem.op, engine.rounded_to(Match.single(made.graph)), np.random.default_rng(0)
    if kind is None or not hasattr(op, "off"):
        return {}
    some = lambda *exact: [x * kind.eps / 2 * rng.uniform(-1, 1, x.shape) for x in exact]
    drawn = [op.off(made.arrays, made.scalars, some) for _ in range(16)]
    return {name: np.sqrt(3 * np.mean([d[name] ** 2 for d in drawn], 0)) for name in drawn[0]}


def judged(made, name, dtype, got, magnitude, noise=0.0) -> str:
    """What is wrong with an output on the whole; of so few that chance decides, nothing is said."""
    op, want = made.problem.op, made.want[name]
    eps = dtypes.BY_NAME[op.math].eps or dtypes.f32.eps
    alpha, beta = (made.scalars.get(s, 1.0) for s in op.blends[name]) if name in op.blends else (1.0, 0.0)
    with np.errstate(all="ignore"):
        scale = np.abs(alpha) * magnitude + (np.abs(beta * made.values[name]) if beta else 0.0)
        use = np.isfinite(want) & np.isfinite(got) & np.isfinite(scale) & (np.abs(want) < dtype.highest / 2)
    if use.sum() < LEAST or eps < 2.0 ** -40:
        return ""
    inner, noise, scale, want, got = (np.broadcast_to(v, use.shape)[use]
                                      for v in (made.inner.get(name, 0.0), noise, scale, want, got))
    step, loss = 2 * half_step(dtype, np.abs(want)) + dtype.tiny, SHARE * eps * scale
    room = np.maximum(np.maximum(NOISE * inner, noise), step / 2 + loss)
    size = float(np.sqrt(np.mean(((got - want) / room) ** 2)))
    is_short, is_noisy = dtype.eps > SHORT * eps, inner.any()
    if size > (most := MOST_RMS[not is_short and not is_noisy]):
        return f"the root mean square of errors is {size:.2f} of what it may be; at most {most} is right"
    off, may_be = int((got != dtype.round(want)).sum()), float(np.minimum(1, loss / 2 / step).sum())
    if is_short and not is_noisy and off > 3 + MOST_OFF * want.size + may_be:
        return f"{off} of {want.size} elements are not the exact result rounded once; {may_be:.1f} may be"
    return ""
