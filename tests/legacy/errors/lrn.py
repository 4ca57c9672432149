"""Local response normalization: 3.13."""
import numpy as np

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from ..arrays import HALF, tensor_desc as T
from . import NUMPY, E

NEW, NORM, D = c.createLRNDescriptor, c.createLRNDescriptor(), T(2, 3, 4, 5)
TIGHT, SIX = T(2, 3, 4, 5, strides=(0, 20, 5, 1)), T(1, 2, 1, 1, 1, 1)
GAPS, FIVE = T(1, 2, 2, 2, 2, strides=(32, 16, 8, 4, 2)), T(1, 2, 2, 2, 2)
NHWC = T(2, 3, 4, 5, layout="nhwc")
BUFFER = np.ones(120, np.float32)
new = lambda: np.ones(120, np.float32)
FORWARD, BACKWARD = "LRNCrossChannelForward", "LRNCrossChannelBackward"
GOOD = {
    "createLRNDescriptor": dict,
    "setLRNDescriptor": lambda: dict(normDesc=NEW(), lrnN=5, lrnAlpha=1e-4, lrnBeta=0.75, lrnK=2.0),
    "getLRNDescriptor": lambda: dict(normDesc=NORM),
    "destroyLRNDescriptor": lambda: dict(lrnDesc=NEW()),
    FORWARD: lambda: dict(handle=NUMPY, normDesc=NORM, lrnMode=E(0), alpha=1.0, xDesc=D, x=new(), beta=0.0,
                          yDesc=D, y=new()),
    BACKWARD: lambda: dict(handle=NUMPY, normDesc=NORM, lrnMode=E(0), alpha=1.0, yDesc=D, y=new(), dyDesc=D,
                           dy=new(), xDesc=D, x=new(), beta=0.0, dxDesc=D, dx=new()),
}
DESCS = {FORWARD: ("xDesc", "yDesc"), BACKWARD: ("xDesc", "yDesc", "dyDesc", "dxDesc")}
ROWS = [
    *(("setLRNDescriptor", "`lrnN` is not 1 to 16", dict(lrnN=n), BadParam, f"lrnN must be 1 to 16; got {n}")
      for n in (0, 17)),
    ("setLRNDescriptor", "`lrnBeta` is below 0.01", dict(lrnBeta=0.009), BadParam,
     "lrnBeta must be >= 0.01; got 0.009"),
    ("setLRNDescriptor", "`lrnK` is below 1e-5", dict(lrnK=0.0), BadParam, "lrnK must be >= 1e-05; got 0.0"),
    ("setLRNDescriptor", "`lrnAlpha` is no number", dict(lrnAlpha="one"), TypeError,
     "lrnAlpha must be a number; got 'one'"),
    *((f, "the rank is above 5", dict.fromkeys(names, SIX), NotSupported,
       "xDesc must have rank 3 to 5; got 6")
      for f, names in DESCS.items()),
    *((f, f"dims of xDesc and {name} differ", {name: T(2, 3, 5, 4)}, NotSupported,
       f"{name} must have dims .* like xDesc; got") for f, names in DESCS.items() for name in names[1:]),
    *((f, f"types of xDesc and {name} differ", {name: T(2, 3, 4, 5, dtype=HALF)}, NotSupported,
       f"{name} must have data type f32 like xDesc; got f16") for f, names in DESCS.items()
      for name in names[1:]),
    *((f, "rank 5, and the spatial dims are not packed", {**dict.fromkeys(names, FIVE), "xDesc": GAPS},
       BadParam,
       "xDesc must be packed in its spatial dims, as its rank is 5") for f, names in DESCS.items()),
    *((f, f"{names[-1]} overlaps itself", {names[-1]: TIGHT}, NotSupported, "must not overlap itself")
      for f, names in DESCS.items()),
    (FORWARD, "in place with other strides", dict(yDesc=NHWC, x=BUFFER, y=BUFFER), BadParam,
     "must not overlap"),
    (BACKWARD, "in place with other strides", dict(dxDesc=NHWC, dy=BUFFER, dx=BUFFER), BadParam,
     "must not overlap"),
]
