"""The gradients of a function: its graph walked backwards, node by node, by ``Op.gradients``. What autograd
runs.

What comes of it is a graph over the arguments, the results and the gradients of the results, so that a
backward pass is as few launches as the engines make of it. Nodes of the forward graph that it needs are made
again.
"""
from __future__ import annotations

from dataclasses import replace

from ..ops import (BatchNormInference, GroupedMatmul, GroupedMatmulWgrad, Matmul, Op, Pointwise, Reduction,
                   SdpaBwd)
from ..status import InternalError, NotSupported
from ..tensor import TensorDesc
from .gradients import OF_RESULT, RULES
from .trace import Trace, Value, looked


class BackwardWalk:
    """The walk. ``adjoints``: uid -> the gradient of a value; ``kept``: uid of a result -> its memory;
    ``wanted``: the arguments whose gradients are."""

    def __init__(self, name: str, trace: Trace, results, outputs, grads, at: tuple, wanted=()):
        self.name, self.trace, self.forward, self.wanted = name, trace, list(trace.nodes), set(wanted)
        self.kept: dict[int, Value] = {}
        self.adjoints: dict[int, Value] = {}
        for i, (value, said, grad) in enumerate(zip(results, outputs, grads)):
            for into, array, first, what in ((self.kept, said, at[0], "result"),
                                             (self.adjoints, grad, at[1], "grad")):
                if array is not None:            # as the graph has it: the caller sees other dims of 1
                    dims, strides = _spread(array.desc, value)
                    memory = array.desc.replace(dims=dims, strides=strides)
                    into[value.uid] = made = trace.input(memory, first + i, array.alignment, what)
                    trace.formed |= {made.uid: array.desc} if value.form is not None else {}

    def run(self):
        for node, values in reversed(self.forward):
            grads = {o: self.adjoints[values[o].uid] for o in node.op.writes
                     if values.get(o) is not None and values[o].uid in self.adjoints}
            if grads:
                self._through(node, values, grads)

    def _through(self, node, values, grads):
        op, out = node.op, {o: self.kept.get(v.uid, v) for o, v in values.items()
                            if o in node.op.writes and v is not None}
        if isinstance(op, Pointwise) and op.mode in RULES:
            reads = [values[name] for name in op.inputs()]
            found = RULES[op.mode](self.trace, grads["y"], out["y"], *reads)
            for value, grad in zip(reads, found):
                self._add(value, grad)
        elif isinstance(op, Matmul):
            self._product(values["a"], values["b"], grads["c"])
        elif isinstance(op, GroupedMatmul):
            self._grouped(values, grads["y"])
        elif isinstance(op, Reduction) and op.mode in ("add", "avg"):
            self._sum(op, values["x"], grads["y"])
        elif isinstance(op, Reduction) and op.mode in ("max", "min"):
            self._extreme(values["x"], out["y"], grads["y"])
        elif isinstance(op, BatchNormInference):
            self._scaled(values, node.scalars["epsilon"], grads["y"])
        else:
            self._declared(node, {**values, **out}, grads)

    def _product(self, a, b, grad):
        t = self.trace
        self._add(a, lambda: t.add(Matmul(compute=t.compute), "c", a=grad, b=t.swapped(b)))
        self._add(b, lambda: t.add(Matmul(compute=t.compute), "c", a=t.swapped(a), b=grad))

    def _grouped(self, values, grad):
        t, x, w, offsets = self.trace, values["x"], values["w"], values["offsets"]
        self._add(x, lambda: t.add(GroupedMatmul(compute=t.compute), "y", x=grad, w=t.swapped(w),
                                   offsets=offsets))
        self._add(w, lambda: t.add(GroupedMatmulWgrad(compute=t.compute), "dw", x=x, dy=grad, offsets=offsets,
                                   given=dict(dw=TensorDesc.packed(w.desc.dtype, w.dims))))

    def _sum(self, op, x, grad):
        t = self.trace
        wide = t.point("binary_select", grad, grad, x)       # whatever x: the gradient, in its dims
        if op.mode == "avg":
            share = 1.0 / max(x.desc.count // max(grad.desc.count, 1), 1)
            wide = t.point("mul", wide, t.constant(share, wide))
        self._add(x, wide)

    def _extreme(self, x, y, grad):
        """Those that are the largest or the least share it."""
        t = self.trace
        wins = t.point("cmp_eq", x, y)
        axes = {i for i, (d, e) in enumerate(zip(x.dims, y.dims)) if d != e}
        self._add(x, t.point("mul", wins, t.point("div", grad, t.fold("add", wins, axes) if axes else wins)))

    def _scaled(self, values, epsilon, grad):
        """Through a normalization with statistics that are given, which are constants."""
        t, (x, scale, bias, mean, var) = self.trace, (values[o] for o in BatchNormInference.reads)
        rstd = t.point("rsqrt", t.point("add", var, t.number(epsilon, None, var.rank)))
        self._add(x, t.point("mul", grad, t.point("mul", scale, rstd)))
        self._add(scale, t.point("mul", grad, t.point("mul", t.point("sub", x, mean), rstd)))
        self._add(bias, grad)

    def _declared(self, node, values, grads):
        """By the backward operations that the op names; rows with one operation are one node."""
        rows: dict[Op, dict] = {}
        for name, row in node.op.gradients.items():
            if values.get(name) is not None:
                rows.setdefault(row.op, {})[name] = row
        if not rows:
            raise NotSupported(f"{self.name}: {node.op.name} must have a gradient, as an array requires one; "
                               "got an operation that has none yet")
        for op, own in rows.items():
            reads = {o: grads.get(r[1:]) if r[0] == "d" and r[1:] in node.op.writes else values.get(r)
                     for o, r in next(iter(own.values())).reads.items()}
            numbers = {k: v for k, v in node.scalars.items() if k in op.scalars}
            of = {row.output: values[name] for name, row in own.items()}
            if isinstance(op, SdpaBwd):
                op, of = self._with_bias(op, of, values.get("extras") or ())
            given = {output: value.desc for output, value in of.items()}
            takes = self.trace.takes.get(min(node.writes))
            made = self.trace.add(op, " ".join(of), numbers, given, takes, **reads)
            for value, grad in zip(of.values(), made if isinstance(made, tuple) else (made,)):
                self._add(value, grad)

    def _with_bias(self, op: SdpaBwd, of: dict, extras) -> tuple:
        """The operation and the values of its outputs, with the gradient of what is added to the scores where
        it is wanted."""
        for i, value in enumerate(extras):
            if value.source in self.wanted:
                return replace(op, dbias_of=i), {**of, "dbias": value}
        return op, of

    def _add(self, value: Value, grad):
        """One more part of a value's gradient, or a function that makes it where it is needed."""
        t = self.trace
        if value.uid in t.tensors and t.tensors[value.uid].is_by_value:
            return
        grad = grad() if callable(grad) else grad
        axes = {i for i, (d, e) in enumerate(zip(grad.dims, value.dims)) if d != e}
        grad = t.fold("add", grad, axes) if axes else grad
        before = self.adjoints.get(value.uid)
        self.adjoints[value.uid] = grad if before is None else t.point("add", before, grad)

    def of_argument(self, source: int, desc: TensorDesc) -> Value:
        """The gradient of an argument, as memory of its dims."""
        t = self.trace
        looks = [(uid, t.looks[uid]) for uid, at in t.sources.items()
                 if at == source and uid in self.adjoints]
        if len(looks) != 1:
            raise InternalError(f"{self.name}: an argument is read in one way; got {len(looks)} for argument "
                                f"{source}")
        uid, look = looks[0]
        grad = self.adjoints[uid]
        if grad.source is not None or grad.user is not None:
            grad = t.point("identity", grad)     # memory of its own
        dense = desc if desc.is_dense else desc.like(desc.dims)
        t.turned |= {grad.uid} if uid in t.turned else set()
        t.formed |= {grad.uid: dense} if uid in t.formed else {}
        grad.desc, grad.user = looked(dense, look), dense
        return grad


def reads_results(trace: Trace, results) -> bool:
    """The gradients may need what was returned, not the arguments and what is saved beside it alone."""
    made = {v.uid for v in results if all(v is not one for one in trace.saved)}
    for node, _ in trace.nodes:
        own = {o for o in node.op.writes if node.operands.get(o) in made}
        reads = {r for row in node.op.gradients.values() for r in row.reads.values()}
        if own and (own & reads or getattr(node.op, "mode", None) in OF_RESULT.get(type(node.op), ())):
            return True
    return False


def _spread(desc: TensorDesc, value: Value) -> tuple:
    """Dims and strides of memory in the dims of a value, which has others of 1, or another form."""
    if value.form is not None:
        return value.form(desc.dims, desc.strides)
    left = [s for d, s in zip(desc.dims, desc.strides) if d != 1]
    return value.dims, tuple([left.pop(0) if d != 1 else 1 for d in value.dims])


def gradients(name: str, trace: Trace, results, outputs, grads, wanted, at: tuple) -> list[Value]:
    """The gradients of the arguments ``wanted`` ({number: description}), written into the trace of a call.
    ``outputs``, ``grads``: what results and their gradients say of themselves, None for one that is not
    there; ``at``: the numbers of the first of each, as arguments. Raises NotSupported where an operation has
    no gradient."""
    walk = BackwardWalk(name, trace, results, outputs, grads, at, wanted)
    walk.run()
    return [walk.of_argument(source, desc) for source, desc in wanted.items()]
