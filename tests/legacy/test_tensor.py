"""g7 to g13: tensor descriptors."""
import pytest

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from .arrays import FLOAT, FLOATS, NCHW, NHWC


@pytest.fixture
def desc():
    return c.createTensorDescriptor()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("format, strides", [(NCHW, (60, 20, 5, 1)), (NHWC, (60, 1, 15, 3))])
def test_4d(desc, dtype, format, strides):
    assert c.setTensor4dDescriptor(desc, format, dtype, 2, 3, 4, 5) is None
    assert c.getTensor4dDescriptor(desc) == (dtype, 2, 3, 4, 5, *strides)
    assert c.getTensorNdDescriptor(desc, 8) == (dtype, 4, (2, 3, 4, 5), strides)
    assert c.getTensorNdDescriptor(desc, 2) == (dtype, 4, (2, 3), strides[:2])
    assert c.getTensorNdDescriptor(desc, 0) == (dtype, 4, (), ())


def test_4d_ex_takes_any_strides(desc):
    c.setTensor4dDescriptorEx(desc, FLOAT, 2, 3, 4, 5, 0, 7, 100, 1000)
    assert c.getTensor4dDescriptor(desc) == (FLOAT, 2, 3, 4, 5, 0, 7, 100, 1000)


@pytest.mark.parametrize("rank", range(3, 9))
def test_nd(desc, rank):
    dims, strides = tuple(range(2, 2 + rank)), (1,) * rank
    c.setTensorNdDescriptor(desc, FLOAT, rank, [*dims, 99], list(strides))
    assert c.getTensorNdDescriptor(desc, rank) == (FLOAT, rank, dims, strides)


def test_c_names_of_the_arguments(desc):
    c.setTensor4dDescriptor(tensorDesc=desc, format=0, dataType=0, n=1, c=2, h=3, w=4)
    c.setTensor4dDescriptorEx(tensorDesc=desc, dataType=0, n=1, c=2, h=3, w=4,
                              nStride=24, cStride=12, hStride=4, wStride=1)
    c.setTensorNdDescriptor(tensorDesc=desc, dataType=0, nbDims=3, dimA=(1, 1, 1), strideA=(1, 1, 1))
    c.getTensorNdDescriptor(tensorDesc=desc, nbDimsRequested=3)


BIG = 2 ** 16
REFUSALS = [                                     # function, arguments after the descriptor, error, words
    (c.setTensor4dDescriptor, (2, 0, 1, 1, 1, 1), BadParam,
     r"format must be one of CUDNN_TENSOR_NCHW \(0\) CUDNN_TENSOR_NHWC \(1\); got 2"),
    (c.setTensor4dDescriptor, (0, 3, 1, 1, 1, 1), BadParam,
     r"cudnnSetTensor4dDescriptor: dataType must be one of .*HALF.*; got 3"),
    (c.setTensor4dDescriptor, (0, 0, 0, 1, 1, 1), BadParam, "n must be >= 1; got 0"),
    (c.setTensor4dDescriptor, (0, 0, 1, -1, 1, 1), BadParam, "c must be >= 1; got -1"),
    (c.setTensor4dDescriptor, (0, 0, 1, 1, 0, 1), BadParam, "h must be >= 1"),
    (c.setTensor4dDescriptor, (0, 0, 1, 1, 1, 0), BadParam, "w must be >= 1"),
    (c.setTensor4dDescriptor, (0, 0, BIG, BIG, 1, 1), NotSupported, r"at most 2\*\*31 elements"),
    (c.setTensor4dDescriptor, (0, 0, 1.5, 1, 1, 1), TypeError, "float"),
    (c.setTensor4dDescriptor, ("x", 0, 1, 1, 1, 1), TypeError, "format must be a cudnnTensorFormat_t"),
    (c.setTensor4dDescriptorEx, (5, 1, 1, 1, 1, 1, 1, 1, 1), BadParam, "dataType must be one of"),
    (c.setTensor4dDescriptorEx, (0, 1, 1, 1, 0, 1, 1, 1, 1), BadParam, "w must be >= 1"),
    (c.setTensor4dDescriptorEx, (0, 1, 1, 1, 1, -1, 1, 1, 1), BadParam, "nStride must be >= 0; got -1"),
    (c.setTensor4dDescriptorEx, (0, 2, 1, 1, 1, 2 ** 31, 1, 1, 1), NotSupported,
     "elements from first to last"),
    (c.setTensorNdDescriptor, (7, 3, (1, 1, 1), (1, 1, 1)), BadParam, "dataType must be one of"),
    (c.setTensorNdDescriptor, (0, 2, (1, 1), (1, 1)), BadParam, "nbDims must be >= 3; got 2"),
    (c.setTensorNdDescriptor, (0, 9, (1,) * 9, (1,) * 9), NotSupported, "nbDims must be <= 8; got 9"),
    (c.setTensorNdDescriptor, (0, 3, (1, 0, 1), (1, 1, 1)), BadParam, r"dimA must be >= 1; got \(1, 0, 1\)"),
    (c.setTensorNdDescriptor, (0, 3, (1, 1, 1), (1, -1, 1)), BadParam, "strideA must be >= 0"),
    (c.setTensorNdDescriptor, (0, 3, (BIG, BIG, 1), (BIG, 1, 1)), NotSupported,
     "elements from first to last"),
    (c.setTensorNdDescriptor, (0, 3, (1, 1), (1, 1, 1)), ValueError, "dimA must have at least 3 entries"),
    (c.setTensorNdDescriptor, (0, 3, 0x7F0000, (1, 1, 1)), TypeError,
     "dimA must be a sequence of ints, not an address"),
]


@pytest.mark.parametrize("function, arguments, error, words", REFUSALS)
def test_refusals_leave_the_descriptor_alone(desc, refused, function, arguments, error, words):
    c.setTensor4dDescriptor(desc, 0, 0, 1, 2, 3, 4)
    before = c.getTensor4dDescriptor(desc)
    refused(function, error, words, desc, *arguments)
    assert c.getTensor4dDescriptor(desc) == before


def test_the_extent_may_be_2_31(desc):
    c.setTensor4dDescriptor(desc, 0, 0, 2 ** 15, 2 ** 16, 1, 1)
    with pytest.raises(NotSupported):
        c.setTensor4dDescriptorEx(desc, 0, 2, 1, 1, 2, 2 ** 31 - 1, 1, 1, 1)


def test_getters_refuse(desc, refused):
    refused(c.getTensor4dDescriptor, BadParam,
            "tensorDesc must be set; got a tensor descriptor that was only created", desc)
    refused(c.getTensorNdDescriptor, BadParam, "must be set", desc, 4)
    c.setTensorNdDescriptor(desc, 0, 3, (1, 2, 3), (6, 3, 1))
    refused(c.getTensor4dDescriptor, BadParam, "tensorDesc must have rank 4; got 3", desc)
    refused(c.getTensorNdDescriptor, BadParam, "nbDimsRequested must be >= 0; got -1", desc, -1)


def test_null_and_destroyed_descriptors(desc, refused):
    for wrong in (0, None):
        refused(c.setTensor4dDescriptor, BadParam, "tensorDesc must not be NULL", wrong, 0, 0, 1, 1, 1, 1)
        assert c.destroyTensorDescriptor(wrong) is None
    refused(c.setTensor4dDescriptor, BadParam, "tensorDesc must be a tensor descriptor",
            c.createFilterDescriptor(), 0, 0, 1, 1, 1, 1)
    c.destroyTensorDescriptor(desc)
    refused(c.destroyTensorDescriptor, BadParam, "created and not destroyed", desc)
    refused(c.destroyTensorDescriptor, BadParam, "created and not destroyed", 4711)
    refused(c.setTensor4dDescriptor, BadParam, "created and not destroyed", desc, 0, 0, 1, 1, 1, 1)
    refused(c.getTensor4dDescriptor, BadParam, "created and not destroyed", desc)
    refused(c.getTensor4dDescriptor, TypeError, "tensorDesc must be a tensor descriptor", "x")
