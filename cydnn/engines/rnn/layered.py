"""The base of engines that go through a network layer by layer: a recurrence, and products of all steps."""
from __future__ import annotations

from typing import ClassVar

from ..engine import Engine, no_variant, wrong_device
from .layers import Net, us_of


class Layered(Engine):
    """What forward and backward share: reasons and costs. ``kernel``: the source whose types it takes,
    ``typed``: an operand that has the network's type, ``least_sm``: the oldest architecture."""
    least_sm: ClassVar[int] = 75
    kernel: ClassVar[str]
    typed: ClassVar[str]

    def refuse(self, p, dev):
        yield from wrong_device(dev, self.least_sm)
        yield from no_variant(p, self.kernel, self.typed)
        reasons = list(self.refuse_net(p, dev))
        yield from reasons
        if not reasons:
            for inner in self.products(Net.of(p)):
                yield from inner.reasons(dev)

    def refuse_net(self, p, dev):
        """More reasons of an engine."""
        return iter(())

    def products(self, net: Net) -> list:
        """The inner products of all layers; addresses of scratch do not matter."""
        raise NotImplementedError

    def recurrence(self, net: Net, layer, dev, config, args: dict) -> list:
        """The launches of all steps of a layer; ``args`` are those of ``kernel`` that do not depend on the
        step."""
        raise NotImplementedError

    def recurrence_us(self, net: Net, dev, config) -> float:
        """Microseconds of the steps of a layer."""
        raise NotImplementedError

    def cost(self, p, dev, config):
        net = Net.of(p)
        return us_of(self.products(net), dev) + self.recurrences_us(net, dev, config)

    def recurrences_us(self, net, dev, config) -> float:
        """Microseconds of the steps of all layers."""
        return net.op.layers * self.recurrence_us(net, dev, config)
