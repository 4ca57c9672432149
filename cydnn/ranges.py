"""NVTX ranges, for the timeline of a profiler: ``CYDNN_NVTX=1`` puts every execute of a plan into a range
that has the problem's text as its name. Nothing is loaded, and no call costs more, where it is not asked for.

A range is opened and closed on the host. What draws it (Nsight Systems) projects it onto the kernels.
"""
from __future__ import annotations

import ctypes
import os
from functools import lru_cache

from .log import log

VARIABLE = "CYDNN_NVTX"
LIBRARIES = ("libnvtx3interop.so.1", "libnvToolsExt.so.1")   # of CUDA 12.9 and newer, of older ones


class Ranged:
    """What executes, in a range; for all else it is that itself. ``push``, ``pop``: of NVTX."""

    def __init__(self, executable, name: str, push, pop):
        self.executable, self.name, self.push, self.pop = executable, name, push, pop
        self.tape = getattr(executable, "tape", executable)

    def __getattr__(self, name):
        return getattr(self.executable, name)

    def execute(self, *args, **kw) -> None:
        """As what is inside has it."""
        self.push(self.name)
        try:
            self.executable.execute(*args, **kw)
        finally:
            self.pop()


def named(executable, name: str):
    """What executes, in ranges of this name where CYDNN_NVTX asks for them."""
    ways = _ways(os.environ.get(VARIABLE, ""))
    return executable if ways is None else Ranged(executable, name, *ways)


@lru_cache(maxsize=None)
def _ways(text: str):
    """(push, pop) of NVTX; None where ``text`` asks for none, and, with a warning, where there is none."""
    if text in ("", "0"):
        return None
    if text != "1":
        log.warning("%s must be 0 or 1; got %r, taken as 0", VARIABLE, text)
        return None
    found = _package() or next(filter(None, map(_library, LIBRARIES)), None)
    if found is None:
        log.warning("%s: no ranges, as the package nvtx and the libraries %s are not there: pip install nvtx",
                    VARIABLE, " and ".join(LIBRARIES))
    return found


def _package():
    try:
        import nvtx
    except ImportError:
        return None
    return nvtx.push_range, nvtx.pop_range


def _library(name: str):
    try:
        library = ctypes.CDLL(name)
        push, pop = library.nvtxRangePushA, library.nvtxRangePop
    except (OSError, AttributeError):
        return None
    return lambda text: push(text.encode()), pop
