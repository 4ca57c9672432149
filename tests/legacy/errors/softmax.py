"""Softmax: 3.10."""
import numpy as np

from cydnn.status import BadParam, NotSupported

from ..arrays import HALF, tensor_desc as T
from . import NUMPY, E

D, NHWC, OTHER, AS_HALF = T(2, 3, 4, 5), T(2, 3, 4, 5, layout="nhwc"), T(2, 3, 5, 4), T(2, 3, 4, 5,
                                                                                        dtype=HALF)
TIGHT = T(2, 3, 4, 5, strides=(0, 20, 5, 1))
GAPS = T(1, 1, 2, 2, 2, 2, strides=(64, 64, 32, 16, 8, 2))
BUFFER, WIDE = np.ones(120, np.float32), np.ones(240, np.float32)
new = lambda: np.ones(120, np.float32)
FORWARD, BACKWARD = "softmaxForward", "softmaxBackward"
GOOD = {
    FORWARD: lambda: dict(handle=NUMPY, algorithm=E(1), mode=E(1), alpha=1.0, xDesc=D, x=new(), beta=0.0,
                          yDesc=D,
                          y=new()),
    BACKWARD: lambda: dict(handle=NUMPY, algorithm=E(1), mode=E(1), alpha=1.0, yDesc=D, y=new(), dyDesc=D,
                           dy=new(), beta=0.0, dxDesc=D, dx=new()),
}
ROWS = [
    (FORWARD, "dims differ", dict(yDesc=OTHER), BadParam,
     r"yDesc must have dims \(2, 3, 4, 5\) like xDesc; got"),
    (FORWARD, "types differ", dict(yDesc=AS_HALF), BadParam,
     "yDesc must have data type f32 like xDesc; got f16"),
    (FORWARD, "in place with other strides", dict(yDesc=NHWC, x=BUFFER, y=BUFFER), BadParam,
     "must not overlap"),
    (FORWARD, "y overlaps itself", dict(yDesc=TIGHT), NotSupported, "yDesc must not overlap itself"),
    (FORWARD, "rank above 5, and spatial dims with gaps", dict(xDesc=GAPS, yDesc=GAPS, x=WIDE), NotSupported,
     "xDesc must be packed in its spatial dims"),
    *((BACKWARD, f"dims of y and {name} differ", {f"{name}Desc": OTHER}, BadParam,
       f"{name}Desc must have dims")
      for name in ("dy", "dx")),
    (BACKWARD, "strides of y and dy differ", dict(dyDesc=NHWC), BadParam,
     "dyDesc must have strides .* like yDesc"),
    *((BACKWARD, f"types of y and {name} differ", {f"{name}Desc": AS_HALF}, BadParam,
       f"{name}Desc must have data type f32 like yDesc; got f16") for name in ("dy", "dx")),
    (BACKWARD, "in place with other strides", dict(dxDesc=NHWC, dx=BUFFER, dy=BUFFER), BadParam,
     "must not overlap"),
    (BACKWARD, "dx is y", dict(dx=BUFFER, y=BUFFER), BadParam, "must not overlap"),
    (BACKWARD, "rank above 5, and spatial dims with gaps", dict(yDesc=GAPS, dyDesc=GAPS, dxDesc=GAPS, y=WIDE,
                                                                dy=WIDE, dx=np.ones(240, np.float32)),
     NotSupported, "yDesc must be packed in its spatial dims"),
    (BACKWARD, "dx overlaps itself", dict(dxDesc=TIGHT), NotSupported, "dxDesc must not overlap itself"),
]
