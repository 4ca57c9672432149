"""A choice: which engine computes which part of a graph, in which configuration. Pure data;
prints and parses back."""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Callable

from ..arena import arrange
from ..engines import BY_INDEX, Config, Engine, engines_for
from ..engines.knobs import TERMS
from ..engines.reference import NO_ESTIMATE_US
from ..graph import Graph, Match, Node, inplace, once_per_match
from ..locks import once
from ..ops import Pointwise, Transform
from ..status import BadParam, InternalError
from ..steps import Pointer, Scalar, Scratch, mapped, pointers
from . import errata


@dataclass(frozen=True, eq=False)
class Part:
    """A match, the engine that computes it, its configuration and its estimate in microseconds, or what gives
    the estimate when it is asked for."""
    match: Match
    engine: Engine
    config: Config
    estimate: float | Callable = field(compare=False)

    @once
    def us(self) -> float:
        return self.estimate() if callable(self.estimate) else self.estimate

    @property
    def region(self):
        return self.match.region

    @property
    def nodes(self) -> list:
        return [self.match.graph.nodes[i] for i in self.region.nodes]

    @property
    def bytes(self) -> int:
        """The least that must move: each tensor in memory that it reads or writes, once."""
        return self.region.traffic_bytes

    @property
    def flops(self) -> int:
        """Arithmetic operations, multiply and add counted as two; 0 where memory decides."""
        return sum(node.op.flops(**self.match.graph.described(node)) for node in self.nodes)

    def __str__(self):
        return f"part {' '.join(map(str, self.region.nodes))}: {self.engine.index} {self.config}".rstrip()


@dataclass(frozen=True, eq=False)
class Choice:
    """Parts in the order in which they run. ``asked``: the graph that the choice is for; ``graph``: the one
    that the parts cover, after the ``changes``. ``facts``: of the device it is for.

    Equal where the graph, the device and the text are.
    """
    asked: Graph
    graph: Graph
    facts: object
    parts: tuple
    changes: tuple = ()                          # "compose 5", "lower 3", "cast 1": a node each, in order
    mode: str = "a"

    def of_equal(self, graph: Graph, make) -> "Choice":
        """This choice of an equal graph, whose names may be others. ``make`` gives (graph, parts); it is
        called when somebody looks at them."""
        made = object.__new__(Choice)
        made.__dict__.update(asked=graph, facts=self.facts, changes=self.changes, mode=self.mode,
                             text=self.text, _make=make)
        return made

    def __getattr__(self, name):
        known = self.__dict__
        if name not in ("graph", "parts") or "_make" not in known:
            raise AttributeError(f"a choice has no {name}")
        graph, parts = known.get("_made") or known.setdefault("_made", known["_make"]())
        known.update(graph=graph, parts=parts)   # of one call, whatever threads come by
        return known[name]

    @property
    def key(self):
        return self.asked.key, self.facts, self.text

    def __eq__(self, other):
        return isinstance(other, Choice) and self.key == other.key

    def __hash__(self):
        return hash(self.text)

    def __reduce__(self):
        from .read import parse                  # it makes choices
        return parse, (self.text, self.asked, self.facts)

    @property
    def us(self) -> float:
        return sum(part.us for part in self.parts)

    @property
    def engines(self) -> list[Engine]:
        return [part.engine for part in self.parts]

    @property
    def engine(self) -> Engine:
        """The one engine, or the composite."""
        return self.parts[0].engine if len(self.parts) == 1 else BY_INDEX[1]

    @property
    def name(self) -> str:
        """The engines, such as ``110:conv_fprop_mma+270:pointwise_vector``; of a composite, its own name."""
        return str(BY_INDEX[1]) if self.is_composite else "+".join(map(str, self.engines))

    @property
    def is_composite(self) -> bool:
        """Node by node, because nothing else was wished for."""
        return self.mode == "fallback" and len(self.parts) > 1

    @property
    def notes(self) -> tuple:
        """What all engines say of themselves; what kernels make of the operations; "tensor_core",
        "down_convert_inputs" and "runtime_compilation" where one does; "strict_nan_prop" where a NaN goes
        everywhere that it must and nowhere else; that launches can be nodes of a CUDA graph, as all can."""
        common = set.intersection(*(set(e.notes) for e in self.engines))
        some = {"tensor_core", "down_convert_inputs"} & {n for e in self.engines for n in e.notes}
        if self.facts.kind == "cuda":
            some |= {note for part in self.parts for i in part.region.nodes
                     for note in part.match.graph.nodes[i].op.notes}
        some |= {"supports_cuda_graph_native_api"} if self.facts.kind == "cuda" else set()
        some |= {"runtime_compilation"} if self.is_spliced else set()
        some |= {"strict_nan_prop"} if self._keeps_nan else set()
        return tuple(sorted(common | some))

    @property
    def _keeps_nan(self) -> bool:
        """By all engines, and by all operations that may skip a NaN."""
        return all(engine.keeps_nan for engine in self.engines) and all(
            getattr(node.op, "nan", "propagate") == "propagate" for node in self.asked.nodes)

    @once
    def steps(self) -> tuple:
        """(number of the part, step) of all parts, in order; behind them, those that bring held outputs to
        their places."""
        areas = {uid: Scratch(self.graph.tensors[uid].bytes) for uid in self.held}
        at = {uid: Pointer(areas.get(root, root), skip) for uid, (root, skip) in self.places.items()}
        at |= {uid: Pointer(area) for uid, area in areas.items()}
        turn = lambda v: at[v.uid] + v.addend if isinstance(v, Pointer) and v.uid in at else v
        found = [(i, mapped(step, turn) if at else step)
                 for i, part in enumerate(self.parts) for step in self._steps_of(part)]
        return tuple([*found, *((len(self.parts), step) for uid, area in areas.items()
                                for step in self._copy(uid, area))])

    def _steps_of(self, part: Part) -> list:
        """An engine's steps. Raises InternalError where none of them has the address of an output."""
        steps = part.engine.plan(part.match, self.facts, part.config)
        reached = {pointer.uid for step in steps for pointer in pointers(step)}
        kept = {uid for i in part.region.nodes for name, uid in part.match.graph.nodes[i].operands.items()
                if name in part.match.graph.nodes[i].op.keeps}           # what they hold may be the result
        for uid in part.region.outputs:
            if uid not in reached | kept | self.places.keys() and self.graph.tensors[uid].count:
                raise InternalError(f"{part.engine}: the steps must write every output of `{part}`; "
                                    f"none writes {self.graph.tensors[uid].label}")
        return steps

    @once
    def places(self) -> dict:
        """{virtual uid: (uid of a tensor whose memory it lies in, bytes behind its beginning)}"""
        found: dict = {}
        for part in self.parts:
            place = part.engine.place(part.match)
            if place is not None:
                root, skip = found.get(place[0], (place[0], 0))
                found[part.match.uids[part.match.op.writes[0]]] = root, skip + place[1]
        return found

    # ---- Outputs that lie where an input lies ----

    @once
    def inplace(self) -> tuple:
        """(written uid, read uid) of tensors that may have one address: what the graph allows."""
        return inplace.pairs(self.asked)

    @once
    def held(self) -> tuple:
        """uids of the outputs that wait in the workspace until all parts have run, since a part would read
        from where they may lie behind the first of their elements is written."""
        number_of = {i: k for k, part in enumerate(self.parts) for i in part.region.nodes}
        writer = {out: number_of.get(self.graph.producer[out]) for out, _ in self.inplace}
        reader = {read: max([number_of[i] for i in self._readers(read) if i in number_of], default=-1)
                  for _, read in self.inplace}
        return tuple(dict.fromkeys([out for out, read in self.inplace if writer[out] is not None
                                    and not self._reads_first(writer[out], reader[read], out, read)]))

    def _readers(self, uid: int) -> list:
        """The nodes that read a tensor's memory."""
        inside = [placed for placed, (root, _) in self.places.items() if root == uid]
        return [i for u in (uid, *inside) for i in self.graph.consumers.get(u, ())]

    def _reads_first(self, writer: int, reader: int, out: int, read: int) -> bool:
        """The last part that reads one tensor comes before the part that writes the other, or is that part
        and reads each element first: elementwise, or by an operation that works in place."""
        if reader != writer:
            return reader < writer
        match = self.parts[writer].match
        nodes = [self.graph.nodes[i] for i in self._readers(read) if i in match.region]
        return not any(uid in self.places for n in nodes for uid in n.reads) and all(
            id(n) in _elementwise(match) or n is match.node and any(
                inplace.works_in_place(n, made, read) for made in ((out,) if out in n.writes else n.writes))
            for n in nodes)

    def _copy(self, uid: int, area: Scratch) -> list:
        """The steps that bring an output from its area of the workspace to its place."""
        tensor, source = self.graph.tensors[uid], max(self.graph.tensors) + 1
        graph = Graph([Node(Transform(), dict(x=source, y=uid))],
                      [tensor.replace(uid=source, kind="memory", name=""), tensor])
        match = Match.single(graph)
        engine = next(e for e in engines_for(Transform) if errata.accepts(e, match, self.facts))
        turn = lambda v: (v.default if isinstance(v, Scalar) else     # the output's own numbers have counted
                          Pointer(area, v.addend) if v.uid == source else v)
        return [mapped(step, turn) for step in engine.plan(match, self.facts, engine.best(match, self.facts))]

    @property
    def is_spliced(self) -> bool:
        return any(getattr(step, "fuse", None) for _, step in self.steps)

    @once
    def areas(self) -> tuple[dict, int]:
        """({virtual uid or Scratch: offset in the workspace}, bytes of the workspace),
        by how long each lives."""
        live: dict = {}
        for number, step in self.steps:
            for pointer in pointers(step):
                area = pointer.uid
                if isinstance(area, Scratch) or self.graph.tensors[area].is_virtual:
                    live[area] = (live.get(area, (number,))[0], number)
        size = lambda area: area.bytes if isinstance(area, Scratch) else self.graph.tensors[area].bytes
        return arrange([(area, size(area), first, last) for area, (first, last) in live.items()])

    @property
    def workspace_bytes(self) -> int:
        return self.areas[1]

    @once
    def text(self) -> str:
        """The form that parses back: what was changed, then a line for each part."""
        head = ["composite"] if self.is_composite else []
        return "\n".join([*head, *self.changes, *map(str, self.parts)])

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"<choice of {self.name} for {self.facts.name}>"

    def refused(self, part: Part) -> list:
        """[(engine, sentences)] of the engines that would not compute a part, or not in this form."""
        found = []
        for engine in engines_for(part.match.op or Pointwise):
            reasons = ("takes no operations around it",)
            if engine.fits(part.match):
                reasons = errata.reasons(engine, part.match, self.facts)
            found += [(engine, reasons)] if reasons else []
        return found

    def others(self, part: Part) -> list[Part]:
        """What the engines that would compute a part in this form, but were not taken, make of it; the
        cheapest by its estimate first."""
        found = []
        for engine in engines_for(part.match.op or Pointwise):
            if engine is not part.engine and engine.fits(part.match) and errata.accepts(
                    engine, part.match, self.facts):
                config = next(iter(engine.configs(part.match, self.facts)), None)
                if config is not None:
                    us = engine.cost(part.match, self.facts, config)
                    found.append(Part(part.match, engine, config, us))
        return sorted(found, key=lambda one: one.us)

    def workspace_of(self, part: Part) -> int:
        """Bytes that a part would need alone."""
        return replace(self, parts=(part,)).workspace_bytes

    def estimates(self) -> list:
        """What ``explain`` says, as data: for each part its node names, engine, configuration, estimate in
        microseconds (None: the reference, which has none), bytes that must move, arithmetic operations, the
        shares of the device's bandwidth and of its arithmetic that the estimate comes to, and the larger of
        them, the share of the roof; or None."""
        return [dict(nodes=[node.name for node in part.nodes], engine=str(part.engine),
                     config=str(part.config), us=part.us if part.us < NO_ESTIMATE_US else None,
                     bytes=part.bytes, flops=part.flops, **_shares(part, self.facts)) for part in self.parts]

    def explain(self) -> str:
        """For people: parts with their nodes, engine, configuration and estimate, what must move and be
        computed, who refused why, and what the others would take; the notes of the whole."""
        lines = list(self.changes)
        for part, said in zip(self.parts, self.estimates()):
            lines.append(f"{_us(part.us)}  {_named(part)}: {', '.join(said['nodes'])}")
            lines.append(f"    {_in_words(said)}")
            lines += [f"    {engine} refused: {'; '.join(sentences)}"
                      for engine, sentences in self.refused(part)]
            lines += [f"    {_named(o)} not taken: {_us(o.us)}, {self.workspace_of(o):,} bytes of workspace"
                      f"{_asked(o)}" for o in self.others(part)]
            lines += [f"    {name}={value}: {TERMS[name].doc}" for name, value in part.config.items()
                      if name in TERMS]
        return "\n".join([*lines, f"notes: {' '.join(self.notes) or 'none'}",
                          f"{_us(self.us)} in all, {self.workspace_bytes} bytes of workspace"])

    def told(self) -> dict:
        """``explain`` as lists, dicts, numbers and strings; ``us`` None where there is no estimate."""
        number = lambda us: us if us < NO_ESTIMATE_US else None
        parts = []
        for part, said in zip(self.parts, self.estimates()):
            words = {name: TERMS[name].doc for name, _ in part.config.items() if name in TERMS}
            others = [dict(engine=str(o.engine), config=str(o.config), us=number(o.us),
                           workspace_bytes=self.workspace_of(o), notes=list(o.engine.notes),
                           only_for=list(o.engine.only_for)) for o in self.others(part)]
            parts.append(dict(said, workspace_bytes=self.workspace_of(part), notes=list(part.engine.notes),
                              knobs=words, others=others,
                              refused={str(engine): list(why) for engine, why in self.refused(part)}))
        return dict(device=self.facts.name, changes=list(self.changes), us=number(self.us), parts=parts,
                    notes=list(self.notes), workspace_bytes=self.workspace_bytes)


def checked(match: Match, engine, config, facts) -> tuple:
    """(configuration, what gives its cost). Raises BadParam where the engine does not offer it."""
    if not engine.offers(match, facts, config):
        offered = list(engine.configs(match, facts))
        some = ", ".join(str(c) or "(none)" for c in offered[:8]) + (" …" if len(offered) > 8 else "")
        raise BadParam(f"build: config of {engine} must be one of {some}; got {config}")
    return config, partial(engine.cost, match, facts, config)


def _shares(part: Part, facts) -> dict:
    """Of the device's bandwidth, of its arithmetic and of the roof that both are, in the estimated time."""
    uid = next(iter(part.match.region.inputs or part.match.region.outputs))
    bits = part.match.graph.tensors[uid].dtype.bits
    if facts.kind != "cuda" or not 0 < part.us < NO_ESTIMATE_US:
        return dict.fromkeys(("bandwidth", "arithmetic", "roof"))
    found = dict(bandwidth=part.bytes / (facts.bandwidth_gbs * 1e3 * part.us),
                 arithmetic=part.flops / (facts.tflops(bits) * 1e6 * part.us))
    return dict(found, roof=max(found.values()))


def _named(part: Part) -> str:
    return f"{part.engine} {part.config}".rstrip()


def _asked(part: Part) -> str:
    """Whom an engine serves only, where that is so."""
    only = part.engine.only_for
    return f", only where {' or '.join(only)} is asked for" if only else ""


def _us(us: float) -> str:
    return f"{us:.1f} us" if us < NO_ESTIMATE_US else "no estimate"


def _in_words(said: dict) -> str:
    """``3,145,728 bytes (41 % of the bandwidth), 1.3 GFLOP (90.1 TFLOP/s, 9 % of the arithmetic)``."""
    moved, work = f"{said['bytes']:,} bytes", f"{said['flops'] * 1e-9:.1f} GFLOP"
    if said["bandwidth"] is not None:
        moved += f" ({100 * said['bandwidth']:.0f} % of the bandwidth)"
        share = f"{100 * said['arithmetic']:.0f} % of the arithmetic"
        work += f" ({said['flops'] / said['us'] * 1e-6:.1f} TFLOP/s, {share})"
    return f"{moved}, {work}" if said["flops"] else moved


@once_per_match
def _elementwise(match: Match) -> set:
    """The ids of nodes that read each element before it is written."""
    named = {r for _, r in match.op.inplace} if match.op else ()
    return {id(n) for n in (*match.behind, *(n for r in named for n in match.before.get(r, ())))}
