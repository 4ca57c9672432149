"""What is said of a node that no engine takes."""
from __future__ import annotations

import re

from ..engines import BY_INDEX, engines_for
from ..given import shown
from ..graph import Match
from ..graph.graph import every
from ..graph.text import describe
from ..status import NotSupported
from . import errata
from .offers import Offers
from .wish import ANYTHING, READ, Wish


def refuse(offers: Offers, number: int, inner: list):
    """Raise NotSupported for a node of the graph, with what each engine said of it. ``inner``: why what could
    stand in its place does not help, which counts where no kernel computes the node itself."""
    node, match = offers.graph.nodes[number], Match.single(offers.graph, number)
    known, given = engines_for(match.op), describe(match)
    refused = [(engine, _reasons(engine, match, offers.facts)) for engine in offers.engines(match.op)]
    reasons = [(engine, sentence) for engine, sentences in refused for sentence in sentences]
    lines = [f"\n  {engine}: {'; '.join(sentences)}" for engine, sentences in refused]
    if known and not refused:
        lines.append(_left_out(known, offers.wish))
    if all(engine.op is None for engine in known):
        reasons += [row for one in inner for row in one.facts["reasons"]]
        lines += ["\n  made of others, " + one.args[0].replace("\n", "\n  ") for one in inner]
    own = [sentence for engine, sentence in reasons if engine.op is not None]       # not the reference's
    sentences = tuple(dict.fromkeys(own or [sentence for _, sentence in reasons]))
    raise NotSupported(f"{node.label}: no engine takes {given} on {offers.facts.name}:{''.join(lines)}",
                       node=node.label, operand=_operand(match, sentences), attribute=None,
                       needed=sentences or "".join(lines).strip(), given=given, reasons=reasons)


def _reasons(engine, match: Match, facts) -> tuple:
    """Why an engine does not serve: what it refuses, or that no configuration fits."""
    sentences = errata.reasons(engine, match, facts)
    if sentences:
        return sentences
    try:
        engine.best(match, facts)
    except NotSupported as error:
        return (error.args[0].removeprefix(f"{engine}: "),)
    return ()


def _operand(match: Match, sentences: tuple) -> str | None:
    """The operand that every sentence is about."""
    if sentences and all(sentence.startswith("does not understand") for sentence in sentences):
        return next((o for o, ts in match.operands.items() if any(t and t.features for t in every(ts))), None)
    heads = {re.match(r"\w*", sentence)[0] for sentence in sentences}
    return heads.pop() if len(heads) == 1 and heads <= match.operands.keys() else None


def _left_out(known, wish: Wish) -> str:
    """Why a wish leaves none of the engines of an operation."""
    these = " ".join(map(str, known))
    if wish.engines is not None and not any(engine.index in wish.engines for engine in known):
        asked = " ".join(str(BY_INDEX.get(index, index)) for index in wish.engines) or "an empty list"
        return f" none of the engines you asked for ({asked}) computes this operation; these do: {these}"
    asked = ", ".join(f"{name} {shown(getattr(wish, name))}" for name in READ
                      if getattr(wish, name) != getattr(ANYTHING, name))
    return f" you asked for {asked or 'no notes'}, which leaves out every engine of this operation: {these}"
