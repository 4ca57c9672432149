"""The v5 functions of the C API, one file a chapter. ``cydnn.cudnn`` publishes them.

``FUNCTIONS`` {name: (function, chapter of the guide)} and ``CONSTANTS``
{name: number} are all that is public.
"""
from . import (activation, batch_norm, conv_compute, convolution, divisive_norm, dropout, filter, handle,
               im2col, lrn, pooling, rnn_compute, softmax, spatial, tensor, tensor_ops)
from .arguments import FUNCTIONS
from .enums import CONSTANTS
from .find import AlgoPerf
from .handle import Handle
