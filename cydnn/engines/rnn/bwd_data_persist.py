"""Gradient of a recurrent network's data with one launch for all steps of a layer."""
from __future__ import annotations

from ...steps import Launch
from .backward import Backward
from .layers import KERNEL_CELLS, Net
from .persist import KNOBS, beginning, configs_of, form_of, refusals, step_us


class RnnBwdDataPersist(Backward):
    """One cooperative launch a layer, both directions: transposed recurrent weights stay in shared memory,
    gradients of gates go round through L2; then a product for the inputs of all steps."""
    index = 315
    knobs = KNOBS
    notes = ("deterministic", "tensor_core")

    def configs(self, p, dev):
        return p.once(("persist", dev), lambda: configs_of(Net(p), dev, is_backward=True))

    def refuse_net(self, p, dev):
        yield from refusals(p, Net(p), dev, "rnn/rnn_persist_bwd.cu", lambda: self.configs(p, dev))

    def best(self, p, dev):
        return self.configs(p, dev)[0]

    def recurrence_us(self, net, dev, config):
        form = form_of(net, dev, config, is_backward=True)
        return 2 * dev.launch_us + (net.steps + 1) * step_us(net, dev, form)

    def recurrence(self, net, layer, dev, config, args):
        form, steps = form_of(net, dev, config, is_backward=True), []
        hx = dict(hx=None, hx_dir=0, hx_row=0)   # gradients begin with 0
        more = beginning(net, layer, form, hx, is_backward=True, steps=steps)
        name = f"rnn_persist_bwd_{net.dtype}_{KERNEL_CELLS[net.op.cell]}_{form.m_tiles}x{form.n_tiles}"
        return [*steps, Launch(name, dict(args, **more), dict(directions=net.directions, tiles=form.tiles))]
