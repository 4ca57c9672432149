"""Stale values that strong loads of a cooperative launch may still see: of a word of global memory the one or
two before, once for each warp and store, where the store does not lie before the load. PTX ISA §Memory
Consistency Model: stores of one thread to two words are seen in any order but for fences: who loads what was
stored behind a fence, and has a fence behind the load, knows what lay before the first one (Release and
Acquire Patterns).
"""
from __future__ import annotations

import numpy as np

from .memory import WORD

WARPS = 64                                       # that are told apart
# of a word: ``value``, ``code``, ``fence`` of the last three stores, the newest first; ``seen``: the warps
# that have loaded since the newest, and between it and the one before
STORES = 3
ROW = np.dtype([("value", np.uint32, STORES), ("fence", np.int32, STORES), ("code", np.int64, STORES),
                ("seen", np.uint64, STORES - 1)])


class Past:
    """``fenced``: {number: what a warp knew at a fence}; number 0 knows nothing. ``of``: the last of each
    warp. ``heard``: what the warps that stored knew at their fences, for each warp that has loaded that."""

    def __init__(self, c):
        self.words, self.of = None, np.zeros(len(c.known), np.int32)
        self.fenced = [np.zeros(c.known.shape[1], np.int32)]
        self.heard = np.zeros_like(c.known)

    def fence(self, c):
        """What the active lanes' warps heard they know, and what they know they say from here on."""
        rows = np.unique(c.row[c.lanes()])
        c.learn(c.lanes(), self.heard[rows])
        c.tick(c.lanes())
        self.of[rows] = len(self.fenced) + np.arange(len(rows))
        self.fenced.extend(c.known[rows])

    def store(self, c, memory, off, values, lanes):
        """Strong stores of words side by side at each place, which are about to be made."""
        if self.words is None:
            self.words = memory.zeros(len(memory.data) // WORD, ROW)
        for i, value in enumerate(values):
            at = off // WORD + i
            rows = self.words[at]
            lost = (rows["code"][:, 0] < c.first) | (rows["value"][:, 0] != memory.view[WORD][at])
            rows[lost] = 0                                   # other instructions have written since
            rows["value"][lost, 0] = memory.view[WORD][at][lost]
            for name, new in (("value", value), ("fence", self.of[c.row[lanes]]), ("code", c.code[lanes]),
                              ("seen", np.uint64(0))):
                rows[name][:, 1:] = rows[name][:, :-1].copy()
                rows[name][:, 0] = new
            self.words[at] = rows

    def load(self, c, memory, off, values, lanes):
        """What strong loads of words side by side give, in place of the newest ``values``."""
        if self.words is None:
            return values
        found, warps = [], c.row[lanes]
        bit = np.uint64(1) << (warps % WARPS).astype(np.uint64)
        for i, value in enumerate(values):
            at = off // WORD + i
            rows = self.words[at]
            known = (rows["code"][:, 0] >= c.first) & (rows["value"][:, 0] == value)
            new, open_ = np.zeros(len(at), np.int64), known.copy()
            for age in range(STORES - 1):                    # how old is what it may see?
                open_ &= (rows["seen"][:, age] & bit) == 0
                open_ &= ~memory.before(c, rows["code"][:, age], c.code[lanes], warps)
                new += open_
            np.bitwise_or.at(self.words["seen"][:, 0], at[known], bit[known])
            pick = np.arange(len(at)), new
            found.append(np.where(known, rows["value"][pick], value))
            self._hear(warps[known], rows["fence"][pick][known])
        return found

    def _hear(self, warps, fences):
        for pair in np.unique(warps.astype(np.int64) << 32 | fences).tolist():
            row, number = pair >> 32, pair & 0xFFFFFFFF
            np.maximum(self.heard[row], self.fenced[number], out=self.heard[row])
