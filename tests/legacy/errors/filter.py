"""Filter descriptors: 3.4."""
from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from ..arrays import filter_desc
from . import E

DESC, NEW = filter_desc(4, 3, 3, 3), c.createFilterDescriptor
FOUR, ND = dict(k=4, c=3, h=3, w=3), dict(nbDims=3, filterDimA=(4, 3, 3))
GOOD = {
    "createFilterDescriptor": dict,
    "setFilter4dDescriptor": lambda: dict(filterDesc=NEW(), dataType=E(0), format=E(0), **FOUR),
    "getFilter4dDescriptor": lambda: dict(filterDesc=DESC),
    "setFilter4dDescriptor_v3": lambda: dict(filterDesc=NEW(), dataType=E(0), **FOUR),
    "getFilter4dDescriptor_v3": lambda: dict(filterDesc=DESC),
    "setFilterNdDescriptor": lambda: dict(filterDesc=NEW(), dataType=E(0), format=E(0), **ND),
    "getFilterNdDescriptor": lambda: dict(wDesc=DESC, nbDimsRequested=4),
    "setFilterNdDescriptor_v3": lambda: dict(filterDesc=NEW(), dataType=E(0), **ND),
    "getFilterNdDescriptor_v3": lambda: dict(wDesc=DESC, nbDimsRequested=4),
    "destroyFilterDescriptor": lambda: dict(filterDesc=NEW()),
}
ROWS = [row for v in ("", "_v3") for row in [
    *((f"setFilter4dDescriptor{v}", f"`{name}` is below 1", {name: value}, BadParam,
       f": {name} must be >= 1; got {value}") for name in "kchw" for value in (0, -2)),
    (f"getFilter4dDescriptor{v}", "the rank is not 4", dict(filterDesc=filter_desc(4, 3, 3)), BadParam,
     "filterDesc must have rank 4; got 3"),
    (f"setFilterNdDescriptor{v}", "`nbDims` is below 3", dict(nbDims=2), BadParam,
     "nbDims must be >= 3; got 2"),
    (f"setFilterNdDescriptor{v}", "`nbDims` is above 8", dict(nbDims=9, filterDimA=(1,) * 9), NotSupported,
     "nbDims must be <= 8; got 9"),
    (f"setFilterNdDescriptor{v}", "a dim is below 1", dict(filterDimA=(1, 0, 1)), BadParam,
     r"filterDimA must be >= 1; got \(1, 0, 1\)"),
    (f"setFilterNdDescriptor{v}", "the array is shorter than `nbDims`", dict(filterDimA=(1,)), ValueError,
     "filterDimA must have at least 3 entries"),
    (f"setFilterNdDescriptor{v}", "the array is an address", dict(filterDimA=4711), TypeError,
     "filterDimA must be a sequence of ints"),
    (f"getFilterNdDescriptor{v}", "`nbDimsRequested` is negative", dict(nbDimsRequested=-1), BadParam,
     "nbDimsRequested must be >= 0; got -1")]]
