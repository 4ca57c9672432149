"""Guards in a program's own run on a GPU: ``CYDNN_DEBUG=sync,redzone,init,nan``, any of these words.

    sync      each launch is waited for, so that an error names the very launch
    redzone   a plan works on copies with 64 KiB of 0xFF around each operand and the workspace: what is
              written there is said, and what is read there is NaN. Memory that other devices write, too, is
              used as it is
    init      memory of ours, and every workspace, holds 0xFF when it is first read: NaN
    nan       an output with a NaN is said, where no input has one

All wait or copy: none is for a stream that is captured, or for timing.
"""
from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from .. import _core
from ..log import log
from ..operand import shape_of
from ..status import ExecutionFailed

WORDS = frozenset(("sync", "redzone", "init", "nan"))
GUARD, ALIGNMENT, FILL = 1 << 16, 256, 0xFF


def asked(text: str | None = None) -> frozenset:
    """The words of CYDNN_DEBUG, or of ``text``. Others are warned of."""
    given = os.environ.get("CYDNN_DEBUG", "") if text is None else text
    words = {word.strip() for word in given.split(",")} - {""}
    if words - WORDS:
        log.warning("CYDNN_DEBUG must be words of %s; got %r", ", ".join(sorted(WORDS)), given)
    return frozenset(words & WORDS)


class GuardedArea(NamedTuple):
    """A copy of some bytes at ``start``: ``size`` of them begin at ``at`` in ``buffer``, guards on both
    sides."""
    names: str
    start: int
    size: int
    at: int
    buffer: _core.Buffer


class Guarded:
    """A tape between guards; for all else it is the tape. ``fill``: what guards and the workspace hold."""

    def __init__(self, tape: _core.Tape, device, words, fill=FILL):
        self.tape, self.device, self.words, self.fill = tape, device, words, fill
        self.workspace_bytes = tape.workspace_bytes

    def __getattr__(self, name):
        return getattr(self.tape, name)

    def execute(self, pointers, scalars=None, workspace=None, workspace_bytes=0, stream=None) -> None:
        """As ``Tape.execute``, on copies. Waits. Raises ExecutionFailed for what a guard finds; then nothing
        is copied back."""
        self.tape.check(pointers, workspace, workspace_bytes)
        places = [_core.memory_of(x).address for x in pointers]
        areas = [self._copied(*span, stream) for span in self._spans(places)]
        size = self.tape.workspace_bytes
        if size:
            areas.append(self._area("workspace", 0, size, stream))
        given = tuple([place if row.is_shared else _moved(areas, place, row.bytes)
                       for place, row in zip(places, self.operands.rows)])
        before = self._nans(given, stream) if "nan" in self.words else {}
        self.tape.execute(given, scalars, areas[-1].at if size else None, size, stream)
        self.device.synchronize(stream)
        if "redzone" in self.words:
            self._look_beside(areas, stream)
        if "nan" in self.words:
            self._look_for_nans(before, self._nans(given, stream))
        for row, place, at in zip(self.operands.rows, places, given):
            if row.is_written and at and not row.is_shared:
                self.device.context.copy(place, at, row.bytes, stream)
        self.device.synchronize(stream)

    # ---- Copies ----

    def _spans(self, places) -> list:
        """[(names, start, bytes)] of the operands; those that share bytes are one."""
        found: list = []
        rows = [(at, at + row.bytes, row.name) for at, row in zip(places, self.operands.rows)
                if at and row.bytes and not row.is_shared]
        for start, end, name in sorted(rows):
            if found and start < found[-1][1]:
                found[-1] = found[-1][0], max(end, found[-1][1]), f"{found[-1][2]}, {name}"
            else:
                found.append((start, end, name))
        return [(names, start, end - start) for start, end, names in found]

    def _area(self, names, start, size, stream) -> GuardedArea:
        """Memory with guards, aligned as ``start`` is; all of the fill."""
        buffer = _core.Buffer(self.device.context, size + 2 * GUARD + ALIGNMENT)
        self.device.memset(buffer, self.fill, buffer.bytes, stream)
        return GuardedArea(names, start, size, buffer.ptr + GUARD + start % ALIGNMENT, buffer)

    def _copied(self, names, start, size, stream) -> GuardedArea:
        area = self._area(names, start, size, stream)
        self.device.context.copy(area.at, start, size, stream)
        return area

    # ---- What guards find ----

    def _report(self, guard, sentence):
        kernels = ", ".join(self.tape.kernels)
        raise ExecutionFailed(f"{self.tape.problem}: CYDNN_DEBUG={guard}: {sentence}; kernels {kernels}")

    def _look_beside(self, areas, stream):
        for area in areas:
            end = area.at + area.size
            last = area.buffer.ptr + area.buffer.bytes
            for first, size, side in ((area.buffer.ptr, area.at - area.buffer.ptr, "in front of"),
                                      (end, last - end, "behind")):
                found = self.device.copy_out(first, np.empty(size, np.uint8), stream) != self.fill
                if found.any():
                    where = np.flatnonzero(found)
                    nearest = int(size - where[-1] if side == "in front of" else where[0] + 1)
                    self._report("redzone", f"{area.names}: {len(where)} bytes {side} it were written, "
                                            f"the nearest {nearest} away")

    def _nans(self, given, stream) -> dict:
        """{operand: where it has a NaN}, of floats."""
        found = {}
        for row, at in zip(self.operands.rows, given):
            if at and row.bytes and row.desc is not None and row.desc.dtype.kind == "float":
                flat = self.device.copy_out(at, np.empty(row.bytes, np.uint8), stream)
                (dims, strides), size = shape_of(row.desc), row.desc.dtype.numpy.itemsize
                stored = flat[:flat.size // size * size].view(row.desc.dtype.numpy)
                view = np.lib.stride_tricks.as_strided(stored, dims, [s * size for s in strides])
                found[row] = np.isnan(row.desc.dtype.decode(view))
        return found

    def _look_for_nans(self, before, after):
        if any(where.any() for row, where in before.items() if not row.is_written):
            return                               # it may be what was asked for
        for row, where in after.items():
            if row.is_written and where.any():
                kept = np.count_nonzero(where & before[row])
                first = tuple(np.argwhere(where)[0].tolist())
                self._report("nan", f"{row.name}: {np.count_nonzero(where)} elements are NaN, the first "
                                    f"{first}, and no input has one; {kept} of them were NaN before")


def _moved(areas, place: int, size: int) -> int:
    """Where the bytes of an operand are copied to; an empty one stays."""
    for area in areas:
        if size and area.start <= place < area.start + area.size:
            return area.at + place - area.start
    return place if not size else 0
