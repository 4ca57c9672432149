"""Recurrent networks over sequences: forward, and the gradients of data and of weights.

Sequences are sorted by length, the longest first: ``batches`` says how many are active at each step. Weights
are one blob, what the backward passes need is the reserve; ``rnn_layout`` says where their parts lie.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import BY_NAME
from ..status import BadParam
from ..tensor import TensorDesc
from .op import Op, choice, flag, integer, ints, real
from .rnn_cells import Exact, Noisy, before, input_side, recurrent_side, sweep, sweep_back
from .rnn_layout import CELLS, GATES, Blob, Reserve

STATES = ("hx", "cx", "hy", "cy", "dhx", "dcx", "dhy", "dcy")
NOISY_RUNS = 3


@dataclass(frozen=True)
class Rnn(Op):
    """What the three share.

    x, dx  (rows, inputs)                the active sequences of every step, one step behind the other
    y, dy  (rows, directions * hidden)   h of the last layer: forward half, backward half
    w, dw  (n,)                          ``rnn_layout.Blob``
    h, c   (layers, directions, batch, hidden)  a state of every sequence, hx to dcy; in memory as written
                                         here, or layers, batch, directions, hidden. Absent: 0, or not stored
    reserve (n,)                         ``rnn_layout.Reserve``; elements between its areas are left alone
    A state is the one behind a sequence's own last step in that direction. h is rounded to its type at every
    step, c stays in the math type.
    Spec: legacy API, 4.12.
    """
    cell: str = choice(*CELLS)
    hidden: int = integer(default=1, lo=1)
    layers: int = integer(default=1, lo=1)
    bidirectional: bool = flag()
    input: str = choice("linear", "skip", doc="skip: layer 0 adds x to every gate instead of W x")
    batches: tuple = ints(default=(1,), lo=1, doc="active sequences at every step, never more than before")
    dropout: float = real(default=0.0, doc="probability of dropping what goes from one layer to the next")

    scalars = {}

    def __post_init__(self):
        super().__post_init__()
        if isinstance(self.batches, int):
            object.__setattr__(self, "batches", (self.batches,))

    @property
    def gates(self) -> int:
        return GATES[self.cell]

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def pseudo_layers(self) -> int:
        return self.layers * self.directions

    @property
    def rows(self) -> int:
        return sum(self.batches)

    @property
    def width(self) -> int:
        """Columns of y."""
        return self.directions * self.hidden

    @property
    def state_dims(self) -> tuple:
        return self.layers, self.directions, self.batches[0], self.hidden

    @property
    def has_dropout(self) -> bool:
        return self.dropout > 0 and self.layers > 1

    def blob(self, inputs: int) -> Blob:
        return Blob.of(self, inputs)

    @property
    def reserve(self) -> Reserve:
        return Reserve.of(self)

    def inputs_of(self, w_count: int) -> int:
        """Columns of x by the size of the blob. Raises BadParam."""
        if self.input == "skip":
            return self.hidden
        fixed = self.blob(0).count
        each = self.directions * self.gates * self.hidden
        if w_count <= fixed or (w_count - fixed) % each:
            raise BadParam(f"{self.name}: w must have {fixed} + {each} * inputs elements; got {w_count}")
        return (w_count - fixed) // each

    # ---- Rules ----

    def sizes(self):
        """Rules of the attributes."""
        falling = all(a >= b for a, b in zip(self.batches, self.batches[1:]))
        yield len(self.batches) > 0, "batches must have at least one step; got none"
        yield falling, f"batches must never grow over the steps; got {self.batches}"
        yield 0 <= self.dropout <= 1, f"dropout must be between 0 and 1; got {self.dropout}"

    def layouts(self, inputs: int, **descs):
        """Rules of every operand that is given, by its name."""
        want = dict(x=(self.rows, inputs), w=(self.blob(inputs).count,), y=(self.rows, self.width),
                    reserve=(self.reserve.count,))
        first = next(d for d in descs.values() if d is not None)
        yield (first.dtype.kind == "float" and self.compute == first.dtype.compute,
               f"compute must be {first.dtype.compute} for operands of {first.dtype}; got {self.compute}")
        for name, d in descs.items():
            if d is None:
                continue
            is_state = name in STATES
            dims = self.state_dims if is_state else want[name.removeprefix("d")]
            yield d.dims == dims, f"{name} must have dims {dims}; got {d.dims}"
            yield d.dtype is first.dtype, f"{name} must have type {first.dtype}; got {d.dtype}"
            yield (d.is_packed() or is_state and self.is_split(d),
                   f"{name} must have no gaps{' in one of two orders' if is_state else ''}; "
                   f"got strides {d.strides}")
            yield (self.cell == "lstm" or name[-2:] not in ("cx", "cy"),
                   f"{name} must be absent, as cell is not lstm; got {d}")

    def split(self, dtype) -> TensorDesc:
        """A state in the order layers, batch, directions, hidden."""
        return TensorDesc.packed(dtype, self.state_dims, (0, 2, 1, 3))

    def is_split(self, d: TensorDesc) -> bool:
        return d.same_layout(self.split(d.dtype))

    def described(self, dtype, inputs: int, *names) -> dict:
        """Packed descriptors of operands by name; cells are None where there are none."""
        dims = dict(x=(self.rows, inputs), y=(self.rows, self.width), w=(self.blob(inputs).count,),
                    reserve=(self.reserve.count,))
        has = lambda name: self.cell == "lstm" or name[-2:] not in ("cx", "cy")
        return {n: TensorDesc.packed(dtype, self.state_dims if n in STATES else dims[n.removeprefix("d")])
                if has(n) else None for n in names}

    # ---- Problem texts: t steps, n sequences, i inputs ----

    @classmethod
    def free_attributes(cls, words):
        if len(words) != 1 or len(words[0]) != 3:
            raise BadParam(f"{cls.name}: dims must be t (steps) n (sequences) i (inputs); got {words}")
        t, n, _ = words[0]
        return dict(batches=(n,) * t)

    def free_dims(self, words, options):
        steps, batch, inputs = words[0]
        if (steps, batch) != (len(self.batches), self.batches[0]):
            raise BadParam(f"{self.name}: batches must have {steps} steps, the first of {batch}; "
                           f"got {self.batches}")
        descs = self.described("f32", inputs, *(n for n in self.operands() if n != "states"))
        return {name: d.dims for name, d in descs.items() if d is not None}

    # ---- For tests and benchmarks ----

    def amplitude(self, name):
        """Weights of the size that networks have: sums neither grow nor vanish over the steps."""
        return self.hidden ** -0.5 if name == "w" else 1.0

    def products(self, inputs: int) -> int:
        """Flops of every weight once a row."""
        blob = self.blob(inputs)
        return 2 * self.rows * blob.biases[0]

    def state(self, array):
        """A (layers, directions, batch, hidden) array; 0 where it is absent."""
        return np.zeros(self.state_dims) if array is None else array

    def inner_error(self, arrays, scalars, descs):
        """From runs whose roundings are random: what they change, each row of units by itself."""
        stored = next(d for d in descs.values() if d is not None).dtype
        terms, exact, changes = self.terms(**descs), self.evaluate(arrays, scalars), {}
        for seed in range(NOISY_RUNS):
            noise = Noisy(seed, stored.eps, BY_NAME[self.math].eps, terms)
            for name, value in self._noisy(arrays, noise).items():
                if name != "states":
                    changes.setdefault(name, []).append(np.abs(value - exact[name]))
        return {name: self._room(name, np.stack(found)) for name, found in changes.items()}

    def _noisy(self, arrays, rounding):
        given = {n: arrays.get(n) for n in (*self.reads, *(o for o in self.writes if o in self.keeps))}
        return self.reference(**given, rounding=rounding)

    def _room(self, name, changes):
        """Absolute errors that runs with such changes let expect."""
        if name != "reserve":
            return _spread(changes)
        found, areas = np.zeros(changes.shape[1:]), self.reserve
        for area, number in areas:
            part = np.stack([areas.view(run, area, number) for run in changes])
            areas.view(found, area, number)[...] = _spread(part)
        return found


def _spread(changes):
    """(runs, …, units) -> (…, units): twice the largest change, four times that of its row,
    half that of all."""
    square = np.nan_to_num(changes) ** 2
    row = np.sqrt(square.mean(axis=(0, -1)))[..., None]
    return 2 * changes.max(axis=0) + 4 * row + 0.5 * np.sqrt(square.mean())


@dataclass(frozen=True)
class RnnFwd(Rnn, reads="x w hx? cx?", writes="y hy? cy? reserve? states?"):
    """y, and the states behind the last steps, of a network that starts from hx and cx.

    With a reserve this is training: what the backward passes read is stored there, and where there is
    dropout, ``states`` (of the dropout op) gives the masks of all layers at once, as one dropout of
    (layers - 1, rows, directions * hidden) would, and moves on. Without one there is no dropout.
    """
    keeps = frozenset(["reserve", "states"])

    def check(self, x, w, hx, cx):
        yield from self.sizes()
        yield x.rank == 2 and x.dims[1] > 0, f"x must have dims (rows, inputs); got {x.dims}"
        yield (self.input == "linear" or x.dims[1] == self.hidden,
               f"x must have {self.hidden} columns like hidden, as input is skip; got {x.dims[1]}")
        yield from self.layouts(x.dims[1], x=x, w=w, hx=hx, cx=cx)

    def infer(self, x, w, hx, cx):
        return self.described(x.dtype, x.dims[1], "y", "hy", "cy", "reserve")

    def check_outputs(self, x, states, **others):
        others = {n: others[n] for n in ("y", "hy", "cy", "reserve")}
        yield from self.layouts(x.dims[1], **others)
        yield not self.has_dropout, f"dropout must be 0 until its masks are drawn; got {self.dropout}"
        needs = others["reserve"] is not None and self.has_dropout
        yield states is not None or not needs, "states must be given, as there is a reserve and dropout"
        yield states is None or needs, "states must be absent, as there is no reserve or no dropout"

    def reference(self, x, w, hx, cx, reserve, states, rounding=Exact()):
        blob, hx, cx = self.blob(x.shape[1]), self.state(hx), self.state(cx)
        hy, cy, areas = np.empty(self.state_dims), np.empty(self.state_dims), self.reserve
        kept = None if reserve is None else reserve.copy()
        below, w = x, rounding.weights(w)
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

    def _between(self, l, y, kept, areas):
        """What the next layer reads."""
        if kept is not None:
            areas.view(kept, "outs", l)[...] = y
        return y

    def terms(self, x, **_):
        return max(self.blob(x.dims[1]).widths) + self.hidden + 2

    def flops(self, x, **_):
        return self.products(x.dims[1])


@dataclass(frozen=True)
class RnnBwdData(Rnn, reads="y dy w dhy? dcy? hx? cx?", writes="dx reserve dhx? dcx?"):
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
class RnnBwdWeights(Rnn, reads="x y reserve hx?", writes="dw"):
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
