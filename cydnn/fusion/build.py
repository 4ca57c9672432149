"""From graph nodes to programs: names for values, places for tensors,
and the sentences of what cannot be spliced."""
from __future__ import annotations

from functools import lru_cache, wraps

from ..dtypes import BY_NAME
from ..ops.pointwise import WHOLE
from ..graph import Lead, Match, Node, number_of, once_per_match, source_of
from ..steps import Pointer
from .functions import instructions
from .program import MOST_BYTES, Extra, Fused, Program, Step
from .rules import needs_rounding
from .site import CannotPlace, Places, Site

FACTORS = ("alpha1", "alpha2")


def math_of(nodes, tensors) -> str:
    """The math type: f64 when an op asks for it, or when f32 cannot hold the values of a tensor.
    Real numbers given at execute are rounded to it."""
    single = BY_NAME["f32"]
    exact = all([single.holds(t.dtype) or t.is_by_value and t.dtype.kind == "float" for t in tensors])
    return "f32" if exact and all([n.op.math == "f32" for n in nodes]) else "f64"


class Builder:
    """Collects the steps of one program at one site."""

    def __init__(self, math: str, site: Site, graph):
        self.math, self.graph, self.site, self.places = math, graph, site, Places(site)
        self.steps, self.tensors, self.stores, self.values = [], [], [], {}
        self.names: dict = {}                    # uid -> name of a tensor in memory
        self.scalars: dict = {}                  # number -> its name
        self.entry, self.alpha, self.blend = "", "", ()
        self.kept: dict = {}                     # value -> the name that later marks read

    # ---- Names ----

    def tensor(self, uid: int) -> str:
        """The name of a tensor in memory; the same tensor has one name."""
        if uid not in self.names:
            tensor = self.graph.tensors[uid]
            self.names[uid] = f"t{len(self.tensors)}"
            self.tensors.append((Extra(tensor.dtype.name, self.places.at(tensor)), Pointer(uid)))
        return self.names[uid]

    def scalar(self, scalar) -> str:
        return self.scalars.setdefault(scalar, f"s{len(self.scalars)}")

    def read(self, uid: int) -> str:
        """The name of a tensor's value: one that was made here, a number given at execute, or memory."""
        if uid in self.values:
            return self.values[uid]
        return self.source(source_of(self.graph.tensors[uid]))

    def source(self, source) -> str:
        """The name of an element in memory, or of a number that is given at execute."""
        return self.tensor(source.uid) if isinstance(source, Pointer) else self.scalar(source)

    def factor(self, node: Node, name: str) -> str:
        """The name of a by-value factor of a node, "" when it has its default (and so does nothing)."""
        value = node.scalars.get(name)
        return "" if value is None or value == node.op.scalars[name] else self.number(node, name)

    def number(self, node: Node, name: str) -> str:
        """The name of a number of a node."""
        return self.source(number_of(self.graph.tensors, node, name))

    def keep(self, value: str) -> str:
        """The name of a value at later marks; the same value has one."""
        return self.kept.setdefault(value, f"h{len(self.kept)}")

    def index(self, axis: int) -> str:
        """The name of the index along a dim of the site."""
        return "@" + "".join(self.places.coordinate(axis))

    # ---- Steps ----

    def node(self, node: Node):
        """Append one pointwise node; its value is that of its output."""
        inputs = [self.read(node.operands[o]) for o in node.op.inputs()]
        scales = [self.factor(node, s) for s in FACTORS][:len(inputs)]
        alpha = self.factor(node, "alpha")
        beta = node.scalars.get("beta", 0.0)
        if getattr(beta, "default", beta) != 0:
            raise CannotPlace(f"{node.name}: beta must be 0 where operations are fused; got {beta}")
        uid = node.operands["y"]
        self.values[uid] = self.step(node.op, inputs, scales, alpha, self.graph.tensors[uid])

    def step(self, op, inputs, scales=(), alpha="", output=None) -> str:
        """Append one operation whose value goes to ``output``. Returns the name of its value."""
        mode, inputs = op.mode, tuple(inputs)
        if mode == "gen_index":
            mode, inputs, scales = "identity", (self._index(op.axis, output),), ()      # whatever x holds
        if "nan" in op.row.uses and op.nan == "ignore":
            mode += "_ignore"
        attributes = tuple(getattr(op, name) for name in op.row.uses if name not in ("nan", "axis"))
        scales = tuple(scales) + ("",) * (len(inputs) - len(scales)) if any(scales) else ()
        if op.compute == "i32" and op.mode in WHOLE:
            self.steps.append(Step(mode, inputs, scales, "", attributes))
            mode, inputs, scales, attributes = "trunc", (f"n{len(self.steps) - 1}",), (), ()
        self.steps.append(Step(mode, inputs, scales, alpha, attributes, self.rounding(output)))
        return f"n{len(self.steps) - 1}"

    def _index(self, axis: int, output) -> str:
        if output is not None and output.dims[axis] == 1:
            return self.scalar(0.0)
        return self.index(axis)

    def rounding(self, tensor) -> str:
        """The type that a value passes on its way to others; "" where that changes nothing."""
        if tensor is None or not needs_rounding(tensor.dtype.name, self.math):
            return ""
        return tensor.dtype.name

    def store(self, uid: int):
        """Write the value of a tensor to its memory."""
        tensor = self.graph.tensors[uid]
        name = self.tensor(uid)
        at = self.tensors[int(name[1:])][0].at
        if tensor.dtype.bits < 8 and not (at.vector == 8 and at.terms == (("off", 1),)):
            raise CannotPlace(f"tensor {tensor.label}: packed booleans are written eight at once, "
                              f"where the kernel walks them in the order of memory; got {tensor}")
        self.stores.append((self.values[uid], name))

    def finish(self, result: str, outputs=(), is_whole=False, is_read=False) -> Fused:
        """``result``: the value that the mark's registers get; ``outputs``: types that it is stored as by the
        kernel; ``is_whole``: the kernel stores nothing; ``is_read``: it does more than store it."""
        if not is_read:
            self._drop_last_rounding(result, outputs)
        written = [*outputs, *(BY_NAME[self.tensors[int(t[1:])][0].dtype] for _, t in self.stores)]
        places, fast = self.places, self.math == "f32" and all(d.bits <= 16 for d in written)
        program = Program(
            self.math, tuple(self.steps), tuple([extra for extra, _ in self.tensors]), tuple(self.stores),
            result, tuple(places.digits), len(places.numbers), len(self.scalars), len(places.divisors),
            self.alpha, self.blend, self.entry, fast, is_whole, tuple(self.kept.items()))
        for sentence in too_large([program.bytes]):
            raise CannotPlace(sentence)
        return Fused(program, tuple([p for _, p in self.tensors]), tuple(self.scalars),
                     tuple(places.numbers), tuple(places.divisors))

    def _drop_last_rounding(self, result, outputs):
        """A value that is only stored need not be rounded before:
        the store rounds, behind what the kernel adds."""
        used = {i for s in self.steps for i in s.inputs}
        ends = [v for v, _ in self.stores] + ([result] if outputs else [])
        for i, step in enumerate(self.steps):
            name = f"n{i}"
            if step.dtype and name not in used and ends.count(name) == 1:
                self.steps[i] = Step(step.mode, step.inputs, step.scales, step.alpha, step.attributes)


# ---- The three places of a program ----

def behind(p: Match, site: Site, lead: Lead, *, mark_type: str = "f32", alpha="", beta="") -> Fused | None:
    """What follows a core: the nodes behind it and the stores of outputs that the kernel does not
    store itself. None where there is nothing to do. ``alpha``, ``beta``: scalars of the core that the
    kernel leaves to the program."""
    if not p.behind and not p.last and lead.is_native:
        return None
    own = p.graph.tensors[p.uids[p.op.writes[0]]]
    follows = p.behind or p.last
    if follows and "beta" in p.op.scalars and p.value(beta or "beta") != 0:
        raise CannotPlace(f"beta must be 0 where operations follow; got {p.node.scalars.get('beta')}")
    tensors = [p.graph.tensors[u] for n in p.behind for u in (*n.reads, *n.writes)]
    math = "f64" if mark_type != "f32" else math_of(p.behind, [*tensors, own])
    builder = Builder(math, site, p.graph)
    builder.values[own.uid] = "v"
    builder.alpha = builder.scalar(p.scalar(alpha)) if alpha else ""
    if beta and not own.is_virtual:
        builder.blend = builder.tensor(own.uid), builder.scalar(p.scalar(beta))
    builder.entry = builder.rounding(own) if follows else ""
    return _with_nodes(builder, p.behind, p.region.outputs, lead, is_read=bool(p.last))


def region(p: Match, site: Site, lead: Lead) -> Fused:
    """A region of pointwise nodes."""
    tensors = [p.graph.tensors[u] for n in p.behind for u in (*n.reads, *n.writes)]
    return _with_nodes(Builder(math_of(p.behind, tensors), site, p.graph), p.behind, p.region.outputs, lead)


def before(p: Match, operand: str, site: Site, math: str) -> Fused:
    """How a kernel gets an operand: the value that nodes in front of the core make, or memory of any type."""
    nodes, uid = p.before.get(operand, ()), p.uids[operand]
    builder = Builder(math, site, p.graph)
    for node in nodes:
        builder.node(node)
    return builder.finish(builder.read(uid))


def math_before(p: Match, operand: str, sum_type: str) -> str:
    """The math type of an operand on its way into sums of a type."""
    nodes, uid = p.before.get(operand, ()), p.uids[operand]
    tensors = [p.graph.tensors[u] for n in nodes for u in (*n.reads, *n.writes)] + [p.graph.tensors[uid]]
    if sum_type == "i32":
        return "f64" if nodes else "i32"
    return "f64" if sum_type == "f64" else math_of(nodes, tensors)


def _with_nodes(builder, nodes, outputs, lead, is_read=False) -> Fused:
    """``is_read``: the kernel reads the lead's values, as they are in memory."""
    for node in nodes:
        builder.node(node)
    result = builder.values[lead.uid] if lead.is_native or is_read else ""
    for uid in outputs:
        if uid in builder.values and not (uid == lead.uid and lead.is_native):
            builder.store(uid)
    stored_as = (lead.tensor.dtype,) if lead.is_native else ()
    if result == "v" and not (is_read and builder.entry):
        result = ""
    return builder.finish(result, stored_as, not lead.is_native, is_read)


def attempt(make):
    """A function or a method that gives a Fused, several or None, tried once for each match: one that gives
    the CannotPlace, too, that it raised."""
    @once_per_match
    @wraps(make)
    def tried(*given, **named):
        try:
            return make(*given, **named)
        except CannotPlace as error:
            return error
    return tried


def reasons(*found):
    """The sentences of what ``attempt`` gave for the marks of one launch, which share its parameters."""
    refused = [one.args[0] for one in found if isinstance(one, CannotPlace)]
    yield from refused or too_large(one.program.bytes for one in found if hasattr(one, "program"))


def too_large(sizes):
    """The sentence where the programs of a launch have no room in its parameters."""
    if (size := sum(sizes)) > MOST_BYTES:
        yield f"what is fused must take at most {MOST_BYTES} bytes of parameters; got {size}"


def has_room(border) -> bool:
    """False where what stays at the Border of a region takes more bytes than a launch has for it: 8 a tensor,
    but for the one that the kernel stores itself, and at least 4 a number."""
    return 8 * (len(border.tensors) - 1) + 4 * len(border.numbers) <= MOST_BYTES


@lru_cache(maxsize=1024)
def _work(program) -> int:
    steps = (instructions(step.mode, program.math, program.fast) for step in program.steps)
    return len(program.tensors) + sum(steps)


def work(fused) -> int:
    """How many instructions an element takes of what ``attempt`` gave; 0 where that is nothing."""
    return _work(fused.program) if hasattr(fused, "program") else 0


def at(mark: str, fused: Fused | None) -> dict:
    """``Launch.fuse`` of one mark; nothing where there is nothing to splice."""
    return {mark: fused} if fused is not None else {}
