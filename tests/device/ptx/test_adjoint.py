"""The adjoint identity of backward engines on the interpreter (support/check/adjoint.py); on a GPU
tests/gpu/test_adjoint_identity.py asks it of 200 shapes each.

``CYDNN_SHAPES`` shapes for each engine (default 1).
"""
from __future__ import annotations

import os
from itertools import islice

import numpy as np
import pytest

from cydnn import device as devices
from support.check import adjoint

SHAPES, FLOPS = int(os.environ.get("CYDNN_SHAPES", 1)), 3e5


def shapes(engine, device, count, in_f32=False):
    """(problem, seed, identity) of small ones, drawn anew with each state of the sources."""
    drawn = adjoint.problems(engine, device.facts, os.environ["CYDNN_SEED"])
    small = ((p, seed) for p, seed in drawn if p.flops < FLOPS and (not in_f32 or adjoint.is_f32(p)))
    found = ((p, seed, adjoint.identity(p, seed, engine, device)) for p, seed in small)
    return list(islice((each for each in found if each[2] is not None), count))


@pytest.mark.share(6)
@pytest.mark.parametrize("engine", adjoint.ENGINES, ids=str)
def test_adjoint(engine):
    found = shapes(engine, devices.get("ptx:sm_90"), SHAPES)
    assert found
    wrong = [f"{p} seed={seed}: {identity}" for p, seed, identity in found if not identity.holds]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["softmax_bwd_warp", "conv_wgrad_any", "batch_norm_bwd_rows"])
def test_a_wrong_part_shows(name):
    """A sixteenth of the elements of a gradient, its largest, is half a percent too large."""
    engine = next(e for e in adjoint.ENGINES if e.name == name)
    device = devices.get("ptx:sm_90")

    def fault(found):
        first = next(iter(found))
        value = found[first].copy()
        value.flat[np.argsort(np.abs(value), axis=None)[-(value.size // 16 + 1):]] *= 1.005
        return {**found, first: value}
    drawn = shapes(engine, device, 8, in_f32=True)
    problem, seed, right = max(drawn, key=lambda each: each[2].size)             # of some all gradients are 0
    wrong = adjoint.identity(problem, seed, engine, device, fault)
    assert right.holds and not wrong.holds, f"{problem} {right} {wrong}"


def test_every_backward_operation_has_engines():
    assert {e.op.name for e in adjoint.ENGINES} | {"conv_bgrad"} >= {op.name for op in adjoint.OPS}
