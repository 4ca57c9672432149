"""Several handles in several threads, and one handle for all of them: values, workspaces, streams."""
import ctypes
import threading
import time

import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn._core import stream_of
from cydnn.legacy.softmax import FORWARD
from cydnn.status import BadParam
from support.guard import threads

from .arrays import FLOAT, draw, tensor_desc

THREADS, ROUNDS = 8, {"numpy": 12, "ptx:sm_80": 2, "cuda:0": 300}
DEVICES = ["numpy", "ptx:sm_80", pytest.param("cuda:0", marks=pytest.mark.gpu)]


@pytest.fixture(autouse=True)
def eager():
    """Threads take turns all the time."""
    with threads.quick_switches():
        yield


def together(work, count=THREADS):
    """``work(number)`` in every thread at once; the first exception is raised here."""
    failed = threads.together(work, count)
    if failed:
        raise failed[0]


class Session:
    """One thread's tensors, and its calls: each is checked against float64 arithmetic. Some need a
    workspace that the handle lends."""

    def __init__(self, handle, number):
        self.handle, self.device = handle, handle.device
        self.dims = (2, 3 + number % 3, 5, 4 + number)
        self.x = np.ascontiguousarray(draw(*self.dims, seed=number), np.float32)
        self.desc, self.bias = tensor_desc(*self.dims), tensor_desc(1, self.dims[1], 1, 1)
        self.at = {name: self.device.alloc(self.x.nbytes) for name in "x y b m v".split()}
        self.device.copy_in(self.at["x"].ptr, self.x)

    def read(self, name, count):
        self.device.synchronize(self.handle.stream)
        return self.device.copy_out(self.at[name].ptr, np.empty(count, np.float32))

    def round(self):
        at, (n, k, h, w) = {name: buffer.ptr for name, buffer in self.at.items()}, self.dims
        wide, axes = self.x.astype(float), (0, 2, 3)
        c.convolutionBackwardBias(self.handle, 1, self.desc, at["x"], 0, self.bias, at["b"])
        np.testing.assert_allclose(self.read("b", k), wide.sum(axes), atol=1e-4)
        c.softmaxForward(self.handle, 1, 0, 1, self.desc, at["x"], 0, self.desc, at["y"])
        top = np.exp(wide - wide.max((1, 2, 3), keepdims=True))
        np.testing.assert_allclose(self.read("y", wide.size),
                                   (top / top.sum((1, 2, 3), keepdims=True)).ravel(), atol=1e-5)
        c.setTensor(self.handle, self.bias, at["b"], 1.0)
        c.batchNormalizationForwardTraining(self.handle, 1, 1, 0, self.desc, at["x"], self.desc, at["y"],
                                            self.bias, at["b"], at["b"], 1.0, 0, 0, 1e-3, at["m"], at["v"])
        mean = wide.mean(axes, keepdims=True)
        rstd = (wide.var(axes, keepdims=True) + 1e-3) ** -0.5
        np.testing.assert_allclose(self.read("y", wide.size), ((wide - mean) * rstd + 1).ravel(), atol=1e-4)
        np.testing.assert_allclose(self.read("m", k), mean.ravel(), atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_a_handle_in_each_thread(device):
    def work(number):
        handle = c.create(device)
        stream = handle.device.create_stream()
        c.setStream(handle, stream)
        session = Session(handle, number)
        for _ in range(ROUNDS[device]):
            session.round()
        assert c.getStream(handle) == stream_of(stream)
        c.destroy(handle)
    together(work)


@pytest.mark.parametrize("device", DEVICES)
def test_one_handle_in_all_threads(device):
    handle = c.create(device)

    def work(number):
        session = Session(handle, number)
        for _ in range(ROUNDS[device]):
            session.round()
    together(work)
    c.destroy(handle)


class InScratch:
    """A plan that works in the lent workspace for a while, and looks whether it was alone."""
    workspace_bytes = 64

    def __init__(self):
        self.calls, self.disturbed = 0, 0

    def execute(self, pointers, scalars, workspace, workspace_bytes, stream):
        if workspace_bytes < self.workspace_bytes:
            raise BadParam("workspace: must have at least 64 bytes")
        memory = ctypes.c_uint64.from_address(workspace)
        memory.value = me = threading.get_ident()
        time.sleep(1e-4)
        self.calls, self.disturbed = self.calls + 1, self.disturbed + (memory.value != me)


@pytest.mark.parametrize("is_known", (False, True), ids=("first", "known"))
def test_a_lent_workspace_is_of_one_thread_at_a_time(is_known):
    """By the slow path (the handle has lent nothing yet) and by the fast one."""
    handle, desc, plan = c.create("numpy"), tensor_desc(1, 2, 3, 4), InScratch()
    x = np.zeros(24, np.float32)
    if is_known:
        handle.reserve(64)
    handle.table.put(FORWARD, (0, 1, desc, desc), True, plan)
    together(lambda _: [c.softmaxForward(handle, 0, 1, 1.0, desc, x.ctypes.data & ~15, 0.0, desc,
                                         x.ctypes.data & ~15) for _ in range(20)])
    assert plan.calls == 20 * THREADS and plan.disturbed == 0
    with handle.turns, handle.turns:                          # a thread may take it several times over
        c.softmaxForward(handle, 0, 1, 1.0, desc, x.ctypes.data & ~15, 0.0, desc, x.ctypes.data & ~15)
    together(lambda _: handle.turns.__enter__() or handle.turns.__exit__())
    c.destroy(handle)


def test_a_failing_call_gives_the_workspace_back(refused):
    handle, desc = c.create("numpy"), tensor_desc(1, 2, 3, 4)
    handle.reserve(64)
    refused(c.softmaxForward, BadParam, "x must not be NULL", handle, 0, 1, 1.0, desc, 0, 0.0, desc, 0)
    together(lambda _: handle.turns.__enter__() or handle.turns.__exit__(), 2)
    c.destroy(handle)


def test_each_handle_has_its_stream():
    handles = [c.create("numpy") for _ in range(3)]
    for number, handle in enumerate(handles):
        c.setStream(handle, number << 8)
    assert [c.getStream(h) for h in handles] == [0, 0x100, 0x200]
    c.setStream(handles[2], None)
    assert [c.getStream(h) for h in handles] == [0, 0x100, 0]
    [c.destroy(h) for h in handles]


@pytest.mark.gpu
def test_handles_run_on_their_own_streams(gpu):
    """A stream that is held up holds up the work of its handle, and of no other."""
    import torch
    x = torch.ones(64, device="cuda")
    slow, fast = torch.cuda.Stream(), torch.cuda.Stream()
    one, other, desc = c.create("cuda:0"), c.create("cuda:0"), tensor_desc(1, 1, 1, 64, dtype=FLOAT)
    c.setStream(one, slow), c.setStream(other, fast)
    y, z = x.clone(), x.clone()
    for handle, t in ((one, y), (other, z)):
        c.scaleTensor(handle, desc, t, 1.0)                   # plans are made, kernels loaded
    torch.cuda.synchronize()
    with torch.cuda.stream(slow):
        torch.cuda._sleep(1 << 29)
    c.scaleTensor(one, desc, y, 2.0), c.scaleTensor(other, desc, z, 3.0)
    fast.synchronize()
    assert not slow.query()
    torch.cuda.synchronize()
    assert (y == 2).all() and (z == 3).all()
    c.destroy(one), c.destroy(other)
