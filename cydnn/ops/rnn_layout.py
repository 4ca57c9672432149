"""Memory layout of a recurrent network: weights in their blob, what training keeps in the reserve.

Everything is counted in elements. A pseudo-layer p = directions * layer + direction is one layer in one
direction. Spec: legacy API, 4.12.
"""
from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import prod

CELLS = ("relu", "tanh", "lstm", "gru")
GATES = dict(relu=1, tanh=1, lstm=4, gru=3)      # lstm: i f c' o; gru: r i h'
SAVED = dict(relu=1, tanh=1, lstm=4, gru=4)      # values of a unit and step that training keeps
ALIGNED = 64                                     # areas of the reserve start at multiples of it


@dataclass(frozen=True)
class Blob:
    """The weights of a network of ``inputs`` wide rows.

    For each p the input matrices gate by gate (hidden rows of ``widths[p]``; none for layer 0 that skips),
    then the recurrent ones (hidden rows of hidden); behind all p their biases: input side, recurrent side.
    The gates of a p are neighbours: one (gates * hidden, width) matrix from ``weights[p]`` on, one
    (gates * hidden, hidden) from ``recurrent[p]``, two (gates * hidden) vectors from ``biases[p]``.
    """
    gates: int
    hidden: int
    widths: tuple
    weights: tuple
    recurrent: tuple
    biases: tuple
    count: int

    @classmethod
    def of(cls, op, inputs: int) -> "Blob":
        rows = op.gates * op.hidden
        widths = tuple([op.hidden * op.directions if p >= op.directions else
                        0 if op.input == "skip" else inputs for p in range(op.pseudo_layers)])
        sizes = [part for width in widths for part in (rows * width, rows * op.hidden)]
        *starts, end = accumulate(sizes, initial=0)
        biases = tuple([end + 2 * rows * p for p in range(op.pseudo_layers)])
        return cls(op.gates, op.hidden, widths, tuple(starts[::2]), tuple(starts[1::2]), biases,
                   end + 2 * rows * op.pseudo_layers)

    def matrix(self, p: int, gate: int, is_recurrent: bool) -> int:
        """Where the (hidden, width) matrix of one gate starts."""
        width = self.hidden if is_recurrent else self.widths[p]
        return (self.recurrent if is_recurrent else self.weights)[p] + gate * self.hidden * width

    def bias(self, p: int, gate: int, is_recurrent: bool) -> int:
        """Where the (hidden,) bias of one gate starts."""
        return self.biases[p] + (gate + is_recurrent * self.gates) * self.hidden

    def parts(self, w, p: int) -> tuple:
        """Views of an array with the blob's elements: (W, R, bW, bR), all gates of a p; W None where the
        layer skips."""
        rows, h = self.gates * self.hidden, self.hidden
        take = lambda start, *dims: w[start:start + prod(dims)].reshape(dims)
        weights = take(self.weights[p], rows, self.widths[p]) if self.widths[p] else None
        return (weights, take(self.recurrent[p], rows, h), take(self.biases[p], rows),
                take(self.biases[p] + rows, rows))


@dataclass(frozen=True)
class Reserve:
    """The reserve: data that the backward passes need of a forward one. All steps of an area lie one behind
    the other: ``rows`` of them.

    ``gates[p]``  (rows, saved, hidden)  relu, tanh: h; lstm: i f c' o; gru: r i h' and q = R_h h + bR_h.
                  After backward data the gradients of what stood before the functions;
                  gru: those of r i h', and that of q
    ``cells[p]``  (rows, hidden)  lstm: the cell's state after the step
    ``outs[l]``   (rows, directions * hidden)  h of every layer but the last: forward half, backward half
    ``keep[l]``   the same dims, where there is dropout: the factors of ``outs[l]``, 0 or 1 / (1 - dropout).
                  One draw fills them all, with what lies between them
    ``kept[l]``   outs * keep, what the next layer reads
    """
    rows: int
    saved: int
    hidden: int
    directions: int
    gates: tuple
    cells: tuple
    outs: tuple
    keep: tuple
    kept: tuple
    count: int

    @classmethod
    def of(cls, op) -> "Reserve":
        unit, inner = op.rows * op.hidden, op.layers - 1
        masked = inner if op.has_dropout else 0
        parts = ((op.pseudo_layers, SAVED[op.cell]), (op.pseudo_layers * (op.cell == "lstm"), 1),
                 (inner, op.directions), (masked, op.directions), (masked, op.directions))
        end, areas = 0, []
        for many, width in parts:
            step = -(-unit * width // ALIGNED) * ALIGNED
            areas.append(tuple([end + i * step for i in range(many)]))
            end += many * step
        return cls(op.rows, SAVED[op.cell], op.hidden, op.directions, *areas, end)

    def dims(self, area: str) -> tuple:
        """Dims of every area of this name."""
        return ((self.rows, self.saved, self.hidden) if area == "gates" else
                (self.rows, self.hidden) if area == "cells" else (self.rows, self.directions * self.hidden))

    def view(self, reserve, area: str, number: int):
        """The area of an array with the reserve's elements."""
        start, dims = getattr(self, area)[number], self.dims(area)
        return reserve[start:start + prod(dims)].reshape(dims)

    def __iter__(self):
        """(name, number) of every area, in order."""
        return ((area, i) for area in ("gates", "cells", "outs", "keep", "kept")
                for i in range(len(getattr(self, area))))
