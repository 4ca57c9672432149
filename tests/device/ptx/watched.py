"""The matrix on an interpreter, whose buffers (support/buffers.py) have dead zones and are unset until a test
writes them; kernels that a test changes are forgotten."""
from __future__ import annotations

from contextlib import contextmanager

from cydnn.device.ptx import Finding, PtxDevice  # noqa: F401


@contextmanager
def watching():
    """Plans are forgotten afterwards: a finding leaves its plan in the cache."""
    from cydnn import plan                       # here, so that tests of the interpreter alone need no plans
    try:
        yield
    finally:
        plan.forget()


def run(problem, device, seed=0, engines=None, **more):
    """``matrix.run``; see ``watching``."""
    from support import matrix
    with watching():
        return matrix.run(problem, device, seed, engines, **more)
