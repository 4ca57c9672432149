"""g33 to g40: convolution descriptors and output sizes."""
import pytest

from cydnn import cudnn as c

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
