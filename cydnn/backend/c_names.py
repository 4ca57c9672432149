"""The functions of the backend API by their names in C, so that a C program is carried over line by line.

Where C returns a status, these raise; where C fills memory, these return lists, or fill what is given.
"""
from __future__ import annotations

from typing import Any

from ..frontend.handle import HANDLES, HandleNumber, get_handle
from ..given import shown, whole
from ..status import BadParam, NotInitialized
from .descriptor import Descriptor
from .making import Pack, Plan


def cudnnBackendCreateDescriptor(descriptorType) -> Descriptor:
    """A descriptor of CUDNN_BACKEND_…_DESCRIPTOR, with nothing set."""
    return Descriptor(descriptorType)


def cudnnBackendInitialize(descriptor):
    """The descriptor as it was created. Raises NotInitialized where it is finalized."""
    _descriptor("cudnnBackendInitialize", descriptor)
    if descriptor.is_finalized:
        raise NotInitialized(f"cudnnBackendInitialize: descriptor must not be finalized; got {descriptor!r}")
    descriptor.values = {}


def cudnnBackendDestroyDescriptor(descriptor):
    """The descriptor is gone for the caller, who is refused from now on; others that it is set in keep what
    they need. Raises BadParam where it was destroyed before."""
    _descriptor("cudnnBackendDestroyDescriptor", descriptor).is_destroyed = True
    if isinstance(descriptor.made, (Plan, Pack)):
        descriptor.made = None                   # what execute looks at


def cudnnBackendSetAttribute(descriptor, attributeName, attributeType, elementCount, arrayOfElements):
    """Set an attribute to ``elementCount`` elements of a list; one element may stand for itself."""
    _descriptor("cudnnBackendSetAttribute", descriptor).set(attributeName, arrayOfElements, attributeType,
                                                            elementCount)


def cudnnBackendFinalize(descriptor):
    """Check every attribute; from now on they do not change."""
    _descriptor("cudnnBackendFinalize", descriptor).finalize()


def cudnnBackendGetAttribute(descriptor, attributeName, attributeType, requestedElementCount=None,
                             arrayOfElements=None) -> Any:
    """The elements of an attribute, at most ``requestedElementCount``. With ``arrayOfElements``, a list or an
    array, that is filled and the number of elements that there are is returned, as C does; descriptors in it
    become those that were asked for."""
    found = _descriptor("cudnnBackendGetAttribute", descriptor).get(attributeName, attributeType)
    most = len(found) if requestedElementCount is None else whole(
        "cudnnBackendGetAttribute: requestedElementCount", requestedElementCount)
    some = found[:max(most, 0)]
    if arrayOfElements is None:
        return some
    if len(arrayOfElements) < len(some):
        raise BadParam(f"cudnnBackendGetAttribute: arrayOfElements must have room for {len(some)} elements; "
                       f"got {len(arrayOfElements)}")
    for i, value in enumerate(some):
        given = arrayOfElements[i]
        if isinstance(value, Descriptor) and isinstance(given, Descriptor):
            _become(given, value)
        else:
            arrayOfElements[i] = value
    return len(found)


def _become(given: Descriptor, found: Descriptor):
    if given.kind is not found.kind:
        raise BadParam(f"cudnnBackendGetAttribute: arrayOfElements must hold descriptors of kind "
                       f"{found.kind.name}; got {given!r}")
    for name in ("values", "found", "made", "is_finalized"):
        setattr(given, name, getattr(found, name))


def cudnnBackendExecute(handle, executionPlan, variantPack):
    """Run a plan on the stream of a handle: what ``ExecutionPlan.execute`` does with the pack's pointers.
    Raises BadParam before anything is launched."""
    at = HANDLES.get(handle) if type(handle) in (HandleNumber, int) else None
    at = get_handle(handle) if at is None else at
    try:
        known = variantPack.made.known[executionPlan.made, at.device]
    except (AttributeError, KeyError, TypeError):
        known = _bound(at, executionPlan, variantPack)
    if known is None:
        executionPlan.made.on(at.device).run(variantPack.made.buffers, variantPack.made.workspace, at.stream)
    else:
        execute, pointers, scalars, workspace, size = known
        execute(pointers, scalars, workspace, size, at.stream)


def _bound(at, plan, pack):
    """What executing a pack with a plan passes on: looked up once, kept with the pack."""
    _finalized("cudnnBackendExecute", plan, pack)
    made = pack.made
    made.known[plan.made, at.device] = found = plan.made.on(at.device).bound(made.buffers, made.workspace)
    return found


def _finalized(function: str, plan, pack):
    """A plan and a pack, both finalized."""
    for name, one, kind, wanted in (("executionPlan", plan, Plan, "EXECUTION_PLAN"),
                                    ("variantPack", pack, Pack, "VARIANT_PACK")):
        _descriptor(function, one, name)
        if not isinstance(one.made, kind):
            raise BadParam(f"{function}: {name} must be a finalized descriptor of kind "
                           f"{wanted}; got {one!r}", status9="BAD_PARAM_DESCRIPTOR_TYPE")


def cudnnBackendPopulateCudaGraph(handle, executionPlan, variantPack, graph):
    """Add a plan's launches as nodes to an empty CUDA graph, a ``CUgraph`` of cuda-bindings or its address.
    The plan must live as long as what is made of the graph."""
    _into("cudnnBackendPopulateCudaGraph", "populate", handle, executionPlan, variantPack, graph)


def cudnnBackendUpdateCudaGraph(handle, executionPlan, variantPack, graph):
    """Give the nodes that PopulateCudaGraph made of this plan the pointers of another pack."""
    _into("cudnnBackendUpdateCudaGraph", "update", handle, executionPlan, variantPack, graph)


def _into(function: str, way: str, handle, plan, pack, graph):
    _finalized(function, plan, pack)
    ready = plan.made.on(get_handle(handle).device)
    ready.into(way, pack.made.buffers, pack.made.workspace, graph)


def _descriptor(function: str, descriptor, name="descriptor") -> Descriptor:
    if not isinstance(descriptor, Descriptor):
        raise BadParam(f"{function}: {name} must be a descriptor of cudnnBackendCreateDescriptor; got "
                       f"{shown(descriptor)}")
    if descriptor.is_destroyed:
        raise BadParam(f"{function}: {name} must not be destroyed; got {descriptor!r}")
    return descriptor
