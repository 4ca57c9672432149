"""A diagram of what a graph runs as on a device, which need not be here."""
from __future__ import annotations

from .. import device as devices
from ..device.facts import KNOWN
from ..graph import Graph
from ..layout import Layout


def mermaid(graph: Graph, device, wish) -> str:
    """The nodes of a graph in the language of Mermaid, which GitHub draws: those computed together in
    a box with the name of their engine. ``device``: of this machine, or a product that is known ("h200")."""
    facts = KNOWN[device] if device in KNOWN else devices.get(device).facts
    choice = Layout.of(graph, facts, wish).choice
    graph, lines, seen = choice.graph, ["flowchart TD"], set()
    for number, part in enumerate(choice.parts):
        lines.append(f'    subgraph part{number}["{part.engine}"]')
        lines += [f'        n{i}(["{graph.nodes[i].label}"])' for i in part.match.region.nodes]
        lines.append("    end")
    for i, node in enumerate(graph.nodes):
        for uid in dict.fromkeys((*node.reads, *node.writes)):
            if uid not in seen:
                tensor = graph.tensors[uid]
                lines.append(f'    t{uid}["{tensor.label}<br>{tensor.desc}"]')
                seen.add(uid)
        lines += [f"    t{uid} --> n{i}" for uid in node.reads]
        lines += [f"    n{i} --> t{uid}" for uid in node.writes]
    return "\n".join(lines)
