"""Gradient of a recurrent network's weights."""
from __future__ import annotations

from ...graph import core
from ...ops import RnnBwdWeights
from ..engine import Engine, no_variant, wrong_device
from .layers import Net, steps_of, us_of


class RnnBwdWeightsProducts(Engine):
    """For each layer one product over all steps for each matrix, both directions at once, and sums for the
    biases."""
    index, takes = 318, core(RnnBwdWeights)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from no_variant(p, "rnn/rnn_before.cu", "x")
        net = Net.of(p)
        for layer in range(net.op.layers):
            for inner in net.weight_gradients(layer, p.scratch(0)):
                yield from inner.reasons(dev)

    def cost(self, p, dev, config):
        net = Net.of(p)
        return sum([dev.launch_us + us_of(net.weight_gradients(layer, p.scratch(0)), dev)
                    for layer in range(net.op.layers)])

    def plan(self, p, dev, config):
        net, steps = Net.of(p), []
        starts = net.starts(steps)
        before = p.scratch(net.dtype.bytes_of(net.directions * net.rows * net.hidden))
        for layer in range(net.op.layers):
            out = p.ptr("y") if layer == net.op.layers - 1 else net.area("outs", layer)
            steps += [net.before(layer, out, before, starts),
                      *steps_of(net.weight_gradients(layer, before), dev)]
        return steps
