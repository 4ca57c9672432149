"""Release and acquire between blocks of a cooperative launch: an acquire at an address of global memory makes
visible what was visible to the releases there before it. PTX ISA §Memory Consistency Model, Release and
Acquire Patterns; those of a fence and a relaxed load or store are those of past.py, those of atomics tell
nothing here."""
from __future__ import annotations

import numpy as np

from .past import Past

FAR_ENOUGH = ("gpu", "sys")                      # scopes that other blocks are in


class Signals:
    """``told``: {address: what all who released there knew}. ``past``: of strong words, where blocks wait for
    each other."""

    def __init__(self, c):
        self.told, self.past = {}, Past(c) if c.cooperative and c.checks.races else None

    def pass_on(self, c, m, address):
        """A load, store or atomic of the active lanes at ``address``, which has been done."""
        order = m.get("order", "")
        if order not in ("acquire", "release", "acq_rel") or m.get("scope", "gpu") not in FAR_ENOUGH:
            return
        lanes = c.lanes()
        pairs = set(zip(c.row[lanes].tolist(), np.broadcast_to(address, lanes.shape).tolist()))
        if order != "release":
            for row, place in pairs:
                c.known[row] = np.maximum(c.known[row], self.told.get(place, 0))
        if order != "acquire":
            c.tick(lanes)
            for row, place in pairs:
                self.told[place] = np.maximum(c.known[row], self.told.get(place, 0))
