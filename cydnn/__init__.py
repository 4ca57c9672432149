"""cydnn: the primitives under deep learning, open. Importing it never touches CUDA.

Ways in: functions on arrays (``cydnn.conv(x, w, padding=1)``; all are in ``cydnn.functional``), the same with
gradients (``cydnn.torch``, ``cydnn.jax``), ``cydnn.pygraph`` (graphs of operations), ``cydnn.frontend`` (the
same under every name of the cudnn-frontend package: ``import cydnn.frontend as cudnn``), ``cydnn.cudnn`` (the
functions of the v5 API), ``cydnn.backend`` (descriptors). ``with cydnn.device("numpy"):`` says where. Names
load on first use.
"""
from importlib import import_module
from importlib.machinery import PathFinder as _Finder

if _Finder.find_spec(f"{__name__}._core", __path__) is None:
    raise ImportError(f"cydnn: the folder {__path__[0]} is the source, without the built extensions. Leave "
                      "it to use an installed cydnn, or build them here: pip install -e .")

from .locks import importing as _importing
from .status import (AllocFailed, ArchMismatch, BadParam, CydnnError, DriverNotFound, ExecutionFailed,
                     InternalError, InvalidValue, NotInitialized, NotSupported,
                     last_error_string as getLastErrorString)

__version__ = "0.1.0"

_ROOMS = {                                       # where a name lives; loaded when it is first asked for
    "frontend":
    """
        attention_implementation backend_version backend_version_string behavior_note build_plan_policy
        convolution_mode create_device_properties create_handle create_kernel_cache
        cudnnGraphNotSupportedError data_type destroy_handle diagonal_alignment get_last_error_string
        get_stream heur_mode knob knob_type
        moe_grouped_matmul_mode norm_forward_phase numerical_note padding_mode pygraph reduction_mode
        resample_mode reshape_mode rng_distribution scalar_type signal_mode set_stream tensor_reordering
        """,
    "functional":
    """
        adaptive_avg_pool adaptive_max_pool attention avg_pool batch_norm conv conv_transpose dropout elu gelu
        group_norm grouped_matmul hardswish instance_norm interpolate layer_norm leaky_relu linear
        local_response_norm log_softmax matmul max_pool prelu relu relu6 rms_norm sigmoid silu softmax
        softplus tanh
        """,
    "dtypes": "dtype", "graph": "Graph Node", "tensor": "TensorDesc", "ops.problem": "Problem",
}
_MODULES = "backend bench cudnn device dtypes engines frontend functional heuristics kernels ops plan status"
_HOME = {name: room for room, names in _ROOMS.items() for name in names.split()}
__all__ = sorted([*_HOME, "AllocFailed", "ArchMismatch", "BadParam", "CydnnError", "DriverNotFound",
                  "ExecutionFailed", "InternalError", "InvalidValue", "NotInitialized", "NotSupported",
                  "getLastErrorString"])


def __getattr__(name):
    if name in _HOME:
        with _importing:
            value = getattr(import_module("." + _HOME[name], __name__), name)
        globals()[name] = value
        return value
    try:
        with _importing:
            return import_module("." + name, __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
    from .names import missing
    raise missing(f"module {__name__!r}", name, __dir__(), "functional cudnn")


def __dir__():
    loaded = {"torch", "jax"} & globals().keys() # by who has them
    return sorted({*__all__, *_MODULES.split(), *loaded, *[n for n in globals() if n.startswith("__")]})
