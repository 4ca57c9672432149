"""Tensor operations: 3.3 and 4.3."""
import numpy as np

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from ..arrays import DOUBLE, FLOAT, HALF, tensor_desc as T
from . import NUMPY, E


def op(compute=FLOAT):
    desc = c.createOpTensorDescriptor()
    c.setOpTensorDescriptor(desc, 0, compute, 0)
    return desc


NEW, ADD = c.createOpTensorDescriptor, op()
D, BIAS, OTHER, LOW = T(2, 3, 4, 5), T(1, 3, 1, 1), T(2, 3, 4, 6), T(2, 3, 4)
AS_HALF, AS_DOUBLE, SIX = T(2, 3, 4, 5, dtype=HALF), T(2, 3, 4, 5, dtype=DOUBLE), T(*(1,) * 6)
TIGHT, NHWC = T(2, 3, 4, 5, strides=(0, 20, 5, 1)), T(2, 3, 4, 5, layout="nhwc")
BUFFER = np.ones(240, np.float32)
new = lambda: np.ones(240, np.float32)
GOOD = {
    "createOpTensorDescriptor": dict,
    "setOpTensorDescriptor": lambda: dict(opTensorDesc=NEW(), opTensorOp=E(0), opTensorCompType=E(0),
                                          opTensorNanOpt=E(0)),
    "getOpTensorDescriptor": lambda: dict(opTensorDesc=ADD),
    "destroyOpTensorDescriptor": lambda: dict(opTensorDesc=NEW()),
    "transformTensor": lambda: dict(handle=NUMPY, alpha=1.0, xDesc=D, x=new(), beta=0.0, yDesc=D, y=new()),
    "addTensor": lambda: dict(handle=NUMPY, alpha=1.0, aDesc=BIAS, A=new(), beta=1.0, cDesc=D, C=new()),
    "opTensor": lambda: dict(handle=NUMPY, opTensorDesc=ADD, alpha1=1.0, aDesc=D, A=new(), alpha2=1.0,
                             bDesc=BIAS,
                             B=new(), beta=0.0, cDesc=D, C=new()),
    "setTensor": lambda: dict(handle=NUMPY, yDesc=D, y=new(), value=1.0),
    "scaleTensor": lambda: dict(handle=NUMPY, yDesc=D, y=new(), alpha=1.0),
}
ROWS = [
    ("transformTensor", "dims differ", dict(yDesc=OTHER), BadParam,
     "yDesc must have dims .* like xDesc; got"),
    ("transformTensor", "ranks differ", dict(yDesc=LOW), BadParam, "yDesc must have dims .* like xDesc; got"),
    ("transformTensor", "types differ", dict(yDesc=AS_HALF), BadParam,
     "yDesc must have data type f32 like xDesc; got f16"),
    ("transformTensor", "in place", dict(x=BUFFER, y=BUFFER), BadParam, "must not overlap"),
    ("transformTensor", "y overlaps itself", dict(yDesc=TIGHT), NotSupported,
     "yDesc must not overlap itself"),
    ("addTensor", "a dim of A neither matches nor is 1", dict(aDesc=T(2, 3, 4, 2)), BadParam,
     "aDesc must have dims equal to those of cDesc .* or 1; got"),
    ("addTensor", "A is larger than C", dict(aDesc=D, cDesc=T(1, 3, 4, 5)), BadParam,
     "aDesc must have dims equal"),
    ("addTensor", "ranks differ", dict(aDesc=T(1, 3, 1)), BadParam,
     "aDesc must have rank 4 like cDesc; got 3"),
    ("addTensor", "types differ", dict(aDesc=AS_HALF), BadParam,
     "aDesc must have data type f32 like cDesc; got f16"),
    ("addTensor", "rank above 5", dict(aDesc=SIX, cDesc=SIX), NotSupported,
     "cDesc must have rank <= 5; got 6"),
    ("addTensor", "C overlaps itself", dict(cDesc=TIGHT), NotSupported, "cDesc must not overlap itself"),
    ("addTensor", "in place with other strides", dict(aDesc=NHWC, A=BUFFER, C=BUFFER), BadParam,
     "must not overlap"),
    ("opTensor", "dims of A and C differ", dict(aDesc=BIAS), BadParam,
     "aDesc must have dims .* like cDesc; got"),
    ("opTensor", "a dim of B neither matches nor is 1", dict(bDesc=T(2, 3, 4, 2)), BadParam,
     "bDesc must have dims equal to those of cDesc .* or 1; got"),
    ("opTensor", "ranks of B and C differ", dict(bDesc=T(1, 3, 1)), BadParam,
     "bDesc must have rank 4 like cDesc; got 3"),
    ("opTensor", "types of A and B differ", dict(bDesc=T(1, 3, 1, 1, dtype=HALF)), BadParam,
     "bDesc must have data type f32 like aDesc; got f16"),
    ("opTensor", "C is DOUBLE and A and B are not", dict(cDesc=AS_DOUBLE, opTensorDesc=op(DOUBLE)), BadParam,
     "must all be DOUBLE or none; got f32, f32, f64"),
    ("opTensor", "A and B are DOUBLE and C is not",
     dict(aDesc=AS_DOUBLE, bDesc=T(1, 3, 1, 1, dtype=DOUBLE)), BadParam,
     "must all be DOUBLE or none; got f64, f64, f32"),
    ("opTensor", "rank above 5", dict(aDesc=SIX, bDesc=SIX, cDesc=SIX), NotSupported, "rank <= 5; got 6"),
    *(("opTensor", f"`opTensorCompType` is {name} for a C of FLOAT", dict(opTensorDesc=op(number)),
       NotSupported,
       "opTensorCompType must be f32 for a C of f32; got") for name, number in (("DOUBLE", DOUBLE),
                                                                                ("HALF", HALF))),
    ("opTensor", "C is B and not A", dict(bDesc=D, B=BUFFER, C=BUFFER), BadParam,
     "B must not be C, unless A is C too"),
    ("opTensor", "A is C with other strides", dict(aDesc=NHWC, A=BUFFER, C=BUFFER), BadParam,
     "must not overlap"),
    ("opTensor", "C overlaps itself", dict(cDesc=TIGHT), NotSupported, "cDesc must not overlap itself"),
    *((f, "y overlaps itself", dict(yDesc=TIGHT), NotSupported, "yDesc must not overlap itself")
      for f in ("setTensor", "scaleTensor")),
    *((f, f"`{name}` is no number", {name: "one"}, TypeError, f"{name} must be a number; got 'one'")
      for f, name in (("setTensor", "value"), ("scaleTensor", "alpha"))),
    ("scaleTensor", "`y` is not aligned to an element", dict(y=BUFFER.ctypes.data + 2), BadParam,
     "y: pointer must be aligned to 4 bytes"),
    ("scaleTensor", "`y` is no pointer", dict(y="text"), BadParam, "y must be a pointer: .*; got str"),
    ("scaleTensor", "`y` is no address", dict(y=2 ** 70), BadParam,
     "y must be an address; got 1180591620717411303424"),
    ("scaleTensor", "`handle` is no handle", dict(handle="cuda"), TypeError,
     "handle must be a library handle; got 'cuda'"),
    ("scaleTensor", "an array is too short", dict(y=np.ones(3, np.float32)), BadParam,
     "y: array must have at least 480 bytes"),
]
