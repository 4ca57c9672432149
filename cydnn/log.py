"""Logging: one switch, ``CYDNN_LOG=1..4`` (choices, reasons, launches, PTX), to stderr,
or to the file in ``CYDNN_LOG_FILE``; ``CYDNN_LOG=trace``: the problems alone, each once.

``CYDNN_PROGRESS=1`` shows a bar where something takes its time and tqdm is installed.

Without the variable the standard logger "cydnn" is used as the program has set it up.
Lines begin with the problem.
"""
from __future__ import annotations

import logging
import os
import sys
import warnings

log = logging.getLogger("cydnn")
LEVELS = {1: logging.INFO, 2: logging.DEBUG, 3: 8, 4: 6}
CHOICES, REASONS, LAUNCHES, PTX = logging.INFO, logging.DEBUG, 8, 6


TRACE = logging.INFO + 5                         # problems alone
_traced: set = set()                             # those that were written
is_tracing = [False]


def trace(problems: list):
    """With CYDNN_LOG=trace, each problem that a plan is made of, once: lines that ``bench @FILE`` takes."""
    for text in problems if is_tracing[0] else ():
        if text not in _traced:
            _traced.add(text)
            log.log(TRACE, "%s", text)


class File(logging.FileHandler):
    """The file of CYDNN_LOG_FILE, opened for the first line. Where it cannot be written, as on a full disk,
    one warning says so; there are no more lines, and what was to be computed is."""
    is_broken = False

    def __init__(self, path):
        super().__init__(path, delay=True)

    def emit(self, record):
        try:
            if not self.is_broken:
                super().emit(record)
        except OSError as error:
            self._give_up(error)

    def handleError(self, record):
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            self._give_up(error)
        else:
            super().handleError(record)

    def _give_up(self, error):
        self.is_broken, stream, self.stream = True, self.stream, None
        try:
            if stream is not None:
                stream.close()
        except OSError:                          # once more what is known
            pass
        warnings.warn(f"CYDNN_LOG_FILE: no more lines are written: {error}", RuntimeWarning, stacklevel=2)


def configure(level: str | None = None):
    """Read CYDNN_LOG (or ``level``) and attach a handler once."""
    text = os.environ.get("CYDNN_LOG", "") if level is None else str(level)
    if text not in ("", "0", "1", "2", "3", "4", "trace"):
        log.warning("CYDNN_LOG must be 0 to 4, or trace; got %r, taken as 0", text)
    number = int(text) if text in ("1", "2", "3", "4") else 0
    _traced.clear()
    is_tracing[0] = text == "trace"
    if (number or is_tracing[0]) and not any(getattr(h, "cydnn", False) for h in log.handlers):
        path = os.environ.get("CYDNN_LOG_FILE")
        handler = File(path) if path else logging.StreamHandler()
        handler.cydnn = True
        form = "%(message)s [%(name)s %(asctime)s]" if number else "%(message)s"
        handler.setFormatter(logging.Formatter(form))
        log.addHandler(handler)
    if number:
        log.setLevel(LEVELS[min(number, 4)])
    if is_tracing[0]:
        log.setLevel(TRACE)
    return number


def progress(items, title: str, is_usual=False):
    """The items one by one, with a bar on stderr if CYDNN_PROGRESS asks for it; where one ``is_usual``, also
    on a terminal, unless it is 0."""
    asked = os.environ.get("CYDNN_PROGRESS")
    if asked in ("", "0") or asked is None and not (is_usual and sys.stderr and sys.stderr.isatty()):
        return items
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        if asked:
            log.warning("CYDNN_PROGRESS needs the package tqdm, which is not installed: no bar")
        return items
    return tqdm(items, desc=title, leave=False)


def watch_launches():
    """From level 3 on, one line for each launch: kernel, grid, block, dynamic shared memory, attributes.
    Called when a CUDA device is made."""
    if log.isEnabledFor(LAUNCHES):
        from . import _core
        text = "launch %s grid=%s block=%s smem=%d %s"
        _core.log_launches(lambda *launch: log.log(LAUNCHES, text, *launch))


configure()
