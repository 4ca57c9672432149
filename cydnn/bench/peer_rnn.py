"""The peer of recurrent networks: PyTorch's call of the closed library, with the weights of our blob. Needs
torch; only ``peer`` and ``benchmarks/rnn.py`` import it."""
from __future__ import annotations

import torch

MODES = dict(relu=0, tanh=1, lstm=2, gru=3)
WEIGHTS_A_LAYER = 4                              # W, R, bW, bR


class Network:
    """A network of ours there. ``t``: torch tensors by the names of our operands."""

    def __init__(self, op, t):
        self.op, self.t, inputs = op, t, t["x"].shape[1]
        parts = [op.blob(inputs).parts(t["w"], p) for p in range(op.pseudo_layers)]
        self.weights = [part.clone() for of_layer in parts for part in of_layer]
        self.facts = (MODES[op.cell], op.hidden, 0, op.layers, False)
        self.buffer = torch._cudnn_rnn_flatten_weight(
            self.weights, WEIGHTS_A_LAYER, inputs, *self.facts, op.bidirectional)
        is_even = len(set(op.batches)) == 1
        self.batches = [] if is_even else list(op.batches)
        self.rows = (len(op.batches), op.batches[0]) if is_even else (op.rows,)
        flat = lambda name: t[name].reshape(op.pseudo_layers, *t[name].shape[2:]) if name in t else None
        self.states = {name: flat(name) for name in ("hx", "cx", "dhy", "dcy")}
        self.x = t["x"].reshape(*self.rows, inputs)
        self.saved = None

    def _options(self):
        return 0.0, True, self.op.bidirectional, self.batches, None

    def forward(self):
        """(y, hy, cy) of training; cy is empty where there are no cells."""
        self.saved = torch.ops.aten._cudnn_rnn(
            self.x, self.weights, WEIGHTS_A_LAYER, self.buffer, self.states["hx"], self.states["cx"],
            *self.facts, *self._options())
        return self.saved[:3]

    def backward(self):
        """(dx, dhx, dcx, gradients of the weights) behind the last ``forward``."""
        y, _, _, reserve, _ = self.saved
        dy = self.t["dy"].reshape(y.shape)
        return torch.ops.aten._cudnn_rnn_backward(
            self.x, self.weights, WEIGHTS_A_LAYER, self.buffer, self.states["hx"], self.states["cx"], y, dy,
            self.states["dhy"], self.states["dcy"], *self.facts, *self._options(), reserve,
            [True, True, self.op.cell == "lstm", True])

    def as_blob(self, gradients):
        """Gradients of the weights as our blob has them."""
        found = torch.empty_like(self.t["w"])
        blob = self.op.blob(self.t["x"].shape[1])
        for p in range(self.op.pseudo_layers):
            for part, theirs in zip(blob.parts(found, p), gradients[WEIGHTS_A_LAYER * p:]):
                part.copy_(theirs.reshape(part.shape))
        return found


def forward(op, t):
    """A call and the names of what it gives; None where the peer has no such call."""
    if op.input == "skip" or op.has_dropout or "hx" not in t or "reserve" not in t:
        return None
    network = Network(op, t)
    names = [name if name in t else None for name in ("y", "hy", "cy")]
    return network.forward, names
