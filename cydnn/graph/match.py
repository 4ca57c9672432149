"""A match, what an engine is offered: a node with the nodes that may be fused around it, or a region of
pointwise nodes."""
from __future__ import annotations

from functools import wraps
from typing import NamedTuple

from ..locks import once
from ..ops import Pointwise
from ..steps import Pointer, Scalar, Scratch
from .graph import FromTensor, Graph, Node, every
from .region import Region, bits
from .tensor import Tensor


class Lead(NamedTuple):
    """The output whose elements a kernel walks. ``is_native``: the kernel stores it itself;
    else spliced code does."""
    uid: int
    tensor: Tensor
    is_native: bool

    @property
    def beta(self) -> str:
        """The scalar by which spliced code blends with the output; "" where the kernel does."""
        return "" if self.is_native else "beta"

    def store(self, p: "Match", output: str = "", beta: str = "beta") -> dict:
        """What the kernel is told of its output: address and beta under their parameters' names;
        a null pointer and 0 where spliced code stores."""
        name = output or p.op.writes[0]
        if not self.is_native:
            return {name: None, beta: 0.0}
        return {name: Pointer(self.uid), beta: p.scalar(beta)}


def scalar_of(node: Node, name: str) -> Scalar:
    """A number of a node that no tensor gives, as the plan's launches read it."""
    value = node.scalars.get(name, node.op.scalars[name])
    if isinstance(value, Scalar):                # the node came out of another one, whose number this is
        return value
    return Scalar((min(node.writes), name), value)


def source_of(tensor: Tensor) -> Pointer | Scalar:
    """Where a tensor's value comes from: memory, or a number given at execute; of whole numbers the default
    is one too, which keeps them exact."""
    if tensor.is_by_value:
        return tensor.scalar or Scalar(tensor.uid, 0 if tensor.dtype.kind == "int" else 0.0)
    return Pointer(tensor.uid)


def number_of(tensors: dict, node: Node, name: str) -> Pointer | Scalar:
    """Where a number of a node comes from: one element in memory, or what is given at execute."""
    value = node.scalars.get(name)
    return source_of(tensors[value.uid]) if isinstance(value, FromTensor) else scalar_of(node, name)


def in_memory(dtype) -> str:
    """What an engine must understand to read a number of a type from memory of the device."""
    return f"{dtype} numbers in memory"


class Match:
    """A part of a graph as one engine sees it. Frozen: it knows nothing of engines and configurations.

    ``p.x`` is the Tensor of operand x of the core (None where it is absent, a tuple where it is several),
    ``p.op`` its op; ``p.before[operand]`` and ``p.behind`` are the pointwise nodes around it, in order,
    ``p.last`` a node of another op behind them, or None; ``p.region`` all of them. A region of pointwise
    nodes has no core: ``p.node`` is None, and ``p.behind`` are its nodes.
    """

    def __init__(self, graph: Graph, node: Node | None, mask: int, before=None, behind=()):
        self.graph, self.node, self.region = graph, node, Region(graph, mask)
        before = {o: nodes for o, nodes in (before or {}).items() if nodes}
        self.before = {o: tuple([graph.nodes[i] for i in nodes]) for o, nodes in before.items()}
        nodes = [graph.nodes[i] for i in behind]
        self.behind = tuple([n for n in nodes if isinstance(n.op, Pointwise)])
        self.last = next((n for n in nodes if not isinstance(n.op, Pointwise)), None)
        self.op = node.op if node else None
        self.uids = dict(node.operands) if node else {}
        look = lambda u: tuple([graph.tensors[v] for v in u]) if isinstance(u, tuple) else graph.tensors[u]
        names = node.op.operands() if node else ()
        self.operands = {o: look(self.uids[o]) if o in self.uids else None for o in names}
        self.memory: dict = {}                   # of once_per_match
        self.told: dict | None = None            # {engine: what it offers}, shared by matches of one form

    def __repr__(self):
        return f"<match of {' -> '.join(self.graph.nodes[i].name for i in self.region.nodes)}>"

    @classmethod
    def single(cls, graph: Graph, number: int = 0) -> "Match":
        """One node alone."""
        return cls(graph, graph.nodes[number], 1 << number)

    @classmethod
    def around(cls, graph: Graph, number: int, mask: int, before=None) -> "Match":
        """A node with what is fused: ``before`` {operand: mask}, and the rest of ``mask`` behind it."""
        before, behind = before or {}, mask & ~(1 << number)
        for nodes in before.values():
            behind &= ~nodes
        return cls(graph, graph.nodes[number], mask, {o: bits(m) for o, m in before.items()}, bits(behind))

    @classmethod
    def elementwise(cls, graph: Graph, mask: int) -> "Match":
        """A region of pointwise nodes; of a single one, that node."""
        if mask & mask - 1:
            return cls(graph, None, mask, behind=bits(mask))
        return cls.single(graph, mask.bit_length() - 1)

    def of_equal(self, graph: Graph) -> "Match":
        """The same part of an equal graph."""
        number = {id(self.graph.nodes[i]): i for i in self.region.nodes}
        numbers = lambda nodes: [number[id(n)] for n in nodes]
        behind = (*self.behind, *([self.last] if self.last else []))
        return Match(graph, self.node and graph.nodes[number[id(self.node)]], self.region.mask,
                     {o: numbers(nodes) for o, nodes in self.before.items()}, sorted(numbers(behind)))

    def __getattr__(self, name):
        try:
            return self.__dict__["operands"][name]
        except KeyError:
            what = self.__dict__["node"].op.name if self.__dict__.get("node") else "a region"
            raise AttributeError(f"{what} has no operand {name}") from None

    @once
    def form(self) -> tuple:
        """What an engine sees of it, whatever its uids and names: nodes, tensors, what stands in front of the
        core, what leaves. Matches of one form are computed alike."""
        tensors, place = self.graph.tensors, {}
        at = lambda uid: place.setdefault(uid, len(place))
        look = lambda u: tuple(map(at, u)) if isinstance(u, tuple) else at(u)
        number = lambda v: v.default if isinstance(v, Scalar) else v
        said = lambda v: (at(v.uid),) if isinstance(v, FromTensor) else number(v)
        nodes = [self.graph.nodes[i] for i in self.region.nodes]
        rows = tuple([(n.op, tuple([(o, look(u)) for o, u in n.operands.items()]),
                       tuple([(key, said(value)) for key, value in n.scalars.items()])) for n in nodes])
        row = {id(n): i for i, n in enumerate(nodes)}
        before = tuple([(o, tuple([row[id(n)] for n in found])) for o, found in self.before.items()])
        leaves = tuple(map(at, self.region.outputs))
        core = row[id(self.node)] if self.node else None
        offsets = self.graph.offsets
        ragged = tuple([(at(u), at(offsets[u])) for u in tuple(place) if u in offsets])
        return core, rows, before, leaves, ragged, tuple([tensors[uid].form for uid in place])

    @once
    def descs(self) -> list[Tensor]:
        """Tensors of all present operands, inputs first."""
        return [d for v in self.operands.values() if v is not None for d in every(v)]

    @property
    def dtypes(self) -> set:
        return {d.dtype.name for d in self.descs}

    @once
    def features(self) -> dict:
        """{what an engine must understand: the tensor or number that asks for it}."""
        found = {}
        for uid in (*self.region.inputs, *self.region.writes):
            for feature in self.graph.tensors[uid].features:
                found.setdefault(feature, self.graph.tensors[uid].label)
            if self.graph.offsets.get(uid) in self.region.writes:
                found.setdefault("ragged offsets that it makes", self.graph.tensors[uid].label)
        for name, feature in self.op.special.items() if self.node else ():
            if name in self.node.operands or getattr(self.op, name, None):
                found.setdefault(feature, name)
        for name, value in self.node.scalars.items() if self.node else ():
            if isinstance(value, FromTensor) and not self.graph.tensors[value.uid].is_by_value:
                found.setdefault(in_memory(self.graph.tensors[value.uid].dtype), name)
        return found

    def ptr(self, name: str, offset_bytes: int = 0) -> Pointer | None:
        """The address of an operand; None (a null pointer) when it is absent."""
        return Pointer(self.uids[name], offset_bytes) if self.operands.get(name) is not None else None

    def source(self, name: str) -> Pointer | Scalar:
        """Where a present operand comes from: memory, or a number given at execute."""
        return source_of(self.operands[name])

    def scalar(self, name: str) -> Pointer | Scalar:
        """A number of the core, read at execute; of engines that understand numbers in memory perhaps
        there."""
        return number_of(self.graph.tensors, self.node, name)

    def value(self, name: str):
        """What a scalar of the core is when the plan is built; None where a tensor gives it."""
        value = self.node.scalars.get(name, self.op.scalars[name])
        if isinstance(value, Scalar):
            return value.default
        return None if isinstance(value, FromTensor) else value

    @staticmethod
    def scratch(size_bytes: int) -> Pointer:
        """A fresh area of the workspace, 256-byte aligned."""
        return Pointer(Scratch(int(size_bytes)))

    def lead(self, *native: str) -> Lead:
        """The output that a kernel of this match walks: the last one of the core's dims that it can store
        itself (types ``native``), else the last one that is not packed, which spliced code then stores. With
        a last node that is what it reads, which need not be stored."""
        own = self.graph.tensors[self.uids[self.op.writes[0]]]
        if self.last:
            read = self.graph.tensors[self.last.reads[0]]
            return Lead(read.uid, read, read.uid in self.region.outputs and read.dtype.name in native)
        if not self.behind:
            return Lead(own.uid, own, own.dtype.name in native)
        found = (self.graph.tensors[u] for u in reversed(self.region.outputs))
        outputs = [t for t in found if t.dims == own.dims]
        found = next((t for t in outputs if t.dtype.name in native), None)
        if found is not None:
            return Lead(found.uid, found, True)
        found = next((t for t in outputs if t.dtype.bits >= 8), outputs[0])
        return Lead(found.uid, found, False)


def once_per_match(find):
    """A function or a method of a match, and of what else it is given, whose result is found once for each
    match. Engines that share a result call the function that is named after it."""
    @wraps(find)
    def found(*given, **named):
        p, key = given[0], find
        if not isinstance(p, Match):             # the object of a method
            p, key = given[1], (find, given[0], *given[2:])
        elif len(given) > 1:
            key = (find, *given[1:])
        if named:
            key = (key, *named.items())
        if key not in p.memory:
            p.memory[key] = find(*given, **named)
        return p.memory[key]
    return found
