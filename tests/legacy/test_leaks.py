"""Calls and descriptors leave nothing behind. ``CYDNN_CALLS=1000000`` makes a million calls and a hundred
thousand of each descriptor; without it there are few."""
import copy
import gc
import os

import numpy as np
import pytest

from cydnn import cudnn as c
from support.guard.leaks import ROOM, check, growth, resident

from .arrays import conv_desc, filter_desc, tensor_desc
from .test_descriptors import CREATE, DESCRIPTORS

CALLS = int(os.environ.get("CYDNN_CALLS", 4000))
DEVICES = ["numpy", pytest.param("cuda:0", marks=pytest.mark.gpu)]
MANY = 70_000                                    # contents: more than are remembered


@pytest.fixture(autouse=True)
def only_what_is_new():
    """What other tests have left in this process is neither counted nor looked through."""
    gc.collect()
    gc.freeze()


@pytest.mark.parametrize("function", CREATE)
def test_descriptors_leave_nothing(function):
    """Created, set, turned into an address, copied, destroyed by the address; half are only dropped."""
    create, destroy = getattr(c, function), getattr(c, "destroy" + function.removeprefix("create"))
    name = function.removeprefix("create").removesuffix("Descriptor")
    set_ = DESCRIPTORS.get(name, (lambda desc: None,))[0]

    def step():
        desc = create()
        set_(desc)
        address = int(desc)
        copy.copy(desc)
        destroy(address)
        set_(create())
    check(growth(step, CALLS // 10))


@pytest.mark.parametrize("device", DEVICES)
def test_handles_leave_nothing(device):
    x = np.ones(24, np.float32)
    desc, first = tensor_desc(1, 2, 3, 4), c.create(device)
    buffer = first.device.alloc(x.nbytes)

    def step():
        handle = c.create(device)
        handle.reserve(1000)
        c.scaleTensor(handle, desc, buffer.ptr, 1.0)
        c.destroy(int(handle))
    check(growth(step, CALLS // 100, first.device.synchronize))
    c.destroy(first)


@pytest.mark.parametrize("device", DEVICES)
def test_calls_leave_nothing(device):
    """On plans that are known, with and without a lent workspace, and such as are refused."""
    handle = c.create(device)
    x, y, row = tensor_desc(1, 2, 4, 4), tensor_desc(1, 3, 2, 2), tensor_desc(1, 2, 1, 1)
    w, conv = filter_desc(3, 2, 3, 3), conv_desc()
    buffers = [handle.device.alloc(256) for _ in range(3)]
    at = [buffer.ptr for buffer in buffers]

    def step():
        c.convolutionForward(handle, 1.0, x, at[0], w, at[1], conv, 0, None, 0, 0.0, y, at[2])
        c.softmaxForward(handle, 1, 0, 1.0, x, at[0], 0.0, x, at[1])
        c.convolutionBackwardBias(handle, 1.0, x, at[0], 0.0, row, at[2])
    check(growth(step, CALLS // 6, handle.device.synchronize))
    assert len(handle.table) == 3

    def refused():
        try:
            c.softmaxForward(handle, 1, 0, 1.0, x, 0, 0.0, x, at[1])
        except c.CuDNNError:
            pass
    check(growth(refused, CALLS // 60, handle.device.synchronize))
    handle.device.synchronize()
    c.destroy(handle)


def test_ever_new_contents_are_forgotten():
    """More contents than are remembered: the stamps are dropped, and equal ones are equal again."""
    desc = c.createTensorDescriptor()
    sizes = []
    for first in range(1, 4 * MANY, MANY):
        for n in range(first, first + MANY):
            c.setTensor4dDescriptorEx(desc, 0, n, 1, 1, 1, 1, 1, 1, 1)
        sizes.append(resident())
    assert sizes[-1] - sizes[-2] < 4 * ROOM, sizes
    assert desc.stamp == copy.copy(desc).stamp
