"""g19 to g32: filter descriptors."""
import pytest

from cydnn import cudnn as c

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
