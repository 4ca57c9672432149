"""Scheduler of a cooperative launch: a block that polls in a loop must not keep the block that it waits for
from running."""
from __future__ import annotations

import numpy as np

from .gate import WAITS

TURN = 4000                                      # instructions


class Turns:
    """Lanes that ran in one turn rest in the next, while any other can go on; in a random order none rests.
    Barriers open in between: while a lane asks, there is always one that can go on."""

    def __init__(self, lanes: int, is_random: bool):
        self.is_random = is_random
        self.rest, self.ran, self.end = np.zeros(lanes, bool), np.zeros(lanes, bool), TURN

    def keys(self, key, time: int, open_gates):
        """``key``, where those that rest wait. Before all of them go on, what can be opened is."""
        if time >= self.end:
            self.rest, self.ran, self.end = self.rest | self.ran, np.zeros_like(self.ran), time + TURN
            if self.is_random:
                self.rest[:] = False
                open_gates()
        if self.is_random:
            return key
        found = np.where(self.rest, WAITS, key)
        if found.min() >= WAITS and open_gates():
            found = np.where(self.rest, WAITS, key)
        if found.min() < WAITS:
            return found
        self.rest[:] = False
        return key
