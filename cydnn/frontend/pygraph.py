"""``pygraph``: build a graph of operations once, execute it many times."""
from __future__ import annotations

import itertools
import json

import numpy as np

from .. import device as devices
from .. import plan as plans
from ..dtypes import BY_NAME, dtype as to_dtype
from ..engines import engines_for
from ..graph import ByValue, Graph, Node
from ..heuristics import partition
from ..status import BadParam, NotSupported
from ..tensor import packed_strides
from .enums import build_plan_policy, cudnnGraphNotSupportedError, data_type, heur_mode, member, row_of
from .handle import get_handle
from .operations import Operations
from .tensor import tensor


class pygraph(Operations):
    """A graph of operations that is built once and executed many times.

    ``io_data_type`` is the type of non-virtual tensors that set none, ``intermediate_data_type`` of virtual ones,
    ``compute_data_type`` of operations. ``handle`` names device and stream (None: the default device).
    """

    def __init__(self, name="test_graph", io_data_type=data_type.NOT_SET, intermediate_data_type=data_type.NOT_SET,
                 compute_data_type=data_type.NOT_SET, handle=None, **later):
        for key, value in later.items():
            if value not in (None, False):
                raise cudnnGraphNotSupportedError(f"pygraph: {key} comes with a later release; got {value!r}")
        self._name, self._handle = name, handle
        self._io, self._middle, self._compute = map(row_of, (io_data_type, intermediate_data_type, compute_data_type))
        self._tensors: list[tensor] = []
        self._steps: list[_Step] = []
        self._graph, self._candidates, self._plans = None, [], {}
        self._deselected, self._limit, self._chosen = [], None, None

    # ---- tensors

    def tensor(self, dim, stride, data_type=data_type.NOT_SET, is_virtual=False, is_pass_by_value=False, ragged_offset=None,
               reordering_type=None, name="", uid=-1):
        """An input. ``dim`` is logical (n, c, spatial…), ``stride`` in elements."""
        if ragged_offset is not None:
            raise cudnnGraphNotSupportedError("tensor: ragged_offset comes with a later release")
        return self._add(tensor(dim, stride, data_type, is_virtual, is_pass_by_value, name, uid))

    def tensor_like(self, x, name=""):
        """The attributes of another tensor of a graph, or of an array (NumPy, torch, any object with shape, strides and dtype)."""
        if isinstance(x, tensor):
            return self._add(tensor(x._dim, x._stride, x.get_data_type(), x._virtual, x._by_value, name))
        shape = tuple(x.shape)
        if callable(getattr(x, "stride", None)):
            stride = tuple(x.stride())
        elif isinstance(x, np.ndarray):
            stride = tuple(s // x.itemsize for s in x.strides)
        else:
            stride = packed_strides(shape)
        return self._add(tensor(shape or (1,), stride or (1,), to_dtype(x.dtype), name=name))

    def _add(self, t):
        if any(known._is_built for known in self._tensors):
            raise BadParam("pygraph: tensors and operations must be added before build_operation_graph; make another graph")
        self._tensors.append(t)
        self._graph = None
        return t

    # ---- from calls to a graph

    def validate(self):
        """Infer dims, strides and types of what is not set, check every rule. Raises BadParam."""
        self._graph = self._make_graph()

    def build_operation_graph(self):
        """As ``validate``; assigns uids to the tensors that have none. From here on neither graph nor tensors change."""
        self.validate()
        for t in self._tensors:
            t._is_built = True

    def _assign_uids(self):
        taken = [t._uid for t in self._tensors if t._uid]
        twice = {u for u in taken if taken.count(u) > 1}
        if twice:
            raise BadParam(f"pygraph: uids must differ; got {sorted(twice)} more than once")
        fresh = (i for i in itertools.count(1) if i not in set(taken))
        for t in self._tensors:
            t._uid = t._uid or next(fresh)

    def _default_types(self):
        for t in self._tensors:
            if t._dtype is None:
                t._dtype = (self._middle or self._io) if t._virtual else self._io
                if t._dtype is None:
                    raise BadParam(f"pygraph: tensor {t._name or t._uid} has no data_type; set it, or io_data_type / intermediate_data_type")

    def _make_graph(self) -> Graph:
        self._assign_uids()
        self._default_types()
        nodes = []
        for step in self._steps:
            compute = step.compute or self._compute or BY_NAME["f32"]
            op = step.make(compute.name if compute.name in ("f32", "f64", "i32") else "f32")
            self._infer(op, step)
            operands = {o: t._uid for o, t in (*step.inputs.items(), *step.outputs.items())}
            nodes.append(Node(op, operands, {k: ByValue(t._uid) for k, t in step.scalars.items()}, step.name))
        used = {u for n in nodes for u in n.operands.values()} | {s.uid for n in nodes for s in n.scalars.values()}
        return Graph(nodes, {t._uid: t._desc() for t in self._tensors if t._uid in used}, self._name)

    def _infer(self, op, step):
        """Fill dim and stride of the step's outputs where they are not set."""
        given = {o: step.inputs[o]._desc() if o in step.inputs else None for o in op.reads}
        for ok, sentence in op.check(**given) or ():
            if not ok:
                raise BadParam(f"{step.name}: {sentence}")
        inferred = op.infer(**given)
        for operand, t in step.outputs.items():
            want = inferred.get(operand)
            if not t._dim:
                t._dim = want.dims if want is not None else given["x"].dims if op.name == "reduction" else ()
            if not t._dim:
                raise BadParam(f"{step.name}: the dim of {operand} must be set; it does not follow from the inputs")
            if not t._stride:
                same = want is not None and want.dims == t._dim and not step.channels_last
                t._stride = want.strides if same else packed_strides(t._dim, "nhwc")

    # ---- plans

    def _device(self):
        return get_handle(self._handle).device if isinstance(self._handle, int) else getattr(self._handle, "device", None) or devices.get(None)

    def create_execution_plans(self, modes=(heur_mode.A,)):
        """Query the heuristics; the plans are built later."""
        if self._graph is None:
            self.build_operation_graph()
        facts, self._candidates = self._device().facts, []
        modes = [member("create_execution_plans", "modes", heur_mode, mode) for mode in ((modes,) if isinstance(modes, heur_mode) else modes)]
        try:
            for mode in modes:
                self._candidates += self._query(mode, facts)
        except NotSupported as e:
            raise cudnnGraphNotSupportedError(str(e.args[0]), **e.facts) from None
        self._plans, self._chosen = {}, None

    def _query(self, mode, facts):
        """[(name, workspace-free description, build function)] of one mode, best first."""
        if mode is heur_mode.FALLBACK:
            return [self._candidate(partition(self._graph, facts, fuse=False), dict(fuse=False))]
        best = partition(self._graph, facts)
        found = [self._candidate(best, {})]
        if len(best) == 1 and len(self._graph.nodes) == 1:
            for engine in engines_for(self._graph.nodes[0].op):
                if engine is not best[0].engine and engine.accepts(best[0].match, facts):
                    found.append(self._candidate(partition(self._graph, facts, only=(engine,)), dict(only=(engine,))))
        return found

    @staticmethod
    def _candidate(parts, how):
        return "+".join(str(p.engine) for p in parts), how, parts

    def _accepted(self):
        """Which candidates are not deselected. Plans are kept under these numbers: a later deselection moves the index of no built plan."""
        return [i for i, c in enumerate(self._candidates) if not any(word in c[0] for word in self._deselected)]

    def check_support(self) -> bool:
        """True when at least one plan can run; raises cudnnGraphNotSupportedError otherwise."""
        if not self._accepted():
            raise cudnnGraphNotSupportedError(f"pygraph: no plan is left; deselected {self._deselected}")
        return True

    def deselect_engines(self, names):
        """Leave out plans whose name holds one of these parts."""
        self._deselected += list(names)
        return self

    def deselect_workspace_greater_than(self, size_bytes: int):
        """Leave out plans that need more workspace."""
        self._limit = int(size_bytes)
        return self

    def _candidate_at(self, index: int) -> int:
        accepted = self._accepted()
        if not 0 <= index < len(accepted):
            raise BadParam(f"pygraph: plan index must be below {len(accepted)}, the plans of create_execution_plans that are not deselected; "
                           f"got {index}")
        return accepted[index]

    def build_plan_at_index(self, index: int):
        """Build one plan; ``execute`` runs it from now on."""
        self._build(self._candidate_at(index))

    def _build(self, candidate: int):
        _, how, parts = self._candidates[candidate]
        self._plans[candidate] = plans.build(self._graph, self._device(), parts=parts, **how)
        self._chosen = candidate

    def build_plans(self, policy=build_plan_policy.HEURISTICS_CHOICE):
        """Build the first plan that fits, or all."""
        self.check_support()
        for candidate in self._accepted():
            self._build(candidate)
            if self._limit is not None and self._plans[candidate].workspace_bytes > self._limit:
                del self._plans[candidate]
                continue
            if policy is build_plan_policy.HEURISTICS_CHOICE:
                break
        if not self._plans:
            raise cudnnGraphNotSupportedError(f"pygraph: no plan needs at most {self._limit} bytes of workspace")
        self._chosen = min(self._plans)

    def build(self, modes=None):
        """All of the steps; without modes only the operation graph."""
        self.build_operation_graph()
        if modes is not None:
            self.create_execution_plans(modes)
            self.build_plans()

    def get_execution_plan_count(self) -> int:
        """How many plans can run and are not deselected."""
        return len(self._accepted())

    def get_plan_name_at_index(self, index: int) -> str:
        """The engines of a plan, such as ``110:conv_fprop_mma``."""
        return self._candidates[self._candidate_at(index)][0]

    def _plan(self, index=None):
        candidate = self._chosen if index is None else self._candidate_at(index)
        if candidate is None:
            raise BadParam("pygraph: a plan must be built first: build([heur_mode.A]), or create_execution_plans and build_plans")
        if candidate not in self._plans:
            built = [at for at, c in enumerate(self._accepted()) if c in self._plans]
            raise BadParam(f"pygraph: plan {index} must be built first (build_plans, build_plan_at_index); built are {built}")
        return self._plans[candidate]

    def get_workspace_size(self) -> int:
        """Bytes of workspace that ``execute`` needs."""
        return self._plan().workspace_bytes

    def get_workspace_size_plan_at_index(self, index: int) -> int:
        """Bytes of workspace of a plan that was built."""
        return self._plan(index).workspace_bytes

    def execute(self, tensor_to_device_buffer, workspace=0, handle=None):
        """Run the chosen plan. Keys: tensors or uids. Values: pointers, arrays of any DLPack library; numbers for pass-by-value."""
        self.execute_plan_at_index(tensor_to_device_buffer, workspace, None, handle)

    def execute_plan_at_index(self, tensor_to_device_buffer, workspace, index, handle=None):
        """As ``execute``, with a plan that was built by its index."""
        pack = _variant_pack(tensor_to_device_buffer)
        plan = self._plan(index)
        for key, _ in plan.scalars:
            if isinstance(key, int) and key in pack:
                pack[key] = _number(pack[key], self._graph.tensors[key])
            elif isinstance(key, int):
                raise BadParam(f"execute: the variant pack must hold pass-by-value tensor {self._graph.tensors[key].label}; got uids {sorted(pack)}")
        handle = handle if handle is not None else self._handle
        stream = get_handle(handle).stream if isinstance(handle, int) else getattr(handle, "stream", 0) or 0
        plan.run(pack, workspace, stream)

    def query_tensor_attributes_of_uid(self, uid: int) -> tensor:
        """The tensor of a uid."""
        found = next((t for t in self._tensors if t._uid == uid), None)
        if found is None:
            raise BadParam(f"query_tensor_attributes_of_uid: uid must be one of {sorted(t._uid for t in self._tensors)}; got {uid!r}")
        return found

    def key(self) -> int:
        """A hash of the graph."""
        return hash(self._graph.key)

    def __repr__(self):
        return json.dumps(dict(name=self._name, nodes=[dict(name=s.name, inputs={k: t._uid for k, t in s.inputs.items()},
                                                            outputs={k: t._uid for k, t in s.outputs.items()}) for s in self._steps]))


def _variant_pack(buffers) -> dict:
    """{uid: buffer} of a dict whose keys are tensors or uids."""
    if not hasattr(buffers, "items"):
        raise BadParam(f"execute: the variant pack must be a dict of tensor or uid to buffer; got {type(buffers).__name__}")
    for key in buffers:
        if not isinstance(key, (int, tensor, type(None))):
            raise BadParam(f"execute: keys of the variant pack must be tensors or uids; got {key!r}")
    return {key if isinstance(key, int) else key._uid: value for key, value in buffers.items() if key is not None}


def _number(value, desc) -> float:
    """The host number of a pass-by-value tensor, rounded to the tensor's type."""
    if not isinstance(value, (int, float)):
        value = value.item() if hasattr(value, "item") else np.from_dlpack(value).item()
    return float(desc.dtype.round(np.float64(value)))
