"""Convolutions that another convolution of the same direction computes, over operands in another form."""
from __future__ import annotations

from ...graph import Graph, Match, Tensor, once_per_match
from ...steps import placed
from ..engine import Engine


def match_of(p, nodes, *others: Tensor, is_core=None) -> Match:
    """A match of these nodes alone, some on tensors that the graph of ``p`` does not have, or not so: what
    crosses the border of the region of ``p`` is in memory."""
    border = {*p.region.inputs, *p.region.outputs}
    tensors = {**p.graph.tensors, **{tensor.uid: tensor for tensor in others}}
    used = {u for node in nodes for u in (*node.reads, *node.writes)}
    own = [tensors[u].replace(kind="memory") if u in border and tensors[u].is_virtual else tensors[u]
           for u in sorted(used)]
    graph = Graph(nodes, own)
    mask = (1 << len(nodes)) - 1
    if is_core is None:
        return Match.elementwise(graph, mask)
    number = next(i for i, node in enumerate(graph.nodes) if is_core(node))
    return Match.around(graph, number, mask)


class InnerConv(Engine):
    """The base: ``nested`` is the convolution that one of ``inner`` computes; its operands are uids 1 to 3 in
    the order of ``op.parts``."""
    notes = ("deterministic", "tensor_core")
    inner: tuple = ()

    def nested(self, p) -> Match:
        raise NotImplementedError

    @once_per_match
    def found(self, p, dev) -> list:
        """(µs, number, engine, configuration) of the engines that take it, the cheapest first."""
        match, rows = self.nested(p), []
        for number, engine in enumerate(self.inner):
            if engine.fits(match) and engine.accepts(match, dev):
                config = engine.best(match, dev)
                rows.append((engine.cost(match, dev, config), number, engine, config))
        return sorted(rows, key=lambda row: row[:2])

    def untaken(self, p, dev) -> str:
        """Why none of the engines takes it; empty where one does."""
        if self.found(p, dev):
            return ""
        return "; ".join(dict.fromkeys(s for e in self.inner for s in e.reasons(self.nested(p), dev)))

    def steps(self, p, dev, where: dict) -> list:
        """The launches of the nested convolution at these addresses."""
        _, _, engine, config = self.found(p, dev)[0]
        return placed(engine.plan(self.nested(p), dev, config), where)
