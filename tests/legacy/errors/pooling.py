"""Pooling: 3.11."""
import numpy as np

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from ..arrays import DOUBLE, HALF, tensor_desc as T
from . import NUMPY, E


def pool(window=(2, 2), pad=(0, 0), stride=(2, 2), mode=0):
    desc = c.createPoolingDescriptor()
    c.setPoolingNdDescriptor(desc, mode, 0, len(window), window, pad, stride)
    return desc


NEW, TWO, THREE = c.createPoolingDescriptor, pool(), pool((1,) * 3, (0,) * 3, (1,) * 3)
X, Y = T(2, 3, 6, 4), T(2, 3, 3, 2)
PLANE = dict(windowHeight=2, windowWidth=2, verticalPadding=0, horizontalPadding=0, verticalStride=2,
             horizontalStride=2)
ARRAYS = dict(nbDims=2, windowDimA=(2, 2), paddingA=(0, 0), strideA=(2, 2))
SHARED = np.ones(144, np.float32)
new = lambda count: np.ones(count, np.float32)
FORWARD, BACKWARD = "poolingForward", "poolingBackward"
GOOD = {
    "createPoolingDescriptor": dict,
    "setPooling2dDescriptor": lambda: dict(poolingDesc=NEW(), mode=E(0), maxpoolingNanOpt=E(0), **PLANE),
    "getPooling2dDescriptor": lambda: dict(poolingDesc=TWO),
    "setPoolingNdDescriptor": lambda: dict(poolingDesc=NEW(), mode=E(0), maxpoolingNanOpt=E(0), **ARRAYS),
    "getPoolingNdDescriptor": lambda: dict(poolingDesc=TWO, nbDimsRequested=2),
    "setPooling2dDescriptor_v3": lambda: dict(poolingDesc=NEW(), mode=E(0), **PLANE),
    "getPooling2dDescriptor_v3": lambda: dict(poolingDesc=TWO),
    "setPoolingNdDescriptor_v3": lambda: dict(poolingDesc=NEW(), mode=E(0), **ARRAYS),
    "getPoolingNdDescriptor_v3": lambda: dict(poolingDesc=TWO, nbDimsRequested=2),
    "destroyPoolingDescriptor": lambda: dict(poolingDesc=NEW()),
    "getPooling2dForwardOutputDim": lambda: dict(poolingDesc=TWO, inputDesc=X),
    "getPoolingNdForwardOutputDim": lambda: dict(poolingDesc=TWO, inputDesc=X, nbDims=4),
    FORWARD: lambda: dict(handle=NUMPY, poolingDesc=TWO, alpha=1.0, xDesc=X, x=new(144), beta=0.0, yDesc=Y,
                          y=new(36)),
    BACKWARD: lambda: dict(handle=NUMPY, poolingDesc=TWO, alpha=1.0, yDesc=Y, y=new(36), dyDesc=Y, dy=new(36),
                           xDesc=X, x=new(144), beta=0.0, dxDesc=X, dx=new(144)),
}
ROWS = [row for v in ("", "_v3") for row in [
    *((f"setPooling2dDescriptor{v}", f"`{name}` is below {low}", {name: low - 1}, BadParam,
       f"{word} must be >= {low}; got .*{low - 1}") for name, word, low in (
           ("windowHeight", "window", 1), ("windowWidth", "window", 1), ("verticalPadding", "padding", 0),
           ("horizontalPadding", "padding", 0), ("verticalStride", "stride", 1),
           ("horizontalStride", "stride", 1))),
    (f"getPooling2dDescriptor{v}", "it has not 2 spatial dims", dict(poolingDesc=THREE), BadParam,
     "poolingDesc must have 2 spatial dims; got 3"),
    (f"setPoolingNdDescriptor{v}", "`nbDims` is below 1", dict(nbDims=0), BadParam,
     "nbDims must be >= 1; got 0"),
    (f"setPoolingNdDescriptor{v}", "`nbDims` is above 8", dict(nbDims=9), NotSupported,
     "nbDims must be <= 8; got 9"),
    (f"setPoolingNdDescriptor{v}", "a window is below 1", dict(windowDimA=(1, 0)), BadParam,
     r"window must be >= 1; got \(1, 0\)"),
    (f"setPoolingNdDescriptor{v}", "a padding is negative", dict(paddingA=(0, -1)), BadParam,
     r"padding must be >= 0; got \(0, -1\)"),
    (f"setPoolingNdDescriptor{v}", "a stride is below 1", dict(strideA=(0, 1)), BadParam,
     r"stride must be >= 1; got \(0, 1\)"),
    (f"setPoolingNdDescriptor{v}", "an array is shorter than `nbDims`", dict(strideA=(1,)), ValueError,
     "strideA must have at least 2"),
    (f"setPoolingNdDescriptor{v}", "an array is an address", dict(windowDimA=4711), TypeError,
     "windowDimA must be a sequence"),
    (f"getPoolingNdDescriptor{v}", "`nbDimsRequested` is negative", dict(nbDimsRequested=-1), BadParam,
     "nbDimsRequested must be >= 0; got -1"),
    (f"getPoolingNdDescriptor{v}", "`nbDimsRequested` is above 8", dict(nbDimsRequested=9), NotSupported,
     "nbDimsRequested must be <= 8; got 9")]]
ROWS += [
    ("getPooling2dForwardOutputDim", "the pooling has not 2 spatial dims", dict(poolingDesc=THREE), BadParam,
     "poolingDesc must have 2 spatial dims; got 3"),
    ("getPooling2dForwardOutputDim", "the rank of the image is not 4", dict(inputDesc=T(2, 3, 6)), BadParam,
     "poolingDesc must have 1 spatial dims like inputDesc; got 2"),
    ("getPoolingNdForwardOutputDim", "`nbDims` is not the rank of the image", dict(nbDims=3), BadParam,
     "nbDims must be the rank 4 of inputDesc; got 3"),
    ("getPoolingNdForwardOutputDim", "the pooling has other spatial dims than the image",
     dict(poolingDesc=THREE), BadParam, "poolingDesc must have 2 spatial dims like inputDesc; got 3"),
    *((f, "the window is larger than the padded image", dict(poolingDesc=pool((7, 1))), BadParam,
       r"the window must fit into the padded inputDesc; got window \(7, 1\)")
      for f in ("getPooling2dForwardOutputDim", "getPoolingNdForwardOutputDim")),
    *((f, f"{what} of x and y differ", dict(yDesc=other, **({"dyDesc": other} if f == BACKWARD else {})),
       BadParam, r"yDesc must have dims \(2, 3, 3, 2\), the output of this pooling; got")
      for f in (FORWARD, BACKWARD) for what, other in (("n", T(1, 3, 3, 2)), ("c", T(2, 4, 3, 2)))),
    *((f, "y has not the output size", dict(yDesc=T(2, 3, 3, 3)), BadParam, "yDesc must have dims")
      for f in (FORWARD, BACKWARD)),
    *((f, "the window is larger than the padded image", dict(poolingDesc=pool((7, 1))), BadParam,
       "the window must fit into the padded xDesc") for f in (FORWARD, BACKWARD)),
    *((f, "the pooling has other spatial dims than the image", dict(poolingDesc=THREE), BadParam,
       "poolingDesc must have 2 spatial dims like xDesc; got 3") for f in (FORWARD, BACKWARD)),
    (FORWARD, "types differ", dict(yDesc=T(2, 3, 3, 2, dtype=HALF)), BadParam,
     "yDesc must have data type f32 like xDesc; got f16"),
    (FORWARD, "the rank is not 4 or 5", dict(poolingDesc=pool((2,), (0,), (2,)), xDesc=T(2, 3, 6),
                                             yDesc=T(2, 3, 3)), NotSupported,
     "xDesc must have rank 4 or 5; got 3"),
    (FORWARD, "y overlaps itself", dict(yDesc=T(2, 3, 3, 2, strides=(0, 6, 2, 1))), NotSupported,
     "yDesc must not overlap itself"),
    (FORWARD, "an output is an input", dict(x=SHARED, y=SHARED), BadParam, "must not overlap"),
    (BACKWARD, "an output is an input", dict(dx=SHARED, dy=SHARED), BadParam, "must not overlap"),
    (BACKWARD, "dims of y and dy differ", dict(dyDesc=T(2, 3, 3, 3)), BadParam, "dyDesc must have dims"),
    (BACKWARD, "strides of y and dy differ", dict(dyDesc=T(2, 3, 3, 2, layout="nhwc")), BadParam,
     "dyDesc must have strides .* like yDesc"),
    (BACKWARD, "dims of x and dx differ", dict(dxDesc=T(2, 3, 6, 6)), BadParam, "dxDesc must have dims"),
    (BACKWARD, "strides of x and dx differ", dict(dxDesc=T(2, 3, 6, 4, layout="nhwc")), BadParam,
     "dxDesc must have strides .* like xDesc"),
    *((BACKWARD, f"the type of {names} differs", {f"{n}Desc": T(*dims, dtype=DOUBLE)
                                                  for n in names.split(", ")},
       BadParam, f"{names.split(', ')[0]}Desc must have data type") for names, dims in
      (("y", (2, 3, 3, 2)), ("dy", (2, 3, 3, 2)), ("dx", (2, 3, 6, 4)))),
    (BACKWARD, "the rank is not 4 or 5", dict(poolingDesc=pool((2,), (0,), (2,)), xDesc=T(2, 3, 6),
                                              dxDesc=T(2, 3, 6), yDesc=T(2, 3, 3), dyDesc=T(2, 3, 3)),
     NotSupported, "xDesc must have rank 4 or 5; got 3"),
]
