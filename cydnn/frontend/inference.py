"""From what was called to a graph: uids, types, dims and strides of what was left open. Reference of the
front end, section 6.

What is found stands in ``tensor.found``; what the caller has set stays as it is and wins.
"""
from __future__ import annotations

from itertools import count

from ..dtypes import BY_NAME
from ..given import brief, shown
from ..graph import FromTensor, Graph, Node, Tensor
from ..ops import BlockScaleDequantize, BlockScaleQuantize, Pointwise, Sdpa, SdpaBwd, Slice, Transpose
from ..ops.block_scale import order, padded
from ..ops.moves import Move
from ..status import BadParam
from ..steps import Scalar
from ..tensor import TensorDesc, packed_strides
from .datatypes import type_of
from .enums import data_type, tensor_reordering
from .fours import fours, in_bytes
from .steps import Step, in_words
from .tensor import exchanged, tensor

TRANSPOSED = {Sdpa: ("k",), SdpaBwd: ("k", "dk")}            # operands that calls have as (b, h, s, d)
TURN = "::keys"                                  # how names of nodes end that transpose them


class Defaults:
    """The types that a graph gives to what has none."""

    def __init__(self, io, intermediate, compute):
        self.io, self.intermediate, self.compute = io, intermediate, compute

    def _kind(self, t: tensor) -> data_type:
        """The type of tensors that have none."""
        return self.intermediate if t.is_virtual else self.io

    def kind_of(self, t: tensor) -> data_type:
        return self._kind(t) if t.data_type is data_type.NOT_SET else t.data_type

    def storage(self, t: tensor) -> tuple:
        """(type, neighbours that are one unit) of a tensor."""
        kind, word = self._kind(t), "intermediate" if t.is_virtual else "io"
        if t.data_type is data_type.NOT_SET and kind is data_type.NOT_SET:
            raise BadParam(f"pygraph: tensor {t.label} must have a data_type; set it, or {word}_data_type of "
                           f"the graph")
        return t.storage(kind)

    def math(self, step: Step, descs) -> str:
        """What a step computes in: as it says, as the graph says, else f64 for f64 operands and f32 for
        others."""
        has_doubles = any(d.dtype.name == "f64" for d in descs)
        return step.compute or self.compute or ("f64" if has_doubles else "f32")


def needed(steps: list[Step]) -> list[Step]:
    """The steps without those that are there for a result alone which nobody asked for."""
    kept, read = [], set()
    for step in reversed(steps):
        if not step.is_spare or any(not t.is_virtual or t in read for t in step.outputs.values()):
            kept.append(step)
            read |= {*step.inputs.values(), *step.scalars.values()}
    return kept[::-1]


def made_by(steps: list[Step], t: tensor) -> list[Step]:
    """The steps that a tensor comes of."""
    kept, wanted = [], {t}
    for step in reversed(steps):
        if wanted & {*step.outputs.values()}:
            kept.append(step)
            wanted |= {*step.inputs.values(), *step.scalars.values()}
    return kept[::-1]


class Inference:
    """One way through the steps of a graph. ``graph``: what came of it; there is none of a part, whose
    tensors are not told what was found."""

    def __init__(self, steps: list[Step], defaults: Defaults, name: str, is_part: bool = False):
        self.defaults, self.found, self.made = defaults, {}, {}
        steps = needed(steps)
        tensors = list(dict.fromkeys(t for step in steps for t in step.tensors))
        tensors += dict.fromkeys(t.ragged_offset for t in tensors if t.ragged_offset not in (None, *tensors))
        for t in tensors:
            if t.ragged_offset is not None and t.ragged_offset.owner is not t.owner:
                raise BadParam(f"tensor {t.label}: ragged_offset must be a tensor of the graph; got one of "
                               f"another")
        self.tiled = tiled(steps)                # {scales in tiles: the step that they are of}
        self.fours = fours(steps, defaults.kind_of)
        for t, is_transposed in transposed(steps).items():
            t.is_transposed = is_transposed
        self.uids = given_uids(tensors)
        self._fresh = count(max([*self.uids.values(), 0]) + 1)
        self._written = {t for step in steps for t in step.outputs.values()}
        self._read: set = set()                  # by the steps so far
        self._apart: dict = {}                   # {tensor: it, with its last two dims exchanged}
        self._begins: dict = {}                  # {(offsets, multiplier): node that makes them elements}
        nodes = [node for step in steps for node in self._nodes(step)]
        if is_part:
            return
        for t in tensors:
            self._of(t)
        nodes = [*self._begins.values(), *nodes]
        try:
            self.graph = Graph(nodes, [*self.found.values(), *self.made.values()], name)
        except BadParam as error:
            raise in_words(error, steps) from None
        for t, known in self.found.items():
            t.found = known

    # ---- One tensor ----

    def _of(self, t: tensor) -> Tensor:
        """What stands in the graph for a tensor that no step has written yet."""
        if t not in self.found:
            dims, strides = t.dims_set
            if t.kind == "value":
                dims = dims or (1,)
                strides = strides or packed_strides(dims)
            for what, given in (("dim", dims), ("stride", strides)):
                if not given:
                    raise BadParam(f"pygraph: tensor {t.label} must have a {what}, as no operation writes "
                                   f"it; got none")
            self.found[t] = self._tensor(t, dims, strides)
        return self.found[t]

    def _tensor(self, t: tensor, dims, strides, kept: data_type | None = None) -> Tensor:
        """``kept``: the type where it has none of its own, in place of the graph's."""
        if len(dims) != len(strides):
            raise BadParam(f"tensor {t.label}: stride must have as many entries as dim; got dim "
                           f"{shown(list(dims))}, stride {shown(list(strides))}")
        if t.is_virtual and t.is_pass_by_value:
            raise BadParam(f"tensor {t.label}: must not be virtual and passed by value at once")
        if t in self.fours:
            (t.pairs, dims, strides), (row, units) = in_bytes(t, dims, strides), (BY_NAME["u8"], 1)
        else:
            row, units = self.defaults.storage(t) if kept is None else t.storage(kept)
        reordering = t.reordering_type.name.lower()
        if t in self.tiled:                      # its operation knows, and where its columns are
            step, reordering = self.tiled[t], "none"
            axis = step.op(**step.attributes).columns(len(dims))
            dims = padded(dims, axis)
            strides = packed_strides(dims, order(len(dims), axis))
        uid = self.uids[t]
        ragged = None if t.ragged_offset is None else self._elements(t)
        scalar = None if t.value is None or t.kind != "value" else self._scalar(t, t.value)
        return Tensor(uid, TensorDesc(row, dims, strides, units), t.kind, t.alignment, ragged,
                      reordering, scalar, t.name)

    def _elements(self, t: tensor) -> int:
        """The uid of a tensor's ragged offsets in elements: those given, or what a node makes of coarser
        ones."""
        offsets, times = t.ragged_offset, t.ragged_offset_multiplier
        if times == 1:
            return self.uids[offsets]
        if (offsets, times) not in self._begins:
            known = self._of(offsets)
            made = Tensor(next(self._fresh), known.desc.replace(dtype="i64"), "virtual")
            self.made[offsets, times] = made
            self._begins[offsets, times] = Node(
                Pointwise(mode="identity", compute="f64"), dict(x=known.uid, y=made.uid),
                dict(alpha1=float(times)), f"{t.label}::elements")
        return self._begins[offsets, times].operands["y"]

    def _ranked(self, step: Step) -> dict:
        """The inputs of a pointwise step, all of the largest rank among them: dims of 1 go in front, as in
        NumPy."""
        for t in step.inputs.values():
            self._of(t)
        own = lambda t: len(self.found[t].dims if t in self._written else t.own_dim or (1,))
        rank = max([own(t) for t in step.inputs.values()], default=0)
        return {o: self._raised(t, rank) for o, t in step.inputs.items()}

    def _raised(self, t: tensor, rank: int) -> Tensor:
        return self.found[t] if t in self._written else self._of_rank(t, rank)

    def _of_rank(self, t: tensor, rank: int) -> Tensor:
        """An input with dims of 1 in front. A number may stand in a graph in several ranks, memory in one."""
        known = self.found[t]
        missing = rank - len(known.dims)
        if not missing:
            return known
        if t not in self._read:
            ahead = max(known.desc.extent, 1)
            self.found[t] = known.replace(dims=(1,) * missing + known.dims,
                                          strides=(ahead,) * missing + known.strides)
            return self.found[t]
        if t.kind != "value":
            raise BadParam(f"tensor {t.label}: must have one rank in all operations that read it; got "
                           f"{len(known.dims)} and {rank}")
        if (t, rank) not in self.made:
            number = t.value if t.value is not None else 0 if known.dtype.kind == "int" else 0.0
            self.made[t, rank] = known.replace(uid=next(self._fresh), dims=(1,) * rank, strides=(1,) * rank,
                                               scalar=self._scalar(t, number))
        return self.made[t, rank]

    def _scalar(self, t: tensor, number) -> Scalar:
        """A number that never changes is told as such: operations are recognised by those."""
        return Scalar(("constant", number) if t.is_constant else self.uids[t], number)

    # ---- One step ----

    def _nodes(self, step: Step) -> list[Node]:
        """A step, between transposes of keys that are not its alone."""
        try:
            turned = lambda tensors: [t for o, t in tensors.items() if self._is_turned(step, o, t)]
            known = {*self._apart}
            node = self._made_of(step)
            before = [t for t in turned(step.inputs) if t not in known]
            return [*(self._turn(t, step, to_keys=True) for t in before), node,
                    *(self._turn(t, step, to_keys=False) for t in turned(step.outputs))]
        except BadParam as error:
            raise step.said(error) from None

    @staticmethod
    def _is_turned(step: Step, operand: str, t: tensor) -> bool:
        return operand in TRANSPOSED.get(step.op, ()) and not t.is_transposed

    def _turn(self, t: tensor, step: Step, to_keys: bool) -> Node:
        own, other = self.uids[t], self._apart[t].uid
        compute = self.defaults.math(step, [self.found[t].desc])
        return Node(Transpose(permutation=(0, 1, 3, 2), compute=compute),
                    dict(x=own, y=other) if to_keys else dict(x=other, y=own), {}, step.name + TURN)

    def _keys(self, t: tensor) -> Tensor:
        """A tensor with its last two dims exchanged, which lives in the graph alone."""
        if t not in self._apart:
            known = self.found[t]
            self._apart[t] = self.made[t, "keys"] = known.replace(
                uid=next(self._fresh), kind="virtual", dims=exchanged(known.dims), scalar=None,
                strides=exchanged(known.strides))
        return self._apart[t]

    def _made_of(self, step: Step) -> Node:
        if step.op is Pointwise:
            inputs = self._ranked(step)
        else:
            inputs = {o: self._of(t) for o, t in step.inputs.items()}
            inputs |= {o: self._keys(t) for o, t in step.inputs.items() if self._is_turned(step, o, t)}
            rank = max([t.desc.rank for t in inputs.values()], default=0)
            inputs |= {o: self._raised(t, rank) for o, t in step.inputs.items()
                       if o.partition(".")[0] in step.op.by_value}
        op = step.op(**step.attributes, **self._said_by(step), compute=self.defaults.math(step,
                                                                                          inputs.values()))
        descs = op.joined({o: t.desc for o, t in inputs.items()})
        op = op.settled(descs)
        self._infer(op, step, descs)
        operands = op.joined({o: t.uid for o, t in inputs.items()})
        operands |= {o: self._keys(t).uid if self._is_turned(step, o, t) else self.uids[t]
                     for o, t in step.outputs.items()}
        scalars = {name: FromTensor(self._of(t).uid) for name, t in step.scalars.items()}
        self._read.update(step.inputs.values(), step.scalars.values())
        return Node(op, operands, scalars, step.name)

    def _said_by(self, step: Step) -> dict:
        """Attributes that tensors say: of their types, and whether they lie in tiles."""
        word = lambda t: "f4_e2m1" if t in self.fours else self.defaults.storage(t)[0].name
        found = {a: word(step.outputs[o]) for a, o in step.op.typed.items() if a not in step.attributes}
        if step.inputs.get("x") in self.fours:
            found |= dict(pairs=step.inputs["x"].pairs)
        scale = {**step.inputs, **step.outputs}.get("scale")
        return found | (dict(is_tiled=True) if scale in self.tiled else {})

    def _infer(self, op, step: Step, descs: dict):
        """Give dim and stride to the outputs that have none."""
        given = op.read_of(descs)
        inferred = op.inferred(given)            # every rule is checked first
        wanted = {**op.infer_asked(**given), **inferred}
        for operand, t in step.outputs.items():
            want = descs["x"] if t in self.fours else wanted.get(operand)
            if want is None and op.name == "reduction":
                want = descs["x"]
            turn = exchanged if self._is_turned(step, operand, t) else tuple
            dims, strides = map(turn, t.dims_set)
            if want is None and not dims:
                raise BadParam(f"{brief(step.name)}: the dim of {operand} must be set; it does not follow "
                               f"from the inputs")
            dims = dims or want.dims
            if step.op is Pointwise:
                want = next((d for d in descs.values() if d.dims == want.dims), descs["x"])
            is_channels_last = want is None or operand in step.channels_last
            if step.innermost is not None:
                strides = strides or packed_strides(dims, turned_order(want, step.innermost % want.rank))
            strides = strides or strides_of(dims, want, is_channels_last)
            self.found[t] = self._tensor(t, turn(dims), turn(strides), _kept_type(step, t, descs))
            if t in self.fours and t.pairs != op.columns(len(dims)):
                raise BadParam(f"{op.name}: {operand} must have stride 1 along the axis, "
                               f"{op.columns(len(dims))}, as a byte holds two FP4_E2M1; got {strides}")


def transposed(steps: list[Step]) -> dict[tensor, bool]:
    """Which tensors the graph has with their last two dims exchanged: those that are keys of attention alone,
    and what these are made of by numbers. Others stand in it as they are, and are transposed for it."""
    ways: dict[tensor, set] = {}
    for step in reversed(steps):                 # who reads a tensor comes before who makes it
        keys = TRANSPOSED.get(step.op, ())
        passed = _passed(step, ways)
        for o, t in (*step.inputs.items(), *step.outputs.items()):
            ways.setdefault(t, set()).add(o in keys or t in passed)
    return {t: found == {True} for t, found in ways.items()}


def tiled(steps: list[Step]) -> dict[tensor, Step]:
    """The scales that lie in tiles, and the operations that read or write them so. Raises BadParam where they
    are anything else."""
    is_tiled = lambda t: t.reordering_type is tensor_reordering.F8_128x4
    found = {t: step for step in steps if step.op in (BlockScaleDequantize, BlockScaleQuantize)
             for o, t in (*step.inputs.items(), *step.outputs.items()) if o == "scale" and is_tiled(t)}
    for step in steps:
        for o, t in (*step.inputs.items(), *step.outputs.items()):
            if t in found and (o != "scale" or step.op is not found[t].op):
                raise BadParam(f"tensor {t.label}: reordering_type F8_128x4 must be that of scales alone; "
                               f"got {o} of {brief(step.name)}, and of {brief(found[t].name)}")
    return found


def turned_order(desc: TensorDesc, axis: int) -> list[int]:
    """Dim numbers from outermost to innermost with a dim innermost; those within it go outside."""
    inner = order_of(desc)[::-1]
    at = inner.index(axis)
    return (inner[at:] + inner[:at])[::-1]


def _passed(step: Step, ways: dict) -> tuple:
    """What a product with numbers reads and makes, where that is keys alone; ``ways``: of who reads it."""
    if step.op is not Pointwise or len(step.outputs) != 1:
        return ()
    (made,) = step.outputs.values()
    moving = [t for t in step.inputs.values() if t.kind != "value" and t.own_dim != (1,) * 4]
    is_keys = made.is_virtual and ways.get(made) == {True} and len(moving) == 1
    return (*moving, made) if is_keys else ()


def _kept_type(step: Step, t: tensor, descs: dict) -> data_type | None:
    """The input's type for what only moves: a virtual result without a type, or a slice. None: the
    graph's."""
    if not issubclass(step.op, Move) or t.data_type is not data_type.NOT_SET:
        return None
    first = next(d for v in descs.values() for d in (v if isinstance(v, tuple) else (v,)))
    return type_of(first.dtype, first.vector) if t.is_virtual or step.op is Slice else None


def strides_of(dims, model: TensorDesc | None, is_channels_last: bool) -> tuple:
    """Strides of an output: those of its model, or in its order where the model has other dims or reaches
    an element twice."""
    if is_channels_last:
        return packed_strides(dims, "nhwc")
    if model.is_overlapping and model.rank == len(dims):
        return packed_strides(dims, order_of(model))
    return model.strides if model.dims == tuple(dims) else model.like(dims).strides


def order_of(desc: TensorDesc) -> list[int]:
    """Dim numbers from outermost to innermost; dims whose stride says nothing (1 element, stride 0) stay
    where they are."""
    order: list[int] = []
    says = [stride if size > 1 else 0 for stride, size in zip(desc.strides, desc.dims)]
    for axis in range(desc.rank):
        place = len(order)
        for at in reversed(range(len(order))):
            if says[order[at]] and says[axis]:
                if says[order[at]] >= says[axis]:
                    break
                place = at
        order.insert(place, axis)
    return order


def given_uids(tensors: list[tensor]) -> dict[tensor, int]:
    """A uid for each tensor: its own, its number, or the next from 1 on that nobody has."""
    own = [t.own_uid for t in tensors if t.own_uid is not None]
    twice = sorted({uid for uid in own if own.count(uid) > 1})
    if twice:
        raise BadParam(f"pygraph: uids must differ; got {twice} more than once")
    numbers = {t: t.number for t in tensors if t.own_uid is None and t.number is not None}
    taken = {*own, *numbers.values()}
    fresh = (i for i in count(1) if i not in taken)
    return {t: t.own_uid if t.own_uid is not None else numbers[t] if t in numbers else next(fresh)
            for t in tensors}
