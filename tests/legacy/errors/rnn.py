"""Recurrent networks, their sizes and weights: 3.16."""
from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from ..arrays import DOUBLE, FLOAT, HALF, NHWC, filter_desc as F, tensor_desc as T
from ..recurrent import LSTM, Network, dropout_desc
from . import NUMPY, E

NET = Network(NUMPY, LSTM, layers=2, bidirectional=True, batches=(3, 3, 2), p=0.5).train()
SKIP = c.createRNNDescriptor()
DROPOUT, _STATES = dropout_desc(NUMPY)
c.setRNNDescriptor(SKIP, 3, 1, DROPOUT, 1, 0, LSTM, FLOAT)
NEW, STEP, W = c.createRNNDescriptor, NET.x_descs[0], NET.t["w"]
X3, X2, WIDE = T(3, 4, 1), T(2, 4, 1), T(3, 5, 1)
SPREAD, FLAT, GROWN = T(3, 4, 1, strides=(8, 1, 1)), T(3, 2, 2), T(4, 4, 1)
SIZES = ("getRNNWorkspaceSize", "getRNNTrainingReserveSize")
PARTS = {"getRNNLinLayerMatrixParams": "linLayerMatDesc", "getRNNLinLayerBiasParams": "linLayerBiasDesc"}
GOOD = {
    "createRNNDescriptor": dict,
    "destroyRNNDescriptor": lambda: dict(rnnDesc=NEW()),
    "setRNNDescriptor": lambda: dict(rnnDesc=NEW(), hiddenSize=3, numLayers=2, dropoutDesc=DROPOUT,
                                     inputMode=E(0), direction=E(1), mode=E(2), dataType=E(0)),
    **{f: lambda: dict(handle=NUMPY, rnnDesc=NET.rnn, seqLength=3, xDesc=NET.x_descs) for f in SIZES},
    "getRNNParamsSize": lambda: dict(handle=NUMPY, rnnDesc=NET.rnn, xDesc=STEP, dataType=E(0)),
    **{f: lambda name=name: {"handle": NUMPY, "rnnDesc": NET.rnn, "layer": 0, "xDesc": STEP, "wDesc": W.desc,
                             "w": W.ptr, "linLayerID": 0, name: F(1, 1, 1)} for f, name in PARTS.items()},
}
MAY_BE_UNSET = [("setRNNDescriptor", "dropoutDesc"), *PARTS.items()]
ROWS = [
    *(("setRNNDescriptor", f"`{name}` is below 1", {name: 0}, BadParam, f"{name} must be >= 1; got 0")
      for name in ("hiddenSize", "numLayers")),
    *((f, "`seqLength` is below 1", dict(seqLength=0), BadParam, "seqLength must be >= 1; got 0")
      for f in SIZES),
    *((f, "there are fewer descriptors than steps", dict(seqLength=4), BadParam,
       "xDesc must have at least seqLength = 4 descriptors; got 3") for f in SIZES),
    *((f, "`xDesc` is an address", dict(xDesc=4096), TypeError,
       "xDesc must be a sequence of tensor descriptors, not an address; got 4096") for f in SIZES),
    *((f, condition, dict(xDesc=[X3, wrong, X2]), BadParam, words) for f in SIZES
      for condition, wrong, words in (
          ("a step is NULL", None, r"xDesc\[1\] must not be NULL"),
          ("a step is not set", c.createTensorDescriptor(), r"xDesc\[1\] must be set"),
          ("a step has not the dims (batch, width, 1)", FLAT,
           r"xDesc\[1\] must have dims \(batch, width, 1\)"),
          ("a step is not fully packed", SPREAD, r"xDesc\[1\] must be fully packed"),
          ("the steps have several widths", WIDE, r"xDesc\[1\] must have second dim 4 like xDesc\[0\]; got"),
          ("the batch grows over time", GROWN, r"xDesc\[1\] must have a batch <= 3, that of the step before"),
          ("the steps have several types", T(3, 4, 1, dtype=HALF),
           r"xDesc\[1\] must have data type f32 like xDesc\[0\]; got f16"))),
    *((f, "data and math type do not go together", dict(xDesc=[T(3, 4, 1, dtype=DOUBLE)] * 3), NotSupported,
       "xDesc must have a data type that dataType f32 of rnnDesc computes; got f64") for f in SIZES),
    ("getRNNParamsSize", "`dataType` is not that of xDesc", dict(dataType=HALF), BadParam,
     "dataType must be f32 like xDesc; got f16"),
    ("getRNNParamsSize", "`xDesc` is not fully packed", dict(xDesc=SPREAD), BadParam,
     "xDesc must be fully packed"),
    ("getRNNParamsSize", "`xDesc` has not the dims (batch, width, 1)", dict(xDesc=FLAT), BadParam,
     r"xDesc must have dims \(batch, width, 1\)"),
    *((f, "SKIP_INPUT, and the width is not hiddenSize", dict(rnnDesc=SKIP), NotSupported,
       "xDesc must have second dim 3 like hiddenSize, as inputMode is SKIP_INPUT; got 4")
      for f in (*SIZES, "getRNNParamsSize")),
    *((f, f"`{name}` is out of range", {name: value}, BadParam, f"{name} must be in 0 to {most}; got {value}")
      for f in PARTS for name, most in (("layer", 3), ("linLayerID", 7)) for value in (-1, most + 1)),
    *((f, "`wDesc` has not the size of the weights", dict(wDesc=F(7, 1, 1)), BadParam,
       "wDesc must have dims .* in format NCHW; got") for f in PARTS),
    *((f, "`wDesc` has the format NHWC", dict(wDesc=F(NET.params, 1, 1, format=NHWC)), BadParam,
       "wDesc must have dims .* in format NCHW; got") for f in PARTS),
    *((f, "`wDesc` has another type than xDesc", dict(wDesc=F(NET.params, 1, 1, dtype=HALF)), BadParam,
       "wDesc must have data type f32; got f16") for f in PARTS),
]
