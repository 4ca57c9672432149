"""Forward pass of a recurrent network with a launch for every step."""
from __future__ import annotations

from ...steps import Launch
from .forward import Forward
from .layers import KERNEL_CELLS, Net, weights_of
from .steps import SHAPE, carry, configs_of, most_rows, step_us


class RnnFwdPlain(Forward):
    """A product for the inputs of all steps; then a launch a step, both directions: recurrent product on
    CUDA cores, gates and states."""
    index = 310
    knobs = (SHAPE,)

    def refuse_net(self, p, dev):
        yield from most_rows(Net.of(p))

    def configs(self, p, dev):
        return configs_of(p, dev, p.op.gates)

    def recurrence_us(self, net, dev, config):
        return net.steps * step_us(net, dev, config.tile, net.gates)

    def recurrence(self, net, layer, dev, config, args):
        name = f"rnn_step_{net.dtype}_{KERNEL_CELLS[net.op.cell]}_{config.tile}"
        args = dict(args, **weights_of(net, layer), carry=carry(net))
        return [Launch(name, dict(args, step=step), dict(directions=net.directions))
                for step in range(net.steps)]
