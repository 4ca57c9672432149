"""Tensor descriptors: 3.2."""
from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from ..arrays import FLOAT, tensor_desc
from . import E

BIG = 2 ** 16
DESC, NEW = tensor_desc(2, 3, 4, 5), c.createTensorDescriptor
FLOATS, THREE = E(FLOAT), tensor_desc(1, 2, 3)
GOOD = {
    "createTensorDescriptor": dict,
    "setTensor4dDescriptor": lambda: dict(tensorDesc=NEW(), format=E(0), dataType=FLOATS, n=2, c=3, h=4, w=5),
    "setTensor4dDescriptorEx": lambda: dict(tensorDesc=NEW(), dataType=FLOATS, n=2, c=3, h=4, w=5,
                                            nStride=60, cStride=20, hStride=5, wStride=1),
    "getTensor4dDescriptor": lambda: dict(tensorDesc=DESC),
    "setTensorNdDescriptor": lambda: dict(tensorDesc=NEW(), dataType=FLOATS, nbDims=3, dimA=(2, 3, 4),
                                          strideA=(12, 4, 1)),
    "getTensorNdDescriptor": lambda: dict(tensorDesc=DESC, nbDimsRequested=4),
    "destroyTensorDescriptor": lambda: dict(tensorDesc=NEW()),
}
ROWS = [
    *((f, f"`{name}` is below 1", {name: value}, BadParam, f": {name} must be >= 1; got {value}")
      for f in ("setTensor4dDescriptor", "setTensor4dDescriptorEx") for name in "nchw" for value in (0, -1)),
    *(("setTensor4dDescriptorEx", f"`{name}` is negative", {name: -1}, BadParam,
       f": {name} must be >= 0; got -1")
      for name in ("nStride", "cStride", "hStride", "wStride")),
    ("setTensor4dDescriptor", "more than 2^31 elements from the first to the last", dict(n=BIG, c=BIG),
     NotSupported, r"at most 2\*\*31 elements from first to last; got \d+"),
    ("setTensor4dDescriptorEx", "more than 2^31 elements from the first to the last",
     dict(n=2, nStride=2 ** 31), NotSupported, r"at most 2\*\*31 elements from first to last; got \d+"),
    ("setTensor4dDescriptor", "a size is no integer", dict(n=1.5), TypeError,
     "n must be an int; got 1.5"),
    ("setTensor4dDescriptor", "`format` is no number", dict(format="x"), TypeError,
     "format must be a cudnnTensorFormat_t; got 'x'"),
    ("getTensor4dDescriptor", "the rank is not 4", dict(tensorDesc=THREE), BadParam,
     "tensorDesc must have rank 4; got 3"),
    ("setTensorNdDescriptor", "`nbDims` is below 3", dict(nbDims=2), BadParam, "nbDims must be >= 3; got 2"),
    ("setTensorNdDescriptor", "`nbDims` is above 8", dict(nbDims=9, dimA=(1,) * 9, strideA=(1,) * 9),
     NotSupported, "nbDims must be <= 8; got 9"),
    ("setTensorNdDescriptor", "a dim is below 1", dict(dimA=(1, 0, 1)), BadParam,
     r"dimA must be >= 1; got \(1, 0, 1\)"),
    ("setTensorNdDescriptor", "a stride is negative", dict(strideA=(1, -1, 1)), BadParam,
     r"strideA must be >= 0; got \(1, -1, 1\)"),
    ("setTensorNdDescriptor", "more than 2^31 elements from the first to the last",
     dict(dimA=(BIG, BIG, 1), strideA=(BIG, 1, 1)), NotSupported, r"at most 2\*\*31 elements"),
    ("setTensorNdDescriptor", "an array is shorter than `nbDims`", dict(dimA=(1, 1)), ValueError,
     "dimA must have at least 3 entries"),
    ("setTensorNdDescriptor", "an array is an address", dict(strideA=0x7F0000), TypeError,
     "strideA must be a sequence of ints, not an address"),
    ("setTensorNdDescriptor", "an entry is no integer", dict(dimA=(2, "3", 4)), TypeError,
     r"dimA must be a sequence of ints; got \(2, '3', 4\)"),
    ("getTensorNdDescriptor", "`nbDimsRequested` is negative", dict(nbDimsRequested=-1), BadParam,
     "nbDimsRequested must be >= 0; got -1"),
]
