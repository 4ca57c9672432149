"""The matrix on an interpreter, whose buffers (guard/buffers.py) have dead zones and are unset until a test
writes them; kernels that a test changes are forgotten.

The areas of some workspaces, of those that are drawn, lie far from each other: what lies between is dead.
"""
from __future__ import annotations

from contextlib import contextmanager
from unittest import mock

from cydnn import plan
from cydnn.arena import ALIGNMENT, arrange
from cydnn.device.ptx import Finding, PtxDevice  # noqa: F401
from cydnn.heuristics import choice as choices

from support.guard.buffers import FILLS, NEAR, fill_of


@contextmanager
def watching():
    """Plans are forgotten afterwards: a finding leaves its plan in the cache."""
    with mock.patch.object(choices, "arrange", _arranged):
        try:
            yield
        finally:
            plan.forget()


def _arranged(areas) -> tuple[dict, int]:
    """As the library does, or none shared, 512 bytes apart."""
    areas = list(areas)
    if fill_of(str([row[1:] for row in areas])) == FILLS[0]:
        return arrange(areas)
    offsets, size = {}, 0
    for area, length, _, _ in areas:
        offsets[area], size = size, size + -(-length // ALIGNMENT) * ALIGNMENT + 2 * NEAR
    return offsets, size


def run(problem, device, seed=0, engines=None, **more):
    """``matrix.run``; see ``watching``."""
    from support.check import matrix
    with watching():
        return matrix.run(problem, device, seed, engines, **more)
