"""Forward pass of a recurrent network with one launch for all steps of a layer."""
from __future__ import annotations

from ...steps import Launch
from .forward import Forward
from .layers import KERNEL_CELLS, Net
from .persist import KNOBS, beginning, configs_of, form_of, refusals, step_us


class RnnFwdPersist(Forward):
    """A product for the inputs of all steps; then one cooperative launch a layer, both directions: recurrent
    weights stay in shared memory, states go round through L2."""
    index = 311
    knobs = KNOBS
    notes = ("deterministic", "tensor_core")

    def configs(self, p, dev):
        return p.once(("persist", dev), lambda: configs_of(Net(p), dev, is_backward=False))

    def refuse_net(self, p, dev):
        yield from refusals(p, Net(p), dev, "rnn/rnn_persist.cu", lambda: self.configs(p, dev))

    def best(self, p, dev):
        return self.configs(p, dev)[0]

    def recurrence_us(self, net, dev, config):
        return 2 * dev.launch_us + net.steps * step_us(net, dev, form_of(net, dev, config, is_backward=False))

    def recurrence(self, net, layer, dev, config, args):
        form, steps = form_of(net, dev, config, is_backward=False), []
        hx = {k: args[k] for k in ("hx", "hx_dir", "hx_row")}
        more = beginning(net, layer, form, hx, is_backward=False, steps=steps)
        name = f"rnn_persist_{net.dtype}_{KERNEL_CELLS[net.op.cell]}_{form.m_tiles}x{form.n_tiles}"
        return [*steps, Launch(name, dict(args, **more), dict(directions=net.directions, tiles=form.tiles))]
