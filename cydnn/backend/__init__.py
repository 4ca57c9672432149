"""The backend descriptor API: operations, tensors, graphs, engines and plans as descriptors with attributes.

``Descriptor`` sets, finalizes and gets; the names of C (``cudnnBackendSetAttribute``) do the same. Every
enumerant of the API is a name of this module (``CUDNN_ATTR_TENSOR_DIMENSIONS``); attributes follow from the
declarations of the operations. Spec: graph API, Backend Descriptor Types.
"""
from ..names import missing
from .c_names import (cudnnBackendCreateDescriptor, cudnnBackendDestroyDescriptor, cudnnBackendExecute,
                      cudnnBackendFinalize, cudnnBackendGetAttribute, cudnnBackendInitialize,
                      cudnnBackendPopulateCudaGraph, cudnnBackendSetAttribute, cudnnBackendUpdateCudaGraph)
from .constants import RETIRED, Constant, constant, constants
from .descriptor import Descriptor
from .kinds import KINDS
from .table import OPERATIONS, AttributeRow, Operation, number, words


def __getattr__(name: str):
    """An enumerant of the API; ``__all__``: those and the functions of C, for ``import *``."""
    if name == "__all__":
        return ["Descriptor", *(n for n in globals() if n.startswith("cudnnBackend")), *constants()]
    if name in RETIRED:
        raise AttributeError(f"{name} {RETIRED[name]}")
    found = constants().get(name)
    if found is None:
        raise missing(f"module {__name__!r}", name, constants())
    return found


def __dir__():
    return sorted(__getattr__("__all__"))
