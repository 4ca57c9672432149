"""What support/two_devices.py and periodic.py ask of a driver with two devices that compute nothing."""
import struct

import numpy as np
import pytest

from cydnn import device
from cydnn.device.cuda import CudaDevice
from cydnn.engines import TABLE
from cydnn.ops import Problem
from support.guard import two_devices
from support.check import periodic

from conftest import PTX, Fake

PROBLEM = Problem.parse("conv_wgrad n2c8h8w8 k8r3s3 pad1 f16 nhwc")
ENGINE = next(e for e in TABLE if e.name == "conv_wgrad_mma")


@pytest.fixture
def two(fake, monkeypatch):
    monkeypatch.setattr(CudaDevice, "function",
                        lambda self, name, fuse=None, ways=(): self.context.load(PTX % name.encode(), name))
    return device.get("cuda:0"), device.get("cuda:1")


def test_memory_of_another_device(two, fake):
    assert not two_devices.refused(PROBLEM, ENGINE, *two)
    assert not two_devices.apart(PROBLEM, ENGINE, *two)


def test_what_is_taken_is_told(two):
    """Here "another device" is the same."""
    wrong = two_devices.refused(PROBLEM, ENGINE, two[0], two[0])
    assert [text.split()[0] for text in wrong][:3] == ["x", "dy", "dw"]


def test_other_results_are_told(two, monkeypatch):
    execute = two_devices.Runs.execute

    def other(self, stream):
        execute(self, stream)
        self.device.memset(self.outs[0][0], self.device.context.ordinal, 4, stream)
    monkeypatch.setattr(two_devices.Runs, "execute", other)
    assert two_devices.apart(PROBLEM, ENGINE, *two) == ["cuda:1 gives other results than cuda:0"]


def test_periods_are_spread_and_compared_on_the_device(two):
    here, values = two[0], np.arange(10, dtype=np.uint8)
    memory = here.alloc(107)
    here.copy_in(memory.ptr, values)
    periodic.spread(here, memory.ptr, 10, 107)
    assert (here.copy_out(memory.ptr, np.empty(107, np.uint8)) == np.resize(values, 107)).all()
    assert periodic.apart(here, memory.ptr, 10, 106) == (0, 2 ** 64 - 1)     # the kernel does nothing here
    launch, at = Fake().last(), int(memory.ptr)
    assert launch.name == b"apart" and launch.bytes == 32
    assert struct.unpack("<3Q", bytes(launch.data[:24])) == (at, at + 10, 48)
