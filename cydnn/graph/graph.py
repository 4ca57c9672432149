"""A graph of operations over tensors with uids. Checked when it is made; immutable afterwards."""
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from ..ops import Op, Pointwise, Problem
from ..status import BadParam
from ..tensor import TensorDesc


@dataclass(frozen=True)
class ByValue:
    """A scalar of an op that comes from a by-value tensor (a host number given at execute)."""
    uid: int


@dataclass(frozen=True, eq=False)
class Node:
    """One operation on tensors. ``operands``: operand name to uid (absent optional operands are left out or None).

    ``scalars``: by-value numbers, each a float or ``ByValue``; what is not named has the op's default.
    """
    op: Op
    operands: MappingProxyType
    scalars: MappingProxyType
    name: str = ""

    def __init__(self, op, operands, scalars=(), name=""):
        object.__setattr__(self, "op", op)
        object.__setattr__(self, "operands", MappingProxyType({k: v for k, v in dict(operands).items() if v is not None}))
        object.__setattr__(self, "scalars", MappingProxyType(dict(scalars)))
        object.__setattr__(self, "name", name or op.name)
        for scalar in self.scalars:
            if scalar not in op.scalars:
                raise BadParam(f"{self.name}: {scalar} is no scalar of {op.name}; scalars are {' '.join(op.scalars)}")

    def reads(self) -> list[int]:
        return [self.operands[o] for o in self.op.reads if o in self.operands]

    def writes(self) -> list[int]:
        return [self.operands[o] for o in self.op.writes if o in self.operands]

    @property
    def key(self):
        return self.op, tuple(sorted(self.operands.items())), tuple(sorted(self.scalars.items(), key=str))


class Graph:
    """Nodes in topological order and the tensors they use. Spec: graph API, Operation Graph.

    Every tensor is written at most once; a virtual tensor is written by one node and lives only inside the graph. Errors name the
    node and the tensor.
    """

    def __init__(self, nodes, tensors, name=""):
        self.name = name
        self.tensors: dict[int, TensorDesc] = dict(sorted(tensors.items()))
        self._claim(list(nodes))
        self.nodes: tuple[Node, ...] = tuple(self._sorted(list(nodes)))
        if all(self.tensors[uid].is_virtual for uid in self.producer):
            raise BadParam("graph: a tensor that is written must be an output (not virtual: set_output(True)); got only virtual ones")
        for node in self.nodes:
            self._no_blend_into_nothing(node)
            node.op.complete({o: self.tensors[u] for o, u in node.operands.items()})

    @classmethod
    def single(cls, op: Op, descs: dict, scalars=(), absent=()) -> "Graph":
        """A graph of one op; uids count from 1 in the op's operand order. Missing outputs are inferred, except those in ``absent``."""
        full = op.complete({**{a: None for a in absent}, **descs})
        uids = {name: i + 1 for i, name in enumerate(op.operands()) if full[name] is not None}
        tensors = {uid: full[name].replace(uid=uid, name=name, is_virtual=False) for name, uid in uids.items()}
        return cls([Node(op, uids, scalars)], tensors)

    def _claim(self, nodes):
        """Every operand is a known tensor, written once; virtual tensors are written."""
        if not nodes:
            raise BadParam("graph: it must have at least one operation; got none")
        self.producer: dict[int, Node] = {}
        for node in nodes:
            for operand, uid in node.operands.items():
                if uid not in self.tensors:
                    raise BadParam(f"{node.name}: {operand} must be a tensor of the graph; got uid {uid}")
                self._number_where_numbers_go(node, operand, self.tensors[uid])
            for uid in node.writes():
                if uid in self.producer:
                    raise BadParam(f"graph: tensor {self.tensors[uid].label} must be written by one node; got "
                                   f"{self.producer[uid].name} and {node.name}")
                self.producer[uid] = node
        for uid, desc in self.tensors.items():
            if desc.is_virtual and uid not in self.producer:
                raise BadParam(f"graph: virtual tensor {desc.label} must be the output of a node; nothing writes it")

    @staticmethod
    def _number_where_numbers_go(node, operand, desc):
        if desc.is_by_value and (desc.count != 1 or operand not in node.op.reads or not isinstance(node.op, Pointwise)):
            raise BadParam(f"{node.name}: {operand} must be in memory; got pass-by-value tensor {desc.label} of dims {desc.dims}: those are "
                           "single numbers that pointwise operations read, or scalars of an operation")

    def _no_blend_into_nothing(self, node):
        for output, (_, beta) in node.op.blends.items():
            value = node.scalars.get(beta, node.op.scalars[beta])
            if output in node.operands and self.tensors[node.operands[output]].is_virtual and value != 0:
                raise BadParam(f"{node.name}: {beta} must be 0 where {output} is virtual: it holds nothing to blend with; got {value}")

    def _sorted(self, waiting):
        """Depth-first order; a node waits for the nodes that write what it reads."""
        ready = {uid for uid in self.tensors if uid not in self.producer}
        while waiting:
            turn = [n for n in waiting if all(u in ready for u in n.reads())]
            if not turn:
                raise BadParam(f"graph: it must have no cycle; got one through {', '.join(n.name for n in waiting)}")
            for node in turn:
                waiting.remove(node)
                ready.update(node.writes())
                yield node

    @cached_property
    def consumers(self) -> dict[int, list[Node]]:
        found = {uid: [] for uid in self.tensors}
        for node in self.nodes:
            for uid in node.reads():
                found[uid].append(node)
        return found

    @cached_property
    def slots(self) -> tuple[int, ...]:
        """uids of the tensors a caller provides pointers for, in uid order."""
        used = {u for n in self.nodes for u in n.operands.values()}
        return tuple(u for u, d in self.tensors.items() if u in used and not d.is_virtual and not d.is_by_value)

    @cached_property
    def key(self):
        """Hashable identity: what must be equal for a plan to serve."""
        return (tuple(n.key for n in self.nodes),
                tuple((u, d.dtype.name, d.dims, d.strides, d.is_virtual, d.is_by_value, d.alignment) for u, d in self.tensors.items()))

    def chain_behind(self, node: Node) -> list[Node]:
        """The pointwise nodes that could be fused behind ``node``: each reads the one before it, which nothing outside the chain reads."""
        chain, inside = [], set()
        tail = node
        while len(tail.writes()) == 1 and self.tensors[tail.writes()[0]].is_virtual:
            users = self.consumers[tail.writes()[0]]
            users = [u for u in users if u not in chain]
            if len(users) != 1 or not isinstance(users[0].op, Pointwise):
                break
            tail = users[0]
            chain.append(tail)
        return chain

    @property
    def text(self) -> str:
        """The problem texts of the nodes: what a log line begins with."""
        problem = lambda n: str(Problem(n.op, {o: self.tensors[n.operands[o]] if o in n.operands else None for o in n.op.operands()}))
        return " -> ".join(problem(n) for n in self.nodes)

    def __str__(self):
        return " -> ".join(n.name for n in self.nodes)
