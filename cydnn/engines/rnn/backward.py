"""Gradients of data layer by layer, from the last: the recurrence backward, then the products
of all steps."""
from __future__ import annotations

from ...graph import core
from ...ops import RnnBwdData
from ..engine import Engine, no_variant, wrong_device
from .layers import Net, product_us, steps_of


class Backward(Engine):
    """The base: where the recurrence of a layer finds its parts, and what follows it."""
    takes = core(RnnBwdData)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from no_variant(p, "rnn/rnn_step_bwd.cu", "y")
        if not any(True for _ in self.refuse_net(p, dev)):
            net = Net(p)
            for layer in range(net.op.layers):
                for inner in net.data_gradient(layer, *self._below(p, net, layer, p.scratch(0))):
                    yield from inner.reasons(dev)
        yield from self.refuse_net(p, dev)

    def refuse_net(self, p, dev):
        """More reasons of an engine."""
        return iter(())

    def recurrence(self, net: Net, layer, dev, config, args: dict) -> list:
        """The launches of all steps of a layer; ``args`` are those of kernels_src/rnn/rnn_step_bwd.cu that do
        not depend on the step."""
        raise NotImplementedError

    def recurrence_us(self, net: Net, dev, config) -> float:
        """Microseconds of the steps of a layer."""
        raise NotImplementedError

    def cost(self, p, dev, config):
        net = Net(p)
        return product_us(net, net.op.layers, dev) + net.op.layers * self.recurrence_us(net, dev, config)

    @staticmethod
    def _below(p, net, layer, own) -> tuple:
        """Where the gradient of what a layer reads goes, and its alignment."""
        return net.at("dx", 0) if layer == 0 else (own, 256)

    def plan(self, p, dev, config):
        net, steps = Net(p), []
        common, last = net.common(net.starts(steps)), net.op.layers - 1
        between = [p.scratch(net.dtype.bytes_of(net.rows * net.width)) for _ in range(2)] if last else ()
        for layer in reversed(range(net.op.layers)):
            masked = net.op.has_dropout and layer < last
            args = dict(common, **self._parts(net, layer), out_row=net.width,
                        out=p.ptr("y") if layer == last else net.area("outs", layer),
                        dout=p.ptr("dy") if layer == last else between[(layer + 1) % 2],
                        keep=net.area("keep", layer) if masked else None)
            steps += self.recurrence(net, layer, dev, config, args)
            below = self._below(p, net, layer, between and between[layer % 2])
            steps += steps_of(net.data_gradient(layer, *below), dev)
        return steps

    @staticmethod
    def _parts(net, layer) -> dict:
        """The reserve and the states of a layer."""
        p = net.first(layer)
        found = dict(gates=net.area("gates", p), gates_dir=net.apart("gates", layer),
                     cells=net.area("cells", p) if net.op.cell == "lstm" else None,
                     cells_dir=net.apart("cells", layer))
        for name in ("hx", "cx", "dhy", "dcy", "dhx", "dcx"):
            found.update(net.state(name, layer))
        return found
