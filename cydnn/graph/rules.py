"""Composed operations: which ones are recognised in the nodes that they are made of. One row an operation.

A row is the operation's own ``lower`` read backwards, in each of its ``spellings``: nodes of a graph that are
what an op would be lowered to become that op. Values in between may leave where they are an optional output
of the op (statistics that training keeps), and optional operands may be absent.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations
from typing import Callable, Iterator, NamedTuple

from ..dtypes import BY_NAME
from ..ops import NormFwd, Op, Pointwise, Reduction, Sdpa, SoftmaxFwd
from ..ops.softmax import STATISTICS
from ..status import BadParam
from ..steps import Scalar
from ..tensor import TensorDesc
from . import attention_rule
from .graph import FromTensor, Graph, Node
from .lower import inherited
from .region import Region, bits

COMMUTATIVE = ("add", "mul", "min", "max", "logical_and", "logical_or", "cmp_eq", "cmp_neq")
DEPTH = 12                                       # nodes between a reduction and the end of what it belongs to


class Cone(NamedTuple):
    """The nodes above a node, up to DEPTH and the second reduction. ``end``: mode of the node."""
    end: str
    ops: frozenset                               # (class, mode)
    thin: tuple                                  # dims of the reductions, the nearest first
    wide: tuple                                  # dims of what the nearest one reduces


@dataclass(frozen=True)
class Rule:
    """``ends``: modes of the pointwise node that ``y`` comes from; ``folds``: how many reductions it has.
    ``variants``: (dims of y, Cone) -> attributes of the ops that could be meant."""
    op: type
    ends: tuple
    folds: int
    variants: Callable


def _softmax(dims, cone: Cone):
    """The dim that is reduced says which."""
    log = cone.end == "sub"
    axes = [i for i, (t, d) in enumerate(zip(cone.thin[0], dims)) if t == 1 != d] or range(len(dims))
    if len(axes) == 1 or not isinstance(axes, list):
        yield from (dict(algorithm="log" if log else "accurate", axis=axis) for axis in axes)
    yield dict(algorithm="log" if log else "accurate", mode="instance")


def _norm(dims, cone: Cone):
    """Rows are what a mean is one of; without a mean it is RMS."""
    axes = [i for i, (t, d) in enumerate(zip(cone.thin[0], dims)) if t == 1 != d]
    mode = "layer" if (Pointwise, "sub") in cone.ops else "rms"
    if axes and axes[0]:
        yield dict(mode=mode, axis=axes[0])
    if mode == "layer" and axes and axes[0] >= 2:
        yield dict(mode="instance")
    if mode == "layer" and axes and axes[0]:
        yield dict(mode="ada_layer", axis=axes[0])


RULES = (
    Rule(SoftmaxFwd, ("div", "sub"), 2, _softmax),
    Rule(NormFwd, ("add", "mul", "div"), 1, _norm),
)
COMPOSED = (*(rule.op for rule in RULES), Sdpa)


def composed(graph: Graph, number: int, ops=None) -> Graph | None:
    """The graph with the composed op that ends in a node in place of what it is made of;
    None where there is none."""
    for last, node, mask in recognised(graph, ops):
        if last == number:
            return put(graph, node, [graph.nodes[i] for i in bits(mask)])
    return None


def put(graph: Graph, node: Node, gone) -> Graph:
    """The graph with a node in place of those that it stands for."""
    gone = frozenset(gone)
    inner = {u for n in gone for u in n.writes} - set(node.writes)
    return graph.changed([*(n for n in graph.nodes if n not in gone), node],
                         [t for t in graph.tensors.values() if t.uid not in inner])


def recognised(graph: Graph, ops=None) -> Iterator[tuple]:
    """(last node, node of a composed op, mask of the nodes that it stands for), in the order of the graph.
    ``ops``: the classes of ops that are looked for; None: all. Where the nodes of one are among those of
    another, the larger comes."""
    found = list(_of_rules(graph, ops))
    if ops is None or Sdpa in ops:
        softmaxes = found if ops is None or SoftmaxFwd in ops else _of_rules(graph, (SoftmaxFwd,))
        starts = [(node, mask) for _, node, mask in softmaxes if isinstance(node.op, SoftmaxFwd)]
        starts += [(node, 1 << i) for i, node in enumerate(graph.nodes) if isinstance(node.op, SoftmaxFwd)]
        made = ((one, _attention(graph, one)) for one in attention_rule.found(graph, starts))
        found += [(graph.producer[node.operands["o"]], node, one.mask) for one, node in made if node]
    for number, node, mask in sorted(found, key=lambda row: row[0]):
        if not any(mask & other == mask and mask != other for _, _, other in found):
            yield number, node, mask


def _of_rules(graph: Graph, ops) -> Iterator[tuple]:
    """What the rows of RULES find."""
    folds = sum(isinstance(n.op, Reduction) for n in graph.nodes)
    rules = [rule for rule in RULES if folds >= rule.folds and (ops is None or rule.op in ops)]
    for number, node in enumerate(graph.nodes) if rules else ():
        mine = [rule for rule in rules if isinstance(node.op, Pointwise) and node.op.mode in rule.ends]
        cone = _cone(graph, number) if mine else None
        fitting = (_first(graph, rule, number, cone) for rule in mine if len(cone.thin) >= rule.folds)
        if made := next(filter(None, fitting), None):
            yield number, *made


def _attention(graph: Graph, one: attention_rule.Found) -> Node | None:
    """The node of attention that was found; None where it is none that the op takes: drawn, a query that sees
    no key has NaN."""
    kept = {name: uid for name, uid in one.softmax.operands.items() if name in STATISTICS}
    if kept.keys() - {"stats"}:
        return None
    operands = dict(q=one.first.operands["a"], k=one.first.operands["b"], v=one.last.operands["b"],
                    o=one.last.operands["c"], **kept)
    if one.scores.extras:
        operands["extras"] = one.scores.extras
    try:
        op = Sdpa(score=one.scores.rows, empty="nan", compute=one.softmax.op.compute)
        node = Node(op, operands, {} if one.scale is None else dict(scale=one.scale),
                    f"{one.last.name} as {op.name}")
        op.complete({**dict.fromkeys(op.optional), **graph.described(node)})
    except BadParam:
        return None
    return node


def _cone(graph: Graph, number: int) -> Cone:
    """What lies above a node. Values that a norm is of are not looked behind."""
    ops, thin, wide, todo, seen = set(), [], (), [number], {number}
    while todo and len(seen) <= 2 * DEPTH:
        node = graph.nodes[todo.pop(0)]
        if not isinstance(node.op, (Pointwise, Reduction)):
            continue
        ops.add((type(node.op), node.op.mode))
        if isinstance(node.op, Reduction):
            thin.append(graph.tensors[node.writes[0]].dims)
            wide = wide or graph.tensors[node.operands["x"]].dims
        above = [graph.producer[uid] for uid in node.reads if uid in graph.producer]
        todo += [i for i in above if i not in seen]
        seen.update(above)
    return Cone(graph.nodes[number].op.mode, frozenset(ops), tuple(thin), wide)


def _first(graph: Graph, rule: Rule, number: int, cone: Cone):
    """(node, mask) of the first op of a rule that ends in a node; None where none does."""
    last = graph.nodes[number]
    desc = graph.tensors[last.writes[0]].desc
    if desc.vector > 1:
        return None
    for attributes in rule.variants(desc.dims, cone):
        try:
            op = rule.op(compute=last.op.compute, **attributes)
        except BadParam:
            continue
        inputs = sorted(op.optional & set(op.reads))
        for absent in chain.from_iterable(combinations(inputs, n) for n in range(len(inputs) + 1)):
            if found := _unify(graph, op, number, absent, cone):
                return found
    return None


def _unify(graph: Graph, op: Op, number: int, absent: tuple, cone: Cone):
    """(the op that ends in a node, the mask of its nodes), in the first of its spellings that fits; None
    where none does."""
    last = graph.nodes[number]
    for way, (rows, needed) in enumerate(_spellings(op, graph.tensors[last.writes[0]].dims, absent)):
        if not needed <= cone.ops:
            continue
        writer = {name: row for row in rows for o, name in row[1].items() if o in row[0].writes}
        bound: dict = {op.writes[0]: last.writes[0]}
        mask = _bind(graph, writer, op.writes[0], bound, 0)
        if mask is not None:
            mask = _others(graph, rows, bound, mask)
            if found := _made(graph, op, way, absent, bound, mask, last):
                return found
    return None


@lru_cache(maxsize=512)
def _spellings(op: Op, dims: tuple, absent: tuple) -> list:
    """[(rows, what they need of a Cone)]: the same for every node that the op might end in."""
    descs = dict.fromkeys(op.operands(), TensorDesc.packed(op.math, dims))
    return [(rows, _needed(op, rows)) for rows, _ in op.spellings(descs, absent)]


def _needed(op, rows) -> set:
    """(class, mode) of the rows that the first output comes from."""
    writer = {operands["y"]: (made, operands) for made, operands, _ in rows}
    found, todo = set(), [op.writes[0]]
    while todo:
        made, operands = writer.pop(todo.pop(), (None, {}))
        if made is not None:
            found.add((type(made), made.mode))
            todo += [name for o, name in operands.items() if o != "y"]
    return found


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
    for order in _orders(made, operands):
        trial, found = dict(bound), mask | 1 << number
        for o, source in order:
            read = node.operands.get(o)
            if found is not None and isinstance(source, float):
                found = found if _is_constant(graph, read, source) else None
            elif found is not None and trial.setdefault(source, read) == read:
                found = _bind(graph, writer, source, trial, found)
            else:
                found = None
        if found is not None:
            bound.update(trial)
            return found
    return None


def _orders(made, operands) -> list:
    """[((operand of a node, name in a lowering), …)]: in the orders that mean the same."""
    reads = [o for o in made.reads if o in operands]
    ways = [reads]
    if getattr(made, "mode", "") in COMMUTATIVE and len(reads) == 2:
        ways.append(reads[::-1])
    return [[(o, operands[source]) for o, source in zip(reads, way)] for way in ways]


def _others(graph, rows, bound, mask) -> int:
    """Bind what follows from values that are bound: other outputs than the one that was begun with. The mask
    with their nodes."""
    for made, operands, _ in rows:
        name = operands["y"]
        known = [source for o, source in operands.items() if o != "y" and not isinstance(source, float)]
        if name in bound or not all(source in bound for source in known):
            continue
        for number in graph.consumers[bound[known[0]]]:
            node = graph.nodes[number]
            fits = (all(source not in bound or node.operands.get(o) == bound[source] for o, source in order)
                    for order in _orders(made, operands))
            if type(node.op) is type(made) and node.op == made and any(fits):
                bound[name], mask = node.writes[0], mask | 1 << number
                break
    return mask


def _made(graph, op, way, absent, bound, mask, last):
    """(node, mask) of an op with what is bound; None where that is not what the op would be made of."""
    region = Region(graph, mask)
    outputs = set(region.outputs)
    kept = {name for name in op.writes[1:] if bound.get(name) in outputs}
    unused = {name for name in op.writes[1:] if name in bound and name not in kept and not _is_read(
        graph, bound[name], mask)}
    if unused:                                   # an output that nobody has: virtual, and never read
        return None
    operands = {o: bound[o] for o in op.reads if o in bound and o not in absent}
    if not set(op.reads) - op.optional <= operands.keys() or any(o not in operands for o in op.reads
                                                                 if o not in absent):
        return None
    operands |= {o: bound[o] for o in (op.writes[0], *sorted(kept))}
    try:
        plain = Node(op, operands)
        op.complete({**dict.fromkeys(op.optional), **graph.described(plain)})
        gone = tuple(o for o in op.operands() if o not in operands)
        rows, inner = op.spellings(graph.described(plain), gone)[way]
    except BadParam:
        return None
    if not inner.keys() <= bound.keys():
        return None
    numbers = _numbers(graph, op, rows, bound)
    if numbers is None or outputs - set(plain.writes) or not region.is_convex:
        return None
    tensors = {name: graph.tensors[bound[name]] for name in inner}
    math = BY_NAME[op.math]
    if not all(t.is_virtual and t.dims == inner[n].dims and t.dtype is math for n, t in tensors.items()):
        return None
    return Node(op, operands, numbers, f"{last.name} as {op.name}"), mask


def _is_read(graph, uid: int, mask: int) -> bool:
    return any(mask >> i & 1 for i in graph.consumers[uid])


def _numbers(graph, op, rows, bound) -> dict | None:
    """The numbers of the op, as the nodes have them.
    None where a node has another than its row says, or two nodes have two for one."""
    read = {name: FromTensor(bound[name]) for name in op.scalars if name in bound}
    found = {name: (value, value) for name, value in read.items()}
    for made, operands, scalars in rows:
        named = [name for name in operands.values() if not isinstance(name, float)]
        if any(name not in bound or name in op.scalars and graph.tensors[bound[name]].count != 1
               for name in named):
            return None
        node = graph.nodes[graph.producer[bound[operands[made.writes[0]]]]]
        for name, default in made.scalars.items():
            wanted, value = scalars.get(name, default), node.scalars.get(name, default)
            if isinstance(wanted, str):
                wanted = found.setdefault(wanted, (value, inherited(node, name)))[0]
            if value != wanted:
                return None
    return {name: value for name, (_, value) in found.items()}


def _is_constant(graph, uid, value: float) -> bool:
    """Where a row has a number in an operand's place, so has the graph."""
    return uid is not None and graph.tensors[uid].scalar == Scalar(("constant", value), value)
