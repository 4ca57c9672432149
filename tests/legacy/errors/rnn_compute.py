"""Recurrent networks, inference, training and gradients: 3.16."""
import numpy as np

from cydnn import cudnn as c
from cydnn.status import BadParam

from ..arrays import HALF, filter_desc as F, tensor_desc as T
from ..recurrent import CALLS
from .rnn import NET, NUMPY

DATA = {"RNNForwardInference": "x w y", "RNNForwardTraining": "x w y reserveSpace",
        "RNNBackwardData": "y dy w dx reserveSpace", "RNNBackwardWeights": "x y dw reserveSpace"}
STATELESS, RNN_STATELESS = c.createDropoutDescriptor(), c.createRNNDescriptor()
c.setDropoutDescriptor(STATELESS, NUMPY, 0.5, None, 0, 0)
c.setRNNDescriptor(RNN_STATELESS, 3, 2, STATELESS, 0, 1, 2, 0)


def arguments(call):
    arrays = {name: NET.reserve if name == "reserveSpace" else NET.t[name].stored
              for name in DATA[call].split()}
    return NET.arguments(call, **arrays)


GOOD = {call: lambda call=call: arguments(call) for call in CALLS}
SEQUENCES = {call: [n for n in words.split() if n in ("xDesc", "yDesc", "dyDesc", "dxDesc")]
             for call, words in CALLS.items()}
STATE = {call: next(n for n in words.split() if n[:2] in ("hx", "dh") and n.endswith("Desc"))
         for call, words in CALLS.items()}
WITH_RESERVE = [call for call in CALLS if call != "RNNForwardInference"]
SPREAD = T(4, 3, 3, strides=(18, 6, 1))
NEED = c.getRNNTrainingReserveSize(NUMPY, NET.rnn, 3, NET.x_descs)


class Wanting(dict):
    """The answers of a handle whose networks need a workspace; those of the NumPy device need none."""
    def get(self, question, otherwise=None):
        return 1024


HUNGRY = c.create("numpy")
HUNGRY.answers = Wanting()
ROOM = c.getRNNWorkspaceSize(HUNGRY, NET.rnn, 3, NET.x_descs)
ROWS = [
    *((f, "`seqLength` is below 1", dict(seqLength=0), BadParam, "seqLength must be >= 1; got 0")
      for f in CALLS),
    *((f, f"`{name}` is an address", {name: 4096}, TypeError,
       f"{name} must be a sequence of tensor descriptors, not an address; got 4096")
      for f, names in SEQUENCES.items() for name in names),
    *((f, f"`{name}` has fewer descriptors than steps", {name: [T(3, 4, 1)]}, BadParam,
       f"{name} must have at least seqLength = 3 descriptors; got 1")
      for f, names in SEQUENCES.items() for name in names),
    *((f, f"the batch of `{name}` grows over time", {name: [T(3, 4, 1), T(4, 4, 1), T(2, 4, 1)]}, BadParam,
       rf"{name}\[1\] must have a batch <= 3, that of the step before") for f, names in SEQUENCES.items()
      for name in names),
    *((f, "`yDesc` has not the width of the network", dict(yDesc=[T(3, 5, 1), T(3, 5, 1), T(2, 5, 1)]),
       BadParam,
       "yDesc must have second dim 6 as the network has; got 5") for f in CALLS),
    *((f, "a state has not the dims of the network", {name: T(4, 3, 5)}, BadParam,
       f"{name} must have dims .* or .*; got") for f, name in STATE.items()),
    *((f, "a state is not fully packed", {name: SPREAD}, BadParam,
       f"{name} must be fully packed; got strides")
      for f, name in STATE.items()),
    *((f, "a state has another type", {name: T(4, 3, 3, dtype=HALF)}, BadParam,
       f"{name} must have data type f32; got f16") for f, name in STATE.items()),
    *((f, "states have several layouts", dict(cxDesc=T(2, 3, 6)), BadParam,
       "must have dims .* like the other states; got") for f in ("RNNForwardInference", "RNNForwardTraining",
                                                                "RNNBackwardData")),
    *((f, "the descriptor of the weights has not their size", {name: F(7, 1, 1)}, BadParam,
       f"{name} must have dims .* in format NCHW; got") for f, name in (
           ("RNNForwardInference", "wDesc"), ("RNNForwardTraining", "wDesc"), ("RNNBackwardData", "wDesc"),
           ("RNNBackwardWeights", "dwDesc"))),
    *((f, "the reserve is too small", dict(reserveSpaceSizeInBytes=NEED - 1), BadParam,
       f"reserveSpaceSizeInBytes must be at least {NEED}, as getRNNTrainingReserveSize says; got {NEED - 1}")
      for f in WITH_RESERVE),
    *((f, "the workspace is too small", dict(handle=HUNGRY, workSpaceSizeInBytes=ROOM - 1), BadParam,
       f"workspace must have at least {ROOM} bytes, as getRNNWorkspaceSize says; got {ROOM - 1}")
      for f in CALLS),
    *((f, "`workspace` is NULL, and some is needed", dict(handle=HUNGRY, workspace=None), BadParam,
       f"workspace must have at least {ROOM} bytes") for f in CALLS),
    ("RNNForwardTraining", "dropout between layers, and its descriptor has no states",
     dict(rnnDesc=RNN_STATELESS, reserveSpace=np.zeros(1 << 16, np.uint8), reserveSpaceSizeInBytes=1 << 16),
     BadParam, "dropoutDesc of rnnDesc must have states; got a dropout descriptor that was never given any"),
]
