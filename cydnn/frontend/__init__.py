"""The Python front end of the Graph API, call-compatible with the cudnn-frontend package: ``import
cydnn.frontend as cudnn``.

Sugar over ``graph/``, ``heuristics/`` and ``plan``: it has no rule of its own but the defaults of that
package (channels-last outputs of convolutions, io / intermediate / compute types, uids from 1). Spec: graph
API; reference of the front end.
"""
import sys
from typing import TYPE_CHECKING

from .. import names
from . import datatypes, yarn
from .contexts import graph, graph_cache, jit
from .device_properties import create_device_properties, device_properties
from .enums import (NodeType, attention_implementation, behavior_note, build_plan_policy, convolution_mode,
                    data_type, diagonal_alignment, heur_mode, knob_type, moe_grouped_matmul_mode,
                    norm_forward_phase, numerical_note, padding_mode, reduction_mode, resample_mode,
                    reshape_mode, rng_distribution, scalar_type, signal_mode, tensor_reordering)
from .errors import cudnnGraphNotSupportedError
from .handle import create_handle, destroy_handle, get_stream, set_stream
from .kernel_cache import create_kernel_cache, kernel_cache
from .knob import knob
from .library import backend_version, backend_version_string, get_last_error_string
from .pygraph import pygraph
from .tensor import tensor
from .wrapper import Graph

__all__ = ["Graph", "attention_implementation", "backend_version", "backend_version_string", "behavior_note",
           "build_plan_policy", "convolution_mode", "create_device_properties", "create_handle",
           "create_kernel_cache", "cudnnGraphNotSupportedError", "data_type", "datatypes",
           "destroy_handle", "device_properties", "diagonal_alignment", "get_last_error_string",
           "get_stream", "graph", "graph_cache", "heur_mode", "jit", "kernel_cache", "knob",
           "knob_type", "moe_grouped_matmul_mode", "norm_forward_phase", "numerical_note",
           "padding_mode", "pygraph", "reduction_mode", "resample_mode", "reshape_mode",
           "rng_distribution", "scalar_type", "set_stream", "signal_mode", "tensor",
           "tensor_reordering"]


if not TYPE_CHECKING:                            # to a checker a name that is not here is a mistake
    def __getattr__(name):
        raise names.missing(f"module {__name__!r}", name, __all__)


def __dir__():
    return sorted([*__all__, *(n for n in globals() if n.startswith("__"))])


__version__ = "1.23.0"                           # of the package whose calls these are
_compiled_module = _pybind_module = sys.modules[__name__]       # where that package keeps the same names
