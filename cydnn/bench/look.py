"""What a graph runs as on a device, which need not be here: a diagram, and a page for a browser."""
from __future__ import annotations

from html import escape

from .. import device as devices
from ..graph import Graph
from ..layout import Layout


def mermaid(graph: Graph, device, wish) -> str:
    """The nodes of a graph in the language of Mermaid, which GitHub draws: those computed together in
    a box with the name of their engine. ``device``: as of ``facts_of``."""
    choice = Layout.of(graph, devices.facts_of(device), wish).choice
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


SHARES = "bandwidth", "arithmetic", "roof"
STYLE = """body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 }
th, td { border: 1px solid #ccc; padding: .3em .7em; text-align: left }
pre { background: #f4f4f4; padding: 1em; overflow-x: auto }"""


def page(told) -> str:
    """A page of HTML that stands alone, of (what ``explain`` says as data, the text of the diagram) pairs."""
    pieces = [f"<section>{_told(data, drawn)}</section>" for data, drawn in told]
    return ("<!doctype html>\n<html lang=en><meta charset=utf-8><title>cydnn explain</title>"
            f"<style>{STYLE}</style>\n<body>{''.join(pieces)}</body></html>\n")


def _told(data: dict, drawn: str) -> str:
    share = lambda part, name: "" if part.get(name) is None else f"{100 * part[name]:.0f} %"
    parts = [(", ".join(p["nodes"]), f'{p["engine"]} {p["config"]}', f'{p["us"]:.2f}', f'{p["bytes"]:,}',
              f'{p["flops"]:,}', *(share(p, word) for word in SHARES))
             for p in data["parts"]]
    others = [(o["engine"], o["config"], f'{o["us"]:.2f}') for p in data["parts"] for o in p["others"]]
    refused = [(engine, "; ".join(why)) for p in data["parts"] for engine, why in p["refused"].items()]
    return "\n".join([
        f"<h1>{escape(data['problem'])}</h1>",
        f"<p>On {escape(data['device'])}: {data['us']:.2f} µs by the estimate, {data['workspace_bytes']:,} "
        f"bytes of workspace. Notes: {escape(', '.join(data['notes']) or 'none')}.</p>",
        _table(("nodes", "engine", "µs", "bytes", "FLOP", *(f"of the {w}" for w in SHARES)), parts),
        "<h2>Others that would take it</h2>", _table(("engine", "configuration", "µs"), others),
        "<h2>Refused</h2>", _table(("engine", "why"), refused),
        f"<h2>Diagram (Mermaid)</h2><pre class=mermaid>{escape(drawn)}</pre>"])


def _table(head, rows) -> str:
    if not rows:
        return "<p>None.</p>"
    row = lambda cells, tag: "<tr>" + "".join(f"<{tag}>{escape(str(c))}</{tag}>" for c in cells) + "</tr>"
    return f"<table>{row(head, 'th')}{''.join(row(r, 'td') for r in rows)}</table>"
