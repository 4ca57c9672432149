"""The enums of the v5 API: one line each. Spec: legacy API, chapter 2.

A member reads ``NAME=number`` or ``NAME=number:word``, where the word is what the ops call it.
Members that came after v5 are not accepted, with one exception: ``CUDNN_DATA_BFLOAT16``
is a storage type wherever HALF is.
"""
from __future__ import annotations

from ..given import integral, shown
from ..status import NAMES, BadParam


class Enum:
    """Members of one C enum: ``by_name`` {constant: number}, ``constant(number)``, ``word(number)``;
    ``check`` refuses other numbers."""

    def __init__(self, name: str, prefix: str, members: str):
        self.name, self.by_name, self._constants, self._words = name, {}, {}, {}
        for member in members.split():
            label, _, rest = member.partition("=")
            number, _, word = rest.partition(":")
            self.by_name[prefix + label] = int(number)
            self._constants.setdefault(int(number), prefix + label)
            self._words.setdefault(int(number), word or label)

    def check(self, function: str, argument: str, value) -> int:
        """``value`` as an int. Raises BadParam when it is no member, TypeError when it is no integer."""
        try:
            number = integral(value)
        except Exception:                        # the object's own __index__ may raise anything
            raise TypeError(f"{function}: {argument} must be a {self.name}; got {shown(value)}") from None
        if number not in self._words:
            accepted = " ".join(f"{n} ({i})" for i, n in self._constants.items())
            raise BadParam(f"{function}: {argument} must be one of {accepted}; got {shown(number)}")
        return number

    def content(self, function: str, argument: str, value) -> str:
        """The word of a number that the caller gave."""
        return self._words[self.check(function, argument, value)]

    def word(self, number: int) -> str:
        return self._words[number]

    def constant(self, number: int) -> str:
        return self._constants[number]

    def __iter__(self):
        """(number, word) of every member, by number."""
        return iter(sorted(self._words.items()))


DATA_TYPE = Enum("cudnnDataType_t", "CUDNN_DATA_", "FLOAT=0:f32 DOUBLE=1:f64 HALF=2:f16 BFLOAT16=9:bf16")
TENSOR_FORMAT = Enum("cudnnTensorFormat_t", "CUDNN_TENSOR_", "NCHW=0:nchw NHWC=1:nhwc")
NAN = Enum("cudnnNanPropagation_t", "CUDNN_", "NOT_PROPAGATE_NAN=0:ignore PROPAGATE_NAN=1:propagate")
OP_TENSOR = Enum("cudnnOpTensorOp_t", "CUDNN_OP_TENSOR_", "ADD=0:add MUL=1:mul MIN=2:min MAX=3:max")
CONVOLUTION_MODE = Enum("cudnnConvolutionMode_t", "CUDNN_",
                        "CONVOLUTION=0:convolution CROSS_CORRELATION=1:cross_correlation")
_PREFERENCE = "NO_WORKSPACE=0 PREFER_FASTEST=1 SPECIFY_WORKSPACE_LIMIT=2"
FWD_PREFERENCE = Enum("cudnnConvolutionFwdPreference_t", "CUDNN_CONVOLUTION_FWD_", _PREFERENCE)
BWD_FILTER_PREFERENCE = Enum("cudnnConvolutionBwdFilterPreference_t",
                             "CUDNN_CONVOLUTION_BWD_FILTER_", _PREFERENCE)
BWD_DATA_PREFERENCE = Enum("cudnnConvolutionBwdDataPreference_t", "CUDNN_CONVOLUTION_BWD_DATA_", _PREFERENCE)
FWD_ALGO = Enum("cudnnConvolutionFwdAlgo_t", "CUDNN_CONVOLUTION_FWD_ALGO_",
                "IMPLICIT_GEMM=0 IMPLICIT_PRECOMP_GEMM=1 GEMM=2 DIRECT=3 FFT=4 FFT_TILING=5 WINOGRAD=6")
BWD_FILTER_ALGO = Enum("cudnnConvolutionBwdFilterAlgo_t", "CUDNN_CONVOLUTION_BWD_FILTER_",
                       "ALGO_0=0 ALGO_1=1 ALGO_FFT=2 ALGO_3=3")
BWD_DATA_ALGO = Enum("cudnnConvolutionBwdDataAlgo_t", "CUDNN_CONVOLUTION_BWD_DATA_",
                     "ALGO_0=0 ALGO_1=1 ALGO_FFT=2 ALGO_FFT_TILING=3 ALGO_WINOGRAD=4")
SOFTMAX_ALGORITHM = Enum("cudnnSoftmaxAlgorithm_t", "CUDNN_SOFTMAX_",
                         "FAST=0:fast ACCURATE=1:accurate LOG=2:log")
SOFTMAX_MODE = Enum("cudnnSoftmaxMode_t", "CUDNN_SOFTMAX_MODE_", "INSTANCE=0:instance CHANNEL=1:channel")
POOLING_MODE = Enum("cudnnPoolingMode_t", "CUDNN_POOLING_",
                    "MAX=0:max AVERAGE_COUNT_INCLUDE_PADDING=1:avg_include_padding "
                    "AVERAGE_COUNT_EXCLUDE_PADDING=2:avg_exclude_padding AVERAGE=1")
ACTIVATION_MODE = Enum("cudnnActivationMode_t", "CUDNN_ACTIVATION_",
                       "SIGMOID=0:sigmoid RELU=1:relu TANH=2:tanh CLIPPED_RELU=3:clipped_relu")
BATCH_NORM_MODE = Enum("cudnnBatchNormMode_t", "CUDNN_BATCHNORM_",
                       "PER_ACTIVATION=0:per_activation SPATIAL=1:spatial")
LRN_MODE = Enum("cudnnLRNMode_t", "CUDNN_LRN_", "CROSS_CHANNEL_DIM1=0")
DIV_NORM_MODE = Enum("cudnnDivNormMode_t", "CUDNN_DIVNORM_", "PRECOMPUTED_MEANS=0")
RNN_MODE = Enum("cudnnRNNMode_t", "CUDNN_", "RNN_RELU=0:relu RNN_TANH=1:tanh LSTM=2:lstm GRU=3:gru")
DIRECTION_MODE = Enum("cudnnDirectionMode_t", "CUDNN_", "UNIDIRECTIONAL=0 BIDIRECTIONAL=1")
RNN_INPUT_MODE = Enum("cudnnRNNInputMode_t", "CUDNN_", "LINEAR_INPUT=0:linear SKIP_INPUT=1:skip")
SAMPLER_TYPE = Enum("cudnnSamplerType_t", "CUDNN_SAMPLER_", "BILINEAR=0")

ENUMS = tuple(e for e in list(globals().values()) if isinstance(e, Enum))

CUDNN_VERSION = 5005                # the newest generation whose functions are all here, in its own encoding

CONSTANTS = {
    **{name: number for number, name in NAMES.items()},
    **{name: number for enum in ENUMS for name, number in enum.by_name.items()},
    "CUDNN_VERSION": CUDNN_VERSION, "CUDNN_MAJOR": 5, "CUDNN_MINOR": 0, "CUDNN_PATCHLEVEL": 5,
    "CUDNN_DIM_MAX": 8, "CUDNN_BN_MIN_EPSILON": 1e-5, "CUDNN_LRN_MIN_N": 1, "CUDNN_LRN_MAX_N": 16,
    "CUDNN_LRN_MIN_K": 1e-5, "CUDNN_LRN_MIN_BETA": 0.01,
}
