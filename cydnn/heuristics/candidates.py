"""Mode A: the engines that accept a match, cheapest first by their own cost estimate; and why the others refused."""
from __future__ import annotations

from dataclasses import dataclass

from ..engines import Engine, Match, engines_for


@dataclass(frozen=True)
class Refused:
    """An engine and the sentences with which it refused."""
    engine: Engine
    reasons: tuple


def rank(match: Match, facts, only=None) -> tuple[list[tuple[float, Engine]], list[Refused]]:
    """``([(cost in µs, engine), …] cheapest first, [Refused, …])`` for one match on a device. ``only`` limits the engines."""
    accepted, refused = [], []
    for engine in engines_for(match.op):
        if only is not None and engine not in only:
            continue
        if match.epilogue and not engine.fuses_epilogue:
            refused.append(Refused(engine, ("takes no pointwise operations behind it",)))
            continue
        reasons = tuple(engine.refuse(match, facts))
        if reasons:
            refused.append(Refused(engine, reasons))
        else:
            accepted.append((engine.cost(match, facts), engine))
    return sorted(accepted, key=lambda pair: pair[0]), refused


def explain(match: Match, refused: list[Refused]) -> str:
    """The sentences of an error: each engine with its reasons."""
    return "".join(f"\n  {r.engine}: {'; '.join(r.reasons)}" for r in refused)
