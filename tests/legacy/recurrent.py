"""Recurrent networks for the tests of the v5 functions: descriptors, memory under guard, and every argument
of every call by its name."""
from __future__ import annotations

import numpy as np

from cydnn import cudnn as c
from cydnn.dtypes import BY_ENUM

from .arrays import DOUBLE, FLOAT, NCHW, Filter, Tensor, filter_desc, tensor_desc

RELU, TANH, LSTM, GRU = c.CUDNN_RNN_RELU, c.CUDNN_RNN_TANH, c.CUDNN_LSTM, c.CUDNN_GRU
STATES = ("hx", "cx", "hy", "cy", "dhy", "dcy", "dhx", "dcx")
CALLS = {
    "RNNForwardInference": "xDesc x hxDesc hx cxDesc cx wDesc w yDesc y hyDesc hy cyDesc cy workspace "
                           "workSpaceSizeInBytes",
    "RNNForwardTraining": "xDesc x hxDesc hx cxDesc cx wDesc w yDesc y hyDesc hy cyDesc cy workspace "
                          "workSpaceSizeInBytes reserveSpace reserveSpaceSizeInBytes",
    "RNNBackwardData": "yDesc y dyDesc dy dhyDesc dhy dcyDesc dcy wDesc w hxDesc hx cxDesc cx dxDesc dx "
                       "dhxDesc dhx dcxDesc dcx workspace workSpaceSizeInBytes reserveSpace "
                       "reserveSpaceSizeInBytes",
    "RNNBackwardWeights": "xDesc x hxDesc hx yDesc y workspace workSpaceSizeInBytes dwDesc dw reserveSpace "
                          "reserveSpaceSizeInBytes",
}


class Memory:
    """Where a device sees the arrays of a test: at home where its memory is the host's, else in copies."""

    def __init__(self, device):
        self.device, self.copies = device, {}

    def address(self, array) -> int:
        if self.device.context is None:
            return array.ctypes.data
        if id(array) not in self.copies:
            self.copies[id(array)] = array, self.device.alloc(max(array.nbytes, 1))
            self.push()
        return int(self.copies[id(array)][1].ptr)

    def push(self):
        for array, copy in self.copies.values():
            if array.nbytes:
                self.device.copy_in(copy.ptr, array)

    def pull(self):
        self.device.synchronize()
        for array, copy in self.copies.values():
            if array.nbytes:
                self.device.copy_out(copy.ptr, array)


def dropout_desc(handle, p=0.0, seed=1, memory=None):
    """A dropout descriptor and its states."""
    desc, states = c.createDropoutDescriptor(), np.zeros(c.dropoutGetStatesSize(handle), np.uint8)
    memory = memory or Memory(handle.device)
    c.setDropoutDescriptor(desc, handle, p, memory.address(states), states.nbytes, seed)
    memory.pull()
    return desc, states


class Network:
    """A network on a handle: ``t`` are its tensors by the names of the calls, random unless set.
    ``split``: states as (layers, batch, directions * hidden)."""

    def __init__(self, handle, mode=LSTM, hidden=3, layers=1, bidirectional=False, skip=False, inputs=4,
                 batches=(3, 2), dtype=FLOAT, math=None, p=0.0, split=False, seed=1):
        self.handle, self.steps, self.directions = handle, len(batches), 1 + bidirectional
        self.layers, self.hidden, self.dtype, self.batches = layers, hidden, dtype, batches
        self.memory = Memory(handle.device)
        self.dropout, self.generator = dropout_desc(handle, p, seed, self.memory)
        self.rnn = c.createRNNDescriptor()
        c.setRNNDescriptor(self.rnn, hidden, layers, self.dropout, int(skip), int(bidirectional), mode,
                           (DOUBLE if dtype == DOUBLE else FLOAT) if math is None else math)
        inputs, width = hidden if skip else inputs, self.directions * hidden
        self.x_descs = [tensor_desc(n, inputs, 1, dtype=dtype) for n in batches]
        self.y_descs = [tensor_desc(n, width, 1, dtype=dtype) for n in batches]
        self.params = c.getRNNParamsSize(handle, self.rnn, self.x_descs[0], dtype) // BY_ENUM[dtype].bytes
        state = (layers, batches[0], width) if split else (self.directions * layers, batches[0], hidden)
        gen, rows = np.random.default_rng(seed), sum(batches)
        shapes = dict(x=(rows, inputs, 1), y=(rows, width, 1), **dict.fromkeys(STATES, state))
        shapes.update(dx=shapes["x"], dy=shapes["y"])
        self.t = {n: Tensor(d, gen.uniform(-1, 1, d), dtype) for n, d in shapes.items()}
        for n in ("w", "dw"):
            self.t[n] = Filter((self.params, 1, 1), gen.uniform(-0.5, 0.5, (self.params, 1, 1)), dtype, NCHW)
        self.t["dw"].values = 0.0
        self.resize()

    def resize(self):
        """Workspace and reserve as the library says."""
        ask = lambda f: f(self.handle, self.rnn, self.steps, self.x_descs)
        self.workspace = np.full(ask(c.getRNNWorkspaceSize), 0xFF, np.uint8)
        self.reserve = np.full(ask(c.getRNNTrainingReserveSize), 0xFF, np.uint8)

    def __getitem__(self, name):
        return self.t[name].values

    def __setitem__(self, name, values):
        self.t[name].values = values

    def argument(self, name):
        """The value of an argument by its name."""
        if name in ("xDesc", "dxDesc"):
            return self.x_descs
        if name in ("yDesc", "dyDesc"):
            return self.y_descs
        if name.endswith("Desc"):
            return self.t[name.removesuffix("Desc")].desc
        if name in self.t:
            return self.memory.address(self.t[name].raw) + self.t[name].ptr - self.t[name].raw.ctypes.data
        if name in ("workspace", "reserveSpace"):
            return self.memory.address(self.workspace if name == "workspace" else self.reserve)
        return (self.workspace if name.startswith("workSpace") else self.reserve).nbytes

    def arguments(self, call, **other):
        given = dict(handle=self.handle, rnnDesc=self.rnn, seqLength=self.steps,
                     **{name: self.argument(name) for name in CALLS[call].split()})
        return {**given, **other}

    def run(self, *calls, **other):
        """The calls in turn, some arguments other than they are."""
        for call in calls:
            taken = {name: value for name, value in other.items()
                     if name in ("handle", "rnnDesc", "seqLength", *CALLS[call].split())}
            given = self.arguments(call, **taken)
            self.memory.push()
            getattr(c, call)(**given)
            self.memory.pull()
        return self

    def train(self, **other):
        return self.run("RNNForwardTraining", "RNNBackwardData", "RNNBackwardWeights", **other)

    def stray_bytes(self) -> int:
        return sum(t.stray_bytes() for t in self.t.values())

    def part(self, get, layer, gate, blob="w"):
        """The values of a matrix or a bias, as a view that can be written (for types of NumPy)."""
        found = filter_desc(1, 1, 1)
        whole = self.t[blob]
        address = get(self.handle, self.rnn, layer, self.x_descs[0], whole.desc, whole.ptr, gate, found)
        _, _, _, dims = c.getFilterNdDescriptor(found, 8)
        start = (address - whole.ptr) // BY_ENUM[self.dtype].bytes
        return whole.stored.reshape(-1)[start:start + int(np.prod(dims))].reshape(dims[1:])

    def matrix(self, layer, gate, blob="w"):
        return self.part(c.getRNNLinLayerMatrixParams, layer, gate, blob)

    def bias(self, layer, gate, blob="w"):
        return self.part(c.getRNNLinLayerBiasParams, layer, gate, blob)[:, 0]
