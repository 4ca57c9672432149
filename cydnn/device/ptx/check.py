"""Switches of the checks, and the text of a finding."""
from __future__ import annotations

from dataclasses import dataclass

from ...status import ExecutionFailed


@dataclass
class Checks:
    """Each can be switched off. Place and alignment of an access are always checked."""
    unwritten: bool = True                       # of global and local memory
    unwritten_shared: bool = True                # off: such a read gives NaN, so only its use shows
    races: bool = True
    in_flight: bool = True
    barriers: bool = True


class Finding(ExecutionFailed):
    """A fault of a kernel: ``kind``, kernel, block, thread, the instruction (and the other one of a race)."""

    def __init__(self, kind, message, **facts):
        super().__init__(message, kind=kind, **facts)
        self.kind = kind
