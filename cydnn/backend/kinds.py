"""Kinds of descriptors, one row each: what it is, its attributes, what finalizing makes of them."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from . import making
from .attributes import MOST, Attr, ask, desc, may, need, operation_rows
from .constants import Constant, constant

JSON = "its text in JSON; set on a new descriptor, it is read"


@dataclass(frozen=True)
class DescriptorKind:
    """``make``: (descriptor, what it finds) -> what it stands for; it raises BadParam or NotSupported.
    ``attributes`` by their names without CUDNN_ATTR_."""
    name: str
    attributes: dict
    make: Callable
    doc: str = ""

    @property
    def api(self) -> Constant:
        return constant(f"CUDNN_BACKEND_{self.name}_DESCRIPTOR")


def _kind(name, make, doc, *attributes: Attr) -> DescriptorKind:
    return DescriptorKind(name, {attr.name: attr for attr in attributes}, make, doc)


_OWN = (
    _kind("TENSOR", making.tensor, "a tensor of a graph",
          need("TENSOR_DATA_TYPE", "DATA_TYPE", "type of an element"),
          need("TENSOR_DIMENSIONS", "INT64", "size of each dim", most=8, lo=0),
          need("TENSOR_STRIDES", "INT64", "elements between neighbours of each dim", most=8, lo=0),
          need("TENSOR_UNIQUE_ID", "INT64", "what it is called in its graph and in variant packs"),
          need("TENSOR_BYTE_ALIGNMENT", "INT64", "bytes that its pointer is a multiple of", lo=1),
          may("TENSOR_IS_VIRTUAL", "BOOLEAN", "lives inside its graph only", default=False),
          may("TENSOR_IS_BY_VALUE", "BOOLEAN", "is a number that the variant pack gives", default=False),
          may("TENSOR_VECTOR_COUNT", "INT64", "neighbours that are one unit", default=1, lo=1),
          may("TENSOR_VECTORIZED_DIMENSION", "INT64", "the dim of these neighbours", default=-1),
          may("TENSOR_REORDERING_MODE", "TENSOR_REORDERING_MODE", "order of the elements beyond strides",
              default=constant("CUDNN_TENSOR_REORDERING_NONE")),
          desc("TENSOR_RAGGED_OFFSET_DESC", "TENSOR", is_required=False, doc="where each batch begins")),
    _kind("OPERATIONGRAPH", making.graph, "operations and the tensors between them",
          desc("OPERATIONGRAPH_OPS", "OPERATION", most=MOST, doc="its operations, in any order"),
          may("OPERATIONGRAPH_HANDLE", "HANDLE", "the device that it is planned for"),
          may("OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED", "BOOLEAN", "a hint", default=False),
          may("OPERATIONGRAPH_IS_SAME_TOPOLOGY", "BOOLEAN", "a hint", default=False),
          ask("OPERATIONGRAPH_ENGINE_GLOBAL_COUNT", "INT64", "how many engines can compute it")),
    _kind("ENGINE", making.engine, "one way to compute a graph",
          desc("ENGINE_OPERATION_GRAPH", "OPERATIONGRAPH", doc="what it computes"),
          need("ENGINE_GLOBAL_INDEX", "INT64", "from 0; below OPERATIONGRAPH_ENGINE_GLOBAL_COUNT", lo=0),
          may("ENGINE_SM_COUNT_TARGET", "INT32", "SMs that it may use", lo=1),
          desc("ENGINE_DEVICEPROP", "DEVICEPROP", is_required=False,
               doc="the device, where there is no handle"),
          ask("ENGINE_KNOB_INFO", "BACKEND_DESCRIPTOR", "its knobs", 0, MOST, of=("KNOB_INFO",)),
          ask("ENGINE_NUMERICAL_NOTE", "NUMERICAL_NOTE", "what its arithmetic is like", 0, MOST),
          ask("ENGINE_BEHAVIOR_NOTE", "BEHAVIOR_NOTE", "what it does beside computing", 0, MOST),
          ask("ENGINE_LAYOUT_INFO", "BACKEND_DESCRIPTOR", "layouts that it prefers: none",
              0, MOST, of=("LAYOUT_INFO",))),
    _kind("ENGINECFG", making.config, "an engine with its knobs turned",
          desc("ENGINECFG_ENGINE", "ENGINE", doc="the engine"),
          desc("ENGINECFG_KNOB_CHOICES", "KNOB_CHOICE", most=MOST, is_required=False,
               doc="knobs that are not as the engine would have them"),
          ask("ENGINECFG_INTERMEDIATE_INFO", "BACKEND_DESCRIPTOR", "values that it can keep: none", 0, MOST,
              of=("INTERMEDIATE_INFO",)),
          ask("ENGINECFG_WORKSPACE_SIZE", "INT64", "bytes of workspace"),
          ask("ENGINECFG_SHARED_MEMORY_USED", "INT64", "bytes of shared memory of a block")),
    _kind("ENGINEHEUR", making.heuristics, "engine configurations of a graph, the best first",
          desc("ENGINEHEUR_OPERATION_GRAPH", "OPERATIONGRAPH", doc="what is to be computed"),
          need("ENGINEHEUR_MODE", "HEUR_MODE", "A, B or FALLBACK"),
          may("ENGINEHEUR_SM_COUNT_TARGET", "INT32", "SMs that may be used", lo=1),
          desc("ENGINEHEUR_DEVICEPROP", "DEVICEPROP", is_required=False,
               doc="the device, where there is no handle"),
          ask("ENGINEHEUR_RESULTS", "BACKEND_DESCRIPTOR", "the configurations, the best first", 0, MOST,
              of=("ENGINECFG",))),
    _kind("EXECUTION_PLAN", making.plan, "a configuration that is ready to be executed",
          desc("EXECUTION_PLAN_ENGINE_CONFIG", "ENGINECFG", is_required=False, access="both",
               doc="what it executes; or JSON_REPRESENTATION"),
          may("EXECUTION_PLAN_HANDLE", "HANDLE", "the device; that of the graph where it is not set"),
          may("EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS", "INT64", "none", most=MOST),
          desc("EXECUTION_PLAN_KERNEL_CACHE", "KERNEL_CACHE", is_required=False, doc="what was built before"),
          desc("EXECUTION_PLAN_DEVICEPROP", "DEVICEPROP", is_required=False,
               doc="the device, without a handle"),
          may("EXECUTION_PLAN_JSON_REPRESENTATION", "CHAR", JSON, access="both"),
          ask("EXECUTION_PLAN_WORKSPACE_SIZE", "INT64", "bytes of workspace that execute needs"),
          ask("EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS", "INT64", "none", 0, MOST)),
    _kind("INTERMEDIATE_INFO", making.only_asked, "a value that an engine could keep: there are none",
          ask("INTERMEDIATE_INFO_UNIQUE_ID", "INT64"), ask("INTERMEDIATE_INFO_SIZE", "INT64"),
          ask("INTERMEDIATE_INFO_DEPENDENT_DATA_UIDS", "INT64", least=0, most=MOST),
          ask("INTERMEDIATE_INFO_DEPENDENT_ATTRIBUTES", "ATTRIB_NAME", least=0, most=MOST)),
    _kind("KNOB_CHOICE", making.nothing, "a knob turned to a value",
          need("KNOB_CHOICE_KNOB_TYPE", "KNOB_TYPE", "which knob"),
          need("KNOB_CHOICE_KNOB_VALUE", "INT64", "from KNOB_INFO_MINIMUM_VALUE to …MAXIMUM_VALUE")),
    _kind("KNOB_INFO", making.only_asked, "a knob of an engine; ENGINE_KNOB_INFO has them",
          ask("KNOB_INFO_TYPE", "KNOB_TYPE", "which knob"), ask("KNOB_INFO_MAXIMUM_VALUE", "INT64", "most"),
          ask("KNOB_INFO_MINIMUM_VALUE", "INT64", "least"), ask("KNOB_INFO_STRIDE", "INT64", "step")),
    _kind("LAYOUT_INFO", making.only_asked, "a layout that an engine prefers: none of ours does",
          ask("LAYOUT_INFO_TENSOR_UID", "INT64"),
          ask("LAYOUT_INFO_TYPES", "LAYOUT_TYPE", least=0, most=MOST)),
    _kind("VARIANT_PACK", making.pack, "what one execution reads and writes",
          need("VARIANT_PACK_UNIQUE_IDS", "INT64", "tensors, in the order of the pointers", most=MOST),
          need("VARIANT_PACK_DATA_POINTERS", "VOID_PTR", "addresses or arrays; numbers for tensors by value",
               most=MOST),
          may("VARIANT_PACK_WORKSPACE", "VOID_PTR", "EXECUTION_PLAN_WORKSPACE_SIZE bytes", default=0),
          desc("VARIANT_PACK_INTERMEDIATES", "INTERMEDIATE_INFO", most=MOST, is_required=False, doc="none")),
    _kind("KERNEL_CACHE", making.cache, "choices and plans that were made before",
          desc("KERNEL_CACHE_OPERATION_GRAPH", "OPERATIONGRAPH", is_required=False,
               doc="a graph that uses it"),
          ask("KERNEL_CACHE_IS_ENGINECFG_KERNEL_CACHED", "BOOLEAN", "it holds a choice"),
          may("KERNEL_CACHE_JSON_REPRESENTATION", "CHAR", JSON, access="both")),
    _kind("DEVICEPROP", making.properties, "facts of a device: plans are made without the device",
          may("DEVICEPROP_DEVICE_ID", "INT32", "number of a CUDA device", lo=0),
          may("DEVICEPROP_HANDLE", "HANDLE", "a handle, a device or its name"),
          may("DEVICEPROP_JSON_REPRESENTATION", "CHAR", JSON, access="both")))

_MAKE = {True: making.node, False: making.parameters}
_DERIVED = tuple(DescriptorKind(name, rows, _MAKE[name.startswith("OPERATION_")])
                 for name, rows in operation_rows().items())
KINDS = {kind.name: kind for kind in (*_OWN, *_DERIVED)}
BY_NUMBER = {int(kind.api): kind for kind in KINDS.values()}
