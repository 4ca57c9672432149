"""docs/migrate_from_cupy.md: the names that CuPy's module had, and the page's programs with cupy arrays."""
import doctest
import inspect
from pathlib import Path

import pytest

from cydnn import cudnn as c

PAGE = Path(__file__).resolve().parents[2] / "docs" / "migrate_from_cupy.md"
NAMES = """
    getVersion create destroy setStream getStream get_build_version available CuDNNError CuDNNAlgoPerf
    createTensorDescriptor setTensor4dDescriptor setTensor4dDescriptorEx getTensor4dDescriptor
    setTensorNdDescriptor destroyTensorDescriptor addTensor_v3 createOpTensorDescriptor setOpTensorDescriptor
    getOpTensorDescriptor destroyOpTensorDescriptor opTensor setTensor scaleTensor createFilterDescriptor
    setFilter4dDescriptor_v4 setFilterNdDescriptor_v4 getFilterNdDescriptor destroyFilterDescriptor
    createConvolutionDescriptor setConvolution2dDescriptor_v4 setConvolution2dDescriptor_v5
    setConvolutionNdDescriptor_v3 destroyConvolutionDescriptor findConvolutionForwardAlgorithm
    findConvolutionForwardAlgorithmEx getConvolutionForwardAlgorithm_v6 getConvolutionForwardWorkspaceSize
    convolutionForward convolutionBackwardBias findConvolutionBackwardFilterAlgorithm
    findConvolutionBackwardFilterAlgorithmEx getConvolutionBackwardFilterAlgorithm_v6
    getConvolutionBackwardFilterWorkspaceSize convolutionBackwardFilter_v3
    findConvolutionBackwardDataAlgorithm findConvolutionBackwardDataAlgorithmEx
    getConvolutionBackwardDataAlgorithm_v6 getConvolutionBackwardDataWorkspaceSize convolutionBackwardData_v3
    createPoolingDescriptor setPooling2dDescriptor_v4 setPoolingNdDescriptor_v4 destroyPoolingDescriptor
    poolingForward poolingBackward CUDNN_BN_MIN_EPSILON deriveBNTensorDescriptor
    batchNormalizationForwardTraining batchNormalizationForwardInference batchNormalizationBackward
    createActivationDescriptor setActivationDescriptor destroyActivationDescriptor softmaxForward
    softmaxBackward activationForward_v4 activationBackward_v4 createDropoutDescriptor
    destroyDropoutDescriptor dropoutGetStatesSize setDropoutDescriptor getDropoutReserveSpaceSize
    dropoutForward dropoutBackward createRNNDescriptor destroyRNNDescriptor setRNNDescriptor_v5
    getRNNWorkspaceSize getRNNTrainingReserveSize getRNNParamsSize getRNNLinLayerMatrixParams
    getRNNLinLayerBiasParams RNNForwardInference RNNForwardTraining RNNBackwardData RNNBackwardWeights
    createSpatialTransformerDescriptor destroySpatialTransformerDescriptor setSpatialTransformerDescriptor
    spatialTfGridGeneratorForward spatialTfGridGeneratorBackward spatialTfSamplerForward
    spatialTfSamplerBackward""".split()
ARGUMENTS = {                                    # name: how many it took there, where it takes as many here
    "addTensor_v3": 7, "opTensor": 11, "setConvolution2dDescriptor_v4": 8, "setConvolution2dDescriptor_v5": 9,
    "setConvolutionNdDescriptor_v3": 7, "convolutionForward": 13, "convolutionBackwardFilter_v3": 13,
    "convolutionBackwardData_v3": 13, "findConvolutionForwardAlgorithmEx": 11,
    "getConvolutionForwardAlgorithm_v6": 7, "setPooling2dDescriptor_v4": 9, "poolingBackward": 12,
    "batchNormalizationForwardTraining": 17, "batchNormalizationForwardInference": 14,
    "batchNormalizationBackward": 19, "activationBackward_v4": 12, "setDropoutDescriptor": 6,
    "getDropoutReserveSpaceSize": 1, "dropoutForward": 8, "setRNNDescriptor_v5": 8, "getRNNParamsSize": 4,
    "RNNForwardTraining": 21, "RNNBackwardData": 27, "RNNBackwardWeights": 15,
}
PAST_V5 = ("reduceTensor", "findConvolutionForwardAlgorithmEx_v7", "batchNormalizationForwardTrainingEx",
           "CTCLoss", "RNNForwardTrainingEx", "setRNNDescriptor_v6", "setConvolutionGroupCount",
           "setConvolutionMathType", "fusedOpsExecute", "createPersistentRNNPlan")


@pytest.mark.parametrize("name", NAMES)
def test_the_names_are_here(name):
    assert name in c.__all__ and hasattr(c, name)


@pytest.mark.parametrize("name, count", ARGUMENTS.items())
def test_calls_have_the_arguments_that_they_had(name, count):
    assert len(inspect.signature(getattr(c, name)).parameters) == count


@pytest.mark.parametrize("name", PAST_V5)
def test_what_came_after_v5_is_not_here(name):
    assert not hasattr(c, name)


def test_numbers_of_the_module():
    assert c.available is True and c.get_build_version() == c.getVersion() and c.CuDNNAlgoPerf is c.AlgoPerf


@pytest.mark.gpu
def test_the_programs_of_the_page_run_with_cupy(gpu):
    """Each as it stands, but for the two words that the page names; all in one session."""
    pytest.importorskip("cupy")
    text = PAGE.read_text().replace("import numpy as xp", "import cupy as xp")
    text = text.replace('cudnn.create("numpy")', 'cudnn.create("cuda:0")')
    assert "cupy as xp" in text and "cuda:0" in text
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    said = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False).run(test, out=said.append)
    assert not said, "".join(said)


@pytest.mark.gpu
def test_addresses_and_streams_of_cupy(gpu):
    cupy = pytest.importorskip("cupy")
    handle, stream = c.create("cuda:0"), cupy.cuda.Stream(non_blocking=True)
    x, desc = cupy.arange(24, dtype="f").reshape(1, 2, 3, 4), c.createTensorDescriptor()
    cupy.cuda.runtime.deviceSynchronize()
    c.setTensor4dDescriptor(desc, c.CUDNN_TENSOR_NCHW, c.CUDNN_DATA_FLOAT, *x.shape)
    for given in (stream, stream.ptr):
        c.setStream(handle, given)
        assert c.getStream(handle) == stream.ptr
    for pointer in (x.data.ptr, x, x.data.ptr):
        c.scaleTensor(handle, desc, pointer, 2.0)
    stream.synchronize()
    assert x.ravel().tolist() == [8.0 * i for i in range(24)]
    c.destroy(handle)
