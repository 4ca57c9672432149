"""Forward passes layer by layer: the products of all steps with the input, then the recurrence."""
from __future__ import annotations

from ...graph import core
from ...ops import RnnFwd
from .layered import Layered
from .layers import Net, steps_of


class Forward(Layered):
    """What precedes the recurrence of a layer, and where it finds its parts."""
    takes, kernel, typed = core(RnnFwd), "rnn/rnn_step.cu", "x"

    @staticmethod
    def _gates(net, layer, own):
        """Where the gates of a layer lie: (address, alignment), elements to the other direction, to a row."""
        if net.is_training:
            first = net.areas.gates[net.first(layer)]
            return net.at("reserve", first), net.apart("gates", layer), net.kept * net.hidden
        every = net.gates * net.hidden
        return (own, 256), net.rows * every, every

    def products(self, net):
        own = net.p.scratch(0)
        return [net.input_side(layer, net.read(layer, own), *self._gates(net, layer, own))
                for layer in range(net.op.layers) if not net.skips(layer)]

    def input_side(self, net, layer, read, own, dev) -> tuple:
        """(launches, arguments): the input side of the gates of a layer, in ``own`` where nothing is kept."""
        if net.skips(layer):
            return [], dict(x=read[0], x_dir=0, x_row=read[2], x_gate=0)
        gates = self._gates(net, layer, own)
        return (steps_of([net.input_side(layer, read, *gates)], dev),
                dict(x=gates[0][0], x_dir=gates[1], x_row=gates[2], x_gate=net.hidden))

    @staticmethod
    def scratch_of_gates(net):
        """Of a layer whose gates are not kept."""
        rows = net.directions * net.rows
        return None if net.is_training else net.p.scratch(net.dtype.bytes_of(rows * net.gates * net.hidden))

    def plan(self, p, dev, config):
        net = Net.of(p)
        steps, own = net.masks(dev), self.scratch_of_gates(net)
        area = net.dtype.bytes_of(net.rows * net.width)
        between = None if net.is_training else [p.scratch(area) for _ in range(2)]
        common, last = net.common(net.starts(steps)), net.op.layers - 1
        for layer in range(net.op.layers):
            read = net.read(layer, between and between[(layer - 1) % 2])
            launches, x = self.input_side(net, layer, read, own, dev)
            out = (p.ptr("y") if layer == last else
                   net.area("outs", layer) if net.is_training else between[layer % 2])
            args = dict(common, **x, **net.kept_of(layer), **net.states(layer, "hx cx hy cy"), out=out,
                        out_row=net.width, keep=net.keep(layer), kept=net.keep(layer, "kept"),
                        bias=net.at("w", net.blob.biases[net.first(layer)])[0])
            steps += launches + self.recurrence(net, layer, dev, config, args)
        return steps
