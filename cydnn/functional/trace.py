"""A function's graph while its body writes it down: values, the nodes that make them, what is returned."""
from __future__ import annotations

from typing import Callable

from ..dtypes import BY_NAME, DType
from ..graph import FromTensor, Graph, Node, Tensor
from ..ops import Op, Pointwise, Reduction
from ..status import InternalError
from ..steps import Scalar
from ..tensor import TensorDesc, stride_order


class Value:
    """A tensor of the graph. ``source``: the number of the argument whose memory it is, None for what a node
    makes; ``look``: how the memory is looked at, (dims, strides) -> (dims, strides)."""
    __slots__ = ("uid", "desc", "source", "look", "shape", "user", "form")

    def __init__(self, uid: int, desc: TensorDesc, source=None, look: Callable | None = None):
        self.uid, self.desc, self.source, self.look = uid, desc, source, look
        self.shape: tuple | None = None          # what a caller sees of a result, where it is not the dims
        self.user: TensorDesc | None = None      # the same, where it is not the memory either
        self.form: Callable | None = None        # how the graph looks at what the caller sees then

    @property
    def dims(self) -> tuple:
        return self.desc.dims

    @property
    def rank(self) -> int:
        return len(self.desc.dims)

    def shaped(self, dims) -> "Value":
        """A result that the caller sees with other dims of 1."""
        self.shape = tuple(dims)
        return self


def _in_front(count: int) -> Callable:
    return lambda dims, strides: ((1,) * count + dims, (0,) * count + strides)


def swapped(dims, strides):
    return (*dims[:-2], dims[-1], dims[-2]), (*strides[:-2], strides[-1], strides[-2])


def looked(desc: TensorDesc, look: Callable | None) -> TensorDesc:
    """The description of memory that is looked at another way."""
    return desc if look is None else desc.replace(**dict(zip(("dims", "strides"), look(desc.dims,
                                                                                      desc.strides))))


def formatted(desc: TensorDesc) -> TensorDesc:
    """Memory without gaps: channels last where it is that, as torch knows it, else in logical order."""
    if desc.rank in (4, 5) and stride_order(desc) == (0, *range(2, desc.rank), 1):
        return desc if desc.is_dense else desc.like(desc.dims)
    return TensorDesc.packed(desc.dtype, desc.dims)


def _like_elements(desc: TensorDesc) -> TensorDesc:
    """Memory of a result element by element: in the order of what it was made of, where that has one."""
    is_spread = any(s == 0 and d > 1 for d, s in zip(desc.dims, desc.strides))
    return TensorDesc.packed(desc.dtype, desc.dims) if is_spread else (
        desc if desc.is_dense else desc.like(desc.dims))


class Trace:
    """What a body writes: ``input`` makes the arguments, ``add`` nodes, ``finish`` the graph.

    ``compute``: the type that sums and functions are asked in; what nodes make is of its math type until it
    is returned, and then of ``dtype``.
    """

    def __init__(self, compute: str, dtype: DType, is_wanted: bool = False):
        self.compute, self.dtype, self.is_wanted = compute, dtype, is_wanted
        self.tensors: dict[int, Tensor] = {}
        self.nodes: list[tuple] = []             # (node, {output: value})
        self.sources: dict = {}                  # uid, or (uid, number) of a node -> argument
        self.takes: dict[int, dict] = {}         # uid that a node writes -> {its number: argument}
        self.looks: dict[int, Callable | None] = {}          # uid of an argument -> how it is looked at
        self.inplace: dict[int, int] = {}        # uid of what is written into an argument -> argument
        self.words: dict[str, str] = {}          # what operations call the arguments -> their names
        self.bools: set[int] = set()             # arguments of truth values
        self.truths: set[int] = set()            # uids of results that are truth values
        self.is_saving, self.saved = False, []   # what gradients read beside arguments and results is kept
        self.turned: set[int] = set()            # uids of arguments whose last two dims are swapped
        self.formed: dict[int, TensorDesc] = {}  # uids of memory whose dims are split -> what a caller gives

    def _next(self) -> int:
        return len(self.tensors) + 1

    def input(self, desc: TensorDesc, source: int, alignment: int, name: str, look=None) -> Value:
        """Memory of an argument, as it is or as ``look`` shows it."""
        value = Value(self._next(), looked(desc, look), source, look)
        self.tensors[value.uid] = Tensor(value.uid, value.desc, alignment=alignment, name=name)
        self.sources[value.uid], self.looks[value.uid] = source, look
        return value

    def number(self, default, source: int | None, rank: int = 1) -> Value:
        """One number: an argument's, or one that the body says."""
        uid, kind = self._next(), "i32" if isinstance(default, int) else BY_NAME[self.math].name
        desc = TensorDesc.packed(kind, (1,) * rank)
        self.tensors[uid] = Tensor(uid, desc, "value", scalar=Scalar(uid, default))
        if source is not None:
            self.sources[uid] = source
        return Value(uid, desc, source)

    def constant(self, number: float, like: Value) -> Value:
        """A number that the body says, of the rank of a value."""
        return self.number(float(number), None, like.rank)

    def numbers(self, **values) -> tuple[dict, dict]:
        """(those that lie in memory, the arguments that others are) of an operation's numbers, as ``add``
        takes them."""
        there = {name: FromTensor(v.uid) for name, v in values.items() if not self.tensors[v.uid].is_by_value}
        return there, {name: v.source for name, v in values.items() if name not in there}

    @property
    def math(self) -> str:
        return Pointwise(compute=self.compute).math

    def look(self, value: Value, look: Callable) -> Value:
        """The memory of an argument, looked at another way. What a node makes has one look only."""
        first = self.tensors[value.uid]
        if value.source is None or first.is_by_value:
            raise InternalError("functional: what a node makes has one look; got another")
        before = value.look or (lambda *pair: pair)
        found = self.input(value.desc, value.source, first.alignment, first.name, look)
        found.look = self.looks[found.uid] = lambda *pair: look(*before(*pair))
        self.turned |= {found.uid} if value.uid in self.turned else set()
        return found

    def in_front(self, value: Value, rank: int) -> Value:
        """With dims of 1 in front, up to a rank."""
        return value if value.rank >= rank else self.look(value, _in_front(rank - value.rank))

    def split(self, value: Value, look: Callable) -> Value:
        """The memory of an argument in more dims than it has."""
        found = self.look(value, look)
        self.formed[found.uid] = value.desc
        return found

    def swapped(self, value: Value) -> Value:
        """With the last two dims swapped."""
        found = self.look(value, swapped)
        self.turned ^= {found.uid}
        return found

    def channels(self, value: Value | None, rank: int) -> Value | None:
        """(c,) as (1, c, 1, …)."""
        if value is None:
            return None
        return self.look(value, lambda dims, strides: ((1, *dims, *(1,) * (rank - 2)),
                                                       (0, *strides, *(0,) * (rank - 2))))

    def add(self, op: Op, want: str, scalars=(), given=None, takes=None, **operands):
        """A node: its output ``want``, or a tuple of those that are named in it. Outputs that are neither
        named nor needed are absent. ``given``: {output: dims and strides} where they do not follow;
        ``takes``: {number: the argument that it is}."""
        descs = {name: tuple([v.desc for v in value]) if isinstance(value, tuple) else value.desc
                 for name, value in operands.items() if value is not None}
        self.words = {o: self.tensors[v.uid].name for o, v in op.tensors(operands).items()
                      if isinstance(v, Value) and self.tensors[v.uid].name}
        names, math = want.split(), BY_NAME[self.math]
        absent = {name: None for name in op.writes if name not in names and name in op.optional}
        full = op.complete({**absent, **descs, **dict(given or {})})
        made = {name: Value(self._next() + i, full[name].replace(dtype=math))
                for i, name in enumerate([o for o in op.writes if full.get(o) is not None])}
        for value in made.values():
            self.tensors[value.uid] = Tensor(value.uid, value.desc, "virtual")
        uids = {name: tuple([v.uid for v in value]) if isinstance(value, tuple) else value.uid
                for name, value in operands.items() if value is not None}
        given = {**dict(scalars), **{name: op.scalars[name] + 1 for name in takes or ()}}     # not fixed
        node = Node(op, {**uids, **{name: value.uid for name, value in made.items()}}, given)
        self.nodes.append((node, {**operands, **made}))
        if takes:
            self.takes[min(node.writes)] = takes
            self.sources.update({(min(node.writes), name): source for name, source in takes.items()})
        return made[names[0]] if len(names) == 1 else tuple([made[name] for name in names])

    def saving(self, op: Op, want: str, saved: str, scalars, given, takes=None, **operands) -> Value:
        """A node's output; where the trace is saving, those that are named in ``saved`` are kept."""
        if not self.is_saving:
            return self.add(op, want, scalars, None, takes, **operands)
        found, *self.saved = self.add(op, f"{want} {saved}", scalars, given, takes, **operands)
        return found

    def point(self, mode: str, *values: Value, **attributes) -> Value:
        """mode(values), with dims of 1 in front of those of lower rank."""
        rank = max(v.rank for v in values)
        values = tuple([self.in_front(v, rank) if v.source is not None and not self.tensors[v.uid].is_by_value
                        else v for v in values])
        return self.add(Pointwise(mode=mode, compute=self.compute, **attributes), "y",
                        **dict(zip(("x", "b", "t"), values)))

    def fold(self, mode: str, value: Value, axes) -> Value:
        """The reduction of some dims, which stay as 1."""
        dims = tuple([1 if i in axes else d for i, d in enumerate(value.dims)])
        return self.add(Reduction(mode=mode, compute=self.compute), "y", x=value,
                        given=dict(y=value.desc.like(dims)))

    def seen(self, value: Value, like: TensorDesc, form: Callable) -> Value:
        """A result that a caller sees as memory without gaps in the dims of ``like``, of which ``form`` shows
        the dims that it has."""
        dense = formatted(like)
        value.user, value.form = dense.replace(dtype=self.dtype), form
        self.formed[value.uid] = value.user
        value.desc = looked(value.user, form)
        return value

    def store(self, value: Value, target: Value) -> Value:
        """What is written into the memory of an argument."""
        self._into_memory(value, target.desc, f"new {self.tensors[target.uid].name}")
        self.inplace[value.uid] = target.source
        return value

    def like(self, value: Value):
        """Results are of the type of an argument, where the caller names none."""
        if not self.is_wanted:
            self.dtype = value.desc.dtype

    def keep_truths(self, y: Value, *values: Value) -> Value:
        """A result that is one of some values: of truth values, if they all are."""
        if not self.is_wanted and self.bools >= {v.source for v in values}:
            self.truths.add(y.uid)
        return y

    def widen(self, value: Value, is_sum: bool):
        """The sum or product of whole numbers is of i64 where the caller names no type, and does not end at
        those of i32."""
        kind = value.desc.dtype
        if kind.kind == "int":
            self.dtype = self.dtype if self.is_wanted else BY_NAME["i64"]
            if not (is_sum and value.desc.count << kind.bits <= 1 << 31) and self.dtype.name != "i32":
                self.compute = "f64" if self.dtype.name in ("i64", "f64") else "f32"

    def _into_memory(self, value: Value, desc: TensorDesc, name: str):
        value.desc = desc
        self.tensors[value.uid] = Tensor(value.uid, desc, alignment=16, name=name)

    def finish(self, results, descs=None) -> Graph:
        """The graph of what is returned, in memory; nodes that nothing of it needs are left out."""
        keep = _like_elements if all(isinstance(node.op, Pointwise) for node, _ in self.nodes) else formatted
        for i, value in enumerate(results):
            kind = BY_NAME["u8"] if value.uid in self.truths else self.dtype
            kind = value.desc.dtype if any(value is one for one in self.saved) else kind
            desc = value.desc if value.user is not None else keep(value.desc)
            self._into_memory(value, desc.replace(dtype=kind) if descs is None else descs[i],
                              f"out {i}" if results[1:] else "out")
        wanted = {v.uid for v in results} | set(self.inplace)
        kept = []
        for node, _ in reversed(self.nodes):
            if wanted & set(node.writes):
                kept.append(node)
                wanted |= set(node.reads)
        used = {u for node in kept for u in (*node.reads, *node.writes)}
        return Graph(kept[::-1], [t for uid, t in self.tensors.items() if uid in used])
