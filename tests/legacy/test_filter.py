"""g19 to g32: filter descriptors."""
import pytest

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from .arrays import FLOATS, NCHW, NHWC


@pytest.fixture
def desc():
    return c.createFilterDescriptor()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("format", (NCHW, NHWC))
@pytest.mark.parametrize("suffix", ("", "_v4"))
def test_4d_and_nd(desc, dtype, format, suffix):
    set4, get4, setn, getn = (getattr(c, n + suffix)
                              for n in ("setFilter4dDescriptor", "getFilter4dDescriptor",
                                        "setFilterNdDescriptor", "getFilterNdDescriptor"))
    assert set4(desc, dtype, format, 6, 5, 4, 3) is None
    assert get4(desc) == (dtype, format, 6, 5, 4, 3)
    setn(desc, dtype, format, 5, [6, 5, 4, 3, 2])
    assert getn(desc, 8) == (dtype, format, 5, (6, 5, 4, 3, 2))
    assert getn(wDesc=desc, nbDimsRequested=1) == (dtype, format, 5, (6,))


def test_v3_has_no_format(desc):
    c.setFilter4dDescriptor_v3(desc, 1, 6, 5, 4, 3)
    assert (c.getFilter4dDescriptor_v3(desc) == (1, 6, 5, 4, 3)
            and c.getFilter4dDescriptor(desc) == (1, NCHW, 6, 5, 4, 3))
    c.setFilterNdDescriptor_v3(desc, 0, 3, (7, 1, 1))
    assert (c.getFilterNdDescriptor_v3(desc, 2) == (0, 3, (7, 1))
            and c.getFilterNdDescriptor(desc, 3) == (0, NCHW, 3, (7, 1, 1)))


REFUSALS = [
    (c.setFilter4dDescriptor, (3, 0, 1, 1, 1, 1), BadParam,
     "cudnnSetFilter4dDescriptor: dataType must be one of .*got 3"),
    (c.setFilter4dDescriptor, (0, 2, 1, 1, 1, 1), BadParam, "format must be one of .*got 2"),
    (c.setFilter4dDescriptor, (0, 0, 0, 1, 1, 1), BadParam, "k must be >= 1"),
    (c.setFilter4dDescriptor, (0, 0, 1, -2, 1, 1), BadParam, "c must be >= 1"),
    (c.setFilter4dDescriptor, (0, 0, 1, 1, 0, 1), BadParam, "h must be >= 1"),
    (c.setFilter4dDescriptor, (0, 0, 1, 1, 1, 0), BadParam, "w must be >= 1"),
    (c.setFilterNdDescriptor, (0, 0, 2, (1, 1)), BadParam, "nbDims must be >= 3; got 2"),
    (c.setFilterNdDescriptor, (0, 0, 9, (1,) * 9), NotSupported, "nbDims must be <= 8; got 9"),
    (c.setFilterNdDescriptor, (0, 0, 3, (1, 0, 1)), BadParam, "filterDimA must be >= 1"),
    (c.setFilterNdDescriptor, (0, 4, 3, (1, 1, 1)), BadParam, "format must be one of"),
    (c.setFilterNdDescriptor, (0, 0, 3, 4711), TypeError, "filterDimA must be a sequence"),
    (c.setFilterNdDescriptor, (0, 0, 3, (1, 1)), ValueError, "filterDimA must have at least 3"),
    (c.setFilterNdDescriptor_v3, (3, 3, (1, 1, 1)), BadParam, "dataType must be one of"),
]


@pytest.mark.parametrize("function, arguments, error, words", REFUSALS)
def test_refusals_leave_the_descriptor_alone(desc, refused, function, arguments, error, words):
    c.setFilter4dDescriptor(desc, 0, 0, 4, 3, 2, 1)
    refused(function, error, words, desc, *arguments)
    assert c.getFilter4dDescriptor(desc) == (0, 0, 4, 3, 2, 1)


def test_getters_and_null(desc, refused):
    refused(c.getFilter4dDescriptor, BadParam, "filterDesc must be set", desc)
    refused(c.getFilterNdDescriptor, BadParam, "wDesc must be set", desc, 3)
    c.setFilterNdDescriptor(desc, 0, 0, 3, (1, 2, 3))
    refused(c.getFilter4dDescriptor, BadParam, "filterDesc must have rank 4; got 3", desc)
    refused(c.getFilterNdDescriptor, BadParam, "nbDimsRequested must be >= 0", desc, -1)
    refused(c.setFilter4dDescriptor, BadParam, "filterDesc must not be NULL", 0, 0, 0, 1, 1, 1, 1)
    refused(c.setFilter4dDescriptor, BadParam, "must be a filter descriptor",
            c.createTensorDescriptor(), 0, 0, 1, 1, 1, 1)
    c.destroyFilterDescriptor(desc), c.destroyFilterDescriptor(0)
    refused(c.destroyFilterDescriptor, BadParam, "created and not destroyed", desc)
