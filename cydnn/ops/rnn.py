"""Recurrent networks over sequences: forward, and the gradients of data and of weights."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import philox
from .rnn_cells import Exact, before, input_side, recurrent_side, sweep, sweep_back
from .rnn_network import Rnn


@dataclass(frozen=True)
class RnnFwd(Rnn, reads="x w hx? cx?", writes="y hy? cy? reserve? states?"):
    """y, and the states behind the last steps, of a network that starts from hx and cx.

    With a reserve this is training: what the backward passes read is stored there, and where there is
    dropout, ``states`` (of the dropout op) gives the factors of all layers in one draw, from the first
    ``keep`` to the end of the last, and moves on. Without a reserve there is no dropout.
    """
    keeps = frozenset(["reserve", "states"])

    def check(self, x, w, hx, cx):
        yield from self.sizes()
        yield x.rank == 2 and x.dims[1] > 0, f"x must have dims (rows, inputs); got {x.dims}"
        yield (self.input == "linear" or x.dims[1] == self.hidden,
               f"x must have {self.hidden} columns like hidden, as input is skip; got {x.dims[1]}")
        yield from self.layouts(x.dims[1], x=x, w=w, hx=hx, cx=cx)

    def infer(self, x, w, hx, cx):
        states = philox.STATES if self.has_dropout else None
        return dict(**self.described(x.dtype, x.dims[1], "y", "hy", "cy", "reserve"), states=states)

    def check_outputs(self, x, states, **others):
        others = {n: others[n] for n in ("y", "hy", "cy", "reserve")}
        yield from self.layouts(x.dims[1], **others)
        needs = others["reserve"] is not None and self.has_dropout
        yield states is not None or not needs, "states must be given, as there is a reserve and dropout"
        yield states is None or needs, "states must be absent, as there is no reserve or no dropout"
        want = philox.STATES
        yield (states is None or states.dtype is want.dtype and states.same_layout(want),
               f"states must be {want}; got {states}")

    def reference(self, x, w, hx, cx, reserve, states, rounding=Exact()):
        blob, hx, cx = self.blob(x.shape[1]), self.state(hx), self.state(cx)
        hy, cy, areas = np.empty(self.state_dims), np.empty(self.state_dims), self.reserve
        kept = None if reserve is None else reserve.copy()
        below, w, states = x, rounding.weights(w), self._draw(states, kept, areas)
        for p in range(self.pseudo_layers):
            l, d = divmod(p, self.directions)
            if d == 0:
                y = np.empty((self.rows, self.width))
            W, R, bW, bR = blob.parts(w, p)
            sums = np.tile(below, self.gates) if W is None else below @ W.T
            sums = rounding.stored(sums + bW).reshape(self.rows, self.gates, self.hidden)
            h, c, saved, hy[l, d], cy[l, d] = sweep(self.cell, sums, R, bR, hx[l, d], cx[l, d], self.batches,
                                                    d == 1, rounding)
            y[:, d * self.hidden:(d + 1) * self.hidden] = h
            if kept is not None:
                areas.view(kept, "gates", p)[...] = h[:, None] if self.gates == 1 else saved
                if self.cell == "lstm":
                    areas.view(kept, "cells", p)[...] = c
            if d == self.directions - 1 and l < self.layers - 1:
                below = self._between(l, y, kept, areas)
        found = dict(y=y, hy=hy, cy=cy, reserve=kept, states=states)
        return {name: value for name, value in found.items() if value is not None}

    def _draw(self, states, kept, areas):
        """Fill the factors of what the inner layers give; returns the states behind the draw."""
        if states is None:
            return None
        drawn = slice(areas.keep[0], areas.kept[0])
        kept[drawn] = philox.factors(states, drawn.stop - drawn.start, self.dropout)
        return philox.advanced(states, drawn.stop - drawn.start)

    def _between(self, l, y, kept, areas):
        """What the next layer reads of the output of layer ``l``."""
        if kept is None:
            return y
        areas.view(kept, "outs", l)[...] = y
        if not self.has_dropout:
            return y
        keep, read = areas.view(kept, "keep", l), areas.view(kept, "kept", l)
        read[...] = np.where(keep == 0, 0.0, y * keep)
        return read

    def terms(self, x, **_):
        return max(self.blob(x.dims[1]).widths) + self.hidden + 2

    def flops(self, x, **_):
        return self.products(x.dims[1])


@dataclass(frozen=True)
class RnnBwdData(Rnn, reads="y dy w dhy? dcy? hx? cx?", writes="dx reserve dhx? dcx?", gradient_of=RnnFwd):
    """Gradients of x and of the first states, from those of y and of the last states.

    ``reserve`` is that of the forward pass. h one step earlier is read from y (the last layer) or its
    ``outs``, else from hx; h of relu and tanh from ``gates``; c from ``cells``, else cx. Behind it the
    ``gates`` hold the gradients that the weights need.
    """
    keeps = frozenset(["reserve"])

    def check(self, y, dy, w, dhy, dcy, hx, cx):
        yield from self.sizes()
        yield w.rank == 1, f"w must have rank 1; got {w.dims}"
        yield from self.layouts(self.inputs_of(w.count), y=y, dy=dy, w=w, dhy=dhy, dcy=dcy, hx=hx, cx=cx)

    def infer(self, y, w, **_):
        return self.described(y.dtype, self.inputs_of(w.count), "dx", "reserve", "dhx", "dcx")

    def check_outputs(self, w, dx, reserve, dhx, dcx, **_):
        yield from self.layouts(self.inputs_of(w.count), dx=dx, reserve=reserve, dhx=dhx, dcx=dcx)

    def reference(self, y, dy, w, dhy, dcy, hx, cx, reserve, rounding=Exact()):
        inputs, areas = self.inputs_of(w.size), self.reserve
        dhy, dcy, hx, cx = [self.state(s) for s in (dhy, dcy, hx, cx)]
        blob, kept, above, w = self.blob(inputs), reserve.copy(), dy, rounding.weights(w)
        dhx, dcx = np.empty(self.state_dims), np.empty(self.state_dims)
        for l in reversed(range(self.layers)):
            out, total = y if l == self.layers - 1 else areas.view(reserve, "outs", l), 0.0
            for d in range(self.directions):
                p, half = l * self.directions + d, slice(d * self.hidden, (d + 1) * self.hidden)
                W, R, _, _ = blob.parts(w, p)
                deltas, dhx[l, d], dcx[l, d] = sweep_back(
                    self.cell, above[:, half], areas.view(reserve, "gates", p),
                    before(out[:, half], hx[l, d], self.batches, d == 1),
                    *self._cells(reserve, areas, p, cx[l, d], d == 1), R, dhy[l, d], dcy[l, d], self.batches,
                    d == 1, rounding)
                areas.view(kept, "gates", p)[...] = deltas
                side = input_side(self.cell, deltas)
                total = rounding.stored(total + (side.sum(1) if W is None else
                                                 side.reshape(self.rows, -1) @ W))
            above = self._through(l - 1, total, reserve, areas) if l else total
        return dict(dx=above, reserve=kept, dhx=dhx, dcx=dcx)

    def _cells(self, reserve, areas, p, cx, is_backward):
        """c one step earlier and c of every row."""
        if self.cell != "lstm":
            return (np.zeros((self.rows, self.hidden)),) * 2
        c = areas.view(reserve, "cells", p)
        return before(c, cx, self.batches, is_backward), c

    def _through(self, l, gradient, reserve, areas):
        """The gradient of a layer's output, from that of what the next one read."""
        if not self.has_dropout:
            return gradient
        keep = areas.view(reserve, "keep", l)
        return np.where(keep == 0, 0.0, gradient * keep)

    def terms(self, w, **_):
        return self.directions * self.gates * self.hidden + 2

    def flops(self, w, **_):
        return self.products(self.inputs_of(w.count))


@dataclass(frozen=True)
class RnnBwdWeights(Rnn, reads="x y reserve hx?", writes="dw", gradient_of=RnnFwd):
    """dw = dw + the gradient of the weights, from the reserve as backward data leaves it.

    The input of a layer above the first is read from ``kept`` where there is dropout, else from ``outs``;
    h one step earlier from y (the last layer) or ``outs``, else from hx.
    """
    keeps = frozenset(["dw"])

    def check(self, x, y, reserve, hx):
        yield from self.sizes()
        yield x.rank == 2 and x.dims[1] > 0, f"x must have dims (rows, inputs); got {x.dims}"
        yield (self.input == "linear" or x.dims[1] == self.hidden,
               f"x must have {self.hidden} columns like hidden, as input is skip; got {x.dims[1]}")
        yield from self.layouts(x.dims[1], x=x, y=y, reserve=reserve, hx=hx)

    def infer(self, x, **_):
        return self.described(x.dtype, x.dims[1], "dw")

    def check_outputs(self, x, dw, **_):
        yield dw.dtype is x.dtype, f"dw must have type {x.dtype}; got {dw.dtype}"
        yield from self.layouts(x.dims[1], dw=dw)

    def reference(self, x, y, reserve, hx, dw):
        return {"dw": self._added(x, y, reserve, self.state(hx), dw)}

    def _added(self, x, y, reserve, hx, dw):
        blob, areas, total = self.blob(x.shape[1]), self.reserve, dw.copy()
        read = "kept" if self.has_dropout else "outs"
        for p in range(self.pseudo_layers):
            l, d = divmod(p, self.directions)
            W, R, bW, bR = blob.parts(total, p)
            out = y if l == self.layers - 1 else areas.view(reserve, "outs", l)
            h = before(out[:, d * self.hidden:(d + 1) * self.hidden], hx[l, d], self.batches, d == 1)
            deltas = areas.view(reserve, "gates", p)
            side = input_side(self.cell, deltas).reshape(self.rows, -1)
            if W is not None:
                W += side.T @ (areas.view(reserve, read, l - 1) if l else x)
            bW += side.sum(0)
            side = recurrent_side(self.cell, deltas).reshape(self.rows, -1)
            R += side.T @ h
            bR += side.sum(0)
        return total

    def magnitude(self, arrays, scalars, results):
        size = {n: np.abs(arrays[n]) for n in ("x", "y", "reserve", "dw")}
        return {"dw": self._added(**size, hx=np.abs(self.state(arrays.get("hx"))))}

    def inner_error(self, arrays, scalars, descs):
        """None: all that is summed is given."""
        return {}

    def terms(self, x, **_):
        return self.rows + 1

    def flops(self, x, **_):
        return self.products(x.dims[1])
