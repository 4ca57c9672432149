"""Dropout: 3.17."""
import numpy as np

from cydnn import cudnn as c
from cydnn.status import BadParam, InvalidValue, NotSupported

from ..arrays import HALF, tensor_desc as T
from . import NUMPY

D, TIGHT, NHWC = T(2, 3, 4, 5), T(2, 3, 4, 5, strides=(0, 20, 5, 1)), T(2, 3, 4, 5, layout="nhwc")
STATES, RESERVE = c.dropoutGetStatesSize(NUMPY), c.dropoutGetReserveSpaceSize(D)
MEMORY, BUFFER = np.zeros(STATES, np.uint8), np.ones(120, np.float32)
new, reserve = lambda: np.ones(120, np.float32), lambda: np.zeros(RESERVE, np.uint8)
NEW, DROPOUT = c.createDropoutDescriptor, c.createDropoutDescriptor()
c.setDropoutDescriptor(DROPOUT, NUMPY, 0.5, MEMORY, STATES, 1)
STATELESS = NEW()
c.setDropoutDescriptor(STATELESS, NUMPY, 0.5, 0, 0, 0)
FORWARD, BACKWARD = "dropoutForward", "dropoutBackward"
GOOD = {
    "createDropoutDescriptor": dict,
    "destroyDropoutDescriptor": lambda: dict(dropoutDesc=NEW()),
    "dropoutGetStatesSize": lambda: dict(handle=NUMPY),
    "dropoutGetReserveSpaceSize": lambda: dict(xDesc=D),
    "setDropoutDescriptor": lambda: dict(dropoutDesc=NEW(), handle=NUMPY, dropout=0.5,
                                         states=MEMORY.ctypes.data,
                                         stateSizeInBytes=STATES, seed=7),
    FORWARD: lambda: dict(handle=NUMPY, dropoutDesc=DROPOUT, xDesc=D, x=new(), yDesc=D, y=new(),
                          reserveSpace=reserve(), reserveSpaceSizeInBytes=RESERVE),
    BACKWARD: lambda: dict(handle=NUMPY, dropoutDesc=DROPOUT, dyDesc=D, dy=new(), dxDesc=D, dx=new(),
                           reserveSpace=reserve(), reserveSpaceSizeInBytes=RESERVE),
}
ROWS = [
    *(("setDropoutDescriptor", "`dropout` is not in 0 to 1", dict(dropout=p), BadParam,
       f"dropout must be in 0 to 1; got {p}") for p in (-0.1, 1.5)),
    ("setDropoutDescriptor", "`dropout` is no number", dict(dropout="half"), TypeError,
     "dropout must be a number; got 'half'"),
    ("setDropoutDescriptor", "`stateSizeInBytes` is too small", dict(stateSizeInBytes=STATES - 1),
     InvalidValue,
     f"stateSizeInBytes must be at least {STATES}, .*; got {STATES - 1}"),
    ("setDropoutDescriptor", "`seed` has more than 64 bits", dict(seed=2 ** 64), BadParam,
     "seed must have at most 64 bits; got 18446744073709551616"),
    ("setDropoutDescriptor", "`seed` is negative", dict(seed=-1), BadParam,
     r"seed must be in 0 to 2\*\*64 - 1; got -1"),
    ("setDropoutDescriptor", "`states` is not aligned to 8 bytes", dict(states=MEMORY.ctypes.data + 4),
     BadParam,
     "states: pointer must be aligned to 8 bytes"),
    ("setDropoutDescriptor", "`states` is no pointer", dict(states="here"), BadParam, "must be .*; got str"),
    *((f, "the descriptor has no states", dict(dropoutDesc=STATELESS), BadParam,
       "dropoutDesc must have states; got a dropout descriptor that was never given any")
      for f in (FORWARD, BACKWARD)),
    *((f, "the numbers of elements differ", {name: T(2, 3, 4, 6)}, BadParam,
       f"{name} must have 120 elements like {like}; got 144") for f, name, like in (
           (FORWARD, "yDesc", "xDesc"), (BACKWARD, "dxDesc", "dyDesc"))),
    *((f, "types differ", {name: T(2, 3, 4, 5, dtype=HALF)}, BadParam,
       f"{name} must have data type f32 like .*; got f16") for f, name in ((FORWARD, "yDesc"),
                                                                           (BACKWARD, "dxDesc"))),
    *((f, "the output overlaps itself", {name: TIGHT}, NotSupported, f"{name} must not overlap itself")
      for f, name in ((FORWARD, "yDesc"), (BACKWARD, "dxDesc"))),
    *((f, "`reserveSpaceSizeInBytes` is too small", dict(reserveSpaceSizeInBytes=RESERVE - 1), BadParam,
       f"reserveSpaceSizeInBytes must be at least {RESERVE}, .*; got {RESERVE - 1}") for f in (FORWARD,
                                                                                               BACKWARD)),
    *((f, "in place with other strides", {desc: NHWC, into: BUFFER, out: BUFFER}, BadParam,
       "must not overlap")
      for f, desc, into, out in ((FORWARD, "yDesc", "x", "y"), (BACKWARD, "dxDesc", "dy", "dx"))),
]
