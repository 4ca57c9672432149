"""Divisive normalization: 3.14."""
import numpy as np

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from ..arrays import HALF, tensor_desc as T
from . import NUMPY, E

NORM, D = c.createLRNDescriptor(), T(2, 3, 4, 5)
TIGHT, THREE, SIX = T(2, 3, 4, 5, strides=(0, 20, 5, 1)), T(2, 3, 4), T(1, 2, 1, 1, 1, 1)
NHWC = T(2, 3, 4, 5, layout="nhwc")
BUFFER = np.ones(120, np.float32)
new = lambda: np.ones(120, np.float32)
FORWARD, BACKWARD = "divisiveNormalizationForward", "divisiveNormalizationBackward"
GOOD = {
    FORWARD: lambda: dict(handle=NUMPY, normDesc=NORM, mode=E(0), alpha=1.0, xDesc=D, x=new(), means=None,
                          temp=new(), temp2=new(), beta=0.0, yDesc=D, y=new()),
    BACKWARD: lambda: dict(handle=NUMPY, normDesc=NORM, mode=E(0), alpha=1.0, xDesc=D, x=new(), means=None,
                           dy=new(), temp=new(), temp2=new(), beta=0.0, dxDesc=D, dx=new(), dMeans=None),
}
OUT = {FORWARD: ("yDesc", "y"), BACKWARD: ("dxDesc", "dx")}
ROWS = [
    *((f, f"the rank is {rank}", {"xDesc": desc, out: desc}, BadParam,
       f"xDesc must have rank 4 or 5; got {rank}")
      for f, (out, _) in OUT.items() for rank, desc in ((3, THREE), (6, SIX))),
    *((f, f"dims of xDesc and {out} differ", {out: T(2, 3, 5, 4)}, BadParam,
       f"{out} must have dims .* like xDesc; got") for f, (out, _) in OUT.items()),
    *((f, f"types of xDesc and {out} differ", {out: T(2, 3, 4, 5, dtype=HALF)}, BadParam,
       f"{out} must have data type f32 like xDesc; got f16") for f, (out, _) in OUT.items()),
    *((f, f"strides of xDesc and {out} differ", {out: NHWC}, NotSupported,
       f"{out} must have strides .* like xDesc; got") for f, (out, _) in OUT.items()),
    *((f, f"{out} overlaps itself", {"xDesc": TIGHT, out: TIGHT}, NotSupported, "must not overlap itself")
      for f, (out, _) in OUT.items()),
    (FORWARD, "in place with other strides", dict(yDesc=NHWC, x=BUFFER, y=BUFFER), BadParam,
     "yDesc must have strides .* like xDesc; got"),
    (FORWARD, "in place without `temp2`", dict(x=BUFFER, y=BUFFER, temp2=0), BadParam,
     "temp2 must not be NULL"),
    (FORWARD, "in place without `alpha`", dict(x=BUFFER, y=BUFFER, alpha=None), BadParam,
     "alpha must not be NULL"),
    (BACKWARD, "in place", dict(x=BUFFER, dx=BUFFER), BadParam, "must not overlap"),
]
