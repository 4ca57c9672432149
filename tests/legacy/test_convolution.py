"""g33 to g40: convolution descriptors and output sizes."""
import pytest

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from .arrays import DOUBLE, FLOAT, conv_desc, filter_desc, tensor_desc


@pytest.fixture
def desc():
    return c.createConvolutionDescriptor()


@pytest.mark.parametrize("suffix", ("", "_v4"))
def test_2d(desc, suffix):
    assert getattr(c, "setConvolution2dDescriptor" + suffix)(
        desc, 1, 2, 3, 4, 1, 1, c.CUDNN_CONVOLUTION) is None
    assert c.getConvolution2dDescriptor(desc) == (1, 2, 3, 4, 1, 1, c.CUDNN_CONVOLUTION)
    assert c.getConvolutionNdDescriptor(desc, 8) == (2, (1, 2), (3, 4), (1, 1), c.CUDNN_CONVOLUTION, FLOAT)
    assert c.getConvolutionNdDescriptor(desc, 1) == (2, (1,), (3,), (1,), c.CUDNN_CONVOLUTION, FLOAT)


def test_2d_v5_has_a_math_type(desc):
    c.setConvolution2dDescriptor_v5(desc, 1, 2, 3, 4, 1, 1, 1, DOUBLE)
    assert c.getConvolution2dDescriptor_v5(desc) == (1, 2, 3, 4, 1, 1, 1, DOUBLE)
    assert c.getConvolution2dDescriptor(desc) == (1, 2, 3, 4, 1, 1, 1)


@pytest.mark.parametrize("set_", (c.setConvolutionNdDescriptor, c.setConvolutionNdDescriptor_v3))
def test_nd(desc, set_):
    set_(desc, 3, [0, 1, 2], [1, 2, 3], [1, 1, 1], 1, DOUBLE)
    assert c.getConvolutionNdDescriptor(desc, 3) == (3, (0, 1, 2), (1, 2, 3), (1, 1, 1), 1, DOUBLE)


def test_c_names_of_the_arguments(desc):
    c.setConvolution2dDescriptor(convDesc=desc, pad_h=0, pad_w=0, u=1, v=1, upscalex=1, upscaley=1, mode=1)
    c.setConvolutionNdDescriptor(convDesc=desc, arrayLength=2, padA=(0, 0), filterStrideA=(1, 1),
                                 upscaleA=(1, 1), mode=1, dataType=0)


ND = c.setConvolutionNdDescriptor
REFUSALS = [
    (c.setConvolution2dDescriptor, (0, 0, 1, 1, 1, 1, 2), BadParam,
     r"mode must be one of CUDNN_CONVOLUTION \(0\) CUDNN_CROSS_CORRELATION \(1\)"),
    (c.setConvolution2dDescriptor, (-1, 0, 1, 1, 1, 1, 1), BadParam, r"pad must be >= 0; got \(-1, 0\)"),
    (c.setConvolution2dDescriptor, (0, -1, 1, 1, 1, 1, 1), BadParam, "pad must be >= 0"),
    (c.setConvolution2dDescriptor, (0, 0, 0, 1, 1, 1, 1), BadParam, "stride must be >= 1"),
    (c.setConvolution2dDescriptor, (0, 0, 1, 0, 1, 1, 1), BadParam, "stride must be >= 1"),
    (c.setConvolution2dDescriptor, (0, 0, 1, 1, 2, 1, 1), NotSupported, r"upscale must be 1.*got \(1, 2\)"),
    (c.setConvolution2dDescriptor, (0, 0, 1, 1, 1, 2, 1), NotSupported, r"upscale must be 1.*got \(2, 1\)"),
    (c.setConvolution2dDescriptor_v5, (0, 0, 1, 1, 1, 1, 1, 3), BadParam, "dataType must be one of"),
    (ND, (0, (), (), (), 1, 0), BadParam, "arrayLength must be >= 1"),
    (ND, (-1, (), (), (), 1, 0), BadParam, "arrayLength must be >= 1"),
    (ND, (9, (0,) * 9, (1,) * 9, (1,) * 9, 1, 0), NotSupported, "arrayLength must be <= 8; got 9"),
    (ND, (2, (0, -1), (1, 1), (1, 1), 1, 0), BadParam, "pad must be >= 0"),
    (ND, (2, (0, 0), (1, 0), (1, 1), 1, 0), BadParam, "stride must be >= 1"),
    (ND, (2, (0, 0), (1, 1), (1, 2), 1, 0), NotSupported, "upscale must be 1"),
    (ND, (2, (0, 0), (1, 1), (1, 1), 7, 0), BadParam, "mode must be one of"),
    (ND, (2, (0, 0), (1, 1), (1, 1), 1, 5), BadParam, "dataType must be one of"),
    (ND, (2, 4711, (1, 1), (1, 1), 1, 0), TypeError, "padA must be a sequence"),
    (ND, (2, (0,), (1, 1), (1, 1), 1, 0), ValueError, "padA must have at least 2"),
]


@pytest.mark.parametrize("function, arguments, error, words", REFUSALS)
def test_refusals_leave_the_descriptor_alone(desc, refused, function, arguments, error, words):
    c.setConvolution2dDescriptor(desc, 1, 2, 3, 4, 1, 1, 0)
    refused(function, error, words, desc, *arguments)
    assert c.getConvolution2dDescriptor(desc) == (1, 2, 3, 4, 1, 1, 0)


def test_getters_and_null(desc, refused):
    refused(c.getConvolution2dDescriptor, BadParam, "convDesc must be set", desc)
    refused(c.setConvolution2dDescriptor, BadParam, "convDesc must not be NULL", 0, 0, 0, 1, 1, 1, 1, 1)
    c.setConvolutionNdDescriptor(desc, 3, (0,) * 3, (1,) * 3, (1,) * 3, 1, 0)
    refused(c.getConvolution2dDescriptor, BadParam, "must have 2 spatial dims; got 3", desc)
    refused(c.getConvolutionNdDescriptor, BadParam, "arrayLengthRequested must be >= 0", desc, -1)
    refused(c.getConvolutionNdDescriptor, NotSupported, "arrayLengthRequested must be <= 8", desc, 9)
    c.destroyConvolutionDescriptor(0), c.destroyConvolutionDescriptor(desc)
    refused(c.destroyConvolutionDescriptor, BadParam, "created and not destroyed", desc)


@pytest.mark.parametrize("size, filter_, pad, stride", [(5, 3, 0, 1), (5, 3, 1, 2), (224, 7, 3, 2),
                                                        (4, 4, 0, 3), (1, 1, 2, 5), (3, 5, 1, 1)])
def test_output_dims(size, filter_, pad, stride):
    out = 1 + (size + 2 * pad - filter_) // stride
    two = conv_desc((pad, 0), (stride, 1)), tensor_desc(2, 3, size, 9), filter_desc(4, 3, filter_, 2)
    assert c.getConvolution2dForwardOutputDim(*two) == (2, 4, out, 8)
    assert c.getConvolutionNdForwardOutputDim(*two, 4) == (2, 4, out, 8)
    assert c.getConvolutionNdForwardOutputDim(*two, 2) == (2, 4)
    three = (conv_desc((0, pad, 0), (1, stride, 1)), tensor_desc(2, 3, 4, size, 9),
             filter_desc(4, 3, 2, filter_, 2))
    assert c.getConvolutionNdForwardOutputDim(*three, 5) == (2, 4, 3, out, 8)


NDIM = c.getConvolutionNdForwardOutputDim
IMAGE, FILTER, CONV = tensor_desc(2, 3, 8, 9), filter_desc(4, 3, 3, 3), conv_desc()
OUTPUT_REFUSALS = [
    (NDIM, (CONV, IMAGE, FILTER, -1), "nbDims must be >= 0"),
    (NDIM, (CONV, IMAGE, FILTER, 5), "nbDims must be <= the rank 4; got 5"),
    (NDIM, (CONV, IMAGE, filter_desc(4, 3, 1, 3, 3), 4),
     "filterDesc must have rank 4 like inputTensorDesc; got 5"),
    (NDIM, (conv_desc((0,) * 3, (1,) * 3), IMAGE, FILTER, 4), "convDesc must have 2 spatial dims"),
    (NDIM, (CONV, IMAGE, filter_desc(4, 2, 3, 3), 4), "filterDesc must have c = 3"),
    (NDIM, (CONV, IMAGE, filter_desc(4, 3, 9, 3), 4), "filterDesc must fit into the padded"),
    (NDIM, (c.createConvolutionDescriptor(), IMAGE, FILTER, 4), "convDesc must be set"),
    (NDIM, (0, IMAGE, FILTER, 4), "convDesc must not be NULL"),
    (c.getConvolution2dForwardOutputDim, (conv_desc((0,) * 3, (1,) * 3), IMAGE, FILTER),
     "convDesc must have 2 spatial dims; got 3"),
    (c.getConvolution2dForwardOutputDim, (CONV, c.createTensorDescriptor(), FILTER),
     "inputTensorDesc must be set"),
    (c.getConvolution2dForwardOutputDim, (CONV, IMAGE, filter_desc(4, 2, 3, 3)),
     "filterDesc must have c = 3"),
]


@pytest.mark.parametrize("function, arguments, words", OUTPUT_REFUSALS)
def test_output_dim_refusals(refused, function, arguments, words):
    refused(function, BadParam, words, *arguments)
