"""Attributes, operands, rules and error bounds of all operations of recurrent networks.

Sequences are sorted by length, the longest first: ``batches`` says how many are active at each step. Weights
are one blob, what the backward passes need is the reserve; ``rnn_layout`` says where their parts lie.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import BY_NAME
from ..status import BadParam
from ..tensor import TensorDesc
from . import philox
from .attribute import choice, flag, integer, ints, real
from .op import Op
from .rnn_cells import Noisy
from .rnn_layout import CELLS, GATES, Blob, Reserve

STATES = ("hx", "cx", "hy", "cy", "dhx", "dcx", "dhy", "dcy")
NOISY_RUNS = 3
MOST_LAYERS = 1 << 16                            # the places of a blob are a table with a row for each


@dataclass(frozen=True)
class Rnn(Op):
    """The base of the three operations.

    x, dx  (rows, inputs)                the active sequences of every step, one step behind the other
    y, dy  (rows, directions * hidden)   h of the last layer: forward half, backward half
    w, dw  (n,)                          ``rnn_layout.Blob``
    h, c   (layers, directions, batch, hidden)  a state of every sequence, hx to dcy; in memory as written
                                         here, or layers, batch, directions, hidden. Absent: 0, or not stored
    reserve (n,)                         ``rnn_layout.Reserve``; what it says nothing of is left alone
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
    fixed = frozenset(["states"])

    def __post_init__(self):
        super().__post_init__()
        if self.layers > MOST_LAYERS:
            raise BadParam(f"{self.name}: layers must be at most {MOST_LAYERS}; got {self.layers}")
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

    def admit(self, name, values):
        """Weights and gates of the size that networks have: sums neither grow nor vanish over the steps."""
        if name == "states":
            return np.where(np.arange(values.size) == philox.DRAWS, np.rint(values) * philox.ONE_DRAW, values)
        if name == "w":
            return np.clip(values, -1, 1) * self.hidden ** -0.5
        return self._admitted(values) if name == "reserve" else values

    def _admitted(self, values):
        """Values that a forward pass may leave: those of relu and of gates are not negative."""
        found = np.clip(values, 0 if self.cell == "relu" else -1, 1)
        if len(self.logistic) == 0 or found.size != self.reserve.count:       # a benchmark repeats few values
            return np.abs(found) if len(self.logistic) else found
        for p in range(self.pseudo_layers):
            gates = self.reserve.view(found, "gates", p)
            gates[:, self.logistic] = np.abs(gates[:, self.logistic])
        return found

    @property
    def logistic(self) -> list:
        """Which saved values are gates between 0 and 1."""
        return dict(lstm=[0, 1, 3], gru=[0, 1]).get(self.cell, [])

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
