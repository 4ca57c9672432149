"""Graphs in a line of text, engines with made-up costs: a test says what the cheapest choice is."""
from __future__ import annotations

from dataclasses import replace

from cydnn.device.facts import KNOWN
from cydnn.engines import engine
from cydnn.engines.engine import Config, Knob
from cydnn.graph import Graph, Node, Tensor, bits, core, many
from cydnn.heuristics import choice, memory, offers, refusal
from cydnn.heuristics.wish import ANYTHING
from cydnn.ops import Matmul, Pointwise, SoftmaxFwd
from cydnn.steps import Launch, Memset, Pointer, Scratch
from cydnn.tensor import TensorDesc

FACTS = replace(KNOWN["h200"], launch_us=0.0)    # what a node costs at least is next to nothing
SIDE = 8
BYTES = 4 * SIDE * SIDE                          # of a tensor
ALONE, BEHIND = core(SoftmaxFwd), core(SoftmaxFwd, behind=many(Pointwise))
AROUND = core(SoftmaxFwd, before=many(Pointwise, at="x"), behind=many(Pointwise))
PRODUCT = core(Matmul, before=many(Pointwise, at="a b"))


def graph(text: str, dtype="f32") -> Graph:
    """"p x, A p" is a pointwise node p of a tensor x, and an anchor A of what p makes: softmax of one value,
    a product of two. Nodes stand in this order where they may; what nobody reads is an output."""
    rows = [row.split() for row in text.split(",")]
    named = list(dict.fromkeys([*(n for _, *reads in rows for n in reads), *(name for name, *_ in rows)]))
    made = [name for name, *_ in rows]
    read = {n for _, *reads in rows for n in reads}
    uid = {n: i for i, n in enumerate([*(n for n in named if n not in made), *made], 1)}
    tensors = [Tensor(uid[n], TensorDesc.packed(dtype, (SIDE, SIDE)), "virtual" if n in made and n in read
                      else "memory", name=n) for n in named]
    return Graph([_node(name, [uid[r] for r in reads], uid[name]) for name, *reads in rows], tensors)


def _node(name, reads, y) -> Node:
    if name[0].isupper():
        op, names = (SoftmaxFwd(), "xy") if len(reads) == 1 else (Matmul(), "abc")
    else:
        op, names = Pointwise(mode="add" if len(reads) == 2 else "abs"), "xby" if len(reads) == 2 else "xy"
    return Node(op, dict(zip(names, (*reads, y))), name=name)


def named(graph: Graph, mask: int) -> str:
    """The nodes of a mask, as in "A p"; the order of their names."""
    return " ".join(sorted(graph.nodes[i].name for i in bits(mask)))


def mask_of(graph: Graph, names: str) -> int:
    return sum(1 << i for i, node in enumerate(graph.nodes) if node.name in names.split())


class Made(engine.Engine):
    """Takes the regions of which it has a cost: {"A p": microseconds}, or {"A p": {value of its knob:
    (microseconds, bytes of scratch)}}; for "*" what it has no other for. ``asked``: whose cost was asked."""
    knobs = (Knob("n", lo=0, hi=99),)

    def __init__(self, index, takes, us, least=0.0, notes=(), only_for=(), does_fuse=False):
        self.index, self.takes, self.us, self.least = index, takes, us, least
        self.notes, self.only_for, self.does_fuse, self.asked = notes, only_for, does_fuse, []

    def _row(self, p):
        found = self.us.get(named(p.graph, p.region.mask), self.us.get("*"))
        return found if isinstance(found, dict) or found is None else {None: (found, 0)}

    def refuse(self, p, dev):
        if self._row(p) is None:
            yield "has no cost for it"

    def configs(self, p, dev):
        for n in self._row(p):
            yield Config() if n is None else Config(n=n)

    def cost(self, p, dev, config):
        self.asked.append(named(p.graph, p.region.mask))
        return self._row(p)[config.get("n")][0]

    def least_us(self, p, dev):
        return self.least

    def plan(self, p, dev, config):
        size = self._row(p)[config.get("n")][1]
        args = {str(u): Pointer(u) for u in (*p.region.inputs, *p.region.outputs)}
        launch = Launch("made", args, fuse={"mark": _Fused()} if self.does_fuse else {})
        return [launch, Memset(Pointer(Scratch(size)), size)] if size else [launch]


class _Fused:
    def mapped(self, value):
        return self


def use(monkeypatch, *engines):
    """These are all the engines that there are, in this order of preference."""
    every = lambda op: [e for e in engines if e.op is (op if isinstance(op, type) else type(op))]
    for module in (offers, choice, refusal):
        monkeypatch.setattr(module, "engines_for", every)
    memory.forget()


def offered(graph: Graph, wish=ANYTHING, is_brief=False) -> offers.Offers:
    return offers.Offers(graph, FACTS, wish, is_brief)


def said(parts) -> list:
    """[(number of the engine, its nodes)] of the parts, in order."""
    return [(p.engine.index, named(p.match.graph, p.region.mask)) for p in parts]
