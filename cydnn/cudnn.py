"""The functions, enums and constants of the v5 API:
``cudnnConvolutionForward`` is ``cudnn.convolutionForward``.

Names drop ``cudnn`` and begin in lower case; arguments have the C names and order, outputs are returned; a
status other than SUCCESS raises (``CuDNNError`` is the base class, ``.status`` the number).
``python -m cydnn.legacy`` lists everything. Names that other bindings gave (``addTensor_v3``,
``setPooling2dDescriptor_v4`` …) are aliases.

>>> from cydnn import cudnn
>>> x = cudnn.createTensorDescriptor()
>>> cudnn.setTensor4dDescriptor(x, cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT, 1, 3, 4, 5)
>>> cudnn.getTensor4dDescriptor(x)
(0, 1, 3, 4, 5, 60, 20, 5, 1)
"""
from .legacy import CONSTANTS, FUNCTIONS, AlgoPerf, Handle
from .names import missing
from .status import CydnnError as CuDNNError

globals().update({name: function for name, (function, _) in FUNCTIONS.items()}, **CONSTANTS)

CuDNNAlgoPerf = AlgoPerf                         # names that CuPy's module had: docs/migrate_from_cupy.md
available = True


def get_build_version() -> int:
    """The generation of the API, as getVersion says."""
    return CONSTANTS["CUDNN_VERSION"]


__all__ = ["AlgoPerf", "CuDNNAlgoPerf", "CuDNNError", "Handle", "available", "get_build_version", *FUNCTIONS,
           *CONSTANTS]


def __getattr__(name):
    raise missing(f"module {__name__!r}", name, __all__)


def __dir__():
    return sorted(__all__)
