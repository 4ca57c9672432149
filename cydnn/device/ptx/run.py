"""Which instructions of which kernel have run: ``coverage(device)`` after any number of plans, ``uncovered(code)`` line by line."""
from __future__ import annotations

from typing import Iterator, NamedTuple

from .code import Code


class Coverage(NamedTuple):
    """How many of a kernel's instructions have run at least once."""
    kernel: str
    executed: int
    total: int

    @property
    def fraction(self) -> float:
        return self.executed / max(self.total, 1)


def coverage(device) -> list[Coverage]:
    """One row for each kernel text that the device has decoded, the least covered first."""
    rows = [Coverage(c.program.name, int(c.executed.sum()), len(c.executed)) for c in device.codes.values()]
    return sorted(rows, key=lambda r: r.fraction)


def uncovered(code: Code) -> Iterator[str]:
    """Line and text of every instruction that has not run."""
    for instruction, ran in zip(code.instructions, code.executed):
        if not ran:
            yield f"{code.program.file}:{code.line(instruction)}: {instruction.text}"


def table(device) -> str:
    """The coverage as text."""
    rows = coverage(device)
    return "\n".join([f"{r.fraction:6.1%}  {r.executed:>6} of {r.total:<6}  {r.kernel}" for r in rows] or ["nothing has run"])
