"""Arrays whose type or layout is not that of their tensor. The package that programs are written for looks at
addresses only; so the memory of one that is large enough is used as it lies, and that is said."""
from __future__ import annotations

import os
import sys
import warnings

from ..operand import unfit


class Misfits:
    """Warnings of a graph's plans about such arrays, one for each tensor."""

    def __init__(self):
        self.known: set = set()

    def __call__(self, operand, memory, rule):
        if operand.name not in self.known:
            warnings.warn(f"execute: {unfit(operand, memory, rule)}; its memory is used as it lies, and "
                          "refused where CYDNN_STRICT=1", stacklevel=_callers_level())
            self.known.add(operand.name)


def allowed() -> Misfits | None:
    """None where ``CYDNN_STRICT=1``: then such arrays are refused."""
    return None if os.environ.get("CYDNN_STRICT") == "1" else Misfits()


def _callers_level() -> int:
    """How far above the warning the caller of the library is."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("cydnn."):
        frame, level = frame.f_back, level + 1
    return level
