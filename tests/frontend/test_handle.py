"""What may stand for a handle: a number, a device or its name, an object with a device; all else is refused
before anything is built."""
from __future__ import annotations

import re
from unittest.mock import Mock

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn import cudnn as v5, device as devices
from cydnn.status import BadParam, CydnnError

from .conftest import floats


class Stream:
    """A stream of torch: ``device`` is an object whose text is a name."""

    class Device:
        def __str__(self):
            return "numpy"
    device, cuda_stream = Device(), 64


class Thing:
    def __init__(self, device):
        self.device = device


class Torn:
    @property
    def device(self):
        raise RuntimeError("lost")


class Willing:
    """Has whatever it is asked for, as a mock has."""

    def __getattr__(self, name):
        return self


def named(value) -> str:
    """The same in every process."""
    return repr(value) if isinstance(value, (int, float, str, bytes)) else type(value).__name__


@pytest.mark.parametrize("handle, name, stream", [
    ("numpy", "numpy", 0), ("ptx:sm_80", "ptx:sm_80", 0), (devices.get("ptx:sm_90"), "ptx:sm_90", 0),
    (Thing("numpy"), "numpy", 0), (Thing(devices.get("ptx:sm_80")), "ptx:sm_80", 0), (Stream(), "numpy", 64)],
    ids=named)
def test_what_names_a_device(handle, name, stream):
    """Where a graph is made, and where it runs."""
    x, out = np.linspace(-1, 1, 8, dtype=np.float32), np.empty(8, np.float32)
    for given, later in ((handle, None), (cudnn.create_handle(name), handle)):
        g = floats(handle=given)
        a = g.tensor([8], [1])
        b = g.relu(a).set_output(True)
        g.build([cudnn.heur_mode.A])
        assert g.own_handle.device is devices.get(name)
        out[:] = np.nan
        g.execute({a: x, b: out}, 0, handle=later)
        np.testing.assert_array_equal(out, np.maximum(x, 0))
    assert floats(handle=handle).own_handle.stream == stream


def test_a_handle_of_the_v5_api():
    handle = v5.create("numpy")
    v5.setStream(handle, 32)
    assert floats(handle=handle).own_handle is handle and cudnn.get_stream(handle) == 32
    v5.destroy(handle)
    with pytest.raises(BadParam, match="handle: must not be destroyed; got <Handle destroyed>"):
        floats(handle=handle)


@pytest.mark.parametrize("handle", [12345, -1, True, 1.0, 1.5, object(), [], {}, re, Thing(None), b"numpy",
                                    np.int64(1), (1,), Torn(), Willing(), Mock()],
                         ids=named)
def test_what_is_no_handle(handle):
    cudnn.create_handle("numpy")
    g = floats(handle="numpy")
    a = g.tensor([8], [1])
    b = g.relu(a).set_output(True)
    g.build([cudnn.heur_mode.A])
    out = np.zeros(8, np.float32)
    for call in (lambda: floats(handle=handle), lambda: g.execute({a: out, b: out}, 0, handle=handle),
                 lambda: g.execute_plan_at_index({a: out, b: out}, 0, 0, handle=handle),
                 lambda: cudnn.set_stream(handle, 0), lambda: cudnn.get_stream(handle)):
        with pytest.raises(BadParam, match=f"handle: must be one of .*; got {re.escape(repr(handle))}"):
            call()


@pytest.mark.parametrize("name", ["nonsense", "cuda:7", "cuda:x", "", "ptx:", "ptx:sm_10", "numpy:0"])
def test_names_that_are_no_device(name):
    for call in (lambda: floats(handle=name), lambda: floats(handle=Thing(name)),
                 lambda: cudnn.create_handle(name)):
        with pytest.raises(CydnnError):
            call()


def test_a_block_destroys_it():
    with cudnn.create_handle("numpy") as handle:
        assert cudnn.get_stream(handle) == 0 and repr(handle).isdigit()
    with pytest.raises(BadParam, match="handle: must be one of create_handle"):
        cudnn.get_stream(handle)
    with cudnn.create_handle("numpy") as handle:
        cudnn.destroy_handle(handle)                   # who was first is no matter


@pytest.mark.parametrize("handle", ["numpy", 1.0, True, None])
def test_a_name_keeps_no_stream(handle):
    with pytest.raises(BadParam, match="handle: must be one of create_handle; got"):
        cudnn.set_stream(handle, 8)


@pytest.mark.parametrize("device", [1.5, re, object(), "tpu", -7, Torn(), Willing(), Mock()], ids=named)
def test_what_is_no_device(device):
    for call in (devices.get, cudnn.create_handle, v5.create)[:1 if device == -7 else 3]:
        with pytest.raises(BadParam, match='device: must be "cuda:N", "ptx:sm_N", "numpy" or a device; got'):
            call(device)
