"""The timed search: what it runs on, what it says, and what it makes of an algorithm that writes where it
must not."""
from __future__ import annotations

import logging
import sys

import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn import engines, plan
from cydnn.device.numpy import NumpyExecutable
from cydnn.engines.engine import Engine
from cydnn.graph import core
from cydnn.legacy import handle as handles
from cydnn.legacy.trial import MARK, ZONE, TrialBuffer
from cydnn.ops import ConvFprop, Transform
from cydnn.status import InternalError
from cydnn.steps import ReferenceCall
from cydnn.tensor import TensorDesc
from support.guard import fills

from .arrays import FLOAT, HALF, conv_desc, filter_desc, tensor_desc

DESCS = (tensor_desc(2, 3, 6, 5), filter_desc(4, 3, 3, 3), conv_desc(), tensor_desc(2, 4, 4, 3))
IMPLICIT, PRECOMP, GEMM, WINOGRAD = (getattr(c, f"CUDNN_CONVOLUTION_FWD_ALGO_{word}") for word in (
    "IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "GEMM", "WINOGRAD"))


class Honest(Engine):
    """Cheaper than the reference; computes what it should, then does ``more``."""
    takes, index, v5 = core(ConvFprop), 101, ("GEMM",)

    def cost(self, p, dev, config):
        return 1.0

    def plan(self, p, dev, config):
        operands = {name: (t.desc, p.ptr(name)) for name, t in p.operands.items()}
        call = ReferenceCall(p.op, operands, {name: p.scalar(name) for name in p.op.scalars})
        return [call, *self.more(p)]

    def more(self, p):
        return []


def bytes_to(p, pointer, count):
    """A step that copies the first bytes of x."""
    desc = TensorDesc.packed("u8", (count,))
    return ReferenceCall(Transform(), dict(x=(desc, p.ptr("x")), y=(desc, pointer)),
                         dict(alpha=p.scalar("alpha"), beta=p.scalar("beta")))


class Behind(Honest):
    def more(self, p):
        return [bytes_to(p, p.ptr("y", p.y.bytes + 3), 5)]


class InFront(Honest):
    def more(self, p):
        return [bytes_to(p, p.ptr("x", -8), 8)]


class BehindItsWorkspace(Honest):
    def more(self, p):
        return [bytes_to(p, p.scratch(512) + 512, 16)]


def forget():
    """What was asked of other engines."""
    engines._for.cache_clear()
    plan.forget()


@pytest.fixture
def install(monkeypatch):
    def put(engine):
        monkeypatch.setattr(NumpyExecutable, "execute", fills.plain)
        monkeypatch.setattr(engines, "TABLE", (engine,))
        monkeypatch.setitem(engines.BY_INDEX, engine.index, engine)
        forget()
        return c.create("numpy")
    yield put
    monkeypatch.undo()
    forget()


def find(handle, descs=DESCS):
    return {p.algo: p for p in c.findConvolutionForwardAlgorithm(handle, *descs, 9)}


@pytest.mark.parametrize("engine, count", [(Behind, 5), (InFront, 8), (BehindItsWorkspace, 16)])
def test_what_writes_beside_the_buffers_fails_alone(install, caplog, engine, count):
    handle = install(engine())
    with caplog.at_level(logging.WARNING, "cydnn"):
        found = find(handle)
    assert (found[GEMM].status, found[GEMM].time, found[GEMM].memory) == (InternalError.status, -1.0, 0)
    assert found[IMPLICIT].status == found[PRECOMP].status == found[WINOGRAD].status == 0
    line, = [r.getMessage() for r in caplog.records]
    assert line == ("cudnnFindConvolutionForwardAlgorithm: algo GEMM: CUDNN_STATUS_INTERNAL_ERROR: "
                    f"{count} bytes beside the buffers were written")
    order = c.findConvolutionForwardAlgorithm(handle, *DESCS, 9)       # behind those that work
    assert order[[p.status for p in order].count(0)].algo == GEMM


def test_what_keeps_to_its_buffers_does_not(install):
    assert find(install(Honest()))[GEMM].status == 0


def test_a_line_for_each_algorithm(install, caplog):
    with caplog.at_level(logging.INFO, "cydnn"):
        found = find(install(Honest()))
    lines = [r.getMessage().removeprefix("cudnnFindConvolutionForwardAlgorithm: algo ")
             for r in caplog.records if "algo" in r.getMessage()]
    assert [line.split(":")[0] for line in lines] == (
        "IMPLICIT_GEMM IMPLICIT_PRECOMP_GEMM GEMM DIRECT FFT FFT_TILING WINOGRAD".split())
    assert f"GEMM: {found[GEMM].time:.4f} ms, 0 bytes of workspace" in lines
    assert any(line.startswith("DIRECT: CUDNN_STATUS_NOT_SUPPORTED: ") for line in lines)


def test_a_bar_where_it_is_asked_for(install, monkeypatch, capsys):
    pytest.importorskip("tqdm")
    handle = install(Honest())
    find(handle)
    assert not capsys.readouterr().err
    monkeypatch.setenv("CYDNN_PROGRESS", "1")
    find(handle)
    assert "cudnnFindConvolutionForwardAlgorithm" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert find(handle)[GEMM].status == 0


def test_the_median_counts(monkeypatch):
    handle, times = c.create("numpy"), iter([9.0, 1.0, 7.0, 3.0, 100.0])
    monkeypatch.setattr(handles.Handle, "_timed", lambda self, run: next(times))
    ran = []
    assert handle.milliseconds(lambda: ran.append(1)) == 7.0 and len(ran) == 1


@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_trials_run_on_random_numbers(dtype):
    handle, desc = c.create("numpy"), TensorDesc.packed({FLOAT: "f32", HALF: "f16"}[dtype], (3, 700001))
    buffer = TrialBuffer(handle, desc.bytes)
    buffer.fill(desc, 1)
    values = handle.device.copy_out(buffer.ptr, np.empty(desc.count, desc.dtype.numpy)).astype(float)
    assert values.min() < -0.99 and values.max() > 0.99 and abs(values.mean()) < 0.01
    assert buffer.stray_bytes() == 0
    behind = buffer.ptr + desc.bytes
    for place in (buffer.ptr - 1, buffer.ptr - ZONE, behind, behind + ZONE - 1):
        handle.device.memset(place, MARK ^ 1, 1)
        assert (buffer.stray_bytes(), buffer.stray_bytes()) == (1, 0)
    buffer.free()
