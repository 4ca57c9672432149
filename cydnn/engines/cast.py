"""Inputs of smaller types for engines of 16-bit types:
which type holds them all, and a copy in it, or in other lines, as a step of a plan. Numbers too."""
from __future__ import annotations

from ..dtypes import ALL, BY_NAME
from ..graph import Graph, Node, Tensor
from ..kernels.expressions import ceil_div
from ..ops import Pointwise
from ..steps import Pointer, Scalar, mapped
from ..tensor import TensorDesc
from .pointwise.pointwise import launches


SIXTEEN = ("f16", "bf16")                        # the types of tensor cores, in order of preference
LINE = 8                                         # elements of 16 bytes


def common_type(p) -> str | None:
    """The 16-bit type that holds every value of the inputs of a match; None where there is none."""
    types = [p.operands[name].dtype for name in p.op.reads]
    return next((name for name in SIXTEEN if all(map(BY_NAME[name].holds, types))), None)


def no_common_type(p):
    """Why the inputs of a match have none."""
    every = [t.name for t in ALL if any(BY_NAME[name].holds(t) for name in SIXTEEN)]
    wrong = [n for n in p.op.reads if p.operands[n].dtype.name not in every]
    for name in wrong:
        yield f"{name} must be one of {' '.join(every)}; got {p.operands[name].dtype}"
    if not wrong:
        types = " ".join(sorted(p.operands[n].dtype.name for n in p.op.reads))
        yield f"operands must be held by one 16-bit type; got {types}"


def cast(source: Tensor, pointer: Pointer, target: TensorDesc, to: Pointer, steps: list) -> Pointer:
    """Append what writes ``source`` (at ``pointer``) to ``to`` as ``target``; returns ``to``. Whole numbers
    stay exact."""
    tensors = [Tensor(1, source.desc, alignment=source.alignment), Tensor(2, target)]
    is_whole = {source.dtype.kind, target.dtype.kind} == {"int"}
    identity = Pointwise(mode="identity", compute="i32" if is_whole else "f32")
    graph = Graph([Node(identity, dict(x=1, y=2))], tensors)
    where = {1: pointer, 2: to}

    def turn(value):
        if isinstance(value, Scalar):
            return value.default
        return where[value.uid] + value.addend if value.uid in where else value
    steps += [mapped(step, turn) for step in launches(graph)]
    return to


def in_lines(dtype, dims: tuple, order) -> TensorDesc:
    """A tensor in lines of whole 16 bytes; ``order``: its dims, the innermost first."""
    step, strides = 1, [0] * len(dims)
    for axis in order:
        strides[axis] = step
        step = ceil_div(step * max(dims[axis], 1), LINE) * LINE
    return TensorDesc(dtype, dims, strides)


def read_as(p, name: str, seen: TensorDesc, steps: list) -> Pointer:
    """Where a kernel reads operand ``name`` as ``seen``: where it lies, or a copy that becomes one of the
    steps."""
    tensor = p.operands[name]
    if seen is tensor:
        return p.ptr(name)
    return cast(tensor, p.ptr(name), seen, p.scratch(seen.bytes), steps)


def number_as(p, name: str, dtype: str, steps: list) -> Pointer | Scalar:
    """A number for a parameter Number<dtype>: given at execute, where it lies in memory, or where a copy in
    the type lies that becomes one of the steps."""
    source = p.scalar(name)
    tensor = None if isinstance(source, Scalar) else p.graph.tensors[source.uid]
    if tensor is None or tensor.dtype.name == dtype:
        return source
    target = TensorDesc(dtype, tensor.dims, tensor.strides)
    return cast(tensor, source, target, p.scratch(target.bytes), steps)
