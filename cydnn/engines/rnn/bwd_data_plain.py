"""Gradient of a recurrent network's data with a launch for every step."""
from __future__ import annotations

from ...steps import Launch
from .backward import Backward
from .layers import KERNEL_CELLS, Net, weights_of
from .steps import GATES_US, SHAPE, carry, configs_of, most_rows, step_us


class RnnBwdDataPlain(Backward):
    """A launch a step, both directions: the gradient of h from that of the step behind on CUDA cores, then
    those of the gates; then a product for the inputs of all steps."""
    index = 314
    knobs = (SHAPE,)

    def refuse_net(self, p, dev):
        yield from most_rows(Net.of(p))

    def configs(self, p, dev):
        return configs_of(p, dev, 1)

    def recurrence_us(self, net, dev, config):
        given = net.p.operands
        products = net.steps - (given["dhx"] is None and given["dcx"] is None)       # the first step has none
        return dev.launch_us + GATES_US + products * step_us(net, dev, config.tile, 1)

    def recurrence(self, net, layer, dev, config, args):
        name = f"rnn_step_bwd_{net.dtype}_{KERNEL_CELLS[net.op.cell]}_{config.tile}"
        args = dict(args, **weights_of(net, layer), carry=carry(net), carry_c=carry(net))
        least = -1 if args["dhx"] is not None or args["dcx"] is not None else 0
        return [Launch(name, dict(args, step=step), dict(directions=net.directions))
                for step in range(net.steps - 1, least - 1, -1)]
