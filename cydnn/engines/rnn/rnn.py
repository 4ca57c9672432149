"""Recurrent networks: forward pass and data gradient, a recurrence for each layer between products."""
from __future__ import annotations

from typing import ClassVar

from ...dtypes import BY_NAME
from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import RnnBwdData, RnnFwd
from ...steps import Launch
from ..engine import Config, Engine, Knob, no_variant, wrong_device
from .layers import KERNEL_CELLS, Net, steps_of, us_of, weights_of
from .persist import CLUSTER_K, KNOBS, Persist, form_of, pack, step_us


class Layered(Engine):
    """The base of forward pass and data gradient: reasons and costs. ``kernel``: the source whose types it
    takes, ``typed``: an operand that has the network's type, ``least_sm``: the oldest architecture."""
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


class Forward(Layered):
    """The base of forward passes: products in front of the recurrence of a layer, and addresses of its
    parts."""
    takes, kernel, typed = core(RnnFwd), "rnn/rnn_step.cu", "x"

    @staticmethod
    def _gates(net, layer, own):
        """The place of a layer's gates: (address, alignment), elements to the other direction, to a row."""
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
        """Scratch for a layer whose gates are not kept."""
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


class Backward(Layered):
    """The base of data gradients: addresses of a layer's parts, and the products behind its recurrence."""
    takes, kernel, typed = core(RnnBwdData), "rnn/rnn_step_bwd.cu", "y"

    def products(self, net):
        own = net.p.scratch(0)
        return [inner for layer in range(net.op.layers)
                for inner in net.data_gradient(layer, *self._below(net, layer, own))]

    @staticmethod
    def _below(net, layer, own) -> tuple:
        """The address and alignment of the gradient of a layer's input."""
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


SHAPES = {"wide": (32, 64), "narrow": (8, 16)}   # units and batch rows of a block
SHAPE = Knob("tile", tuple(SHAPES))
MOST_BLOCKS = 65535                              # of a launch along its second dim: batch rows
GATES_US = 1.5                                   # of a step's gates and states: they are loaded, then stored


def too_many_rows(net, each: int):
    """The refusal of more blocks of so many batch rows than a launch has."""
    if net.batch > MOST_BLOCKS * each:
        yield (f"batch must be at most {MOST_BLOCKS * each} ({MOST_BLOCKS} blocks of {each} rows); "
               f"got {net.batch}")


def most_rows(net):
    """The refusal for blocks of the largest shape."""
    return too_many_rows(net, max(rows for _, rows in SHAPES.values()))


def configs_of(p, dev, rows: int) -> list[Config]:
    """The cheapest first."""
    net = Net.of(p)
    fitting = [s for s, (_, each) in SHAPES.items() if not any(too_many_rows(net, each))]
    return [Config(tile=s) for s in sorted(fitting, key=lambda s: plain_step_us(net, dev, s, rows))]


def plain_step_us(net, dev, shape: str, rows: int) -> float:
    """Estimated microseconds of a launch: arithmetic of the busiest SM, or the latency of its loop."""
    units, columns = SHAPES[shape]
    blocks = ceil_div(net.hidden, units) * ceil_div(net.batch, columns) * net.directions
    rate = 0.35 * (dev.fma_f64 if net.op.math == "f64" else dev.fma_f32)
    busy = ceil_div(blocks, dev.sms) * units * columns * net.gates * net.hidden / rate
    chunks = ceil_div(net.hidden * net.gates // rows, 128 // BY_NAME[net.op.math].bytes)
    looping = max(busy, ceil_div(blocks, 4 * dev.sms) * chunks * 900) / dev.clock_mhz
    return dev.launch_us + GATES_US + looping


def carry(net):
    """A number for every unit of every row and direction, in the type of sums."""
    return net.p.scratch(net.directions * net.batch * net.hidden * BY_NAME[net.op.math].bytes)


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
        return net.steps * plain_step_us(net, dev, config.tile, net.gates)

    def recurrence(self, net, layer, dev, config, args):
        name = f"rnn_step_{net.dtype}_{KERNEL_CELLS[net.op.cell]}_{config.tile}"
        args = dict(args, **weights_of(net, layer), carry=carry(net))
        return [Launch(name, dict(args, step=step), dict(directions=net.directions))
                for step in range(net.steps)]


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
        return dev.launch_us + GATES_US + products * plain_step_us(net, dev, config.tile, 1)

    def recurrence(self, net, layer, dev, config, args):
        name = f"rnn_step_bwd_{net.dtype}_{KERNEL_CELLS[net.op.cell]}_{config.tile}"
        args = dict(args, **weights_of(net, layer), carry=carry(net), carry_c=carry(net))
        least = -1 if args["dhx"] is not None or args["dcx"] is not None else 0
        return [Launch(name, dict(args, step=step), dict(directions=net.directions))
                for step in range(net.steps - 1, least - 1, -1)]


class RnnFwdPersist(Persist, Forward):
    """A product for the inputs of all steps; then one cooperative launch a layer, both directions: recurrent
    weights stay in shared memory, states go round through L2."""
    index = 311
    kernel, sweep = "rnn/rnn_persist.cu", "rnn_persist"


class RnnBwdDataPersist(Persist, Backward):
    """One cooperative launch a layer, both directions: transposed recurrent weights stay in shared memory,
    gradients of gates go round through L2; then a product for the inputs of all steps. Teams of blocks share
    the depth, so that each reads a part of the gradients."""
    index = 315
    kernel, sweep, is_backward, extra_steps = "rnn/rnn_persist_bwd.cu", "rnn_persist_bwd", True, 1
    fixed_us = 22.0
    knobs = (*KNOBS, CLUSTER_K)

    def teams(self, net, dev):
        has_teams = dev.sm >= 90 and net.dtype.bits == 16
        return tuple(dict(cluster_k=team) for team in (CLUSTER_K.values if has_teams else (1,)))

    def kernel_name(self, net, form):
        return f"{super().kernel_name(net, form)}_{form.team}"


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
