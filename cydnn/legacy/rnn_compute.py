"""Recurrent networks: inference, training, gradients: cudnnRNNForwardInference to cudnnRNNBackwardWeights.
Spec: legacy API, 3.16 and 4.12.

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
>>> x, y = np.ones((3, 1, 2), np.float32), np.zeros((3, 1, 2), np.float32)
>>> work = np.zeros(cudnn.getRNNWorkspaceSize(handle, rnnDesc, 3, steps), np.uint8)
>>> reserve = np.zeros(cudnn.getRNNTrainingReserveSize(handle, rnnDesc, 3, steps), np.uint8)
"""
from __future__ import annotations


from .._core import compute, descriptor
from ..ops import RnnBwdData, RnnBwdWeights, RnnFwd
from ..ops.philox import STATES as GENERATOR
from ..ops.rnn_network import STATES
from ..given import shown
from ..status import BadParam
from ..tensor import TensorDesc
from .arguments import integer, is_given, public
from .call import Compute, Work
from .dropout import DROPOUT
from .filter import FILTER
from .rnn import RNN, SEQUENCE, dropout_of, is_blob, reported, steps, supported, workspace_need
from .tensor import TENSOR


class Maybe:
    """The descriptor of a state, which may be NULL where its pointer is, and anything where there are no
    cells."""

    def fields(self, function, argument, value):
        """Nothing to say yet."""

    def content(self, function, argument, value):
        """A function that gives it (None for NULL, where that may be), or raises what is wrong with it."""
        return lambda may_be_null: (None if may_be_null and not is_given(value) else
                                    TENSOR.content(function, argument, value))


MAYBE = Maybe()


def _is_word(value) -> bool:
    """Can it stand in a key of the plan table?"""
    if isinstance(value, (list, tuple)):
        return all(map(_is_word, value))
    try:
        return not is_given(value) or descriptor(value).stamp != 0
    except BadParam:
        return False


class RnnCompute(Compute):
    """A pass over sequences. Its keys also hold the sizes of workspace and reserve: a plan is found only for
    sizes that were checked."""

    def executable(self, handle, keys, *, is_aligned=True, absent=0):
        """What nobody looked at may be anything: for the table it becomes None, or is cut off."""
        self.work(keys, absent)
        count = integer(self.function, "seqLength", keys[2])
        keys = tuple([key if kind not in (MAYBE, SEQUENCE) or _is_word(key) else
                      None if kind is MAYBE else key[:count] for kind, key in zip(self.keys.values(), keys)])
        return super().executable(handle, keys, is_aligned=is_aligned, absent=absent)

    def chosen(self, handle, keys, *, is_aligned=True, absent=0) -> tuple:
        """The workspace has the size that the query says, whatever this pass needs of it."""
        work, said = self.work(keys, absent), dict(zip(self.keys, self.contents(keys)))
        x = work.operands["x" if "x" in work.operands else "dx"]
        op = said["rnnDesc"].op(RnnFwd, x.dtype, work.op.batches, said["dropoutDesc"].p)
        need = workspace_need(self.function, handle, op, x.dims[1], x.dtype)
        size = integer(self.function, "workSpaceSizeInBytes", said["workSpaceSizeInBytes"])
        self.require(size >= reported(need),
                     f"workspace must have at least {reported(need)} bytes, as getRNNWorkspaceSize says; "
                     f"got {shown(size)}")
        choice = self.choice(work, handle.device.facts, names=self.given(absent), is_aligned=is_aligned,
                             limit=need)
        return work, choice, need


# -- What the arguments mean ---------------------------------------------------------------------------------

def _also(call, argument, count, values, batches, width, dtype) -> None:
    """Another array of descriptors: equal batches and type, a width of its own."""
    found = steps(call.function, argument, count, values)
    for what, have, want in zip(("batches", "second dim", "data type"), found, (batches, width, dtype)):
        call.require(have == want, f"{argument} must have {what} {want} as the network has; got {have}")


def _states(call, op, dtype, descs, given) -> dict:
    """{operand: descriptor} of the states that are given: (layers * directions, batch, hidden),
    or (layers, batch, directions * hidden) for all of them."""
    layers, directions, batch, hidden = op.state_dims
    forms = {(layers * directions, batch, hidden): TensorDesc.packed(dtype, op.state_dims),
             (layers, batch, directions * hidden): op.split(dtype)}
    found, first = {}, None
    for name, content in descs.items():
        is_cell, argument = name[-2:] in ("cx", "cy"), f"{name}Desc"
        d = None if is_cell and op.cell != "lstm" else content(name not in given)
        if d is None:
            continue
        call.require(d.dims in forms,
                     f"{argument} must have dims {' or '.join(map(str, forms))}; got {d.dims}")
        call.require(d.is_packed(), f"{argument} must be fully packed; got strides {d.strides}")
        first = first or d
        call.require(d.dims == first.dims, f"{argument} must have dims {first.dims} like the other states; "
                                           f"got {d.dims}")
        call.require(d.dtype is dtype, f"{argument} must have data type {dtype}; got {d.dtype}")
        if name in given:
            found[name] = forms[d.dims]
    return found


def _work(call, op, dtype, inputs, states, given) -> Work:
    """The pass on what is given. Cells are not looked at unless there are any."""
    wanted = ["reserve" if n == "reserveSpace" else n for n in given]
    plain = [n for n in wanted if n not in STATES and n != "states"]
    operands = {**op.described(dtype, inputs, *plain), **states}
    if "states" in wanted:
        operands["states"] = GENERATOR
    return Work(op, operands, absent=tuple([n for n in op.writes if n not in operands]),
                unused=tuple([n for n in wanted if n not in operands]))


def _reserve(call, op, dtype, size) -> None:
    need = dtype.bytes_of(op.reserve.count)
    size = integer(call.function, "reserveSpaceSizeInBytes", size)
    call.require(size >= need, f"reserveSpaceSizeInBytes must be at least {need}, as "
                                      f"getRNNTrainingReserveSize says; got {shown(size)}")


def _forward(call, rnn, dropout, count, xs, hx, cx, w, ys, hy, cy, workspace, reserve=None, *, given) -> Work:
    batches, inputs, dtype = steps(call.function, "xDesc", count, xs)
    op = rnn.op(RnnFwd, dtype, batches, 0.0 if reserve is None else dropout.p)
    _also(call, "yDesc", count, ys, batches, op.width, dtype)
    states = _states(call, op, dtype, dict(hx=hx, cx=cx, hy=hy, cy=cy), given)
    supported(call.function, rnn, dtype, inputs)
    is_blob(call.function, "wDesc", w, op.blob(inputs).count, dtype)
    call.require("states" in given or not op.has_dropout,
                 "dropoutDesc of rnnDesc must have states; got a dropout descriptor that was never given any")
    if reserve is not None:
        _reserve(call, op, dtype, reserve)
    return _work(call, op, dtype, inputs, states, given)


def _backward_data(call, rnn, dropout, count, ys, dys, dhy, dcy, w, hx, cx, dxs, dhx, dcx, workspace, reserve,
                   *, given) -> Work:
    batches, inputs, dtype = steps(call.function, "dxDesc", count, dxs)
    op = rnn.op(RnnBwdData, dtype, batches, dropout.p)
    _also(call, "yDesc", count, ys, batches, op.width, dtype)
    _also(call, "dyDesc", count, dys, batches, op.width, dtype)
    states = _states(call, op, dtype, dict(dhy=dhy, dcy=dcy, hx=hx, cx=cx, dhx=dhx, dcx=dcx), given)
    supported(call.function, rnn, dtype, inputs, "dxDesc")
    is_blob(call.function, "wDesc", w, op.blob(inputs).count, dtype)
    _reserve(call, op, dtype, reserve)
    return _work(call, op, dtype, inputs, states, given)


def _backward_weights(call, rnn, dropout, count, xs, hx, ys, workspace, dw, reserve, *, given) -> Work:
    batches, inputs, dtype = steps(call.function, "xDesc", count, xs)
    op = rnn.op(RnnBwdWeights, dtype, batches, dropout.p)
    _also(call, "yDesc", count, ys, batches, op.width, dtype)
    states = _states(call, op, dtype, dict(hx=hx), given)
    supported(call.function, rnn, dtype, inputs)
    is_blob(call.function, "dwDesc", dw, op.blob(inputs).count, dtype)
    _reserve(call, op, dtype, reserve)
    return _work(call, op, dtype, inputs, states, given)


_NETWORK = dict(rnnDesc=RNN, dropoutDesc=DROPOUT, seqLength=None)
_FORWARD = dict(**_NETWORK, xDesc=SEQUENCE, hxDesc=MAYBE, cxDesc=MAYBE, wDesc=FILTER, yDesc=SEQUENCE,
                hyDesc=MAYBE, cyDesc=MAYBE, workSpaceSizeInBytes=None)
INFERENCE = RnnCompute("cudnnRNNForwardInference", _FORWARD, "x w hx? cx? y hy? cy?", "", _forward)
TRAINING = RnnCompute("cudnnRNNForwardTraining", dict(**_FORWARD, reserveSpaceSizeInBytes=None),
                      "x w hx? cx? y hy? cy? reserveSpace states?", "", _forward)
DATA = RnnCompute("cudnnRNNBackwardData", dict(
    **_NETWORK, yDesc=SEQUENCE, dyDesc=SEQUENCE, dhyDesc=MAYBE, dcyDesc=MAYBE, wDesc=FILTER, hxDesc=MAYBE,
    cxDesc=MAYBE, dxDesc=SEQUENCE, dhxDesc=MAYBE, dcxDesc=MAYBE, workSpaceSizeInBytes=None,
    reserveSpaceSizeInBytes=None), "y dy w dhy? dcy? hx? cx? dx reserveSpace dhx? dcx?", "", _backward_data)
WEIGHTS = RnnCompute("cudnnRNNBackwardWeights", dict(
    **_NETWORK, xDesc=SEQUENCE, hxDesc=MAYBE, yDesc=SEQUENCE, workSpaceSizeInBytes=None, dwDesc=FILTER,
    reserveSpaceSizeInBytes=None), "x y reserveSpace hx? dw", "", _backward_weights)


# -- Functions -----------------------------------------------------------------------------------------------

@public("g107")
def RNNForwardInference(handle, rnnDesc, seqLength, xDesc, x, hxDesc, hx, cxDesc, cx, wDesc, w, yDesc, y,
                        hyDesc, hy, cyDesc, cy, workspace, workSpaceSizeInBytes):
    """y of every step, and the last states. hx, cx, hy, cy may be NULL; cx and cy are of LSTM.

    >>> cudnn.RNNForwardInference(handle, rnnDesc, 3, steps, x, None, None, None, None, wDesc, w, steps, y,
    ...                           None, None, None, None, work, work.nbytes)
    >>> y[:, 0, 0].tolist()
    [4.0, 12.0, 28.0]
    """
    dropout, _ = dropout_of(rnnDesc)
    room = workSpaceSizeInBytes if is_given(workspace) else 0
    compute(INFERENCE, handle,
            (rnnDesc, dropout, seqLength, xDesc, hxDesc, cxDesc, wDesc, yDesc, hyDesc, cyDesc, room),
            (x, w, hx, cx, y, hy, cy), (), workspace, workSpaceSizeInBytes)


@public("g108")
def RNNForwardTraining(handle, rnnDesc, seqLength, xDesc, x, hxDesc, hx, cxDesc, cx, wDesc, w, yDesc, y,
                       hyDesc, hy, cyDesc, cy, workspace, workSpaceSizeInBytes, reserveSpace,
                       reserveSpaceSizeInBytes):
    """The same with dropout between the layers; fills reserveSpace for the gradients.

    >>> cudnn.RNNForwardTraining(handle, rnnDesc, 3, steps, x, None, None, None, None, wDesc, w, steps, y,
    ...                          None, None, None, None, work, work.nbytes, reserve, reserve.nbytes)
    >>> y[:, 0, 0].tolist()
    [4.0, 12.0, 28.0]
    """
    dropout, states = dropout_of(rnnDesc)
    room = workSpaceSizeInBytes if is_given(workspace) else 0
    compute(TRAINING, handle,
            (rnnDesc, dropout, seqLength, xDesc, hxDesc, cxDesc, wDesc, yDesc, hyDesc, cyDesc, room,
             reserveSpaceSizeInBytes),
            (x, w, hx, cx, y, hy, cy, reserveSpace, states), (), workspace, workSpaceSizeInBytes)


@public("g109")
def RNNBackwardData(handle, rnnDesc, seqLength, yDesc, y, dyDesc, dy, dhyDesc, dhy, dcyDesc, dcy, wDesc, w,
                    hxDesc, hx, cxDesc, cx, dxDesc, dx, dhxDesc, dhx, dcxDesc, dcx, workspace,
                    workSpaceSizeInBytes, reserveSpace, reserveSpaceSizeInBytes):
    """dx, and the gradients of the first states, of what RNNForwardTraining did; reads and updates its
    reserveSpace. All states may be NULL.

    >>> cudnn.RNNForwardTraining(handle, rnnDesc, 3, steps, x, None, None, None, None, wDesc, w, steps, y,
    ...                          None, None, None, None, work, work.nbytes, reserve, reserve.nbytes)
    >>> dy, dx, dw = np.ones_like(y), np.zeros_like(x), np.zeros_like(w)
    >>> cudnn.RNNBackwardData(handle, rnnDesc, 3, steps, y, steps, dy, None, None, None, None, wDesc, w,
    ...                       None, None, None, None, steps, dx, None, None, None, None, work, work.nbytes,
    ...                       reserve, reserve.nbytes)
    >>> dx[:, 0, 0].tolist()
    [14.0, 6.0, 2.0]
    """
    dropout, _ = dropout_of(rnnDesc)
    room = workSpaceSizeInBytes if is_given(workspace) else 0
    compute(DATA, handle,
            (rnnDesc, dropout, seqLength, yDesc, dyDesc, dhyDesc, dcyDesc, wDesc, hxDesc, cxDesc, dxDesc,
             dhxDesc, dcxDesc, room, reserveSpaceSizeInBytes),
            (y, dy, w, dhy, dcy, hx, cx, dx, reserveSpace, dhx, dcx), (), workspace, workSpaceSizeInBytes)


@public("g110")
def RNNBackwardWeights(handle, rnnDesc, seqLength, xDesc, x, hxDesc, hx, yDesc, y, workspace,
                       workSpaceSizeInBytes, dwDesc, dw, reserveSpace, reserveSpaceSizeInBytes):
    """dw = dw + the gradient of all weights; call it after RNNBackwardData, with its reserveSpace. Mind the
    order: the workspace before dw.

    >>> cudnn.RNNForwardTraining(handle, rnnDesc, 3, steps, x, None, None, None, None, wDesc, w, steps, y,
    ...                          None, None, None, None, work, work.nbytes, reserve, reserve.nbytes)
    >>> dy, dx, dw = np.ones_like(y), np.zeros_like(x), np.zeros_like(w)
    >>> cudnn.RNNBackwardData(handle, rnnDesc, 3, steps, y, steps, dy, None, None, None, None, wDesc, w,
    ...                       None, None, None, None, steps, dx, None, None, None, None, work, work.nbytes,
    ...                       reserve, reserve.nbytes)
    >>> cudnn.RNNBackwardWeights(handle, rnnDesc, 3, steps, x, None, None, steps, y, work, work.nbytes,
    ...                          wDesc, dw, reserve, reserve.nbytes)
    >>> float(dw.max())
    24.0
    """
    dropout, _ = dropout_of(rnnDesc)
    room = workSpaceSizeInBytes if is_given(workspace) else 0
    compute(WEIGHTS, handle,
            (rnnDesc, dropout, seqLength, xDesc, hxDesc, yDesc, room, dwDesc, reserveSpaceSizeInBytes),
            (x, y, reserveSpace, hx, dw), (), workspace, workSpaceSizeInBytes)
