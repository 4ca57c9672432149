"""Gradients of data layer by layer, from the last: the recurrence backward, then the products
of all steps."""
from __future__ import annotations

from ...graph import core
from ...ops import RnnBwdData
from .layered import Layered
from .layers import Net, steps_of


class Backward(Layered):
    """Where the recurrence of a layer finds its parts, and what follows it."""
    takes, kernel, typed = core(RnnBwdData), "rnn/rnn_step_bwd.cu", "y"

    def products(self, net):
        own = net.p.scratch(0)
        return [inner for layer in range(net.op.layers)
                for inner in net.data_gradient(layer, *self._below(net, layer, own))]

    @staticmethod
    def _below(net, layer, own) -> tuple:
        """Where the gradient of what a layer reads goes, and its alignment."""
        return net.at("dx", 0) if layer == 0 else (own, 256)

    def plan(self, p, dev, config):
        net, steps = Net.of(p), []
        common, last = net.common(net.starts(steps)), net.op.layers - 1
        between = [p.scratch(net.dtype.bytes_of(net.rows * net.width)) for _ in range(2)] if last else ()
        for layer in reversed(range(net.op.layers)):
            args = dict(common, **net.kept_of(layer), out_row=net.width,
                        **net.states(layer, "hx cx dhy dcy dhx dcx"), keep=net.keep(layer),
                        out=p.ptr("y") if layer == last else net.area("outs", layer),
                        dout=p.ptr("dy") if layer == last else between[(layer + 1) % 2])
            steps += self.recurrence(net, layer, dev, config, args)
            below = self._below(net, layer, between and between[layer % 2])
            steps += steps_of(net.data_gradient(layer, *below), dev)
        return steps
