"""An order of a graph's nodes that does not depend on uids and names: graphs that are one but for how their
tensors are numbered have one order, one digest and one problem text."""
from __future__ import annotations

import hashlib
import json
from collections import Counter

from ..ops import Problem
from ..ops.problem import attributes_text
from ..status import CydnnError
from ..steps import Scalar
from .graph import FromTensor, Graph, Node, every
from .text import problems, tensor_row


def order(graph: Graph) -> tuple[int, ...]:
    """The graph's nodes by their place in the canonical order: classes of nodes that look alike from where
    they stand are refined until each has one node; of nodes that nothing tells apart any comes first."""
    edges = [_edges(node) for node in graph.nodes]
    around: dict = {uid: [] for uid in graph.tensors}
    for i, row in enumerate(edges):
        for words, uid in row:
            around[uid].append((words, i))
    tensors = _ranked({uid: _tensor_text(graph, uid) for uid in graph.tensors})
    nodes = _ranked({i: _node_text(node) for i, node in enumerate(graph.nodes)})
    while True:
        nodes, tensors = _refined(graph, edges, around, nodes, tensors)
        counts = Counter(nodes.values())
        tied = min((rank for rank, count in counts.items() if count > 1), default=None)
        if tied is None:
            return tuple(sorted(nodes, key=nodes.get))
        chosen = min(i for i, rank in nodes.items() if rank == tied)
        nodes = _ranked({i: (rank, i != chosen) for i, rank in nodes.items()})


def digest(graph: Graph) -> str:
    """16 hexadecimal digits that say what the graph is, uids and names left out."""
    number: dict = {}
    rows = []
    for i in order(graph):
        node = graph.nodes[i]
        edges = [(words, number.setdefault(uid, len(number))) for words, uid in _edges(node)]
        rows.append([_node_text(node), edges])
    tensors = [[_tensor_text(graph, uid), number.get(graph.tensors[uid].ragged)]
               for uid in sorted(number, key=number.get)]
    return hashlib.sha256(json.dumps([rows, tensors]).encode()).hexdigest()[:16]


def problem_of(graph: Graph) -> str:
    """The problem text of a graph in its canonical order: of one operation the line that the benchmark reads;
    of others, or where numbers or features are no part of that line, with the digest behind it."""
    text = problems(graph, order(graph))
    if len(graph.nodes) == 1:
        try:
            problem = Problem.parse(text)
            single = Graph.single(problem.op, problem.operands, alignment=problem.alignment)
            if digest(single) == digest(graph):
                return text
        except CydnnError:                       # a graph may have what no line says
            pass
    return f"{text} #{digest(graph)}"


def _refined(graph, edges, around, nodes, tensors) -> tuple:
    """Ranks of nodes by those of their tensors and the other way round, until nothing new is told apart."""
    while True:
        count = len({*nodes.values()}), len({*tensors.values()})
        nodes = _ranked({i: (rank, [(words, tensors[uid]) for words, uid in edges[i]])
                         for i, rank in nodes.items()})
        tensors = _ranked({uid: (rank, sorted((words, nodes[i]) for words, i in around[uid]),
                                 tensors.get(graph.tensors[uid].ragged, -1))
                           for uid, rank in tensors.items()})
        if (len({*nodes.values()}), len({*tensors.values()})) == count:
            return nodes, tensors


def _ranked(keys: dict) -> dict:
    """The place of each key among the different ones, sorted."""
    texts = {name: json.dumps(key) for name, key in keys.items()}
    rank = {text: i for i, text in enumerate(sorted({*texts.values()}))}
    return {name: rank[text] for name, text in texts.items()}


def _edges(node: Node) -> list:
    """[(operand and place in it, uid)] of everything that a node reads or writes, numbers in memory too."""
    found = [(f"{name}.{k}", uid) for name, uids in sorted(node.operands.items())
             for k, uid in enumerate(every(uids))]
    return found + [(f"{name}!", value.uid) for name, value in sorted(node.scalars.items())
                    if isinstance(value, FromTensor)]


def _node_text(node: Node) -> str:
    """What a node is beside its tensors; a number that another node gave it is one by its default."""
    numbers = {name: repr(value.default if isinstance(value, Scalar) else value)
               for name, value in sorted(node.scalars.items()) if not isinstance(value, FromTensor)}
    return " ".join([node.op.name, *attributes_text(node.op), json.dumps(numbers)])


def _tensor_text(graph: Graph, uid: int) -> str:
    """What a tensor is beside its uid; whose number it is only where that is its own."""
    row = tensor_row(graph.tensors[uid], False)
    scalar = graph.tensors[uid].scalar
    row |= {"uid": 0, "ragged": row.get("ragged") is not None}
    if scalar is not None:
        row["scalar"] = [scalar.key == uid, scalar.default]
    return json.dumps(row, sort_keys=True)
