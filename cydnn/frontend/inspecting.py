"""A pygraph that can be looked at: its operations and tensors by name, its plans by engine and knobs."""
from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ..given import shown, text, whole
from ..heuristics import Choice, main_part
from ..heuristics.knobs import offered
from ..status import BadParam
from .enums import NodeType, data_type, knob_type
from .notes import name_of
from .steps import Step
from .tensor import tensor


class NodeView(NamedTuple):
    """One operation as it was called: operands and attributes by the names of the call."""
    name: str
    node_type: NodeType
    inputs: dict
    outputs: dict
    params: dict

    def __repr__(self):
        return f"Node({self.name!r}, {self.node_type.name})"


class PlanView(NamedTuple):
    """One plan: its place among those that are left, its engines, and what it needs. ``engine_id`` and
    ``knobs`` are what ``create_execution_plan`` takes."""
    cpp_index: int
    name: str
    workspace_bytes: int
    us: float
    is_selected: bool
    engine_id: int | None
    knobs: dict


class GraphContext(NamedTuple):
    """The types of a graph."""
    io_data_type: data_type
    intermediate_data_type: data_type
    compute_data_type: data_type


class Inspecting:
    """Methods that tell what was written down and chosen, and change nothing but which plan runs."""

    @property
    def context(self) -> GraphContext:
        """The types of tensors and operations that set none."""
        return GraphContext(*self.types)

    @property
    def nodes(self) -> list[NodeView]:
        """Every operation, in the order of the calls."""
        return [view_of(step) for step in self.steps]

    @property
    def tensors(self) -> dict[str, tensor]:
        """{name: tensor} of every tensor that has a name of its own."""
        counts = Counter(t.name for t in self._tensors)
        return {t.name: t for t in self._tensors if t.name and counts[t.name] == 1}

    @property
    def plans(self) -> list[PlanView]:
        """The plans that ``create_execution_plans`` found and no filter left out."""
        return [PlanView(i, name_of(c.choice), self._workspace_of(c), c.choice.us, c is self.chosen,
                         *self.get_engine_and_knobs_at_index(i)) for i, c in enumerate(self._left())]

    @property
    def selected_engine(self):
        """None: no engine here is written in Python and has an object of its own. What runs is told by
        ``plans``."""
        return None

    def get_node(self, name: str) -> NodeView | None:
        """The operation of a name; None where there is none."""
        return next((node for node in self.nodes if node.name == text("get_node: name", name)), None)

    def find_tensor(self, key: str | int) -> tensor | None:
        """The tensor of a name or a uid; None where there is none. Raises BadParam for a name of several."""
        is_name = isinstance(key, str)
        key = key if is_name else whole("find_tensor: key", key)
        found = [t for t in self._tensors if key == (t.name if is_name else t.get_uid())]
        if len(found) > 1:
            raise BadParam(f"find_tensor: name must not be ambiguous; got {shown(key)}, that of {len(found)}")
        return found[0] if found else None

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
        """All of it: name, nodes and tensors as dicts, inputs, outputs, plans."""
        names = lambda tensors: {port: t.name for port, t in tensors.items()}
        nodes = [dict(name=node.name, type=node.node_type.name, inputs=names(node.inputs),
                      outputs=names(node.outputs), params=node.params) for node in self.nodes]
        return dict(name=self.name, nodes=nodes, tensors={n: t.row() for n, t in self.tensors.items()},
                    inputs=self.get_inputs(), outputs=self.get_outputs(), plans=self.plans)

    def select_plan(self, index: int):
        """Build the plan at an index, which ``execute`` runs from now on."""
        self.build_plan_at_index(index)
        return self

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


POINTWISE = {"_fwd": "", "_bwd": "_backward"}    # ends of modes, as methods have them
TYPES = dict(matmul_sized="MATMUL", gen_stats="GENSTATS", batch_norm_training="BATCHNORM",
             batch_norm_inference="BATCHNORM_INFERENCE", batch_norm_bwd="BATCHNORM_BWD",
             softmax_fwd="SOFTMAX")


def view_of(step: Step) -> NodeView:
    """A step in the words of its call."""
    by_word = lambda found: {step.words.get(name, name): value for name, value in found.items()}
    ports = lambda end, tensors: {f"{end}_{i}": t for i, t in enumerate(tensors.values())}
    mode, rest = step.attributes.get("mode"), {a: v for a, v in step.attributes.items() if a != "mode"}
    if step.op.name == "pointwise":
        end = POINTWISE.get(mode[-4:])
        params = {"mode": mode if end is None else mode[:-4] + end, **by_word(rest)}
        return NodeView(step.name, NodeType.POINTWISE, ports("IN", step.inputs),
                        ports("OUT", step.outputs), params)
    kind = type_of_step(step)
    params = {"padding": 0.0} if kind is NodeType.MATMUL else {}     # what a call has that sets none
    return NodeView(step.name, kind, by_word({**step.inputs, **step.scalars}), by_word(step.outputs),
                    params | by_word(step.attributes))


def type_of_step(step: Step) -> NodeType:
    """The kind of an operation other than a pointwise one; COMPOSITE of what the graph has no kind of."""
    name = step.op.name
    if name in ("norm_fwd", "norm_bwd"):
        name = step.attributes["mode"].replace("_", "") + "norm" + name[4:].replace("_fwd", "")
    elif step.attributes.get("inverse"):
        name += "_bwd"
    return NodeType.__members__.get(TYPES.get(name, name.upper()), NodeType.COMPOSITE)
