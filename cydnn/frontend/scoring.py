"""A caller's own changes of attention's scores: what callbacks add to a graph, as rows (ops/rows.py)."""
from __future__ import annotations

from ..given import shown
from ..ops import Pointwise
from ..ops.attention.attended import COORDINATES
from ..status import BadParam
from .errors import cudnnGraphNotSupportedError
from .tensor import tensor


class Recorded:
    """``rows``, and the tensors that they ``read`` as e0 … . Later callbacks may read what earlier ones
    made."""

    def __init__(self):
        self.rows, self.read, self._known = [], [], {}

    def add(self, where: str, steps, given: tensor, start: str, last):
        """The steps that a callback has added, and what it returned; ``given``: what it got, which rows call
        ``start``."""
        self._known[given] = start
        before = len(self.rows)
        for step in steps:
            self._step(where, step)
        if not isinstance(last, tensor) or last not in self._known:
            raise BadParam(f"{where} must return a tensor that it made of what it got; got {shown(last)}")
        name = self._known[last]
        is_last = len(self.rows) > before and name == f"n{len(self.rows) - 1}"
        if not is_last and (name != start or self.rows):
            self.rows.append((Pointwise(mode="identity"), (name,)))

    def _step(self, where, step):
        y = step.outputs["y"] if step.op is Pointwise else None
        if y is None or not y.is_virtual:
            what = f"output {y.label}" if y is not None else step.op.name
            raise cudnnGraphNotSupportedError(f"{where} must add pointwise operations alone, whose values "
                                              f"are virtual; got {what}")
        op = Pointwise(**step.attributes)
        if op.mode == "gen_index":
            self._known[y] = self._index(where, op.axis, step.inputs["x"])
            return
        self.rows.append((op, tuple([self._name(t) for t in step.inputs.values()])))
        self._known[y] = f"n{len(self.rows) - 1}"

    def _index(self, where, axis: int, of: tensor):
        """A coordinate; 0 along a dim of 1 of a tensor that is not made of the scores."""
        if not 0 <= axis < 4:
            raise BadParam(f"{where} must have indices along the dims 0 to 3; got axis {axis}")
        is_one = of not in self._known and of.get_dim()[axis:axis + 1] == [1]
        return 0.0 if is_one else COORDINATES[axis]

    def _name(self, t: tensor):
        """What a row calls a value: a name, or a number that never changes."""
        if t in self._known:
            return self._known[t]
        if t.is_constant and t.value is not None:
            return float(t.value)
        self.read += [] if t in self.read else [t]
        return f"e{self.read.index(t)}"
