"""Forward passes layer by layer: the products of all steps with the input, then the recurrence."""
from __future__ import annotations

from ...graph import core
from ...ops import RnnFwd
from ..engine import Engine, no_variant, wrong_device
from .layers import Net, product_us, steps_of


class Forward(Engine):
    """The base: what precedes the recurrence of a layer, and where it finds its parts."""
    takes = core(RnnFwd)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from no_variant(p, "rnn/rnn_step.cu", "x")
        if not any(True for _ in self.refuse_net(p, dev)):
            for inner in self._products(p, Net(p)):
                yield from inner.reasons(dev)
        yield from self.refuse_net(p, dev)

    def refuse_net(self, p, dev):
        """More reasons of an engine."""
        return iter(())

    def recurrence(self, net: Net, layer, dev, config, args: dict) -> list:
        """The launches of all steps of a layer; ``args`` are those of kernels_src/rnn/rnn_step.cu that do
        not depend on the step."""
        raise NotImplementedError

    def recurrence_us(self, net: Net, dev, config) -> float:
        """Microseconds of the steps of a layer."""
        raise NotImplementedError

    def cost(self, p, dev, config):
        net = Net(p)
        return product_us(net, net.op.layers, dev) + net.op.layers * self.recurrence_us(net, dev, config)

    @staticmethod
    def _gates(p, net, layer, own):
        """Where the gates of a layer lie: (address, alignment), elements to the other direction, to a row."""
        if net.is_training:
            first = net.areas.gates[net.first(layer)]
            return net.at("reserve", first), net.apart("gates", layer), net.kept * net.hidden
        every = net.gates * net.hidden
        return (own, 256), net.rows * every, every

    def _products(self, p, net):
        """The inner products of all layers; addresses of scratch do not matter."""
        own = p.scratch(0)
        return [net.input_side(layer, net.read(layer, own), *self._gates(p, net, layer, own))
                for layer in range(net.op.layers) if not net.skips(layer)]

    def plan(self, p, dev, config):
        net = Net(p)
        steps = net.masks(dev)
        size = net.dtype.bytes_of
        own = None if net.is_training else p.scratch(size(net.directions * net.rows * net.gates * net.hidden))
        between = None if net.is_training else [p.scratch(size(net.rows * net.width)) for _ in range(2)]
        common, last = net.common(net.starts(steps)), net.op.layers - 1
        for layer in range(net.op.layers):
            read = net.read(layer, between and between[(layer - 1) % 2])
            gates = self._gates(p, net, layer, own)
            x = dict(x=read[0], x_dir=0, x_row=read[2], x_gate=0)
            if not net.skips(layer):
                steps += steps_of([net.input_side(layer, read, *gates)], dev)
                x = dict(x=gates[0][0], x_dir=gates[1], x_row=gates[2], x_gate=net.hidden)
            out = (p.ptr("y") if layer == last else
                   net.area("outs", layer) if net.is_training else between[layer % 2])
            args = dict(common, **x, **self._kept(net, layer, last), **self._states(net, layer), out=out,
                        out_row=net.width, bias=net.at("w", net.blob.biases[net.first(layer)])[0])
            steps += self.recurrence(net, layer, dev, config, args)
        return steps

    @staticmethod
    def _kept(net, layer, last) -> dict:
        """What training stores of a layer."""
        p, is_lstm = net.first(layer), net.op.cell == "lstm"
        masked = net.is_training and net.op.has_dropout and layer < last
        return dict(gates=net.area("gates", p), gates_dir=net.apart("gates", layer),
                    cells=net.area("cells", p) if is_lstm else None, cells_dir=net.apart("cells", layer),
                    keep=net.area("keep", layer) if masked else None,
                    kept=net.area("kept", layer) if masked else None)

    @staticmethod
    def _states(net, layer) -> dict:
        return {k: v for name in ("hx", "cx", "hy", "cy") for k, v in net.state(name, layer).items()}
