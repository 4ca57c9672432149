"""Graphs in which a node is replaced by what it is made of, or by itself between casts."""
from __future__ import annotations

from dataclasses import replace

from ..dtypes import BY_NAME
from ..ops import Pointwise
from ..steps import Scalar
from ..tensor import TensorDesc
from .graph import FromTensor, Graph, Node, every
from .match import number_of, scalar_of
from .tensor import Tensor


def _fresh(graph: Graph):
    """uids that no tensor has."""
    uid = max(graph.tensors) + 1
    while True:
        yield uid
        uid += 1


def lowered(graph: Graph, number: int) -> Graph | None:
    """The graph with a node as the operations that it is made of; None where it is made of no others."""
    node, fresh = graph.nodes[number], _fresh(graph)
    descs = graph.described(node)
    made = node.op.lower(descs, tuple(o for o in node.op.operands() if o not in node.operands))
    if made is None:
        return None
    rows, inner = made
    uids = {**node.operands, **{name: next(fresh) for name in inner}}
    uids |= {f"{o}.{i}": uid for o, several in node.operands.items() if isinstance(several, tuple)
             for i, uid in enumerate(several)}
    tensors = {**graph.tensors}
    for name, desc in inner.items():
        tensors[uids[name]] = Tensor(uids[name], desc, "virtual", name=f"{node.name}::{name}")
    nodes = []
    for i, (op, operands, scalars) in enumerate(rows):
        known = {o: name for o, name in operands.items()
                 if name in uids or name in node.op.scalars or isinstance(name, float)}
        read = {o: _operand(node, name, uids, tensors, fresh, nodes) for o, name in known.items()}
        numbers = {s: inherited(node, v) if isinstance(v, str) else v for s, v in scalars.items()}
        nodes.append(Node(op, read, numbers, f"{node.name}.{i}"))
    return graph.changed([*graph.nodes[:number], *nodes, *graph.nodes[number + 1:]], tensors)


def inherited(node: Node, name: str):
    """A number of a node for one that stands in its place."""
    value = node.scalars.get(name)
    return value if isinstance(value, FromTensor) else scalar_of(node, name)


def _operand(node, name, uids, tensors, fresh, nodes) -> int:
    """The uid of an operand of a made node:
    a tensor, or a number (the node's own, or a constant) that is read as one."""
    if name not in uids:
        source = _constant(name) if isinstance(name, float) else number_of(tensors, node, name)
        make = _given if isinstance(source, Scalar) else _in_memory
        uids[name] = make(source, node, tensors, fresh, nodes)
    return uids[name]


def _constant(value: float) -> Scalar:
    return Scalar(("constant", value), value)


def _given(scalar, node, tensors, fresh, _=()) -> int:
    """A tensor for a number given at execute, of the rank of what a node writes."""
    uid, rank = next(fresh), len(tensors[node.writes[0]].dims)
    tensors[uid] = Tensor(uid, TensorDesc.packed("f64", (1,) * rank), "value", scalar=scalar)
    return uid


def _in_memory(pointer, node, tensors, fresh, nodes) -> int:
    """The same for a number in memory, which may have any rank: 1 times it, by a node more."""
    one, uid = _given(_constant(1.0), node, tensors, fresh), next(fresh)
    tensors[uid] = tensors[one].replace(uid=uid, kind="virtual", dtype=node.op.math, scalar=None)
    times = dict(alpha=FromTensor(pointer.uid))
    nodes.append(Node(_identity(node.op), dict(x=one, y=uid), times, node.name))
    return uid


def _identity(op) -> Pointwise:
    return Pointwise(mode="identity", compute=op.math)


def _blends_from_memory(graph, node, operand) -> bool:
    """An output is scaled or added to by numbers that lie on the device."""
    values = [node.scalars.get(name) for name in node.op.blends.get(operand, ())]
    return any(isinstance(v, FromTensor) and not graph.tensors[v.uid].is_by_value for v in values)


def _cast(graph, node) -> set:
    """The operands that are not of the math type. Outputs that blend go together: they may share a number,
    which then counts in the casts and no more in the node."""
    found = {o for o, uid in node.operands.items()
             if graph.tensors[every(uid)[0]].dtype is not BY_NAME[node.op.math]
             or _blends_from_memory(graph, node, o)}
    return found | node.operands.keys() & node.op.blends.keys() if found & node.op.blends.keys() else found


def _lowest_of(dtype, uid: int, to: Node, tensors: dict, fresh) -> list:
    """Nodes in place of the cast ``to`` a type, which give its lowest value for the lowest one of the type
    before."""
    of, is_lowest = tensors[uid], next(fresh)
    tensors[is_lowest] = Tensor(is_lowest, of.desc, "virtual", name=f"{of.name}.is_lowest")
    before, after = (_given(_constant(float(t.lowest)), to, tensors, fresh) for t in (of.dtype, dtype))
    compare, select = (replace(to.op, mode=mode) for mode in ("cmp_eq", "binary_select"))
    return [Node(compare, dict(x=uid, b=before, y=is_lowest), {}, to.name),
            Node(select, dict(x=after, b=uid, t=is_lowest, y=to.operands["y"]), to.scalars, to.name)]


def cast(graph: Graph, number: int) -> Graph | None:
    """The graph with a node that computes in its math type, between casts of its operands; None where there
    is nothing to cast, or what an output held would have to be. What is added to goes through the last cast,
    which rounds once."""
    node, fresh = graph.nodes[number], _fresh(graph)
    math, tensors = BY_NAME[node.op.math], {**graph.tensors}
    if isinstance(node.op, Pointwise) or node.op.variadic & node.operands.keys():
        return None
    swapped, casts, scalars, to_cast = {}, [], dict(node.scalars), _cast(graph, node)
    for operand, uid in node.operands.items():
        tensor = graph.tensors[every(uid)[0]]
        if operand in node.op.fixed or tensor.is_by_value or operand not in to_cast:
            continue
        mine = swapped[operand] = next(fresh)
        desc = TensorDesc(math, tensor.dims, tensor.desc.like(tensor.dims, dtype=math).strides)
        tensors[mine] = Tensor(mine, desc, "virtual", name=f"{node.name}::{operand}")
        if operand in node.op.reads:
            casts.append(Node(_identity(node.op), dict(x=uid, y=mine), {}, f"{node.name}.{operand}"))
        else:
            blend = {}
            for factor, name in zip(("alpha", "beta"), node.op.blends.get(operand, ())):
                if name:
                    blend[factor] = inherited(node, name)
                    scalars[name] = 1.0 if factor == "alpha" else 0.0
            last = Node(_identity(node.op), dict(x=mine, y=uid), blend, f"{node.name}.{operand}")
            settles = node.op.has_nothing(len(tensor.dims)) and tensor.dtype is not math
            casts += _lowest_of(tensor.dtype, mine, last, tensors, fresh) if settles else [last]
    if not swapped or swapped.keys() & node.op.keeps:
        return None
    again = Node(node.op, {**node.operands, **swapped}, scalars, node.name)
    return graph.changed([*graph.nodes[:number], *casts, again, *graph.nodes[number + 1:]], tensors)
