"""Forward pass of a recurrent network with one launch for all steps of all layers."""
from __future__ import annotations

from .forward import Forward
from .layers import Net
from .persist import Persist, form_of, pack, step_us

STATES = "hx cx hy cy"


class RnnFwdWave(Persist, Forward):
    """A product for the inputs of layer 0; then one cooperative launch: the layers have blocks of their own
    and work at the same time, each some steps behind the one below, whose states it reads from L2."""
    index = 312
    kernel, sweep = "rnn/rnn_persist.cu", "rnn_wave"

    def form(self, net, dev, config):
        return form_of(net, dev, config, is_wave=True)

    def refuse_net(self, p, dev):
        if p.op.bidirectional:
            yield ("bidirectional must be False: a layer needs the last step of the one below to begin; "
                   "got True")
        else:
            yield from super().refuse_net(p, dev)

    def products(self, net):
        return super().products(net)[:0 if net.skips(0) else 1]

    def recurrences_us(self, net, dev, config):
        steps, more = net.steps + net.op.layers - 1, min(net.op.layers, 2)
        return self.fixed_us + more * dev.launch_us + steps * step_us(net, dev, self.form(net, dev, config))

    def plan(self, p, dev, config):
        net, layers = Net.of(p), p.op.layers
        form, steps = self.form(net, dev, config), net.masks(dev)
        common, apart = net.common(net.starts(steps)), net.layers_apart
        launches, x = self.input_side(net, 0, net.read(0), self.scratch_of_gates(net), dev)
        has_masks = net.keep(0) is not None
        planes = layers * (2 if has_masks else 1)
        exchange = p.scratch(16 * planes * (net.steps + 1) * form.area)
        states = net.states(0, STATES)
        states.update({f"{name}_dir": apart(name) for name in STATES.split()})
        hx = {name: states[name] for name in ("hx", "hx_dir", "hx_row")}
        weights, packs = self._packs(net, form, (exchange, (planes, layers)), hx)
        args = dict(common, **x, **net.kept_of(0), **states, **weights, exchange=exchange, out=p.ptr("y"),
                    out_row=net.width, inner=net.area("outs", 0) if layers > 1 else None,
                    inner_dir=apart("outs"), keep=net.keep(0), kept=net.keep(0, "kept"),
                    bias=net.at("w", net.blob.biases[0])[0], resident_below=form.resident_below)
        args.update(gates_dir=apart("gates"), cells_dir=apart("cells"))
        return steps + launches + packs + [self.sweep_launch(net, form, args)]

    @staticmethod
    def _packs(net, form, exchange, hx) -> tuple:
        """(addresses of the packed matrices, launches): the recurrent ones of all layers, those for the layer
        below of all but the first. Matrices that lie equally far apart share a launch."""
        p, layers, each = net.p, net.op.layers, 16 * form.words
        where = dict(weights=p.scratch(layers * each),
                     below=p.scratch((layers - 1) * each) if layers > 1 else None)
        address = lambda element: net.at("w", element)[0]
        recurrent, inputs = net.blob.recurrent, net.blob.weights
        apart = recurrent[2] - recurrent[1] if layers > 2 else recurrent[-1] - recurrent[0]
        together = layers if layers == 1 or recurrent[1] - recurrent[0] == apart else 1

        def of(start, to, count, *more):
            matrix = dict(weights=address(start), weights_dir=apart)
            return pack(net, form, "forward", matrix, to, count, *more)

        found = [of(recurrent[0], where["weights"], together, exchange, hx, net.steps)]
        if together < layers:
            found.append(of(recurrent[1], where["weights"] + each, layers - 1))
        if layers > 1:
            found.append(of(inputs[1], where["below"], layers - 1))
        return where, found
