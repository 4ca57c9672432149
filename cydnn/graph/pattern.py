"""Patterns: what an engine takes. An anchor with pointwise regions around it,
or a region of pointwise nodes alone."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Many:
    """Any number of nodes of these ops, as a connected DAG. As an engine's pattern:
    a region without an anchor.

    ``at``: in front of an anchor, the operands whose values such nodes may make. ``leaves``: such a value may
    be an output of the graph too.
    """
    ops: tuple
    at: tuple = ()
    leaves: bool = False

    def __str__(self):
        names = "|".join(op.name for op in self.ops)
        at = f" at {' '.join(self.at)}" if self.at else ""
        return f"many({names}{at}{', kept or not' if self.leaves else ''})"

    @property
    def op(self):
        """The op of an anchorless pattern: the first one."""
        return self.ops[0]


@dataclass(frozen=True)
class Core:
    """One anchor node. ``before``: nodes that may be taken in front of it, ``behind``: behind it; ``last``:
    ops of which one node may be taken behind all of these."""
    op: type
    before: Many | None = None
    behind: Many | None = None
    last: tuple = ()

    def __str__(self):
        parts = [f"{self.before} -> "] if self.before else []
        last = f" -> {'|'.join(op.name for op in self.last)} or nothing" if self.last else ""
        return "".join([*parts, self.op.name, f" -> {self.behind}" if self.behind else "", last])


def many(*ops: type, at: str = "", leaves: bool = False) -> Many:
    """Any number of nodes of these ops; ``at`` names the operands of the anchor that
    they may stand in front of, ``leaves``: and whose values may be outputs."""
    return Many(ops, tuple(at.split()), leaves)


def core(op: type, before: Many | None = None, behind: Many | None = None, last: tuple = ()) -> Core:
    """An anchor node of ``op`` with what may be fused around it."""
    return Core(op, before, behind, last)
