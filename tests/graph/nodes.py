"""Short ways to say tensors, nodes and values."""
from __future__ import annotations

import random

from cydnn.graph import Node, Tensor
from cydnn.ops import Pointwise
from cydnn.tensor import TensorDesc
from support.check.matrix import inputs_for


def t(uid, dims=(2, 4), dtype="f32", kind="memory", layout="nchw", **facts) -> Tensor:
    """A packed tensor; "virtual" and "value" as its kind may stand for the rest."""
    return Tensor(uid, TensorDesc.packed(dtype, dims, layout), kind, **facts)


def v(uid, dims=(2, 4), dtype="f32", layout="nchw") -> Tensor:
    """A virtual one."""
    return t(uid, dims, dtype, "virtual", layout)


def tensors(**kinds) -> dict:
    """Tensors with uids from 1 on: ``a="memory"``, "virtual" or "value"."""
    return {uid: t(uid, (1, 1) if kind == "value" else (2, 4), kind=kind, name=name)
            for uid, (name, kind) in enumerate(kinds.items(), 1)}


def unary(x, y, mode="abs", **scalars) -> Node:
    return Node(Pointwise(mode=mode), dict(x=x, y=y), scalars, name=f"{mode}{x}{y}")


def binary(x, b, y, mode="add", **scalars) -> Node:
    return Node(Pointwise(mode=mode), dict(x=x, b=b, y=y), scalars, name=f"{mode}{y}")


def values_for(problem, seed) -> dict:
    """{uid: values} of the one-op graph of a problem."""
    found = inputs_for(problem, random.Random(seed), exact=False)
    return {uid: found[name] for uid, name in enumerate(problem.tensors, 1)}
