"""The public module: every name of v5, the aliases, the constants, the page in docs/."""
import doctest
from pathlib import Path

import pytest

from cydnn import cudnn as c
from cydnn.legacy import FUNCTIONS, __main__ as page

ALIASES = {                                      # other name: plain name
    "addTensor_v3": "addTensor", "setFilter4dDescriptor_v4": "setFilter4dDescriptor",
    "setFilterNdDescriptor_v4": "setFilterNdDescriptor", "getFilter4dDescriptor_v4": "getFilter4dDescriptor",
    "getFilterNdDescriptor_v4": "getFilterNdDescriptor",
    "setConvolution2dDescriptor_v4": "setConvolution2dDescriptor",
    "setConvolutionNdDescriptor_v3": "setConvolutionNdDescriptor",
    "getConvolutionForwardAlgorithm_v6": "getConvolutionForwardAlgorithm",
    "getConvolutionBackwardFilterAlgorithm_v6": "getConvolutionBackwardFilterAlgorithm",
    "getConvolutionBackwardDataAlgorithm_v6": "getConvolutionBackwardDataAlgorithm",
    "convolutionBackwardFilter_v3": "convolutionBackwardFilter",
    "convolutionBackwardData_v3": "convolutionBackwardData",
    "setPooling2dDescriptor_v4": "setPooling2dDescriptor",
    "getPooling2dDescriptor_v4": "getPooling2dDescriptor",
    "setPoolingNdDescriptor_v4": "setPoolingNdDescriptor",
    "getPoolingNdDescriptor_v4": "getPoolingNdDescriptor", "activationForward_v4": "activationForward",
    "activationBackward_v4": "activationBackward",
    "lrnCrossChannelForward": "LRNCrossChannelForward",
    "lrnCrossChannelBackward": "LRNCrossChannelBackward",
}


def test_every_section_of_the_guide_has_a_function():
    assert {f"g{i}" for i in range(1, 125)} <= {chapter for _, chapter in FUNCTIONS.values()}


@pytest.mark.parametrize("alias, plain", ALIASES.items())
def test_aliases(alias, plain):
    assert getattr(c, alias) is getattr(c, plain)


def test_every_function_has_a_sentence():
    assert all((function.__doc__ or "").strip() for function, _ in FUNCTIONS.values())


@pytest.mark.parametrize("name, value", [
    ("CUDNN_DATA_FLOAT", 0), ("CUDNN_DATA_DOUBLE", 1), ("CUDNN_DATA_HALF", 2), ("CUDNN_DATA_BFLOAT16", 9),
    ("CUDNN_TENSOR_NHWC", 1), ("CUDNN_CONVOLUTION", 0), ("CUDNN_CROSS_CORRELATION", 1),
    ("CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD", 6), ("CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3", 3),
    ("CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING", 3),
    ("CUDNN_CONVOLUTION_BWD_DATA_SPECIFY_WORKSPACE_LIMIT", 2), ("CUDNN_SOFTMAX_MODE_CHANNEL", 1),
    ("CUDNN_POOLING_AVERAGE", 1), ("CUDNN_ACTIVATION_CLIPPED_RELU", 3), ("CUDNN_BATCHNORM_SPATIAL", 1),
    ("CUDNN_LRN_CROSS_CHANNEL_DIM1", 0), ("CUDNN_LSTM", 2), ("CUDNN_RNN_TANH", 1), ("CUDNN_BIDIRECTIONAL", 1),
    ("CUDNN_SKIP_INPUT", 1), ("CUDNN_SAMPLER_BILINEAR", 0), ("CUDNN_OP_TENSOR_MAX", 3),
    ("CUDNN_PROPAGATE_NAN", 1), ("CUDNN_STATUS_LICENSE_ERROR", 10), ("CUDNN_DIM_MAX", 8),
    ("CUDNN_BN_MIN_EPSILON", 1e-5), ("CUDNN_LRN_MAX_N", 16), ("CUDNN_DIVNORM_PRECOMPUTED_MEANS", 0)])
def test_constants(name, value):
    assert getattr(c, name) == value and name in c.__all__


def test_the_page_in_docs_is_this_version():
    path = Path(__file__).resolve().parents[2] / "docs" / "legacy_api.md"
    assert path.read_text() == page.table(), "run: python -m cydnn.legacy > docs/legacy_api.md"


def test_the_example_runs():
    assert doctest.testmod(c).failed == 0
