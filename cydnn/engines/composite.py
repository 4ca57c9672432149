"""The composite: any graph on any device, one node (or what it is made of) after the other."""
from __future__ import annotations

from .engine import Engine


class Composite(Engine):
    """Takes every valid graph. Each node runs on the engine that is cheapest for it alone, intermediates lie
    in the workspace and share it by how long they live. It is a way to cover a graph (heuristics/cover.py),
    so it has no launches of its own."""
    index = 1
    notes = ()

    @property
    def op(self):
        return None
