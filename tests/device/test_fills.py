"""What the zones and the fills around memory show, on the NumPy device and the interpreter."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn import plan
from cydnn.bench import graph_of
from cydnn.device import get, numpy as host
from cydnn.device.ptx import arena
from cydnn.ops import Problem
from support.guard import buffers
from support.check import matrix
from support.guard.fills import FILLS, GUARD

PROBLEM = Problem.parse("scale_tensor 4x8 f32")
BATCH_NORM = Problem.parse("batch_norm_training n4c3h5w5 f32")


def scaled(y):
    plan.build(graph_of(PROBLEM, dict(alpha=2.0)), "numpy").execute([y])
    return y


def test_sizes():
    assert (GUARD, buffers.GUARD, FILLS) == (65536, 65536, (0xFF, 0xA5)) and arena.GAP == buffers.NEAR == 512


def test_a_call_gives_what_it_gives_alone():
    y = np.arange(32, dtype=np.float32)
    np.testing.assert_array_equal(scaled(y), 2 * np.arange(32))


@pytest.mark.parametrize("by", [-4, 4])
def test_what_reads_outside_is_found(by, monkeypatch):
    plain = host.read
    monkeypatch.setattr(host, "read", lambda desc, address: plain(desc, address + by))
    with pytest.raises(AssertionError, match="scale_tensor .*: y has other bits where what is beside it"):
        scaled(np.zeros(32, np.float32))


@pytest.mark.parametrize("by", [-65536, -4, 4, 65536])
def test_what_writes_outside_is_found(by, monkeypatch):
    plain = host.write
    monkeypatch.setattr(host, "write", lambda desc, address, values: plain(desc, address + by, values))
    with pytest.raises(AssertionError, match="scale_tensor .*: bytes were written beside an operand"):
        scaled(np.zeros(32, np.float32))


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_80"])
def test_the_matrix_sees_what_is_written_beside(device):
    device = get(device)
    space = buffers.Space(device, 64)
    assert space.ptr % 32 == 16 and space.changed_beside() == 0
    for at in (space.buffer.ptr, space.ptr - 1, space.ptr + 64, space.buffer.ptr + space.total - 1):
        device.copy_in(at, np.zeros(1, np.uint8))
    assert space.changed_beside() == 4


def test_both_fills_give_the_same_bits_of_a_kernel():
    """And are told from what is the tensor's own."""
    device = get("ptx:sm_80")
    made = matrix.Prepared(BATCH_NORM, 3)
    bits = []
    for fill in FILLS:
        assert made.once(plan.build(made.graph, device), device, bits, fill) == []
    assert bits[0] == bits[1]
