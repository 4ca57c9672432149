"""From graph nodes to a program: names for values, places for tensors, and the sentences of what cannot be spliced."""
from __future__ import annotations

from math import gcd

from ..dtypes import BY_NAME
from ..ops import Matmul, Pointwise
from ..status import NotSupported
from ..tensor import TensorDesc
from .program import FUSE_BYTES, At, Epilogue, Extra, Program, Step
from .rules import EXACT_IN, STORAGE, needs_rounding


class CannotPlace(NotSupported):
    """A tensor that the kernel's marks give no offset for."""


def math_of(op, descs) -> str:
    """The math type: f64 when the op asks for it, or when f32 cannot hold the values of an operand."""
    exact = all(d.dtype.name in EXACT_IN["f32"] for d in descs)
    return "f32" if op.compute != "f64" and exact else "f64"


class Builder:
    """Collects steps. ``place(desc)`` says where a tensor lies (an At), or raises CannotPlace."""

    def __init__(self, math: str, place):
        self.math, self.place = math, place
        self.steps, self.tensors, self.scalars, self.written = [], [], [], []

    def tensor(self, desc: TensorDesc, pointer) -> str:
        """The name of a tensor; the same tensor has one name."""
        if desc.dtype.name not in STORAGE:
            raise CannotPlace(f"tensor {desc.label} must be one of {' '.join(STORAGE)}; got {desc.dtype}")
        entry = (Extra(desc.dtype.name, self.place(desc)), pointer)
        if entry not in self.tensors:
            self.tensors.append(entry)
        return f"t{self.tensors.index(entry)}"

    def scalar(self, scalar) -> str:
        if scalar not in self.scalars:
            self.scalars.append(scalar)
        return f"s{self.scalars.index(scalar)}"

    def step(self, op: Pointwise, inputs, scales=(), alpha="", desc=None, store="", is_last=True) -> str:
        """Append one operation; ``desc`` is its output. Returns the name of its value."""
        mode, inputs = op.mode, tuple(inputs)
        if mode == "gen_index":
            mode, inputs, scales = "identity", (f"@{self.place.coordinate(op.axis)}",), ()     # the index, whatever x holds
        if "nan" in op.row.uses and op.nan == "ignore":
            mode += "_ignore"
        attributes = tuple(getattr(op, name) for name in op.row.uses if name not in ("nan", "axis"))
        scales = tuple(scales) if any(scales) else ()
        self.steps.append(Step(mode, inputs, scales, alpha, attributes, self.rounding(desc, is_last), store))
        return f"n{len(self.steps) - 1}"

    def rounding(self, desc, is_last=False) -> str:
        """The type a value passes on its way to other steps. The kernel itself rounds what it stores; only a bool must be 0 or 1 before."""
        if desc is None or (is_last and desc.dtype.name != "bool") or not needs_rounding(desc.dtype.name, self.math):
            return ""
        return desc.dtype.name

    def finish(self, output: TensorDesc, dtype="", store="") -> Epilogue:
        """The epilogue; ``output`` is what the kernel writes."""
        written = [output.dtype, *(BY_NAME[self.tensors[int(s[1:])][0].dtype] for s in (store, *(s.store for s in self.steps)) if s)]
        program = Program(self.math, tuple(self.steps), tuple(e for e, _ in self.tensors), len(self.scalars), dtype, store,
                          self.math == "f32" and all(d.bytes <= 2 for d in written))
        if program.bytes > FUSE_BYTES:
            raise CannotPlace(f"extra tensors and scalars must take at most {FUSE_BYTES} bytes of parameters; got {program.bytes}")
        return Epilogue(program, tuple(p for _, p in self.tensors), tuple(self.scalars))

    def chain(self, match, first: str):
        """Append the nodes of ``match.epilogue``; ``first`` is the value that the match's own output has."""
        graph = match.graph
        values = {match.uids[match.op.writes[0]]: first}
        for node in match.epilogue:
            out, is_last = graph.tensors[node.operands["y"]], node is match.epilogue[-1]
            number = lambda name, node=node: self._factor(graph, node, name)
            if number("beta"):
                raise CannotPlace(f"{node.name}: beta must be 0 behind another operation; got {node.scalars.get('beta')}")
            inputs = [self._read(graph, values, node.operands[o]) for o in node.op.inputs()]
            scales = [number(s) for s in ("alpha1", "alpha2")][:len(inputs)]
            store = "" if out.is_virtual or is_last else self.tensor(out, self._pointer(out.uid))
            values[node.operands["y"]] = self.step(node.op, inputs, scales + [""] * (len(inputs) - len(scales)), number("alpha"), out, store, is_last)

    def _read(self, graph, values, uid) -> str:
        from ..steps import Scalar       # engines import fusion
        if uid in values:
            return values[uid]
        desc = graph.tensors[uid]
        return self.scalar(Scalar(uid, 0.0)) if desc.is_by_value else self.tensor(desc, self._pointer(uid))

    def _factor(self, graph, node, name) -> str:
        """The name of a by-value factor of a node, "" when it has its default (and so does nothing)."""
        from ..steps import Scalar
        default = node.op.scalars[name]
        value = node.scalars.get(name, default)
        if value == default:
            return ""
        key = value.uid if hasattr(value, "uid") else (graph.nodes.index(node), name)
        return self.scalar(Scalar(key, 0.0 if hasattr(value, "uid") else float(value)))

    @staticmethod
    def _pointer(uid):
        from ..steps import Pointer
        return Pointer(uid)


# ---- Behind a kernel that marks what it writes ----

def widest(output: TensorDesc) -> int:
    """How many neighbours of a mark are aligned together: the largest power of two, up to 8, that divides the output's strides.

    A vector mark starts at a multiple of its length along the innermost dim (docs/design.md §3), so this is what remains to be shown.
    """
    return gcd(8, *(s for d, s in zip(output.dims, output.strides) if d > 1 and s > 1))


def _vector(desc: TensorDesc, neighbours: int) -> int:
    """Elements of ``desc`` that one access may have."""
    return max(1, min(neighbours, min(desc.alignment, 16) // desc.dtype.bytes if desc.dtype.bytes > 1 else 1))


def beside_output(output: TensorDesc, channel: int):
    """The places that fuse_epilogue offers: one element, one for each channel, or laid out like the output."""
    def place(desc: TensorDesc) -> At:
        per_channel = tuple(d if i == channel % output.rank else 1 for i, d in enumerate(output.dims))
        if desc.count == 1:
            return At("", 0)
        if desc.same_layout(output):
            return At("off", 1, _vector(desc, widest(output)))
        if desc.dims == per_channel and desc.strides[channel] == 1:
            return At("col", 1, _vector(desc, widest(output)))
        raise CannotPlace(f"tensor {desc.label} must have one element, one for each channel ({'x'.join(map(str, per_channel))}, gapless), or "
                          f"the dims and strides of the output {output}; got {desc}")
    place.coordinate = _no_coordinate
    return place


def _no_coordinate(axis):
    raise CannotPlace("gen_index needs coordinates, which this kernel's marks do not have")


CHANNEL = {Matmul: -1}                           # dim that col counts; 1 for all others


def build(match, output_desc=None) -> Epilogue | None:
    """The epilogue of the nodes behind ``match`` for a kernel that writes ``output_desc`` (default: match.out)."""
    if not match.epilogue:
        return None
    if output_desc not in match.fused:           # every engine asks; the answer depends on the output alone
        try:
            match.fused[output_desc] = _build(match, output_desc)
        except CannotPlace as error:
            match.fused[output_desc] = error
    found = match.fused[output_desc]
    if isinstance(found, CannotPlace):
        raise found
    return found


def _build(match, output_desc) -> Epilogue:
    graph, output = match.graph, output_desc or match.out
    own = match.operands[match.op.writes[0]]
    if own.dims != output.dims:
        raise CannotPlace(f"fused operations must keep the dims {own.dims} of {match.op.name}'s output; got {output.dims}")
    builder = Builder("f64" if output.dtype.name == "f64" or own.dtype.name == "f64" else "f32",
                      beside_output(output, CHANNEL.get(type(match.op), 1)))
    store = "" if own.is_virtual else builder.tensor(own, builder._pointer(match.uids[match.op.writes[0]]))
    builder.chain(match, "v")
    return builder.finish(output, builder.rounding(own), store)


def refuse(match, output_desc=None):
    """Yield the sentence of why ``build`` would raise, if it would."""
    try:
        build(match, output_desc)
    except CannotPlace as error:
        yield error.args[0]
