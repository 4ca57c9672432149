"""Recurrent networks: descriptors, sizes, and where the weights lie: cudnnCreateRNNDescriptor to
cudnnGetRNNLinLayerBiasParams. Spec: legacy API, 3.16 and 4.12.

>>> import numpy as np
>>> from cydnn import cudnn
>>> handle, dropoutDesc, rnnDesc = (cudnn.create("numpy"), cudnn.createDropoutDescriptor(),
...                                 cudnn.createRNNDescriptor())
>>> cudnn.setDropoutDescriptor(dropoutDesc, handle, 0.0, None, 0, 0)
>>> cudnn.setRNNDescriptor(rnnDesc, 2, 1, dropoutDesc, cudnn.CUDNN_LINEAR_INPUT, cudnn.CUDNN_UNIDIRECTIONAL,
...                        cudnn.CUDNN_RNN_RELU, cudnn.CUDNN_DATA_FLOAT)
>>> step = cudnn.createTensorDescriptor()
>>> cudnn.setTensorNdDescriptor(step, cudnn.CUDNN_DATA_FLOAT, 3, (1, 2, 1), (2, 1, 1))
>>> steps = [step] * 3
>>> size = cudnn.getRNNParamsSize(handle, rnnDesc, step, cudnn.CUDNN_DATA_FLOAT)
>>> wDesc, w = cudnn.createFilterDescriptor(), np.ones(size // 4, np.float32)
>>> cudnn.setFilterNdDescriptor(wDesc, cudnn.CUDNN_DATA_FLOAT, cudnn.CUDNN_TENSOR_NCHW, 3, (size // 4, 1, 1))
"""
from __future__ import annotations

from typing import NamedTuple

from .._core import descriptor, pointer_of
from ..dtypes import BY_ENUM
from ..given import shown
from ..ops import RnnBwdData, RnnBwdWeights, RnnFwd
from ..status import BadParam, NotSupported, require
from .arguments import Holder, Kind, at_least, each, integer, public
from .call import Work, choose
from .dropout import DROPOUT
from .enums import CONSTANTS, DATA_TYPE, DIRECTION_MODE, RNN_INPUT_MODE, RNN_MODE
from .filter import FILTER, FilterFields
from .handle import HANDLE
from .tensor import TENSOR

NCHW = CONSTANTS["CUDNN_TENSOR_NCHW"]
BIDIRECTIONAL = CONSTANTS["CUDNN_BIDIRECTIONAL"]
MATH = dict(f32=("f32",), f64=("f64",), f16=("f32", "f16"), bf16=("f32", "bf16"))    # storage: maths that go
SLACK = 16                                       # a workspace may start at any element
MAX_ANSWERS = 4096


class RnnFields(NamedTuple):
    hidden: int
    layers: int
    input: int
    direction: int
    mode: int
    dtype: int

    def op(self, op_class, dtype, batches=(1,), dropout=0.0):
        """The operation of such a network; one layer has nothing to drop."""
        return op_class(cell=RNN_MODE.word(self.mode), hidden=self.hidden, layers=self.layers,
                        bidirectional=self.direction == BIDIRECTIONAL, batches=batches,
                        input=RNN_INPUT_MODE.word(self.input), compute=dtype.compute,
                        dropout=dropout if self.layers > 1 else 0.0)


class RNNDescriptor(Holder):
    """A recurrent network descriptor; ``dropout`` is its dropout descriptor, of which later changes count."""
    __slots__ = ("dropout",)

    @staticmethod
    def describe(fields) -> str:
        words = [RNN_MODE.word(fields.mode).lower(), f"hidden={fields.hidden}", f"layers={fields.layers}"]
        words += ["bidirectional"] if fields.direction == BIDIRECTIONAL else []
        words += ["skip"] if RNN_INPUT_MODE.word(fields.input) == "skip" else []
        return " ".join([*words, f"acc={BY_ENUM[fields.dtype]}"])


RNN = Kind("recurrent network descriptor", type_=RNNDescriptor)


class Sequence:
    """An array of tensor descriptors, one a step; ``steps`` looks at them."""

    def fields(self, function, argument, value):
        self.content(function, argument, value)

    def content(self, function, argument, value) -> tuple:
        try:
            if not isinstance(value, (int, str)):
                return tuple(value)
        except Exception:                        # its own __iter__ may raise anything
            pass
        raise TypeError(f"{function}: {argument} must be a sequence of tensor descriptors, not an address; "
                        f"got {shown(value)}")


SEQUENCE = Sequence()


def dropout_of(rnnDesc) -> tuple:
    """(the dropout descriptor of a network, address of the states that training with it reads, or 0)."""
    try:
        rnn = rnnDesc if type(rnnDesc) is RNNDescriptor else descriptor(rnnDesc)
        found = rnn.dropout
        return found, found.states if rnn.fields.layers > 1 and found.fields.p > 0 else 0
    except (AttributeError, BadParam):
        return None, 0                           # what is wrong is said where all rules are checked


# -- Rules ---------------------------------------------------------------------------------------------------

def steps(function, argument: str, count, values) -> tuple:
    """(batches, width, type) of an array of descriptors, one a step."""
    count = integer(function, "seqLength", count)
    require(count >= 1, f"{function}: seqLength must be >= 1; got {count}")
    require(len(values) >= count, f"{function}: {argument} must have at least seqLength = {count} "
                                  f"descriptors; got {len(values)}")
    found = [TENSOR.content(function, f"{argument}[{t}]", values[t]) for t in range(count)]
    for t, d in enumerate(found):
        is_matrix(function, f"{argument}[{t}]", d)
        require(d.dims[1] == found[0].dims[1], f"{function}: {argument}[{t}] must have second dim "
                f"{found[0].dims[1]} like {argument}[0]; got {d.dims}")
        require(d.dims[0] <= found[max(t - 1, 0)].dims[0], f"{function}: {argument}[{t}] must have a batch "
                f"<= {found[max(t - 1, 0)].dims[0]}, that of the step before; got {d.dims}")
        require(d.dtype is found[0].dtype, f"{function}: {argument}[{t}] must have data type "
                f"{found[0].dtype} like {argument}[0]; got {d.dtype}")
    return tuple([d.dims[0] for d in found]), found[0].dims[1], found[0].dtype


def is_matrix(function, argument: str, d) -> None:
    require(d.rank == 3 and d.dims[2] == 1,
            f"{function}: {argument} must have dims (batch, width, 1); got {d.dims}")
    require(d.is_packed(), f"{function}: {argument} must be fully packed; got dims {d.dims}, "
                           f"strides {d.strides}")


def supported(function, fields: RnnFields, dtype, inputs: int, argument="xDesc") -> None:
    """Types that go together, and the input that skipping needs."""
    math = BY_ENUM[fields.dtype].name
    require(math in MATH[dtype.name], f"{function}: {argument} must have a data type that dataType {math} of "
                                      f"rnnDesc computes; got {dtype}", NotSupported)
    is_skip = RNN_INPUT_MODE.word(fields.input) == "skip"
    require(not is_skip or inputs == fields.hidden, f"{function}: {argument} must have second dim "
            f"{fields.hidden} like hiddenSize, as inputMode is SKIP_INPUT; got {inputs}", NotSupported)


def is_blob(function, argument: str, found, count: int, dtype) -> None:
    """Rules of a filter descriptor that stands for all weights."""
    require(found.format == "nchw" and found.desc.dims == (count, 1, 1),
            f"{function}: {argument} must have dims {(count, 1, 1)} in format NCHW; got {found.desc.dims} "
            f"in {found.format.upper()}")
    require(found.desc.dtype is dtype,
            f"{function}: {argument} must have data type {dtype}; got {found.desc.dtype}")


# -- Descriptors ---------------------------------------------------------------------------------------------

@public("g99")
def createRNNDescriptor():
    """A recurrent network descriptor that is not set yet.

    >>> cudnn.createRNNDescriptor()
    RNNDescriptor(not set)
    """
    return RNN.create()


@public("g100")
def destroyRNNDescriptor(rnnDesc) -> None:
    """NULL is a no-op.

    >>> cudnn.destroyRNNDescriptor(rnnDesc)
    >>> rnnDesc
    RNNDescriptor(destroyed)
    """
    RNN.destroy("cudnnDestroyRNNDescriptor", "rnnDesc", rnnDesc)


@public("g101", setRNNDescriptor_v5="")
def setRNNDescriptor(rnnDesc, hiddenSize, numLayers, dropoutDesc, inputMode, direction, mode,
                     dataType) -> None:
    """``dropoutDesc`` acts between layers, in training; it is not copied. ``dataType``: what is computed in;
    the storage types are those of tensors and weights.

    >>> cudnn.setRNNDescriptor(rnnDesc, 8, 2, dropoutDesc, cudnn.CUDNN_LINEAR_INPUT,
    ...                        cudnn.CUDNN_BIDIRECTIONAL, cudnn.CUDNN_LSTM, cudnn.CUDNN_DATA_FLOAT)
    >>> rnnDesc
    RNNDescriptor(lstm hidden=8 layers=2 bidirectional acc=f32)
    """
    function = "cudnnSetRNNDescriptor"
    found = RNN.resolve(function, "rnnDesc", rnnDesc)
    dropout = DROPOUT.resolve(function, "dropoutDesc", dropoutDesc)
    enums = (RNN_INPUT_MODE.check(function, "inputMode", inputMode),
             DIRECTION_MODE.check(function, "direction", direction),
             RNN_MODE.check(function, "mode", mode), DATA_TYPE.check(function, "dataType", dataType))
    sizes = at_least(function, 1, hiddenSize=hiddenSize, numLayers=numLayers)
    RNN.set(found, RnnFields(*sizes, *enums))
    found.dropout = dropout


# -- Sizes ---------------------------------------------------------------------------------------------------

def _sequence(function, handle, rnnDesc, seqLength, xDesc) -> tuple:
    """(handle, fields, (batches, inputs, type), dropout) of a query."""
    handle = HANDLE.resolve(function, "handle", handle)
    fields = RNN.fields(function, "rnnDesc", rnnDesc)
    dropout = DROPOUT.fields(function, "dropoutDesc of rnnDesc", dropout_of(rnnDesc)[0]).p
    found = steps(function, "xDesc", seqLength, SEQUENCE.content(function, "xDesc", xDesc))
    supported(function, fields, found[2], found[1])
    return handle, fields, found, dropout


def workspace_need(function, handle, op, inputs: int, dtype) -> int:
    """The most bytes of workspace that a pass of this network needs: inference, training, gradients."""
    question = ("recurrent network", op.cell, op.hidden, op.layers, op.bidirectional, op.input, op.batches,
                op.dropout, inputs, dtype.name)
    answer = handle.answers.get(question)
    if answer is None:
        if len(handle.answers) >= MAX_ANSWERS:
            handle.answers.clear()
        answer = handle.answers[question] = max(
            _need(function, work, handle.device.facts) for work in _passes(op, inputs, dtype))
    return answer


def _passes(op, inputs, dtype):
    facts = {name: getattr(op, name) for name in op.attributes()}
    for op_class, more, absent in ((RnnFwd, {}, ()), (RnnFwd, dict(dropout=0.0), ("reserve", "states")),
                                   (RnnBwdData, {}, ()), (RnnBwdWeights, {}, ())):
        one = op_class(**{**facts, **more})
        names = [n for n in one.operands() if n not in absent and n != "states"]
        operands = {n: d for n, d in one.described(dtype, inputs, *names).items() if d is not None}
        missing = tuple(n for n in one.writes if n not in operands and n != "states" or n in absent)
        yield Work(one, operands, absent=missing)


def _need(function, work, facts) -> int:
    try:
        return choose(work, facts).workspace_bytes
    except (BadParam, NotSupported) as error:
        raise error.within(function) from None


def reported(need: int) -> int:
    """What the query says: room to start at any element."""
    return need + SLACK if need else 0


@public("g102")
def getRNNWorkspaceSize(handle, rnnDesc, seqLength, xDesc) -> int:
    """Bytes of workspace that every pass over such sequences can do with, inference too. ``xDesc``: a tensor
    descriptor for each step.

    >>> cudnn.getRNNWorkspaceSize(handle, rnnDesc, 3, steps) >= 0
    True
    """
    function = "cudnnGetRNNWorkspaceSize"
    handle, fields, (batches, inputs, dtype), dropout = _sequence(function, handle, rnnDesc, seqLength, xDesc)
    op = fields.op(RnnFwd, dtype, batches, dropout)
    return reported(workspace_need(function, handle, op, inputs, dtype))


@public("g103")
def getRNNTrainingReserveSize(handle, rnnDesc, seqLength, xDesc) -> int:
    """Bytes of reserve that training needs between its passes. With dropout between layers it is more: ask
    after the dropout descriptor was set.

    >>> cudnn.getRNNTrainingReserveSize(handle, rnnDesc, 3, steps) > 0
    True
    """
    function = "cudnnGetRNNTrainingReserveSize"
    _, fields, (batches, _, dtype), dropout = _sequence(function, handle, rnnDesc, seqLength, xDesc)
    return dtype.bytes_of(fields.op(RnnFwd, dtype, batches, dropout).reserve.count)


@public("g104")
def getRNNParamsSize(handle, rnnDesc, xDesc, dataType) -> int:
    """Bytes of all weights and biases. ``xDesc`` is that of one step.

    >>> cudnn.getRNNParamsSize(handle, rnnDesc, step, cudnn.CUDNN_DATA_FLOAT) >= 4 * (2 * 2 + 2 * 2 + 2 + 2)
    True
    """
    function = "cudnnGetRNNParamsSize"
    HANDLE.resolve(function, "handle", handle)
    fields, d, _ = _inputs(function, rnnDesc, xDesc)
    dtype = BY_ENUM[DATA_TYPE.check(function, "dataType", dataType)]
    require(dtype is d.dtype, f"{function}: dataType must be {d.dtype} like xDesc; got {dtype}")
    return dtype.bytes_of(fields.op(RnnFwd, dtype).blob(d.dims[1]).count)


def _inputs(function, rnnDesc, xDesc) -> tuple:
    """(fields, descriptor of x, operation) where one step is given."""
    fields = RNN.fields(function, "rnnDesc", rnnDesc)
    d = TENSOR.content(function, "xDesc", xDesc)
    is_matrix(function, "xDesc", d)
    supported(function, fields, d.dtype, d.dims[1])
    return fields, d, fields.op(RnnFwd, d.dtype)


# -- Where the weights lie -----------------------------------------------------------------------------------

def _place(function, handle, rnnDesc, layer, xDesc, wDesc, w, linLayerID, argument, found) -> tuple:
    """(blob, layer, gate, whether on the recurrent side, type, address of w); sets nothing."""
    HANDLE.resolve(function, "handle", handle)
    _, d, op = _inputs(function, rnnDesc, xDesc)
    weights = FILTER.content(function, "wDesc", wDesc)
    FILTER.resolve(function, argument, found)
    blob = op.blob(d.dims[1])
    is_blob(function, "wDesc", weights, blob.count, d.dtype)
    place, linear = each(function, layer=layer, linLayerID=linLayerID)
    for name, value, most in (("layer", place, op.pseudo_layers), ("linLayerID", linear, 2 * op.gates)):
        require(0 <= value < most, f"{function}: {name} must be in 0 to {most - 1}; got {value}")
    side, gate = divmod(linear, op.gates)
    return blob, place, gate, side == 1, d.dtype, pointer_of(w)


@public("g105")
def getRNNLinLayerMatrixParams(handle, rnnDesc, layer, xDesc, wDesc, w, linLayerID, linLayerMatDesc) -> int:
    """The address of one matrix inside w; sets linLayerMatDesc to (1, rows, columns). ``layer`` counts
    directions too. A matrix that does not exist, as layer 0 skips it: 0, with 0 columns.

    linLayerID: input side, then recurrent side; of LSTM i f c' o, of GRU r i h'.

    >>> found = cudnn.createFilterDescriptor()
    >>> address = cudnn.getRNNLinLayerMatrixParams(handle, rnnDesc, 0, step, wDesc, w, 1, found)
    >>> found, w.ctypes.data < address < w.ctypes.data + w.nbytes
    (FilterDescriptor(f32 k1c2s2 nchw), True)
    """
    blob, p, gate, is_recurrent, dtype, address = _place(
        "cudnnGetRNNLinLayerMatrixParams", handle, rnnDesc, layer, xDesc, wDesc, w, linLayerID,
        "linLayerMatDesc", linLayerMatDesc)
    columns = blob.hidden if is_recurrent else blob.widths[p]
    _fill("cudnnGetRNNLinLayerMatrixParams", linLayerMatDesc, dtype, (1, blob.hidden, columns))
    return address + dtype.bytes_of(blob.matrix(p, gate, is_recurrent)) if columns else 0


@public("g106")
def getRNNLinLayerBiasParams(handle, rnnDesc, layer, xDesc, wDesc, w, linLayerID, linLayerBiasDesc) -> int:
    """The address of one bias inside w; sets linLayerBiasDesc to (1, hiddenSize, 1). Numbers as of
    the matrices.

    >>> found = cudnn.createFilterDescriptor()
    >>> address = cudnn.getRNNLinLayerBiasParams(handle, rnnDesc, 0, step, wDesc, w, 0, found)
    >>> found, w.ctypes.data < address < w.ctypes.data + w.nbytes
    (FilterDescriptor(f32 k1c2s1 nchw), True)
    """
    blob, p, gate, is_recurrent, dtype, address = _place(
        "cudnnGetRNNLinLayerBiasParams", handle, rnnDesc, layer, xDesc, wDesc, w, linLayerID,
        "linLayerBiasDesc", linLayerBiasDesc)
    _fill("cudnnGetRNNLinLayerBiasParams", linLayerBiasDesc, dtype, (1, blob.hidden, 1))
    return address + dtype.bytes_of(blob.bias(p, gate, is_recurrent))


def _fill(function, found, dtype, dims) -> None:
    FILTER.set(FILTER.resolve(function, "the descriptor", found), FilterFields(dtype.enum, NCHW, dims))
