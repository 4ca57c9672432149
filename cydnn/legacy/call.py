"""A compute call: the plan table is asked first, then every rule is checked and the plan is built.

A compute function is one call of ``_core.compute``: a C hash table from (function, descriptor stamps, enums)
to a plan. Whatever it does not take (no plan yet, an int for a handle, a null pointer, a refused argument)
goes to ``Compute.run``, which checks every rule in the order of the contract, says what is wrong in words,
or builds the plan and remembers it. Spec: legacy API, chapter 1.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from numbers import Integral
from weakref import ref

from .._core import nullable, pointer_of, scratch_of
from ..engines import REFERENCE
from ..given import shown
from ..graph import Graph
from ..heuristics import Choice, Wish, best
from ..ops import Op
from ..plan import made
from ..status import BadParam, InternalError, NotSupported
from .arguments import Kind, integer, is_given, scale
from .enums import Enum
from .handle import HANDLE


# -- Plans ---------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Work:
    """The work of a compute call: one op on operands (TensorDescs by name), and what its plan must keep.

    ``absent``: optional outputs that are not wanted. ``engines``: indices of those that may serve on a GPU;
    None: all; ``otherwise``: those that serve what none of them takes. ``no_workspace``: the caller gives
    no workspace; where the cheapest plan needs one, the handle lends it. ``unused``:
    pointers that the function takes but this op does not read.
    """
    op: Op
    operands: dict
    absent: tuple = ()
    engines: tuple | None = None
    otherwise: tuple = ()
    no_workspace: bool = False
    unused: tuple = ()


def choose(work: Work, facts, *, is_aligned=True, limit=None, labels=()) -> Choice:
    """The cheapest choice for ``work`` that is deterministic and needs at most ``limit`` bytes of workspace;
    where there is none, the cheapest that is deterministic (the handle lends what it needs), then the
    cheapest at all.

    ``is_aligned``: every address is a multiple of 16; if not, engines may count on the alignment
    of an element only. ``labels``: what errors call the tensors.
    """
    graph = Graph.single(work.op, work.operands, absent=work.absent,
                         alignment=16 if is_aligned else 1, labels=labels)
    named = work.engines if work.engines is None else (*work.engines, REFERENCE.index)
    wish = Wish(engines=named)
    sure = replace(wish, deterministic=True)
    last = replace(wish, engines=(*named, *work.otherwise)) if work.otherwise else wish
    for one in (replace(sure, workspace_bytes=limit), sure, *((wish,) if work.otherwise else ())):
        try:
            return best(graph, facts, one)
        except NotSupported:
            pass
    return best(graph, facts, last)


def usable(workspace, size_bytes: int) -> tuple:
    """(memory, bytes) of a caller's workspace from the next multiple of 16 on: callers divide their buffers
    at any element. The memory is as said: an array must have as many bytes, which may be written."""
    found = scratch_of(workspace, size_bytes)
    gap = -found.address % 16
    return found.part(gap), max(size_bytes - gap, 0)


class Picked:
    """An executable that takes all pointers of a function and hands on those that its op reads."""

    def __init__(self, inner, names, unused):
        self.inner, self.workspace_bytes = inner, inner.workspace_bytes
        self.used = [i for i, name in enumerate(names) if name not in unused]
        self.unused = [(name, i) for i, name in enumerate(names) if name in unused]

    def execute(self, pointers, scalars=None, workspace=None, workspace_bytes=0, stream=None):
        for name, i in self.unused:
            if not is_given(pointers[i]):
                raise BadParam(f"{name}: must not be null; got {pointers[i]}")
        self.inner.execute(tuple([pointers[i] for i in self.used]),
                           scalars, workspace, workspace_bytes, stream)


class Lent:
    """An executable whose workspace the handle lends, to one thread at a time: to the caller it needs
    none."""
    workspace_bytes = 0

    def __init__(self, inner, handle):
        self.inner, self.handle = inner, ref(handle)

    def execute(self, pointers, scalars=None, workspace=None, workspace_bytes=0, stream=None):
        handle = self.handle()
        with handle.turns:
            self.inner.execute(pointers, scalars, *handle.reserve(self.inner.workspace_bytes), handle.stream)


class Compute(int):
    """One compute function: what its arguments are and what they mean. As an int
    it is the function's number in the plan table.

    ``keys``     {argument: Kind, Enum or None (any int)}, in the order of the fast path's key tuple
    ``pointers`` names of the data pointers; "name?" may be NULL, and the plan is then without it
    ``scalars``  names of the by-value numbers, in the order of the op's; "argument=name" where the function
                 calls it otherwise than the op
    ``meaning``  (call, *contents of the keys) -> Work; raises for what cannot be. Where pointers may be NULL
                 it is told ``given``, the names of those that are not
    """
    _numbers = count(1)

    def __new__(cls, function, keys, pointers, scalars, meaning):
        words = pointers.split()
        optional = [i for i, word in enumerate(words) if word.endswith("?")]
        self = int.__new__(cls, nullable(next(cls._numbers), optional))
        self.function, self.keys, self.meaning = function, dict(keys), meaning
        self.pointers = tuple([word.rstrip("?") for word in words])
        self.scalars = tuple([word.rpartition("=")[2] for word in scalars.split()])
        self.scalar_arguments = tuple([word.partition("=")[0] for word in scalars.split()])
        self.optional = frozenset(optional)
        return self

    def require(self, condition, sentence: str, error=BadParam) -> None:
        if not condition:
            raise error(f"{self.function}: {sentence}")

    def address(self, argument: str, pointer) -> int:
        try:
            return pointer_of(pointer)
        except BadParam as error:
            rule = (f"an address; got {shown(pointer)}" if isinstance(pointer, Integral)
                    else f"a {error.args[0]}")
            raise BadParam(f"{self.function}: {argument} must be {rule}") from None

    def called(self, function: str) -> "Compute":
        """The same work asked for by another function (a workspace query): its name is in the errors."""
        twin = int.__new__(Compute, self)
        twin.__dict__.update(self.__dict__, function=function)
        return twin

    def contents(self, keys) -> list:
        """What the keys say: descriptors first, then enums. Raises BadParam
        with the first rule that is broken."""
        pairs = list(zip(self.keys.items(), keys))
        for (argument, kind), value in pairs:
            if isinstance(kind, Kind):
                kind.fields(self.function, argument, value)
        return [integer(self.function, argument, value) if kind is None
                else kind.content(self.function, argument, value)
                for (argument, kind), value in pairs]

    def _read(self, argument, kind, key):
        """A key as it is remembered: an object that stands for a number may say another one the next time."""
        if kind is None:
            return integer(self.function, argument, key)
        return kind.check(self.function, argument, key) if isinstance(kind, Enum) else key

    def given(self, absent: int) -> tuple:
        """Names of the pointers of a call, in the order of its plan's; bit i of ``absent``:
        pointer i is left out."""
        return tuple([name for i, name in enumerate(self.pointers) if not absent >> i & 1])

    def work(self, keys, absent=0) -> Work:
        more = dict(given=self.given(absent)) if self.optional else {}
        return self.meaning(self, *self.contents(keys), **more)

    def choice(self, work, facts, *, names=None, **asked) -> Choice:
        """``choose``, with the function's name in front of what it refuses. ``names``: of the pointers."""
        labels = tuple([n for n in names or self.pointers if n not in work.unused])
        try:
            return choose(work, facts, labels=labels, **asked)
        except (BadParam, NotSupported) as error:
            raise error.within(self.function) from None

    def chosen(self, handle, keys, *, is_aligned=True, absent=0) -> tuple:
        """(Work, Choice, most bytes of workspace that the caller gives or None) of these keys. Odd addresses
        need no more than the query promised."""
        work = self.work(keys, absent)
        limit = (0 if work.no_workspace else None if is_aligned
                 else self.executable(handle, keys, absent=absent).workspace_bytes)
        choice = self.choice(work, handle.device.facts, names=self.given(absent), is_aligned=is_aligned,
                             limit=None if work.no_workspace else limit)
        return work, choice, limit

    def executable(self, handle, keys, *, is_aligned=True, absent=0):
        """What runs these keys, from the table when it is there."""
        found = handle.table.get(self, keys, is_aligned, absent)
        if found is None:
            work, choice, limit = self.chosen(handle, keys, is_aligned=is_aligned, absent=absent)
            if tuple(work.op.scalars) != self.scalars:
                raise InternalError(f"{self.function}: scalars {self.scalars} must be those of "
                                    f"{work.op.name}; got {tuple(work.op.scalars)}")
            found = made(choice, handle.device).executable
            found = found if limit is None or choice.workspace_bytes <= limit else Lent(found, handle)
            found = Picked(found, self.given(absent), work.unused) if work.unused else found
            handle.table.put(self, keys, is_aligned, found, absent)
        return found

    def run(self, handle, keys, pointers, scalars, workspace=None, workspace_bytes=None) -> None:
        """The slow path: every check, then the plan. ``workspace_bytes`` None: the function has
        no workspace argument, the handle lends one."""
        handle = HANDLE.resolve(self.function, "handle", handle)
        self.contents(keys)
        keys = tuple([self._read(*row, x) for row, x in zip(self.keys.items(), keys)])
        addresses = tuple([self.address(n, p) for n, p in zip(self.pointers, pointers, strict=True)])
        for i, (name, address) in enumerate(zip(self.pointers, addresses)):
            self.require(address or i in self.optional, f"{name} must not be NULL")
        scalars = tuple([scale(self.function, n, s) for n, s in zip(self.scalar_arguments, scalars)])
        absent = handle.table.absent(self, addresses)
        is_aligned = handle.table.alignment(addresses)
        executable = self.executable(handle, keys, is_aligned=is_aligned, absent=absent)
        given = tuple([p for i, p in enumerate(pointers) if not absent >> i & 1])   # arrays say their size
        self.address("workSpace", workspace)
        if workspace_bytes is None:
            executable = Lent(executable, handle)
        try:
            if workspace_bytes is not None:
                workspace, workspace_bytes = usable(workspace, integer(
                    self.function, "workSpaceSizeInBytes", workspace_bytes))
            executable.execute(given, scalars, workspace, workspace_bytes, handle.stream)
        except BadParam as error:
            raise error.within(self.function) from None


# -- Rules that several chapters share -----------------------------------------------------------------------

def same_types(call, error=BadParam, **descs) -> None:
    (first, model), *others = descs.items()
    for name, d in others:
        call.require(d.dtype is model.dtype,
                     f"{name} must have data type {model.dtype} like {first}; got {d.dtype}", error)


def same_dims(call, error=BadParam, **descs) -> None:
    (first, model), *others = descs.items()
    for name, d in others:
        call.require(d.dims == model.dims,
                     f"{name} must have dims {model.dims} like {first}; got {d.dims}", error)


def same_strides(call, error=BadParam, **descs) -> None:
    (first, model), *others = descs.items()
    for name, d in others:
        call.require(d.same_layout(model),
                     f"{name} must have strides {model.strides} like {first}; got {d.strides}", error)


def writable(call, **descs) -> None:
    """Outputs must not overlap themselves."""
    for name, d in descs.items():
        call.require(not d.is_overlapping,
                     f"{name} must not overlap itself; got dims {d.dims}, strides {d.strides}", NotSupported)


def packed_spatially(call, **descs) -> None:
    """More than 5 dims are taken only with the spatial dims packed."""
    for name, d in descs.items():
        packed = d.is_packed("nhwc") or all(a == 1 or s == t for a, s, t in zip(
            d.dims[2:], d.strides[2:], d.packed(d.dtype, d.dims).strides[2:]))
        call.require(d.rank <= 5 or packed,
                     f"{name} must be packed in its spatial dims, as its rank is above 5; got dims {d.dims}, "
                     f"strides {d.strides}", NotSupported)
