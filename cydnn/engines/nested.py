"""Nested operations: parts of an engine's plan that other engines compute, over addresses of that plan.

Here, and in conv/gemm.py, engines are chosen among outside heuristics/ (docs/design.md, section 4).
"""
from __future__ import annotations

from typing import NamedTuple

from ..graph import Graph, Match, Node, Tensor
from ..status import NotSupported
from ..steps import Pointer, Scalar, mapped
from ..tensor import TensorDesc

AFTER_US = 2.0                                   # of a launch that waits for one before it, beside its own


class NestedOperand(NamedTuple):
    """A tensor at an address of the outer plan. ``alignment``: bytes that the address is a multiple of."""
    desc: TensorDesc
    pointer: Pointer
    alignment: int = 16


class NestedOp:
    """One op over ``operands``, computed by the cheapest of some engines. ``numbers``: those of the outer
    plan (``Match.scalar``) are given at execute, all others are fixed."""

    def __init__(self, op, engines, numbers=None, **operands):
        self.where = {i + 1: o.pointer for i, o in enumerate(operands.values())}
        tensors = [Tensor(i + 1, o.desc, alignment=o.alignment) for i, o in enumerate(operands.values())]
        node = Node(op, {name: i + 1 for i, name in enumerate(operands)}, numbers or {})
        self.given = {value for value in (numbers or {}).values() if isinstance(value, Scalar)}
        self.match, self.engines = Match.single(Graph([node], tensors)), engines

    def reasons(self, dev):
        """Why none of the engines takes it; nothing where one does."""
        if not any(e.accepts(self.match, dev) for e in self.engines):
            yield from (reason for e in self.engines for reason in e.reasons(self.match, dev))

    def choice(self, dev) -> tuple:
        """(µs, engine, configuration), the cheapest. Raises NotSupported."""
        found = [self._costed(e, dev) for e in self.engines if e.accepts(self.match, dev)]
        if not found:
            raise NotSupported(f"{self.match.op.name}: {'; '.join(self.reasons(dev))}")
        return min(found, key=lambda each: each[0])

    def _costed(self, engine, dev) -> tuple:
        config = engine.best(self.match, dev)
        waits = len(engine.plan(self.match, dev, config)) - 1
        return engine.cost(self.match, dev, config) + AFTER_US * max(waits, 0), engine, config

    def steps(self, dev) -> list:
        """Its launches, over the outer plan's addresses."""
        def turn(value):
            if isinstance(value, Scalar):
                return value if value in self.given else value.default
            return self.where[value.uid] + value.addend if value.uid in self.where else value
        _, engine, config = self.choice(dev)
        return [mapped(step, turn) for step in engine.plan(self.match, dev, config)]
