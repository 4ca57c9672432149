"""A compute call: the plan table is asked first, then every rule is checked and the plan is built.

A compute function is one call of ``_core.compute``: a C hash table from (function, descriptor stamps, enums)
to a plan. Whatever it does not take (no plan yet, an int for a handle, a null pointer, a refused argument)
goes to ``Compute.run``, which checks every rule in the order of the contract, says what is wrong in words,
or builds the plan and remembers it. Spec: legacy API, chapter 1.
"""
from __future__ import annotations

from dataclasses import dataclass
from itertools import count, zip_longest
from operator import index
from weakref import ref

from .. import plan as plans
from .._core import pointer_of
from ..graph import Graph
from ..heuristics import rank
from ..ops import Op
from ..status import BadParam, InternalError, NotSupported
from .arguments import Kind, is_given, scale
from .handle import HANDLE


# -- Plans ---------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Work:
    """What a compute call means: one op on operands (TensorDescs by name), and what its plan must keep.

    ``absent``: optional outputs that are not wanted. ``no_workspace``: the caller gives no workspace;
    where every plan needs one, the handle lends it. ``unused``: pointers that the function takes
    but this op does not read.
    """
    op: Op
    operands: dict
    absent: tuple = ()
    no_workspace: bool = False
    unused: tuple = ()


def build(work: Work, device, *, is_aligned=True, limit=None):
    """The cheapest plan of ``work`` that is deterministic and needs at most ``limit`` bytes of workspace;
    else the one that needs least.

    ``is_aligned``: every address is a multiple of 16; if not, a plan may count
    on the alignment of an element only.
    """
    operands = work.operands
    if not is_aligned:
        operands = {n: d.replace(alignment=d.dtype.bytes) if d is not None else None
                    for n, d in operands.items()}
    graph = Graph.single(work.op, operands, absent=work.absent)
    first = plans.build(graph, device)
    if _keeps(first, limit):
        return first
    others = [plans.build(graph, device, only=(engine,))
              for _, engine in rank(first.parts[0].match, first.device.facts)[0]]
    return next((p for p in others if _keeps(p, limit)),
                min(others, key=lambda p: (not _is_deterministic(p), p.workspace_bytes)))


def _is_deterministic(plan) -> bool:
    return all("deterministic" in engine.notes for engine in plan.engines)


def _keeps(plan, limit) -> bool:
    return (limit is None or plan.workspace_bytes <= limit) and _is_deterministic(plan)


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
    """An executable whose workspace the handle lends: to the caller it needs none."""
    workspace_bytes = 0

    def __init__(self, inner, handle):
        self.inner, self.handle = inner, ref(handle)

    def execute(self, pointers, scalars=None, workspace=None, workspace_bytes=0, stream=None):
        self.inner.execute(pointers, scalars, *self.handle().reserve(self.inner.workspace_bytes), stream)


class Compute(int):
    """One compute function: what its arguments are and what they mean. As an int
    it is the function's number in the plan table.

    ``keys``     {argument: Kind, Enum or None (any int)}, in the order of the fast path's key tuple
    ``pointers`` names of the data pointers; ``optional`` those that may be NULL
    ``scalars``  names of the by-value numbers, in the order of the op's
    ``meaning``  (call, *contents of the keys) -> Work; raises for what cannot be
    """
    _numbers = count(1)

    def __new__(cls, function, keys, pointers, scalars, meaning):
        self = int.__new__(cls, next(cls._numbers))
        self.function, self.keys, self.meaning = function, dict(keys), meaning
        self.pointers, self.scalars = tuple(pointers.split()), tuple(scalars.split())
        return self

    def require(self, condition, sentence: str, error=BadParam) -> None:
        if not condition:
            raise error(f"{self.function}: {sentence}")

    def address(self, argument: str, pointer) -> int:
        try:
            return pointer_of(pointer)
        except (BadParam, OverflowError) as error:
            raise BadParam(f"{self.function}: {argument} must be a {error.args[0]}"
                           if isinstance(error, BadParam)
                           else f"{self.function}: {argument} must be an address; got {pointer}") from None

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
        return [value if kind is None else kind.content(self.function, argument, value)
                for (argument, kind), value in pairs]

    def work(self, keys) -> Work:
        return self.meaning(self, *self.contents(keys))

    def plan(self, work, device, *, is_aligned=True, limit=None):
        """``build``, with the function's name in front of what it refuses."""
        try:
            return build(work, device, is_aligned=is_aligned, limit=limit)
        except (BadParam, NotSupported) as error:
            raise type(error)(f"{self.function}: {error.args[0]}", **error.facts) from None

    def executable(self, handle, keys, *, is_aligned=True):
        """What runs these keys, from the table when it is there. Odd addresses need no more
        workspace than the query promised."""
        found = handle.table.get(self, keys, is_aligned)
        if found is None:
            work = self.work(keys)
            limit = (0 if work.no_workspace else None if is_aligned
                     else self.executable(handle, keys).workspace_bytes)
            plan = self.plan(work, handle.device, is_aligned=is_aligned, limit=limit)
            if tuple(work.op.scalars) != self.scalars:
                raise InternalError(f"{self.function}: scalars {self.scalars} must be those of "
                                    f"{work.op.name}; got {tuple(work.op.scalars)}")
            found = (plan.executable if limit is None or plan.workspace_bytes <= limit
                     else Lent(plan.executable, handle))
            found = Picked(found, self.pointers, work.unused) if work.unused else found
            handle.table.put(self, keys, is_aligned, found)
        return found

    def run(self, handle, keys, pointers, scalars, workspace=None,
            workspace_bytes=None, *, names=None) -> None:
        """The slow path: every check, then the plan. ``workspace_bytes`` None: the function has
        no workspace argument, the handle lends one.

        ``names`` says what the pointers are when they are not ``self.pointers``.
        """
        handle = HANDLE.resolve(self.function, "handle", handle)
        self.contents(keys)
        names = names or self.pointers
        addresses = tuple(self.address(n, p) for n, p in zip_longest(names, pointers, fillvalue="pointer"))
        for name, address in zip(names, addresses):
            self.require(address, f"{name} must not be NULL")
        scalars = tuple(scale(self.function, n, s) for n, s in zip(self.scalars, scalars))
        is_aligned = handle.table.alignment(addresses)
        executable = self.executable(handle, keys, is_aligned=is_aligned)
        if workspace_bytes is None:
            workspace, workspace_bytes = handle.reserve(executable.workspace_bytes)
        else:               # callers divide their buffers at any element: start at the next multiple of 16
            start = self.address("workSpace", workspace)
            workspace, workspace_bytes = start + -start % 16, max(index(workspace_bytes) - -start % 16, 0)
        try:
            # arrays say how large they are
            executable.execute(tuple(pointers), scalars, workspace, workspace_bytes, handle.stream)
        except BadParam as error:
            raise BadParam(f"{self.function}: {error.args[0]}") from None


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
