"""The cells of recurrent networks in NumPy: one layer in one direction, forward and backward.

Every array holds all rows of all steps, one step behind the other; a step works on the rows of the sequences
that are still active. ``rounding`` sees every value that an engine may round. Spec: legacy API, 4.12.
"""
from __future__ import annotations

from itertools import accumulate

import numpy as np


class Exact:
    """No rounding at all: the meaning."""

    def weights(self, w):
        return w

    def stored(self, value):
        return value

    def function(self, value):
        return value


class Noisy(Exact):
    """Rounding as random relative changes: a value that may be stored by the unit of its type, a function by
    a few units of the math type, a sum through its weights."""

    def __init__(self, seed, stored_eps, math_eps, terms):
        self.random = np.random.default_rng(seed)
        self.stored_eps, self.math_eps, self.sum_eps = stored_eps, math_eps, math_eps * (4 + terms ** 0.5)

    def _change(self, value, eps):
        return eps * self.random.uniform(-1, 1, value.shape)

    def weights(self, w):
        return w * (1 + self._change(w, self.sum_eps))

    def stored(self, value):
        return value * (1 + self._change(value, self.stored_eps + self.math_eps))

    def function(self, value):
        return value + self._change(value, 4 * self.math_eps)


def steps(batches, is_backward: bool) -> list[tuple[int, int]]:
    """(first row, rows) of every step, in the order of a direction."""
    found = list(zip(accumulate(batches, initial=0), batches))
    return found[::-1] if is_backward else found


def before(values, initial, batches, is_backward: bool):
    """For every row the value of its sequence one step earlier in its direction; at its first step that
    of ``initial``."""
    found, state = np.empty_like(values), initial.copy()
    for start, rows in steps(batches, is_backward):
        found[start:start + rows] = state[:rows]
        state[:rows] = values[start:start + rows]
    return found


def logistic(v):
    return 0.5 * (1 + np.tanh(0.5 * v))


def slope(n):
    """The derivative of tanh where it is n: 1 - n², of which nothing is lost where n is near 1."""
    return (1 - n) * (1 + n)


# -- Forward: (sums of the input side, of the recurrent side, h, c) -> (h, c, what is saved) -----------------

def _relu(a, q, h, c, rounding):
    new = np.maximum(a + q, 0)[:, 0]
    return new, c, new[:, None]


def _tanh(a, q, h, c, rounding):
    new = rounding.function(np.tanh(a + q))[:, 0]
    return new, c, new[:, None]


def _lstm(a, q, h, c, rounding):
    z = a + q
    gate = rounding.function(logistic(z))
    gate[:, 2] = rounding.function(np.tanh(z[:, 2]))
    i, f, fresh, o = np.moveaxis(rounding.stored(gate), 1, 0)
    c = rounding.stored(f * c + i * fresh)
    return o * rounding.function(np.tanh(c)), c, np.stack([i, f, fresh, o], 1)


def _gru(a, q, h, c, rounding):
    r, i = np.moveaxis(rounding.stored(rounding.function(logistic(a[:, :2] + q[:, :2]))), 1, 0)
    last = rounding.stored(q[:, 2])
    fresh = rounding.stored(rounding.function(np.tanh(a[:, 2] + r * last)))
    return (1 - i) * fresh + i * h, c, np.stack([r, i, fresh, last], 1)


FORWARD = dict(relu=_relu, tanh=_tanh, lstm=_lstm, gru=_gru)


def sweep(cell, inputs, recurrent, bias, h, c, batches, is_backward, rounding):
    """One layer in one direction. ``inputs`` (rows, gates, hidden): what the input side adds up to;
    ``h`` and ``c`` (batch, hidden): the first states. Returns (h, c, saved) of all rows, the last h and c.
    """
    rows, gates, hidden = inputs.shape
    h, c, ys, cs = h.copy(), c.copy(), np.empty((rows, hidden)), np.empty((rows, hidden))
    saved = np.empty((rows, 4 if gates > 1 else 1, hidden))
    for start, n in steps(batches, is_backward):
        at = slice(start, start + n)
        q = rounding.stored((h[:n] @ recurrent.T + bias).reshape(n, gates, hidden))
        new, c[:n], saved[at] = FORWARD[cell](inputs[at], q, h[:n], c[:n], rounding)
        ys[at] = h[:n] = rounding.stored(new)
        cs[at] = c[:n]
    return ys, cs, saved, h, c


# -- Backward: (dh, dc, saved, h and c one step earlier, c) -> (gradients of sums, what stays of dh, dc) -----

def _relu_back(dh, dc, saved, h, c_before, c, rounding):
    return np.where(saved > 0, dh[:, None], 0.0), 0.0, dc


def _tanh_back(dh, dc, saved, h, c_before, c, rounding):
    return dh[:, None] * slope(saved), 0.0, dc


def _lstm_back(dh, dc, saved, h, c_before, c, rounding):
    i, f, fresh, o = np.moveaxis(saved, 1, 0)
    level = rounding.function(np.tanh(c))
    dc = rounding.stored(dc + dh * o * slope(level))
    return np.stack([dc * fresh * i * (1 - i), dc * c_before * f * (1 - f), dc * i * slope(fresh),
                     dh * level * o * (1 - o)], 1), 0.0, dc * f


def _gru_back(dh, dc, saved, h, c_before, c, rounding):
    r, i, fresh, last = np.moveaxis(saved, 1, 0)
    d_fresh = rounding.stored(dh * (1 - i) * slope(fresh))
    return np.stack([d_fresh * last * r * (1 - r), dh * (h - fresh) * i * (1 - i), d_fresh,
                     d_fresh * r], 1), dh * i, dc


BACKWARD = dict(relu=_relu_back, tanh=_tanh_back, lstm=_lstm_back, gru=_gru_back)


def recurrent_side(cell, deltas):
    """The gradients that the recurrent weights see, of those that are kept: (rows, gates, hidden)."""
    return deltas[:, [0, 1, 3]] if cell == "gru" else deltas


def input_side(cell, deltas):
    """The same of the input weights."""
    return deltas[:, :3] if cell == "gru" else deltas


def sweep_back(cell, dy, saved, h, c_before, c, recurrent, dh, dc, batches, is_backward, rounding):
    """One layer in one direction, from its last step to its first. ``dy`` (rows, hidden): what comes from
    above; ``h``: that of one step earlier. Returns the gradients of what is saved, and dh and dc of the first
    states."""
    dh, dc, deltas = dh.copy(), dc.copy(), np.empty_like(saved)
    for start, n in reversed(steps(batches, is_backward)):
        at = slice(start, start + n)
        found, stays, dc[:n] = BACKWARD[cell](rounding.stored(dy[at] + dh[:n]), dc[:n], saved[at], h[at],
                                              c_before[at], c[at], rounding)
        deltas[at] = rounding.stored(found)
        side = recurrent_side(cell, deltas[at])
        dh[:n] = rounding.stored(side.reshape(n, -1) @ recurrent + stays)
    return deltas, dh, dc
