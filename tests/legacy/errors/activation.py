"""Activation: 3.12."""
import numpy as np

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from ..arrays import HALF, tensor_desc as T
from . import NUMPY, E

NEW, RELU = c.createActivationDescriptor, c.createActivationDescriptor()
c.setActivationDescriptor(RELU, 1, 0, 0.0)
D, NHWC, OTHER, AS_HALF = T(2, 3, 4, 5), T(2, 3, 4, 5, layout="nhwc"), T(2, 3, 5, 4), T(2, 3, 4, 5,
                                                                                        dtype=HALF)
GAPS = T(1, 1, 2, 2, 2, 2, strides=(64, 64, 32, 16, 8, 2))
BUFFER, WIDE = np.ones(120, np.float32), np.ones(240, np.float32)
new = lambda: np.ones(120, np.float32)
FORWARD, BACKWARD = ("activationForward", "activationForward_v3"), ("activationBackward",
                                                                    "activationBackward_v3")
OF = {"": lambda: dict(activationDesc=RELU), "_v3": lambda: dict(mode=E(1))}
GOOD = {
    "createActivationDescriptor": dict,
    "setActivationDescriptor": lambda: dict(activationDesc=NEW(), mode=E(1), reluNanOpt=E(0),
                                            reluCeiling=0.0),
    "getActivationDescriptor": lambda: dict(activationDesc=RELU),
    "destroyActivationDescriptor": lambda: dict(activationDesc=NEW()),
    **{f"activationForward{v}": lambda own=own: dict(
        handle=NUMPY, **own(), alpha=1.0, xDesc=D, x=new(), beta=0.0, yDesc=D, y=new()) for v,
       own in OF.items()},
    **{f"activationBackward{v}": lambda own=own: dict(
        handle=NUMPY, **own(), alpha=1.0, yDesc=D, y=new(), dyDesc=D, dy=new(), xDesc=D, x=new(), beta=0.0,
        dxDesc=D, dx=new()) for v, own in OF.items()},
}
ROWS = [
    ("setActivationDescriptor", "`reluCeiling` is no number", dict(reluCeiling="six"), TypeError,
     "reluCeiling must be a number; got 'six'"),
    *((f, "dims differ", dict(yDesc=OTHER), BadParam, r"yDesc must have dims \(2, 3, 4, 5\) like xDesc; got")
      for f in FORWARD),
    *((f, "types differ", dict(yDesc=AS_HALF), BadParam, "yDesc must have data type f32 like xDesc; got f16")
      for f in FORWARD),
    *((f, "in place with other strides", dict(yDesc=NHWC, x=BUFFER, y=BUFFER), BadParam, "must not overlap")
      for f in FORWARD),
    *((f, "rank above 5, and spatial dims with gaps", dict(xDesc=GAPS, yDesc=GAPS, x=WIDE), NotSupported,
       "xDesc must be packed in its spatial dims") for f in FORWARD),
    *((f, "y overlaps itself", dict(yDesc=T(2, 3, 4, 5, strides=(0, 20, 5, 1))), NotSupported,
       "yDesc must not overlap itself") for f in FORWARD),
    *((f, "`mode` is CLIPPED_RELU, which needs a ceiling", dict(mode=3), BadParam,
       "mode must not be CUDNN_ACTIVATION_CLIPPED_RELU") for f in (FORWARD[1], BACKWARD[1])),
    *((f, f"dims of y and {name} differ", {f"{name}Desc": OTHER}, NotSupported, f"{name}Desc must have dims")
      for f in BACKWARD for name in ("dy", "x", "dx")),
    *((f, f"types of y and {name} differ", {f"{name}Desc": AS_HALF}, NotSupported,
       f"{name}Desc must have data type f32 like yDesc; got f16") for f in BACKWARD for name in ("dy", "x",
                                                                                                 "dx")),
    *((f, "strides of y and dy differ", dict(dyDesc=NHWC), NotSupported, "dyDesc must have strides")
      for f in BACKWARD),
    *((f, "strides of x and dx differ", dict(dxDesc=NHWC), NotSupported, "dxDesc must have strides")
      for f in BACKWARD),
    *((f, "in place with other strides", dict(xDesc=NHWC, dxDesc=NHWC, dx=BUFFER, dy=BUFFER), BadParam,
       "must not overlap") for f in BACKWARD),
    *((f, "rank above 5, and spatial dims with gaps", dict(yDesc=GAPS, dyDesc=GAPS, xDesc=GAPS, dxDesc=GAPS,
                                                           y=WIDE,
                                                           dy=WIDE, x=WIDE, dx=np.ones(240, np.float32)),
       NotSupported, "yDesc must be packed in its spatial dims") for f in BACKWARD),
    *((f, "dx overlaps itself", dict(xDesc=T(2, 3, 4, 5, strides=(0, 20, 5, 1)),
                                     dxDesc=T(2, 3, 4, 5, strides=(0, 20, 5, 1))), NotSupported,
       "dxDesc must not overlap itself") for f in BACKWARD),
]
