"""Finalized descriptors: a tensor, a node, a graph, an engine, a choice, a plan, a pack.

Each function takes the descriptor and a dict for what it finds: {attribute: list, or a function that makes
one when it is asked for}. Raises BadParam and NotSupported in one sentence; the descriptor says the rest.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .. import device as devices, plan as plans
from ..frontend.datatypes import storage_of
from ..frontend.device_properties import create_device_properties, device_properties, targeted
from ..frontend.enums import data_type
from ..frontend.handle import Handle, get_handle
from ..frontend.kernel_cache import kernel_cache
from ..frontend.planning import refuse_images
from ..frontend.ready import Ready
from ..given import shown
from ..graph import Graph, Tensor
from ..heuristics import Choice, Wish, candidates
from ..layout import Layout
from ..status import BadParam, NotSupported
from ..steps import Launch, Scalar
from ..tensor import TensorDesc
from .groups import merged
from .nodes import MadeNode, keep, node, ranked  # noqa: F401  (of operations)

MODES = {"CUDNN_HEUR_MODE_A": "a", "CUDNN_HEUR_MODE_INSTANT": "a", "CUDNN_HEUR_MODE_B": "b",
         "CUDNN_HEUR_MODE_FALLBACK": "fallback"}


def nothing(d, found):
    """A descriptor that is what was set."""


def parameters(d, found):
    """A descriptor of parameters: each list has an element for each spatial dim."""
    spatial = next((d.value(name) for name in d.kind.attributes if name.endswith("_SPATIAL_DIMS")), None)
    for name, values in d.values.items():
        if spatial is not None and d.kind.attributes[name].most > 1 and len(values) != spatial:
            raise BadParam(f"{name} must have {spatial} elements like {d.kind.name}_SPATIAL_DIMS; got "
                           f"{len(values)}: {shown(values)}", attribute=name)


def only_asked(d, found):
    raise BadParam(f"{d.kind.name}: must be made by the library; it is found in what is asked of engines")


def tensor(d, found) -> Tensor:
    """A graph.Tensor. Spec: CUDNN_BACKEND_TENSOR_DESCRIPTOR."""
    dtype, units = storage_of("TENSOR_DATA_TYPE", data_type(int(d.value("TENSOR_DATA_TYPE"))))
    vector, dim = d.value("TENSOR_VECTOR_COUNT"), d.value("TENSOR_VECTORIZED_DIMENSION")
    if vector not in (1, units) and units != 1:
        raise BadParam(f"TENSOR_VECTOR_COUNT must be {units}, that of its type; got {vector}")
    if vector != 1 and dim != 1:
        raise BadParam(f"TENSOR_VECTORIZED_DIMENSION must be 1, the channels; got {dim}")
    uid, ragged = d.value("TENSOR_UNIQUE_ID"), d.value("TENSOR_RAGGED_OFFSET_DESC")
    is_virtual, is_by_value = d.value("TENSOR_IS_VIRTUAL"), d.value("TENSOR_IS_BY_VALUE")
    if is_virtual and is_by_value:
        raise BadParam("TENSOR_IS_BY_VALUE must be False where TENSOR_IS_VIRTUAL is True; got both")
    desc = TensorDesc(dtype, tuple(d.value("TENSOR_DIMENSIONS")), tuple(d.value("TENSOR_STRIDES")),
                      max(units, vector))
    reordering = d.value("TENSOR_REORDERING_MODE").name.removeprefix("CUDNN_TENSOR_REORDERING_").lower()
    return Tensor(uid, desc, kind="virtual" if is_virtual else "value" if is_by_value else "memory",
                  alignment=d.value("TENSOR_BYTE_ALIGNMENT"),
                  ragged=None if ragged is None else ragged.made.uid,
                  reordering=reordering)


# ---- Graphs, engines, configurations ----

@dataclass(eq=False)
class Planned:
    """A graph, and where it is planned for: the device of its handle, None without one."""
    graph: Graph
    device: Any
    ways: dict = field(default_factory=dict)     # {facts: [Choice]}

    def facts(self, properties=None, sms=None):
        """What plans are made for. Raises BadParam where neither a handle nor properties say it."""
        place = self.device if properties is None else properties.made
        if place is None:
            raise BadParam("OPERATIONGRAPH_HANDLE must be set, or a DEVICEPROP; got neither: which device is "
                           "it for?")
        return targeted(place.facts, sms, None)

    def engines(self, facts) -> list:
        """One choice for each way to compute the graph, which global indices count."""
        if facts not in self.ways:
            self.ways[facts] = list(candidates(self.graph, facts, Wish()))
        return self.ways[facts]


def graph(d, found) -> Planned:
    """The Graph of all operations. Spec: CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR."""
    known: dict = {}
    for one in (d.value("OPERATIONGRAPH_OPS")):
        for tensor_ in one.made.tensors:
            keep(known, tensor_, "a graph")
    tensors = merged([one.made for one in d.value("OPERATIONGRAPH_OPS")], known)
    handle = d.value("OPERATIONGRAPH_HANDLE")
    handle = None if handle is None else get_handle(handle)
    made = Graph([ranked(one.made.node, handle) for one in d.value("OPERATIONGRAPH_OPS")], tensors)
    planned = Planned(made, None if handle is None else handle.device)
    found["OPERATIONGRAPH_ENGINE_GLOBAL_COUNT"] = lambda: [_count(planned)]
    return planned


def _count(planned: Planned) -> int:
    try:
        return len(planned.engines(planned.facts()))
    except NotSupported:
        return 0


@dataclass(eq=False)
class ChosenEngine:
    """One choice of a graph, and its place among them."""
    planned: Planned
    index: int
    choice: Choice


def engine(d, found) -> ChosenEngine:
    """The choice of a global index. Spec: CUDNN_BACKEND_ENGINE_DESCRIPTOR."""
    planned, index = d.value("ENGINE_OPERATION_GRAPH").made, d.value("ENGINE_GLOBAL_INDEX")
    facts = planned.facts(d.value("ENGINE_DEVICEPROP"), d.value("ENGINE_SM_COUNT_TARGET"))
    ways = planned.engines(facts)
    if not 0 <= index < len(ways):
        raise BadParam(f"ENGINE_GLOBAL_INDEX must be below {len(ways)}, the engines that take the graph "
                       f"({' '.join(way.name for way in ways[:8])}); got {index}")
    return _engine(planned, index, ways[index], found)


def _engine(planned, index, choice, found) -> ChosenEngine:
    from .results import behavior_of, knobs_of, numerics_of
    found["ENGINE_KNOB_INFO"] = lambda: knobs_of(choice)
    found["ENGINE_NUMERICAL_NOTE"] = lambda: numerics_of(choice)
    found["ENGINE_BEHAVIOR_NOTE"] = lambda: behavior_of(choice)
    found["ENGINE_LAYOUT_INFO"] = []
    return ChosenEngine(planned, index, choice)


def config(d, found) -> Choice:
    """A choice with its knobs turned. Spec: CUDNN_BACKEND_ENGINECFG_DESCRIPTOR."""
    from .results import turned_by
    choice = turned_by(d.value("ENGINECFG_ENGINE").made.choice, d.value("ENGINECFG_KNOB_CHOICES"))
    return _config(choice, found)


def _config(choice: Choice, found) -> Choice:
    found["ENGINECFG_INTERMEDIATE_INFO"] = []
    found["ENGINECFG_WORKSPACE_SIZE"] = lambda: [choice.workspace_bytes]
    found["ENGINECFG_SHARED_MEMORY_USED"] = lambda: [_shared_memory(choice)]
    return choice


def _shared_memory(choice: Choice) -> int:
    from .. import kernels
    launches = [step for _, step in choice.steps if isinstance(step, Launch)]
    return max((kernels.get(s.kernel).pack(s.args, **s.extra).smem for s in launches), default=0)


def heuristics(d, found) -> list:
    """Choices, the best first. Spec: CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR."""
    from .results import configs_of
    planned, mode = d.value("ENGINEHEUR_OPERATION_GRAPH").made, d.value("ENGINEHEUR_MODE").name
    if mode not in MODES:
        raise BadParam(f"ENGINEHEUR_MODE must be one of {' '.join(MODES)}; got {mode}")
    facts = planned.facts(d.value("ENGINEHEUR_DEVICEPROP"), d.value("ENGINEHEUR_SM_COUNT_TARGET"))
    choices = candidates(planned.graph, facts, Wish(mode=MODES[mode]))
    graph_ = d.value("ENGINEHEUR_OPERATION_GRAPH")
    found["ENGINEHEUR_RESULTS"] = lambda: configs_of(graph_, choices)
    return choices


# ---- Plans, packs ----

class Plan:
    """A layout, and what was built of it for each device."""
    __slots__ = ("layout", "device", "cache", "built")

    def __init__(self, layout: Layout, device, cache=None):
        self.layout, self.device, self.cache, self.built = layout, device, cache, {}

    def on(self, device) -> Ready:
        """The plan made executable on a device."""
        if device not in self.built:
            choice = self.layout.choice
            refuse_images(choice, device)
            make = lambda: plans.made(choice, device)
            made = make() if self.cache is None else self.cache.plan(choice, device, make)
            self.built[device] = Ready(made, {uid: uid for uid in made.graph.tensors})
        return self.built[device]


def plan(d, found) -> Plan:
    """A plan; with a handle it is built now. Spec: CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR."""
    config_, text = d.value("EXECUTION_PLAN_ENGINE_CONFIG"), d.value("EXECUTION_PLAN_JSON_REPRESENTATION")
    if (config_ is None) == (text is None):
        raise BadParam("EXECUTION_PLAN_ENGINE_CONFIG must be set, or EXECUTION_PLAN_JSON_REPRESENTATION; got "
                       f"{'neither' if text is None else 'both'}")
    if d.value("EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS"):
        raise NotSupported("EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS must not be set: no engine keeps "
                           f"values in between; got {d.value('EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS')}")
    layout = Layout(config_.made) if text is None else Layout.from_json(text)
    handle, cache_ = d.value("EXECUTION_PLAN_HANDLE"), d.value("EXECUTION_PLAN_KERNEL_CACHE")
    device = None if handle is None else get_handle(handle).device
    made = Plan(layout, device, None if cache_ is None else cache_.made)
    if device is not None:
        made.on(device)
    found["EXECUTION_PLAN_WORKSPACE_SIZE"] = [layout.workspace_bytes]
    found["EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS"] = []
    found["EXECUTION_PLAN_JSON_REPRESENTATION"] = lambda: [layout.to_json()]
    return made


class Pack:
    """{uid: pointer or number}, a workspace, and the arguments that plans made of them."""
    __slots__ = ("buffers", "workspace", "known")

    def __init__(self, buffers: dict, workspace):
        self.buffers, self.workspace, self.known = buffers, workspace, {}


def pack(d, found) -> Pack:
    """Pointers by uid. Spec: CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR."""
    uids, pointers = d.value("VARIANT_PACK_UNIQUE_IDS"), d.value("VARIANT_PACK_DATA_POINTERS")
    if len(uids) != len(pointers):
        raise BadParam(f"VARIANT_PACK_DATA_POINTERS must have {len(uids)} elements like "
                       f"VARIANT_PACK_UNIQUE_IDS; got {len(pointers)}")
    twice = [uid for i, uid in enumerate(uids) if uid in uids[:i]]
    if twice:
        raise BadParam(f"VARIANT_PACK_UNIQUE_IDS must have each uid once; got {twice[0]} twice",
                       status9="BAD_PARAM_DUPLICATED_ENTRIES")
    return Pack(dict(zip(uids, pointers)), d.value("VARIANT_PACK_WORKSPACE"))


# ---- Caches, devices ----

def cache(d, found) -> kernel_cache:
    """A kernel cache. Spec: CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR."""
    made, text = kernel_cache(), d.value("KERNEL_CACHE_JSON_REPRESENTATION")
    if text is not None:
        made.deserialize(text)
    found["KERNEL_CACHE_JSON_REPRESENTATION"] = lambda: [made.serialize()]
    found["KERNEL_CACHE_IS_ENGINECFG_KERNEL_CACHED"] = lambda: [len(made) > 0]
    return made


def properties(d, found) -> device_properties:
    """Facts of a device. Spec: CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR."""
    given = {name: d.value(f"DEVICEPROP_{name}") for name in ("DEVICE_ID", "HANDLE", "JSON_REPRESENTATION")}
    said = {name: value for name, value in given.items() if value is not None}
    if len(said) != 1:
        raise BadParam("DEVICEPROP_DEVICE_ID must be set, or DEVICEPROP_HANDLE, or "
                       f"DEVICEPROP_JSON_REPRESENTATION; got {' and '.join(said) or 'none of them'}")
    if "HANDLE" in said:
        made = device_properties(get_handle(said["HANDLE"]).device.facts)
    else:
        made = create_device_properties(next(iter(said.values())))
    found["DEVICEPROP_JSON_REPRESENTATION"] = lambda: [made.serialize()]
    return made
