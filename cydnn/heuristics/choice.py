"""A choice: which engine computes which part of a graph, in which configuration. Pure data;
prints and parses back."""
from __future__ import annotations

from dataclasses import dataclass, field

from ..arena import arrange
from ..engines import BY_INDEX, Config, Engine, engines_for
from ..graph import Graph, Match
from ..locks import once
from ..ops import Pointwise
from ..status import InternalError
from ..steps import Scratch, pointers


@dataclass(frozen=True, eq=False)
class Part:
    """A match, the engine that computes it, its configuration and estimate in microseconds."""
    match: Match
    engine: Engine
    config: Config
    us: float = field(compare=False)

    @property
    def region(self):
        return self.match.region

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

    @property
    def key(self):
        return self.asked.key, self.facts, self.text

    def __eq__(self, other):
        return isinstance(other, Choice) and self.key == other.key

    def __hash__(self):
        return hash(self.text)

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
        """What all engines say of themselves; "tensor_core" and "runtime_compilation" where one does."""
        common = set.intersection(*(set(e.notes) for e in self.engines))
        some = {"tensor_core"} & {n for e in self.engines for n in e.notes}
        return tuple(sorted(common | some | ({"runtime_compilation"} if self.is_spliced else set())))

    @once
    def steps(self) -> tuple:
        """(number of the part, step) of all parts, in order."""
        return tuple([(i, step) for i, part in enumerate(self.parts) for step in self._steps_of(part)])

    def _steps_of(self, part: Part) -> list:
        """An engine's steps. Raises InternalError where none of them has the address of an output."""
        steps = part.engine.plan(part.match, self.facts, part.config)
        reached = {pointer.uid for step in steps for pointer in pointers(step)}
        for uid in part.region.outputs:
            if uid not in reached and self.graph.tensors[uid].count:
                raise InternalError(f"{part.engine}: the steps must write every output of `{part}`; "
                                    f"none writes {self.graph.tensors[uid].label}")
        return steps

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

    def refused(self, part: Part) -> list:
        """[(engine, sentences)] of the engines that would not compute a part, or not in this form."""
        found = []
        for engine in engines_for(part.match.op or Pointwise):
            form = engine.fits(part.match)
            reasons = engine.reasons(part.match, self.facts) if form else ("takes no operations around it",)
            found += [(engine, reasons)] if reasons else []
        return found

    def explain(self) -> str:
        """For people: parts with their nodes, engine, configuration and estimate, and who refused why."""
        lines = list(self.changes)
        for part in self.parts:
            nodes = ", ".join(self.graph.nodes[i].name for i in part.region.nodes)
            config = f" {part.config}" if part.config else ""
            lines.append(f"{part.us:.1f} us  {part.engine}{config}: {nodes}")
            lines += [f"    {engine} refused: {'; '.join(sentences)}"
                      for engine, sentences in self.refused(part)]
        return "\n".join([*lines, f"{self.us:.1f} us in all, {self.workspace_bytes} bytes of workspace"])
