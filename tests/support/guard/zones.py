"""Calls that are captured, counted or timed, around which nothing may be copied: their operands and
workspaces lie between guard zones (buffers.py) all the time, which are looked at when all is done."""
from __future__ import annotations

from cydnn import bench
from cydnn.heuristics import ANYTHING

from .buffers import FILLS, WORKSPACE_SHIFT, Space, shift_of


class Zoned(bench.Case):
    """``fill``: what the zones hold, and the workspace at first."""

    def __init__(self, problem, device, wish=ANYTHING, scalars=(), fill=FILLS[0]):
        self.fill, self.spaces = fill, {}
        super().__init__(problem, device, wish, scalars)

    def room(self, name, size_bytes):
        desc, shift = self.problem.operands.get(name), WORKSPACE_SHIFT
        if desc is not None:
            unit = desc.dtype.bytes_of(1)
            shift = unit * shift_of(name, desc, self.problem.alignment, str(self.problem))
        self.spaces[name] = Space(self.device, size_bytes, shift, self.fill)
        return self.spaces[name]

    def beside(self) -> list[str]:
        """What was written beside an operand or the workspace. Waits."""
        self.device.synchronize()
        changed = {name: space.changed_beside() for name, space in self.spaces.items()}
        return [f"{count} bytes written beside {name}" for name, count in changed.items() if count]
