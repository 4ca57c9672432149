"""Workspaces, determinism and alignment: which plan a call gets. Engines of the NumPy device
that pretend to need something."""
import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn import dtypes, engines, plan
from cydnn.engines import Engine
from cydnn.graph import core
from cydnn.legacy.trial import ZONE
from cydnn.ops import ConvFprop, SoftmaxFwd
from cydnn.status import AllocFailed, BadParam, NotSupported
from cydnn.steps import ReferenceCall
from cydnn.tensor import TensorDesc

from .arrays import Filter, Tensor, conv_desc, draw

NEED = 1024                                      # bytes


class Hungry(Engine):
    """Cheaper than the reference, with ``NEED`` bytes of workspace; takes 16-byte aligned tensors only."""
    price, hunger = 10.0, NEED

    def refuse(self, p, dev):
        if min(d.alignment for d in p.descs) < 16:
            yield "needs addresses that are multiples of 16"

    def cost(self, p, dev, config):
        return self.price

    def plan(self, p, dev, config):
        operands = {name: (t.desc, p.ptr(name)) if t is not None else None for name, t in p.operands.items()}
        if self.hunger:
            operands["scratch"] = (TensorDesc.packed(dtypes.u8, (self.hunger,)), p.scratch(self.hunger))
        return [ReferenceCall(p.op, operands, {name: p.scalar(name) for name in p.op.scalars})]


class HungryConv(Hungry):
    takes, index, v5 = core(ConvFprop), 109, ("IMPLICIT_GEMM",)


class HungryIndexed(HungryConv):
    index, v5 = 116, ("IMPLICIT_PRECOMP_GEMM",)


class Hungrier(HungryConv):
    index, price, hunger = 100, 5.0, 2 * NEED


class HungryColumns(HungryConv):
    index, v5 = 101, ("GEMM",)


class Random(HungryConv):
    index, price, hunger, notes = 100, 1.0, 0, ()
    v5 = "IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM"


class HungrySoftmax(Hungry):
    takes, index = core(SoftmaxFwd), 9002


def forget():
    """What was asked of other engines."""
    engines._for.cache_clear()
    plan.forget()


@pytest.fixture
def install(monkeypatch):
    """A function that puts engines in the place of all others."""
    def put(*table):
        monkeypatch.setattr(engines, "TABLE", table)
        for engine in table:
            monkeypatch.setitem(engines.BY_INDEX, engine.index, engine)
        forget()
    yield put
    monkeypatch.undo()
    forget()


@pytest.fixture
def hungry(install):
    """A handle whose device has these engines."""
    install(HungryConv(), HungryIndexed(), HungryColumns(), Random(), HungrySoftmax())
    found = c.create("numpy")
    yield found
    c.destroy(found)


X, W, Y, CONV = (Tensor((1, 2, 5, 5), draw(1, 2, 5, 5)), Filter((2, 2, 3, 3), draw(2, 2, 3, 3)),
                 Tensor((1, 2, 3, 3), 0), conv_desc())
DESCS = (X.desc, W.desc, CONV, Y.desc)
NO_WORKSPACE, FASTEST, LIMIT = (c.CUDNN_CONVOLUTION_FWD_NO_WORKSPACE, c.CUDNN_CONVOLUTION_FWD_PREFER_FASTEST,
                                c.CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT)
IMPLICIT, PRECOMP, GEMM = (c.CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                           c.CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                           c.CUDNN_CONVOLUTION_FWD_ALGO_GEMM)


def forward(handle, algo, workspace, size, y=Y.ptr):
    c.convolutionForward(handle, 1, X.desc, X.ptr, W.desc, W.ptr, CONV, algo, workspace, size, 0, Y.desc, y)


def answer(handle, algo):
    """y of a call without workspace."""
    Y.values = 0
    forward(handle, algo, 0, 0)
    return Y.values


def test_workspace_sizes(hungry):
    sizes = {algo: c.getConvolutionForwardWorkspaceSize(hungry, *DESCS, algo)
             for algo in (IMPLICIT, PRECOMP, GEMM)}
    assert sizes == {IMPLICIT: 0, PRECOMP: NEED, GEMM: NEED}


def test_a_workspace_that_is_too_small(hungry, refused):
    room = np.zeros(4 * NEED, np.uint8)
    start = room.ctypes.data + -room.ctypes.data % 256
    for _ in range(2):                           # without and with a plan in the table
        for workspace, size in ((start, NEED - 1), (0, NEED), (None, NEED), (start, 0)):
            refused(forward, BadParam, "cudnnConvolutionForward: workspace", hungry, PRECOMP, workspace, size)
        forward(hungry, PRECOMP, start, NEED)
        forward(hungry, PRECOMP, start, 2 * NEED)
        forward(hungry, IMPLICIT, 0, 0)
    forward(hungry, PRECOMP, start + 4, NEED + 12)                            # any element will do as a start


def test_preferences(hungry):
    choose = lambda preference, limit=0: c.getConvolutionForwardAlgorithm(hungry, *DESCS, preference, limit)
    assert choose(NO_WORKSPACE) == IMPLICIT and choose(FASTEST) == PRECOMP
    assert (choose(LIMIT, NEED - 1) == IMPLICIT and choose(LIMIT, NEED) == PRECOMP
            and choose(LIMIT, NEED + 1) == PRECOMP)


def test_find(hungry, monkeypatch):
    found = {p.algo: p for p in c.findConvolutionForwardAlgorithm(hungry, *DESCS, 9)}
    assert (found[PRECOMP].status, found[PRECOMP].memory, found[IMPLICIT].memory) == (0, NEED, 0)
    room = np.zeros(2 * NEED, np.uint8)
    for workspace, size in ((room, NEED - 1), (None, 10 * NEED)):
        found = c.findConvolutionForwardAlgorithmEx(hungry, X.desc, X.ptr, W.desc, W.ptr,
                                                    CONV, Y.desc, Y.ptr, 9, workspace, size)
        assert {p.algo: p.status for p in found}[IMPLICIT] == 0
        assert ({(p.status, p.time, p.memory) for p in found if p.algo in (PRECOMP, GEMM)}
                == {(AllocFailed.status, -1.0, NEED)})
    start = room.ctypes.data + -room.ctypes.data % 16 + 4
    for size, status in ((NEED + 12, 0), (NEED + 11, AllocFailed.status)):    # any element will do as a start
        found = c.findConvolutionForwardAlgorithmEx(hungry, X.desc, X.ptr, W.desc, W.ptr,
                                                    CONV, Y.desc, Y.ptr, 9, start, size)
        assert {p.algo: p.status for p in found}[PRECOMP] == status
    alloc = hungry.device.alloc

    def scarce(size):
        if size == NEED + 2 * ZONE:
            raise AllocFailed("no memory")
        return alloc(size)
    monkeypatch.setattr(hungry.device, "alloc", scarce)
    found = {p.algo: p for p in c.findConvolutionForwardAlgorithm(hungry, *DESCS, 9)}
    assert ((found[PRECOMP].status, found[PRECOMP].memory, found[IMPLICIT].status)
            == (AllocFailed.status, NEED, 0))


def test_the_handle_lends_a_workspace(hungry):
    x, y = Tensor((2, 3, 1, 1), draw(2, 3, 1, 1)), Tensor((2, 3, 1, 1))
    assert hungry.scratch_bytes == 0
    for stream in (0, 7, 0):
        c.setStream(hungry, stream)
        c.softmaxForward(hungry, 1, 1, 1, x.desc, x.ptr, 0, y.desc, y.ptr)
        assert hungry.scratch_bytes >= NEED
        np.testing.assert_allclose(y.values.sum(axis=1), 1, rtol=1e-6)


def test_an_algorithm_without_workspace_borrows_where_every_engine_needs_some(hungry, install, monkeypatch):
    want = answer(c.create("numpy"), IMPLICIT)
    install(HungryConv(), Hungrier())
    monkeypatch.setattr(engines.REFERENCE.__class__, "refuse", lambda self, p, dev: iter(("is asleep",)))
    assert c.getConvolutionForwardWorkspaceSize(hungry, *DESCS, IMPLICIT) == 0
    assert c.getConvolutionForwardAlgorithm(hungry, *DESCS, NO_WORKSPACE, 0) == IMPLICIT
    for stream in (0, 0, 9, 0):
        c.setStream(hungry, stream)
        np.testing.assert_array_equal(answer(hungry, IMPLICIT), want)
        assert hungry.scratch_bytes >= 2 * NEED          # of the cheapest, not of the one that needs least


def test_only_deterministic_engines_serve(hungry):
    # not the cheaper one without a workspace
    assert c.getConvolutionForwardWorkspaceSize(hungry, *DESCS, PRECOMP) == NEED


def test_addresses_off_16_bytes_get_a_plan_of_their_own(hungry):
    room = np.zeros(64, np.float32)
    work = np.zeros(2 * NEED, np.uint8)
    work = work.ctypes.data + -work.ctypes.data % 16
    forward(hungry, PRECOMP, work, NEED)
    for shift in range(8):
        room[:] = 0
        forward(hungry, PRECOMP, work, NEED, room[shift:])
        np.testing.assert_array_equal(room[shift:shift + 18], Y.values.ravel())
        assert not room[:shift].any() and not room[shift + 18:].any()


def test_no_engine(hungry, install, refused, monkeypatch):
    monkeypatch.setattr(engines.REFERENCE.__class__, "refuse", lambda self, p, dev: iter(("is asleep",)))
    install()
    error = refused(forward, NotSupported,
                    "(?s)cudnnConvolutionForward: conv_fprop: no engine takes .*is asleep",
                    hungry, IMPLICIT, 0, 0)
    assert error.facts["reasons"]
    refused(c.getConvolutionForwardAlgorithm, NotSupported, "(?s)no algorithm can do this:.*is asleep",
            hungry, *DESCS, FASTEST, 0)
