"""Graphs as text: for errors and logs, as a digest that is the same in every process,
and as rows that read back."""
from __future__ import annotations

import hashlib
import json

from ..given import reason, shown
from ..ops import BY_NAME
from ..ops.problem import attributes_text, parse_attribute, to_text
from ..status import BadParam, CydnnError
from ..steps import Scalar
from .graph import FromTensor, Graph, Node
from .tensor import Tensor
from ..tensor import TensorDesc

# Facts of a tensor, and what they mostly are.
FACTS = dict(kind="memory", alignment=16, ragged=None, reordering="none", name="")


def describe(match) -> str:
    """The operands of a match in one line."""
    plain = lambda v: "+".join(map(str, v)) if isinstance(v, tuple) else str(v)
    return " ".join(f"{name}={plain(value)}" for name, value in match.operands.items() if value is not None)


def problems(graph: Graph, order=None) -> str:
    """The problem texts of the nodes, in the graph's order or another: what a log line begins with."""
    nodes = graph.nodes if order is None else [graph.nodes[i] for i in order]
    return " -> ".join(to_text(node.op, graph.described(node), _alignment(graph, node)) for node in nodes)


def problems_of(match) -> str:
    """The same of the nodes of a match."""
    return problems(match.graph, match.region.nodes)


def _alignment(graph: Graph, node: Node) -> int:
    """Bytes that every pointer of a node is a multiple of."""
    tensors = [graph.tensors[uid] for uid in (*node.reads, *node.writes)]
    return min([t.alignment for t in tensors if t.kind == "memory"], default=16)


def digest(graph: Graph) -> str:
    """32 hexadecimal digits that say what the graph is, names left out."""
    text = json.dumps(rows(graph, with_names=False), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


# ---- Rows ----

def rows(graph: Graph, with_names=True) -> dict:
    """The graph as lists, dicts, numbers and strings."""
    return dict(name=graph.name if with_names else "",
                nodes=[_node_row(n, with_names) for n in graph.nodes],
                tensors=[tensor_row(t, with_names) for t in graph.tensors.values()])


def tensor_row(tensor: Tensor, with_names) -> dict:
    """A tensor as a dict of what is not as usual."""
    row = dict(uid=tensor.uid, dtype=tensor.dtype.name, dims=list(tensor.dims), strides=list(tensor.strides))
    if tensor.desc.vector > 1:
        row["vector"] = tensor.desc.vector
    row |= {name: getattr(tensor, name) for name, usual in FACTS.items() if getattr(tensor, name) != usual}
    if not with_names:
        row.pop("name", None)
    if tensor.scalar is not None:
        own = tensor.scalar.key == tensor.uid
        row["scalar"] = tensor.scalar.default if own else [tensor.scalar.key, tensor.scalar.default]
    return row


def _node_row(node: Node, with_names) -> dict:
    row = dict(op=" ".join([node.op.name, *attributes_text(node.op)]),
               operands={o: list(u) if isinstance(u, tuple) else u for o, u in node.operands.items()})
    if node.scalars:
        row["scalars"] = {name: dict(tensor=v.uid) if isinstance(v, FromTensor) else v
                          for name, v in node.scalars.items()}
    return {**row, "name": node.name} if with_names and node.name != node.op.name else row


def from_rows(found: dict) -> Graph:
    """The graph of ``rows``. Raises BadParam for rows that are none."""
    try:
        tensors = [_tensor(dict(row)) for row in found["tensors"]]
        return Graph([_node(row) for row in found["nodes"]], tensors, found.get("name", ""))
    except CydnnError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise BadParam("graph: rows must be those that a graph was written as; "
                       f"got {reason(error)}") from None


def _tensor(row: dict) -> Tensor:
    uid, default = row.pop("uid"), row.pop("scalar", None)
    desc = TensorDesc(row.pop("dtype"), row.pop("dims"), row.pop("strides"), row.pop("vector", 1))
    key, default = default if isinstance(default, list) else (uid, default)
    key = tuple(key) if isinstance(key, list) else key
    return Tensor(uid, desc, scalar=None if default is None else Scalar(key, default), **row)


def _node(row: dict) -> Node:
    name, *words = row["op"].split()
    if name not in BY_NAME:
        raise BadParam(f"graph: op must be one of {' '.join(BY_NAME)}; got {shown(name)}")
    pairs = [word.partition("=")[::2] for word in words]
    pairs = [("compute" if key == "acc" else key, value) for key, value in pairs]
    op = BY_NAME[name](**{key: parse_attribute(BY_NAME[name], key, value) for key, value in pairs})
    operands = {o: tuple(u) if isinstance(u, list) else u for o, u in row["operands"].items()}
    scalars = {s: FromTensor(v["tensor"]) if isinstance(v, dict) else v
               for s, v in row.get("scalars", {}).items()}
    return Node(op, operands, scalars, row.get("name", ""))
