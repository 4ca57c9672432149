"""Pygraphs on paper: the calls as JSON, and ready plans as bytes."""
from __future__ import annotations

import json

from ..given import flag, reason, shown, whole, wholes
from ..graph import Graph
from ..layout import Layout, is_equal
from ..ops import BY_NAME, Transpose, rows
from ..status import BadParam, CydnnError
from .datatypes import compute_of, type_of
from .enums import data_type, tensor_reordering
from .errors import refusals
from .fours import read_back
from .handle import get_handle
from .inference import Defaults, TRANSPOSED, TURN, transposed
from .planning import Candidate
from .steps import Step
from .tensor import FIELDS, tensor

FORMAT = 1                                       # of the JSON form


class Stored:
    """Methods that write a graph or a plan down, and read them."""

    def __repr__(self):
        return json.dumps(_row(self.name, self.types, self._tensors, self.steps), indent=4)

    def serialize(self) -> list[int]:
        """The plan that ``execute`` runs, as bytes (numbers from 0 to 255)."""
        return list(Layout(self._plan().choice).to_json().encode())

    def deserialize(self, *data, enforce_precompiled=False, run_warmup=False):
        """``data``, or a handle and ``data``: bytes of ``serialize`` give a ready plan, the text of
        ``repr`` a graph. ``enforce_precompiled``: only bytes. A plan that is read is ready to launch, so
        that ``run_warmup`` changes nothing."""
        if len(data) not in (1, 2):
            raise TypeError(f"deserialize: takes data, or a handle and data; got {len(data)} arguments")
        handle, data = data if len(data) == 2 else (None, *data)
        flag("deserialize: run_warmup", run_warmup)
        if flag("deserialize: enforce_precompiled", enforce_precompiled) and isinstance(data, str):
            raise BadParam("deserialize: enforce_precompiled requires plan serialization, which is bytes; "
                           f"got a text of {len(data)} characters")
        own, self._handle = self._handle, self._handle if handle is None else get_handle(handle)
        try:
            if isinstance(data, str):
                self._read_calls(data)
            else:
                self._read_plan(_bytes(data))
        except CydnnError:
            self._handle = own                   # what is refused changes nothing
            raise

    def _read_calls(self, text: str):
        """The graph of ``repr``, as it was when nothing was built of it."""
        try:
            row = json.loads(text)
            if row["format"] != FORMAT:
                raise BadParam(f"deserialize: format must be {FORMAT}; got {shown(row['format'])}")
            tensors = [_tensor_of(fields) for fields in row["tensors"]]
            for t, fields in zip(tensors, row["tensors"]):
                number = fields["ragged_offset"]
                t.ragged_offset = None if number is None else tensors[number]
            steps = [Step.of(fields, tensors) for fields in row["nodes"]]
            types = [data_type[row[f"{kind}_data_type"]] for kind in ("io", "intermediate", "compute")]
            name = row["name"]
            if not isinstance(name, str):
                raise BadParam(f"deserialize: name must be a text; got {shown(name)}")
        except CydnnError:
            raise
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            raise BadParam(f"deserialize: the text must be JSON of a pygraph; got {reason(error)}") from None
        mine = _row(name, types, tensors, steps)
        for field in mine.keys() | row.keys():
            if (field in mine) != (field in row) or not is_equal(mine.get(field), row.get(field)):
                raise BadParam(f"deserialize: {field:.40} must be as repr writes it; got "
                               f"{_first(mine.get(field), row.get(field))}")
        self._replace(name, types, tensors, steps)

    def _read_plan(self, data: bytes):
        """The plan of ``serialize``: the graph that it computes, and the plan, ready to execute."""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise BadParam(f"deserialize: the bytes must be those of serialize; got {error}") from None
        with refusals():
            layout = Layout.from_json(text)
        tensors = _tensors_of(layout.graph)
        for uid, t in tensors.items():
            ragged = layout.graph.tensors[uid].ragged
            t.ragged_offset = None if ragged is None else tensors[ragged]
        steps = _without_turns(_steps_of(layout.graph, tensors), tensors)
        for t in [t for t, is_transposed in transposed(steps).items() if is_transposed]:
            t.is_transposed = True
            dims, strides = t.dims_set
            t.set_dim(dims).set_stride(strides)
        read_back(steps)
        self._replace(layout.graph.name, [data_type.NOT_SET] * 3, list(tensors.values()), steps)
        self.graph, self.is_built = layout.graph, True
        for t in tensors.values():
            t.found = layout.graph.tensors[t.uid]
            t.build()
        self._known = [Candidate(layout.choice)]
        self.build_plan_at_index(0)

    def _replace(self, name, types, tensors, steps):
        """Another graph in place of what was there."""
        self.name, self.types, self._tensors, self.steps = name, types, tensors, steps
        self.defaults = Defaults(*types[:2], compute_of("pygraph", types[2]))
        self.graph, self.is_built = None, False
        for t in tensors:
            t.owner = self.owner
        self._no_plans()


def _bytes(data) -> bytes:
    """The bytes of ``serialize``, a list of numbers or bytes."""
    try:
        return data if isinstance(data, bytes) else bytes(wholes("deserialize: data", list(data)))
    except (TypeError, ValueError):
        raise BadParam(f"deserialize: data must be the bytes of serialize, or the text of repr; "
                       f"got {shown(data)}") from None


def _row(name, types, tensors, steps) -> dict:
    """The calls as lists, dicts, numbers and strings."""
    numbers = {t: i for i, t in enumerate(tensors)}
    io, intermediate, compute = (t.name for t in types)
    return dict(format=FORMAT, name=name, io_data_type=io, intermediate_data_type=intermediate,
                compute_data_type=compute, tensors=[_tensor_row(t, numbers) for t in tensors],
                nodes=[step.row(numbers) for step in steps])


def _first(mine, given) -> str:
    """What was given, of a list the first that is otherwise."""
    if isinstance(mine, list) and isinstance(given, list):
        given = next((b for a, b in zip(mine, given) if not is_equal(a, b)), given)
    return shown(given)


def _tensor_row(t: tensor, numbers: dict) -> dict:
    row = {field: getattr(t, field) for field in FIELDS if field not in ("dim", "stride", "uid")}
    if t.ragged_offset_multiplier == 1:          # as texts of earlier versions have it
        del row["ragged_offset_multiplier"]
    ragged = None if t.ragged_offset is None else numbers[t.ragged_offset]
    row |= {} if t.number is None else dict(number=t.number)
    return row | dict(data_type=t.data_type.name, reordering_type=t.reordering_type.name, dim=list(t.own_dim),
                      stride=list(t.own_stride), uid=t.own_uid, ragged_offset=ragged)


def _tensor_of(row: dict) -> tensor:
    """The tensor of ``_tensor_row``, its ragged offset left out."""
    t = tensor().set_dim(row["dim"]).set_stride(row["stride"]).set_data_type(data_type[row["data_type"]])
    t.set_reordering_type(tensor_reordering[row["reordering_type"]])
    if row["uid"] is not None:
        t.set_uid(row["uid"])
    elif row.get("number") is not None:
        t.number = whole("deserialize: number", row["number"])
    t.set_name(row["name"]).set_is_virtual(row["is_virtual"]).set_is_pass_by_value(row["is_pass_by_value"])
    t.set_alignment(row["alignment"])
    t.set_vector_count_and_dimension(row["vector_count"], row["vector_dimension"])
    t.set_ragged_offset_multiplier(row.get("ragged_offset_multiplier", 1))
    if row["value"] is not None and type(row["value"]) not in (int, float):
        raise BadParam(f"deserialize: value must be a number or null; got {shown(row['value'])}")
    return t._set(value=row["value"], is_constant=flag("deserialize: is_constant", row["is_constant"]))


# ---- From a graph of the rooms below ----

def _is_named(t) -> bool:
    """A tensor of the caller, not a number of another one in a second rank."""
    return t.scalar is None or t.scalar.key == t.uid or _is_constant(t)


def _is_constant(t) -> bool:
    return t.scalar is not None and isinstance(t.scalar.key, tuple)


def _tensors_of(graph: Graph) -> dict[int, tensor]:
    """The caller's tensors by uid; a number has the least of its ranks."""
    found = {t.uid: _tensor_from(t) for t in graph.tensors.values() if _is_named(t)}
    for t in graph.tensors.values():
        if not _is_named(t) and t.rank < len(found[t.scalar.key].dim):
            found[t.scalar.key].set_dim(t.dims).set_stride(t.strides)
    return found


def _tensor_from(t) -> tensor:
    made = tensor().set_dim(t.dims).set_stride(t.strides).set_data_type(type_of(t.dtype))
    made.set_uid(t.uid).set_name(t.name).set_is_virtual(t.is_virtual).set_is_pass_by_value(t.is_by_value)
    made.set_alignment(t.alignment)
    if t.desc.vector > 1:
        made.set_vector_count_and_dimension(t.desc.vector, 1)
    made.set_reordering_type(next(m for m in tensor_reordering if m.name.lower() == t.reordering))
    return made._set(value=None if t.scalar is None else t.scalar.default, is_constant=_is_constant(t))


def _steps_of(graph: Graph, tensors: dict) -> list[Step]:
    """The nodes as calls."""
    def of(uid):
        t = graph.tensors[uid]
        return tensors[uid if _is_named(t) else t.scalar.key]
    found = []
    for node in graph.nodes:
        op = BY_NAME[node.op.name]
        attributes = {name: getattr(node.op, name) for name in op.attributes() if name != "compute"}
        attributes |= {name: rows.text(attributes[name]) for name, a in op.attributes().items()
                       if a.kind == "rows"}
        inputs, outputs = ({o: of(uid) for o, uid in op.tensors(
            {o: node.operands[o] for o in names if o in node.operands}).items()}
                           for names in (op.reads, op.writes))
        scalars = {name: of(value.uid) for name, value in node.scalars.items()}
        found.append(Step(op, attributes, inputs, outputs, node.name, node.op.compute, scalars))
    return found


def _without_turns(steps: list[Step], tensors: dict) -> list[Step]:
    """Steps without the transposes of keys that stand in a graph alone, nor what lies between."""
    kept, instead = [], {}
    for step in steps:
        if step.op is not Transpose or not step.name.endswith(TURN):
            kept.append(step)
            continue
        x, y = step.inputs["x"], step.outputs["y"]
        is_read = any(y is one.inputs.get(o) for one in steps for o in TRANSPOSED.get(one.op, ()))
        instead |= {y: x} if is_read else {x: y}
    for step in kept:
        for o in TRANSPOSED.get(step.op, ()):
            for found in (step.inputs, step.outputs):
                found |= {o: instead[found[o]]} if found.get(o) in instead else {}
    for t in instead:
        del tensors[t.uid]
    return kept
