"""A graph of operations over tensors with uids. Checked when it is made; immutable afterwards."""
from __future__ import annotations

import heapq
from dataclasses import dataclass
from types import MappingProxyType

from ..given import brief, several, shown, text
from ..locks import once
from ..ops import Op, Pointwise
from ..status import BadParam
from ..steps import Scalar
from .tensor import Tensor


@dataclass(frozen=True)
class FromTensor:
    """A number of an op that a tensor of one element gives:
    a host number at execute, or memory of the device."""
    uid: int


def every(operand) -> tuple:
    """What an operand stands for: one uid (tensor, descriptor), or those of a variadic one."""
    return operand if isinstance(operand, tuple) else (operand,)


@dataclass(frozen=True, eq=False)
class Node:
    """One operation on tensors. ``operands``: operand name to uid, or to a tuple of uids where the op says
    that it takes several (absent optional operands are left out or None).

    ``scalars``: numbers of the op, each an int, a float or ``FromTensor``;
    what is not named has the op's default.
    """
    op: Op
    operands: MappingProxyType
    scalars: MappingProxyType
    name: str = ""

    def __init__(self, op, operands, scalars=(), name=""):
        set_ = object.__setattr__
        if not isinstance(op, Op):
            raise BadParam(f"node: op must be an operation; got {shown(op)}")
        numbers = {} if isinstance(scalars, tuple) and not scalars else scalars
        for what, given in (("operands", operands), ("scalars", numbers)):
            if not isinstance(given, (dict, MappingProxyType)):
                raise BadParam(f"{op.name}: {what} must be a dict by name; got {shown(given)}")
        set_(self, "op", op)
        set_(self, "operands", MappingProxyType({k: v for k, v in dict(operands).items() if v is not None}))
        set_(self, "scalars", MappingProxyType(dict(scalars)))
        set_(self, "name", text(f"{op.name}: name", name) or op.name)
        for scalar in self.scalars:
            if scalar not in op.scalars:
                raise BadParam(f"{self.label}: {scalar} is no scalar of {op.name}; "
                               f"scalars are {' '.join(op.scalars)}")

    @once
    def reads(self) -> tuple:
        """uids of the inputs, and of the tensors that give numbers; each once."""
        found = [u for o in self.op.reads if o in self.operands for u in every(self.operands[o])]
        found += [s.uid for s in self.scalars.values() if isinstance(s, FromTensor)]
        return tuple(dict.fromkeys(found))

    @property
    def label(self) -> str:
        """What errors call it."""
        return brief(self.name)

    def __reduce__(self):
        return Node, (self.op, dict(self.operands), dict(self.scalars), self.name)

    @once
    def writes(self) -> tuple:
        return tuple([self.operands[o] for o in self.op.writes if o in self.operands])

    @once
    def key(self):
        """What it is beside its name. Numbers are there as text too: 1 is no 1.0, 0.0 no -0.0."""
        numbers = sorted(self.scalars.items(), key=str)
        return self.op, tuple(sorted(self.operands.items())), tuple(numbers), str(numbers) if numbers else ""


def _listed(what: str, given, kind: type) -> list:
    """What a graph is made of. Raises BadParam for what is no list of it."""
    found = several(f"graph: {what}", given, f"{kind.__name__}s")
    for one in found:
        if not isinstance(one, kind):
            raise BadParam(f"graph: {what} must be a list of {kind.__name__}s; got {shown(one)}")
    return found


class Key:
    """A large tuple whose hash is computed once."""
    __slots__ = ("value", "_hash")

    def __init__(self, value: tuple):
        self.value, self._hash = value, hash(value)

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        return isinstance(other, Key) and (self is other or self._hash == other._hash
                                           and self.value == other.value)


class Graph:
    """Nodes in an order of their own and the tensors they use. Spec: graph API, Operation Graph.

    The order is topological, ties go to the lower uid of what a node writes: it does not depend on how the
    nodes were handed over. Every tensor is written at most once; a virtual tensor is written by one node and
    lives only inside the graph. Errors name the node and the tensor.
    """

    def __init__(self, nodes, tensors, name=""):
        self._make(nodes, tensors, text("graph: name", name), frozenset())

    def changed(self, nodes, tensors) -> "Graph":
        """The graph with other nodes. Of those that it has already, which stay on the same tensors, the rules
        are not asked again."""
        graph = Graph.__new__(Graph)
        graph._make(nodes, tensors, self.name, frozenset(self.nodes))
        return graph

    def _make(self, nodes, tensors, name, known):
        self.name = name
        tensors = _listed("tensors", tensors.values() if isinstance(tensors, dict) else tensors, Tensor)
        tensors.sort(key=lambda t: t.uid)
        for one, other in zip(tensors, tensors[1:]):
            if one.uid == other.uid and one != other:
                raise BadParam(f"graph: a uid must belong to one tensor; "
                               f"got {one.uid} for {one.label} and {other.label}")
        self.tensors: dict[int, Tensor] = {t.uid: t for t in tensors}
        self.offsets: dict[int, int] = {t.uid: t.ragged for t in tensors if t.ragged is not None}
        nodes = _listed("nodes", nodes, Node)
        self._claim(nodes)
        self.nodes: tuple[Node, ...] = self._sorted(nodes)
        self.producer: dict[int, int] = {u: i for i, n in enumerate(self.nodes) for u in n.writes}
        if all(self.tensors[uid].is_virtual for uid in self.producer):
            raise BadParam("graph: a tensor that is written must be an output "
                           "(not virtual: set_output(True)); got only virtual ones")
        for node in self.nodes:
            if node not in known:
                self._no_blend_into_nothing(node)
                self.complete(node)

    @classmethod
    def single(cls, op: Op, descs: dict, scalars=(), absent=(), alignment=16, labels=()) -> "Graph":
        """A graph of one op; uids count from 1 in the op's operand order. Missing outputs are
        inferred, except those in ``absent``. ``alignment``: bytes that every pointer is a multiple of,
        and of its element in any case.

        ``labels``: what errors call the tensors, in uid order; else they have the names of the operands.
        """
        full = op.complete({**{a: None for a in absent}, **descs})
        uids, tensors = {}, []
        for name in op.operands():
            given = () if full[name] is None else every(full[name])
            mine = [len(tensors) + i + 1 for i in range(len(given))]
            if given:
                uids[name] = tuple(mine) if isinstance(full[name], tuple) else mine[0]
            for uid, (label, desc) in zip(mine, op.tensors({name: full[name]}).items()):
                least = max(desc.dtype.bits // 8, 1)
                tensors.append(Tensor(uid, desc, alignment=max(alignment, least),
                                      name=labels[uid - 1] if labels else label))
        return cls([Node(op, uids, scalars)], tensors)

    def described(self, node: Node) -> dict:
        """The TensorDescs of a node's operands by name; a tuple of them for a variadic operand."""
        desc = lambda uid: self.tensors[uid].desc
        return {o: tuple(map(desc, u)) if isinstance(u, tuple) else desc(u) for o, u in node.operands.items()}

    def complete(self, node: Node):
        """Every rule of the node's op on its tensors; the error names the node."""
        try:
            node.op.complete(self.described(node))
        except BadParam as error:
            raise error.within(node.label, node.op.name) from None

    def _claim(self, nodes):
        """Every operand is a known tensor, written once; virtual tensors are written."""
        if not nodes:
            raise BadParam("graph: it must have at least one operation; got none")
        writer: dict[int, Node] = {}
        for node in nodes:
            if not node.writes:
                raise BadParam(f"{node.label}: must write at least one tensor; "
                               f"got only {sorted(node.operands)}", node=node.label)
            for operand, uids in node.operands.items():
                for uid in every(uids):
                    self._known(node, operand, uid)
                    self._number_where_numbers_go(node, operand, self.tensors[uid])
            for scalar, value in node.scalars.items():
                if isinstance(value, FromTensor):
                    self._known(node, scalar, value.uid)
                    tensor = self.tensors[value.uid]
                    if tensor.count != 1:
                        raise BadParam(f"{node.label}: {scalar} must be a tensor of one element; "
                                       f"got {tensor.label} of dims {tensor.dims}")
                    if type(node.op.scalars[scalar]) is int and tensor.dtype.kind != "int":
                        raise BadParam(f"{node.label}: {scalar} must be a tensor of whole numbers; "
                                       f"got {tensor.label} of {tensor.dtype}")
            for uid in node.writes:
                if uid in writer:
                    raise BadParam(f"graph: tensor {self.tensors[uid].label} must be written by one node; "
                                   f"got {writer[uid].label} and {node.label}")
                writer[uid] = node
        for uid, tensor in self.tensors.items():
            if tensor.is_virtual and uid not in writer:
                raise BadParam(f"graph: virtual tensor {tensor.label} must be the output of a node; "
                               "nothing writes it")
        for uid, at in self.offsets.items():
            self._ragged(self.tensors[uid], self.tensors.get(at))

    @staticmethod
    def _ragged(tensor, offsets):
        """A ragged tensor is the caller's memory; it has an offset for each batch, and one for the end."""
        if offsets is None:
            raise BadParam(f"graph: the ragged offsets of {tensor.label} must be a tensor of the graph; "
                           f"got uid {shown(tensor.ragged)}")
        if tensor.kind != "memory":
            raise BadParam(f"graph: ragged tensor {tensor.label} must be in memory; got a {tensor.kind} one: "
                           "leave its offsets out, values in between are dense")
        count = tensor.dims[0] + 1
        if (offsets.dtype.name not in ("i32", "i64") or offsets.count != count or not offsets.is_packed()
                or offsets.is_by_value or offsets.ragged is not None):
            raise BadParam(f"graph: the ragged offsets of {tensor.label} must be {count} packed elements of "
                           f"i32 or i64, one for each batch and one for the end; got {offsets.label}, "
                           f"{offsets.kind if offsets.ragged is None else 'ragged'} {offsets.desc}")

    def _known(self, node, operand, uid):
        if uid not in self.tensors:
            raise BadParam(f"{node.label}: {operand} must be a tensor of the graph; got uid {shown(uid)}",
                           node=node.label, operand=operand)

    @staticmethod
    def _number_where_numbers_go(node, operand, tensor):
        if tensor.is_by_value and not (tensor.count == 1 and operand in node.op.by_value):
            raise BadParam(f"{node.label}: {operand} must be in memory; got pass-by-value tensor "
                           f"{tensor.label} of dims {tensor.dims}: those are single numbers that pointwise "
                           "operations read, or scalars of an operation", node=node.label, operand=operand)

    def _no_blend_into_nothing(self, node):
        for output, (_, beta) in node.op.blends.items():
            value = node.scalars.get(beta, node.op.scalars[beta])
            value = value.default if isinstance(value, Scalar) else value
            if output in node.operands and self.tensors[node.operands[output]].is_virtual and value != 0:
                raise BadParam(f"{node.label}: {beta} must be 0 where {output} is virtual: "
                               f"it holds nothing to blend with; got {value}")
        for output in sorted(node.op.keeps & node.operands.keys()):
            if self.tensors[node.operands[output]].is_virtual:
                raise BadParam(f"{node.label}: {output} must be in memory, as what it holds is read; "
                               "got a virtual tensor", node=node.label, operand=output)

    def _sorted(self, nodes) -> tuple:
        """Of the nodes whose inputs are there, the one with the lowest output comes next."""
        writer = {u: i for i, n in enumerate(nodes) for u in n.writes}
        waits = [{writer[u] for u in self.needs(n) if u in writer} for n in nodes]
        users: dict[int, list] = {}
        for i, needed in enumerate(waits):
            for j in needed:
                users.setdefault(j, []).append(i)
        left = [len(w) for w in waits]
        ready = [(min(n.writes), i) for i, n in enumerate(nodes) if not left[i]]
        heapq.heapify(ready)
        order = []
        while ready:
            _, i = heapq.heappop(ready)
            order.append(nodes[i])
            for j in users.get(i, ()):
                left[j] -= 1
                if not left[j]:
                    heapq.heappush(ready, (min(nodes[j].writes), j))
        if len(order) < len(nodes):
            names = sorted(n.name for i, n in enumerate(nodes) if left[i])
            raise BadParam(f"graph: it must have no cycle; got one through {', '.join(names)}")
        return tuple(order)

    def needs(self, node: Node) -> tuple:
        """uids of what must be there before a node runs, each once: what it reads, and the offsets of the
        ragged tensors that it reads or writes."""
        if not self.offsets:
            return node.reads
        offsets = [self.offsets[u] for u in (*node.reads, *node.writes) if u in self.offsets]
        return tuple(dict.fromkeys((*node.reads, *offsets)))

    @once
    def consumers(self) -> dict[int, tuple]:
        """uid -> numbers of the nodes that need it, each once."""
        found: dict[int, list] = {uid: [] for uid in self.tensors}
        for i, node in enumerate(self.nodes):
            for uid in self.needs(node):
                found[uid].append(i)
        return {uid: tuple(users) for uid, users in found.items()}

    @once
    def users(self) -> tuple:
        """For each node the set (bit i: node i) of the nodes that read what it writes."""
        return tuple([sum({1 << j for u in n.writes for j in self.consumers[u]}) for n in self.nodes])

    @once
    def anchors(self) -> tuple:
        """Numbers of the nodes that are no pointwise operations: regions of those grow around them."""
        return tuple([i for i, n in enumerate(self.nodes) if not isinstance(n.op, Pointwise)])

    @once
    def above(self) -> tuple:
        """For each node the set (bit i: node i) of all nodes that it waits for, directly or not."""
        masks: list[int] = []
        for node in self.nodes:
            mask = 0
            for uid in self.needs(node):
                if uid in self.producer:
                    i = self.producer[uid]
                    mask |= masks[i] | 1 << i
            masks.append(mask)
        return tuple(masks)

    @once
    def below(self) -> tuple:
        """For each node the set of all nodes that wait for it, directly or not."""
        masks = [0] * len(self.nodes)
        for i in range(len(self.nodes) - 1, -1, -1):
            for uid in self.nodes[i].writes:
                for j in self.consumers[uid]:
                    masks[i] |= masks[j] | 1 << j
        return tuple(masks)

    @once
    def beside(self) -> tuple:
        """For each node the set of all nodes that need or write a tensor that it needs or writes."""
        users: dict[int, int] = {}
        for i, node in enumerate(self.nodes):
            for uid in (*self.needs(node), *node.writes):
                users[uid] = users.get(uid, 0) | 1 << i
        masks = [0] * len(self.nodes)
        for i, node in enumerate(self.nodes):
            for uid in (*self.needs(node), *node.writes):
                masks[i] |= users[uid]
        return tuple(masks)

    @once
    def apart(self) -> tuple:
        """For each node the set of all nodes that a node which is no pointwise operation stands between: it
        waits for one of both, and the other for it."""
        over, under = [0] * len(self.nodes), [0] * len(self.nodes)
        anchors = frozenset(self.anchors)
        pairs = [(self.producer[u], i) for i, n in enumerate(self.nodes)
                 for u in n.reads if u in self.producer]
        for i, j in pairs:
            over[j] |= over[i] | (self.above[i] if i in anchors else 0)
        for i, j in reversed(pairs):
            under[i] |= under[j] | (self.below[j] if j in anchors else 0)
        return tuple([a | b for a, b in zip(over, under)])

    @once
    def slots(self) -> tuple[int, ...]:
        """uids of the tensors a caller provides pointers for, in uid order."""
        used = {u for n in self.nodes for u in (*self.needs(n), *n.writes)}
        return tuple(u for u, t in self.tensors.items() if u in used and t.kind == "memory")

    @once
    def key(self) -> "Key":
        """Hashable identity: what must be equal for a plan to serve."""
        numbers = [t.scalar for t in self.tensors.values() if t.scalar is not None]
        return Key((tuple([n.key for n in self.nodes]), tuple(self.tensors.values()), repr(numbers)))

    @once
    def names(self) -> tuple:
        """What is for people, and takes no part in ``key``."""
        return self.name, [n.name for n in self.nodes], [t.name for t in self.tensors.values()]

    def __reduce__(self):
        return Graph, (list(self.nodes), list(self.tensors.values()), self.name)

    def __repr__(self):
        return f"<graph {self}>"

    def __str__(self):
        return " -> ".join(n.name for n in self.nodes)
