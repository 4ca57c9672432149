"""An operation with a thing that an engine's pattern takes around it: nodes in front of an operand, nodes
behind it, or one of the last operations, over any dims."""
from __future__ import annotations

from cydnn import ops
from cydnn.dtypes import BY_NAME
from cydnn.graph import Graph, Tensor
from cydnn.ops import Pointwise, Reduction
from cydnn.tensor import TensorDesc

from .dags import INEXACT, Dag

EXACT = ("add", "max", "min", "amax", "norm1")   # reductions of small whole numbers


def things(takes) -> list:
    """(where, which) of a pattern: ("before", "x"), ("kept", "dy"), ("behind", ""), ("last", an op)."""
    at, behind = getattr(takes, "before", None), getattr(takes, "behind", None)
    return [*((where, name) for where in ("before", *(["kept"] if at and at.leaves else []))
              for name in (at.at if at else ())), *([("behind", "")] if behind else []),
            *(("last", op) for op in getattr(takes, "last", ()))]


def graph_of(problem, where: str, which, rng, between="") -> tuple[Graph, bool]:
    """(a problem with one of these around it, are results more than sums of small whole numbers?).
    ``between``: the type that x has behind a node of channels, which stands in front, too; "": none does."""
    made, op = Dag(rng), problem.op
    made.smooth = isinstance(op, (ops.Sdpa, ops.SdpaBwd, ops.Rng, *INEXACT))
    uids = op.joined({name: _add(made, desc) for name, desc in problem.tensors.items()})
    if between:
        _of_channels(made, uids["x"], between)
    elif where == "before" and isinstance(op, ops.SdpaBwd) and problem.tensors[which].dtype.bits == 8:
        for name in {which, which if which in "qk" else "q"}:
            _descaled(made, uids[name])
    elif where in ("before", "kept"):
        _front(made, uids[which], "memory" if where == "kept" else "virtual")
    made.node(op, uids)
    values = [out := uids[op.writes[0]]]
    if where in ("behind", "last") and isinstance(op, ops.Sdpa) and problem.tensors["q"].dtype.bits == 8:
        _scaled(made, out, where == "last")
    elif where in ("behind", "last"):
        desc = made.tensors[out].desc
        kind = BY_NAME[rng.choice([made.middle(), desc.dtype.name])]
        made.tensors[out] = Tensor(out, desc.replace(dtype=kind), "virtual")
        for _ in range(rng.randint(*dict(behind=(1, 3), last=(0, 2))[where])):
            values.append(made.point(desc.dims, values))
        if where == "last":
            _end(made, which, values[-1])
    return made.graph(), made.smooth


def _add(made, desc, kind="memory", name="") -> int:
    uid = made.uids.pop()
    made.tensors[uid] = Tensor(uid, desc, kind, name=name)
    return uid


def _front(made, uid, kind):
    """What is read there becomes what a node makes of a tensor like it and of one that has some of its
    dims."""
    desc = made.tensors[uid].desc
    made.tensors[uid] = Tensor(uid, desc, kind)
    made.node(Pointwise(mode=made.rng.choice(["mul", "max", "cmp_ge"])),
              dict(x=_add(made, desc), b=made.extra(desc.dims), y=uid))


def _descaled(made, uid):
    """In front of attention of 8 bits: a product with a number, so small that weights stay finite."""
    desc, one = made.tensors[uid].desc, TensorDesc.packed("f32", (1, 1, 1, 1))
    made.tensors[uid] = Tensor(uid, desc.replace(dtype=BY_NAME["f32"]), "virtual")
    made.node(Pointwise(mode="mul"), dict(x=_add(made, desc), b=_add(made, one, name="small"), y=uid))


def _of_channels(made, uid, between):
    """x becomes what a node makes, in another type, of a tensor like it and of a value of each channel."""
    desc = made.tensors[uid].desc
    thin = TensorDesc.packed(made.middle(), [d if i == 1 else 1 for i, d in enumerate(desc.dims)])
    made.tensors[uid] = Tensor(uid, desc.replace(dtype=BY_NAME[between]), "virtual")
    made.node(Pointwise(mode=made.rng.choice(["mul", "max", "cmp_ge"])),
              dict(x=_add(made, desc), b=_add(made, thin), y=uid))


def _scaled(made, out, has_largest):
    """Behind attention of 8 bits: products with a number each, the largest element in front of the last."""
    one, count = TensorDesc.packed("f32", (1, 1, 1, 1)), made.rng.randint(1, 3)
    made.tensors[out] = Tensor(out, made.tensors[out].desc.replace(dtype=BY_NAME["f32"]), "virtual")
    for i in range(count):
        if has_largest and i == count - 1:
            made.node(Reduction(mode="amax"), dict(x=out, y=_add(made, one)))
        product = made.like(out, "f32" if i < count - 1 else made.rng.choice(["f16", "bf16"]))
        made.node(Pointwise(mode="mul"), dict(x=out, b=_add(made, one), y=product))
        out = product


def _end(made, op_class, uid):
    desc, rng = made.tensors[uid].desc, made.rng
    if op_class is Reduction:
        op = op_class(mode=rng.choice(("add", *EXACT)))
        outputs = dict(y=TensorDesc.packed("f32", tuple(rng.choice([1, d]) for d in desc.dims)))
    else:
        op = op_class()
        outputs = op.infer(desc)
    made.node(op, dict(x=uid, **{name: _add(made, desc, "virtual") for name, desc in outputs.items()}))
