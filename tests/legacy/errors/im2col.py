"""im2Col: v5.0.4."""
import numpy as np

from cydnn import cudnn as c
from cydnn.status import BadParam

from ..arrays import HALF, conv_desc, filter_desc, tensor_desc as T
from . import NUMPY

X, W, CONV = T(2, 3, 6, 7), filter_desc(4, 3, 3, 2), conv_desc()
GOOD = {
    "im2Col": lambda: dict(handle=NUMPY, xDesc=X, x=np.zeros(252, np.float32), wDesc=W, convDesc=CONV,
                           colBuffer=np.zeros(18 * 48, np.float32)),
}
ROWS = [("im2Col", condition, change, BadParam, words) for condition, change, words in [
    ("the rank of x is not 3 to 5",
     dict(xDesc=T(1, 3, 2, 2, 2, 2), wDesc=filter_desc(1, 3, 1, 1, 1, 1),
          convDesc=conv_desc((0,) * 4, (1,) * 4)),
     "xDesc must have rank 3 to 5; got 6"),
    ("c of the filter is not that of x", dict(wDesc=filter_desc(4, 2, 3, 2)),
     "wDesc must have c = 3 like xDesc; got 2"),
    ("ranks differ", dict(wDesc=filter_desc(4, 3, 3, 2, 2)), "wDesc must have rank 4 like xDesc; got 5"),
    ("the convolution has another number of spatial dims", dict(convDesc=conv_desc((0,) * 3, (1,) * 3)),
     "convDesc must have 2 spatial dims like xDesc; got 3"),
    ("the filter does not fit into the padded image", dict(wDesc=filter_desc(4, 3, 7, 2)),
     "wDesc must fit into the padded xDesc; got filter"),
    ("types differ", dict(wDesc=filter_desc(4, 3, 3, 2, dtype=HALF)),
     "wDesc must have data type f32 like xDesc; got f16"),
]]
