"""g7 to g13: tensor descriptors."""
import pytest

from cydnn import cudnn as c
from cydnn.status import NotSupported

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


def test_the_extent_may_be_2_31(desc):
    c.setTensor4dDescriptor(desc, 0, 0, 2 ** 15, 2 ** 16, 1, 1)
    with pytest.raises(NotSupported):
        c.setTensor4dDescriptorEx(desc, 0, 2, 1, 1, 2, 2 ** 31 - 1, 1, 1, 1)
