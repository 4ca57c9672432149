"""Recurrent networks, inference, training and gradients: 3.16."""
import numpy as np

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from ..arrays import DOUBLE, HALF, filter_desc as F, tensor_desc as T
from ..recurrent import CALLS, STATES
from .rnn import DROPOUT, NET, NUMPY

DATA = {"RNNForwardInference": "x w y", "RNNForwardTraining": "x w y reserveSpace",
        "RNNBackwardData": "y dy w dx reserveSpace", "RNNBackwardWeights": "x y dw reserveSpace"}
STATELESS, RNN_STATELESS = c.createDropoutDescriptor(), c.createRNNDescriptor()
c.setDropoutDescriptor(STATELESS, NUMPY, 0.5, None, 0, 0)
c.setRNNDescriptor(RNN_STATELESS, 3, 2, STATELESS, 0, 1, 2, 0)
IN_DOUBLE, SKIPPING = c.createRNNDescriptor(), c.createRNNDescriptor()
c.setRNNDescriptor(IN_DOUBLE, 3, 2, DROPOUT, 0, 1, 2, DOUBLE)
c.setRNNDescriptor(SKIPPING, 3, 2, DROPOUT, 1, 1, 2, 0)


def arguments(call):
    arrays = {name: NET.reserve if name == "reserveSpace" else NET.t[name].stored
              for name in DATA[call].split()}
    return NET.arguments(call, **arrays)


GOOD = {call: lambda call=call: arguments(call) for call in CALLS}
SEQUENCES = {call: [n for n in words.split() if n in ("xDesc", "yDesc", "dyDesc", "dxDesc")]
             for call, words in CALLS.items()}
STATE = {call: [n for n in words.split() if n.endswith("Desc") and n.removesuffix("Desc") in STATES]
         for call, words in CALLS.items()}
STEPS = [  # condition, the array from the descriptor of its first step, words
    ("fewer descriptors than steps", lambda d: [d],
     "{name} must have at least seqLength = 3 descriptors; got 1"),
    ("a step is NULL", lambda d: [d, None, d], r"{name}\[1\] must not be NULL"),
    ("a step is not set", lambda d: [d, c.createTensorDescriptor(), d], r"{name}\[1\] must be set"),
    ("a step has not the dims (batch, width, 1)", lambda d: [d, T(3, 2, 2), d],
     r"{name}\[1\] must have dims \(batch, width, 1\)"),
    ("a step is not fully packed", lambda d: [d, T(*d.fields.dims, strides=(16, 1, 1)), d],
     r"{name}\[1\] must be fully packed"),
    ("several widths", lambda d: [d, T(3, 9, 1), d],
     r"{name}\[1\] must have second dim . like {name}\[0\]; got"),
    ("the batch grows over time", lambda d: [d, T(4, *d.fields.dims[1:]), d],
     r"{name}\[1\] must have a batch <= 3, that of the step before"),
    ("several types", lambda d: [d, T(*d.fields.dims, dtype=HALF), d],
     r"{name}\[1\] must have data type f32 like {name}\[0\]; got f16"),
]
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
    *((f, f"`{name}`: {condition}", {name: wrong(first)}, BadParam, words.format(name=name))
      for f, names in SEQUENCES.items() for name in names for first in [NET.argument(name)[0]]
      for condition, wrong, words in STEPS),
    *((f, f"`{name}` has not the {what} of the network", {name: [T(3, 6, 1), *rest]}, BadParam,
       f"{name} must have {words} as the network has; got") for f, names in SEQUENCES.items()
      for name in names if name in ("yDesc", "dyDesc") for what, rest, words in (
          ("batches", [T(2, 6, 1), T(2, 6, 1)], r"batches \(3, 3, 2\)"),)),
    *((f, f"`{name}` has not the width of the network", {name: [T(3, 5, 1), T(3, 5, 1), T(2, 5, 1)]},
       BadParam,
       f"{name} must have second dim 6 as the network has; got 5") for f, names in SEQUENCES.items()
      for name in names if name in ("yDesc", "dyDesc")),
    *((f, f"`{name}` has another type than x", {name: [T(n, 6, 1, dtype=HALF) for n in (3, 3, 2)]}, BadParam,
       f"{name} must have data type f32 as the network has; got f16") for f, names in SEQUENCES.items()
      for name in names if name in ("yDesc", "dyDesc")),
    *((f, "data and math type do not go together", dict(rnnDesc=IN_DOUBLE), NotSupported,
       "must have a data type that dataType f64 of rnnDesc computes; got f32") for f in CALLS),
    *((f, "SKIP_INPUT, and the width is not hiddenSize", dict(rnnDesc=SKIPPING), NotSupported,
       "must have second dim 3 like hiddenSize, as inputMode is SKIP_INPUT; got 4") for f in CALLS),
    *((f, f"`{name}` {condition}", {name: wrong}, BadParam, f"{name} must {words}; got")
      for f, names in STATE.items() for name in names for condition, wrong, words in (
          ("has not the dims of the network", T(4, 3, 5), "have dims .* or .*"),
          ("is not fully packed", SPREAD, "be fully packed"),
          ("has another type", T(4, 3, 3, dtype=HALF), "have data type f32"),
          ("is not set", c.createTensorDescriptor(), "be set"))),
    *((f, f"`{name}` has not the dims of the network, and its array is NULL",
       {name: T(4, 3, 5), name.removesuffix("Desc"): None}, BadParam, f"{name} must have dims .* or .*; got")
      for f, names in STATE.items() for name in names),
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
