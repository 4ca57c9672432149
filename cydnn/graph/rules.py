"""Composed operations: which ones are recognised in the nodes that they are made of. One row an operation.

A row is the operation's own ``lower`` read backwards:
nodes of a graph that are what an op would be lowered to become that op.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from ..dtypes import BY_NAME
from ..ops import Op, Pointwise, Reduction, SoftmaxFwd
from ..status import BadParam
from ..steps import Scalar
from .graph import FromTensor, Graph, Node
from .lower import inherited
from .region import Region, bits

COMMUTATIVE = ("add", "mul", "min", "max", "logical_and", "logical_or", "cmp_eq", "cmp_neq")


@dataclass(frozen=True)
class Rule:
    """``ends``: modes of the pointwise node that it ends in; ``folds``: how many reductions it has.
    ``variants``: (graph, its last node) -> attributes of the ops that could be meant."""
    op: type
    ends: tuple
    folds: int
    variants: Callable


def _softmax(graph, node):
    """The reduced dim of the sum says which."""
    log = node.op.mode == "sub"
    for axis in range(len(graph.tensors[node.writes[0]].dims)):
        yield dict(algorithm="log" if log else "accurate", axis=axis)
    yield dict(algorithm="log" if log else "accurate", mode="instance")


RULES = (
    Rule(SoftmaxFwd, ("div", "sub"), 2, _softmax),
)


def composed(graph: Graph, number: int) -> Graph | None:
    """The graph with the composed op that ends in a node in place of what it is made of;
    None where there is none."""
    for last, node, mask in recognised(graph):
        if last == number:
            nodes = [n for i, n in enumerate(graph.nodes) if not mask >> i & 1]
            inner = {u for i in bits(mask) for u in graph.nodes[i].writes} - set(node.writes)
            tensors = [t for t in graph.tensors.values() if t.uid not in inner]
            return Graph([*nodes, node], tensors, graph.name)
    return None


def recognised(graph: Graph):
    """(last node, node of a composed op, mask of the nodes that it stands for), in the order of the graph."""
    folds = sum(isinstance(n.op, Reduction) for n in graph.nodes)
    for rule in RULES:
        for number, node in enumerate(graph.nodes) if folds >= rule.folds else ():
            if not isinstance(node.op, Pointwise) or node.op.mode not in rule.ends:
                continue
            tries = (_unify(graph, rule.op, a, number) for a in rule.variants(graph, node))
            found = next(filter(None, tries), None)
            if found:
                yield number, *found


def _unify(graph: Graph, op_class: type[Op], attributes: dict, number: int):
    """The op that ends in a node, with its operands and numbers, and the mask of its nodes;
    None where it does not."""
    last = graph.nodes[number]
    desc = graph.tensors[last.writes[0]].desc
    op = op_class(compute=last.op.compute, **attributes)
    rows, _ = op.lower({o: desc for o in op.operands()})
    writer = {name: row for row in rows for o, name in row[1].items() if o in row[0].writes}
    bound: dict[str, int] = {op.writes[0]: last.writes[0]}
    mask = _bind(graph, writer, op.writes[0], bound, 0)
    if mask is None or not set(op.operands()) - op.optional <= bound.keys():
        return None
    operands = {o: bound[o] for o in op.operands() if o in bound}
    made = _made(graph, Node(op, operands))
    if made is None or not made[1].keys() <= bound.keys():
        return None
    rows, inner = made
    numbers = _numbers(graph, op, rows, bound)
    if numbers is None:
        return None
    node = Node(op, operands, numbers, f"{last.name} as {op.name}")
    return (node, mask) if _is_same(graph, node, mask, inner, bound) else None


def _bind(graph, writer, name, bound, mask):
    """Follow what writes ``name``: bind the names of its operands to uids.
    The mask with its nodes, or None."""
    uid = bound[name]
    if name not in writer:
        return mask
    if uid not in graph.producer:
        return None
    number = graph.producer[uid]
    node, (made, operands, _) = graph.nodes[number], writer[name]
    if type(node.op) is not type(made) or node.op != made:
        return None
    reads = [o for o in made.reads if o in operands]
    orders = [reads, reads[::-1]] if getattr(made, "mode", "") in COMMUTATIVE and len(reads) == 2 else [reads]
    for order in orders:
        trial, found = dict(bound), mask | 1 << number
        for o, source in zip(reads, order):
            read = node.operands.get(o)
            if found is not None and trial.setdefault(operands[source], read) == read:
                found = _bind(graph, writer, operands[source], trial, found)
            else:
                found = None
        if found is not None:
            bound.update(trial)
            return found
    return None


def _made(graph, node):
    """The rows and the values in between that a node is made of; None where its operands are wrong."""
    try:
        descs = graph.described(node)
        node.op.complete(descs)
    except BadParam:
        return None
    return node.op.lower(descs, tuple(o for o in node.op.operands() if o not in node.operands))


def _numbers(graph, op, rows, bound) -> dict | None:
    """The numbers of the op, as the nodes have them.
    None where a node has another than its row says, or two nodes have two for one."""
    read = {name: FromTensor(bound[name]) for name in op.scalars if name in bound}
    found = {name: (value, value) for name, value in read.items()}
    for made, operands, scalars in rows:
        if not all(_is_number(graph, op, name, bound) for name in operands.values()):
            return None
        node = graph.nodes[graph.producer[bound[operands[made.writes[0]]]]]
        for name, default in made.scalars.items():
            wanted, value = scalars.get(name, default), node.scalars.get(name, default)
            if isinstance(wanted, str):
                wanted = found.setdefault(wanted, (value, inherited(node, name)))[0]
            if value != wanted:
                return None
    return {name: value for name, (_, value) in found.items()}


def _is_number(graph, op, name, bound) -> bool:
    """Where a row has a number in an operand's place, so has the graph."""
    if name not in bound:
        return False
    tensor = graph.tensors[bound[name]]
    if isinstance(name, float):
        return tensor.scalar == Scalar(("constant", name), name)
    return name not in op.scalars or tensor.count == 1


def _is_same(graph, node, mask, inner, bound) -> bool:
    """The values in between are not needed elsewhere,
    and of the dims and the type that the op's own lowering has."""
    if {u for u in Region(graph, mask).outputs} - set(node.writes):
        return False
    tensors = {name: graph.tensors[bound[name]] for name in inner}
    math = BY_NAME[node.op.math]
    return all(t.is_virtual and t.dims == inner[n].dims and t.dtype is math for n, t in tensors.items())
