"""A pygraph that can be looked at: its operations and tensors by name, its plans by engine and knobs."""
from __future__ import annotations

from typing import NamedTuple

from ..given import shown, text
from ..heuristics import Choice, main_part
from ..heuristics.knobs import offered
from ..status import BadParam
from .enums import knob_type
from .notes import name_of
from .tensor import tensor


class NodeView(NamedTuple):
    """One operation as it was called: operands and attributes by the names of the operation."""
    name: str
    op: str
    inputs: dict
    outputs: dict
    attributes: dict


class PlanView(NamedTuple):
    """One plan: its place among those that are left, its engines, and what it needs."""
    index: int
    name: str
    workspace_bytes: int
    us: float
    is_selected: bool


class Inspecting:
    """Methods that tell what was written down and chosen, and change nothing but which plan runs."""

    @property
    def nodes(self) -> list[NodeView]:
        """Every operation, in the order of the calls."""
        return [NodeView(s.name, s.op.name, {**s.inputs, **s.scalars}, dict(s.outputs), dict(s.attributes))
                for s in self.steps]

    @property
    def plans(self) -> list[PlanView]:
        """The plans that ``create_execution_plans`` found and no filter left out."""
        return [PlanView(i, name_of(c.choice), self._workspace_of(c), c.choice.us, c is self.chosen)
                for i, c in enumerate(self._left())]

    @property
    def selected_engine(self) -> int | None:
        """The engine id of the plan that ``execute`` runs; None before there is one."""
        return None if self.chosen is None else self._engine_id(self.chosen.choice)

    def get_node(self, name: str) -> NodeView:
        """The operation of a name."""
        return self._named_one("get_node", name, {node.name: node for node in self.nodes})

    def find_tensor(self, name: str) -> tensor:
        """The tensor of a name."""
        return self._named_one("find_tensor", name, {t.name: t for t in self.tensors if t.name})

    @staticmethod
    def _named_one(method, name, known):
        if text(f"{method}: name", name) not in known:
            raise BadParam(f"{method}: name must be one of {' '.join(sorted(known))}; got {shown(name)}")
        return known[name]

    def get_inputs(self) -> list[tensor]:
        """What the caller gives: tensors that no operation writes and that hold no number of the graph."""
        written = {t for step in self.steps for t in step.outputs.values()}
        read = dict.fromkeys(t for step in self.steps for t in step.tensors)
        return [t for t in read if t not in written and t.value is None]

    def get_outputs(self) -> list[tensor]:
        """What operations write and is not virtual."""
        written = dict.fromkeys(t for step in self.steps for t in step.outputs.values())
        return [t for t in written if not t.is_virtual]

    def inspect(self) -> dict:
        """All of it: name, nodes, inputs, outputs, plans, the selected engine."""
        return dict(name=self.name, nodes=self.nodes, inputs=self.get_inputs(), outputs=self.get_outputs(),
                    plans=self.plans, selected_engine=self.selected_engine)

    def select_plan(self, index: int):
        """Build the plan at an index, which ``execute`` runs from now on."""
        self.build_plan_at_index(index)

    def backend_plan_entries(self) -> list[PlanView]:
        """``plans``: every engine here is the backend's."""
        return self.plans

    def get_engine_and_knobs_at_index(self, index: int) -> tuple[int, dict]:
        """(engine id, {knob_type: number}) of a plan, such as ``create_execution_plan`` takes."""
        choice = self._at(index).choice
        part = main_part(choice)
        numbers = next((row for config, row in offered(part, choice.facts) if config == part.config), {})
        return self._engine_id(choice), {knob_type[api]: number for api, number in numbers.items()}

    def _engine_id(self, choice: Choice) -> int | None:
        """The place of the way that a choice goes, whatever its knobs, among those of the graph; None for one
        that only another mode goes."""
        way = lambda c: [(part.engine.index, part.region.nodes) for part in c.parts]
        ways = [way(c) for c in self._engines()]
        return ways.index(way(choice)) if way(choice) in ways else None
