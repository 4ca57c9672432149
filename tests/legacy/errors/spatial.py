"""The spatial transformer: 3.18."""
import numpy as np

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from ..arrays import FLOAT, HALF, tensor_desc as T
from . import NUMPY, E

OUT, IMAGE = (2, 3, 5, 4), (2, 3, 6, 7)
NEW = c.createSpatialTransformerDescriptor


def made(*dims):
    desc = NEW()
    c.setSpatialTransformerNdDescriptor(desc, 0, FLOAT, len(dims), dims)
    return desc


ST, FIVE, X, Y = made(*OUT), made(*OUT, 3), T(*IMAGE), T(*OUT)
zeros = lambda count: np.zeros(count, np.float32)
theta, grid, image, out = (lambda: zeros(12)), (lambda: zeros(80)), (lambda: zeros(252)), (lambda: zeros(120))
SET = "setSpatialTransformerNdDescriptor"
GRID, DGRID = "spatialTfGridGeneratorForward", "spatialTfGridGeneratorBackward"
FORWARD, BACKWARD = "spatialTfSamplerForward", "spatialTfSamplerBackward"
GOOD = {
    "createSpatialTransformerDescriptor": dict,
    "destroySpatialTransformerDescriptor": lambda: dict(stDesc=NEW()),
    SET: lambda: dict(stDesc=NEW(), samplerType=E(0), dataType=E(FLOAT), nbDims=4, dimA=OUT),
    GRID: lambda: dict(handle=NUMPY, stDesc=ST, theta=theta(), grid=grid()),
    DGRID: lambda: dict(handle=NUMPY, stDesc=ST, dgrid=grid(), dtheta=theta()),
    FORWARD: lambda: dict(handle=NUMPY, stDesc=ST, alpha=1.0, xDesc=X, x=image(), grid=grid(), beta=0.0,
                          yDesc=Y, y=out()),
    BACKWARD: lambda: dict(handle=NUMPY, stDesc=ST, alpha=1.0, xDesc=X, x=image(), beta=0.0, dxDesc=X,
                           dx=image(), alphaDgrid=1.0, dyDesc=Y, dy=out(), grid=grid(), betaDgrid=0.0,
                           dgrid=grid()),
}
BOTH = ((FORWARD, "yDesc"), (BACKWARD, "dyDesc"))
ROWS = [
    (SET, "`nbDims` is less than 4", dict(nbDims=3), BadParam, "nbDims must be >= 4; got 3"),
    (SET, "`nbDims` is more than 8", dict(nbDims=9), NotSupported, "nbDims must be <= 8; got 9"),
    (SET, "`dimA` is NULL", dict(dimA=None), BadParam, "dimA must not be NULL"),
    (SET, "`dimA` is an address", dict(dimA=4711), TypeError,
     "dimA must be a sequence of ints, .*; got 4711"),
    (SET, "`dimA` is too short", dict(dimA=(2, 3)), ValueError,
     r"dimA must have at least 4 entries; got \(2, 3\)"),
    (SET, "a dim is less than 1", dict(dimA=(2, 3, 0, 4)), BadParam,
     r"dimA must be >= 1; got \(2, 3, 0, 4\)"),
    *((f, "the descriptor has more than 4 dims", dict(stDesc=FIVE), NotSupported,
       "stDesc must have 4 dims; got 5") for f in (GRID, DGRID, FORWARD, BACKWARD)),
    *((f, "dims of the output are not those of the descriptor", {name: T(2, 3, 5, 5)}, BadParam,
       rf"{name} must have dims \(2, 3, 5, 4\) like stDesc; got \(2, 3, 5, 5\)") for f, name in BOTH),
    *((f, "n and c of x are not those of the descriptor", dict(xDesc=T(2, 4, 6, 7)), BadParam,
       r"xDesc must have rank 4, n and c \(2, 3\) like stDesc; got \(2, 4, 6, 7\)") for f, _ in BOTH),
    *((f, "the rank of x is not 4", dict(xDesc=T(2, 3, 6)), BadParam, "xDesc must have rank 4")
      for f, _ in BOTH),
    *((f, f"the type of `{d}` is not that of the descriptor", {d: T(*dims, dtype=HALF)}, BadParam,
       f"{d} must have data type f32 like stDesc; got f16")
      for f, name in BOTH for d, dims in ((name, OUT), ("xDesc", IMAGE))),
    (BACKWARD, "dims of dx are not those of x", dict(dxDesc=T(2, 3, 6, 6)), BadParam,
     r"dxDesc must have dims \(2, 3, 6, 7\) like xDesc; got \(2, 3, 6, 6\)"),
    (BACKWARD, "the type of `dxDesc` is not that of the descriptor", dict(dxDesc=T(*IMAGE, dtype=HALF)),
     BadParam, "dxDesc must have data type f32 like stDesc; got f16"),
    (FORWARD, "the output overlaps itself", dict(yDesc=T(*OUT, strides=(0, 20, 4, 1))), NotSupported,
     "yDesc must not overlap itself"),
    (BACKWARD, "the output overlaps itself", dict(dxDesc=T(*IMAGE, strides=(0, 42, 7, 1))), NotSupported,
     "dxDesc must not overlap itself"),
]
