# Printed by tools/print_stubs.py.

from contextlib import ContextDecorator as _ContextDecorator
from typing import Any, Protocol as _Protocol
import numpy as _np
from . import backend as backend, bench as bench, cudnn as cudnn, dtypes as dtypes, engines as engines, frontend as frontend, functional as functional, heuristics as heuristics, kernels as kernels, ops as ops, plan as plan, status as status
from .device import DeviceFacts as _DeviceFacts
from .device.buffer import Buffer as _Buffer
from .dtypes import dtype as dtype
from .frontend import attention_implementation as attention_implementation
from .frontend import backend_version as backend_version
from .frontend import backend_version_string as backend_version_string
from .frontend import behavior_note as behavior_note
from .frontend import build_plan_policy as build_plan_policy
from .frontend import convolution_mode as convolution_mode
from .frontend import create_device_properties as create_device_properties
from .frontend import create_handle as create_handle
from .frontend import create_kernel_cache as create_kernel_cache
from .frontend import cudnnGraphNotSupportedError as cudnnGraphNotSupportedError
from .frontend import data_type as data_type
from .frontend import destroy_handle as destroy_handle
from .frontend import diagonal_alignment as diagonal_alignment
from .frontend import get_last_error_string as get_last_error_string
from .frontend import get_stream as get_stream
from .frontend import heur_mode as heur_mode
from .frontend import knob as knob
from .frontend import knob_type as knob_type
from .frontend import moe_grouped_matmul_mode as moe_grouped_matmul_mode
from .frontend import norm_forward_phase as norm_forward_phase
from .frontend import numerical_note as numerical_note
from .frontend import padding_mode as padding_mode
from .frontend import pygraph as pygraph
from .frontend import reduction_mode as reduction_mode
from .frontend import resample_mode as resample_mode
from .frontend import reshape_mode as reshape_mode
from .frontend import rng_distribution as rng_distribution
from .frontend import scalar_type as scalar_type
from .frontend import set_stream as set_stream
from .frontend import signal_mode as signal_mode
from .frontend import tensor_reordering as tensor_reordering
from .functional import adaptive_avg_pool as adaptive_avg_pool
from .functional import adaptive_max_pool as adaptive_max_pool
from .functional import attention as attention
from .functional import avg_pool as avg_pool
from .functional import batch_norm as batch_norm
from .functional import conv as conv
from .functional import conv_transpose as conv_transpose
from .functional import dropout as dropout
from .functional import elu as elu
from .functional import gelu as gelu
from .functional import group_norm as group_norm
from .functional import grouped_matmul as grouped_matmul
from .functional import hardswish as hardswish
from .functional import instance_norm as instance_norm
from .functional import interpolate as interpolate
from .functional import layer_norm as layer_norm
from .functional import leaky_relu as leaky_relu
from .functional import linear as linear
from .functional import local_response_norm as local_response_norm
from .functional import log_softmax as log_softmax
from .functional import matmul as matmul
from .functional import max_pool as max_pool
from .functional import prelu as prelu
from .functional import relu as relu
from .functional import relu6 as relu6
from .functional import rms_norm as rms_norm
from .functional import sigmoid as sigmoid
from .functional import silu as silu
from .functional import softmax as softmax
from .functional import softplus as softplus
from .functional import tanh as tanh
from .graph import Graph as Graph
from .graph import Node as Node
from .ops.problem import Problem as Problem
from .tensor import TensorDesc as TensorDesc
from .status import AllocFailed as AllocFailed
from .status import ArchMismatch as ArchMismatch
from .status import BadParam as BadParam
from .status import CydnnError as CydnnError
from .status import DriverNotFound as DriverNotFound
from .status import ExecutionFailed as ExecutionFailed
from .status import InternalError as InternalError
from .status import InvalidValue as InvalidValue
from .status import NotInitialized as NotInitialized
from .status import NotSupported as NotSupported
from .status import last_error_string as getLastErrorString

__version__: str

class _Device(_Protocol):
    """What every device has."""
    name: str
    facts: _DeviceFacts
    context: Any
    def compile(self, plan: Any) -> Any: ...
    def alloc(self, size_bytes: Any) -> _Buffer:
        """Device memory, freed with the object. Raises AllocFailed."""
    def copy_in(self, ptr: Any, array: Any, stream: Any = ...) -> None:
        """Copy a NumPy array, packed in C order, to ``ptr``."""
    def copy_out(self, ptr: Any, array: Any, stream: Any = ...) -> _np.ndarray:
        """Fill a C-contiguous NumPy array from ``ptr``; returns it."""
    def create_stream(self) -> Any:
        ...
    def memset(self, ptr: Any, value: Any, size_bytes: Any, stream: Any = ...) -> None:
        ...
    def synchronize(self, stream: Any = ...) -> None:
        """Wait for a stream, or for everything when none is given."""
class _Chosen(_ContextDecorator):
    def __enter__(self) -> _Device: ...
    def __exit__(self, *error: Any) -> None: ...
class _device:
    """``with cydnn.device("numpy"):`` inside, in this thread (or task of asyncio), the device is the default:
    of plans and handles that name none, and of functions on arrays of the host. Arrays of a GPU stay there.
    Gives the device. Blocks nest; the object may be entered again, and decorates functions. None: the usual
    default."""
    def __call__(self, device: Any) -> _Chosen:
        """``with cydnn.device("numpy"):`` inside, in this thread (or task of asyncio), the device is the default:
        of plans and handles that name none, and of functions on arrays of the host. Arrays of a GPU stay there.
        Gives the device. Blocks nest; the object may be entered again, and decorates functions. None: the usual
        default."""
    def default(self) -> _Device:
        """The device that this thread chose; else the first CUDA device when one is usable, else the NumPy
        device. Says once, in the log, which of these it is and why."""
    def get(self, device: Any = ...) -> _Device:
        """The device of a name (``"cuda:0"``, ``"cuda"``, ``"numpy"`` or ``"cpu"``), of a CUDA device's number,
        or of a device of torch, CuPy or cuda.core; the default for None; a device gives itself. One object a
        device.

        ``"ptx:sm_80"`` is the interpreter of that target's kernels. Raises DriverNotFound for a CUDA
        name where there is no driver."""
    def is_device(self, x: Any) -> bool:
        """What plans are made for and compiled by; no object that has whatever it is asked for."""
    def names(self) -> list[str]:
        """The devices of this machine."""
    def __getattr__(self, name: str) -> Any: ...
device: _device
