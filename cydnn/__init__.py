"""cydnn: the primitives under deep learning, open. Importing it never touches CUDA.

Two ways in: ``cydnn.pygraph`` (graphs of operations) and ``cydnn.cudnn`` (the functions of the v5 API).
"""
from .status import (AllocFailed, ArchMismatch, BadParam, CydnnError, DriverNotFound, ExecutionFailed, InternalError, InvalidValue,
                     NotInitialized, NotSupported, last_error_string as getLastErrorString)
from .dtypes import dtype
from .tensor import TensorDesc
from .ops.problem import Problem
from .graph import Graph, Node
from . import device, ops
from .frontend import (build_plan_policy, convolution_mode, create_handle, cudnnGraphNotSupportedError, data_type, destroy_handle, get_stream,
                       heur_mode, norm_forward_phase, pygraph, reduction_mode, set_stream, tensor)

__version__ = "0.1.0"
