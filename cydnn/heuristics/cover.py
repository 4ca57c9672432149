"""Cut a graph into parts: each an op with the pointwise chain that one engine fuses behind it. One part: the engine takes it whole."""
from __future__ import annotations

from dataclasses import dataclass

from ..engines import Engine, Match
from ..graph import Graph, Node
from ..status import NotSupported
from .candidates import explain, rank


@dataclass
class Part:
    """Nodes that one engine computes, the match it was given, its estimate, and who refused."""
    engine: Engine
    match: Match
    cost: float
    nodes: tuple
    refused: list


def match_of(graph: Graph, node: Node, chain=()) -> Match:
    """The match of ``node`` with ``chain`` fused behind it; its output operand becomes the chain's last output."""
    operands = {o: graph.tensors[node.operands[o]] if o in node.operands else None for o in node.op.operands()}
    return Match(node.op, operands, dict(node.operands), key=graph.nodes.index(node), scalar_values=dict(node.scalars),
                 epilogue=tuple(chain), graph=graph)


def partition(graph: Graph, facts, only=None, fuse=True) -> list[Part]:
    """Parts in order. Takes the longest fusable chain that an engine accepts. Raises NotSupported with every reason."""
    parts, done = [], set()
    for node in graph.nodes:
        if node in done:
            continue
        chain = graph.chain_behind(node) if fuse else []
        chain = [n for n in chain if n not in done]
        reasons = ""
        for length in range(len(chain), -1, -1):
            match = match_of(graph, node, chain[:length])
            if length and not _inputs_ready(graph, node, chain[:length], done):
                continue
            accepted, refused = rank(match, facts, only)
            if accepted:
                break
            reasons += explain(match, refused)
        else:
            raise NotSupported(f"{node.op.name}: no engine takes {describe(match)} on {facts.name}:{reasons}", reasons=refused)
        cost, engine = accepted[0]
        parts.append(Part(engine, match, cost, (node, *match.epilogue), refused))
        done.update(parts[-1].nodes)
    return parts


def _inputs_ready(graph, node, chain, done) -> bool:
    """What the chain reads besides its own values exists before ``node`` runs."""
    own = {u for n in (node, *chain) for u in n.writes()}
    before = {u for n in done for u in n.writes()}
    outside = {u for n in chain for u in n.reads()} - own
    return all(u not in graph.producer or u in before for u in outside)


def describe(match: Match) -> str:
    """The operands of a match in one line."""
    return " ".join(f"{name}={desc}" for name, desc in match.operands.items() if desc is not None)
