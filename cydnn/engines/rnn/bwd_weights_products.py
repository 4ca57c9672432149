"""Gradient of a recurrent network's weights."""
from __future__ import annotations

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import RnnBwdWeights
from ..engine import Config, Engine, Knob, first_then, no_variant, powers, wrong_device
from .previous_state import before_of, bias_launches, copies, sum_us
from .layers import Net, steps_of, us_of

MOST = 2 ** 31 - 1024                            # elements of a step: kernels count them in 32 bits
ROWS = 64                                        # of a split, at least


class RnnBwdWeightsProducts(Engine):
    """For each layer a launch for the biases, of the rows whole or in splits and their ordered sum; then one
    product over all steps for each matrix, both directions at once."""
    index, takes = 318, core(RnnBwdWeights)
    knobs = (Knob("splits", lo=1, hi=2 ** 20 - 1),)

    def configs(self, p, dev):
        net = Net.of(p)
        every = [Config(splits=n) for n in powers(ceil_div(net.rows, ROWS))]
        return first_then(min(every, key=lambda c: sum_us(net, dev, c.splits)), every)

    @staticmethod
    def _products(net, layer, room) -> list:
        return net.weight_gradients(layer, before_of(net, layer, room))

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from no_variant(p, "rnn/rnn_bias.cu", "x")
        net = Net.of(p)
        if net.batch * net.hidden > MOST:
            yield f"batch * hidden must be at most {MOST}; got {net.batch * net.hidden}"
        for layer in range(net.op.layers):
            for inner in self._products(net, layer, p.scratch(0)):
                yield from inner.reasons(dev)

    def cost(self, p, dev, config):
        net = Net.of(p)
        return sum([sum_us(net, dev, config.splits) + us_of(self._products(net, layer, p.scratch(0)), dev)
                    for layer in range(net.op.layers)])

    def plan(self, p, dev, config):
        net, steps = Net.of(p), []
        size = net.dtype.bytes_of(net.directions * net.rows * net.hidden)
        starts, room = (net.starts(steps), p.scratch(size)) if copies(net) else (None, None)
        for layer in range(net.op.layers):
            before = before_of(net, layer, room)
            steps += bias_launches(net, dev, layer, config.splits, before, starts)
            steps += steps_of(net.weight_gradients(layer, before), dev)
        return steps
